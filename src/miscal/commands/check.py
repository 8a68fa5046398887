"""The command `miscal check`: an audit that a pipeline can fail on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from miscal.cli import audit_options, memory_ceiling, most_levels, progress_bar, table_options, time_options
from miscal.data.errors import refusal
from miscal.data.places import prepared

__all__ = ["check"]


def _limits(values: tuple[str, ...]) -> dict[str, float]:
    """Read "state=0.02" as a column and its limit."""
    made = {}
    for value in values:
        column, sign, limit = value.rpartition("=")
        try:
            made[column] = float(limit)
        except ValueError:
            sign = ""
        if not sign or not column or not made[column] >= 0:
            raise refusal("must look like column=0.02", where="--max-field", got=f"it is {value!r}")
    return made


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@table_options
@time_options
@memory_ceiling
@most_levels
@click.option(
    "--config", type=click.Path(path_type=Path), help="TOML file of gates; else miscal.toml or pyproject.toml."
)
@click.option(
    "--max-multicalibration-sigma", type=float, help="Largest error of a subpopulation, in deviations of noise."
)
@click.option("--max-expected", type=float, help="Largest expected calibration error along the score.")
@click.option("--max-kuiper", type=float, help="Largest Kuiper calibration error.")
@click.option("--max-gap", type=float, help="Largest |predicted - happened| over all rows.")
@click.option("--max-field", multiple=True, help="Largest error over a column, such as state=0.02; repeat.")
@click.option("--max-findings", type=int, help="Most findings beyond noise.")
@click.option("--no-new-findings", type=click.Path(), help="JSON of an earlier audit; findings it lacks fail.")
@click.option("--junit", type=click.Path(path_type=Path), help="JUnit XML to write.")
@click.option("--annotations", is_flag=True, help="Print failures as workflow annotations.")
@click.option("--out", type=click.Path(path_type=Path), help="Page to write.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="JSON to write.")
@click.pass_context
def check(
    context: click.Context, /, file: Path, config: Path | None, junit: Path | None, annotations: bool, out: Path | None,
    json_path: Path | None, **options: Any,
) -> None:  # fmt: skip
    """Audit a table and exit with 1 if a gate fails, one line a failure."""
    from miscal.auditing.audit import audit
    from miscal.auditing.gates import Gates, annotation, gate_value, judge, read_gates
    from miscal.auditing.gates import junit as as_junit
    from miscal.page.json import read_json, write_text

    names = ("max_multicalibration_sigma", "max_expected", "max_kuiper", "max_gap", "max_findings", "no_new_findings")
    flags = {name: options.pop(name) for name in names}
    fields = _limits(options.pop("max_field"))
    gates = Gates(**read_gates(config))
    given = {name: value for name, value in flags.items() if value is not None}
    gates = replace(gates, **{n: gate_value(n, value, f"--{n.replace('_', '-')}") for n, value in given.items()})
    gates = replace(gates, max_field={**gates.max_field, **gate_value("max_field", fields, "--max-field")})
    if gates == Gates():
        raise refusal(
            "has no gate to check", where="check", hint="give --max-expected, --max-field, ... or miscal.toml"
        )
    read = {"table": file, "baseline": gates.no_new_findings, "configuration": config}
    prepared({"--out": out, "--json": json_path, "--junit": junit}, **read)
    baseline = read_json(gates.no_new_findings) if gates.no_new_findings else None
    with progress_bar() as progress:
        found = audit(file, progress=progress, **audit_options(options))
    outcomes = judge(found.document, gates, baseline)
    for outcome in outcomes:
        if not outcome.passed:
            click.echo(f"failed {outcome.name}: {outcome.line}")
            if annotations:
                click.echo(annotation(outcome, str(file)))
    if junit is not None:
        write_text(junit, as_junit(outcomes))
    if out is not None:
        found.to_html(out)
    if json_path is not None:
        found.to_json(json_path)
    failed = sum(not outcome.passed for outcome in outcomes)
    if not failed:
        click.echo(f"passed: {len(outcomes)} of {len(outcomes)} gates")
    context.exit(1 if failed else 0)

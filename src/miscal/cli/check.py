"""The command `miscal check`: an audit that a pipeline can fail on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from miscal.cli import options as common
from miscal.cli import say
from miscal.cli.terminal import progress_bar
from miscal.data.errors import refusal
from miscal.data.outputs import prepared

__all__ = ["check"]
FAILED = 1  # and nothing else ends so
LIMITS = ("multicalibration_sigma", "expected", "kuiper", "gap", "ratio_off", "field", "findings")  # each a limit, max_


@click.command()
@click.argument("file", type=common.PATH, is_eager=True)
@common.options("check")
@click.pass_context
def check(
    context: click.Context, /, file: Path, config: Path | None, junit: Path | None, annotations: bool, out: Path | None,
    json_path: Path | None, **options: Any,
) -> None:  # fmt: skip
    """Audit a table and exit with 1 if a gate fails, one line a failure."""
    from miscal.auditing.audit import Audit, audit
    from miscal.auditing.gates import annotation, judge
    from miscal.auditing.gates import junit as as_junit
    from miscal.page.json import write_text

    most = 1.0 if options["response"] == "binary" else math.inf
    given = {name: options.pop(name) for name in (*(f"max_{each}" for each in LIMITS), "no_new_findings")}
    gates = _gates(config, given, most)
    read = {"table": file, "baseline": gates.no_new_findings, "configuration": config}
    prepared({"--out": out, "--json": json_path, "--junit": junit}, **read)
    baseline = Audit.load(gates.no_new_findings).document if gates.no_new_findings else None
    made = common.audit_options(options)
    if out is None and json_path is None and file.suffix != ".tally":
        made |= _only_asked(gates, made)
    below = made.pop("suppress_below")  # judged by every cell, then hidden
    with progress_bar() as progress:
        found = audit(file, progress=progress, **made)
    shown = found.suppressed(below) if below else found
    outcomes = judge(found.document, gates, baseline, shown.document)
    if junit is not None:
        write_text(junit, as_junit(outcomes))
    if out is not None:
        shown.to_html(out)
    if json_path is not None:
        shown.to_json(json_path)
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        say(f"failed {outcome.name}: {outcome.line}")
        if annotations:
            say(annotation(outcome, str(file)))
    if not failed:
        say(f"passed: {len(outcomes)} of {len(outcomes)} gates")
    context.exit(FAILED if failed else 0)


def _only_asked(gates: Any, made: dict[str, Any]) -> dict[str, Any]:
    """The columns to read where the gates ask for numbers of the score and of some columns only, not for findings."""
    from miscal.auditing.column_choice import named

    if made["by"] or gates.max_multicalibration_sigma is not None:
        return {}
    if gates.max_findings is not None or gates.no_new_findings:
        return {}
    roles = ("outcome", "weight", "count", "cluster", "prediction", "exposure", "probability")
    taken = {name for role in roles for name in named(made.get(role))}
    return {"columns": [name for name in gates.max_field if name not in taken]}


def _gates(config: Path | None, flags: dict[str, Any], most: float) -> Any:
    """The gates of the file, and those of the options over them."""
    from miscal.auditing.gates import Gates, gate_value, read_gates

    known = read_gates(config, most=most)
    fields = {**known.get("max_field", {}), **_limits(flags.pop("max_field"))}
    given = {name: value for name, value in {**flags, "max_field": fields}.items() if value is not None}
    known |= {name: gate_value(name, value, f"--{name.replace('_', '-')}", most) for name, value in given.items()}
    gates = Gates(**known)
    if gates == Gates():
        hint = "give --max-expected, --max-field, ... or miscal.toml"
        raise refusal("has no gate to check", where="check", hint=hint)
    return gates


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

"""The commands: one function each, named as it is called; its options stand under that name in options.toml.

A command reads its options, calls the library and prints what it wrote. It computes nothing: numbers come from
`miscal.auditing` and `miscal.recalibrate`, text from `miscal.cli.terminal`. A new command needs a function here, its
options there, and its name in `miscal.cli.COMMANDS`.
"""

import math
import shlex
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import click

from miscal.aggregate.column_roles import ColumnRoles
from miscal.aggregate.source import open_source
from miscal.aggregate.summary import Summary
from miscal.auditing.record import Audit
from miscal.cli import echo
from miscal.cli.terminal import progress_bar, write_and_print, written
from miscal.data.arrays import Plain
from miscal.data.errors import MiscalError, refusal, refusing, visible
from miscal.data.outputs import prepared, write_together, write_whole
from miscal.data.sources import unnamed
from miscal.report.codec import dumps, plain, write_text

FAILED = 1  # the exit status of a gate, and of nothing else
MOST_SEGMENTS = 15  # listed after a recalibration
METHODS = {
    "histogram": "HistogramBinning",
    "isotonic": "IsotonicCalibration",
    "scaling-binning": "ScalingBinning",
    "platt": "PlattScaling",
    "beta": "BetaCalibration",
}
PATH = click.Path(path_type=Path)
OPTIONS = tomllib.loads(resources.files("miscal.cli").joinpath("options.toml").read_text(encoding="utf-8"))
TYPES = {"path": PATH, "name": click.Path(), "number": float, "whole": int}
TYPES |= {f"from {least}": click.IntRange(min=least) for least in (0, 1)}
# What the columns of a table are and how widely to look; what is predicted, where that is no event.
TABLE = "outcome probability logit positive weight count cluster by ignore effort seed"
TABLE += " prediction response exposure"


class OptionWithAliases(click.Option):
    """An option that also answers to earlier names, which no help text shows."""

    def __init__(self, flags: list[str], *, aliases: list[str], **attributes: Any) -> None:
        super().__init__([*flags, *aliases], **attributes)
        self.aliases = aliases

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        every_name = self.opts
        self.opts = [name for name in every_name if name not in self.aliases]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every_name


def command(function: Any) -> click.Command:
    """A command that takes the options under its name in options.toml."""
    table = OPTIONS[function.__name__]
    for listed in reversed(table["options"].replace("TABLE", TABLE).split()):
        name = listed.rstrip("!")
        attributes = {**OPTIONS["all"].get(name, {}), **table.get(name, {})}
        if "type" in attributes:
            kind = attributes["type"]
            attributes["type"] = click.Choice(kind) if isinstance(kind, list) else TYPES[kind]
        flags = attributes.pop("flags", [f"--{name}"])
        option_class = OptionWithAliases if "aliases" in attributes else click.Option
        function = click.option(*flags, cls=option_class, required=listed != name, **attributes)(function)
    return click.command()(function)


def table_path(path: Path | None, file: str | Path, word: str) -> Path:
    """The path of a table to write, by default in the current folder and as CSV where the source is CSV.

    Raises
    ------
    MiscalError
        If the path ends in neither .parquet nor .csv.
    """
    suffix = ".csv" if Path(file).suffix.lower() == ".csv" else ".parquet"
    path = path or Path(f"{Path(file).stem}-{word}{suffix}")
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise refusal("must end in .parquet or .csv", "--out", got=f"it is '{path}'")
    return path


def audit_options(options: Plain) -> Plain:
    """The options of a table as `miscal.audit` takes them."""
    names = options["probability"]
    if len(names) > 1 and any("*" in name for name in names):
        what = "must be one pattern, or the names of the columns"
        raise refusal(what, "--probability", got=" ".join(names))
    probability = names[0] if len(names) == 1 else list(names) or None
    return {**options, "probability": probability, "by": list(options["by"]) or None}


@command
@click.argument("file", type=PATH)
def audit(
    file: Path, out: Path, json_path: Path | None, saved: Path | None, baseline: Path | None, **options: Any
) -> None:
    """Audit a table of predictions and write a report.

    The table: CSV, Parquet or Feather; one file, a folder, a pattern in quotes, or a summary file.
    """
    parameters = audit_options(options)
    before = Audit.load(baseline) if baseline else None
    prepared({"--out": out, "--json": json_path, "--save": saved}, table=file, baseline=baseline)
    suppress_below = parameters.pop("suppress_below")  # applied last: comparing and saving need every cell
    _write_audit(_audited(file, **parameters), before, suppress_below, out, json_path, saved, file)
    if saved and suppress_below:
        echo(
            f"{saved} contains the suppressed cells, for comparisons: do not share it. Reports made from it hide them."
        )


def _write_audit(current: Audit, before: Audit | None, suppress_below: int, *files: Any) -> None:
    """Write and print an audit, compared with an earlier one; cells that either of them suppresses stay suppressed."""
    if before is not None:
        current = current.with_comparison(before)
        suppress_below = max(suppress_below, before.hidden_below)
    write_and_print(current.hiding(suppress_below), *files)


def _audited(data: Any, **options: Any) -> Audit:
    """Audit with a progress bar."""
    from miscal.auditing.audit import audit

    with progress_bar() as progress:
        return audit(data, progress=progress, **options)


@command
@click.argument("audit", type=PATH)
def report(
    audit: Path,
    out: Path,
    json_path: Path | None,
    saved: Path | None,
    baseline: Path | None,
    suppress_below: int | None,
) -> None:
    """Write the report of a saved audit.

    The audit: a file that `miscal audit` wrote with --save or --json.
    """
    prepared({"--out": out, "--json": json_path, "--save": saved}, audit=audit, baseline=baseline)
    current = Audit.load(audit)
    before = Audit.load(baseline) if baseline else None
    suppress_below = current.hidden_below if suppress_below is None else suppress_below
    _write_audit(current, before, suppress_below, out, json_path, saved)


@command
def demo(out: Path, effort: str, random_state: int) -> None:
    """Audit the bundled flights data and write a report."""
    from miscal.datasets import flights

    html_path, json_path = out / "report.html", out / "report.json"
    prepared({"--out": html_path, "--json": json_path})
    echo("Flights from New York, July to December 2013, scored by a model trained on January to June.")
    echo("The event: a flight arrives more than 15 minutes late.")
    current = _audited(
        flights(),
        outcome="late",
        probability="probability",
        time="date",
        ignore=["month", "day", "minute"],
        source="Flights from New York, July to December 2013",
        effort=effort,
        random_state=random_state,
    )
    write_and_print(current, html_path, json_path, None)


@command
@click.argument("file")
def summarize(file: str, out: Path, like: Path | None, memory: str | None, **options: Any) -> None:
    """Summarize a table as mergeable counts and sums (no rows).

    The table: one file, a folder or a pattern in quotes. `miscal merge` adds summary files, and `miscal audit` reads
    them as it reads a table.
    """
    from miscal.auditing.summary_files import tally_of

    prepared({"--out": out}, table=file, **{"summary file": like})
    earlier = Summary.load(like) if like else None
    roles = audit_options(options)
    choices = {name: roles.pop(name) for name in ("by", "ignore", "max_levels")}
    summary = tally_of(file, ColumnRoles(**roles), like=earlier, memory=memory, **choices)
    summary.save(out)
    echo(f"{summary.rows:,} rows. Summary file: {out}   edges {summary.rule[:8]}")
    for entry in summary.aside:
        echo(f"Excluded: {entry['where']} ({entry['reason']}).")


@command
@click.argument("files", nargs=-1, required=True, type=PATH)
def merge(files: tuple[Path, ...], out: Path) -> None:
    """Add summary files, such as those of the days of a month."""
    for path in files:
        prepared({"--out": out}, **{"summary file": path})
    total = Summary.load(files[0])
    path_of = {total.fingerprint: files[0]}
    for path in files[1:]:
        part = Summary.load(path)
        same = path_of.setdefault(part.fingerprint, path)
        if same is not path:
            hint = "is it the same table? Its rows would count twice"
            raise refusal(f"has the sums of '{same}'", f"'{path}'", hint=hint)
        try:
            total = total + part
        except MiscalError as error:
            raise error.with_text(f"'{path}' and '{files[0]}': {error.template}") from error
    total.save(out)
    echo(f"{total.rows:,} rows of {total.parts} table{'s' * (total.parts != 1)}. Summary file: {out}")


@command
@click.argument("file", type=PATH)
def check(
    file: Path,
    config: Path | None,
    junit: Path | None,
    annotations: bool,
    out: Path | None,
    json_path: Path | None,
    **options: Any,
) -> None:
    """Audit a table and exit with 1 if a gate fails.

    Prints one line per failed gate.
    """
    from miscal.auditing.gates import GATES, annotation, gates_of, judge
    from miscal.auditing.gates import junit as as_junit

    largest_limit = 1.0 if options["response"] == "binary" else math.inf
    limits = {name: options.pop(name) for name in GATES if name.startswith(("max_", "no_"))}
    with refusing("must look like column=0.02", "--max-field"):
        parts = (value.rpartition("=") for value in limits["max_field"])
        limits["max_field"] = {column: float(limit) for column, _, limit in parts}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    gates = gates_of(limits, "--{0}", config, largest_limit)
    outputs = {"--out": out, "--json": json_path, "--junit": junit}
    prepared(outputs, table=file, baseline=gates.no_new_findings, configuration=config)
    baseline = Audit.load(gates.no_new_findings).report if gates.no_new_findings else None
    parameters = audit_options(options)
    search_gates = gates.max_multicalibration_sigma, gates.max_findings, gates.no_new_findings
    # Where no gate and no output needs the search, only the columns that have a gate are audited.
    if (out, json_path, *search_gates) == (None,) * 5 and file.suffix != ".tally":
        parameters["by"] = parameters["by"] or list(gates.max_field)
    suppress_below = parameters.pop("suppress_below")  # applied last: gates are tested on every cell
    current = _audited(file, **parameters)
    shown = current.suppressed(suppress_below) if suppress_below else current
    outcomes = judge(current.report, gates, baseline, shown.report)
    if junit:
        write_text(junit, as_junit(outcomes))
    if out:
        shown.to_html(out)
    if json_path:
        shown.to_json(json_path)
    failed = [outcome for outcome in outcomes if not outcome.passed]
    for outcome in failed:
        echo(f"failed {outcome.name}: {outcome.line}")
        if annotations:
            echo(annotation(outcome, str(file)))
    if not failed:
        echo(f"passed: {len(outcomes)} of {len(outcomes)} gates")
    click.get_current_context().exit(FAILED if failed else 0)


@command
@click.argument("file", type=PATH)
def recalibrate(
    file: Path,
    out: Path | None,
    model: Path | None,
    report_path: Path | None,
    json_path: Path | None,
    allowed: tuple[str, ...],
    score_only: bool,
    **options: Any,
) -> None:
    """Recalibrate probabilities, evaluated on held-out rows.

    Half of the rows choose and fit the method; the report shows on the other half which errors are resolved, improved,
    unchanged or new.

    Writes the table with the recalibrated probabilities in the column `recalibrated` and the half of each row, fit or
    test, in `recalibrated_part`; the model, refitted on all rows after the evaluation; and the report.
    """
    from miscal.auditing.repair import repair_table, table_bytes
    from miscal.report.html.page import to_html

    if score_only and allowed:
        raise refusal("excludes --allowed", "--score-only", got="both are given")
    out = table_path(out, file, "repaired")
    model = model or Path(f"{file.stem}-repair.json")
    report_path = report_path or Path(f"{file.stem}-repair.html")
    parameters = audit_options(options)
    if parameters["outcome"] is None or (parameters["probability"] or parameters["prediction"]) is None:
        raise unnamed("recalibrate", open_source(str(file)).names)
    prepared({"--out": out, "--model": model, "--report": report_path, "--json": json_path}, table=file)
    repair_columns = () if score_only else list(allowed) or None
    with progress_bar() as progress:
        progress("Choosing and fitting a recalibration", 0, 1)

        def report_candidate(share: float, name: str) -> None:
            progress(f"Evaluating {name} ({share:.0%} of the candidates done)", share, 1)

        result = repair_table(file, allowed=repair_columns, progress=report_candidate, **parameters)
    document = result.record.document
    contents = {
        out: table_bytes(result.table, out),
        model: result.model.to_json().encode(),
        report_path: to_html(plain(document)).encode("utf-8", "replace"),
    }
    if json_path:
        contents[json_path] = f"{dumps(document)}\n".encode()
    write_together(contents)  # all of them, or none if one cannot be written
    files = written(Table=out, Model=model, Report=report_path, JSON=json_path)
    echo(f"{visible(result.record.about['reason'])}\n{result.record.summary(MOST_SEGMENTS)}\n{files}")
    arguments = [word for name in options["probability"] for word in ("--probability", name)]
    arguments = ["--prediction", options["prediction"]] if options["prediction"] else arguments
    command_line = shlex.join(
        ["miscal", "apply", str(model), "FILE", *arguments, *["--logit"] * options["logit"]]
    )
    echo(f"Apply to new data: {visible(command_line)}")


@command
@click.argument("model", type=PATH)
@click.argument("file")
def apply(
    model: Path, file: str, probability: tuple[str, ...], column: str, out: Path | None, **options: Any
) -> None:
    """Apply a fitted model to a table, batch by batch."""
    from miscal.recalibrate.out_of_core import apply_to, load_model

    out = table_path(out, file, column)
    prepared({"--out": out}, model=model, table=file)
    rows = apply_to(load_model(model), file, probability, out, column=column, **options)
    echo(f"{rows:,} rows. Table: {out}")


@command
@click.argument("file")
def fit(file: str, method: str, bins: int | None, group: tuple[str, ...], out: Path, **options: Any) -> None:
    """Fit a recalibrator to a table, for `miscal apply`.

    The table: one file, a folder or a pattern in quotes, read batch by batch.
    """
    from miscal import recalibrate as package
    from miscal.recalibrate.out_of_core import fit_to

    prepared({"--out": out}, table=file)
    if bins is not None and method not in ("histogram", "scaling-binning"):
        raise refusal("is for histogram and scaling-binning", "--bins", got=f"--method is {method}")
    model = getattr(package, METHODS[method])(**({} if bins is None else {"bins": bins}))
    if group:
        model = package.GroupWise(model, columns=list(group))
    fitted = fit_to(model, file, **options)
    write_whole(out, fitted.to_json().encode())
    echo(f"{fitted.n_rows_:,} rows, from {fitted.fitted_from_['how']}. Model: {out}")

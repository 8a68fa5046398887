"""The commands `miscal recalibrate`, `miscal fit` and `miscal apply`: a repair chosen, fitted, and put to new rows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from miscal.cli import options as common
from miscal.cli import say
from miscal.cli.terminal import waiting, written
from miscal.data.errors import refusal, visible
from miscal.data.outputs import prepared

__all__ = ["apply", "fit", "recalibrate"]
SHOWN = 15
METHODS = {
    "histogram": "HistogramBinning", "isotonic": "IsotonicCalibration", "scaling-binning": "ScalingBinning",
    "platt": "PlattScaling", "beta": "BetaCalibration",
}  # fmt: skip


@click.command()
@click.argument("file", type=common.PATH, is_eager=True)
@common.table_options(suppressing=False)
@common.MEANS
@click.option("--allowed", multiple=True, help="Column that the repair may use; repeat. Those audited by default.")
@click.option("--score-only", is_flag=True, help="The repair may use no column, only the score.")
@click.option("--folds", default=0, help="Cross-fit over so many folds; by default half the rows choose, half judge.")
@click.option("--out", type=common.PATH, help="Repaired table, .parquet or .csv.  [default: FILE-repaired]")
@click.option("--model", type=common.PATH, help="JSON of the repair, for `miscal apply`.  [default: FILE-repair.json]")
@click.option("--page", type=common.PATH, help="Page of before and after.  [default: FILE-repair.html]")
@click.option("--json", "json_path", type=common.PATH, help="JSON of before and after.")
def recalibrate(
    file: Path, out: Path | None, model: Path | None, page: Path | None, json_path: Path | None,
    allowed: tuple[str, ...], score_only: bool, folds: int, **options: Any,
) -> None:  # fmt: skip
    """Repair a table's probabilities, and show on unseen rows which errors are gone, smaller, remaining or new.

    Writes the table with the repaired probabilities in a column `recalibrated`, and in `recalibrated_part` whether a
    row chose the method (fit) or judged it (test); the repair as a model, fitted on all rows after it was judged; and a
    page of before and after.
    """
    from miscal.auditing.repair import repair_table

    if score_only and allowed:
        raise refusal("excludes --allowed", where="--score-only", got="both are given")
    out = common.table_path(out, file, "repaired")
    model, page = model or Path(f"{file.stem}-repair.json"), page or Path(f"{file.stem}-repair.html")
    made = common.audit_options(options)
    if made.pop("suppress_below", 0):
        raise refusal("is not for repairs", where="--suppress-below", hint="audit the repaired table with it")
    if made["outcome"] is None or (made["probability"] or made["prediction"]) is None:
        raise refusal("needs --outcome and --probability", where="recalibrate", hint=_columns(file))
    prepared({"--out": out, "--model": model, "--page": page, "--json": json_path}, table=file)
    limited = () if score_only else list(allowed) or None
    with waiting("Choosing, fitting and judging a repair") as status:

        def told(share: float, name: str) -> None:
            if status is not None:
                status.update(f"Judging {name} ({share:.0%} of the candidates done)")

        done = repair_table(file, allowed=limited, folds=folds, progress=told, **made)
    done.write(table=out, model=model, page=page, json=json_path)
    files = written(Table=out, Model=model, Page=page, JSON=json_path)
    say(f"{visible(done.record.about['reason'])}\n{done.record.told(SHOWN)}\n{files}")
    named = [word for name in options["probability"] for word in ("--probability", name)]
    named = ["--prediction", options["prediction"]] if options["prediction"] else named
    again = shlex.join(["miscal", "apply", str(model), "FILE", *named, *["--logit"] * options["logit"]])
    say(f"Repair new rows: {visible(again)}")


def _columns(file: Path) -> str:
    """What the columns are, for one who has not named any."""
    from miscal.engines.source import opened

    names = list(opened(str(file)).kinds)
    return f"the columns are {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"


@click.command()
@click.argument("model", type=common.PATH)
@click.argument("file", is_eager=True)
@common.probability("--prediction", "probability", required=True)
@common.LOGIT
@click.option("--column", default="recalibrated", show_default=True, help="Name of the new column.")
@click.option("--out", type=common.PATH, help=".parquet or .csv to write.  [default: FILE-COLUMN]")
@common.CEILING
def apply(
    model: Path, file: str, probability: tuple[str, ...], logit: bool, column: str, out: Path | None, memory: str | None
) -> None:
    """Add recalibrated probabilities to a table, batch by batch."""
    from miscal.recalibrate.in_parts import apply_to, load_model

    out = common.table_path(out, file, column)
    prepared({"--out": out}, model=model, table=file)
    rows = apply_to(load_model(model), file, list(probability), out, logit=logit, column=column, memory=memory)
    say(f"{rows:,} rows. Table: {out}")


@click.command()
@click.argument("file", is_eager=True)
@click.option("--method", required=True, type=click.Choice(list(METHODS)), help="What is fitted.")
@click.option("--bins", type=int, help="Number of bins, of histogram and scaling-binning.")
@click.option("--group", multiple=True, help="Column within whose levels it is fitted; repeat, coarsest first.")
@common.outcome(required=True)
@click.option("--probability", required=True, help="Column of the probability.")
@common.LOGIT
@common.POSITIVE
@common.WEIGHT
@click.option("--out", required=True, type=common.PATH, help="Model to write, such as model.json.")
@common.CEILING
def fit(file: str, method: str, bins: int | None, group: tuple[str, ...], out: Path, **options: Any) -> None:
    """Fit a recalibrator to a table (a file, folder or pattern) batch by batch, for `miscal apply`."""
    from miscal import recalibrate as package
    from miscal.data.outputs import write_whole
    from miscal.recalibrate.in_parts import fit_to

    prepared({"--out": out}, table=file)
    if bins is not None and method not in ("histogram", "scaling-binning"):
        raise refusal("is for histogram and scaling-binning", where="--bins", got=f"--method is {method}")
    model = getattr(package, METHODS[method])(**({} if bins is None else {"bins": bins}))
    if group:
        model = package.GroupWise(model, columns=list(group))
    fitted = fit_to(model, file, **options)
    write_whole(out, fitted.to_json().encode())
    say(f"{fitted.n_rows_:,} rows, from {fitted.fitted_from_['how']}. Model: {out}")

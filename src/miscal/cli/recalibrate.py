"""The commands `miscal recalibrate`, `miscal fit` and `miscal apply`: a repair chosen, fitted, and put to new rows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from miscal.cli import options as common
from miscal.cli import say
from miscal.cli.terminal import progress_bar, written
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
@common.options("recalibrate")
def recalibrate(
    file: Path, out: Path | None, model: Path | None, page: Path | None, json_path: Path | None,
    allowed: tuple[str, ...], score_only: bool, folds: int, **options: Any,
) -> None:  # fmt: skip
    """Repair a table's probabilities, and show on unseen rows which errors are gone, smaller, remaining or new.

    Writes the table with the repaired probabilities in a column `recalibrated`, and in `recalibrated_part` whether a
    row chose the method (fit) or judged it (test); the repair as a model, fitted on all rows after it was judged; and a
    page of before and after.
    """
    from miscal.auditing.repaired import repair_table

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
    with progress_bar() as progress:
        progress("Choosing, fitting and judging a repair", 0, 1)

        def told(share: float, name: str) -> None:
            progress(f"Judging {name} ({share:.0%} of the candidates done)", share, 1)

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
@common.options("apply")
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
@common.options("fit")
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

"""Commands for tables beyond memory: `miscal tally`, `miscal merge`, `miscal fit` and `miscal apply`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from miscal.cli import most_levels, verified
from miscal.data.errors import refusal
from miscal.data.places import prepared

__all__ = ["apply", "fit", "merge", "tally"]
METHODS = {
    "histogram": "HistogramBinning", "isotonic": "IsotonicCalibration", "scaling-binning": "ScalingBinning",
    "platt": "PlattScaling", "beta": "BetaCalibration",
}  # fmt: skip


@click.command()
@click.argument("file")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write, such as day1.tally.")
@click.option("--like", type=click.Path(path_type=Path), help="Tally whose edges are used, so that both can be added.")
@click.option("--outcome", required=True, help="Column of the outcome.")
@click.option("--probability", required=True, multiple=True, help="Column of the probability; repeat.")
@click.option("--logit", is_flag=True, help="The probability columns hold logits.")
@click.option("--positive", help="The label that is the event.")
@click.option("--weight", help="Column of sampling weights.")
@click.option("--count", help="Column of trials; the outcome then counts events.")
@click.option("--by", multiple=True, help="Column to look at; repeat. All by default.")
@click.option("--ignore", multiple=True, help="Column to leave out; repeat.")
@click.option("--memory", help="Ceiling of memory, such as 600MB; 1GB by default.")
@most_levels
@click.option("--verify", "check", is_flag=True, help="Compare the files with their recorded SHA-256 first.")
def tally(file: str, out: Path, like: Path | None, memory: str | None, check: bool, **options: Any) -> None:
    """Keep all that an audit needs of a table (a file, folder or pattern), without its rows."""
    from miscal.auditing.column_choice import MAX_LEVELS
    from miscal.auditing.from_tally import tally_of
    from miscal.carriers.summary import Summary
    from miscal.engines.roles import Roles

    if check:
        verified(file)
    prepared({"--out": out}, table=file, tally=like)
    first = None if like is None else Summary.load(like)
    probability = options.pop("probability")
    by, ignore, most = options.pop("by"), options.pop("ignore"), options.pop("most_levels")
    roles = Roles(probability=probability[0] if len(probability) == 1 else list(probability), **options)
    made = tally_of(
        file, roles, by=list(by) or None, ignore=ignore, like=first, memory=memory, max_levels=most or MAX_LEVELS
    )
    made.save(out)
    click.echo(f"{made.rows:,} rows. Tally: {out}   edges {made.rule[:8]}")


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write, such as month.tally.")
def merge(files: tuple[Path, ...], out: Path) -> None:
    """Add tallies of different rows, such as those of the days of a month."""
    from miscal.carriers.summary import Summary, added
    from miscal.data.errors import MiscalError

    prepared({"--out": out})
    total = Summary.load(files[0])
    seen = {total.fingerprint: files[0]}
    for path in files[1:]:
        part = Summary.load(path)
        same = seen.setdefault(part.fingerprint, path)
        if same is not path:
            hint = "the same table? its rows would count twice"
            raise refusal(f"has the sums of '{same}'", where=f"'{path}'", hint=hint)
        try:
            total = added([total, part])
        except MiscalError as error:
            raise type(error)(f"'{path}' and '{files[0]}': {error}") from error
    total.save(out)
    click.echo(f"{total.rows:,} rows of {total.parts} table{'s' * (total.parts != 1)}. Tally: {out}")


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("file")
@click.option("--probability", required=True, multiple=True, help="Column of the probability; repeat.")
@click.option("--logit", is_flag=True, help="The probability columns hold logits.")
@click.option("--column", default="recalibrated", show_default=True, help="Name of the new column.")
@click.option("--out", type=click.Path(path_type=Path), help=".parquet or .csv to write.  [default: FILE-COLUMN]")
@click.option("--memory", help="Ceiling of memory, such as 600MB; 1GB by default.")
@click.option("--verify", "check", is_flag=True, help="Compare the files with their recorded SHA-256 first.")
def apply(
    model: Path, file: str, probability: tuple[str, ...], logit: bool, column: str, out: Path | None,
    memory: str | None, check: bool,
) -> None:  # fmt: skip
    """Add recalibrated probabilities to a table, batch by batch."""
    from miscal.commands.recalibrate import table_name
    from miscal.recalibrate.in_parts.apply import apply_to, load_model

    out = out or table_name(Path(file), column)
    if out.suffix.lower() not in (".parquet", ".csv"):
        raise refusal("must end in .parquet or .csv", where="--out", got=f"it is '{out}'")
    if check:
        verified(file)
    prepared({"--out": out}, model=model)
    fitted = load_model(model)
    rows = apply_to(fitted, file, list(probability), out, logit=logit, column=column, memory=memory)
    click.echo(f"{rows:,} rows. Table: {out}")


@click.command()
@click.argument("file")
@click.option("--method", required=True, type=click.Choice(list(METHODS)), help="What is fitted.")
@click.option("--bins", type=int, help="Number of bins, of histogram and scaling-binning.")
@click.option("--group", multiple=True, help="Column within whose levels it is fitted; repeat, coarsest first.")
@click.option("--outcome", required=True, help="Column of the outcome.")
@click.option("--probability", required=True, help="Column of the probability.")
@click.option("--logit", is_flag=True, help="The probability column holds logits.")
@click.option("--positive", help="The label that is the event.")
@click.option("--weight", help="Column of sampling weights.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Model to write, such as model.json.")
@click.option("--memory", help="Ceiling of memory, such as 600MB; 1GB by default.")
@click.option("--verify", "check", is_flag=True, help="Compare the files with their recorded SHA-256 first.")
def fit(
    file: str, method: str, bins: int | None, group: tuple[str, ...], out: Path, check: bool, **options: Any
) -> None:
    """Fit a recalibrator to a table (a file, folder or pattern) batch by batch, for `miscal apply`."""
    from importlib import import_module

    from miscal.data.writing import write_whole
    from miscal.recalibrate.in_parts.fit import fit_to

    prepared({"--out": out}, table=file)
    if bins is not None and method not in ("histogram", "scaling-binning"):
        raise refusal("is for histogram and scaling-binning", where="--bins", got=f"--method is {method}")
    if check:
        verified(file)
    package = import_module("miscal.recalibrate")
    model = getattr(package, METHODS[method])(**({} if bins is None else {"bins": bins}))
    if group:
        model = package.GroupWise(model, columns=list(group))
    fitted = fit_to(model, file, **options)
    write_whole(out, fitted.to_json().encode())
    click.echo(f"{fitted.n_rows_:,} rows, from {fitted.fitted_from_['how']}. Model: {out}")

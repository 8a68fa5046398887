"""The commands `miscal tally` and `miscal merge`: all that an audit needs of a table, without its rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from miscal.cli import options as common
from miscal.data.errors import refusal
from miscal.data.outputs import prepared

__all__ = ["merge", "tally"]


@click.command()
@click.argument("file")
@click.option("--out", required=True, type=common.PATH, help="File to write, such as day1.tally.")
@click.option("--like", type=common.PATH, help="Tally whose edges are used, so that both can be added.")
@common.outcome(required=True)
@common.probability(required=True)
@common.LOGIT
@common.POSITIVE
@common.WEIGHT
@common.COUNT
@common.BY
@common.IGNORE
@common.CEILING
@common.MAX_LEVELS
def tally(file: str, out: Path, like: Path | None, memory: str | None, **options: Any) -> None:
    """Keep all that an audit needs of a table (a file, folder or pattern), without its rows."""
    from miscal.auditing.column_choice import MAX_LEVELS
    from miscal.auditing.from_tally import tally_of
    from miscal.carriers.summary import Summary
    from miscal.engines.roles import Roles

    prepared({"--out": out}, table=file, tally=like)
    first = None if like is None else Summary.load(like)
    by, ignore, most = options.pop("by"), options.pop("ignore"), options.pop("max_levels")
    roles = Roles(probability=common.one_or_list(options.pop("probability")), **options)
    made = tally_of(
        file, roles, by=list(by) or None, ignore=ignore, like=first, memory=memory, max_levels=most or MAX_LEVELS
    )
    made.save(out)
    click.echo(f"{made.rows:,} rows. Tally: {out}   edges {made.rule[:8]}")


@click.command()
@click.argument("files", nargs=-1, required=True, type=common.PATH)
@click.option("--out", required=True, type=common.PATH, help="File to write, such as month.tally.")
def merge(files: tuple[Path, ...], out: Path) -> None:
    """Add tallies of different rows, such as those of the days of a month."""
    from miscal.carriers.summary import Summary
    from miscal.data.errors import MiscalError

    for path in files:
        prepared({"--out": out}, tally=path)
    total = Summary.load(files[0])
    seen = {total.fingerprint: files[0]}
    for path in files[1:]:
        part = Summary.load(path)
        same = seen.setdefault(part.fingerprint, path)
        if same is not path:
            hint = "the same table? its rows would count twice"
            raise refusal(f"has the sums of '{same}'", where=f"'{path}'", hint=hint)
        try:
            total = total + part
        except MiscalError as error:
            raise type(error)(f"'{path}' and '{files[0]}': {error}") from error
    total.save(out)
    click.echo(f"{total.rows:,} rows of {total.parts} table{'s' * (total.parts != 1)}. Tally: {out}")

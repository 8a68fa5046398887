"""The commands `audit`, `page`, `demo` (a ranking and a page), `tally` and `merge` (what an audit needs, no rows)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from miscal.cli import options as common
from miscal.cli import say
from miscal.cli.terminal import leave, progress_bar
from miscal.data.errors import MiscalError, refusal
from miscal.data.outputs import prepared

__all__ = ["audit", "demo", "merge", "page", "tally"]


@click.command()
@click.argument("file", type=common.PATH, is_eager=True)
@common.options("audit")
def audit(
    file: Path, out: Path, json_path: Path | None, saved: Path | None, baseline: Path | None, **options: Any
) -> None:
    """Audit a table of predictions (CSV, Parquet, Feather; folder, pattern or tally) and write a page."""
    from miscal.auditing.audit import Audit

    made = common.audit_options(options)
    before = Audit.load(baseline) if baseline else None
    prepared({"--out": out, "--json": json_path, "--save": saved}, table=file, baseline=baseline)
    below = made.pop("suppress_below")  # last of all: what is compared and saved needs every cell
    found = _audited(file, made)
    if before is not None:
        found, below = found.with_comparison(before), max(below, before.hidden_below)
    leave(found.hiding(below), out, json_path, saved)
    if saved is not None and below:
        say(f"{saved} keeps the small cells too, to be compared with: do not pass it on. Pages of it hide them.")


def _audited(data: Any, options: dict[str, Any]) -> Any:
    from miscal.auditing.audit import audit

    with progress_bar() as progress:
        return audit(data, progress=progress, **options)


@click.command()
@click.argument("audit", type=common.PATH)
@common.options("page")
def page(
    audit: Path, out: Path, json_path: Path | None, saved: Path | None, baseline: Path | None,
    suppress_below: int | None,
) -> None:  # fmt: skip
    """Render an audit that `miscal audit --save` kept."""
    from miscal.auditing.record import Audit

    prepared({"--out": out, "--json": json_path, "--save": saved}, audit=audit, baseline=baseline)
    found = Audit.load(audit)
    before = None if baseline is None else Audit.load(baseline)
    hidden = max(found.hidden_below, 0 if before is None else before.hidden_below)
    found = found if before is None else found.with_comparison(before)
    leave(found.hiding(hidden if suppress_below is None else suppress_below), out, json_path, saved)


@click.command()
@common.options("demo")
def demo(out: Path, effort: str, seed: int) -> None:
    """Audit the bundled flights and leave a page."""
    from miscal.datasets import flights

    say("Flights from New York, July to December 2013, scored by a model trained on January to June.")
    say("The event: a flight arrives more than 15 minutes late.")
    options = {
        "outcome": "late",
        "probability": "probability",
        "ignore": ["month", "day", "minute"],
        "effort": effort,
        "time": "date",
        "random_state": seed,
        "source": "Flights from New York, July to December 2013",
    }
    page, json_path = out / "report.html", out / "report.json"
    prepared({"--out": page, "--json": json_path})
    leave(_audited(flights(), options), page, json_path, None)


@click.command()
@click.argument("file", is_eager=True)
@common.options("tally")
def tally(file: str, out: Path, like: Path | None, memory: str | None, **options: Any) -> None:
    """Keep all that an audit needs of a table (a file, folder or pattern), without its rows."""
    from miscal.auditing.column_choice import MAX_LEVELS
    from miscal.auditing.tallies import tally_of
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
    say(f"{made.rows:,} rows. Tally: {out}   edges {made.rule[:8]}")
    for entry in made.aside:
        say(f"Left out: {entry['where']} ({entry['reason']}).")


@click.command()
@click.argument("files", nargs=-1, required=True, type=common.PATH)
@common.options("merge")
def merge(files: tuple[Path, ...], out: Path) -> None:
    """Add tallies of different rows, such as those of the days of a month."""
    from miscal.carriers.summary import Summary

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
    say(f"{total.rows:,} rows of {total.parts} table{'s' * (total.parts != 1)}. Tally: {out}")

"""The command `miscal page`: saved audits as a page, without the data."""

from __future__ import annotations

from pathlib import Path

import click

from miscal.cli import options as common
from miscal.cli.terminal import leave
from miscal.data.errors import refusal
from miscal.data.outputs import prepared

__all__ = ["page"]


@click.command()
@click.argument("audits", nargs=-1, required=True, type=common.PATH)
@common.PAGE
@common.JSON
@click.option("--save", "saved", type=common.PATH, help="File that keeps the merged audit.")
@common.BASELINE
@common.suppress_below(None, "  [default: as when audited]")
def page(
    audits: tuple[Path, ...], out: Path, json_path: Path | None, saved: Path | None, baseline: Path | None,
    suppress_below: int | None,
) -> None:  # fmt: skip
    """Render audits that `miscal audit --save` kept; several are merged, each under the name of its file.

    Files of the same name in different folders are called by their paths.
    """
    from miscal.auditing.record import Audit

    prepared({"--out": out, "--json": json_path, "--save": saved}, baseline=baseline)
    for path in audits:
        prepared({"--out": out, "--json": json_path, "--save": saved}, audit=path)
    loaded = {label: Audit.load(path) for label, path in _labels(audits).items()}
    found = next(iter(loaded.values())) if len(audits) == 1 else Audit.merge(loaded)
    before = None if baseline is None else Audit.load(baseline)
    hidden = max(found.hidden_below, 0 if before is None else before.hidden_below)
    found = found if before is None else found.with_comparison(before)
    leave(found.hiding(hidden if suppress_below is None else suppress_below), out, json_path, saved)


def _labels(audits: tuple[Path, ...]) -> dict[str, Path]:
    """A name for each file; none twice, because equal names would hide an audit."""
    stems = [path.stem for path in audits]
    if len(set(stems)) == len(stems):
        return dict(zip(stems, audits, strict=True))
    made: dict[str, Path] = {}
    for path in audits:
        if str(path) in made:
            raise refusal("is given twice", where=f"'{path}'", hint="its rows would count twice")
        made[str(path)] = path
    return made

"""The command `miscal page`: a saved audit as a page, without the data."""

from __future__ import annotations

from pathlib import Path

import click

from miscal.cli import options as common
from miscal.cli.terminal import leave
from miscal.data.outputs import prepared

__all__ = ["page"]


@click.command()
@click.argument("audit", type=common.PATH)
@common.PAGE
@common.JSON
@click.option("--save", "saved", type=common.PATH, help="File that keeps the audit, hiding what this page hides.")
@common.BASELINE
@common.suppress_below(None, "  [default: as when audited]")
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

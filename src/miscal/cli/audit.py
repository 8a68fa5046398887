"""The command `miscal audit`: where the probabilities of a table are wrong, as a ranking and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from miscal.cli.options import BASELINE, EVERY, JSON, MAX_LEVELS, MEMORY, PAGE, PATH, TIME, audit_options, table_options
from miscal.cli.terminal import leave, progress_bar
from miscal.data.places import prepared

__all__ = ["audit"]


@click.command()
@click.argument("file", type=PATH)
@table_options()
@TIME
@EVERY
@PAGE
@JSON
@click.option("--save", "saved", type=PATH, help="File that keeps the whole audit for --baseline.")
@BASELINE
@MEMORY
@MAX_LEVELS
def audit(
    file: Path, out: Path, json_path: Path | None, saved: Path | None, baseline: Path | None, **options: Any
) -> None:
    """Audit a table of predictions (CSV, Parquet, Feather; folder, pattern or tally) and write a page."""
    audit_and_leave(file, out, json_path, audit_options(options), saved, baseline)


def audit_and_leave(
    data: Any,
    page: Path,
    json_path: Path | None,
    options: dict[str, Any],
    saved: Path | None = None,
    baseline: Path | None = None,
) -> None:
    """Audit, show what was found, and write what was asked for."""
    from miscal.auditing.audit import Audit
    from miscal.auditing.audit import audit as run_audit

    before = Audit.load(baseline) if baseline else None
    prepared({"--out": page, "--json": json_path, "--save": saved}, table=data, baseline=baseline)
    below = options.pop("suppress_below", 0)  # last of all: what is compared and saved needs every cell
    with progress_bar() as progress:
        found = run_audit(data, progress=progress, **options)
    if before is not None:
        found, below = found.with_comparison(before), max(below, before.hidden_below)
    leave(found.hiding(below), page, json_path, saved)
    if saved is not None and below:
        click.echo(f"{saved} keeps the small cells too, to be compared with: do not pass it on. Pages of it hide them.")

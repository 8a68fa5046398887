"""The commands `miscal audit` and `miscal demo`: where probabilities are wrong, as a ranking and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from miscal.cli import options as common
from miscal.cli.terminal import leave, progress_bar
from miscal.data.outputs import prepared

__all__ = ["audit", "demo"]


@click.command()
@click.argument("file", type=common.PATH)
@common.table_options()
@common.TIME
@common.EVERY
@common.PAGE
@common.JSON
@click.option("--save", "saved", type=common.PATH, help="File that keeps the whole audit for --baseline.")
@common.BASELINE
@common.MEMORY
@common.MAX_LEVELS
def audit(
    file: Path, out: Path, json_path: Path | None, saved: Path | None, baseline: Path | None, **options: Any
) -> None:
    """Audit a table of predictions (CSV, Parquet, Feather; folder, pattern or tally) and write a page."""
    audit_and_leave(file, out, json_path, common.audit_options(options), saved, baseline)


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


@click.command()
@click.option("--out", default="miscal-demo", show_default=True, type=common.PATH, help="Folder to write.")
@common.EFFORT
@common.SEED
def demo(out: Path, effort: str, seed: int) -> None:
    """Audit the bundled flights and leave a page."""
    from miscal.datasets import flights

    click.echo("Flights from New York, July to December 2013, scored by a model trained on January to June.")
    click.echo("The event: a flight arrives more than 15 minutes late.")
    options = {
        "outcome": "late",
        "probability": "probability",
        "ignore": ["month", "day", "minute"],
        "effort": effort,
        "time": "date",
        "random_state": seed,
        "source": "Flights from New York, July to December 2013",
    }
    audit_and_leave(flights(), out / "report.html", out / "report.json", options)

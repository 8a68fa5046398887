"""The command `miscal demo`: the audit of the bundled flights."""

from __future__ import annotations

from pathlib import Path

import click

from miscal.cli.audit import audit_and_leave
from miscal.cli.options import EFFORT, PATH, SEED

__all__ = ["demo"]


@click.command()
@click.option("--out", default="miscal-demo", show_default=True, type=PATH, help="Folder to write.")
@EFFORT
@SEED
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

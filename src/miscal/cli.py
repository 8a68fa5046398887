"""The command: a table of predictions in, a ranking in the terminal and a page out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from miscal.data.errors import MiscalError

SHOWN = 12
PATIENCE = 2.0  # seconds before a progress bar appears


class OneLine(click.Group):
    """Errors end in one clear line and exit status 2, never in a traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except MiscalError as error:
            click.echo(f"miscal: {' '.join(str(error).split())}", err=True)
            context.exit(2)
        except KeyboardInterrupt:
            click.echo("miscal: interrupted; nothing was written", err=True)
            context.exit(130)


@click.group(cls=OneLine, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="miscal")
def main() -> None:
    """Find where a model's probabilities are wrong, show it, and fix it."""


@main.command()
@click.option(
    "--out", default="miscal-demo", show_default=True, type=click.Path(path_type=Path), help="Folder to write."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the simulations.")
def demo(out: Path, seed: int) -> None:
    """Audit the bundled flights and leave a page."""
    from miscal.datasets import flights

    click.echo("Flights from New York, July to December 2013, scored by a model trained on January to June.")
    click.echo("The event: a flight arrives more than 15 minutes late.")
    options = {"outcome": "late", "probability": "probability", "ignore": ["day", "minute"]}
    _run(flights(), out / "report.html", out / "report.json", {**options, "random_state": seed})


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--outcome", required=True, help="Column of the outcome.")
@click.option("--probability", required=True, multiple=True, help="Column of the probability; repeat for classes.")
@click.option("--logit", is_flag=True, help="The probability columns hold logits.")
@click.option("--positive", help="The label that is the event.")
@click.option("--weight", help="Column of sampling weights.")
@click.option("--count", help="Column of trials; the outcome then counts events.")
@click.option("--cluster", help="Column of clusters: rows of one cluster are not independent.")
@click.option("--by", multiple=True, help="Column to look at; repeat. All by default.")
@click.option("--ignore", multiple=True, help="Column to leave out; repeat.")
@click.option("--out", default="report.html", show_default=True, type=click.Path(path_type=Path), help="Page to write.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="JSON to write.")
@click.option("--effort", default="normal", show_default=True, type=click.Choice(["quick", "normal", "deep"]))
@click.option("--seed", default=0, show_default=True, help="Seed of the simulations.")
def audit(file: Path, out: Path, json_path: Path | None, seed: int, **options: Any) -> None:
    """Audit a table of predictions (CSV, Parquet, Feather) and write a page."""
    probability = options.pop("probability")
    options["probability"] = probability[0] if len(probability) == 1 else list(probability)
    options["by"] = list(options["by"]) or None
    _run(file, out, json_path, {**options, "random_state": seed})


def _run(data: Any, page: Path, json_path: Path | None, options: dict[str, Any]) -> None:
    from miscal.report.audit import audit as run_audit

    for path in filter(None, (page, json_path)):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _progress() as progress:
        found = run_audit(data, progress=progress, **options)
    _print(found)
    found.to_html(page)
    if json_path is not None:
        found.to_json(json_path)
    click.echo(f"\nPage: {page}" + (f"   JSON: {json_path}" if json_path else ""))


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar that appears only when the work takes a while, and only on a terminal."""
    import time

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda *_: None
        return
    start = time.monotonic()
    bar = Progress(
        TextColumn("{task.description:<24}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True
    )
    task = bar.add_task("")
    started = False

    def advance(what: str, done: int, total: int) -> None:
        nonlocal started
        if not started and time.monotonic() - start > PATIENCE:
            bar.start()
            started = True
        bar.update(task, description=what, completed=done, total=total)

    try:
        yield advance
    finally:
        if started:
            bar.stop()


def _print(found: Any) -> None:
    """The verdict and the ranking, as a table."""
    from rich.console import Console
    from rich.table import Table

    from miscal.report import words
    from miscal.report.verdict import verdict

    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print()
    console.print(verdict(found.document).sentence, style="bold")
    real = [finding for finding in found.findings if finding.real]
    table = Table(title=f"Beyond noise: {len(real)} places", title_justify="left", show_edge=False, pad_edge=False)
    for name, justify in (("where", "left"), ("rows", "right"), ("predicted", "right"), ("happened", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("difference in events")
    table.add_column("adjusted p", justify="right")
    for finding in real[:SHOWN]:
        table.add_row(
            finding.where,
            f"{finding.rows:,}",
            words.percent(finding.predicted),
            words.percent(finding.observed),
            words.events_off(finding.events_off),
            words.p_cell(finding.p_value),
        )
    console.print(table)
    if len(real) > SHOWN:
        console.print(f"... and {len(real) - SHOWN} more on the page.")
    if found.clean:
        console.print(f"Clean: {', '.join(item['where'] for item in found.clean)}.")


if __name__ == "__main__":
    main()

"""The command: a table of predictions in, a ranking in the terminal and a page out."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from miscal.data.errors import MiscalError, MiscalWarning
from miscal.data.places import prepared

SHOWN = 12
OPTIONS = "positive|outcome|probability|weight|count|cluster|time|every"  # that are parameters of the same name
SEED = click.IntRange(min=0)
PATIENCE = 2.0  # seconds before a progress bar appears
# Commands that live beside what they do: module and function, imported when asked for.
ELSEWHERE: dict[str, tuple[str, str]] = {
    "bench": ("miscal.commands.bench", "bench"),
    "check": ("miscal.commands.check", "check"),
    "page": ("miscal.commands.page", "page"),
    "recalibrate": ("miscal.commands.recalibrate", "recalibrate"),
    **{name: ("miscal.commands.stream", name) for name in ("apply", "fit", "merge", "tally")},
}


class OneLine(click.Group):
    """Errors end in one clear line and exit status 2, never in a traceback; some commands live elsewhere."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted([*super().list_commands(context), *ELSEWHERE])

    def get_command(self, context: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in ELSEWHERE:
            module, name = ELSEWHERE[cmd_name]
            command: click.Command = getattr(import_module(module), name)
            return command
        return super().get_command(context, cmd_name)

    def invoke(self, context: click.Context) -> Any:
        try:
            with _plain_warnings():
                return super().invoke(context)
        except MiscalError as error:
            click.echo(f"miscal: {_as_options(' '.join(str(error).split()))}", err=True)
            context.exit(2)
        except KeyboardInterrupt:
            # An interrupt inside exec(text), as dataclasses and numba call it, leaves a mark on the interpreter
            # that turns every later exit status into "killed by SIGINT"; the next exec(text) wipes it.
            exec("")  # noqa: S102
            click.echo("miscal: interrupted; nothing was written", err=True)
            context.exit(130)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Say the library's warnings in one line, without the place in the code from which the command called it."""
    shown = warnings.showwarning

    def say(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, MiscalWarning):
            click.echo(f"miscal: note: {_as_options(' '.join(str(message).split()))}", err=True)
        else:
            shown(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.showwarning = say
        yield


def _as_options(text: str) -> str:
    """Hints name Python's parameters; here they are options."""
    text = re.sub(r"\buse miscal\.read\(\.\.\., logit=True\)", "pass --logit", text)
    text = re.sub(r" Rounding noise\? .*clip.*$", " Rounding noise? bring the values into [0, 1] first", text)
    text = re.sub(r"\blogit=True\b", "--logit", text)
    text = re.sub(rf"^'({OPTIONS}|by|ignore|allowed|folds|column)'", r"--\1", text)
    text = re.sub(r"'most_levels'|\bmost_levels\b", "--most-levels", text)
    text = text.replace("'suppress_below'", "--suppress-below").replace("leave it out with ignore", "--ignore it")
    text = text.replace("a recalibrator written by to_json", "a model written by `miscal recalibrate` or to_json")
    return re.sub(rf"\b({OPTIONS})=", r"--\1 ", text)


@click.group(cls=OneLine, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="miscal")
def main() -> None:
    """Find where a model's probabilities are wrong, show it, and fix it."""


def table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say what the columns of a table are and how widely to look."""
    options = [
        click.option("--outcome", help="Column of the outcome."),
        click.option("--probability", multiple=True, help="Column of the probability; repeat."),
        click.option("--logit", is_flag=True, help="The probability columns hold logits."),
        click.option("--positive", help="The label that is the event."),
        click.option("--weight", help="Column of sampling weights."),
        click.option("--count", help="Column of trials; the outcome then counts events."),
        click.option("--cluster", help="Column of clusters: rows of one cluster are not independent."),
        click.option("--by", multiple=True, help="Column to look at; repeat. All by default."),
        click.option("--ignore", multiple=True, help="Column to leave out; repeat."),
        click.option("--effort", default="normal", show_default=True, type=click.Choice(["quick", "normal", "deep"])),
        click.option("--suppress-below", default=0, type=click.IntRange(min=0),
                     help="Keep cells of fewer rows out of page, JSON and CSV."),
        click.option("--seed", default=0, show_default=True, type=SEED, help="Seed of the simulations."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def time_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that ask for periods in time."""
    every = click.Choice(["week", "month"])
    for option in (
        click.option("--every", type=every, help="Period of --time; by how long the table lasts if not given."),
        click.option("--time", help="Column of dates: judges each week or month, and what changed between them."),
    ):
        command = option(command)
    return command


memory_ceiling = click.option(
    "--memory", help="Read the table in parts and stay below this much memory, such as 600MB or 1GB."
)
most_levels = click.option(
    "--most-levels", type=click.IntRange(min=1),
    help="A field with more levels is refused, in a table read in parts.  [default: 1000000]",
)  # fmt: skip


def audit_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a table as `miscal.audit` takes them."""
    made = dict(options)
    probability = made.pop("probability")
    made["probability"] = probability[0] if len(probability) == 1 else list(probability) or None
    made["by"] = list(made["by"]) or None
    made["random_state"] = made.pop("seed")
    if made.get("most_levels", 0) is None:
        del made["most_levels"]
    return made


@main.command()
@click.option(
    "--out", default="miscal-demo", show_default=True, type=click.Path(path_type=Path), help="Folder to write."
)
@click.option("--effort", default="normal", show_default=True, type=click.Choice(["quick", "normal", "deep"]))
@click.option("--seed", default=0, show_default=True, type=SEED, help="Seed of the simulations.")
def demo(out: Path, effort: str, seed: int) -> None:
    """Audit the bundled flights and leave a page."""
    from miscal.datasets import flights

    click.echo("Flights from New York, July to December 2013, scored by a model trained on January to June.")
    click.echo("The event: a flight arrives more than 15 minutes late.")
    options = {"outcome": "late", "probability": "probability", "ignore": ["month", "day", "minute"], "effort": effort,
               "time": "date"}  # fmt: skip
    source = "Flights from New York, July to December 2013"
    _run(flights(), out / "report.html", out / "report.json", {**options, "random_state": seed, "source": source})


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@table_options
@time_options
@click.option("--out", default="report.html", show_default=True, type=click.Path(path_type=Path), help="Page to write.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="JSON to write.")
@click.option(
    "--save", "saved", type=click.Path(path_type=Path), help="File that keeps the whole audit for --baseline."
)
@click.option("--baseline", type=click.Path(path_type=Path), help="An earlier audit (of --save) to compare with.")
@memory_ceiling
@most_levels
@click.option("--verify", "check", is_flag=True, help="Compare the files with their recorded SHA-256 first.")
def audit(
    file: Path,
    out: Path,
    json_path: Path | None,
    saved: Path | None,
    baseline: Path | None,
    check: bool,
    **options: Any,
) -> None:
    """Audit a table of predictions (CSV, Parquet, Feather; folder, pattern or tally) and write a page."""
    if check:
        verified(str(file))
    _run(file, out, json_path, audit_options(options), saved, baseline)


def verified(source: str) -> None:
    """Compare the files with their recorded checksums, and say so."""
    from miscal.engines.verify import verify

    found = verify(source)
    click.echo(f"{len(found)} file{'s' * (len(found) != 1)} verified.", err=True)


def _run(
    data: Any,
    page: Path,
    json_path: Path | None,
    options: dict[str, Any],
    saved: Path | None = None,
    baseline: Path | None = None,
) -> None:
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


def leave(found: Any, page: Path, json_path: Path | None, saved: Path | None) -> None:
    """Show an audit and write what may be shown of it; the saved file alone keeps all of it."""
    shown = found.shown()
    show(shown)
    shown.to_html(page)
    if json_path is not None:
        shown.to_json(json_path)
    if saved is not None:
        found.save(saved)
    written = [("Page", page), ("JSON", json_path), ("Audit", saved)]
    click.echo("\n" + "   ".join(f"{what}: {path}" for what, path in written if path))


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
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


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """A sign of life on a terminal, for work that cannot say how far it is."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


def show(found: Any) -> None:
    """Print the verdict, the ranking as a table, and what was not found."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from miscal.page import words
    from miscal.page.verdict import explained, verdict

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print()
    said = verdict(found.document)
    console.print(escape(said.sentence), style="bold")
    if said.direction == "none":
        console.print(escape(said.support[0]))
    real = [finding for finding in found.findings if finding.real]
    heads = [finding for finding in real if not finding.parent]
    if heads:
        table = Table(title="Where it is wrong, beyond noise", title_justify="left", show_edge=False, pad_edge=False)
        for name, justify in (("where", "left"), ("rows", "right"), ("predicted", "right"), ("happened", "right")):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        table.add_column("difference in events")
        table.add_column("adjusted p", justify="right")
        for finding in heads[:SHOWN]:
            table.add_row(*(escape(text) for text in _row(finding, words)))
        console.print(table)
    if len(heads) > SHOWN:
        console.print(f"... and {words.plural(len(heads) - SHOWN, 'more place')} on the page.")
    others = explained(found.document)
    if others:
        by = "these" if len(heads) > 1 else "it"
        console.print(f"{words.plural(others, 'other place is', 'other places are')} explained by {by}.")
    if found.clean:
        listed = ", ".join(item["where"] for item in found.clean[:SHOWN])
        more = f" and {len(found.clean) - SHOWN} more" if len(found.clean) > SHOWN else ""
        console.print(escape(f"Tested and clean: {listed}{more}."))
    for line in [*(f"Note: {note}" for note in found.document.get("notes", [])), *_periods(found.document)]:
        console.print(escape(line))
    compared = found.document.get("comparison")
    if compared:
        console.print(f"Against the baseline: {len(compared['better'])} better, {len(compared['worse'])} worse.")


def _periods(document: dict[str, Any]) -> list[str]:
    """How the periods stand, and the steps that changed."""
    from miscal.page.period_words import changed_words, periods_said

    lines = []
    for result in document["sections"].get("period", []):
        said, left = changed_words(result, SHOWN), max(len(changed_words(result)) - SHOWN, 0)
        more = [f"... and {left} smaller on the page."] if left else []
        lines += [f"{result['name']}: {periods_said(result)}", *said, *more]
    return lines


def _row(finding: Any, words: Any) -> list[str]:
    off = words.events_off(finding.events_off)
    bound = f" (at least {words.count(finding.at_least)})" if finding.at_least >= 1 else ""
    return [
        finding.where,
        f"{finding.rows:,}",
        words.percent(finding.predicted),
        words.percent(finding.observed),
        off + bound,
        words.p_cell(finding.p_value),
    ]


if __name__ == "__main__":
    main()

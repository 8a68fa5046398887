"""What a command shows: the ranking as text, a bar while it works, and where its files are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from miscal.data.errors import visible

SHOWN = 12  # findings, clean columns and changes that are listed


def leave(found: Any, page: Path, json_path: Path | None, saved: Path | None) -> None:
    """Show an audit and write what may be shown of it; the saved file alone keeps all of it."""
    shown = found.shown()
    show(shown)
    shown.to_html(page)
    if json_path is not None:
        shown.to_json(json_path)
    if saved is not None:
        found.save(saved)
    click.echo("\n" + written(Page=page, JSON=json_path, Audit=saved))


def written(**files: Path | None) -> str:
    """Where the files are that were written, in one line."""
    return "   ".join(f"{what}: {visible(path)}" for what, path in files.items() if path)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar while the work goes on, only on a terminal, which it leaves as it was."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    parts = TextColumn("{task.description:<24}"), BarColumn(), TimeElapsedColumn()
    with Progress(*parts, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("")
        yield lambda what, done, total: bar.update(task, description=visible(what), completed=done, total=total)


def waiting(text: str) -> AbstractContextManager[Any]:
    """A sign of life on a terminal, for work that cannot say how far it is."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    console = Console(stderr=True)
    return console.status(text) if console.is_terminal else nullcontext()


def inert(text: str) -> str:
    """Text of which no line begins a command of a workflow, wherever a table breaks it; on a terminal as it is."""
    return text if sys.stdout.isatty() else text.replace("::", "\\x3a:").replace("##[", "\\x23#[")


def show(found: Any) -> None:
    """Print the verdict, the ranking as a table, and what was not found."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from miscal.page import words
    from miscal.page.records import read_document
    from miscal.page.sections.findings import ranking
    from miscal.page.verdict import verdict

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print()
    document = read_document(found.document)
    said = verdict(document)
    console.print(escape(said.sentence), style="bold")
    if said.direction == "none":
        console.print(escape(said.support[0]))
    heads = document.heads
    if heads:
        table = Table(title="Where it is wrong, beyond noise", title_justify="left", show_edge=False, pad_edge=False)
        columns = ranking(heads[:SHOWN])
        for column in columns:
            table.add_column(column.heading, justify="right" if column.kind == "number" else "left")
        for i in range(len(heads[:SHOWN])):
            table.add_row(*(escape(inert(column.text(i))) for column in columns))
        console.print(table)
    if len(heads) > SHOWN:
        console.print(f"... and {words.plural(len(heads) - SHOWN, 'more place')} on the page.")
    if document.explained:
        by = "these" if len(heads) > 1 else "it"
        console.print(f"{words.plural(document.explained, 'other place is', 'other places are')} explained by {by}.")
    if document.clean:
        listed = ", ".join(place.where for place in document.clean[:SHOWN])
        more = f" and {len(document.clean) - SHOWN} more" if len(document.clean) > SHOWN else ""
        console.print(escape(f"Tested and clean: {listed}{more}."))
    for line in [*(f"Note: {note}" for note in document.notes), *words.period_lines(document.of("period"), SHOWN)]:
        console.print(escape(line))
    compared = document.comparison
    if compared is not None:
        shown = ("better", "worse") if compared.cells else ("new", "gone")
        console.print(f"Against the baseline: {', '.join(f'{len(getattr(compared, word))} {word}' for word in shown)}.")

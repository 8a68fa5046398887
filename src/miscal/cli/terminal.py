"""What a command shows: the ranking as text, a bar while it works, and where its files are."""

import io
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from miscal.cli import WRITTEN, is_terminal, say
from miscal.data.errors import visible
from miscal.report import wording
from miscal.report.codec import of_document
from miscal.report.findings import Finding
from miscal.report.html.sections.repair import next_step
from miscal.report.html.sections.score import verdict
from miscal.report.model import AuditReport
from miscal.report.values import text

NAMELESS = "the column without a name"
WIDTH = 120  # of a file
SHOWN = 12  # findings, clean columns and changes that are listed


def leave(found: Any, page: Path, numbers: Path | None, saved: Path | None, table: Path = Path()) -> None:
    """Write what may be shown of an audit, then show it; the saved file alone keeps all of it."""
    shown = found.shown()
    shown.to_html(page)
    if numbers:
        shown.to_json(numbers)
    if saved:
        found.save(saved)
    files = written(Report=page, JSON=numbers, Audit=saved)
    document = shown.report
    if table.name == document.source:  # which names no folder: pages are passed on
        document = replace(document, data={**document.data, "source": str(table)})
    then = next_step(document)
    following = [f"Next: {inert(visible(then))}"] if then else []
    say("\n".join([*shown_lines(document), "", files, *following]))


def written(**files: Path | None) -> str:
    """Where the files are that were written, in one line."""
    WRITTEN.extend(str(path) for path in files.values() if path)
    return "   ".join(f"{what}: {visible(path)}" for what, path in files.items() if path)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float, float], None]]:
    """A bar while the work goes on, only on a terminal, which it leaves as it was."""
    if not is_terminal(sys.stderr):
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    parts = TextColumn("{task.description:<24}"), BarColumn(), TimeElapsedColumn()
    with Progress(*parts, console=console, transient=True) as bar:
        task = bar.add_task("")
        yield lambda what, done, total: bar.update(
            task, description=visible(what), completed=done, total=total
        )


def inert(text: str) -> str:
    """Text of which no line begins a command of a workflow, wherever a table breaks it; on a terminal as it is."""
    return text if is_terminal(sys.stdout) else text.replace("::", "\\x3a:").replace("##[", "\\x23#[")


@of_document
def shown_lines(document: AuditReport) -> list[str]:
    """The verdict, the ranking as a table, and what was not found, as lines."""
    from rich.text import Text

    said = verdict(document)
    lines = ["", Text(said.sentence, "bold"), *(said.support[:1] if said.direction == "none" else ())]
    heads = document.findings
    table = [_ranking(heads[:SHOWN])] if heads else []
    rest = []
    if len(heads) > SHOWN:
        rest.append(f"... and {wording.plural(len(heads) - SHOWN, 'more place')} on the page.")
    if document.explained:
        by = "these" if len(heads) > 1 else "it"
        others = wording.plural(document.explained, "other place is", "other places are")
        rest.append(f"{others} explained by {by}.")
    clean = list(map(text, document.clean["where"]))
    rest += [f"Tested and clean: {wording.listed(clean, SHOWN)}."] if clean else []
    # Columns as a whole, and not one of their levels.
    aside = [f"{entry.where or NAMELESS} ({entry.reason_words})" for entry in document.excluded_columns]
    rest += [f"Set aside: {wording.listed(aside, SHOWN)}."] if aside else []
    rest += [f"Not looked at: {entry.words}" for entry in document.unseen]
    rest += [f"Note: {note}" for note in document.notes]
    for result in document.of("period"):
        changed, left = result.changed(SHOWN)
        rest += [f"{result.name}: {result.said()}", *changed]
        rest += [f"... and {left} smaller on the page."] if left > 0 else []
    compared = document.comparison
    if compared is not None:
        shown = ("better", "worse") if compared.cells else ("new", "gone")
        found = ", ".join(f"{len(getattr(compared, word))} {word}" for word in shown)
        rest.append(f"Against the baseline: {found}.")
        rest += [wording.not_compared(compared.left_out)] if compared.left_out else []
    return _rendered([*lines, *table, *(inert(visible(line)) for line in rest)])


def _ranking(heads: Sequence[Finding]) -> Any:
    from rich import box
    from rich.table import Table

    encoding = str(getattr(sys.stdout, "encoding", None)).lower()
    style = box.HEAVY_HEAD if encoding.startswith("utf") else box.ASCII
    title = "Where it is wrong, beyond noise"
    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False, box=style)
    off = "difference in total" if wording.means() else "difference in events"
    for heading in ("where", "rows", "predicted", "happened", off, "adjusted p"):
        table.add_column(heading, justify="left" if heading in ("where", off) else "right")
    for head in heads:
        said = head.brief if head.score_ranges else head.difference
        rates = wording.percent(head.predicted), wording.percent(head.observed)
        p_value = wording.p_cell(head.p_value, head.p_value if head.bound else None)
        row = head.where, wording.count(head.rows), *rates, said, p_value
        table.add_row(*map(inert, row))
    return table


def _rendered(parts: Sequence[Any]) -> list[str]:
    """Lines as wide as the terminal, in its colours; of a fixed width for a file."""
    from rich.console import Console

    seen = is_terminal(sys.stdout)
    width = shutil.get_terminal_size().columns if seen else WIDTH
    console = Console(
        file=io.StringIO(), force_terminal=seen, width=width, highlight=False, markup=False, emoji=False
    )
    for part in parts:
        console.print(part)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]

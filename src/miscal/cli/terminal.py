"""What a command prints: the table of findings, a progress bar, and the files it wrote."""

import io
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from miscal.auditing.record import Audit
from miscal.cli import WRITTEN_FILES, echo, is_terminal
from miscal.data.errors import visible
from miscal.report import wording
from miscal.report.codec import of_document
from miscal.report.findings import Finding
from miscal.report.html.markup import phrase
from miscal.report.html.sections.repair import next_step
from miscal.report.html.sections.score import Direction, verdict
from miscal.report.model import AuditReport
from miscal.report.values import text

NAMELESS = "unnamed column"
WIDTH = 120  # of a file
MOST_LISTED = 12  # findings, columns without a significant gap, and changes


def write_and_print(
    audit: Audit, html_path: Path, json_path: Path | None, saved: Path | None, table: Path = Path()
) -> None:
    """Write the report and the JSON without suppressed cells, and the saved audit with them; then print the audit."""
    shown = audit.shown()
    shown.to_html(html_path)
    if json_path:
        shown.to_json(json_path)
    if saved:
        audit.save(saved)
    files = written(Report=html_path, JSON=json_path, Audit=saved)
    document = shown.report
    if table.name == document.source:  # the report names no folder, because it is passed on
        document = replace(document, data={**document.data, "source": str(table)})
    command_line = next_step(document)
    following = [f"Next: {inert(visible(command_line))}"] if command_line else []
    echo("\n".join([*shown_lines(document), "", files, *following]))


def written(**files: Path | None) -> str:
    """The paths of the files that were written, in one line."""
    WRITTEN_FILES.extend(str(path) for path in files.values() if path)
    return "   ".join(f"{what}: {visible(path)}" for what, path in files.items() if path)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float, float], None]]:
    """A progress bar on a terminal, which disappears at the end; nothing elsewhere."""
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
    """Escape what a workflow runner would read as a command; on a terminal the text is unchanged."""
    return text if is_terminal(sys.stdout) else text.replace("::", "\\x3a:").replace("##[", "\\x23#[")


@of_document
def shown_lines(document: AuditReport) -> list[str]:
    """The lines of the audit: headline, table of findings, columns without a gap, exclusions, notes, changes."""
    from rich.text import Text

    summary = verdict(document)
    support = summary.support[:1] if summary.direction is Direction.NONE else ()
    lines = ["", Text(summary.sentence, "bold"), *support]
    heads = document.findings
    table = [_ranking(heads[:MOST_LISTED])] if heads else []
    rest: list[str] = []
    if len(heads) > MOST_LISTED:
        rest.append(f"... and {wording.plural(len(heads) - MOST_LISTED, 'more segment')} in the report.")
    if document.explained:
        others = wording.plural(document.explained, "overlapping segment is", "overlapping segments are")
        these = "these are" if len(heads) > 1 else "it is"
        rest.append(f"{phrase('findings', 'explained', segments=others, these=these)}.")
    clean = list(map(text, document.clean["where"]))
    rest += [f"No significant gap: {wording.listed(clean, MOST_LISTED)}."] if clean else []
    # Whole columns only, not single categories.
    excluded = [f"{entry.where or NAMELESS} ({entry.reason_words})" for entry in document.excluded_columns]
    rest += [f"Excluded: {wording.listed(excluded, MOST_LISTED)}."] if excluded else []
    rest += [f"Not tested: {entry.words}" for entry in document.unseen]
    rest += [f"Note: {note}" for note in document.notes]
    for result in document.of("period"):
        changed, n_smaller = result.changed(MOST_LISTED)
        rest += [f"{result.name}: {result.period_summary()}", *changed]
        rest += [f"... and {n_smaller} smaller in the report."] if n_smaller > 0 else []
    compared = document.comparison
    if compared is not None:
        words = (
            {"better": "better", "worse": "worse"} if compared.cells else {"new": "new", "gone": "resolved"}
        )
        counts = ", ".join(f"{len(getattr(compared, key))} {word}" for key, word in words.items())
        rest.append(f"Compared with the baseline: {counts}.")
        rest += [wording.not_compared(compared.left_out)] if compared.left_out else []
    return _rendered([*lines, *table, *(inert(visible(line)) for line in rest)])


def _ranking(heads: Sequence[Finding]) -> Any:
    from rich import box
    from rich.table import Table

    encoding = str(getattr(sys.stdout, "encoding", None)).lower()
    style = box.HEAVY_HEAD if encoding.startswith("utf") else box.ASCII
    table = Table(
        title=phrase("findings", "title"), title_justify="left", show_edge=False, pad_edge=False, box=style
    )
    excess = "excess in total" if wording.means() else "excess events"
    for heading in ("segment", "rows", "predicted", "observed", excess, "adjusted p"):
        table.add_column(heading, justify="left" if heading in ("segment", excess) else "right")
    for finding in heads:
        difference = finding.brief if finding.score_ranges else finding.difference
        rates = wording.percent(finding.predicted), wording.percent(finding.observed)
        p_value = wording.p_cell(finding.p_value, finding.p_value if finding.bound else None)
        row = finding.where, wording.count(finding.rows), *rates, difference, p_value
        table.add_row(*map(inert, row))
    return table


def _rendered(parts: Sequence[Any]) -> list[str]:
    """Lines in the width and colours of the terminal; of a fixed width elsewhere."""
    from rich.console import Console

    on_terminal = is_terminal(sys.stdout)
    width = shutil.get_terminal_size().columns if on_terminal else WIDTH
    console = Console(
        file=io.StringIO(),
        force_terminal=on_terminal,
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        console.print(part)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]

"""A finding looked at closely: its rows along the score, the cells beside it, the clause that picks its rows.

And the line of controls that filters the findings by column, form and size.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from miscal.auditing.findings import Finding
from miscal.page import words
from miscal.page.entries import LONGEST_NAME, Cells, Entry
from miscal.page.figures.columns import variable
from miscal.page.markup import Safe, clean, ellipsis, join, name, tag
from miscal.page.records import Document
from miscal.page.sections.blocks import RATES, columns_of, quiet

PANEL_BYTES, SQL_BYTES = 220_000, 80_000  # of all panels of a page together: figures and tables; clauses
HALF = 0.5  # of a range that must belong
BESIDE = 2  # ranges on either side
MOST_OWN, MOST_LEVELS = 5, 6  # cells of its own that are listed, and levels of a field in all
MOST_SQL = 4000  # characters of a clause written into the page; the JSON has them all
SAID = {"sqlite": "SQLite", "duckdb": "DuckDB and PostgreSQL"}
LOOK = "Look closer: its scores, its neighbours, its rows as SQL"
EVERY = "DuckDB, PostgreSQL and SQLite"
_HERE = tag("span", " (this place)", class_="unseen")


class Closer:
    """The panels of a page's findings, those of the heads first, until their bytes are spent."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.columns = {entry.column: entry for kind in ("variable", "field") for entry in document.of(kind)}
        self.panels: dict[str, Safe] = {}
        seen, asked = PANEL_BYTES, SQL_BYTES
        for finding in sorted(document.real, key=lambda finding: bool(finding.parent)):
            made = join(self._along(finding), self._beside(finding)) if seen > 0 else Safe("")
            rows = join(_rows(finding)) if asked > 0 else Safe("")
            seen, asked = seen - len(made), asked - len(rows)
            self.panels[finding.where] = join(made, rows)

    def look(self, finding: Finding, summary: str = LOOK) -> Safe:
        """What is one click away; the summary alone where there is nothing to see."""
        body = self.panels.get(finding.where)
        if not body:
            return tag("div", summary) if summary != LOOK else Safe("")
        return tag("details", tag("summary", summary), tag("div", body, class_="closer"), class_="look")

    def item(self, finding: Finding, said: str) -> Safe:
        """A finding in a list: its place and what is said of it, its panel one click away."""
        shown = join(tag("bdi", ellipsis(finding.where, 100)), ": ", said)
        return tag("li", self.look(finding, shown), **marked(finding))

    def _along(self, finding: Finding) -> Safe | None:
        """Its rows by bins of the score."""
        entry = self.document.along_score.get(finding.where)
        if finding.kind == "score" and not finding.condition:
            entry = next(iter(self.document.of("score")), None)
        if entry is None or not len(entry.cells):
            return None
        counted = words.count(np.nansum(entry.cells.rows))
        sample = " of the sample that was searched" if self.document.settings.get("sample") else ""
        said = f"{counted} rows{sample}, by ranges of the score; the intervals hold for all ranges at once."
        drawn = variable(entry.along, self.document.level)
        return tag("div", tag("h4", "Its rows along the score"), drawn.svg, quiet(said))

    def _beside(self, finding: Finding) -> Safe | None:
        """Its cells among their neighbours, column by column."""
        found = [(self.columns.get(ellipsis(one["column"], LONGEST_NAME)), one) for one in finding.condition]
        tables = [_neighbours(entry, one) for entry, one in found if entry is not None]
        return tag("div", tag("h4", "Beside it"), tables) if any(tables) else None


def _neighbours(entry: Entry, condition: Mapping[str, Any]) -> Safe:
    """The cells of one column that the condition picks, and those beside them."""
    cells = entry.cells
    own, shown = (_ranges if entry.kind == "variable" else _levels)(cells, condition)
    known = cells.table()
    if not own.any() or not set(RATES) <= set(known):  # suppressed
        return Safe("")
    listed = columns_of(known, *RATES)
    head = [tag("th", heading, scope="col") for heading in (name(entry.column, 40), *(c.heading for c in listed))]
    body = [
        tag("tr", tag("th", name(cells.label[i], 40), _HERE if own[i] else None, scope="row"),
            [tag("td", column.text(i).removesuffix(" points")) for column in listed], class_="own" if own[i] else None)
        for i in shown
    ]  # fmt: skip
    return tag("div", tag("table", tag("thead", tag("tr", head)), tag("tbody", body)), class_="scroller")


def _ranges(cells: Cells, condition: Mapping[str, Any]) -> tuple[np.ndarray, list[int]]:
    """Which ranges are its own, and those with the ones before and after them."""
    low = -np.inf if condition.get("low") is None else condition["low"]
    high = np.inf if condition.get("high") is None else condition["high"]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = (np.minimum(high, cells.high) - np.maximum(low, cells.low)) / (cells.high - cells.low)
    share = np.where(cells.high > cells.low, share, (cells.high > low) & (cells.high <= high))
    share = np.where(np.isnan(cells.low), float(bool(condition.get("missing"))), share)
    share[~np.isnan(cells.low)] *= condition.get("levels") is None  # missing values alone
    own = (share >= HALF) | (share == max(share.max(initial=0.0), 1e-9)) & (share.max(initial=0.0) < HALF)
    inside = np.flatnonzero(own).tolist()
    first, last = min(inside, default=0), max(inside, default=0)
    few = inside if len(inside) <= MOST_OWN else [*inside[:2], *inside[-2:]]
    before, after = range(max(first - BESIDE, 0), first), range(last + 1, min(last + 1 + BESIDE, len(cells)))
    return own, [*before, *few, *after]


def _levels(cells: Cells, condition: Mapping[str, Any]) -> tuple[np.ndarray, list[int]]:
    """Which levels are its own, and those with the ones that are furthest off."""
    named = {ellipsis(level, LONGEST_NAME) for level in condition.get("levels") or ()}
    named |= {"missing"} if condition.get("missing") else set()
    own = np.array([label in named for label in cells.label], dtype=bool)
    order = np.argsort(-cells.strength(), kind="stable").tolist()
    mine, others = [i for i in order if own[i]][:MOST_OWN], [i for i in order if not own[i]]
    return own, [*mine, *others[: max(MOST_LEVELS - len(mine), BESIDE)]]


def clause(finding: Finding, dialect: str) -> str:
    """The clause that picks its rows; empty where it is too long for a page."""
    text = finding.to_sql(dialect)
    return text if len(text) <= MOST_SQL else ""


def clauses(every: Iterable[Finding], dialect: str) -> list[object]:
    """The clauses of findings, until their bytes are spent; then empty ones."""
    made: list[object] = []
    left = SQL_BYTES
    for finding in every:
        text = clause(finding, dialect) if left > 0 else ""
        left -= len(text)
        made.append(text)
    return made


def _rows(finding: Finding) -> Safe | None:
    """Which rows they are, to be counted again."""
    known = {clause(finding, dialect): said for dialect, said in SAID.items()}
    copy = tag("button", "Copy", type="button", class_="copy")
    blocks = [
        tag(
            "div", tag("p", said if len(known) > 1 else EVERY, " ", copy, class_="quiet"), tag("pre", tag("code", text))
        )
        for text, said in reversed(known.items())
        if text
    ]
    return tag("div", tag("h4", "Its rows as SQL"), blocks, class_="clause") if blocks else None


def form_of(finding: Finding) -> str:
    """How it is wrong, in the words of the filter."""
    return str(getattr(finding, "form", "")) or ("too high" if finding.gap > 0 else "too low")


def marked(finding: Finding) -> dict[str, object]:
    """What the filter asks of a place."""
    columns = json.dumps([clean(column) for column in finding.columns])
    return {"data_columns": columns, "data_form": form_of(finding), "data_off": f"{abs(finding.events_off):.6g}"}


def filters(places: Sequence[Finding]) -> Safe:
    """The controls, where there is anything to choose from."""
    if len(places) < 2:
        return Safe("")
    columns = sorted({clean(column) for place in places for column in place.columns}, key=str.lower)
    least = "Off in total, at least" if words.means() else "Events off, at least"
    size = tag("input", type="number", min="0", step="any", inputmode="numeric", placeholder="any", aria_label=least)
    return tag(
        "div",
        tag("label", "Column ", _choice("every column", columns)),
        tag("label", "Form ", _choice("every form", sorted({form_of(place) for place in places}))),
        tag("label", f"{least} ", size),
        tag("button", "Show all", type="button", hidden=True),
        tag("span", class_="found", role="status"),
        class_="filters",
    )


def _choice(every: str, options: Iterable[str]) -> Safe:
    listed = [tag("option", ellipsis(option, 60), value=option) for option in options]
    return tag("select", tag("option", every, value=""), listed)

"""Tables that a script can sort and search, with headings that a screen reader can follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from miscal.page import words
from miscal.page.markup import Safe, name, tag
from miscal.page.words import finite

#: Rows written into the page; a table cut short says so.
MOST_ROWS = 500
#: Rows of a table that can be folded, on a wide screen before it is unfolded.
MANY = 60


@dataclass(frozen=True)
class Column:
    """A heading with its values: numbers with the way to write them, names (the user's text), or plain words."""

    heading: str
    values: Sequence[object]
    write: Callable[[object], str] = words.number
    kind: Literal["number", "name", "words", "markup"] = "number"
    links: Sequence[str] = field(default_factory=tuple)
    least: Sequence[object] = field(default_factory=tuple)  # of p-values: the smallest that a simulation can give


def rates(column: Callable[[str], Sequence[object]]) -> list[Column]:
    """Rows, both rates and the gap of the cells of a result, by the names of its columns."""
    return [
        Column("Rows", column("rows"), words.count),
        Column("Predicted", column("predicted"), words.percent),
        Column("Happened", column("observed"), words.percent),
        Column("Gap", column("gap"), words.points),
    ]


def sheet(
    caption: str, columns: Sequence[Column], *, search: str = "", identity: str | None = None, fold: int | None = None
) -> Safe:
    """Build the table; `search` labels a box that filters its rows, a phone shows the first `fold` of them."""
    many = max((len(column.values) for column in columns), default=0)
    shown = min(many, MOST_ROWS)
    rows = [tag("tr", [_cell(column, i) for column in columns]) for i in range(shown)]
    table = tag(
        "table",
        tag("caption", caption, class_="unseen"),
        tag("thead", tag("tr", [_heading(column) for column in columns])),
        tag("tbody", rows, data_fold=fold, data_many=MANY if fold else None),
        class_="sortable",
        id=identity,
    )
    return tag(
        "div",
        _search(search) if search and many > 5 else None,
        tag("div", table, class_="scroller"),
        tag("p", f"The first {shown:,} of {many:,}; all are in the JSON.", class_="quiet") if shown < many else None,
        class_="sheet-block",
    )


def _search(label: str) -> Safe:
    box = tag("input", type="search", placeholder=label, aria_label=label, autocomplete="off", spellcheck="false")
    return tag("p", box, tag("span", class_="found", role="status"), class_="search")


def _heading(column: Column) -> Safe:
    class_ = column.kind if column.kind in ("number", "words") else None
    if column.kind == "markup":
        return tag("th", tag("span", column.heading, class_="unseen"), scope="col", class_="bar")
    return tag("th", tag("button", column.heading, type="button"), scope="col", aria_sort="none", class_=class_)


def _cell(column: Column, i: int) -> Safe:
    value = column.values[i]
    if column.kind == "markup":
        return tag("td", value if isinstance(value, Safe) else None, class_="bar")
    if column.kind == "name":
        link = column.links[i] if i < len(column.links) else ""
        shown = name(value, 80)
        return tag("th", tag("a", shown, href=f"#{link}") if link else shown, scope="row")
    if column.kind == "words":
        return tag("td", name(value, 100), class_="words", data_label=column.heading)
    number = finite(value)
    key = None if math.isnan(number) else f"{number:.9g}"
    text = words.p_cell(value, column.least[i]) if i < len(column.least) else column.write(value)
    return tag("td", text, class_="number", data_label=column.heading, data_key=key)

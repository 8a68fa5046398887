"""Building blocks of sections: figures with their data, and tables that the script can sort and search."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from miscal.report import wording
from miscal.report.html.marks import Figure
from miscal.report.html.markup import Child, Safe, clean, ellipsis, join, name, prose, tag
from miscal.report.values import Data, text

#: How a column is written: a function of its values, or the kind of its text.
Written = Callable[[object], str] | Literal["name", "words"]
LONGEST_TEXT = 4000  # characters of a text in the data, such as an SQL filter
MOST_DATA = 2000  # rows of data kept behind one figure; the JSON has them all
MOST_ROWS = 500  # rows of a table written into the page; a table cut short says so
FEW, MANY = 6, 60  # rows of a table on a phone and on a wide screen, before it is unfolded


def figure(
    drawn: Figure, caption: str = "", *, heading: str = "", identity: str | None = None, searched: str = ""
) -> Safe:
    """Wrap a drawing with its caption and data; an empty drawing is replaced by its description."""
    words = " ".join(part for part in (caption, drawn.note) if part)
    return tag(
        "figure",
        tag("figcaption", tag("h4", name(heading or drawn.title, 80)), tag("p", words) if words else None),
        drawn.svg or quiet(drawn.description),
        data_block(drawn.title, drawn.table) if drawn.table else None,
        id=identity,
        data_search=searched.lower() or None,
    )


def data_block(title: str, table: Data) -> Safe:
    """Columns of data for the script to show or to save: a data block, which browsers never run."""
    columns = {clean(key): [_entry(item) for item in column[:MOST_DATA]] for key, column in table.items()}
    longest = max(map(len, table.values()), default=0)
    content = {
        "title": ellipsis(title, 120),
        "columns": columns,
        "cut": longest if longest > MOST_DATA else 0,
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Inside a script element only these three can end it or start a comment.
    harmless = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return tag("div", tag("script", Safe(harmless), type="application/json"), class_="tools")


def _entry(item: object) -> object:
    if isinstance(item, str):
        return clean(item)[:LONGEST_TEXT]
    if isinstance(item, int):
        return item
    number = wording.finite(item)
    return None if math.isnan(number) else float(f"{number:.6g}")


@dataclass(frozen=True)
class TableColumn:
    """A heading with its values: numbers with the way to write them, names (the user's text), or plain words."""

    heading: str
    values: Sequence[object]
    how: Written = wording.number
    links: Sequence[str] = ()
    small: Sequence[str] = ()  # of names: what stands under each
    least: Sequence[object] = ()  # of p-values: the smallest that a simulation can give

    def text(self, i: int) -> str:
        """A value as it is read."""
        value = self.values[i]
        if isinstance(self.how, str):
            return text(value)
        return wording.p_cell(value, self.least[i]) if i < len(self.least) else self.how(value)


_COLUMNS: dict[Written, str] = {
    "name": "where column what",
    "words": "level verdict note reason ask",
    wording.count: "rows count",
    wording.number: "deviations",
    wording.percent: "predicted observed",
    wording.error: "value noise_floor noise",
    wording.size: "detectable",
    wording.points: "gap gap_low gap_high gap_before gap_after gap_rest difference low high change",
    wording.p_cell: "p_adjusted p_value change_p_adjusted",
}
WRITTEN = {name: how for how, names in _COLUMNS.items() for name in names.split()}
RATES = ("rows", "predicted", "observed", "gap")


def columns_of(rows: Mapping[str, list[Any]] | Sequence[object], *names: str) -> list[TableColumn]:
    """Columns of a table, or attributes of records, under the headings that they have everywhere."""
    table = rows if isinstance(rows, Mapping) else {key: [getattr(row, key) for row in rows] for key in names}
    headings = {key: prose("headings").get(key, key.replace("_", " ").capitalize()) for key in names}
    return [TableColumn(headings[key], table[key], WRITTEN[key]) for key in names]


def section(identity: str, title: str, *children: Child, opening: str = "") -> Safe:
    """A section of the report under its heading and the words it opens with; nothing where it holds nothing."""
    body = join(*children)
    return (
        tag("section", tag("h2", title), lead(opening) if opening else None, body, id=identity)
        if body
        else body
    )


def lead(*children: Child) -> Safe:
    """The opening paragraph of a section."""
    return tag("p", *children, class_="lead")


def quiet(*children: Child) -> Safe:
    """A remark in smaller, lighter type."""
    return tag("p", *children, class_="quiet")


def folded(summary: str, *children: Child) -> Safe:
    """Content that opens with a click on its summary; empty where there is no content."""
    body = join(*children)
    return tag("details", tag("summary", summary), body) if body else body


def sheet(
    caption: str,
    columns: Sequence[TableColumn],
    *,
    search: str = "",
    identity: str | None = None,
    still: bool = False,
    most: int = MOST_ROWS,
) -> Safe:
    """Build the table; `search` labels a box that filters its rows, a phone shows the first few of them.

    One that stands `still` is not sorted and shows its caption; one without rows is nothing.
    """
    n_rows = max((len(column.values) for column in columns), default=0)
    if not n_rows:
        return Safe("")
    shown = min(n_rows, most)
    rows = [tag("tr", [_cell(column, i) for column in columns]) for i in range(shown)]
    table = tag(
        "table",
        tag("caption", caption, class_=None if still else "unseen"),
        tag("thead", tag("tr", [_heading(column, still) for column in columns])),
        tag("tbody", rows, data_fold=FEW, data_many=MANY),
        class_=None if still else "sortable",
        id=identity,
        data_box=search if n_rows > 5 and search else None,
    )
    return tag(
        "div",
        tag("div", table, class_="scroller"),
        quiet(
            f"The first {shown:,} of {n_rows:,} rows; the JSON, or the .table of a result, has all of them."
        )
        if shown < n_rows
        else None,
        class_="sheet-block",
    )


def _heading(column: TableColumn, still: bool) -> Safe:
    class_ = {"name": None, "words": "words"}.get(str(column.how), "number")
    return tag("th", column.heading, scope="col", aria_sort=None if still else "none", class_=class_)


def _cell(column: TableColumn, i: int) -> Safe:
    number = wording.finite(column.values[i])
    written = column.text(i)
    if column.how == "name":
        shown = name(written, 80)
        link = "".join(column.links[i : i + 1])
        small = [tag("small", note) for note in column.small[i : i + 1]]
        return tag("th", tag("a", shown, href=f"#{link}") if link else shown, small, scope="row")
    if column.how == "words":
        return tag("td", name(written, 100), class_="words", data_label=column.heading)
    class_ = "number none" if written == wording.NOTHING else "number"
    key = None if math.isnan(number) else f"{number:.9g}"
    return tag("td", written, class_=class_, data_label=column.heading, data_key=key)

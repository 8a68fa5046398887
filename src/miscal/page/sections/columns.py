"""Column by column: one table of all, then a small figure of each, the largest finding first."""

from __future__ import annotations

import math
from dataclasses import replace

from miscal.page import words
from miscal.page.entries import LONGEST_NAME, Entry
from miscal.page.figures.columns import field_funnel, field_levels, variable
from miscal.page.figures.gaps import strength_bar
from miscal.page.markup import Safe, ellipsis, tag
from miscal.page.records import Document
from miscal.page.sections.blocks import Column, figure, lead, section, sheet, slug

#: Fields with more levels than this are drawn as a funnel beside the strongest levels.
FUNNEL_FROM = 16
_LEAD = (
    "Each column on its own: how far predicted and happened are apart, on average over its ranges or levels, and what "
    "noise alone would show on these rows. Bars are values, their ticks the noise. The column with the largest finding "
    "comes first, columns without any come last."
)
_CURVES = "Curves are smooth averages of what happened, with bands that hold point by point 95 times in 100"
_KINDS = {"variable": "by range", "field": "by level"}


def entries(document: Document) -> list[Entry]:
    """Every variable and field of the audit: those with the largest finding first, then those without, by strength."""
    sizes = _findings(document)
    return sorted(_columns(document), key=lambda entry: (-sizes.get(entry.column, -1.0), -entry.strength))


def _columns(document: Document) -> list[Entry]:
    return [entry for kind in _KINDS for entry in document.of(kind)]


def _findings(document: Document) -> dict[str, float]:
    """Events off for certain of each column's largest finding beyond noise; 0 if only a combination has one."""
    sizes: dict[str, float] = {}
    for finding in document.real:
        for name in (ellipsis(name, LONGEST_NAME) for name in finding.columns):
            size = finding.at_least if len(finding.columns) == 1 else 0.0
            sizes[name] = max(sizes.get(name, 0.0), size)
    return sizes


def columns(document: Document, budget: int) -> Safe:
    """The section: the table always whole, figures until `budget` bytes are spent."""
    every = entries(document)
    if not every:
        return Safe("")
    pictures: list[Safe] = []
    links = [""] * len(every)
    for place, entry in enumerate(every):
        identity = slug(entry.column, f"{entry.kind}-{_columns(document).index(entry)}")
        pieces = _figures(entry, identity, document.level)
        budget -= sum(len(piece.encode()) for piece in pieces)
        if budget < 0:
            break
        pictures += pieces
        links[place] = identity
    left = links.count("")
    return section(
        "columns",
        "Column by column",
        lead(_LEAD, _curves(every)),
        _table(every, links),
        tag("div", pictures, class_="grid", data_searched="columns-table", data_fold=4, data_many=30),
        tag("p", f"{words.plural(left, 'further column')} in the table and in the JSON, not drawn.") if left else None,
    )


def _curves(every: list[Entry]) -> str:
    """What the curves are, and of how many rows where that is not all of them."""
    if not any(entry.curve for entry in every):
        return ""
    sampled = max(entry.curve_rows for entry in every)
    return f" {_CURVES}{f', from {words.count(sampled)} rows drawn at random' if sampled else ''}."


def _table(every: list[Entry], links: list[str]) -> Safe:
    most = max((size for e in every for size in (e.value, e.noise_floor) if not math.isnan(size)), default=0.0)
    return sheet(
        "Columns with their average error, what noise alone would show, and the worst place",
        [
            Column("Column", [e.column for e in every], kind="name", links=links),
            Column("Looked at", [_KINDS[e.kind] for e in every], kind="words"),
            Column("Average error", [e.value for e in every], words.percent),
            Column("Bar of the average error", [strength_bar(e.value, e.noise_floor, most) for e in every],
                   kind="markup"),
            Column("Noise alone", [e.noise_floor for e in every], words.percent),
            Column("p-value", [e.p_value for e in every], least=[e.least for e in every]),
            Column("Worst place", [e.worst[0] for e in every], kind="words"),
            Column("Gap there", [e.worst[1] for e in every], words.points),
        ],
        search="Search columns and places",
        fold=6,
        identity="columns-table",
    )  # fmt: skip


def _figures(entry: Entry, identity: str, level: float) -> list[Safe]:
    """The figure of a column, and the funnel of one with many levels."""
    draw = variable if entry.kind == "variable" else field_levels
    caption = f"Off by {words.percent(entry.value)}"
    caption += "." if math.isnan(entry.noise_floor) else f", noise alone {words.percent(entry.noise_floor)}."
    searched = f"{entry.column} {_KINDS[entry.kind]} {entry.worst[0]}"
    made = [figure(draw(entry, level), caption, heading=entry.column, identity=identity, searched=searched)]
    if entry.kind == "field" and len(entry.cells) >= FUNNEL_FROM:
        funnel = replace(field_funnel(entry, level), table={})  # its data stand beside the levels
        said = "Every level by its size. The shaded funnel is where noise alone puts 95 levels of 100."
        made.append(figure(funnel, said, heading=f"{entry.column}: all levels", searched=searched))
    return made

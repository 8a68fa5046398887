"""Column by column: one table of all, then a small figure of each, the largest finding first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.auditing.measures import level
from miscal.page import figures, words
from miscal.page.markup import Safe, ellipsis, tag
from miscal.page.reading import LONGEST_NAME, Document, cells, column_name, items, mapping
from miscal.page.sections.figures import figure, slug
from miscal.page.sections.tables import Column, sheet
from miscal.page.words import finite

#: Fields with more levels than this are drawn as a funnel beside the strongest levels.
FUNNEL_FROM = 16
_LEAD = (
    "Each column on its own: how far predicted and happened are apart, on average over its ranges or levels, and what "
    "noise alone would show on these rows. Bars are values, their ticks the noise. The column with the largest finding "
    "comes first, columns without any come last."
)
_CURVES = "Curves are smooth averages of what happened, with bands that hold point by point 95 times in 100"
_KINDS = {"variable": "by range", "field": "by level"}


@dataclass(frozen=True)
class Entry:
    """One column's result, its worst place and where its figure is."""

    result: Mapping[str, Any]
    column: str
    kind: str
    place: str
    gap: float
    identity: str

    finding: float = -1.0

    @property
    def least(self) -> object:
        """The smallest p-value that its simulations can give, where it is at that end."""
        return mapping(self.result.get("extra")).get("p_least")

    @property
    def strength(self) -> float:
        """Value over its noise floor: what orders the columns in which nothing was found."""
        value, floor = finite(self.result.get("value")), finite(self.result.get("noise_floor"))
        return value / floor if floor > 0 else -1.0 if math.isnan(value) else value


def entries(document: Document) -> list[Entry]:
    """Every variable and field of the audit: those with the largest finding first, then those without, by strength."""
    found: list[Entry] = []
    sizes = _findings(document)
    sections = mapping(document.get("sections"))
    for kind in _KINDS:
        for result in map(mapping, items(sections.get(kind))):
            column = column_name(result)
            place, gap = worst(result)
            found.append(
                Entry(result, column, kind, place, gap, slug(column, f"{kind}-{len(found)}"), sizes.get(column, -1.0))
            )
    return sorted(found, key=lambda entry: (-entry.finding, -entry.strength))


def _findings(document: Document) -> dict[str, float]:
    """Events off for certain of each column's largest finding beyond noise; 0 if only a combination has one."""
    sizes: dict[str, float] = {}
    for finding in map(mapping, items(document.get("findings"))):
        if not finding.get("real", True):
            continue
        low, high = (finite(end) for end in [*items(finding.get("interval")), None, None][:2])
        bound = max(low, -high, 0.0) * finite(finding.get("weight"))
        names = [ellipsis(name, LONGEST_NAME) for name in items(finding.get("columns"))]
        for name in names:
            size = bound if len(names) == 1 and not math.isnan(bound) else 0.0
            sizes[name] = max(sizes.get(name, 0.0), size)
    return sizes


def worst(result: Mapping[str, Any]) -> tuple[str, float]:
    """The place where a column is worst and its gap: as the result says, else the strongest of its cells."""
    given = mapping(mapping(result.get("extra")).get("worst"))
    every = cells(result)
    cell = given.get("cell")
    if isinstance(cell, int) and 0 <= cell < len(every):
        return every.label[cell], float(every.gap[cell])
    if given:
        return str(given.get("where", given.get("label", ""))), finite(given.get("gap"))
    if not len(every) or np.isnan(every.gap).all():
        return "", math.nan
    i = int(np.argmax(np.where(np.isnan(every.gap), -np.inf, every.strength())))
    return every.label[i], float(every.gap[i])


def columns(document: Document, budget: int) -> Safe:
    """The section: the table always whole, figures until `budget` bytes are spent."""
    every = entries(document)
    if not every:
        return Safe("")
    alpha = level(document)
    pictures: list[Safe] = []
    drawn: set[str] = set()
    for entry in every:
        pieces = [_figure(entry, alpha), *_funnel(entry, alpha)]
        budget -= sum(len(piece.encode()) for piece in pieces)
        if budget < 0:
            break
        pictures += pieces
        drawn.add(entry.identity)
    left = len(every) - len(drawn)
    return tag(
        "section",
        tag("h2", "Column by column"),
        tag("p", _LEAD, _curves(every), class_="lead"),
        _table(every, drawn),
        tag("div", pictures, class_="grid", data_searched="columns-table", data_fold=4, data_many=30),
        tag("p", f"{words.plural(left, 'further column')} in the table and in the JSON, not drawn.") if left else None,
        id="columns",
    )


def _curves(every: list[Entry]) -> str:
    """What the curves are, and of how many rows where that is not all of them."""
    extras = [mapping(entry.result.get("extra")) for entry in every]
    if not any(extra.get("curve") for extra in extras):
        return ""
    sampled = max((finite(extra.get("curve_rows")) for extra in extras if extra.get("curve_rows")), default=0.0)
    return f" {_CURVES}{f', from {words.count(sampled)} rows drawn at random' if sampled else ''}."


def _table(every: list[Entry], drawn: set[str]) -> Safe:
    values = [finite(entry.result.get("value")) for entry in every]
    floors = [finite(entry.result.get("noise_floor")) for entry in every]
    most = max([v for v in values + floors if not math.isnan(v)], default=0.0)
    bars: list[object] = [figures.strength_bar(v, f, most) for v, f in zip(values, floors, strict=True)]
    links = [entry.identity if entry.identity in drawn else "" for entry in every]
    return sheet(
        "Columns with their average error, what noise alone would show, and the worst place",
        [
            Column("Column", [e.column for e in every], kind="name", links=links),
            Column("Looked at", [_KINDS[e.kind] for e in every], kind="words"),
            Column("Average error", values, words.percent),
            Column("Bar of the average error", bars, kind="markup"),
            Column("Noise alone", floors, words.percent),
            Column("p-value", [e.result.get("p_value") for e in every], least=[e.least for e in every]),
            Column("Worst place", [e.place for e in every], kind="words"),
            Column("Gap there", [e.gap for e in every], words.points),
        ],
        search="Search columns and places",
        fold=6,
        identity="columns-table",
    )  # fmt: skip


def _figure(entry: Entry, alpha: float) -> Safe:
    draw = figures.variable if entry.kind == "variable" else figures.field_levels
    drawn = draw(entry.result, alpha)
    searched = f"{entry.column} {_KINDS[entry.kind]} {entry.place}"
    return figure(drawn, _caption(entry), heading=entry.column, identity=entry.identity, searched=searched)


def _funnel(entry: Entry, alpha: float) -> list[Safe]:
    if entry.kind != "field" or len(cells(entry.result)) < FUNNEL_FROM:
        return []
    drawn = figures.field_funnel(entry.result, alpha)
    caption = "Every level by its size. The shaded funnel is where noise alone puts 95 levels of 100."
    bare = figures.Figure(
        drawn.name, drawn.title, drawn.description, drawn.svg, {}, drawn.note
    )  # its data stand beside the levels
    searched = f"{entry.column} {_KINDS[entry.kind]} {entry.place}"
    return [figure(bare, caption, heading=f"{entry.column}: all levels", searched=searched)]


def _caption(entry: Entry) -> str:
    value, floor = entry.result.get("value"), entry.result.get("noise_floor")
    text = f"Off by {words.percent(value)}"
    if finite(floor) == finite(floor):
        text += f", noise alone {words.percent(floor)}"
    return f"{text}."

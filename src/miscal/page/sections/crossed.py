"""Where columns meet: subpopulations with their running totals, and neighbourhoods as a map."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from miscal.page import figures, words
from miscal.page.markup import Safe, name, tag
from miscal.page.reading import Document, items, mapping, padded
from miscal.page.sections.figures import figure
from miscal.page.sections.tables import Column, rates, sheet
from miscal.page.words import finite

MOST_DRAWN = 4
FULL = "full population"
MOST_LISTED = 60
MOST_GROUPS = 200
_LEAD = (
    "Combinations of up to three columns, searched for the one whose running total strays furthest. M is that largest "
    "range in standard deviations of noise, each subpopulation scaled by its own size; its p-value allows for having "
    "searched them all."
)
_MAP = (
    "The gap around each point of the plane, averaged over its neighbours. Orange: predicted too high. Blue: too low. "
    "Pale cells are within what noise does; empty ones have no rows."
)


def subpopulations(document: Document) -> Safe:
    """The section of subpopulations; empty where none were searched."""
    results = [mapping(item) for item in items(mapping(document.get("sections")).get("subpopulation"))]
    if not results:
        return Safe("")
    return tag(
        "section",
        tag("h2", "Subpopulations"),
        tag("p", _LEAD, class_="lead"),
        [_one(result) for result in results],
        id="subpopulations",
    )


def _one(result: Mapping[str, Any]) -> Safe:
    extra, table = mapping(result.get("extra")), mapping(result.get("table"))
    curves = [mapping(curve) for curve in items(extra.get("cumulative"))][:MOST_DRAWN]
    reach = figures.deviation_reach(curves)
    drawn = [
        figure(
            figures.cumulative({"extra": {"cumulative": curve}}, reach),
            _curve_words(table, curve.get("label")),
            heading="The whole table" if curve.get("label") == FULL else str(curve.get("label", "")),
        )
        for curve in curves
        if figures.has_cumulative({"extra": {"cumulative": curve}})
    ]
    listed = tag("details", tag("summary", "Show the subpopulations furthest off"), _table(table))
    band = (
        "All are drawn on one scale, in standard deviations of each one's noise at its end. The shaded band is where "
        "noise alone keeps each point of a line 95 times in 100."
    )
    part = mapping(result.get("settings")).get("part")
    return tag(
        "div",
        tag("h3", name(part, 80)) if part else None,
        tag("p", _judged(result)),
        tag("p", band, class_="quiet") if drawn else None,
        tag("div", drawn, class_="pair") if drawn else None,
        listed,
    )


def _judged(result: Mapping[str, Any]) -> str:
    """M in standard deviations of noise, its p-value, what noise alone shows, and how that was found."""
    extra, table = mapping(result.get("extra")), mapping(result.get("table"))
    many, worst = len(items(table.get("label"))), finite([*items(table.get("deviations")), None][0])
    name_ = str([*items(table.get("label")), ""][0])
    noise = finite(extra.get("null_mean"))
    text = f"{words.plural(many, 'subpopulation')} judged. M = {words.number(worst)} standard deviations"
    text += f" ({name_ if name_ != FULL else 'the whole table'}); {words.p_value(result.get('p_value'))}."
    if not math.isnan(noise):
        text += f" The largest of so many would be {words.number(noise, 2)} by noise alone."
    return f"{text} {result.get('method', '')}".strip()


def _curve_words(table: Mapping[str, Any], label: object) -> str:
    """Rows, rates and deviations of the subpopulation that a curve belongs to."""
    names = [str(item) for item in items(table.get("label"))]
    if str(label) not in names:
        return ""
    k = names.index(str(label))

    def at(name: str) -> Any:
        return padded(table, name, len(names))[k]

    return (
        f"{words.count(at('rows'))} rows, {words.percent(at('predicted'))} predicted, {words.percent(at('observed'))} "
        f"happened; range {words.number(at('deviations'))} standard deviations, "
        f"{words.p_value(at('p_adjusted'), 'adjusted p')}."
    )


def _table(table: Mapping[str, Any]) -> Safe:
    def column(name: str) -> list[Any]:
        return items(table.get(name))[:MOST_LISTED]

    return sheet(
        "Subpopulations, those furthest off first",
        [
            Column("Subpopulation", column("label"), kind="name"),
            *rates(column),
            Column("Deviations of noise", column("deviations"), words.number),
            Column("Adjusted p", column("p_adjusted"), words.p_cell),
        ],
        search="Search subpopulations",
    )


def neighbourhoods(document: Document) -> Safe:
    """The section of neighbourhoods; empty where none were searched or found."""
    results = [mapping(item) for item in items(mapping(document.get("sections")).get("neighbourhood"))]
    drawn = [_map(result) for result in results if mapping(mapping(result.get("extra")).get("grid"))]
    if not drawn:
        return Safe("")
    return tag(
        "section",
        tag("h2", "Neighbourhoods"),
        tag("p", _MAP, class_="lead"),
        tag("div", drawn, class_="pair"),
        id="neighbourhoods",
    )


def _map(result: Mapping[str, Any]) -> Safe:
    said = f"Largest gap {words.number(mapping(result.get('extra')).get('largest_deviations'))} standard errors"
    caption = f"{said}, {words.p_value(result.get('p_value'))}."
    names = [str(name) for name in items(mapping(result.get("settings")).get("columns"))]
    part = mapping(result.get("settings")).get("part")
    return figure(figures.neighbourhood(result), caption, heading=f"{f'{part}: ' if part else ''}{' and '.join(names)}")


def groups(document: Document) -> Safe:
    """Differences between groups: each level of a field against the rest."""
    sections = mapping(document.get("sections"))
    rows: list[tuple[str, str, Mapping[str, Any], int]] = []
    for result in map(mapping, items(sections.get("field"))):
        table = mapping(mapping(result.get("extra")).get("differences"))
        column = str(mapping(result.get("settings")).get("column", ""))
        rows += [(column, str(level), table, place) for place, level in enumerate(items(table.get("level")))]
    if not rows:
        return Safe("")
    rows.sort(key=lambda row: -abs(finite(row[2]["difference"][row[3]])))
    many, rows = len(rows), rows[:MOST_GROUPS]

    def values(name: str) -> list[Any]:
        return [row[2][name][row[3]] for row in rows]

    lead = (
        "How much more a group is over-predicted than the rest of its column; the intervals hold for all groups of a "
        "column at once. A difference whose interval leaves out zero treats the group unlike the others."
    )
    listed = sheet(
        "Each group against the rest of its column",
        [
            Column("Column", [row[0] for row in rows], kind="name"),
            Column("Group", [row[1] for row in rows], kind="words"),
            Column("Rows", values("rows"), words.count),
            Column("Gap", values("gap"), words.points),
            Column("Gap of the rest", values("gap_rest"), words.points),
            Column("Difference", values("difference"), words.points),
            Column("At least", values("low"), words.points),
            Column("At most", values("high"), words.points),
        ],
        search="Search groups",
    )
    shown = "" if many == len(rows) else f", the {len(rows)} furthest from the rest; all are in the JSON"
    folded = tag("details", tag("summary", f"Show {words.plural(many, 'group')}{shown}"), listed)
    return tag("section", tag("h2", "Between groups"), tag("p", lead, class_="lead"), folded, id="groups")

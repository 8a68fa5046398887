"""Where columns meet: groups against the rest, subpopulations with their running totals, neighbourhoods as a map."""

from __future__ import annotations

import math

from miscal.page import words
from miscal.page.entries import Entry
from miscal.page.figures.crossed import cumulative, deviation_reach, neighbourhood
from miscal.page.markup import Safe, tag
from miscal.page.reading import Columns, text
from miscal.page.records import Document
from miscal.page.sections.blocks import Column, figure, folded, lead, quiet, rates, section, sheet
from miscal.page.words import finite

MOST_DRAWN = 4
FULL = "full population"
MOST_LISTED = 60
MOST_GROUPS = 200
_SEARCHED = (
    "Combinations of up to three columns, searched for the one whose running total strays furthest. M is that largest "
    "range in standard deviations of noise, each subpopulation scaled by its own size; its p-value allows for having "
    "searched them all."
)
_BAND = (
    "All are drawn on one scale, in standard deviations of each one's noise at its end. The shaded band is where "
    "noise alone keeps each point of a line 95 times in 100."
)
_MAP = (
    "The gap around each point of the plane, averaged over its neighbours. Orange: predicted too high. Blue: too low. "
    "Pale cells are within what noise does; empty ones have no rows."
)
_GROUPS = (
    "How much more a group is over-predicted than the rest of its column; the intervals hold for all groups of a "
    "column at once. A difference whose interval leaves out zero treats the group unlike the others."
)


def subpopulations(document: Document) -> Safe:
    """The section of subpopulations; empty where none were searched."""
    results = document.of("subpopulation")
    if not results:
        return Safe("")
    return section("subpopulations", "Subpopulations", lead(_SEARCHED), map(_one, results))


def _one(result: Entry) -> Safe:
    walks = result.walks[:MOST_DRAWN]
    reach = deviation_reach(walks)
    drawn = [
        figure(
            cumulative(walk, reach),
            _walk_words(result.table, walk.label),
            heading="The whole table" if walk.label == FULL else walk.label,
        )
        for walk in walks
    ]

    def column(key: str) -> list[object]:
        return result.table[key][:MOST_LISTED]

    columns = [
        Column("Subpopulation", column("label"), kind="name"),
        *rates(column),
        Column("Deviations of noise", column("deviations"), words.number),
        Column("Adjusted p", column("p_adjusted"), words.p_cell),
    ]
    listed = sheet("Subpopulations, those furthest off first", columns, search="Search subpopulations")
    return tag(
        "div",
        tag("p", _judged(result)),
        quiet(_BAND) if drawn else None,
        tag("div", drawn, class_="pair") if drawn else None,
        folded("Show the subpopulations furthest off", listed),
    )


def _judged(result: Entry) -> str:
    """M in standard deviations of noise, its p-value, what noise alone shows, and how that was found."""
    table, noise = result.table, finite(result.extra.get("null_mean"))
    first, worst = text([*table["label"], ""][0]), [*table["deviations"], None][0]
    said = f"{words.plural(table.rows, 'subpopulation')} judged. M = {words.number(worst)} standard deviations"
    said += f" ({first if first != FULL else 'the whole table'}); {words.p_value(result.p_value)}."
    if not math.isnan(noise):
        said += f" The largest of so many would be {words.number(noise, 2)} by noise alone."
    return f"{said} {text(result.method)}".strip()


def _walk_words(table: Columns, label: str) -> str:
    """Rows, rates and deviations of the subpopulation that a running total belongs to."""
    names = list(map(text, table["label"]))
    if label not in names:
        return ""
    at = {key: values[names.index(label)] for key, values in table.items()}
    return (
        f"{words.count(at.get('rows'))} rows, {words.percent(at.get('predicted'))} predicted, "
        f"{words.percent(at.get('observed'))} happened; range {words.number(at.get('deviations'))} standard "
        f"deviations, {words.p_value(at.get('p_adjusted'), 'adjusted p')}."
    )


def neighbourhoods(document: Document) -> Safe:
    """The section of neighbourhoods; empty where none were searched or found."""
    drawn = [_map(result) for result in document.of("neighbourhood") if result.grid is not None]
    if not drawn:
        return Safe("")
    return section("neighbourhoods", "Neighbourhoods", lead(_MAP), tag("div", drawn, class_="pair"))


def _map(result: Entry) -> Safe:
    said = f"Largest gap {words.number(result.extra.get('largest_deviations'))} standard errors"
    told = f"{said}, {words.p_value(result.p_value)}."
    return figure(neighbourhood(result), told, heading=" and ".join(result.columns))


def groups(document: Document) -> Safe:
    """Differences between groups: each level of a field against the rest."""
    rows = [
        {"column": text(result.settings.get("column")), **dict(zip(result.differences, values, strict=True))}
        for result in document.of("field")
        for values in zip(*result.differences.values(), strict=True)
    ]
    if not rows:
        return Safe("")
    rows.sort(key=lambda row: -abs(finite(row.get("difference"))))
    many, rows = len(rows), rows[:MOST_GROUPS]

    def values(key: str) -> list[object]:
        return [row.get(key) for row in rows]

    columns = [
        Column("Column", values("column"), kind="name"),
        Column("Group", values("level"), kind="words"),
        Column("Rows", values("rows"), words.count),
        Column("Gap", values("gap"), words.points),
        Column("Gap of the rest", values("gap_rest"), words.points),
        Column("Difference", values("difference"), words.points),
        Column("At least", values("low"), words.points),
        Column("At most", values("high"), words.points),
    ]
    listed = sheet("Each group against the rest of its column", columns, search="Search groups")
    shown = "" if many == len(rows) else f", the {len(rows)} furthest from the rest; all are in the JSON"
    return section(
        "groups", "Between groups", lead(_GROUPS), folded(f"Show {words.plural(many, 'group')}{shown}", listed)
    )

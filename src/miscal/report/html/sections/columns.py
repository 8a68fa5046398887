"""Column by column, and where columns meet: groups, subpopulations with their running totals, neighbourhoods."""

import math
from collections.abc import Sequence

import numpy as np

from miscal.codes.audit import GroupNote
from miscal.report import wording
from miscal.report.html.column_figures import (
    cumulative,
    deviation_reach,
    field_funnel,
    field_levels,
    neighbourhood,
    variable,
)
from miscal.report.html.gap_figures import reliability
from miscal.report.html.markup import Safe, ellipsis, join, prose, tag
from miscal.report.html.sections.blocks import (
    RATES,
    TableColumn,
    columns_of,
    figure,
    folded,
    lead,
    quiet,
    section,
    sheet,
)
from miscal.report.model import AuditReport
from miscal.report.result_tables import LONGEST_NAME, ResultView
from miscal.report.values import TableColumns, floats, text, whole

#: Fields with more levels than this are drawn as a funnel beside the strongest levels.
FUNNEL_FROM = 16
_KINDS = {"variable": "by range", "field": "by level"}
MOST_LISTED = 60  # subpopulations
FIGURE_BYTES = 600_000  # of all columns
_SAID = prose("columns")


def entries(document: AuditReport) -> list[ResultView]:
    """Every variable and field of the audit: those with the largest finding first, then those without, by strength.

    The size of a finding is its events off for certain; one of a combination says nothing of a column's own size.
    """
    sizes: dict[str, float] = {}
    for finding in document.real:
        for key in (ellipsis(column, LONGEST_NAME) for column in finding.columns):
            sizes[key] = max(sizes.get(key, 0.0), finding.at_least if len(finding.columns) == 1 else 0.0)
    return sorted(document.columns, key=lambda entry: (-sizes.get(entry.column, -1.0), -entry.strength))


def columns(document: AuditReport, room: int) -> Safe:
    """The section: the table always whole, figures until their bytes, or those that the page has left, are spent."""
    every = entries(document)
    if not every:
        return Safe("")
    pictures: list[Safe] = []
    room = min(FIGURE_BYTES, room - len(_table(every, ())))
    for place, entry in enumerate(every):
        made = join(figures(entry, f"column-{place}"))
        room -= len(made.encode())
        if room < 0:
            break
        pictures.append(made)
    left = len(every) - len(pictures)
    curved = [entry for entry in every if entry.curve]
    sampled = max((whole(entry.extra.get("curve_rows")) for entry in curved), default=0)
    drawn_at_random = f", from {wording.count(sampled)} rows drawn at random" if sampled else ""
    curves = f" {_SAID['curves']}{drawn_at_random}." if curved else ""
    return section(
        "columns",
        "Column by column",
        lead(_SAID["lead"], curves),
        _table(every, [f"column-{place}" for place in range(len(pictures))]),
        tag("div", pictures, class_="grid", data_searched="columns-table", data_fold=4, data_many=30),
        tag("p", f"{wording.plural(left, 'further column')} in the table and in the JSON, not drawn.")
        if left
        else None,
    )


def column_list(every: list[ResultView], links: Sequence[str] = ()) -> list[TableColumn]:
    """What is said of each column, on the page and in markdown."""
    return [
        TableColumn("TableColumn", [e.column for e in every], "name", links=links),
        TableColumn("Looked at", [_KINDS[e.kind] for e in every], "words"),
        *columns_of(every, "value", "noise_floor"),
        TableColumn("p-value", [e.p_value for e in every], least=[e.extra.get("p_least") for e in every]),
        TableColumn("Worst place", [e.worst[0] for e in every], "words"),
        TableColumn("Gap there", [e.worst[1] for e in every], wording.points),
    ]


def _table(every: list[ResultView], links: Sequence[str]) -> Safe:
    columns = column_list(every, links)
    return sheet(_SAID["table"], columns, search="Search columns and places", identity="columns-table")


def figures(entry: ResultView, identity: str | None = None) -> list[Safe]:
    """The figures of a result, by its kind, each with what it shows."""
    if entry.kind == "score":
        bins = f"Each dot is one of {len(entry.cells)} bins of the score. {prose('score')['reliability']}"
        totals = [figure(cumulative(walk), prose("score")["walk"]) for walk in entry.walks]
        return [figure(reliability(entry), bins), *totals]
    if entry.kind == "subpopulation":
        walks = entry.walks[:4]
        reach = deviation_reach(walks)
        return [figure(cumulative(one, reach), heading=one.label) for one in walks]
    if entry.kind == "neighbourhood" and entry.grid:
        said = f"Largest gap {wording.number(entry.extra.get('largest_deviations'))} standard errors"
        said = f"{said}, {wording.p_value(entry.p_value)}."
        return [figure(neighbourhood(entry), said, heading=" and ".join(entry.columns))]
    if entry.kind == "class":
        return []
    draw = variable if entry.kind in ("variable", "variation") and "low" in entry.table else field_levels
    caption = f"Off by {wording.percent(entry.value)}"
    caption += (
        "." if math.isnan(entry.noise_floor) else f", noise alone {wording.percent(entry.noise_floor)}."
    )
    searched = f"{entry.column} {_KINDS.get(entry.kind, '')} {entry.worst[0]}"
    made = [figure(draw(entry), caption, heading=entry.column, identity=identity, searched=searched)]
    if entry.kind == "field" and len(entry.cells) >= FUNNEL_FROM:
        heading = f"{entry.column}: all levels"
        made.append(figure(field_funnel(entry), _SAID["funnel"], heading=heading, searched=searched))
    return made


def subpopulations(document: AuditReport) -> Safe:
    """The section of subpopulations; empty where none were searched."""
    made: list[Safe] = []
    for result in document.of("subpopulation"):
        drawn = figures(result)
        named = TableColumn("Subpopulation", result.table["label"], "name")
        columns = [named, *columns_of(result.table, *RATES, "deviations", "p_adjusted")]
        caption = "Subpopulations, furthest off first"
        listed = sheet(caption, columns, search="Search subpopulations", most=MOST_LISTED)
        said = [tag("p", _judged(result)), quiet(_SAID["band"]) if drawn else None]
        pair = tag("div", drawn, class_="pair") if drawn else None
        made.append(tag("div", said, pair, folded("Show the subpopulations furthest off", listed)))
    return section("subpopulations", "Subpopulations", made, opening=_SAID["searched"])


def _judged(result: ResultView) -> str:
    """M in standard deviations of noise, its p-value, what noise alone shows, and how that was found."""
    table = result.table
    noise = wording.finite(result.extra.get("null_mean"))
    first = text([*table["label"], ""][0])
    worst = [*table["deviations"], None][0]
    judged = f"{wording.plural(table.rows, 'subpopulation')} judged."
    said = f"{judged} M = {wording.number(worst)} standard deviations ({first}); {wording.p_value(result.p_value)}."
    if not math.isnan(noise):
        said += f" The largest of so many would be {wording.number(noise, 2)} by noise alone."
    return f"{said} {result.method}".strip()


def neighbourhoods(document: AuditReport) -> Safe:
    """The section of neighbourhoods; empty where none were searched or found."""
    maps = [result for result in document.of("neighbourhood") if result.grid]
    drawn = [made for result in maps for made in figures(result)]
    pair = tag("div", drawn, class_="pair") if drawn else None
    return section("neighbourhoods", "Neighbourhoods", pair, opening=_SAID["map"])


def groups(document: AuditReport) -> Safe:
    """Differences between groups, each level of a field against the rest: what can be judged first, the worst of it."""
    names = ("column", "level", "rows", "gap", "gap_rest", "difference", "low", "high", "note")
    table = TableColumns({name: [] for name in names})
    for result in (*document.of("field"), *document.of("variable")):
        found = TableColumns(result.extra.get("differences"))
        found["column"] = [text(result.settings.get("column"))] * found.rows
        for name in names:
            table[name] += found[name]
    least = np.fmax(floats(table["low"]), -floats(table["high"]))
    small = np.array([note == GroupNote.TOO_SMALL for note in table["note"]], dtype=bool)
    order = np.lexsort((-least, small)).tolist()
    shown = columns_of(table.take(order), *names)
    listed = sheet("Each group against the rest of its column", shown, search="Search groups")
    every = folded(f"Show {wording.plural(len(least), 'group')}, those furthest from the rest first", listed)
    return section("groups", "Between groups", every, opening=_SAID["groups"])

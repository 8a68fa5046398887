"""Single columns, and intersections: groups, subpopulations with their cumulative differences, neighbourhoods."""

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
from miscal.report.html.markup import Safe, ellipsis, join, phrase, prose, tag
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

#: Columns with at least as many categories are drawn as a funnel too.
FUNNEL_FROM = 16
_KINDS = {"variable": "by range", "field": "by category"}
MOST_LISTED = 60  # subpopulations
FIGURE_BYTES = 600_000  # of all columns
_TEXT = prose("columns")


def entries(document: AuditReport) -> list[ResultView]:
    """The results of all single columns: by the size of their largest finding, then by strength.

    The size of a finding is its minimum excess of events; a finding of an intersection counts as 0 for its columns.
    """
    sizes: dict[str, float] = {}
    for finding in document.real:
        for key in (ellipsis(column, LONGEST_NAME) for column in finding.columns):
            sizes[key] = max(sizes.get(key, 0.0), finding.at_least if len(finding.columns) == 1 else 0.0)
    return sorted(document.columns, key=lambda entry: (-sizes.get(entry.column, -1.0), -entry.strength))


def columns(document: AuditReport, room: int) -> Safe:
    """The section: the whole table, and figures until `FIGURE_BYTES`, or the bytes left in the report, are spent."""
    results = entries(document)
    if not results:
        return Safe("")
    pictures: list[Safe] = []
    room = min(FIGURE_BYTES, room - len(_table(results, ())))
    for position, entry in enumerate(results):
        drawn = join(figures(entry, f"column-{position}"))
        room -= len(drawn.encode())
        if room < 0:
            break
        pictures.append(drawn)
    n_left = len(results) - len(pictures)
    curved = [entry for entry in results if entry.curve]
    sampled = max((whole(entry.extra.get("curve_rows")) for entry in curved), default=0)
    sample = phrase("columns", "sampled", rows=wording.count(sampled)) if sampled else ""
    curves = f" {_TEXT['curves']}{sample}." if curved else ""
    return section(
        "columns",
        "Column by column",
        lead(_TEXT["lead"], curves),
        _table(results, [f"column-{position}" for position in range(len(pictures))]),
        tag("div", pictures, class_="grid", data_searched="columns-table", data_fold=4, data_many=30),
        tag("p", f"{wording.plural(n_left, 'further column')} in the table and the JSON, not drawn.")
        if n_left
        else None,
    )


def column_list(results: list[ResultView], links: Sequence[str] = ()) -> list[TableColumn]:
    """The table of columns, as report and Markdown show it."""
    return [
        TableColumn("Column", [result.column for result in results], "name", links=links),
        TableColumn("Tested", [_KINDS[result.kind] for result in results], "words"),
        *columns_of(results, "value", "noise_floor"),
        TableColumn(
            "p-value",
            [result.p_value for result in results],
            least=[result.extra.get("p_least") for result in results],
        ),
        TableColumn("Worst segment", [result.worst[0] for result in results], "words"),
        TableColumn("Gap there", [result.worst[1] for result in results], wording.points),
    ]


def _table(results: list[ResultView], links: Sequence[str]) -> Safe:
    columns = column_list(results, links)
    return sheet(_TEXT["table"], columns, search="Search columns and segments", identity="columns-table")


def figures(entry: ResultView, identity: str | None = None) -> list[Safe]:
    """The figures of a result, by its kind, with their captions."""
    if entry.kind == "score":
        bins = f"Each point is one of {len(entry.cells)} bins of the score. {prose('score')['reliability']}"
        lines = [figure(cumulative(walk), phrase("score", "cumulative")) for walk in entry.walks]
        return [figure(reliability(entry), bins), *lines]
    if entry.kind == "subpopulation":
        walks = entry.walks[:4]
        reach = deviation_reach(walks)
        return [figure(cumulative(walk, reach), heading=walk.label) for walk in walks]
    if entry.kind == "neighbourhood" and entry.grid:
        largest = wording.number(entry.extra.get("largest_deviations"))
        caption = f"Largest gap {largest} standard errors, {wording.p_value(entry.p_value)}."
        return [figure(neighbourhood(entry), caption, heading=" and ".join(entry.columns))]
    if entry.kind == "class":
        return []
    draw = variable if entry.kind in ("variable", "variation") and "low" in entry.table else field_levels
    caption = f"Average error {wording.error(entry.value)}"
    if not math.isnan(entry.noise_floor):
        caption += f"; {wording.error(entry.noise_floor)} expected for a calibrated model"
    caption += "."
    searched = f"{entry.column} {_KINDS.get(entry.kind, '')} {entry.worst[0]}"
    drawn = [figure(draw(entry), caption, heading=entry.column, identity=identity, searched=searched)]
    if entry.kind == "field" and len(entry.cells) >= FUNNEL_FROM:
        heading = f"{entry.column}: all categories"
        drawn.append(figure(field_funnel(entry), _TEXT["funnel"], heading=heading, searched=searched))
    return drawn


def subpopulations(document: AuditReport) -> Safe:
    """The section of subpopulations; empty where none were searched."""
    searches: list[Safe] = []
    for result in document.of("subpopulation"):
        drawn = figures(result)
        named = TableColumn("Subpopulation", result.table["label"], "name")
        columns = [named, *columns_of(result.table, *RATES, "deviations", "p_adjusted")]
        caption = "Subpopulations, largest Kuiper statistic first"
        listed = sheet(caption, columns, search="Search subpopulations", most=MOST_LISTED)
        opening = [tag("p", _search_sentence(result)), quiet(_TEXT["band"]) if drawn else None]
        pair = tag("div", drawn, class_="pair") if drawn else None
        searches.append(tag("div", opening, pair, folded("Show the subpopulations", listed)))
    return section("subpopulations", "Subpopulations", searches, opening=_TEXT["searched"])


def _search_sentence(result: ResultView) -> str:
    """M in standard errors, its p-value, its expected value for a calibrated model, and the method."""
    table = result.table
    expected = wording.finite(result.extra.get("null_mean"))
    first = text([*table["label"], ""][0])
    worst = [*table["deviations"], None][0]
    tested = f"{wording.plural(table.rows, 'subpopulation')} tested."
    statistic = f"M = {wording.number(worst)} standard errors ({first}); {wording.p_value(result.p_value)}."
    sentences = [tested, statistic]
    if not math.isnan(expected):
        sentences.append(f"Expected maximum for a calibrated model: {wording.number(expected, 2)}.")
    return " ".join([*sentences, result.method]).strip()


def neighbourhoods(document: AuditReport) -> Safe:
    """The section of neighbourhoods; empty where none were searched or found."""
    maps = [result for result in document.of("neighbourhood") if result.grid]
    drawn = [drawing for result in maps for drawing in figures(result)]
    pair = tag("div", drawn, class_="pair") if drawn else None
    return section("neighbourhoods", "Neighbourhoods", pair, opening=_TEXT["map"])


def groups(document: AuditReport) -> Safe:
    """Differences between groups, each category against the rest of its column: tested ones first, by size."""
    names = ("column", "level", "rows", "gap", "gap_rest", "difference", "low", "high", "note")
    table = TableColumns({name: [] for name in names})
    for result in (*document.of("field"), *document.of("variable")):
        differences = TableColumns(result.extra.get("differences"))
        differences["column"] = [text(result.settings.get("column"))] * differences.rows
        for name in names:
            table[name] += differences[name]
    minimum = np.fmax(floats(table["low"]), -floats(table["high"]))
    small = np.array([note == GroupNote.TOO_SMALL for note in table["note"]], dtype=bool)
    order = np.lexsort((-minimum, small)).tolist()
    shown = columns_of(table.take(order), *names)
    listed = sheet("Each group against the rest of its column", shown, search="Search groups")
    table_of_groups = folded(
        f"Show {wording.plural(len(minimum), 'group')}, largest difference first", listed
    )
    return section("groups", "Between groups", table_of_groups, opening=_TEXT["groups"])

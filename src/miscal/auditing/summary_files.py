"""Tables of which a file keeps sums alone: how one is made, added to others, and looked at."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from miscal.aggregate.column_roles import ColumnRoles
from miscal.aggregate.sample import BYTES_PER_ADDED_LEVEL, gather, levels_that_fit, rows_that_fit
from miscal.aggregate.source import open_source
from miscal.aggregate.summary import ColumnSums, Summary
from miscal.auditing.all_rows import AllRows, column_like, cuts_like, cuts_of, look_at_sums, score_edges
from miscal.auditing.column_choice import (
    MAX_LEVELS,
    Names,
    chosen_columns,
    left_out,
    named,
    usable_columns,
)
from miscal.auditing.search.candidates import TargetSearch
from miscal.auditing.search.cell_grids import SearchContext
from miscal.auditing.search.coded_columns import fine_part
from miscal.auditing.search.collect import AuditOptions, SearchResult, leave_out_by_effort
from miscal.cells.partitions import Ranges
from miscal.cells.ranges import bin_index
from miscal.data.arrays import Plain, expanded
from miscal.data.calendar import number_of
from miscal.data.column_types import column_type
from miscal.data.errors import refusal
from miscal.data.target import TargetData, pair
from miscal.metrics import from_sums
from miscal.stats.cell_sums import CellSums

SAMPLED = 200_000  # rows that the edges of a tally are chosen on


def look_at_tally(path: Path, wanted: AuditOptions, options: Plain) -> SearchResult:
    """Look at a file of sums."""
    summary = Summary.load(path)
    _check(summary, path.name, options)
    weight = np.ones(1) if summary.grid.weighted else None
    one = TargetData(np.array([0.5]), np.array([0], np.uint8), weight=weight)  # stands in for the rows
    noise = from_sums.noise_of_sums(summary.grid, outcome_weights=summary.outcome_weights)
    rows = SearchContext(one, one, noise, scale=math.nan)
    several = {
        name: in_order(name, each) for name, each in summary.fields.items() if each.tally.cells.count > 1
    }
    target = str(summary.about["target"])
    looked = TargetSearch(target, "", rows, None, CellSums.of(summary.grid))
    look_at_sums(looked, replace(summary, fields=several), wanted.random_state)
    # Less the average that all rows have left: the score was put right on the first table.
    for group in looked.columns:
        sums, total = group.beyond, max(group.beyond.variance.sum(), 1e-300)
        group.beyond = replace(sums, predicted=sums.predicted - sums.off.sum() * sums.variance / total)
    aside = [{**entry, "rows": summary.rows} for entry in summary.aside]
    aside += [left_out(name, summary.rows, "constant") for name in summary.fields if name not in several]
    leave_out_by_effort(looked, "tally", [], 0)
    about = {word: summary.about[word] for word in ("outcome", "probability", "weight_column")}
    about |= {"rows": summary.rows, "fingerprint": summary.fingerprint}
    settings = {"effort": "quick", "target": target, "tables": summary.parts}
    return SearchResult([looked], about, aside, settings)


def in_order(name: str, each: ColumnSums) -> ColumnSums:
    """The values of a column that each table had one of, as a variable again; text as it is."""
    cells: Any = each.tally.cells
    found = [number_of(text) for text in cells.names]
    if column_type(each.kind).categorical or None in found:  # or text in a later table
        return each
    values = np.array(found, np.float64)
    column = column_like(name, each, values)
    one = TargetData(np.full(values.size, 0.5), np.zeros(values.size, np.uint8))
    cuts = cuts_of(fine_part(column), one)
    grid: Any = cuts.grid
    ranges = Ranges(grid, cells.missing, name)
    groups = np.append(bin_index(values, grid), [ranges.count - 1] * cells.missing)
    tally, beyond = (sums.coarsen(groups, ranges) for sums in (each.tally, each.beyond))
    return ColumnSums(each.kind, tally, beyond, cuts.bins, cuts.fine)


def _check(summary: Summary, name: str, options: Plain) -> None:
    """Refuse what a file of sums cannot follow any more, rather than leave it out of the audit unsaid."""
    for word, value in options.items():
        if word in ("outcome", "probability"):
            asked, kept = (", ".join(named(names)) for names in (value, summary.about.get(word)))
            if asked and kept and asked != kept:
                raise refusal(f"is '{kept}' in '{name}'", f"'{word}'", got=f"'{asked}' was asked for")
        elif value:
            raise refusal(
                "is settled when a tally is made",
                f"'{word}'",
                got=f"'{name}' keeps sums, not rows",
                hint="leave it out here, and give it to `miscal tally`, or audit the table itself",
            )


def tally_of(
    data: Any,
    roles: ColumnRoles,
    *,
    by: Names | None = None,
    ignore: Names = (),
    like: Summary | None = None,
    memory: Any = None,
    max_levels: int = MAX_LEVELS,
) -> Summary:
    """All that an audit needs of a table, without its rows; with the edges of another summary if given."""
    memory = memory or "1GB"
    source = open_source(data, memory)
    roles = replace(roles, probability=expanded(roles.probability, source.names))
    if like is not None:
        by = by or [*like.variables, *like.fields]
    kept = usable_columns(source, roles, by, ignore)
    limit = min(rows_that_fit(memory, source.kinds, source.text_bytes), SAMPLED)
    rows = gather(source, roles, kept, limit=limit, scores=True)
    compared = pair(rows.predictions)
    max_levels = min(max_levels, levels_that_fit(memory, rows.predictions, BYTES_PER_ADDED_LEVEL))
    # A column of one level here (the day) may have others in the tallies that this one is added to.
    columns, aside = chosen_columns(rows.predictions, by, ignore, max_levels, constants=True)
    unread = [left_out(name, rows.rows, reason) for name, reason in rows.excluded if name not in ignore]
    if like is None:
        grid, edges = None, score_edges(compared)
        parts = (fine_part(column, compared.weight, compared.count) for column in columns)
        cuts = [cuts_of(part, compared, alone=True) for part in parts]
    else:
        grid, edges = like.grid, like.score.cells.edges  # type: ignore[union-attr]
        cuts = [cuts_like(column.name, like) for column in columns]
    every = AllRows(source, roles, rows, "auto", compared.target, max_levels, [*unread, *aside], grid)
    return every.add(edges, cuts)[0]

"""Summary files, which keep the sums of a table without its rows: how one is made, and searched."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from miscal.aggregate.column_roles import ColumnRoles
from miscal.aggregate.sample import BYTES_PER_ADDED_LEVEL, gather, levels_that_fit, rows_that_fit
from miscal.aggregate.source import open_source
from miscal.aggregate.summary import ColumnSums, Summary
from miscal.auditing.all_rows import (
    AllRows,
    binning_like,
    column_binning,
    column_like,
    score_edges,
    search_of_sums,
    stand_in,
)
from miscal.auditing.column_choice import (
    Names,
    chosen_columns,
    named,
    usable_columns,
)
from miscal.auditing.exclusions import of_plain, unusable
from miscal.auditing.options import MAX_LEVELS, AuditOptions
from miscal.auditing.search.cell_grids import CellGrid
from miscal.auditing.search.coded_columns import fine_coding
from miscal.auditing.search.collect import SearchResult
from miscal.auditing.search.not_tested import not_tested_by_effort
from miscal.auditing.search.search_context import SearchContext
from miscal.auditing.search.target_search import TargetSearch
from miscal.cells.partitions import Ranges
from miscal.cells.ranges import bin_index
from miscal.codes.audit import ExclusionReason, Reason
from miscal.data.arrays import expanded
from miscal.data.calendar import number_of
from miscal.data.column_types import column_type
from miscal.data.errors import refusal
from miscal.data.target import TargetData, select_target
from miscal.metrics import from_sums
from miscal.report.model import Excluded
from miscal.stats.cell_sums import CellSums

MAX_SAMPLED = 200_000  # rows on which the edges of a summary are chosen


def search_summary_file(path: Path, options: AuditOptions) -> SearchResult:
    """Search a summary file."""
    summary = Summary.load(path)
    _check(summary, path.name, options)
    weight = np.ones(1) if summary.grid.weighted else None
    no_rows = TargetData(np.array([0.5]), np.array([0], np.uint8), weight=weight)  # stands in for the rows
    null_model = from_sums.noise_of_sums(summary.grid, outcome_weights=summary.outcome_weights)
    context = SearchContext(no_rows, no_rows, null_model, sampling_ratio=math.nan)
    fields = {
        name: in_order(name, sums) for name, sums in summary.fields.items() if sums.tally.cells.count > 1
    }
    target = str(summary.about["target"])
    search = TargetSearch(target, "", context, None, CellSums.of(summary.grid))
    columns = [
        (stand_in(name, sums, no_rows.rows), None) for name, sums in (summary.variables | fields).items()
    ]
    search = search_of_sums(search, context, columns, replace(summary, fields=fields), options.random_state)
    search = replace(search, columns=tuple(_centred(grid) for grid in search.columns))
    search = search.extended(not_tested=not_tested_by_effort(search, "tally", [], 0))
    excluded = [of_plain(entry, summary.rows) for entry in summary.aside]
    constant = Reason(ExclusionReason.CONSTANT)
    excluded += [Excluded(name, summary.rows, constant) for name in summary.fields if name not in fields]
    about = {word: summary.about[word] for word in ("outcome", "probability", "weight_column")}
    about |= {"rows": summary.rows, "fingerprint": summary.fingerprint}
    settings = {"effort": "quick", "target": target, "tables": summary.parts}
    return SearchResult([search], about, excluded, settings)


def _centred(grid: CellGrid) -> CellGrid:
    """A grid without the mean error that all rows have left: the score was recalibrated on the first table."""
    sums, total = grid.recalibrated, max(grid.recalibrated.variance.sum(), 1e-300)
    mean_error = sums.off.sum() * sums.variance / total
    return replace(grid, recalibrated=replace(sums, predicted=sums.predicted - mean_error))


def in_order(name: str, sums: ColumnSums) -> ColumnSums:
    """The values of a column that each table had one of, as numbers again; text as it is."""
    cells: Any = sums.tally.cells
    numbers = [number_of(text) for text in cells.names]
    if column_type(sums.kind).categorical or None in numbers:  # or text in a later table
        return sums
    values = np.array(numbers, np.float64)
    column = column_like(name, sums, values)
    no_rows = TargetData(np.full(values.size, 0.5), np.zeros(values.size, np.uint8))
    binning = column_binning(fine_coding(column), no_rows)
    grid: Any = binning.grid
    ranges = Ranges(grid, cells.missing, name)
    groups = np.append(bin_index(values, grid), [ranges.count - 1] * cells.missing)
    raw, recalibrated = (each.coarsen(groups, ranges) for each in (sums.tally, sums.beyond))
    return ColumnSums(sums.kind, raw, recalibrated, binning.bins, binning.fine)


def _check(summary: Summary, name: str, options: AuditOptions) -> None:
    """Reject options that a summary file cannot follow any more."""
    given = options.reading | {"by": options.by, "ignore": options.ignore, "time": options.time}
    for option, value in given.items():
        if option in ("outcome", "probability"):
            asked, kept = (", ".join(named(names)) for names in (value, summary.about.get(option)))
            if asked and kept and asked != kept:
                raise refusal(f"is '{kept}' in '{name}'", f"'{option}'", got=f"'{asked}' was asked for")
        elif value:
            raise refusal(
                "is fixed when a summary file is made",
                f"'{option}'",
                got=f"'{name}' keeps sums, not rows",
                hint="leave it out here, and give it to `miscal summarize`, or audit the table itself",
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
    limit = min(rows_that_fit(memory, source.kinds, source.text_bytes), MAX_SAMPLED)
    rows = gather(source, roles, kept, limit=limit, scores=True)
    compared = select_target(rows.predictions)
    max_levels = min(max_levels, levels_that_fit(memory, rows.predictions, BYTES_PER_ADDED_LEVEL))
    # A column of one level here (the day) may have others in the tallies that this one is added to.
    columns, aside = chosen_columns(rows.predictions, by, ignore, max_levels, constants=True)
    unread = [unusable(name, rows.rows, reason) for name, reason in rows.excluded if name not in ignore]
    if like is None:
        grid, edges = None, score_edges(compared)
        coded = (fine_coding(column, compared.weight, compared.count) for column in columns)
        binnings = [column_binning(column, compared, constant_as_level=True) for column in coded]
    else:
        grid, edges = like.grid, like.score.cells.edges  # type: ignore[union-attr]
        binnings = [binning_like(column.name, like) for column in columns]
    all_rows = AllRows(source, roles, rows, "auto", compared.label, max_levels, [*unread, *aside], grid)
    return all_rows.add(edges, binnings)[0]

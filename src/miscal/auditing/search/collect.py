"""Search one target: its score and every column, with the curves that a report shows of them.

The rule: what is proposed here is tested in `judge`. Pairs, subpopulations and neighbourhoods are added by `crossings`,
for the first target only.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from miscal.aggregate.source import release_memory
from miscal.auditing.options import AuditOptions
from miscal.auditing.search.cell_grids import CellGrid, tally_grid
from miscal.auditing.search.coded_columns import CodedColumn
from miscal.auditing.search.score_tails import fine_sums
from miscal.auditing.search.search_context import SearchContext, cluster_variance_ratio, score_grid
from miscal.auditing.search.segment_tests import grid_shape_tests
from miscal.auditing.search.target_search import TargetSearch
from miscal.cells.coding import range_pooling
from miscal.codes.audit import FindingKind
from miscal.codes.inference import Null
from miscal.data.arrays import Array, Plain
from miscal.data.columns import Column
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData
from miscal.metrics.curves import curve_of
from miscal.metrics.field import FieldResult, by_field
from miscal.metrics.score import by_score
from miscal.metrics.variable import VariableResult, by_variable, density_of
from miscal.report.model import Excluded
from miscal.stats.isotonic import cross_fitted_score
from miscal.stats.null_model import choose_null

SHOWN_RANGES = 10  # of a numeric column
MAX_CURVE_ROWS = 100_000  # a curve of sixty points is not read more finely than so many rows show it
CURVE_POINTS, MIN_CURVE_POINTS = 58, 12  # with fewer points the ranges show as much
CURVE_SPAN = 0.3  # of the rows in a window: three of ten ranges, so that the curve can follow the dots
MIN_CURVE_ROWS = 100
MAX_KEPT_PROFILES = 1 << 11  # cells of a column whose sums by the score are kept


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What was searched in a table, before anything is tested.

    Attributes
    ----------
    searches : list of TargetSearch
        One for each target.
    about : dict
        What the document says of the data.
    excluded : list of Excluded
        Columns that are not audited.
    settings : dict
        How the table was read, where that matters.
    notes : list of str
        What to know of the table before anything else.
    """

    searches: list[TargetSearch]
    about: Plain
    excluded: list[Excluded]
    settings: Plain
    notes: list[str] = field(default_factory=list)


def search_target(
    predictions: Predictions,
    target_data: TargetData,
    coded_columns: Sequence[CodedColumn],
    target: str | int,
    scope: str,
    options: AuditOptions,
    *,
    tested: bool = True,
) -> TargetSearch:
    """The score and the columns of one target.

    Parameters
    ----------
    target_data : TargetData
        What is compared: `select_target(predictions, target)`.
    coded_columns : sequence of CodedColumn
        The columns, which all targets share.
    target, scope : str or int, str
        Which event is compared, and its class in words where there are several targets.
    tested : bool
        Whether anything is tested; a sample whose columns are not crossed only says how they are cut.
    """
    common: Plain = {"target": target, "random_state": options.random_state}
    options.report_progress("score")
    with warnings.catch_warnings():  # the user did not give a number of bins
        warnings.filterwarnings("ignore", message=".*bins were asked for")
        score = by_score(predictions, **common) if tested else None
    recalibrated_score = cross_fitted_score(target_data, options.random_state)
    context = SearchContext(
        raw=target_data,
        recalibrated=replace(target_data, predicted=recalibrated_score),
        null_model=choose_null(target_data, Null.BERNOULLI),
        variance_ratio=cluster_variance_ratio(target_data),
        score_grid=score_grid(target_data),
    )
    release_memory(target_data.rows)
    score_column = options.score_column if target_data.label == "positive" else None
    search = TargetSearch(target, scope, context, score, fine_sums(target_data), score_column)
    columns, shape_tests = [], {}
    curve_sample = curve_rows(target_data.rows, options.random_state)
    for coded in coded_columns:
        options.report_progress(coded.name)
        grid = _column_grid(predictions, coded, context, options, common, curve_sample, tested=tested)
        columns.append(grid)
        if tested:
            shape_tests[grid.id] = grid_shape_tests(grid)
    return replace(search, columns=tuple(columns), shape_tests=shape_tests)


def _column_grid(
    predictions: Predictions,
    coded: CodedColumn,
    context: SearchContext,
    options: AuditOptions,
    common: Plain,
    curve_sample: Array,
    *,
    tested: bool,
) -> CellGrid:
    """The cells of one column, with what is shown of it."""
    column = coded.column
    result: VariableResult | FieldResult | None = None
    p_value = None
    if tested and column.nominal:
        result = by_field(predictions, coded.name, **common)
        p_value = result.table["p_value"]
    elif tested:
        ranges = by_variable(predictions, coded.name, bins=_shown_bins(column), curve=False, **common)
        quick = options.effort == "quick"
        result = ranges if quick else with_curve(ranges, context.raw, column, curve_sample)
    kind = FindingKind.FIELD if column.nominal else FindingKind.VARIABLE
    kept = MAX_KEPT_PROFILES if tested else 0
    return tally_grid([coded], kind, context, p_value=p_value, result=result, max_kept_profiles=kept)


def _shown_bins(column: Column) -> Any:
    """How a numeric column is cut where it is shown: ranges of equal support, or what its type prefers."""
    return column.type.shown_bins(column.values, SHOWN_RANGES)


def shown_edges(column: Column, target: TargetData) -> Array | None:
    """The edges of the ranges that are shown of a numeric column; None where all values are missing."""
    pooling = range_pooling(column, _shown_bins(column), weight=target.weight, count=target.count)
    return getattr(pooling.cells, "edges", None)


def screening_p(search: TargetSearch, grid: CellGrid) -> float:
    """How surprising a column is by itself: the smallest of its p-values, corrected."""
    testable = grid.p_value[~np.isnan(grid.p_value)]
    worst_cell = testable.min() * testable.size if testable.size else 1.0
    return float(np.nanmin([1.0, worst_cell, search.min_profile_p(grid), grid.shown.p_value]))


def curve_rows(rows: int, random_state: int) -> Array:
    """The rows that the curves are drawn from: all of them, or a sample that all columns share."""
    if rows <= MAX_CURVE_ROWS:
        return np.arange(rows)
    return np.sort(np.random.default_rng(random_state).choice(rows, MAX_CURVE_ROWS, replace=False))


def with_curve(result: VariableResult, target: TargetData, column: Column, sample: Array) -> VariableResult:
    """The result with its curve, and `curve_rows` where not all rows were used."""
    rows = sample[~np.isnan(column.values[sample])]
    if rows.size < MIN_CURVE_ROWS:
        return result
    # Points where the rows are, from the 2.5% to the 97.5% quantile; none where few values are different, or so far
    # apart that there is no number between them.
    values = column.values[rows]
    grid = np.unique(np.quantile(values, np.linspace(0.025, 0.975, CURVE_POINTS)))
    if grid.size < MIN_CURVE_POINTS or not np.isfinite(grid).all():
        return result
    inside, seed = target.take(rows), result.settings["random_state"]
    smooth = curve_of(inside, values, grid=grid, span=CURVE_SPAN, random_state=seed)
    return replace(
        result,
        curve=smooth.frame(),
        density=density_of(values, inside, integer=column.integer),
        curve_rows=rows.size if sample.size < target.rows else None,
    )

"""From rows, or sums of rows, in cells to what a result says of them: gaps, tests, and the error with its null.

Score, variable and field differ only in how rows are partitioned. The steps are the same for all:

1. `evaluate_cells` sums the rows of each cell (`evaluate_tally` starts from sums that are at hand), tests each cell and
   compares the error over all cells with the null model: a `CellEvaluation`.
2. `category_tests` or `ordered_tests` combine several tests over the same cells to the result's p-value.
3. `CellEvaluation.common_fields` gives the fields that all results of cells share.

A statistic, a p-value or an interval is computed in `miscal.stats`, never here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from miscal.aggregate.in_memory import MIN_DISTINCT_KEYS, CumulativeRange, cumulative_range, tally
from miscal.aggregate.summary import GRID
from miscal.aggregate.tally import Tally
from miscal.cells.partitions import OF_SCORE, BinPooling, Cells, LevelPooling, Numbered, Pooling, Ranges
from miscal.cells.ranges import grid_quantiles, united
from miscal.codes.inference import MethodNote, Null
from miscal.data.arrays import Array, Plain
from miscal.data.responses import Units
from miscal.data.target import TargetData
from miscal.metrics.inputs import Norm, bins_asked, norm_power
from miscal.results import Estimate, Record, Table
from miscal.stats.binomial import EXACT_ROWS, CellPValues, cell_p_values
from miscal.stats.cell_sums import (
    EFFECTIVE_EVENTS,
    CellRows,
    CellSums,
    CellTestSettings,
    effective_events,
    effective_events_of,
    ignore_warnings,
    rows_of_cells,
)
from miscal.stats.combined_test import (
    CombinedTest,
    QuadraticTest,
    VariablePieces,
    combine_tests,
    draw_tests,
    level_tests,
    score_tests,
    variable_tests,
)
from miscal.stats.intervals import agree_with_tests, cell_gap_intervals
from miscal.stats.kuiper import kuiper_p_value
from miscal.stats.metric_null import DRAWS, MIN_FLOOR_DRAWS, NullSummary, PooledError, aggregate_null
from miscal.stats.multiplicity import holm, minimum_detectable_gap
from miscal.stats.null_draws import ROW_DRAWS, consistency_band, quiet_cell_scale
from miscal.stats.null_model import NullModel
from miscal.words import sentence
from miscal.words.inference import combined_tests

MANY_ROWS = 20_000
# Cells times draws: with very many levels the error hardly varies, and fewer draws are enough.
MAX_DRAWN_VALUES = 20_000_000
MAX_GRID_SAMPLE = 100_000  # values of a variable from which the edges of its fine grid are computed
MAX_FLIPPED_TRIALS = 2_000_000  # trials of aggregated rows up to which the sign of each is flipped
MAX_DRAWN_KEYS = 200_000  # distinct keys up to which their sums are drawn


@dataclass(frozen=True)
class KuiperTest:
    """Cumulative differences along a key, and their range against the null.

    Attributes
    ----------
    walk : CumulativeRange
    summary : NullSummary
    """

    walk: CumulativeRange
    summary: NullSummary


@dataclass(frozen=True)
class CellEvaluation:
    """Cells with the test of each, and the error over all of them against the null model.

    Attributes
    ----------
    tally : Tally
        The sums of the cells.
    sums : CellSums
        The same as the statistics read them.
    null_model : NullModel
    test_settings : CellTestSettings
        How the cells are tested; with the rows of small cells, clusters or flipped signs.
    cell_p_values : CellPValues
    p_adjusted : array
        P-values of the cells, adjusted by Holm's method.
    summary : NullSummary
        The error over all cells.
    level : float
        One minus the joint coverage of the gaps' intervals.
    error : PooledError
        The norm of the gaps.
    test_draws : array or None
        Draws of the tests of `category_tests`, where they are those of the error as well.
    """

    tally: Tally
    sums: CellSums
    null_model: NullModel
    test_settings: CellTestSettings
    cell_p_values: CellPValues
    p_adjusted: Array
    summary: NullSummary
    level: float
    error: PooledError
    test_draws: Array | None

    @property
    def rows(self) -> CellRows | None:
        """The rows of small cells, of clusters or of flipped signs, where the tests need them."""
        return self.test_settings.rows

    @cached_property
    def columns(self) -> Plain:
        """The columns of the result's table."""
        return self.cell_columns(band=True)

    def cell_columns(self, *, band: bool) -> Plain:
        """The columns of the result's table, by name.

        Parameters
        ----------
        band : bool
            Whether the range of the observed means of calibrated cells is simulated; NaN if not.
        """
        sums, tally, level = self.sums, self.tally, self.level
        n_tests = max(int(np.count_nonzero(~np.isnan(self.cell_p_values.p_value))), 1)
        low, high = cell_gap_intervals(sums, self.test_settings, n_tests, level)
        low, high = agree_with_tests(low, high, tally.gap, self.p_adjusted, level)
        unknown = np.full((3, low.size), np.nan)
        error, band_low, band_high = consistency_band(sums, self.test_settings) if band else unknown
        with ignore_warnings():
            ratio = sums.predicted / sums.observed
        columns = {
            **_labels_and_edges(tally.cells, self.null_model.units),
            "rows": tally.counts,
            "weight": sums.weight,
            "predicted": tally.mean_predicted,
            "observed": tally.mean_observed,
            "ratio": ratio,
            "gap": tally.gap,
            "gap_low": low,
            "gap_high": high,
            "error": error,
            "band_low": band_low,
            "band_high": band_high,
            "events_off": tally.events_off,
            "detectable": minimum_detectable_gap(error, n_tests, level),
            "p_value": self.cell_p_values.p_value,
            "p_adjusted": self.p_adjusted,
            "method": self.cell_p_values.method.tolist(),
        }
        return columns if self.null_model.binary else self.null_model.units.of_cells(columns)

    def settings(self, bins: Any, target: str, strategy: str = "quantile", norm: Norm = "l1") -> Plain:
        """How the cells were made and compared."""
        return {
            "bins": bins_asked(bins),
            "strategy": strategy,
            "norm": norm,
            "target": target,
            "null": str(self.null_model.null),
            "random_state": self.test_settings.random_state,
        }

    def common_fields(
        self,
        name: str,
        settings: Mapping[str, Any],
        *,
        combined: CombinedTest | None = None,
        words: str = "",
        table: Table | None = None,
    ) -> Plain:
        """The fields that the results of cells share (`CellResult`), to be passed to the result's class.

        Parameters
        ----------
        name : str
            What was measured, in words.
        settings : mapping of str to object
        combined : CombinedTest, optional
            The tests that make the p-value; without them it is that of the error.
        words : str
            What else is said of the method.
        table : Table, optional
            The result's table where it is not `columns`.
        """
        summary, units = self.summary, self.null_model.units
        numbers = summary.numbers(units.scale)
        method = [sentence(self.null_model.reason), sentence(MethodNote.DRAWS, draws=summary.draws)]
        if summary.sparse_cells:
            method.append(sentence(MethodNote.SPARSE_CELLS))
        draws, at_resolution = summary.draws, summary.draws > 0 == summary.exceedances
        if combined is not None:
            draws, at_resolution = combined.draws, combined.bound
            numbers["p_value"] = combined.p_value
            tests = combined.parts
            numbers["tests"] = Table({"test": list(tests), "p_value": list(tests.values())})
            method.append(combined_tests([*tests], combined.draws))
        if not self.null_model.binary:
            numbers |= {"unit_scale": units.scale, "unit_low": units.low}
        return {
            **numbers,
            "name": name,
            "method": " ".join([*method, words]).strip(),
            "table": Table(self.columns) if table is None else table,
            "settings": settings,
            "tally": self.tally,
            "p_resolution": 1.0 / (1.0 + draws) if at_resolution else None,
        }


def draws_for(cells: int) -> int:
    """How many draws so many levels get."""
    return int(np.clip(MAX_DRAWN_VALUES // max(cells, 1), MIN_FLOOR_DRAWS, DRAWS))


def evaluate_cells(
    data: TargetData, partition: Pooling, null_model: NullModel, **options: Any
) -> CellEvaluation:
    """Sum the rows of each cell, test every cell, and compare the error with the null model.

    Parameters
    ----------
    data : TargetData
    partition : Pooling
        The cell of each row.
    null_model : NullModel
        What `choose_null` gives for the data.
    **options
        Of `evaluate_tally`.
    """
    sums = tally(data, partition)
    return evaluate_tally(sums, null_model, _rows_if_needed(data, partition, sums, null_model), **options)


def evaluate_tally(
    tally: Tally,
    null_model: NullModel,
    rows: CellRows | None = None,
    *,
    norm: Norm = "l1",
    random_state: int = 0,
    level: float = 0.05,
    draws: int = DRAWS,
    unordered: bool = False,
) -> CellEvaluation:
    """As `evaluate_cells`, from sums alone.

    Parameters
    ----------
    tally : Tally
    null_model : NullModel
    rows : CellRows, optional
        The rows of small cells, of clusters or of flipped signs, where they are at hand.
    norm : str or float
        Of the gaps.
    random_state : int
    level : float
        One minus the joint coverage of the gaps' intervals.
    draws : int
    unordered : bool
        Whether the cells have no order, so that `category_tests` will follow: the same draws then serve both.
    """
    sums = null_model.sums(tally)
    error = PooledError(norm_power(norm), sums.weight)
    binary = null_model.residual_variance is None
    residual_scale = 1.0 if binary else quiet_cell_scale(sums, rows)
    settings = null_model.test_settings(
        weighted=tally.weighted, rows=rows, residual_scale=residual_scale, random_state=random_state
    )
    test_draws = error_draws = None
    if unordered:
        test_draws = draw_tests(sums, level_tests(sums, error, binary=binary), settings, draws)
        error_draws = test_draws[:-1, 0]  # the first test is the error itself; the last row is the data
    summary = aggregate_null(sums, error, settings, draws, error_draws)
    cell_tests = cell_p_values(sums, settings)
    p_adjusted = holm(cell_tests.p_value)
    return CellEvaluation(
        tally, sums, null_model, settings, cell_tests, p_adjusted, summary, level, error, test_draws
    )


def _rows_if_needed(
    data: TargetData, partition: Pooling, sums: Tally, null_model: NullModel
) -> CellRows | None:
    """The rows sorted by cell, where small cells, clusters or flipped signs need them."""
    flips = null_model.null == Null.RESIDUAL
    if flips and data.cluster is None and data.count is not None and data.count.sum() > MAX_FLIPPED_TRIALS:
        return None
    needed = sums.counts <= EXACT_ROWS
    if sums.weighted:
        needed |= effective_events(CellSums.of(sums)) < EFFECTIVE_EVENTS
    needed &= sums.counts > 0
    if not (flips or needed.any()):
        return None
    codes = partition.codes().astype(np.int64)
    if not flips and not (sums.weighted and data.rows * DRAWS <= ROW_DRAWS):
        # Only the rows of small cells are used: sorting the others would cost time for nothing.
        codes = np.where(needed[codes], codes, -1)
    return rows_of_cells(codes, partition.cells.count, data)


def _labels_and_edges(cells: Cells, units: Units) -> Plain:
    if not isinstance(cells, Ranges):
        return {"label": cells.labels()}
    if cells.name == OF_SCORE:  # edges of a prediction are in its units
        cells = replace(cells, edges=units.back(cells.edges))
    ends = cells.edges[:-1], cells.edges[1:]
    low, high = (np.append(end, [np.nan] * cells.missing) for end in ends)
    return {"label": cells.labels(), "low": low, "high": high}


def kuiper_test(
    data: TargetData, key: Array | None, null_model: NullModel, random_state: int = 0
) -> KuiperTest:
    """Cumulative differences along a key (the prediction if None), and their range against the null."""
    differences, clustered = cumulative_range(data, key), data.cluster is not None
    residual = data.observed - data.predicted
    squares = np.sum((1.0 if data.variance_weight is None else data.variance_weight) * residual * residual)
    events = differences.events if data.weight is None and data.binary else effective_events_of(data)
    ties_matter = differences.n_distinct < MIN_DISTINCT_KEYS
    by_model = data.binary and null_model.null == Null.BERNOULLI
    rows = ties = None
    # Few keys and many rows: the sums of each key are drawn, in place of every row.
    draw_sums = ties_matter and data.rows > MANY_ROWS and by_model
    if clustered or ties_matter or events < EFFECTIVE_EVENTS:
        keys, codes = np.unique(data.predicted if key is None else key, return_inverse=True)
        if not draw_sums and (clustered or data.count is None):
            # A cluster is flipped as one, so a row that stands for several trials is one step of their total weight.
            rows = rows_of_cells(codes, keys.size, replace(data, weight=data.mean_weight, count=None))
        elif (
            by_model and keys.size <= MAX_DRAWN_KEYS
        ):  # aggregated rows are drawn key by key, not trial by trial
            ties = CellSums.of(tally(data, LevelPooling(codes, Numbered(keys.size))))
    settings = null_model.test_settings(
        weighted=data.weight is not None, rows=rows, random_state=random_state
    )
    if data.count is not None:
        settings = replace(settings, model_variance=False)
    summary = kuiper_p_value(differences, settings, events=events, residual2=squares, ties=ties)
    return KuiperTest(differences, summary)


@dataclass(frozen=True)
class WorstCell(Record):
    """The cell whose lower bound of events off is largest: where the error matters most.

    Attributes
    ----------
    where : str
        Label of the cell.
    gap : float
        Its gap, predicted minus observed.
    cell : int
        Its row in the table.
    """

    where: str
    gap: float
    cell: int


def worst_of(evaluation: CellEvaluation) -> WorstCell:
    """The worst of all cells; by the smallest p-value where no gap has an interval that excludes 0."""
    table = evaluation.columns
    low, high, weight = table["gap_low"], table["gap_high"], table["weight"]
    bound = np.where(low > 0, low, np.where(high < 0, -high, 0.0)) * weight
    if not np.nanmax(bound, initial=0.0) > 0:
        bound = np.where(np.isnan(table["p_value"]), -np.inf, -table["p_value"])
    place = int(np.nanargmax(bound))
    return WorstCell(table["label"][place], float(table["gap"][place]), place)


def estimate_of(summary: NullSummary, scale: float = 1.0) -> Estimate:
    """The record of a summary, in the units that `scale` is of."""
    resolution = 1.0 / (1.0 + summary.draws) if summary.draws else math.nan
    return Estimate(**summary.numbers(scale), method=summary.method, p_resolution=resolution)


# ---- the tests that make a result's p-value: several complementary ones, on draws of the same cells ------------------
def category_tests(evaluation: CellEvaluation) -> CombinedTest:
    """The combined test of cells that have no order."""
    sums, null_model, draws = evaluation.sums, evaluation.null_model, evaluation.test_draws
    exact = null_model.null == Null.BERNOULLI and np.isfinite(evaluation.p_adjusted).any()
    known_p = [float(np.nanmin(evaluation.p_adjusted))] if exact else []
    tests = level_tests(sums, evaluation.error, binary=null_model.residual_variance is None)
    if draws is None:
        draws = draw_tests(sums, tests, evaluation.test_settings, draws_for(sums.rows.size))
    return combine_tests([*tests], draws, known_p)


def ordered_tests(
    evaluation: CellEvaluation,
    grid: Tally,
    kuiper_p: float,
    rows: tuple[TargetData, Array] | None = None,
) -> CombinedTest:
    """The combined test of cells along a variable, or along the score.

    Parameters
    ----------
    evaluation : CellEvaluation
        The ranges.
    grid : Tally
        A fine grid of the variable that has the edges of the ranges, so that no piece of it crosses one.
    kuiper_p : float
        The p-value of `kuiper_test`.
    rows : (TargetData, array), optional
        The rows and their values; needed for clusters, flipped signs and weights.
    """
    cells: Any = evaluation.tally.cells
    fine: Any = grid.cells
    null_model = evaluation.null_model
    range_of_piece = np.searchsorted(cells.edges[1:-1], fine.edges[1:], side="left")
    range_of_piece = np.append(range_of_piece, [cells.edges.size - 1] * fine.missing)
    filled = np.flatnonzero(grid.weight > 0)
    pieces = VariablePieces.of(null_model.sums(grid).take(filled), range_of_piece[filled])
    sums = pieces.sums
    if cells.name == OF_SCORE:
        tests = score_tests(pieces, evaluation.error, binary=null_model.binary)
    else:
        missing = bool(fine.missing and grid.counts[-1])
        tests = variable_tests(pieces, missing=missing, binary=null_model.residual_variance is None)
    settings = replace(evaluation.test_settings, rows=None)
    if rows is not None and (null_model.null == Null.RESIDUAL or rows[0].weight is not None):
        data, values = rows
        piece = np.full(grid.counts.size, -1)
        piece[filled] = pieces.piece
        codes = piece[BinPooling(values, fine).codes()]
        settings = replace(settings, rows=rows_of_cells(codes, sums.rows.size, data))
    if (
        null_model.residual_variance is not None
    ):  # of whole ranges: the residuals of pieces with few rows are small by chance
        size = np.diff(np.append(pieces.starts, sums.rows.size))
        residual_scale = np.asarray(settings.residual_scale)[evaluation.sums.weight > 0.0]
        settings = replace(settings, residual_scale=np.repeat(residual_scale, size))
    known_p: list[float] = []
    total = effective_events(sums.map(lambda values: values.sum(keepdims=True)))
    if null_model.null == Null.BERNOULLI and total[0] >= EFFECTIVE_EVENTS:
        known_p = [
            kuiper_p,
            *(test.p_value(sums) for test in tests.values() if isinstance(test, QuadraticTest)),
        ]
    return combine_tests([*tests], draw_tests(sums, tests, settings, DRAWS), known_p)


def fine_grid(evaluation: CellEvaluation, data: TargetData, values: Array) -> Tally:
    """Sums of a fine grid of the score or of a variable that has the edges of its ranges."""
    cells: Any = evaluation.tally.cells
    fine = replace(cells, edges=fine_edges(data, values, cells))
    return tally(data, BinPooling(np.ascontiguousarray(values, float), fine))


def fine_edges(data: TargetData, values: Array, cells: Ranges) -> Array:
    """Edges of a fine grid: of probabilities always the same and those of the bins, else by rank."""
    probabilities = cells.name == OF_SCORE and data.binary
    return np.unique(np.append(GRID, cells.edges)) if probabilities else grid_edges(values, cells.edges)


def grid_edges(values: Array, edges: Array) -> Array:
    """Quantiles of a variable, and the edges of its ranges."""
    known = values[~np.isnan(values)]
    known = known[:: max(1, known.size // MAX_GRID_SAMPLE)]
    return united(edges, grid_quantiles(known))

"""From rows and a pooling to a result: the cells with their tests, and the error with its noise.

Score, variable and field differ only in how rows are pooled; what is said of their cells is said here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from miscal.aggregate.in_memory import DISTINCT, Walk, tally, walk
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
from miscal.stats.null_model import NullModel, choose_null
from miscal.words import sentence
from miscal.words.inference import combined_tests

MANY_ROWS = 20_000
# Cells times draws: with very many levels the aggregate hardly varies, and fewer draws do.
MOST_VALUES = 20_000_000
MOST_GRIDDED = 100_000  # values of a variable, that its grid is found by
MOST_TRIALS = 2_000_000  # trials of aggregated rows up to which they are told apart
MOST_KEYS = 200_000  # distinct keys up to which their sums are drawn

Walked = tuple[Walk, NullSummary]  # a walk, and how its range compares with noise


@dataclass(frozen=True)
class Pooled:
    """Cells, their sums as inference reads them, the rows of small ones, their tests, and the error with its noise.

    how : they are judged
    level : of the intervals
    drawn : the tests of cells without an order on the draws that the error's noise was read off, if they were asked for
    """

    tally: Tally
    sums: CellSums
    noise: NullModel
    how: CellTestSettings
    tests: CellPValues
    adjusted: Array
    summary: NullSummary
    level: float
    error: PooledError
    drawn: Array | None

    @property
    def rows(self) -> CellRows | None:
        """Those of small cells, of clusters or of flipped signs."""
        return self.how.rows

    @cached_property
    def columns(self) -> Plain:
        """Everything said of the cells, by name."""
        return self.cells(band=True)

    def cells(self, *, band: bool) -> Plain:
        """What is said of the cells, by name; where rates of calibrated cells fall, their `band`, is simulated."""
        sums, made, level = self.sums, self.tally, self.level
        judged = max(int(np.count_nonzero(~np.isnan(self.tests.p_value))), 1)
        low, high = cell_gap_intervals(sums, self.how, judged, level)
        low, high = agree_with_tests(low, high, made.gap, self.adjusted, level)
        unknown = np.full((3, low.size), np.nan)
        error, band_low, band_high = consistency_band(sums, self.how) if band else unknown
        with ignore_warnings():
            ratio = sums.predicted / sums.observed
        columns = {
            **_places(made.cells, self.noise.units),
            "rows": made.counts,
            "weight": sums.weight,
            "predicted": made.mean_predicted,
            "observed": made.mean_observed,
            "ratio": ratio,
            "gap": made.gap,
            "gap_low": low,
            "gap_high": high,
            "error": error,
            "band_low": band_low,
            "band_high": band_high,
            "events_off": made.events_off,
            "detectable": minimum_detectable_gap(error, judged, level),
            "p_value": self.tests.p_value,
            "p_adjusted": self.adjusted,
            "method": self.tests.method.tolist(),
        }
        return columns if self.noise.binary else self.noise.units.of_cells(columns)

    def settings(self, bins: Any, target: str, strategy: str = "quantile", norm: Norm = "l1") -> Plain:
        """How the cells were made and compared."""
        return {
            "bins": bins_asked(bins),
            "strategy": strategy,
            "norm": norm,
            "target": target,
            "null": str(self.noise.null),
            "random_state": self.how.random_state,
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
        summary, units = self.summary, self.noise.units
        numbers = summary.numbers(units.scale)
        method = [sentence(self.noise.reason), sentence(MethodNote.DRAWS, draws=summary.draws)]
        if summary.sparse_cells:
            method.append(sentence(MethodNote.SPARSE_CELLS))
        draws, at_resolution = summary.draws, summary.draws > 0 == summary.exceedances
        if combined is not None:
            draws, at_resolution = combined.draws, combined.bound
            numbers["p_value"] = combined.p_value
            tests = combined.parts
            numbers["tests"] = Table({"test": list(tests), "p_value": list(tests.values())})
            method.append(combined_tests([*tests], combined.draws))
        if not self.noise.binary:
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
    return int(np.clip(MOST_VALUES // max(cells, 1), MIN_FLOOR_DRAWS, DRAWS))


def pooled(pair: TargetData, pooling: Pooling, *, null: str = "bernoulli", **options: Any) -> Pooled:
    """Tally, test every cell, and compare the error with its noise; options are those of `pooled_of`."""
    noise = choose_null(pair, null)
    made = tally(pair, pooling)
    return pooled_of(made, noise, _rows_if_needed(pair, pooling, made, noise), **options)


def pooled_of(
    made: Tally,
    noise: NullModel,
    rows: CellRows | None = None,
    *,
    norm: Norm = "l1",
    random_state: int = 0,
    level: float = 0.05,
    draws: int = DRAWS,
    levels: bool = False,
) -> Pooled:
    """As `pooled` from a tally alone; `rows` are those of small cells or of flipped signs, where they are at hand.

    levels : the cells have no order, and will be tested as such (`levels_tested`): draws serve both
    """
    sums = noise.sums(made)
    error = PooledError(norm_power(norm), sums.weight)
    stretch = 1.0 if noise.residual_variance is None else quiet_cell_scale(sums, rows)
    how = noise.test_settings(
        weighted=made.weighted, rows=rows, residual_scale=stretch, random_state=random_state
    )
    drawn = first = None
    if levels:
        drawn = draw_tests(sums, level_tests(sums, error, binary=noise.residual_variance is None), how, draws)
        first = drawn[:-1, 0]  # of the tests is the error itself
    summary = aggregate_null(sums, error, how, draws, first)
    tests = cell_p_values(sums, how)
    return Pooled(made, sums, noise, how, tests, holm(tests.p_value), summary, level, error, drawn)


def _rows_if_needed(pair: TargetData, pooling: Pooling, sums: Tally, noise: NullModel) -> CellRows | None:
    """The rows sorted by cell, where small cells, clusters or flipped signs need them."""
    flips = noise.null == Null.RESIDUAL
    if flips and pair.cluster is None and pair.count is not None and pair.count.sum() > MOST_TRIALS:
        return None
    needed = sums.counts <= EXACT_ROWS
    if sums.weighted:
        needed |= effective_events(CellSums.of(sums)) < EFFECTIVE_EVENTS
    needed &= sums.counts > 0
    if not (flips or needed.any()):
        return None
    codes = pooling.codes().astype(np.int64)
    if not flips and not (sums.weighted and pair.rows * DRAWS <= ROW_DRAWS):
        # Only the rows of small cells are ever looked at: the others would be sorted for nothing.
        codes = np.where(needed[codes], codes, -1)
    return rows_of_cells(codes, pooling.cells.count, pair)


def _places(cells: Cells, units: Units) -> Plain:
    if not isinstance(cells, Ranges):
        return {"label": cells.labels()}
    if cells.name == OF_SCORE:  # edges of a prediction are in its units
        cells = replace(cells, edges=units.back(cells.edges))
    ends = cells.edges[:-1], cells.edges[1:]
    low, high = (np.append(end, [np.nan] * cells.missing) for end in ends)
    return {"label": cells.labels(), "low": low, "high": high}


def walk_summary(pair: TargetData, key: Array | None, noise: NullModel, random_state: int = 0) -> Walked:
    """The walk along a key and how its range compares with noise."""
    walked, clustered = walk(pair, key), pair.cluster is not None
    residual = pair.observed - pair.predicted
    happened = np.sum((1.0 if pair.second is None else pair.second) * residual * residual)
    events = walked.events if pair.weight is None and pair.binary else effective_events_of(pair)
    crowded, by_model = walked.distinct < DISTINCT, pair.binary and noise.null == Null.BERNOULLI
    needs_rows = clustered or crowded or events < EFFECTIVE_EVENTS
    along = pair.predicted if key is None else key
    rows = ties = None
    # Few keys and many rows: the sums of each key are drawn, in place of every row.
    few = crowded and pair.rows > MANY_ROWS and by_model
    if needs_rows:
        keys, codes = np.unique(along, return_inverse=True)
        if not few and (clustered or pair.count is None):
            # A cluster is flipped as one, so a row that stands for several trials is one step of their total weight.
            rows = rows_of_cells(codes, keys.size, replace(pair, weight=pair.first, count=None))
        elif by_model and keys.size <= MOST_KEYS:  # aggregated rows are drawn key by key, not trial by trial
            ties = CellSums.of(tally(pair, LevelPooling(codes, Numbered(keys.size))))
    how = noise.test_settings(weighted=pair.weight is not None, rows=rows, random_state=random_state)
    how = how if pair.count is None else replace(how, model_variance=False)
    return walked, kuiper_p_value(walked, how, events=events, happened=happened, ties=ties)


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


def worst_cell(found: Pooled) -> WorstCell:
    """The worst of all cells; by the smallest p-value where no gap has an interval that excludes 0."""
    table = found.columns
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
def levels_tested(found: Pooled) -> CombinedTest:
    """Of cells that have no order."""
    sums, noise, drawn = found.sums, found.noise, found.drawn
    exact = noise.null == Null.BERNOULLI and np.isfinite(found.adjusted).any()
    known = [float(np.nanmin(found.adjusted))] if exact else []
    tests = level_tests(sums, found.error, binary=noise.residual_variance is None)
    if drawn is None:
        drawn = draw_tests(sums, tests, found.how, draws_for(sums.rows.size))
    return combine_tests([*tests], drawn, known)


def along_tested(
    found: Pooled,
    grid: Tally,
    kuiper: float,
    rows: tuple[TargetData, Array] | None = None,
) -> CombinedTest:
    """Of a variable, or of the score, from a fine grid of it.

    Clusters, flipped signs and weights need the rows and their values. No piece of the grid goes across an edge.
    """
    cells: Any = found.tally.cells
    fine: Any = grid.cells
    cell = np.searchsorted(cells.edges[1:-1], fine.edges[1:], side="left")
    cell = np.append(cell, [cells.edges.size - 1] * fine.missing)
    filled = np.flatnonzero(grid.weight > 0)
    pieces = VariablePieces.of(found.noise.sums(grid).take(filled), cell[filled])
    sums = pieces.sums
    if cells.name == OF_SCORE:
        tests = score_tests(pieces, found.error, binary=found.noise.binary)
    else:
        missing = bool(fine.missing and grid.counts[-1])
        tests = variable_tests(pieces, missing=missing, binary=found.noise.residual_variance is None)
    how = replace(found.how, rows=None)
    if rows is not None and (found.noise.null == Null.RESIDUAL or rows[0].weight is not None):
        pair, values = rows
        piece = np.full(grid.counts.size, -1)
        piece[filled] = pieces.piece
        codes = piece[BinPooling(values, fine).codes()]
        how = replace(how, rows=rows_of_cells(codes, sums.rows.size, pair))
    if (
        found.noise.residual_variance is not None
    ):  # judged by whole cells: pieces of a few rows are quiet by luck
        size = np.diff(np.append(pieces.starts, sums.rows.size))
        stretch = np.asarray(how.residual_scale)[found.sums.weight > 0.0]
        how = replace(how, residual_scale=np.repeat(stretch, size))
    known: list[float] = []
    total = effective_events(sums.map(lambda values: values.sum(keepdims=True)))
    if found.noise.null == Null.BERNOULLI and total[0] >= EFFECTIVE_EVENTS:
        known = [kuiper, *(test.p_value(sums) for test in tests.values() if isinstance(test, QuadraticTest))]
    return combine_tests([*tests], draw_tests(sums, tests, how, DRAWS), known)


def grid_of(found: Pooled, pair: TargetData, values: Array) -> Tally:
    """Sums of a fine grid of the score or of a variable that has the edges of its ranges."""
    cells: Any = found.tally.cells
    fine = replace(cells, edges=fine_edges(pair, values, cells))
    return tally(pair, BinPooling(np.ascontiguousarray(values, float), fine))


def fine_edges(pair: TargetData, values: Array, cells: Ranges) -> Array:
    """Edges of a fine grid: of probabilities always the same and those of the bins, else by rank."""
    probabilities = cells.name == OF_SCORE and pair.binary
    return np.unique(np.append(GRID, cells.edges)) if probabilities else grid_edges(values, cells.edges)


def grid_edges(values: Array, edges: Array) -> Array:
    """Quantiles of a variable, and the edges of its ranges."""
    known = values[~np.isnan(values)]
    known = known[:: max(1, known.size // MOST_GRIDDED)]
    return united(edges, grid_quantiles(known))

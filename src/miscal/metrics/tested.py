"""The tests that make a result's p-value: several complementary ones, on draws of the same cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.carriers.summary import GRID
from miscal.carriers.tally import Tally
from miscal.engines.memory import tally
from miscal.inference.aggregates import PooledError
from miscal.inference.omnibus import Omnibus, Pieces, Quadratic, of_levels, of_score, of_variable, omnibus
from miscal.inference.sums import EFFECTIVE_EVENTS, effective_events, rows_of_cells
from miscal.metrics.arrays import Norm, norm_power
from miscal.metrics.pooled import DRAWS, Pooled
from miscal.pairs import Pair
from miscal.pooling.bins import grid_quantiles
from miscal.pooling.cells import BinPooling, Ranges

MOST_VALUES = 100_000  # of a variable, that its grid is found by


def levels_tested(found: Pooled, norm: Norm, draws: int = DRAWS) -> Omnibus:
    """Of cells that have no order."""
    known = [float(np.nanmin(found.adjusted))] if _by_the_model(found) and np.isfinite(found.adjusted).any() else []
    tests = of_levels(found.sums, PooledError(norm_power(norm)), binary=found.noise.binary)
    return omnibus(found.sums, tests, draws=draws, known=known, **found.drawn)


def score_tested(found: Pooled, grid: Tally, norm: Norm, kuiper: float, rows: Pair | None = None) -> Omnibus:
    """Of the score, from a fine grid of it; clusters, flipped signs and weights need the rows."""
    pieces, filled = _pieces(found, grid)
    tests = of_score(pieces, PooledError(norm_power(norm)), binary=found.noise.binary)
    return _tested(found, grid, pieces, filled, tests, kuiper, None if rows is None else (rows, rows.predicted))


def variable_tested(found: Pooled, grid: Tally, kuiper: float, rows: tuple[Pair, np.ndarray] | None = None) -> Omnibus:
    """Of a variable, from a fine grid of it; clusters, flipped signs and weights need the rows and their values."""
    pieces, filled = _pieces(found, grid)
    cells = grid.cells
    assert isinstance(cells, Ranges)
    tests = of_variable(pieces, missing=bool(cells.missing and grid.counts[-1]), binary=found.noise.binary)
    return _tested(found, grid, pieces, filled, tests, kuiper, rows)


def score_grid(pair: Pair, edges: np.ndarray) -> Tally:
    """Sums of a fine grid of the score that has the edges of its bins; of means that are no probabilities by rank."""
    fine = np.unique(np.append(GRID, edges)) if pair.binary else grid_edges(pair.predicted, edges)
    return tally(pair, BinPooling(pair.predicted, Ranges(fine, name="score")))


def variable_grid(pair: Pair, values: np.ndarray, cells: Ranges) -> Tally:
    """Sums of a fine grid of a variable that has the edges of its ranges."""
    return tally(pair, BinPooling(values, Ranges(grid_edges(values, cells.edges), cells.missing, cells.name)))


def grid_edges(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Quantiles of a variable, and the edges of its ranges."""
    known = values[~np.isnan(values)]
    known = known[:: max(1, known.size // MOST_VALUES)]
    fine = np.unique(np.append(grid_quantiles(known), edges) + 0.0)
    return fine if fine.size > 1 else edges  # a single value is one range, from itself to itself


def _pieces(found: Pooled, grid: Tally) -> tuple[Pieces, np.ndarray]:
    """The grid in pieces of its filled cells, none across an edge of the cells."""
    cells, fine = found.tally.cells, grid.cells
    assert isinstance(cells, Ranges)
    assert isinstance(fine, Ranges)
    cell = np.searchsorted(cells.edges[1:-1], fine.edges[1:], side="left")
    cell = np.append(cell, [cells.edges.size - 1] * fine.missing)
    filled = np.flatnonzero(grid.weight > 0)
    return Pieces.of(found.noise.sums(grid).map(lambda values: values[filled]), cell[filled]), filled


def _tested(
    found: Pooled,
    grid: Tally,
    pieces: Pieces,
    filled: np.ndarray,
    tests: dict[str, Any],
    kuiper: float,
    rows: tuple[Pair, np.ndarray] | None,
) -> Omnibus:
    drawn = {**found.drawn, "rows": None}
    if rows is not None and (found.noise.null == "residual" or rows[0].weight is not None):
        pair, values = rows
        piece = np.full(grid.counts.size, -1)
        piece[filled] = pieces.piece
        assert isinstance(grid.cells, Ranges)
        codes = piece[BinPooling(values, grid.cells).codes(0, values.size)]
        kept = {"weight": pair.weight, "cluster": pair.cluster, "count": pair.count}
        drawn["rows"] = rows_of_cells(codes, pieces.sums.rows.size, pair.predicted, pair.observed, **kept)
    if not found.noise.binary:  # judged by whole cells: pieces of a few rows are quiet by luck
        size = np.diff(np.append(pieces.starts, pieces.sums.rows.size))
        drawn["stretch"] = np.repeat(found.drawn["stretch"][found.sums.weight > 0.0], size)
    known = []
    total = effective_events(pieces.sums.map(lambda values: values.sum(keepdims=True)))
    if _by_the_model(found) and total[0] >= EFFECTIVE_EVENTS:
        known = [kuiper, *(test.p_value(pieces.sums) for test in tests.values() if isinstance(test, Quadratic))]
    return omnibus(pieces.sums, tests, draws=DRAWS, known=known, **drawn)


def _by_the_model(found: Pooled) -> bool:
    return found.noise.null == "bernoulli"

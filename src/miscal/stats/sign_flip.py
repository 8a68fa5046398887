"""Tests by random signs of residuals: one sign per row, or per cluster."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miscal.codes.inference import Method
from miscal.data.arrays import Array
from miscal.data.libraries import special
from miscal.data.target import TargetData
from miscal.kernels.simulate import simulated_tails
from miscal.stats.cell_sums import (
    EFFECTIVE_EVENTS,
    CellRows,
    CellSums,
    CellTestSettings,
    Floats,
    Integers,
    effective_events,
    ignore_warnings,
    run_starts,
)
from miscal.stats.normal import normal_p

ENOUGH_EXCEEDANCES = 20  # draws that reach a value, after which no more are made
FEW_BLOCKS = 25  # below it signs are flipped in simulation; from it the studentised sum is used


class ClusterBlocks(NamedTuple):
    """Residual sums of clusters within cells, sorted by cell; `cluster` is the row itself where there are none."""

    offsets: Integers
    residual: Floats
    cluster: Integers

    def cells(self) -> Integers:
        """Give the cell of each block."""
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))

    def squares(self) -> Floats:
        """Give ΣD² of each cell."""
        squares = np.bincount(self.cells(), self.residual**2, self.offsets.size - 1)
        return np.asarray(squares, np.float64)


def cluster_blocks(rows: CellRows) -> ClusterBlocks:
    """Sum residuals over each cluster within each cell; without clusters each row is its own."""
    residual, trials = rows.residuals(), rows.trials()
    if rows.cluster is None:  # of a row that stands for several alike trials each is independent
        ends = np.append(0, np.cumsum(trials))
        return ClusterBlocks(ends[rows.offsets], np.repeat(residual, trials), np.arange(ends[-1]))
    codes = rows.codes()
    new = run_starts(codes, rows.cluster)  # rows are sorted by both: a block is a run of them
    sums = np.bincount(np.cumsum(new) - 1, residual * trials).astype(np.float64, copy=False)
    offsets = np.searchsorted(codes[new], np.arange(rows.cells + 1)).astype(np.int64)
    return ClusterBlocks(offsets, sums, rows.cluster[new])


def residual_p_values(
    sums: CellSums, settings: CellTestSettings, draws: int
) -> tuple[Floats, NDArray[np.object_]]:
    """Give p-values of cells under sign flips, and the `Method` of each.

    The sum of residuals over ``sqrt(Σ D²)``, D a cluster's sum (a row's without clusters), as Student's t on one less
    degree of freedom than clusters; flips of the signs themselves below 25 clusters. The larger of ``sums.variance``
    and ΣD² is used: a cell with few events shows residuals too small. Fewer than 25 effective events on a side: too
    small to judge, because rare events are not symmetric.
    """
    rows = settings.rows
    noise, number = residual_squares(sums, rows)
    p_value = _student(sums.off, np.maximum(noise, sums.variance), number)
    method = np.full(number.size, Method.RESIDUALS, object)
    too_small = number < (FEW_BLOCKS if rows is None else 2.0)
    if settings.binary:
        events = effective_events(sums)
        if rows is not None and settings.outcome_weights:
            # Weights that depend on the outcome say nothing of how many events there are: count them.
            events = rows.rarer_events()
        too_small |= events < EFFECTIVE_EVENTS
    chosen = np.flatnonzero((number < FEW_BLOCKS) & ~too_small)
    if rows is not None and chosen.size:
        # The larger of the two: flips cannot see that the residuals themselves are too small.
        reach = (np.abs(sums.off) - 1e-12 * sums.weight)[chosen]
        blocks = cluster_blocks(rows)
        ones = np.ones(blocks.residual.size, np.int64)
        flips = blocks.offsets, -blocks.residual, blocks.residual, 0.5 * ones, ones
        most = np.full(chosen.size, draws)
        below, above, n_draws = simulated_tail_counts(flips, -reach, reach, chosen, most, settings.seed)
        flipped = np.minimum((1.0 + below + above) / (1.0 + n_draws), 1.0)
        p_value[chosen] = np.maximum(p_value[chosen], flipped)
        method[chosen] = Method.SIGN_FLIPS
    p_value[too_small], method[too_small] = np.nan, Method.TOO_SMALL
    return p_value, method


def simulated_tail_counts(
    rows: tuple[Array, ...], low: Floats, high: Floats, cells: Integers, draws: Integers, seed: np.uint64
) -> tuple[Floats, Floats, Floats]:
    """How many draws of the sums of some cells are at most `low`, at least `high`, and were made.

    rows : offsets of the cells, and of each row its two values, the chance of the first, and how often it stands
    """
    counts = np.zeros((cells.size, 3), np.int64)
    simulated_tails(*rows, low, high, cells, draws, ENOUGH_EXCEEDANCES, seed, counts)
    below, above, n_draws = counts.T.astype(float)
    return below, above, n_draws


def residual_squares(sums: CellSums, rows: CellRows | None) -> tuple[Floats, Floats]:
    """ΣD² of each cell, D a row's residual or a cluster's sum of them, and how many of these there are."""
    if rows is None:
        return sums.residual2, sums.rows
    blocks = cluster_blocks(rows)
    return blocks.squares(), np.diff(blocks.offsets).astype(np.float64)


def student_reach(number: Floats, level: float) -> Floats:
    """|ΣD|/sqrt(ΣD²) from which the test of `residual_p_values` rejects at a level; infinite where it never does."""
    freedom = np.maximum(number - 1.0, 1.0)
    t = -special.stdtrit(freedom, 0.5 * level)
    reach = t * np.sqrt(number / (freedom + t * t))
    return np.where((number >= 2.0) & (_smallest_p(number) <= level), reach, np.inf)


def _smallest_p(number: Floats) -> Floats:
    """No assignment of n signs is rarer than 2 in 2^n."""
    return np.exp2(np.maximum(1.0 - number, -1000.0))


def _student(total: Floats, noise: Floats, number: Floats) -> Floats:
    freedom = np.maximum(number - 1.0, 1.0)
    with ignore_warnings():
        z = np.abs(total) / np.sqrt(noise)
        # z <= √n always; Student's statistic in terms of z, so that the bound maps to infinity.
        t = z * np.sqrt(freedom / np.maximum(number - z * z, 0.0))
        t = np.nan_to_num(t, posinf=1e300)
        tail = np.where(number > 1e6, special.ndtr(-z), special.stdtr(freedom, -t))
    return np.asarray(np.clip(2.0 * tail, _smallest_p(number), 1.0))


ALL_ROWS = slice(None)


def weighted_residuals(target: TargetData, rows: Any) -> Array:
    """w(y - p) of some rows."""
    residual = target.observed[rows] - target.predicted[rows]
    return np.asarray(residual if target.mean_weight is None else residual * target.mean_weight[rows])


def clustered_sum(target: TargetData, rows: Any = ALL_ROWS, lever: Any = 1.0) -> tuple[float, float]:
    """Sum of the residuals of some rows, times a lever, and its variance when clusters flip their signs."""
    assert target.cluster is not None
    sums = np.bincount(target.cluster[rows], lever * weighted_residuals(target, rows))
    return sums.sum(), np.sum(sums * sums)


def clustered_sum_p(target: TargetData, rows: Any, lever: Any = 1.0) -> float:
    """The p-value of that sum."""
    return float(normal_p(*clustered_sum(target, rows, lever)))

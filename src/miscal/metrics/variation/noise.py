"""What the bins of variation would look like if the model were calibrated: draws of the ranks' frequencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from miscal.inference.aggregates import BLOCK_VALUES
from miscal.metrics.pooled import Noise
from miscal.metrics.variation.sums import NO_VALUES, Ranked, RankSums
from miscal.pairs import Pair
from miscal.pooling.bins import bin_index

GROUPS = 4096  # sign flips by rows use at most this many groups of rows: the variance is then known to 2%
GROUP_VALUES = 1 << 23  # numbers held of all groups' residuals: 64 MiB


@dataclass(frozen=True, eq=False)
class Multinomial:
    """Frequencies of ranks drawn with the mean ranked probabilities of each bin.

    Rows of a bin differ, so their ranks are less noisy than the multinomial's: what is read off it is conservative.
    """

    shares: np.ndarray  # (bins, K)
    size: np.ndarray  # (bins,)

    def blocks(self, draws: int, random: np.random.Generator) -> Iterator[np.ndarray]:
        """Arrays (some draws, bins, K), the same draws for any block size."""
        trials = np.maximum(np.rint(self.size), 1.0).astype(np.int64)
        shares = self.shares / self.shares.sum(axis=1, keepdims=True)
        step = max(1, BLOCK_VALUES // shares.size)
        for first in range(0, draws, step):
            count = min(step, draws - first)
            yield random.multinomial(trials, shares, size=(count, trials.size)) / trials[:, np.newaxis]


@dataclass(frozen=True, eq=False)
class Flips:
    """Frequencies of ranks as the mean prediction plus the residuals of groups of rows with random signs."""

    shares: np.ndarray  # (bins, K)
    residual: np.ndarray  # (groups, bins, K), over the bin's weight

    def blocks(self, draws: int, random: np.random.Generator) -> Iterator[np.ndarray]:
        """Arrays (some draws, bins, K)."""
        groups = self.residual.shape[0]
        flat = self.residual.reshape(groups, -1)
        step = max(1, BLOCK_VALUES // max(flat.shape[1], groups))
        for first in range(0, draws, step):
            count = min(step, draws - first)
            signs = random.integers(0, 2, size=(count, groups)) * 2.0 - 1.0
            drawn = self.shares + (signs @ flat).reshape(count, *self.shares.shape)
            yield np.maximum(drawn, 0.0)


def null_draws(rows: Ranked, sums: RankSums, noise: Noise) -> Multinomial | Flips:
    """Prepare the draws that a null asks for; empty bins are left out."""
    filled = np.flatnonzero(sums.weight > 0)
    shares = sums.predicted[filled]
    if noise.null == "bernoulli":
        return Multinomial(shares, sums.size[filled])
    residual = group_residuals(rows, rows.weights())[:, filled]
    return Flips(shares, residual / sums.weight[filled, np.newaxis])


def group_residuals(rows: Ranked, weights: Pair) -> np.ndarray:
    """Residuals of the ranks summed over groups of rows, (groups, bins, K).

    A group is a cluster, or several of them: a sign for all of a group's rows keeps what rows of a cluster share, and
    with a few thousand groups the variance of the flipped sums is that of flipping row by row.
    """
    from miscal.kernels.variation import rank_residuals, rank_rows, sorting_network

    p, bins = rows.predictions, rows.edges.size - 1
    most = int(max(64, min(GROUPS, GROUP_VALUES // (bins * p.n_classes))))
    group = _groups(p.rows, weights.cluster, most)
    residual = np.zeros((int(group.max()) + 1, bins, p.n_classes))
    weight = _flipped_weight(weights)
    network, step = sorting_network(p.n_classes), max(1024, (1 << 21) // p.n_classes)
    for start in range(0, p.rows, step):
        stop = min(start + step, p.rows)
        shares, rank = np.empty((stop - start, p.n_classes)), np.empty(stop - start, np.int64)
        values = np.empty(stop - start)
        rank_rows(rows.matrix[start:stop], p.outcome[start:stop], rows.measure.kind, network, shares, rank, values)
        codes = bin_index(_compared(rows, values, start, stop), rows.compared_edges)
        rank_residuals(shares, rank, codes, weight[start:stop], group[start:stop], residual)
    return residual


def _groups(rows: int, cluster: np.ndarray | None, most: int) -> np.ndarray:
    """A group for each row: its own, or its cluster's, or one of `most` chosen by a hash of that."""
    member = np.arange(rows, dtype=np.int64) if cluster is None else cluster
    if int(member.max()) < most:
        return member
    mixed = member.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return np.asarray((mixed >> np.uint64(33)) % np.uint64(most)).astype(np.int64)


def _flipped_weight(weights: Pair) -> np.ndarray:
    """Weights of residuals; repetitions of a row are independent of each other unless a cluster holds them together."""
    if weights.first is None or weights.second is None:
        return NO_VALUES
    return weights.first if weights.cluster is not None else np.sqrt(weights.second)


def _compared(rows: Ranked, values: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Variations of a block as the bins see them."""
    from miscal.kernels.variation import CONFIDENCE, GIVEN, NEAR

    if rows.measure.kind == GIVEN:
        return rows.values[start:stop]
    return values if rows.measure.kind == CONFIDENCE else np.asarray(np.floor(values * NEAR + 0.5) / NEAR)

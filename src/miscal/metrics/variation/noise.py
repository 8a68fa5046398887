"""What the bins of variation would look like if the model were calibrated: draws of the ranks' frequencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miscal.inference.aggregates import BLOCK_VALUES
from miscal.metrics.pooled import Noise
from miscal.metrics.variation.measures import Measure, bias_corrected
from miscal.metrics.variation.sums import NO_VALUES, Ranked, RankSums
from miscal.pairs import Pair
from miscal.pooling.bins import bin_index

GROUPS = 4096
GROUP_VALUES = 1 << 23  # numbers held of all groups' residuals: 64 MiB


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of the observed variation of each filled bin under a null.

    Frequencies of the ranks come from a multinomial with the bin's mean ranked probabilities. Rows of a bin differ, so
    their ranks are less noisy than that: it is conservative. With `residual` (groups, bins), the residuals' first-order
    effect on each bin's variation, that part of a draw is replaced by the residuals' own with a random sign a group:
    clusters are kept together across bins, and the multinomial keeps what is not linear, the bias of an entropy.
    """

    shares: np.ndarray  # (bins, K)
    size: np.ndarray  # (bins,)
    residual: np.ndarray | None = None
    slope: np.ndarray | None = None  # (bins, K)

    def observed(self, measure: Measure, draws: int, random_state: int, *, corrected: bool) -> np.ndarray:
        """Observed variations, (draws, bins)."""
        random = np.random.default_rng(random_state)
        trials = np.maximum(np.rint(self.size), 1.0).astype(np.int64)
        shares = self.shares / self.shares.sum(axis=1, keepdims=True)
        step = max(1, BLOCK_VALUES // shares.size)
        result = np.empty((draws, trials.size))
        for first in range(0, draws, step):
            count = min(step, draws - first)
            drawn = random.multinomial(trials, shares, size=(count, trials.size)) / trials[:, np.newaxis]
            values = measure(drawn)
            if corrected:
                values = bias_corrected(measure, values, drawn, self.size)
            if self.slope is not None:
                values = values - ((drawn - shares) * self.slope).sum(axis=-1)
            result[first : first + count] = values
        if self.residual is not None:
            flips = random.integers(0, 2, size=(draws, self.residual.shape[0])) * 2.0 - 1.0
            result += flips @ self.residual
        return result


def null_draws(rows: Ranked, sums: RankSums, noise: Noise) -> Draws:
    """Prepare the draws that a null asks for; empty bins are left out.

    "residual": the multinomial's size is such that its variance, added over the ranks, is that of the residuals summed
    by cluster (the first-order correction of Rao and Scott).
    """
    filled = np.flatnonzero(sums.weight > 0)
    shares, size = sums.predicted[filled], sums.size[filled]
    if noise.null == "bernoulli":
        return Draws(shares, size)
    residual = group_residuals(rows, rows.weights())[:, filled]
    variance = (residual * residual).sum(axis=(0, 2))
    spread = sums.weight[filled] ** 2 * (1.0 - (shares * shares).sum(axis=1))
    matched = np.where(variance > 0.0, spread / np.where(variance > 0.0, variance, 1.0), size)
    matched = np.clip(matched, 1.0, np.maximum(sums.rows[filled], 1))
    slope = rows.measure.slope(shares, matched)
    return Draws(shares, matched, (residual * slope).sum(axis=2) / sums.weight[filled], slope)


def group_residuals(rows: Ranked, weights: Pair) -> np.ndarray:
    """Residuals of the ranks summed over groups of rows, (groups, bins, K).

    A group is a cluster, or several of them where there are many: the sum of their squares then still has the mean that
    it would have cluster by cluster, and a few thousand groups make it precise to 2%.
    """
    from miscal.kernels.variation import rank_residuals, rank_rows, sorting_network

    p, bins = rows.predictions, rows.edges.size - 1
    group = flip_groups(p.rows, weights.cluster, bins * p.n_classes)
    residual = np.zeros((int(group.max()) + 1, bins, p.n_classes))
    weight = flipped_weight(weights)
    network, step = sorting_network(p.n_classes), max(1024, (1 << 21) // p.n_classes)
    for start in range(0, p.rows, step):
        stop = min(start + step, p.rows)
        shares, rank = np.empty((stop - start, p.n_classes)), np.empty(stop - start, np.int64)
        values = np.empty(stop - start)
        rank_rows(rows.matrix[start:stop], p.outcome[start:stop], rows.measure.kind, network, shares, rank, values)
        codes = bin_index(_compared(rows, values, start, stop), rows.compared_edges)
        rank_residuals(shares, rank, codes, weight[start:stop], group[start:stop], residual)
    return residual


def flip_groups(rows: int, cluster: np.ndarray | None, values: int) -> np.ndarray:
    """A group for each row: its own, or its cluster's, or where there are many one chosen by a hash of that.

    `values` numbers will be held of each group.
    """
    most = int(max(64, min(GROUPS, GROUP_VALUES // values)))
    member = np.arange(rows, dtype=np.int64) if cluster is None else cluster
    if int(member.max()) < most:
        return member
    mixed = member.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return np.asarray((mixed >> np.uint64(33)) % np.uint64(most)).astype(np.int64)


def flipped_weight(weights: Pair) -> np.ndarray:
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

"""What the bins of variation would look like if the model were calibrated: draws of the ranks' frequencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from miscal.inference.aggregates import BLOCK_VALUES
from miscal.pairs import Pair

GROUPS = 4096
GROUP_VALUES = 1 << 23  # numbers held of all groups' residuals: 64 MiB
NO_WEIGHT = np.empty(0)


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

    def observed(self, variation: Callable[[np.ndarray], np.ndarray], draws: int, random_state: int) -> np.ndarray:
        """Observed variations, (draws, bins); `variation` takes frequencies (..., bins, K)."""
        random = np.random.default_rng(random_state)
        trials = np.maximum(np.rint(self.size), 1.0).astype(np.int64)
        shares = self.shares / self.shares.sum(axis=1, keepdims=True)
        step = max(1, BLOCK_VALUES // shares.size)
        result = np.empty((draws, trials.size))
        for first in range(0, draws, step):
            count = min(step, draws - first)
            drawn = random.multinomial(trials, shares, size=(count, trials.size)) / trials[:, np.newaxis]
            values = variation(drawn)
            if self.slope is not None:
                values = values - ((drawn - shares) * self.slope).sum(axis=-1)
            result[first : first + count] = values
        if self.residual is not None:
            flips = random.integers(0, 2, size=(draws, self.residual.shape[0])) * 2.0 - 1.0
            result += flips @ self.residual
        return result


def matched_size(
    residual: np.ndarray, shares: np.ndarray, weight: np.ndarray, size: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Size of each bin's multinomial whose variance, added over the ranks, is that of the residuals (groups, bins, K).

    The first-order correction of Rao and Scott.
    """
    variance = (residual * residual).sum(axis=(0, 2))
    spread = weight**2 * (1.0 - (shares * shares).sum(axis=1))
    matched = np.where(variance > 0.0, spread / np.where(variance > 0.0, variance, 1.0), size)
    return np.asarray(np.clip(matched, 1.0, np.maximum(rows, 1)))


def flip_groups(rows: int, cluster: np.ndarray | None, values: int) -> np.ndarray:
    """A group for each row, whose residuals share a random sign: its own, or its cluster's.

    `values` numbers will be held of each group. Where there are many, groups are joined by a hash: the sum of their
    squares then still has the mean that it would have one by one, and a few thousand groups make it precise to 2%.
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
        return NO_WEIGHT
    return weights.first if weights.cluster is not None else np.sqrt(weights.second)

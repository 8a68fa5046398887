"""Rows that move together: outcomes that a cluster shares, drawn from the predictions, as alike as the residuals are.

Flipped signs make residuals symmetric, and few clusters of skewed scores are not: tests by flips alarm too often. Here
each row has the latent value ``x = sqrt(ρ)·u + sqrt(1 - ρ)·e``, u its cluster's and e its own, both normal, and the
event happens where Φ(x) < p: each row is calibrated, and ρ makes the clusters' sums vary as they do in the data.

The bins of variation have draws of their ranks' frequencies.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miscal.data.arrays import Array
from miscal.data.libraries import special
from miscal.data.target import TargetData
from miscal.stats.cell_sums import Floats, Integers, normal_p

LIMIT = 1e8  # rows times draws beyond which signs are flipped in place of drawing outcomes
MOST_CLUSTERS = 1000  # from here on sums over clusters are as good as symmetric
TERMS = 8
ALIKE = 0.95  # the largest ρ
CHUNK = 16  # draws made at once
# Chunks, 999 draws, of so many rows at most, kept for the next test of them: 32 MiB.
KEPT, KEPT_ROWS = 64, 1 << 13
BLOCK_VALUES = 1 << 22  # numbers held at a time: 32 MiB
GROUPS = 4096
GROUP_VALUES = 1 << 23  # numbers held of all groups' residuals: 64 MiB
EVERY = slice(None)
NOTHING, NO_ROWS = np.empty(0), np.empty(0, np.int64)


def few_clusters(rows: TargetData, values: float) -> bool:
    """Whether there are clusters, few enough to matter, of rows few enough that so many values a row can be drawn."""
    if rows.cluster is None or rows.count is not None or rows.rows * values > LIMIT:
        return False
    return np.unique(rows.cluster).size <= MOST_CLUSTERS


def _normals(
    seed: int, number: int, groups: int, rows: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What clusters and rows have of their own in a chunk of draws; the tests of all columns draw the same."""
    random = np.random.default_rng([seed, number])
    shared = random.standard_normal((CHUNK, groups), dtype=np.float32)
    return shared, random.standard_normal((CHUNK, rows), dtype=np.float32)


_kept_normals = lru_cache(KEPT)(_normals)


@dataclass(frozen=True, eq=False)
class Latent:
    """Latent normal values of rows, alike within clusters by `alike`; a draw depends on its number alone.

    groups : number of clusters
    size, least : of the clusters' sums of residuals, the root of their squares added up, and what it is at least
    """

    cluster: Integers
    groups: int
    alike: float
    seed: int
    size: float
    least: float

    @classmethod
    def of(
        cls, cluster: Integers, rows: tuple[Floats, Array, Floats], threshold: Floats, seed: int
    ) -> "Latent":
        """As alike as what happened to rows of a probability is; thresholds are the probabilities' normal quantiles.

        rows : their probabilities, what happened, and their weights
        """
        predicted, happened, weight = rows
        code = np.unique(cluster, return_inverse=True)[1].astype(np.int64)
        variance = float(np.sum(weight**2 * predicted * (1.0 - predicted)))
        own = np.bincount(code, weight * (happened - predicted))
        squares = float(own @ own)
        alike = likeness(threshold, weight, code, squares - variance)
        return cls(code, own.size, alike, seed, math.sqrt(max(squares, variance)), math.sqrt(variance))

    def chunk(self, number: int) -> NDArray[np.float32]:
        """The values of draws CHUNK·number and those after it, (CHUNK, rows)."""
        made = _kept_normals if self.cluster.size <= KEPT_ROWS else _normals
        shared, own = made(self.seed, number, self.groups, self.cluster.size)
        values = own * np.float32(math.sqrt(1.0 - self.alike))
        values += (shared * np.float32(math.sqrt(self.alike)))[:, self.cluster]
        return values

    def factors(self, residual: Floats) -> Floats:
        """What gives draws of rows (draws, rows) sums over clusters of the size that they have in data, (draws, 1)."""
        draws = len(residual)
        codes = self.cluster + np.arange(draws)[:, None] * self.groups
        total = np.bincount(codes.ravel(), residual.ravel(), draws * self.groups).reshape(draws, -1)
        size = np.sqrt(np.sum(total**2, axis=1, keepdims=True))
        return np.asarray(self.size / np.maximum(size, max(self.least, 1e-300)))


@dataclass(frozen=True, eq=False)
class ClusterDraws:
    """Draws of rows by cluster, studentised: the clusters' sums of residuals are given the size they have in data.

    mean, offsets : Σw·p of cells and where their rows start, for draws of their Σw·y*
    """

    threshold: NDArray[np.float32]
    predicted: Floats
    weight: Floats
    latent: Latent
    mean: Floats
    offsets: Integers

    @classmethod
    def of(
        cls, rows: TargetData, seed: int, mean: Floats = NOTHING, offsets: Integers = NO_ROWS
    ) -> "ClusterDraws":
        """Draws of rows, and of their cells."""
        assert rows.cluster is not None
        weight, threshold = rows.sampling, special.ndtri(rows.predicted)
        latent = Latent.of(rows.cluster, (rows.predicted, rows.observed, weight), threshold, seed)
        return cls(threshold.astype(np.float32), rows.predicted, weight, latent, mean, offsets)

    def steps(self, first: int, count: int) -> Iterator[tuple[int, Floats]]:
        """Residuals w(y* - p) of draws first .. first + count - 1, some draws (draws, rows) at a time, by place."""
        for number in range(first // CHUNK, -(-(first + count) // CHUNK)):
            residual = self.weight * ((self.latent.chunk(number) < self.threshold) - self.predicted)
            residual *= self.latent.factors(residual)
            start = number * CHUNK - first
            yield max(start, 0), residual[max(-start, 0) : count - start]

    def of_rows(self, first: int, count: int) -> Floats:
        """The same of all draws, (rows, draws)."""
        return np.ascontiguousarray(np.concatenate([residual for _, residual in self.steps(first, count)]).T)

    def block(self, first: int, count: int) -> Floats:
        """Give draws first .. first + count - 1 as an array (count, cells)."""
        filled = np.flatnonzero(np.diff(self.offsets))
        out = np.tile(self.mean, (count, 1))
        for start, residual in self.steps(first, count):
            sums = np.add.reduceat(residual, self.offsets[filled], axis=1)
            out[start : start + len(residual), filled] += sums
        return out


def likeness(threshold: Floats, weight: Floats, cluster: Integers, excess: float) -> float:
    """The ρ at which clusters' sums have `excess` more variance than rows that have nothing to do with each other.

    ``Cov(y, y') = Σ_k ρ^k/k!·He_{k-1}(z)φ(z)·He_{k-1}(z')φ(z')`` at the thresholds z, z' (Mehler), added within
    clusters.
    """
    finite = np.isfinite(threshold)
    z = np.where(finite, threshold, 0.0)
    density = np.where(finite, weight * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi), 0.0)
    before, polynomial, powers = np.zeros(z.size), np.ones(z.size), []
    for k in range(1, TERMS + 1):
        each = polynomial * density
        total = np.bincount(cluster, each)
        powers.append(float(total @ total - each @ each) / math.factorial(k))
        before, polynomial = polynomial, z * polynomial - k * before
    low, high = 0.0, ALIKE if excess > 0.0 and powers[0] > 0.0 else 0.0
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        if sum(middle**k * power for k, power in enumerate(powers, 1)) < excess:
            low = middle
        else:
            high = middle
    return high


def clustered_ranks(
    shares: Floats, rank: Integers, place: Integers, weight: Floats, cluster: Integers, draws: int, seed: int
) -> Floats:
    """Frequencies of the ranks of bins in draws by cluster, (draws, bins, ranks).

    The rank that occurs is where the latent value falls among the ranked shares added up, (rows, ranks); `place` is
    the bin of each row. Residuals of the first rank are studentised over clusters, those of the others with them.
    """
    ranks, bins = shares.shape[1], int(place.max()) + 1
    reached = np.clip(np.cumsum(shares[:, :-1], axis=1), 0.0, 1.0)
    threshold = np.ascontiguousarray(special.ndtri(reached).T)
    total = np.maximum(np.bincount(place, weight, bins), 1e-300)[:, None]
    mean = np.stack([np.bincount(place, weight * column, bins) for column in shares.T], axis=1) / total
    first = shares[:, 0]
    latent = Latent.of(cluster, (first, rank == 0, weight), threshold[0], seed)
    made = np.empty((draws, bins, ranks))
    for number, value in enumerate(islice(chain.from_iterable(map(latent.chunk, count())), draws)):
        drawn = np.sum(value > threshold, axis=0)
        factor = latent.factors((weight * ((drawn == 0) - first))[None])
        share = np.bincount(place * ranks + drawn, weight, bins * ranks).reshape(bins, ranks) / total
        made[number] = np.maximum(mean + factor * (share - mean), 0.0)
    return np.asarray(made / np.maximum(made.sum(axis=2, keepdims=True), 1e-300))


def drawn_variations(
    shares: Floats,
    size: Floats,
    variation: Callable[[Floats], Floats],
    draws: int,
    random_state: int,
    residual: Floats | None = None,
    slope: Floats | None = None,
) -> Floats:
    """Draws of the observed variation of each filled bin under a null, (draws, bins).

    Frequencies of the ranks come from a multinomial with the bin's mean ranked probabilities, shares (bins, K). Rows of
    a bin differ, so their ranks are less noisy than that: it is conservative. With `residual` (groups, bins), the
    residuals' first-order effect on each bin's variation by its slope (bins, K), that part of a draw is replaced by the
    residuals' own with a random sign a group: clusters are kept together across bins, and the multinomial keeps what is
    not linear, the bias of an entropy. `variation` takes frequencies (..., bins, K).
    """
    random = np.random.default_rng(random_state)
    trials = np.maximum(np.rint(size), 1.0).astype(np.int64)
    shares = shares / shares.sum(axis=1, keepdims=True)
    step = max(1, BLOCK_VALUES // shares.size)
    result = np.empty((draws, trials.size))
    for first in range(0, draws, step):
        part = result[first : first + step]
        drawn = random.multinomial(trials, shares, size=part.shape) / trials[:, None]
        part[:] = variation(drawn)
        if slope is not None:
            part -= ((drawn - shares) * slope).sum(axis=-1)
    if residual is not None:
        flips = random.integers(0, 2, size=(draws, len(residual))) * 2.0 - 1.0
        result += flips @ residual
    return result


def matched_size(residual: Array, shares: Array, weight: Array, size: Array, rows: Array) -> Array:
    """Size of each bin's multinomial whose variance, added over the ranks, is that of the residuals (groups, bins, K).

    The first-order correction of Rao and Scott.
    """
    variance = (residual * residual).sum(axis=(0, 2))
    spread = weight**2 * (1.0 - (shares * shares).sum(axis=1))
    matched = np.divide(spread, variance, out=size.copy(), where=variance > 0.0)
    return np.asarray(np.clip(matched, 1.0, np.maximum(rows, 1)))


def no_quieter_bins(residual: Floats, shares: Floats, rows: Integers) -> Floats:
    """Residuals (groups, bins, K) of which no bin is quieter than is usual for its predictions.

    Where events or others were kept in part and weighted back, a bin of which few that weigh much were kept looks
    certain (`sums.KeptInPart`): 69 of 400 calibrated tables alarmed at 5%.
    """
    own = (residual * residual).sum(axis=(0, 2))
    known = rows * (1.0 - (shares * shares).sum(axis=1))
    usual = known * (own.sum() / max(known.sum(), 1e-300))
    quieter = np.maximum(usual / np.where(own > 0.0, own, np.inf), 1.0)
    return np.asarray(residual * np.sqrt(quieter)[:, None])


def flip_groups(rows: int, cluster: Array | None, values: int) -> Array:
    """A group for each row, whose residuals share a random sign: its own, or its cluster's.

    `values` numbers will be held of each group. Where there are many, groups are joined by a hash: the sum of their
    squares then still has the mean that it would have one by one, and a few thousand groups make it precise to 2%.
    """
    most = max(64, min(GROUPS, GROUP_VALUES // values))
    member = np.arange(rows) if cluster is None else cluster
    if member.max() < most:
        return member
    mixed = member.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    return np.asarray((mixed >> np.uint64(33)) % np.uint64(most)).astype(np.int64)


def flipped_weight(weights: TargetData) -> Array:
    """Weights of residuals; repetitions of a row are independent of each other unless a cluster holds them together."""
    alone = weights.second is not None and weights.cluster is None
    return np.sqrt(weights.weights[1]) if alone else weights.uneven


def residuals(pair: TargetData, rows: Any) -> Array:
    """w(y - p) of some rows."""
    residual = pair.observed[rows] - pair.predicted[rows]
    return np.asarray(residual if pair.first is None else residual * pair.first[rows])


def cluster_sums(pair: TargetData, rows: Any = EVERY, lever: Any = 1.0) -> tuple[float, float]:
    """Sum of the residuals of some rows, times a lever, and its variance when clusters flip their signs."""
    assert pair.cluster is not None
    sums = np.bincount(pair.cluster[rows], lever * residuals(pair, rows))
    return sums.sum(), np.sum(sums * sums)


def cluster_p(pair: TargetData, rows: Any, lever: Any = 1.0) -> float:
    """The p-value of that sum."""
    return float(normal_p(*cluster_sums(pair, rows, lever)))

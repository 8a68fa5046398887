"""Outcomes drawn from the predictions, as correlated within clusters as the residuals are.

Flipped signs make residuals symmetric, and those of few clusters with skewed scores are not: such tests reject too
often. Here each row has the latent value ``x = sqrt(ρ)·u + sqrt(1 - ρ)·e``, u its cluster's and e its own, both normal,
and the event occurs where Φ(x) < p. So each row is calibrated, and ρ makes the clusters' sums vary as they do in the
data.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from miscal.data.arrays import Array
from miscal.data.libraries import special
from miscal.data.target import TargetData
from miscal.stats.cell_sums import Floats, Integers

MAX_ROW_DRAWS = 1e8  # rows times draws beyond which signs are flipped in place of drawing outcomes
MAX_CLUSTERS = 1000  # from here on sums over clusters are as good as symmetric
SERIES_TERMS = 8
MAX_CORRELATION = 0.95  # the largest ρ
DRAWS_PER_CHUNK = 16  # draws made at once
# Chunks, 999 draws, of so many rows at most, kept for the next test of them: 32 MiB.
CACHED_CHUNKS, CACHED_ROWS = 64, 1 << 13
NO_SUMS, NO_OFFSETS = np.empty(0), np.empty(0, np.int64)


def few_clusters(rows: TargetData, values: float) -> bool:
    """Whether there are clusters, few enough to matter, of rows few enough that so many values a row can be drawn."""
    if rows.cluster is None or rows.count is not None or rows.rows * values > MAX_ROW_DRAWS:
        return False
    return np.unique(rows.cluster).size <= MAX_CLUSTERS


def _normals(
    seed: int, number: int, groups: int, rows: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Normal values of clusters and of rows in a chunk of draws; the tests of all columns use the same."""
    random = np.random.default_rng([seed, number])
    shared = random.standard_normal((DRAWS_PER_CHUNK, groups), dtype=np.float32)
    return shared, random.standard_normal((DRAWS_PER_CHUNK, rows), dtype=np.float32)


_cached_normals = lru_cache(CACHED_CHUNKS)(_normals)


@dataclass(frozen=True, eq=False)
class LatentOutcomes:
    """Latent normal values of rows, correlated within clusters; a draw depends on its number alone.

    groups : number of clusters
    size, min_size : root of the sum of squares of the clusters' residual sums, and what it is at least
    """

    cluster: Integers
    groups: int
    correlation: float
    seed: int
    size: float
    min_size: float

    @classmethod
    def of(
        cls, cluster: Integers, rows: tuple[Floats, Array, Floats], threshold: Floats, seed: int
    ) -> "LatentOutcomes":
        """As correlated as the observed outcomes are; thresholds are the normal quantiles of the probabilities.

        rows : their probabilities, outcomes and weights
        """
        predicted, observed, weight = rows
        code = np.unique(cluster, return_inverse=True)[1].astype(np.int64)
        variance = float(np.sum(weight**2 * predicted * (1.0 - predicted)))
        cluster_sums = np.bincount(code, weight * (observed - predicted))
        squares = float(cluster_sums @ cluster_sums)
        correlation = latent_correlation(threshold, weight, code, squares - variance)
        return cls(
            code, cluster_sums.size, correlation, seed, math.sqrt(max(squares, variance)), math.sqrt(variance)
        )

    def chunk(self, number: int) -> NDArray[np.float32]:
        """The values of draws CHUNK·number and those after it, (CHUNK, rows)."""
        draw = _cached_normals if self.cluster.size <= CACHED_ROWS else _normals
        shared, of_rows = draw(self.seed, number, self.groups, self.cluster.size)
        values = of_rows * np.float32(math.sqrt(1.0 - self.correlation))
        values += (shared * np.float32(math.sqrt(self.correlation)))[:, self.cluster]
        return values

    def factors(self, residual: Floats) -> Floats:
        """What gives draws of rows (draws, rows) sums over clusters of the size that they have in data, (draws, 1)."""
        draws = len(residual)
        codes = self.cluster + np.arange(draws)[:, None] * self.groups
        total = np.bincount(codes.ravel(), residual.ravel(), draws * self.groups).reshape(draws, -1)
        size = np.sqrt(np.sum(total**2, axis=1, keepdims=True))
        return np.asarray(self.size / np.maximum(size, max(self.min_size, 1e-300)))


@dataclass(frozen=True, eq=False)
class ClusterDraws:
    """Draws of rows by cluster, studentised: the clusters' sums of residuals are given the size they have in data.

    mean, offsets : Σw·p of cells and where their rows start, for draws of their Σw·y*
    """

    threshold: NDArray[np.float32]
    predicted: Floats
    weight: Floats
    latent: LatentOutcomes
    mean: Floats
    offsets: Integers

    @classmethod
    def of(
        cls, rows: TargetData, seed: int, mean: Floats = NO_SUMS, offsets: Integers = NO_OFFSETS
    ) -> "ClusterDraws":
        """Draws of rows, and of their cells."""
        assert rows.cluster is not None
        weight, threshold = rows.sampling_weight, special.ndtri(rows.predicted)
        latent = LatentOutcomes.of(rows.cluster, (rows.predicted, rows.observed, weight), threshold, seed)
        return cls(threshold.astype(np.float32), rows.predicted, weight, latent, mean, offsets)

    def steps(self, first: int, count: int) -> Iterator[tuple[int, Floats]]:
        """Residuals w(y* - p) of draws first .. first + count - 1, some draws (draws, rows) at a time, by place."""
        for number in range(first // DRAWS_PER_CHUNK, -(-(first + count) // DRAWS_PER_CHUNK)):
            residual = self.weight * ((self.latent.chunk(number) < self.threshold) - self.predicted)
            residual *= self.latent.factors(residual)
            start = number * DRAWS_PER_CHUNK - first
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


def latent_correlation(threshold: Floats, weight: Floats, cluster: Integers, excess: float) -> float:
    """The ρ at which clusters' sums have `excess` more variance than rows that have nothing to do with each other.

    ``Cov(y, y') = Σ_k ρ^k/k!·He_{k-1}(z)φ(z)·He_{k-1}(z')φ(z')`` at the thresholds z, z' (Mehler), added within
    clusters.
    """
    finite = np.isfinite(threshold)
    z = np.where(finite, threshold, 0.0)
    density = np.where(finite, weight * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi), 0.0)
    before, polynomial, powers = np.zeros(z.size), np.ones(z.size), []
    for k in range(1, SERIES_TERMS + 1):
        term = polynomial * density
        total = np.bincount(cluster, term)
        powers.append(float(total @ total - term @ term) / math.factorial(k))
        before, polynomial = polynomial, z * polynomial - k * before
    low, high = 0.0, MAX_CORRELATION if excess > 0.0 and powers[0] > 0.0 else 0.0
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        if sum(middle**k * power for k, power in enumerate(powers, 1)) < excess:
            low = middle
        else:
            high = middle
    return high

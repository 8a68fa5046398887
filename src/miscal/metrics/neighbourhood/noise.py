"""Are the worst neighbourhoods worse than those of calibrated predictions? The whole maximum is simulated.

Sums of simulated residuals around the same centres are products of one kernel matrix with many columns, made block by
block; no more than a few megabytes are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.inference.aggregates import NullSummary, summary_of_draws
from miscal.inference.maxima import max_statistic_p
from miscal.pairs import Pair

TESTED = 2000  # centres tested at most; neighbouring ones say the same
NOISIEST = 1000  # and those with the largest standard error, where the plain maximum is attained
ENTRIES = 1 << 21  # of a block of the kernel matrix, and of a block of draws
TOGETHER = 200  # draws made at a time

Kernel = str | Callable[[np.ndarray, np.ndarray], Any]


def kernel_weights(centres: np.ndarray, points: np.ndarray, kernel: Kernel, bandwidth: float) -> np.ndarray:
    """Weights of points around centres, (centres, points)."""
    if callable(kernel):
        return np.asarray(kernel(centres, points), dtype=np.float64)
    from scipy.spatial.distance import cdist

    if kernel == "group":
        return np.asarray(cdist(centres, points, "chebyshev") == 0.0, dtype=np.float64)
    d = centres.shape[1]
    with np.errstate(over="ignore", divide="ignore"):
        if kernel == "gaussian":
            return np.asarray(np.exp(-cdist(centres, points, "sqeuclidean") / (2.0 * d * bandwidth**2)))
        return np.asarray(np.exp(-cdist(centres, points, "cityblock") / (d * bandwidth)))


@dataclass(frozen=True, eq=False)
class Stream:
    """Residuals w(y - p) of calibrated predictions, rows by draws; a draw depends on its number and the row alone."""

    pair: Pair
    weight: np.ndarray  # of a trial, not of a row that stands for several
    flips: bool
    seed: int

    def block(self, rows: np.ndarray, first: int, count: int) -> np.ndarray:
        """Draws first .. first + count - 1 of some rows, (rows, count)."""
        from miscal.kernels.subpopulation_draws import bernoulli_steps, flipped_steps

        pair, weight = self.pair, np.ascontiguousarray(self.weight[rows])
        predicted = np.ascontiguousarray(pair.predicted[rows])
        if pair.count is not None and pair.cluster is None:
            return self._repeated(rows, predicted, weight, first, count)
        steps = np.empty((rows.size, count))
        if self.flips:
            times = 1.0 if pair.count is None else pair.count[rows]
            residual = weight * times * (pair.observed[rows] - predicted)
            unit = rows if pair.cluster is None else pair.cluster[rows]
            flipped_steps(residual, unit.astype(np.int64), first, np.uint64(self.seed), steps)
        else:
            own = np.random.SeedSequence([self.seed, int(rows[0])]).generate_state(1, np.uint64)[0]
            bernoulli_steps(predicted, weight, first, own, steps)
        return steps

    def _repeated(
        self, rows: np.ndarray, predicted: np.ndarray, weight: np.ndarray, first: int, count: int
    ) -> np.ndarray:
        """Rows that stand for several trials: as many independent outcomes, or signs."""
        assert self.pair.count is not None
        trials = self.pair.count[rows]
        steps = np.empty((rows.size, count))
        for b in range(count):
            random = np.random.default_rng([self.seed, int(rows[0]), first + b])
            if self.flips:
                signs = 2.0 * random.binomial(trials, 0.5) - trials
                steps[:, b] = signs * weight * (self.pair.observed[rows] - predicted)
            else:
                steps[:, b] = weight * (random.binomial(trials, predicted) - trials * predicted)
        return steps


@dataclass(frozen=True, eq=False)
class Centres:
    """Rows around which simulated sums are made, and what they are divided by."""

    rows: np.ndarray  # row numbers, in any order
    tested: np.ndarray  # which of them are tested
    deviation: np.ndarray  # of the sum around each
    mass: np.ndarray  # of the kernel around each


@dataclass(frozen=True, eq=False)
class MaximumNoise:
    """The largest studentised gap and the largest plain gap against their distributions under calibration."""

    tested: NullSummary
    plain: NullSummary
    maxima: np.ndarray  # of the studentised gap, sorted

    def adjusted(self, z: np.ndarray) -> np.ndarray:
        """P-value of each gap among all tested ones."""
        reached = self.maxima.size - np.searchsorted(self.maxima, np.abs(z) * (1.0 - 1e-12), side="left")
        return np.asarray((1.0 + reached) / (1.0 + self.maxima.size))


def choose_centres(judged: np.ndarray, error: np.ndarray, random_state: Any) -> tuple[np.ndarray, np.ndarray]:
    """Centres (row numbers) and which of them are tested: all rows if few, else a random choice and the noisiest."""
    rows = np.arange(judged.size)
    if judged.size <= TESTED + NOISIEST:
        return rows, judged
    random = np.random.default_rng(random_state)
    able = rows[judged]
    tested = able if able.size <= TESTED else np.sort(random.choice(able, TESTED, replace=False))
    noisy = np.argsort(-np.nan_to_num(error), kind="stable")[:NOISIEST]
    chosen = np.union1d(tested, noisy)
    return chosen, np.isin(chosen, tested)


def maximum_noise(
    features: np.ndarray,
    cells: np.ndarray,
    kernel: Kernel,
    bandwidth: float,
    centres: Centres,
    stream: Stream,
    observed: tuple[float, float],
    draws: int,
) -> MaximumNoise:
    """Simulate both maxima; `observed` are those of the data, studentised and plain."""
    plain: list[np.ndarray] = []
    studentised: list[np.ndarray] = []

    def simulate(first: int, count: int) -> np.ndarray:
        highest, largest = np.zeros(count), np.zeros(count)
        for part, sums in _sums(features, cells, kernel, bandwidth, centres.rows, stream, first, count):
            np.abs(sums, out=sums)
            chosen = centres.tested[part]
            ratio = sums[chosen] / centres.deviation[part][chosen, None]
            np.maximum(highest, ratio.max(axis=0, initial=0.0), out=highest)
            np.maximum(largest, (sums / centres.mass[part][:, None]).max(axis=0, initial=0.0), out=largest)
        plain.append(largest)
        studentised.append(highest)
        return highest

    if centres.tested.any():
        tested = max_statistic_p(observed[0], simulate, draws, block=TOGETHER)
    else:
        simulate(0, min(draws, TOGETHER))
        nan = float("nan")
        tested = NullSummary(nan, nan, nan, nan, (nan, nan), "none")
    found = summary_of_draws(observed[1], np.concatenate(plain), method="simulation")
    return MaximumNoise(tested, found, np.sort(np.concatenate(studentised)))


def _sums(
    features: np.ndarray,
    cells: np.ndarray,
    kernel: Kernel,
    bandwidth: float,
    chosen: np.ndarray,
    stream: Stream,
    first: int,
    count: int,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each cell: which centres lie in it, and the sums of the draws around them, (centres, draws)."""
    order = np.argsort(cells, kind="stable")
    starts = np.searchsorted(cells[order], np.arange(int(cells.max(initial=0)) + 2))
    for cell in np.unique(cells[chosen]):
        part = np.flatnonzero(cells[chosen] == cell)
        inside = order[starts[cell] : starts[cell + 1]]
        around = features[chosen[part]]
        size = max(1, min(inside.size, ENTRIES // max(part.size, count)))
        sums = np.zeros((part.size, count))
        for start in range(0, inside.size, size):
            rows = inside[start : start + size]
            weights = kernel_weights(around, features[rows], kernel, bandwidth)
            sums += weights @ stream.block(rows, first, count)
        yield part, sums

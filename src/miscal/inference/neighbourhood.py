"""Are the worst neighbourhoods worse than those of calibrated predictions? The whole maximum is simulated.

Sums of simulated residuals around the same centres are products of one kernel matrix with many columns, made block by
block; no more than a few megabytes are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from miscal.inference.aggregates import NullSummary, max_statistic_p, summary_of_draws
from miscal.inference.nulls import Steps

TESTED = 2000  # centres tested at most; neighbouring ones say the same
NOISIEST = 1000  # and those with the largest standard error, where the plain maximum is attained
ENTRIES = 1 << 21  # of a block of the kernel matrix, and of a block of draws
TOGETHER = 200  # draws made at a time

Kernel = str | Callable[[np.ndarray, np.ndarray], Any]


class Nearness(NamedTuple):
    """Which rows are near each other: features (n, d), cells of the score (n,), the kernel and its bandwidth."""

    features: np.ndarray
    cells: np.ndarray
    kernel: Kernel
    bandwidth: float

    def weights(self, centres: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Weights of some rows around others, (centres, rows)."""
        around, points, d = self.features[centres], self.features[rows], self.features.shape[1]
        if callable(self.kernel):
            return np.asarray(self.kernel(around, points), dtype=np.float64)
        from scipy.spatial.distance import cdist

        if self.kernel == "group":
            return np.asarray(cdist(around, points, "chebyshev") == 0.0, dtype=np.float64)
        with np.errstate(over="ignore", divide="ignore"):
            if self.kernel == "gaussian":
                return np.asarray(np.exp(-cdist(around, points, "sqeuclidean") / (2.0 * d * self.bandwidth**2)))
            return np.asarray(np.exp(-cdist(around, points, "cityblock") / (d * self.bandwidth)))


@dataclass(frozen=True, eq=False)
class LocalGaps:
    """The gap around each row, what its sum is divided by, and the sum's standard deviation under calibration.

    judged : whether there is enough information to judge
    stretch : by how much a neighbourhood was quieter than is usual, and simulated sums of it have to be made wider
    """

    gap: np.ndarray
    mass: np.ndarray
    deviation: np.ndarray
    judged: np.ndarray
    stretch: np.ndarray | None = None

    @classmethod
    def of(cls, sums: np.ndarray, squares: np.ndarray, powers: np.ndarray, least: float) -> LocalGaps:
        """From Σkw and Σkwr (n, 2), the variance Σk²w²v and Σk⁴w⁴v; `least` is the information that is enough."""
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = np.where(sums[:, 0] > 0, sums[:, 1] / sums[:, 0], np.nan)
            information = np.where(powers > 0, squares**2 / powers, 0.0)
        return cls(gap, sums[:, 0], np.sqrt(squares), (information >= least) & (squares > 0))

    @property
    def error(self) -> np.ndarray:
        """Standard error of the gap."""
        return np.asarray(self.deviation / self.mass)

    @property
    def z(self) -> np.ndarray:
        """The gap in standard errors."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(self.deviation > 0, self.gap * self.mass / self.deviation, 0.0))


class Centres(NamedTuple):
    """Row numbers around which simulated sums are made, and which of them are tested."""

    rows: np.ndarray
    tested: np.ndarray


def choose_centres(local: LocalGaps, random_state: Any) -> Centres:
    """All rows if few, else a random choice of those that can be judged, and the noisiest."""
    rows = np.arange(local.judged.size)
    if rows.size <= TESTED + NOISIEST:
        return Centres(rows, local.judged)
    random = np.random.default_rng(random_state)
    able = rows[local.judged]
    tested = able if able.size <= TESTED else np.sort(random.choice(able, TESTED, replace=False))
    noisy = np.argsort(-np.nan_to_num(local.error), kind="stable")[:NOISIEST]
    chosen = np.union1d(tested, noisy)
    return Centres(chosen, np.isin(chosen, tested))


@dataclass(frozen=True, eq=False)
class MaximumNoise:
    """The largest studentised gap and the largest plain gap against their distributions under calibration."""

    tested: NullSummary
    plain: NullSummary
    maxima: np.ndarray  # draws of the largest studentised gap


def maximum_noise(near: Nearness, local: LocalGaps, centres: Centres, residuals: Steps, draws: int) -> MaximumNoise:
    """Simulate the largest studentised gap of the tested centres and the largest plain gap of all."""
    plain: list[np.ndarray] = []
    studentised: list[np.ndarray] = []

    def simulate(first: int, count: int) -> np.ndarray:
        highest, largest = np.zeros(count), np.zeros(count)
        for part, sums in _sums(near, centres.rows, residuals, first, count):
            rows, chosen = centres.rows[part], centres.tested[part]
            np.abs(sums, out=sums)
            if local.stretch is not None:
                np.multiply(sums, local.stretch[rows, None], out=sums)
            ratio = sums[chosen] / local.deviation[rows[chosen], None]
            np.maximum(highest, ratio.max(axis=0, initial=0.0), out=highest)
            np.maximum(largest, (sums / local.mass[rows, None]).max(axis=0, initial=0.0), out=largest)
        plain.append(largest)
        studentised.append(highest)
        return highest

    if centres.tested.any():
        highest = float(np.abs(local.z[centres.rows[centres.tested]]).max())
        tested = max_statistic_p(highest, simulate, draws, block=TOGETHER)
    else:
        simulate(0, min(draws, TOGETHER))
        tested = NullSummary.unknown(float("nan"), "none")
    found = summary_of_draws(float(np.nanmax(np.abs(local.gap))), np.concatenate(plain), method="simulation")
    return MaximumNoise(tested, found, np.concatenate(studentised))


def _sums(
    near: Nearness, chosen: np.ndarray, residuals: Steps, first: int, count: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each cell: which centres lie in it, and the sums of the draws around them, (centres, draws)."""
    order = np.argsort(near.cells, kind="stable")
    starts = np.searchsorted(near.cells[order], np.arange(int(near.cells.max(initial=0)) + 2))
    for cell in np.unique(near.cells[chosen]):
        part = np.flatnonzero(near.cells[chosen] == cell)
        inside = order[starts[cell] : starts[cell + 1]]
        size = max(1, min(inside.size, ENTRIES // max(part.size, count)))
        sums = np.zeros((part.size, count))
        for start in range(0, inside.size, size):
            rows = inside[start : start + size]
            sums += near.weights(chosen[part], rows) @ residuals.block(first, count, rows)
        yield part, sums

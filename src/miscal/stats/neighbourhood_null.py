"""Null distribution of the largest gap of many neighbourhoods.

Sums of simulated residuals around the same centres are products of one kernel matrix with many columns, made block by
block; no more than a few megabytes are held.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.codes.inference import Method
from miscal.data.arrays import Array
from miscal.stats.cell_sums import unwarned
from miscal.stats.maxima import reached_p
from miscal.stats.metric_null import NullSummary, max_statistic_p, summary_of_draws
from miscal.stats.null_draws import WalkSteps

TESTED = 2000  # centres tested at most; neighbouring ones say the same
NOISIEST = 1000  # and those with the largest standard error, where the plain maximum is attained
ENTRIES = 1 << 21  # of a block of the kernel matrix, and of a block of draws
TOGETHER = 200  # draws made at a time
# weights(centres, rows) gives the weights of some rows around others, (centres, rows).
Weights = Callable[[Array, Array], Array]


@dataclass(frozen=True, eq=False)
class LocalGaps:
    """The gap around each row, what its sum is divided by, and the sum's standard deviation under calibration.

    judged : whether there is enough information to judge
    stretch : by how much a neighbourhood was quieter than is usual, and simulated sums of it have to be made wider
    """

    gap: Array
    mass: Array
    deviation: Array
    judged: Array
    stretch: Array

    @property
    def error(self) -> Array:
        """Standard error of the gap."""
        return np.asarray(self.deviation / self.mass)

    @property
    def z(self) -> Array:
        """The gap in standard errors."""
        with unwarned():
            return np.where(self.deviation > 0, self.gap * self.mass / self.deviation, 0.0)


@dataclass(frozen=True, eq=False)
class LocalNoise:
    """The largest studentised gap and the largest plain gap against their distributions under calibration."""

    tested: NullSummary
    plain: NullSummary
    centres: Array  # rows around which gaps are tested
    adjusted: Array  # their p-values among all of them


def _centres(local: LocalGaps, random_state: Any) -> tuple[Array, Array]:
    """Rows around which sums are simulated, and which are tested: all if few, else some that can be judged, at random.

    And the noisiest.
    """
    rows = np.arange(local.judged.size)
    if rows.size <= TESTED + NOISIEST:
        return rows, local.judged
    tested = rows[local.judged]
    if tested.size > TESTED:
        tested = np.sort(np.random.default_rng(random_state).choice(tested, TESTED, replace=False))
    noisy = np.argsort(-np.nan_to_num(local.error), kind="stable")[:NOISIEST]
    chosen = np.union1d(tested, noisy)
    return chosen, np.isin(chosen, tested)


def neighbourhood_noise(
    weights: Weights, cells: Array, local: LocalGaps, residuals: WalkSteps, draws: int, random_state: Any
) -> LocalNoise:
    """Simulate the largest studentised gap of the tested centres and the largest plain gap of all."""
    chosen, judged = _centres(local, random_state)
    centres = chosen[judged]
    plain: list[Array] = []

    def simulate(first: int, count: int) -> Array:
        highest, largest = np.zeros(count), np.zeros(count)
        for part, around in _sums(weights, cells, chosen, residuals, first, count):
            places, tested = chosen[part], judged[part]
            sums = np.abs(around, out=around)
            sums *= local.stretch[places, None]
            ratio = sums[tested] / local.deviation[places[tested], None]
            np.maximum(highest, ratio.max(axis=0, initial=0.0), out=highest)
            plainly = sums / local.mass[places, None]
            np.maximum(largest, plainly.max(axis=0, initial=0.0), out=largest)
        plain.append(largest)
        return highest

    z = np.abs(local.z[centres])
    furthest = float(z.max()) if z.size else math.nan
    tested = max_statistic_p(furthest, simulate, draws, block=TOGETHER)
    worst = float(np.nanmax(np.abs(local.gap)))
    found = summary_of_draws(worst, np.concatenate(plain), method=Method.SIMULATION)
    return LocalNoise(tested, found, centres, reached_p(tested.drawn, z))


def _sums(
    weights: Weights, cells: Array, chosen: Array, residuals: WalkSteps, first: int, count: int
) -> Iterator[tuple[Array, Array]]:
    """For each cell: which centres lie in it, and the sums of the draws around them, (centres, draws)."""
    own = cells[chosen]
    for cell in np.unique(own):
        part, inside = np.flatnonzero(own == cell), np.flatnonzero(cells == cell)
        size = max(1, ENTRIES // max(part.size, count))
        sums = np.zeros((part.size, count))
        for start in range(0, inside.size, size):
            rows = inside[start : start + size]
            sums += weights(chosen[part], rows) @ residuals.block(first, count, rows)
        yield part, sums

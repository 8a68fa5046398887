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
from miscal.stats.cell_sums import ignore_warnings
from miscal.stats.maxima import maximum_p_values
from miscal.stats.metric_null import NullSummary, max_statistic_p, summary_of_draws
from miscal.stats.null_draws import ResidualDraws

MAX_TESTED_CENTRES = 2000  # centres tested at most; neighbouring ones are redundant
MAX_NOISY_CENTRES = 1000  # and those with the largest standard error, where the plain maximum is attained
ENTRIES_PER_BLOCK = 1 << 21  # of a block of the kernel matrix, and of a block of draws
DRAWS_PER_BLOCK = 200  # draws made at a time
# weights(centres, rows) gives the weights of some rows around others, (centres, rows).
Weights = Callable[[Array, Array], Array]


@dataclass(frozen=True, eq=False)
class LocalGaps:
    """The gap around each row, what its sum is divided by, and the sum's standard deviation under calibration.

    judged : whether there is enough information for a test
    residual_scale : factor of a neighbourhood's simulated sums, above 1 where its residuals are smaller than is usual
    """

    gap: Array
    mass: Array
    deviation: Array
    judged: Array
    residual_scale: Array

    @property
    def error(self) -> Array:
        """Standard error of the gap."""
        return np.asarray(self.deviation / self.mass)

    @property
    def z(self) -> Array:
        """The gap in standard errors."""
        with ignore_warnings():
            return np.where(self.deviation > 0, self.gap * self.mass / self.deviation, 0.0)


@dataclass(frozen=True, eq=False)
class LocalNull:
    """The largest studentised gap and the largest plain gap against their distributions under calibration."""

    tested: NullSummary
    plain: NullSummary
    centres: Array  # rows around which gaps are tested
    adjusted: Array  # their p-values among all of them


def _centres(local: LocalGaps, random_state: Any) -> tuple[Array, Array]:
    """Rows around which sums are simulated, and whether each is tested.

    All rows if they are few; else a random sample of those with enough information, and those with the largest error.
    """
    rows = np.arange(local.judged.size)
    if rows.size <= MAX_TESTED_CENTRES + MAX_NOISY_CENTRES:
        return rows, local.judged
    tested = rows[local.judged]
    if tested.size > MAX_TESTED_CENTRES:
        tested = np.sort(
            np.random.default_rng(random_state).choice(tested, MAX_TESTED_CENTRES, replace=False)
        )
    noisy = np.argsort(-np.nan_to_num(local.error), kind="stable")[:MAX_NOISY_CENTRES]
    chosen = np.union1d(tested, noisy)
    return chosen, np.isin(chosen, tested)


def neighbourhood_maxima(
    weights: Weights, cells: Array, local: LocalGaps, residuals: ResidualDraws, draws: int, random_state: Any
) -> LocalNull:
    """Simulate the largest studentised gap of the tested centres and the largest plain gap of all."""
    chosen, judged = _centres(local, random_state)
    centres = chosen[judged]
    plain: list[Array] = []

    def simulate(first: int, count: int) -> Array:
        highest, largest = np.zeros(count), np.zeros(count)
        for part, around_centres in _simulated_sums(weights, cells, chosen, residuals, first, count):
            places, tested = chosen[part], judged[part]
            sums = np.abs(around_centres, out=around_centres)
            sums *= local.residual_scale[places, None]
            ratio = sums[tested] / local.deviation[places[tested], None]
            np.maximum(highest, ratio.max(axis=0, initial=0.0), out=highest)
            gaps = sums / local.mass[places, None]
            np.maximum(largest, gaps.max(axis=0, initial=0.0), out=largest)
        plain.append(largest)
        return highest

    z = np.abs(local.z[centres])
    furthest = float(z.max()) if z.size else math.nan
    tested = max_statistic_p(furthest, simulate, draws, block=DRAWS_PER_BLOCK)
    worst = float(np.nanmax(np.abs(local.gap)))
    plain_summary = summary_of_draws(worst, np.concatenate(plain), method=Method.SIMULATION)
    return LocalNull(tested, plain_summary, centres, maximum_p_values(tested.drawn, z))


def _simulated_sums(
    weights: Weights, cells: Array, chosen: Array, residuals: ResidualDraws, first: int, count: int
) -> Iterator[tuple[Array, Array]]:
    """For each cell: which centres lie in it, and the sums of the draws around them, (centres, draws)."""
    cell_of_centre = cells[chosen]
    for cell in np.unique(cell_of_centre):
        part, inside = np.flatnonzero(cell_of_centre == cell), np.flatnonzero(cells == cell)
        size = max(1, ENTRIES_PER_BLOCK // max(part.size, count))
        sums = np.zeros((part.size, count))
        for start in range(0, inside.size, size):
            rows = inside[start : start + size]
            sums += weights(chosen[part], rows) @ residuals.block(first, count, rows)
        yield part, sums

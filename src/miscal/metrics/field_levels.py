"""What sets the levels of a field apart from each other, and what their gaps are likely to be once luck is taken off.

Differences: all predictions are shifted in log-odds by one number, such that they are right in total, and each level is
tested again: what is left is what sets it apart from the rest.

Empirical Bayes: what the gap of a level is likely to be, once luck is taken off.

A level's shift θ = Σw(p - y)/Σw·p(1-p) is, to first order, by how much its log-odds are too high; for rare events it is
the relative error. Levels vary around their parent with a spread τ that the data tell: θ_level ~ N(θ_parent, τ²), and
a measured shift varies around its level's with the noise s². On this scale rare and common levels are exchangeable,
which on the scale of the gap they are not: a level at 0.1% cannot be off by 5 points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.carriers.tally import Tally
from miscal.engines.memory import tally
from miscal.inference.adjust import holm
from miscal.inference.aggregates import NullSummary, PooledError, aggregate_null
from miscal.inference.cells import cell_p_values
from miscal.inference.sums import CellRows
from miscal.metrics.arrays import Norm, norm_power
from miscal.metrics.pooled import Pooled
from miscal.pairs import Pair
from miscal.pooling.cells import Pooling

Floats = npt.NDArray[np.float64]
BLOCK = 1 << 16
STEPS = 50
SETTLED = 1e-12


@dataclass(frozen=True)
class Differences:
    """What sets each level apart: sums and rows after the shift, the gap left, its p-value and Holm's.

    `summary` asks whether any levels differ.
    """

    shift: float
    sums: Tally
    rows: CellRows | None
    gap: Floats
    p_value: Floats
    adjusted: Floats
    summary: NullSummary


def level_differences(
    pair: Pair, pooling: Pooling, found: Pooled, *, norm: Norm, draws: int, random_state: int
) -> Differences | None:
    """Compare each level with the rest; None where the total cannot be made right (no events, or nothing else)."""
    shift = common_shift(pair)
    if math.isnan(shift):
        return None
    moved = replace(pair, predicted=shifted(pair.predicted, shift))
    sums = tally(moved, pooling)
    rows = None if found.rows is None else replace(found.rows, probability=shifted(found.rows.probability, shift))
    common: Any = {"weighted": sums.weighted, "null": found.noise.null, "rows": rows, "random_state": random_state}
    tests = cell_p_values(
        sums, outcome_weights=found.noise.outcome_weights, response="binary" if pair.binary else "real", **common
    )
    model = pair.binary and not found.noise.outcome_weights
    summary = aggregate_null(sums, PooledError(norm_power(norm)), draws=draws, model_variance=model, **common)
    return Differences(shift, sums, rows, sums.gap, tests.p_value, holm(tests.p_value), summary)


def shifted(probability: Floats, shift: float) -> Floats:
    """Add a number to the log-odds: p·e^δ/(1 + p(e^δ - 1)).

    >>> shifted(np.array([0.0, 0.5, 1.0]), np.log(3)).round(6).tolist()
    [0.0, 0.75, 1.0]
    """
    factor = math.exp(-abs(shift))  # of the side on which nothing overflows
    if shift >= 0:
        return np.asarray(probability / (probability + (1.0 - probability) * factor))
    less = probability * factor
    return np.asarray(less / ((1.0 - probability) + less))


def common_shift(pair: Pair) -> float:
    """The shift in log-odds after which as many events are predicted as were observed; NaN where there is none."""
    first = pair.first
    observed = float(pair.observed.sum(dtype=np.float64) if first is None else first @ pair.observed)
    certain = pair.predicted[(pair.predicted <= 0.0) | (pair.predicted >= 1.0)]
    total = float(pair.rows if first is None else first.sum())
    if not 0.0 < observed < total or certain.size == pair.rows:
        return math.nan
    shift = 0.0
    for _ in range(STEPS):
        predicted, slope = _moments(pair.predicted, first, shift)
        if slope <= 1e-300:
            return math.nan
        step = float(np.clip((observed - predicted) / slope, -2.0, 2.0))
        shift += step
        if abs(step) <= SETTLED * max(1.0, abs(shift)):
            break
        if abs(shift) > 500.0:
            return math.nan
    return shift


def _moments(probability: Floats, weight: Floats | None, shift: float) -> tuple[float, float]:
    """Σw·q and Σw·q(1-q) of the shifted probabilities, block by block."""
    total = slope = 0.0
    for start in range(0, probability.size, BLOCK):
        q = shifted(probability[start : start + BLOCK], shift)
        spread = q * (1.0 - q)
        if weight is None:
            total, slope = total + float(q.sum()), slope + float(spread.sum())
        else:
            part = weight[start : start + BLOCK]
            total, slope = total + float(part @ q), slope + float(part @ spread)
    return total, slope


Integers = npt.NDArray[np.int64]
HALVINGS = 80
NORMAL_95 = 1.959963984540054
FURTHEST = 3.0  # standard deviations that a residual counts at most
CAPPED = 0.9950108  # E min(Z², 9) of a standard normal Z


@dataclass(frozen=True)
class Shrunken:
    """Gaps drawn towards their parent's, with 95% intervals of each level by itself; `spreads` from level to root."""

    gap: Floats
    low: Floats
    high: Floats
    spreads: tuple[float, ...]
    centre: float  # of the root: the shift in log-odds common to all


@dataclass(frozen=True)
class _Messages:
    """Estimates at one height of the tree: value, its noise variance, and the parent of each."""

    value: Floats
    noise: Floats
    parent: Integers
    spread2: float


def shrink(sums: Tally, noise: Floats, parents: Sequence[Integers] = ()) -> Shrunken:
    """Draw each level's gap towards its parent's by as much as its noise asks for.

    Parameters
    ----------
    sums : tally of the levels
    noise : (cells,) variance of each level's Σw(p - y), as far as the residuals tell
    parents : codes from the levels' parents up to the outermost ancestors; () when the root is the parent of all

    Notes
    -----
    The spread of each height is the root of the restricted likelihood's equation,
    Σω²(min(r², 9/ω) - β(1/ω - 1/Ω)) = 0, ω = 1/(s² + τ²), Ω the sum of ω in a family; 0 where levels vary no more than
    noise does. Residuals r count at most three standard deviations (β = E min(Z², 9) makes up for it), so that a few
    levels that are far off do not make all others look uncertain. Levels without noise (certain predictions) and
    empty ones keep their gap.
    """
    weight, off = sums.weight, sums.events_off
    with np.errstate(divide="ignore", invalid="ignore"):
        information = sums.variance * weight / sums.weight2  # Σw·p(1-p), where weights do not depend on p
    live = np.flatnonzero((weight > 0) & (sums.variance > 1e-13 * sums.weight2))
    gap = np.array(sums.gap)
    if live.size == 0:
        return Shrunken(gap, gap.copy(), gap.copy(), (0.0,) * (len(parents) + 1), 0.0)
    # One factor for all levels: a level's own residuals would tie its noise to its gap.
    factor = float(noise[live].sum() / sums.variance[live].sum())
    value = off[live] / information[live]
    variance = factor * sums.variance[live] / information[live] ** 2
    heights = _upward(value, variance, [_dense(codes, live) for codes in parents])
    centre, centre_variance = _pooled(heights[-1])
    middle, spread = _downward(heights, centre, centre_variance)
    scale = information[live] / weight[live]
    predicted = sums.mean_predicted[live]
    low, high = gap.copy(), gap.copy()
    for target, theta in ((gap, middle), (low, middle - NORMAL_95 * spread), (high, middle + NORMAL_95 * spread)):
        target[live] = np.clip(theta * scale, predicted - 1.0, predicted)
    return Shrunken(gap, low, high, tuple(float(np.sqrt(height.spread2)) for height in heights), float(centre[0]))


def _dense(codes: Integers, live: Integers) -> Integers:
    return np.unique(codes[live], return_inverse=True)[1].astype(np.int64)


def _upward(value: Floats, variance: Floats, parents: list[Integers]) -> list[_Messages]:
    """Estimates of the levels, of their parents from them, and so on to the outermost ancestors."""
    heights = []
    own = np.arange(value.size)
    for codes in [*parents, np.zeros(value.size, np.int64)]:
        parent = np.empty(value.size, np.int64)
        parent[own] = codes  # every row of levels below agrees on the parent of its ancestor
        height = _Messages(value, variance, parent, _spread2(value, variance, parent))
        heights.append(height)
        value, variance = _pooled(height)
        own = codes
    return heights


def _pooled(height: _Messages) -> tuple[Floats, Floats]:
    """Precision-weighted mean of each family, and its variance."""
    omega = 1.0 / (height.noise + height.spread2)
    total = np.bincount(height.parent, weights=omega)
    return np.bincount(height.parent, weights=omega * height.value) / total, 1.0 / total


def _downward(heights: list[_Messages], centre: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Means and standard deviations given all data, from the root to the levels."""
    for height in reversed(heights):
        own = height.spread2 / (height.spread2 + height.noise)
        centre = own * height.value + (1.0 - own) * centre[height.parent]
        variance = own * height.noise + (1.0 - own) ** 2 * variance[height.parent]
    return centre, np.sqrt(variance)


def _spread2(value: Floats, noise: Floats, parent: Integers) -> float:
    """Variance between members of a family beyond their noise."""
    if np.unique(parent).size >= value.size:
        return 0.0  # families of one: nothing varies within them

    def excess(spread2: float) -> float:
        omega = 1.0 / (noise + spread2)
        total = np.bincount(parent, weights=omega)
        mean = np.bincount(parent, weights=omega * value) / total
        residual = value - mean[parent]
        square = np.minimum(residual * residual, FURTHEST**2 / omega)
        return float(np.sum(omega * omega * (square - CAPPED * (1.0 / omega - (1.0 / total)[parent]))))

    if excess(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, 8.0 * float(np.max(np.abs(value - np.median(value)))) ** 2
    for _ in range(HALVINGS):
        middle = float(np.sqrt(max(low, 1e-6 * high) * high))
        if excess(middle) > 0.0:
            low = middle
        else:
            high = middle
        if high - low <= 1e-10 * high:
            break
    return high

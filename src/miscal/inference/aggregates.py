"""Noise floor, p-value and interval of a metric that is read off all cells at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.inference.cells import Null
from miscal.inference.nulls import cell_draws
from miscal.inference.sums import CellRows, CellSums, Floats

Metric = Callable[[Floats, Floats, Floats], Any]
"""metric(predicted (cells,), observed (draws, cells), weight (cells,)) -> (draws,)."""

DRAWS = 999
BLOCK_VALUES = 1 << 22  # numbers held at a time: 32 MiB, and as much again by the metric


@dataclass(frozen=True)
class NullSummary:
    """A statistic against its distribution under calibration.

    `noise_floor` is the null's mean, `quantile` its 95% point, `interval` is ``[max(0, v - q), v + q]``; all NaN when
    they cannot be given. `exceedances` of `draws` reached the value.
    """

    value: float
    noise_floor: float
    p_value: float
    quantile: float
    interval: tuple[float, float]
    method: str
    draws: int = 0
    exceedances: int = 0

    @property
    def p_words(self) -> str:
        """The p-value as it is printed: at the end of a simulation's scale it is a bound."""
        if math.isnan(self.p_value):
            return "none"
        if self.draws and self.exceedances == 0:
            return f"p <= {1.0 / (1.0 + self.draws):.3g}"
        return f"p = {self.p_value:.3g}"


def summary_of_draws(value: float, draws: Floats, *, method: str, level: float = 0.95) -> NullSummary:
    """Compare a value with draws of it under the null: ``p = (1 + #{T* >= T})/(1 + B)``.

    Draws that equal the value up to rounding count as reaching it.

    Examples
    --------
    >>> summary_of_draws(3.0, np.array([1.0, 2.0, 3.0]), method="simulation").p_value
    0.5
    """
    if math.isnan(value) or draws.size == 0:
        return NullSummary(value, math.nan, math.nan, math.nan, (math.nan, math.nan), method)
    exceedances = int(np.count_nonzero(draws >= value - 1e-12 * abs(value)))
    # The ceiling of level·(B + 1)-th smallest draw: conservative by at most one draw.
    rank = min(draws.size, math.ceil(level * (draws.size + 1)))
    quantile = float(np.partition(draws, rank - 1)[rank - 1])
    p_value = (1.0 + exceedances) / (1.0 + draws.size)
    interval = seminorm_interval(value, quantile)
    return NullSummary(value, float(draws.mean()), p_value, quantile, interval, method, int(draws.size), exceedances)


def seminorm_interval(value: float, quantile: float) -> tuple[float, float]:
    """Give ``[max(0, v - q), v + q]``, which covers by the triangle inequality at least as often as q does.

    Examples
    --------
    >>> seminorm_interval(0.03, 0.04)
    (0.0, 0.07)
    """
    return max(0.0, value - quantile), value + quantile


def aggregate_null(
    sums: CellSums,
    metric: Metric,
    *,
    weighted: bool,
    draws: int = DRAWS,
    null: Null = "bernoulli",
    rows: CellRows | None = None,
    level: float = 0.95,
    random_state: int | np.random.Generator | None = 0,
) -> NullSummary:
    """Recompute a metric on draws of the cells' observed sums and compare.

    Parameters
    ----------
    sums
        Sums per cell; empty cells have weight 0 and the metric must pass over them.
    metric
        ``metric(predicted (cells,), observed (draws, cells), weight (cells,)) -> (draws,)`` of sums, not of means.
    weighted
        False when all weights are 1.
    draws
        How many; they are made in blocks of at most 32 MiB.
    null, rows
        See `cell_draws`; clusters need rows.

    Returns
    -------
    NullSummary
        The interval supposes a seminorm of y - p; for another metric leave it unused.

    Examples
    --------
    >>> from miscal.inference.sums import Sums
    >>> one = np.ones(2)
    >>> sums = Sums(100 * one, 100 * one, 100 * one, 20 * one, 45 * one, 16 * one, 40 * one)
    >>> found = aggregate_null(sums, pooled_error(1.0), weighted=False)
    >>> found.value, found.p_words, round(found.noise_floor, 2)
    (0.25, 'p <= 0.001', 0.03)
    """
    if draws < 1:
        raise refusal("must be at least 1", where="'draws'", got=f"got {draws}")
    stream = cell_draws(sums, weighted=weighted, null=null, rows=rows, draws=draws, random_state=random_state)
    step = max(1, BLOCK_VALUES // max(sums.rows.size, 1))
    values = np.empty(draws)
    for first in range(0, draws, step):
        count = min(step, draws - first)
        values[first : first + count] = metric(sums.predicted, stream.block(first, count), sums.weight)
    actual = float(np.asarray(metric(sums.predicted, sums.observed[np.newaxis, :], sums.weight))[0])
    return summary_of_draws(actual, values, method=stream.words, level=level)


def pooled_error(norm: float) -> Metric:
    """Build the metric ``(Σ share·|gap|^norm)^(1/norm)``, or the largest gap when norm is infinite."""

    def metric(predicted: Floats, observed: Floats, weight: Floats) -> Floats:
        filled = weight > 0.0
        kept = observed if filled.all() else np.compress(filled, observed, axis=1)
        gap = kept - predicted[filled]
        np.abs(gap, out=gap)
        gap /= weight[filled]
        if math.isinf(norm):
            return np.asarray(gap.max(axis=1, initial=0.0))
        if norm != 1.0:
            gap **= norm
        gap *= weight[filled] / weight.sum()
        # Summed row by row, not by a matrix product, whose rounding depends on how many draws are in the block.
        return np.asarray(gap.sum(axis=1) ** (1.0 / norm))

    return metric


def walk_range(predicted: Floats, observed: Floats, weight: Floats) -> Floats:
    """Give the range of the partial sums of y - p over cells in order, over Σw: Kuiper, cells being tied keys."""
    walk = np.cumsum(observed - predicted, axis=1)
    highest = walk.max(axis=1, initial=0.0)
    return np.asarray((highest - walk.min(axis=1, initial=0.0)) / weight.sum())

"""Noise floor, p-value and interval of a metric that is read off all cells at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.inference.clusters import ClusterDraws
from miscal.inference.nulls import Draws, cell_draws
from miscal.inference.sums import CellRows, Floats, Null, Sums

Metric = Callable[[Floats, Floats, Floats], Any]
"""metric(predicted (cells,), observed (draws, cells), weight (cells,)) -> (draws,)."""

DRAWS = 999
STOP = 20
FLOOR_DRAWS = 199  # the floor and the 95% point want at least this many, however early the p-value is settled
CHUNK = 9973  # cells whose share of an error is summed at once; a prime: powers of two would share places in the cache
BLOCK_VALUES = 1 << 22  # numbers held at a time: 32 MiB, and as much again by the metric


@dataclass(frozen=True)
class NullSummary:
    """A statistic against its distribution under calibration.

    `noise_floor` is the null's mean, `quantile` its 95% point, `interval` is ``[max(0, v - q), v + q]``, q the 95%
    point of the noise that the data have; all NaN when they cannot be given. `exceedances` of `draws` reached the
    value.
    """

    value: float
    noise_floor: float
    p_value: float
    quantile: float
    interval: tuple[float, float]
    method: str
    draws: int = 0
    exceedances: int = 0

    @classmethod
    def unknown(cls, value: float, reason: str) -> NullSummary:
        """A statistic of whose noise nothing can be said, and why."""
        return cls(value, math.nan, math.nan, math.nan, (math.nan, math.nan), reason)

    def numbers(self, scale: float = 1.0) -> dict[str, Any]:
        """Value, floor, p-value and interval by name, as a result has them; `scale` is that of the units."""
        low, high = self.interval
        made = {"value": self.value * scale, "noise_floor": self.noise_floor * scale, "p_value": self.p_value}
        return {**made, "interval": (low * scale, high * scale)}


def summary_of_draws(value: float, draws: Floats, *, method: str) -> NullSummary:
    """Compare a value with draws of it under the null: ``p = (1 + #{T* >= T})/(1 + B)``.

    Draws that equal the value up to rounding count as reaching it.

    Examples
    --------
    >>> summary_of_draws(3.0, np.array([1.0, 2.0, 3.0]), method="simulation").p_value
    0.5
    """
    if math.isnan(value) or draws.size == 0:
        return NullSummary.unknown(value, method)
    # A draw that is no number counts as one that reaches the value: it must not make a p-value small.
    exceedances = int(np.count_nonzero(~(draws < value - 1e-12 * abs(value))))
    quantile = upper_quantile(draws)
    p_value = (1.0 + exceedances) / (1.0 + draws.size)
    interval = seminorm_interval(value, quantile)
    return NullSummary(value, float(draws.mean()), p_value, quantile, interval, method, int(draws.size), exceedances)


def upper_quantile(draws: Floats) -> float:
    """The 95% point, the ceiling of .95·(B + 1)-th smallest draw: conservative by at most one draw."""
    rank = min(draws.size, math.ceil(0.95 * (draws.size + 1)))
    return float(np.partition(draws, rank - 1)[rank - 1])


def max_statistic_p(
    observed: float,
    simulate_block: Callable[[int, int], Floats],
    draws: int = DRAWS,
    stop: int | None = STOP,
    *,
    block: int = 50,
    at_least: int = FLOOR_DRAWS,
    method: str = "simulation",
) -> NullSummary:
    """Give ``p = (1 + #{T* >= T})/(1 + B)`` of a statistic that was simulated through its whole search.

    Parameters
    ----------
    observed
        The statistic of the data.
    simulate_block
        ``simulate_block(first, count)`` gives draws first .. first + count - 1 of the statistic under the null.
    draws, stop
        At most `draws`; no more once `stop` of them reached the statistic (and `at_least` were made): the p-value is
        then large whatever follows. ``stop=None`` makes them all.
    block
        Draws asked for at a time; the answer does not depend on it except in where it stops.

    Examples
    --------
    >>> found = max_statistic_p(9.0, lambda first, count: np.arange(first, first + count) % 8.0)
    >>> found.p_value
    0.001
    """
    made: list[Floats] = []
    total, hits = 0, 0
    while total < draws and not (stop is not None and hits >= stop and total >= min(at_least, draws)):
        count = min(block, draws - total)
        values = np.asarray(simulate_block(total, count), dtype=np.float64)
        made.append(values)
        total += count
        hits += int(np.count_nonzero(~(values < observed - 1e-12 * abs(observed))))
    return summary_of_draws(float(observed), np.concatenate(made), method=method)


def root(falling: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Where a function that falls is 0, between two positive ends, within `tolerance` of itself; else the nearer end.

    Regula falsi (Illinois variant), kept from the ends, so that both close in. scipy's solvers cost a command the time
    of importing all of `scipy.optimize`.

    Examples
    --------
    >>> round(root(lambda x: 2.0 - x * x, 1.0, 2.0, 1e-12), 10)
    1.4142135624
    """
    above, below, raised = falling(low), falling(high), None
    while above > 0.0 > below and high - low > tolerance * high:
        middle, least = (low * below - high * above) / (below - above), 0.4 * tolerance * high
        middle = min(max(middle, low + least), high - least)
        height = falling(middle)
        if height > 0.0:
            low, above, below = middle, height, below * (0.5 if raised is True else 1.0)
        else:
            high, below, above = middle, height, above * (0.5 if raised is False else 1.0)
        raised = height > 0.0
    return low if above <= 0.0 else high if below >= 0.0 else 0.5 * (low + high)


def seminorm_interval(value: float, quantile: float) -> tuple[float, float]:
    """Give ``[max(0, v - q), v + q]``, which covers by the triangle inequality at least as often as q does.

    Examples
    --------
    >>> seminorm_interval(0.03, 0.04)
    (0.0, 0.07)
    """
    return max(0.0, value - quantile), value + quantile


def aggregate_null(
    sums: Sums,
    metric: Metric,
    *,
    weighted: bool,
    draws: int = DRAWS,
    null: Null = "bernoulli",
    rows: CellRows | None = None,
    model_variance: bool = False,
    stretch: Floats | None = None,
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
    null, rows, model_variance, stretch
        See `cell_draws`; clusters need rows.

    Returns
    -------
    NullSummary
        The interval supposes a seminorm of y - p, and has the noise of what happened (`as_happened`); for another
        metric leave it unused.

    Examples
    --------
    >>> from miscal.inference.sums import Sums
    >>> one = np.ones(2)
    >>> sums = Sums(100 * one, 100 * one, 100 * one, 20 * one, 45 * one, 16 * one, 40 * one)
    >>> found = aggregate_null(sums, PooledError(1.0), weighted=False)
    >>> found.value, found.p_value, round(found.noise_floor, 2)
    (0.25, 0.001, 0.03)
    """
    options: Any = {"weighted": weighted, "null": null, "random_state": random_state}
    stream = cell_draws(sums, rows=rows, draws=draws, model_variance=model_variance, stretch=stretch, **options)
    values = _values(stream, metric, sums, draws)
    actual = float(np.asarray(metric(sums.predicted, sums.observed[np.newaxis, :], sums.weight))[0])
    found = summary_of_draws(actual, values, method=stream.words)
    if null == "residual" or math.isnan(actual) or draws < FLOOR_DRAWS:
        return found  # flipped residuals are what happened
    # Draws from p would be too quiet where far more happens than was predicted: the interval has the data's own noise.
    happened = as_happened(sums, weighted=weighted)
    own = _values(cell_draws(happened, draws=FLOOR_DRAWS, **options), metric, happened, FLOOR_DRAWS)
    return replace(found, interval=seminorm_interval(actual, upper_quantile(own)))


def _values(stream: Draws | ClusterDraws, metric: Metric, sums: Sums, draws: int) -> Floats:
    """The metric of each draw."""
    predicted, weight = sums.predicted, sums.weight
    if isinstance(metric, PooledError) and isinstance(stream, Draws) and stream.kernel == "draw_cells":
        return metric.of_draws(stream.block, draws, predicted, weight)
    step = max(1, BLOCK_VALUES // max(sums.rows.size, 1))
    values = np.empty(draws)
    for first in range(0, draws, step):
        count = min(step, draws - first)
        values[first : first + count] = metric(predicted, stream.block(first, count), weight)
    if isinstance(stream, Draws) and stream.together is not None:
        values = np.maximum(values.mean() + stream.together * (values - values.mean()), 0.0)
    return values


def as_happened(sums: Sums, *, weighted: bool) -> Sums:
    """The cells as if they had been predicted as they happened, pulled towards the predictions by half an event.

    Their variance is the smaller of two that are too large on average, ``r(1 - r)Σw²`` and ``Σw²(y - p)²``, but not
    below what the spread of the predictions leaves of the first.

    Examples
    --------
    >>> one = np.ones(1)
    >>> sums = Sums(100 * one, 100 * one, 100 * one, 2 * one, 30 * one, 1.96 * one, 28.84 * one)
    >>> made = as_happened(sums, weighted=False)
    >>> made.predicted.round(2).tolist(), made.variance.round(2).tolist()
    ([29.86], [20.94])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = sums.weight2 / sums.weight if weighted else np.ones_like(sums.weight)
        size, rate = sums.weight / scale, np.clip(sums.predicted / sums.weight, 0.0, 1.0)
        share = np.clip((sums.observed / scale + 0.5 * rate) / (size + 0.5), 0.0, 1.0)
        largest = share * (1.0 - share) * sums.weight2
        left = sums.variance / (rate * (1.0 - rate) * sums.weight2)
    left = np.where(np.isfinite(left) & (left > 1e-6), np.minimum(left, 1.0), 1.0)
    variance = np.maximum(np.minimum(largest, sums.residual2), left * largest)
    share, variance = np.nan_to_num(share), np.nan_to_num(variance)
    return replace(sums, predicted=share * sums.weight, variance=variance)


@dataclass(frozen=True)
class PooledError:
    """The metric ``(Σ share·|gap|^norm)^(1/norm)``, or the largest gap when norm is infinite.

    The sum is one over CHUNK cells, added up: what the cells give can then be drawn some cells at a time, all draws
    of a cell together, so that the masses of a cell's numbers are worked out once, and has the same bits.
    """

    norm: float

    def __call__(self, predicted: Floats, observed: Floats, weight: Floats) -> Floats:
        """Of draws (draws, cells)."""
        return self.of_draws(
            lambda first, count, cells: observed[first : first + count, cells], len(observed), predicted, weight
        )

    def of_draws(
        self, block: Callable[[int, int, slice], Floats], draws: int, predicted: Floats, weight: Floats
    ) -> Floats:
        """Of draws that are made a block at a time, ``block(first, count, cells)``."""
        total, values = weight.sum(), np.zeros(draws)
        step = max(1, BLOCK_VALUES // max(min(weight.size, CHUNK), 1))
        for start in range(0, weight.size, CHUNK):
            cells = slice(start, start + CHUNK)
            own = weight[cells]
            filled = own > 0.0
            for first in range(0, draws, step):
                made, part = block(first, min(step, draws - first), cells), values[first : first + step]
                kept = made if filled.all() else np.compress(filled, made, axis=1)
                gap = kept - predicted[cells][filled]
                np.abs(gap, out=gap)
                gap /= own[filled]
                if math.isinf(self.norm):
                    np.maximum(part, gap.max(axis=1, initial=0.0), out=part)
                    continue
                if self.norm != 1.0:
                    gap **= self.norm
                gap *= own[filled] / total
                # Summed row by row, not by a matrix product, whose rounding depends on how many draws are in the block.
                part += gap.sum(axis=1)
        return values if math.isinf(self.norm) else np.asarray(values ** (1.0 / self.norm))


def walk_range(predicted: Floats, observed: Floats, weight: Floats) -> Floats:
    """Give the range of the partial sums of y - p over cells in order, over Σw: Kuiper, cells being tied keys."""
    walk = np.cumsum(observed - predicted, axis=1)
    highest = walk.max(axis=1, initial=0.0)
    return np.asarray((highest - walk.min(axis=1, initial=0.0)) / weight.sum())

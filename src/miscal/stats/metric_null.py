"""Noise floor, p-value and interval of a metric of all cells at once, by recomputing it on draws."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from miscal.codes.inference import Method, Null
from miscal.data.arrays import Plain
from miscal.stats.cell_sums import CellSums, CellTestSettings, Floats, ignore_warnings
from miscal.stats.null_draws import ROW_DRAWS, CellDraws, cell_draws
from miscal.stats.sign_flip import ENOUGH_EXCEEDANCES

# statistic(Σw(y - p), (draws, cells)) -> (draws,).
Statistic = Callable[[Floats], Floats]

DRAWS = 999
MIN_FLOOR_DRAWS = (
    199  # the floor and the 95% point want at least this many, however early the p-value is settled
)
BLOCK_VALUES = 1 << 24  # numbers held at a time: 128 MiB, and far less by the metric
CACHED_VALUES = 1 << 15


@dataclass(frozen=True)
class NullSummary:
    """A statistic against its distribution under calibration.

    Attributes
    ----------
    value : float
        The statistic of the data.
    noise_floor, quantile : float
        Mean and 95% point of its null distribution; NaN where that is not known, as are p-value and interval.
    p_value : float
        ``(1 + exceedances) / (1 + draws)`` where it was simulated.
    interval : tuple of float
        ``[max(0, v - q), v + q]``, q the larger 95% point: under the null, or around the observed rates.
    method : Method
        How the p-value was found, or why there is none.
    draws, exceedances : int
        Number of draws, and how many of them reached the value.
    sparse_cells : bool
        Whether cells with few events were drawn from the predictions, whatever `method` says of the others.
    drawn : ndarray
        The statistic of each draw.
    """

    value: float
    noise_floor: float
    p_value: float
    quantile: float
    interval: tuple[float, float]
    method: Method
    draws: int = 0
    exceedances: int = 0
    sparse_cells: bool = False
    drawn: Floats = field(default_factory=lambda: np.empty(0), compare=False, repr=False)

    @classmethod
    def unknown(cls, value: float, method: Method) -> "NullSummary":
        """A statistic whose null distribution is not known; `method` says why."""
        return cls(value, math.nan, math.nan, math.nan, (math.nan, math.nan), method)

    def no_narrower(self, quantile: float) -> "NullSummary":
        """The same with the interval of another 95% point of the noise, where that is the larger one."""
        return replace(self, interval=seminorm_interval(self.value, max(self.quantile, quantile)))

    def numbers(self, scale: float = 1.0) -> Plain:
        """Value, floor, p-value and interval by name, as a result has them; `scale` is that of the units."""
        low, high = self.interval
        return {
            "value": self.value * scale,
            "noise_floor": self.noise_floor * scale,
            "p_value": self.p_value,
            "interval": (low * scale, high * scale),
        }


def summary_of_draws(value: float, draws: Floats, *, method: Method) -> NullSummary:
    """Compare a value with draws of it under the null: ``p = (1 + #{T* >= T})/(1 + B)``.

    Draws that equal the value up to rounding count as reaching it.

    Examples
    --------
    >>> summary_of_draws(3.0, np.array([1.0, 2.0, 3.0]), method=Method.SIMULATION).p_value
    0.5
    """
    if math.isnan(value) or draws.size == 0:
        return NullSummary.unknown(value, method)
    exceedances, quantile = int(_exceedances(draws, value)), upper_quantile(draws)
    p_value = float(drawn_p(draws, value))
    interval = seminorm_interval(value, quantile)
    mean = float(draws.mean())
    return NullSummary(value, mean, p_value, quantile, interval, method, draws.size, exceedances, drawn=draws)


def drawn_p(drawn: Floats, values: Any) -> Floats:
    """P-values of values by draws of them, (draws, K): as of `summary_of_draws`, each by itself."""
    return np.asarray((1.0 + _exceedances(drawn, values)) / (1.0 + len(drawn)))


def at_resolution(p_value: float, draws: int) -> bool:
    """Whether a p-value is the smallest that so many draws can give, so that it is only a bound.

    >>> at_resolution(0.01, 99), at_resolution(0.02, 99)
    (True, False)
    """
    return p_value <= (1.0 + 1e-9) / (1.0 + draws)


def null_bands_and_p(drawn: Floats, values: Floats) -> tuple[Floats, ...]:
    """Between what 95% of the draws of each value lie, (draws, K), and its two-sided p-value."""
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    slack = 1e-12 * np.maximum(np.abs(values), 1.0)
    below, above = (drawn <= values + slack).sum(axis=0), (drawn >= values - slack).sum(axis=0)
    rarer = (1.0 + np.minimum(below, above)) / (1.0 + len(drawn))
    return low, high, np.minimum(2.0 * rarer, 1.0)


def _exceedances(draws: Floats, value: Any) -> Any:
    # A draw that is no number counts as one that reaches the value: it must not make a p-value small.
    return np.count_nonzero(~(draws < value - 1e-12 * np.abs(value)), axis=0)


def upper_quantile(draws: Floats) -> float:
    """The 95% point, the ceiling of .95·(B + 1)-th smallest draw: conservative by at most one draw."""
    rank = min(draws.size, math.ceil(0.95 * (draws.size + 1)))
    return float(np.partition(draws, rank - 1)[rank - 1])


def max_statistic_p(
    observed: float,
    simulate_block: Callable[[int, int], Floats],
    draws: int = DRAWS,
    *,
    block: int = 50,
    at_least: int = MIN_FLOOR_DRAWS,
    method: Method = Method.SIMULATION,
) -> NullSummary:
    """Give ``p = (1 + #{T* >= T})/(1 + B)`` of a statistic that was simulated through its whole search.

    Parameters
    ----------
    observed
        The statistic of the data.
    simulate_block
        ``simulate_block(first, count)`` gives draws first .. first + count - 1 of the statistic under the null.
    draws, at_least
        At most `draws`; no more once 20 of them reached the statistic and `at_least` were made: the p-value is then
        large whatever follows.
    block
        Draws asked for at a time; the answer does not depend on it except in where it stops.

    Examples
    --------
    >>> summary = max_statistic_p(9.0, lambda first, count: np.arange(first, first + count) % 8.0)
    >>> summary.p_value
    0.001
    """
    blocks: list[Floats] = []
    total, hits = 0, 0
    while total < draws and not (hits >= ENOUGH_EXCEEDANCES and total >= min(at_least, draws)):
        count = min(block, draws - total)
        blocks.append(simulate_block(total, count))
        total += count
        hits += _exceedances(blocks[-1], observed)
    return summary_of_draws(observed, np.concatenate(blocks), method=method)


def affordable_draws(draws: int, rows: int) -> int:
    """Fewer draws where there are too many rows for them, and a p-value that cannot be as small."""
    return min(draws, max(MIN_FLOOR_DRAWS, int(ROW_DRAWS // rows)))


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
    metric: Statistic,
    settings: CellTestSettings,
    draws: int = DRAWS,
    drawn: Floats | None = None,
) -> NullSummary:
    """Recompute a metric on draws of the cells' observed sums and compare.

    Parameters
    ----------
    sums
        Sums per cell; empty cells have weight 0 and the metric must pass over them.
    metric
        Of residuals of sums, not of means.
    draws
        How many; they are made in blocks of at most 128 MiB.
    settings
        See `cell_draws`; clusters need rows.
    drawn
        The metric of each of these draws, where it is known.

    Returns
    -------
    NullSummary
        Its interval holds for a seminorm of y - p, with the larger of the deviations under the null and around the
        observed rates (`sums_as_observed`); it is not valid for another metric.

    Examples
    --------
    >>> from miscal.stats.cell_sums import CellTestSettings, CellSums
    >>> ones = np.ones(2)
    >>> sums = CellSums(100 * ones, 100 * ones, 100 * ones, 20 * ones, 45 * ones, 16 * ones, 40 * ones)
    >>> summary = aggregate_null(sums, PooledError(1.0, sums.weight), CellTestSettings())
    >>> summary.value, summary.p_value, round(summary.noise_floor, 2)
    (0.25, 0.001, 0.03)
    """
    stream = cell_draws(sums, settings, draws)
    values = null_statistics(stream, sums, [metric], draws)[:, 0] if drawn is None else drawn
    if stream.spread_factor > 1.0:
        values = np.maximum(values.mean() + stream.spread_factor * (values - values.mean()), 0.0)
    actual = float(metric(-sums.off[None])[0])
    summary = summary_of_draws(actual, values, method=stream.method)
    summary = replace(summary, sparse_cells=stream.sparse_cells)
    if settings.null == Null.RESIDUAL or math.isnan(actual) or draws < MIN_FLOOR_DRAWS:
        return summary  # residuals have their observed size
    # Draws from p vary too little where far more is observed than predicted, draws from observed rates where no
    # event was observed in many cells by chance: the interval takes the larger of both.
    as_observed = sums_as_observed(sums)
    stream = cell_draws(as_observed, replace(settings, rows=None), MIN_FLOOR_DRAWS)
    observed_noise = null_statistics(stream, as_observed, [metric], MIN_FLOOR_DRAWS)
    return summary.no_narrower(upper_quantile(observed_noise[:, 0]))


def null_statistics(stream: CellDraws, sums: CellSums, tests: Collection[Statistic], draws: int) -> Floats:
    """Some statistics of Σw(y* - p) of draws of the cells, (draws, tests).

    Draws are looked at so few at a time that what is made of them stays in the processor's cache.
    """
    cells = max(sums.rows.size, 1)
    block, n_cached = max(1, BLOCK_VALUES // cells), max(1, CACHED_VALUES // cells)
    values = []
    for start in range(0, draws, block):
        drawn = stream.block(start, min(block, draws - start))
        for first in range(0, len(drawn), n_cached):
            residual = drawn[first : first + n_cached] - sums.predicted
            values.append(np.stack([test(residual) for test in tests], axis=1))
    return np.concatenate(values)


def sums_as_observed(sums: CellSums) -> CellSums:
    """The cells as if the observed rates had been predicted, pulled towards the predictions by half an event.

    Their variance is the smaller of two that are too large on average, ``r(1 - r)Σw²`` and ``Σw²(y - p)²``, but not
    below what the spread of the predictions leaves of the first.

    Examples
    --------
    >>> ones = np.ones(1)
    >>> sums = CellSums(100 * ones, 100 * ones, 100 * ones, 2 * ones, 30 * ones, 1.96 * ones, 28.84 * ones)
    >>> cells = sums_as_observed(sums)
    >>> cells.predicted.round(2).tolist(), cells.variance.round(2).tolist()
    ([29.86], [20.94])
    """
    with ignore_warnings():
        scale = sums.weight2 / sums.weight
        size = sums.weight / scale
        rate = np.clip(sums.mean, 0.0, 1.0)
        share = np.clip((sums.observed / scale + 0.5 * rate) / (size + 0.5), 0.0, 1.0)
        largest = share * (1.0 - share) * sums.weight2
        variance_share = sums.variance / (rate * (1.0 - rate) * sums.weight2)
    variance_share = np.where(variance_share > 1e-6, np.minimum(variance_share, 1.0), 1.0)
    variance = np.maximum(np.minimum(largest, sums.residual2), variance_share * largest)
    predicted = np.nan_to_num(share) * sums.weight
    return replace(sums, predicted=predicted, variance=np.nan_to_num(variance))


@dataclass(frozen=True)
class PooledError:
    """The metric ``(Σ share·|gap|^norm)^(1/norm)``, or the largest gap when norm is infinite."""

    norm: float
    weight: Floats

    def __call__(self, residual: Floats) -> Floats:
        """Of draws (draws, cells); empty cells count for nothing."""
        weight = self.weight
        filled = np.flatnonzero(weight > 0.0)
        gap = np.abs(residual[:, filled])
        gap /= weight[filled]
        if math.isinf(self.norm):
            return np.asarray(gap.max(axis=1, initial=0.0))
        # Summed row by row, not by a matrix product, whose rounding depends on how many draws are in the block.
        total = (gap**self.norm * (weight[filled] / weight.sum())).sum(axis=1)
        return np.asarray(total ** (1.0 / self.norm))

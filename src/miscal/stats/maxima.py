"""Null distribution of the largest error of many subpopulations: the whole search is simulated."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from miscal.aggregate.subpopulations import Ordered, Search
from miscal.codes.inference import Method, Null
from miscal.data.arrays import Array
from miscal.data.target import TargetData
from miscal.kernels.subpopulation import HIGH, LOW, PREDICTED, TOTAL, VARIANCE, WEIGHT, WEIGHT2
from miscal.stats.cell_sums import EFFECTIVE_EVENTS, CellTestSettings, ignore_warnings
from miscal.stats.isotonic import smoothed_isotonic_rates
from miscal.stats.kuiper import brownian_range_isf, brownian_range_p
from miscal.stats.metric_null import (
    NullSummary,
    affordable_draws,
    max_statistic_p,
    seminorm_interval,
    upper_quantile,
)
from miscal.stats.null_draws import DRAWS_PER_TASK, ROW_DRAWS, ResidualDraws, residual_draws, widest_ranges
from miscal.stats.null_model import OutcomeSamplingVariance, ResidualVariance

MAX_POSITIONS = 150_000_000  # positions of all subpopulations together that are held in memory
INTERVAL_DRAWS = 199  # of the noise that the data have, for the interval
LARGEST_ERROR = 1e300  # stands for an infinite error, so that it can be compared
NEGLIGIBLE_SPAN = 1e-12  # a span below this share of the weight counts as 0


def spans(stats: Array) -> Array:
    """Highest minus lowest partial sum."""
    return np.asarray(stats[:, HIGH] - stats[:, LOW])


def kuiper_errors(stats: Array) -> Array:
    """D_k; 0 for an empty subpopulation."""
    return _per_weight(spans(stats), stats)


def deviations(stats: Array) -> Array:
    """σ_k, eq. 5."""
    return _per_weight(np.sqrt(stats[:, VARIANCE]), stats)


def _per_weight(values: Array, stats: Array) -> Array:
    return values / np.where(stats[:, WEIGHT] > 0, stats[:, WEIGHT], 1.0)


def noise_scales(stats: Array) -> Array:
    """Factors of the spans of cumulative differences: M_k = span_k · scale_k; 0 where σ_k is 0."""
    variance, total_weight = stats[:, VARIANCE], stats[0, WEIGHT]
    with ignore_warnings():
        scale = np.where(variance > 0, np.sqrt(variance[0] / variance) / total_weight, 0.0)
    scale[0] = 1.0 / total_weight
    return scale


def scaled_errors(stats: Array, *, normalise: bool = True) -> Array:
    """M_k of each subpopulation, the full population first; D_k where not normalised.

    0/0 is 0, x/0 infinite. The first is exactly D_0. Where the full population is certain (σ_0 = 0) the others' scale
    is 0/0, so they count as 0 and the full population's own error stands.
    """
    errors = kuiper_errors(stats)
    if not normalise:
        return errors
    span, variance = spans(stats), stats[:, VARIANCE]
    values = span * noise_scales(stats)
    if variance[0] > 0:
        values[(variance <= 0) & (span > NEGLIGIBLE_SPAN * stats[:, WEIGHT])] = np.inf
    values[0] = errors[0]
    return np.asarray(values)


def raise_quiet_variances(
    rows: Ordered, search: Search, residual_variance: ResidualVariance | OutcomeSamplingVariance
) -> tuple[Array, Array]:
    """Statistics of outcomes that are no events, whose variance is that of their residuals or what is usual.

    Also the factor, at least 1, by which flipped residuals of each are multiplied to have the usual deviation.
    """
    weight, second = (values if values.size else np.ones(rows.rows) for values in (rows.weight, rows.second))
    either = np.stack([rows.squared_residuals(), residual_variance.of_sum(rows.score, weight, second)])
    members = map(search.members, range(len(search.stats)))
    residual_variances, usual_variances = np.transpose([either[:, chosen].sum(axis=1) for chosen in members])
    stats = search.stats.copy()
    stats[:, VARIANCE] = np.maximum(residual_variances, usual_variances)
    return stats, np.sqrt(stats[:, VARIANCE] / np.maximum(residual_variances, 1e-300))


@dataclass(frozen=True, eq=False)
class MaximumNull:
    """The largest error against its distribution under calibration, and the adjusted p-value of each subpopulation.

    Attributes
    ----------
    summary : NullSummary
        Of the largest error.
    adjusted : ndarray
        A p-value per subpopulation, NaN where it was not tested.
    n_tests : int
        Subpopulations that Bonferroni's inequality counts; 0 where the maximum was simulated.
    """

    summary: NullSummary
    adjusted: Array
    n_tests: int = 0

    @classmethod
    def unknown(cls, values: Array, method: Method) -> "MaximumNull":
        """Errors whose null distribution is not known; `method` says why."""
        summary = NullSummary.unknown(float(values.max()), method)
        return cls(summary, np.full(values.size, math.nan))


def subpopulation_null(
    rows: Ordered,
    search: Search,
    values: Array,
    target: TargetData,
    settings: CellTestSettings,
    *,
    draws: int,
) -> MaximumNull:
    """Compare the largest error with noise: simulated where rows times draws allow, by Bonferroni's inequality else."""
    values = np.minimum(values, LARGEST_ERROR)
    flips, seed = settings.null == Null.RESIDUAL, settings.seed
    if not flips and (rows.rows * draws > ROW_DRAWS or search.stats[:, 0].sum() > MAX_POSITIONS):
        return bonferroni_null(search.stats, values)
    draws = affordable_draws(draws, rows.rows)  # flipped signs have no other way
    scale = noise_scales(search.stats) * settings.residual_scale
    ranges = partial(widest_ranges, rows.signed, search.lists(), scale)
    steps, method = residual_draws(target.take(rows.order), settings, draws)
    worst = float(values.max())
    summary = max_statistic_p(worst, partial(ranges, steps), draws, block=4 * DRAWS_PER_TASK, method=method)
    if not flips:
        observed_rates = replace(target, predicted=smoothed_isotonic_rates(target)).take(rows.order)
        drawn = ranges(ResidualDraws.of(observed_rates, flips, seed).block, 0, INTERVAL_DRAWS)
        quantile = upper_quantile(drawn) * _interval_factor(search.stats, values)
        summary = summary.no_narrower(quantile)
    return MaximumNull(summary, maximum_p_values(summary.drawn, values))


def _observed_variance(stats: Array) -> Array:
    """Variance of an outcome at the observed rate of each subpopulation."""
    events = stats[:, PREDICTED] + stats[:, TOTAL]
    rates = np.clip(_per_weight(events, stats), 0.0, 1.0)
    return np.asarray(rates * (1.0 - rates))


def _interval_factor(stats: Array, values: Array) -> float:
    """How much wider the noise of the worst subpopulation is than that of the rows' scores, by its observed rate."""
    variance = _observed_variance(stats)
    return math.sqrt(max(1.0, variance[np.argmax(values)] / max(variance[0], 1e-300)))


def maximum_p_values(maxima: Array, values: Array) -> Array:
    """P-value of each value among all tested ones: (1 + draws of the maximum that reach it) / (1 + draws)."""
    exceedances = maxima.size - np.searchsorted(np.sort(maxima), values - 1e-12 * np.abs(values))
    return np.asarray((1.0 + exceedances) / (1.0 + maxima.size))


def bonferroni_null(stats: Array, values: Array) -> MaximumNull:
    """Bonferroni over the range of Brownian motion, subpopulations with at least 25 expected events on both sides.

    The floor is the mean of the largest of as many independent ranges: above that of dependent ones.
    """
    weight, weight2, predicted = stats[:, WEIGHT], stats[:, WEIGHT2], stats[:, PREDICTED]
    unit = float(deviations(stats)[0])
    # Of rows of equal weight, as noisy.
    events = np.minimum(predicted, weight - predicted) * weight / np.maximum(weight2, 1e-300)
    tested = (events >= EFFECTIVE_EVENTS) & (values < LARGEST_ERROR)
    tested[0] = True
    tests = int(tested.sum())
    far = values / unit if unit > 0 else np.full(values.size, np.nan)
    adjusted = np.where(tested, np.minimum(1.0, tests * brownian_range_p(far)), np.nan)
    grid = np.linspace(0.0, 12.0, 4801)
    below = brownian_range_p(grid, upper=False)
    floor = float(np.trapezoid(1.0 - below**tests, grid)) * unit
    critical = brownian_range_isf(0.05 / tests) * unit
    worst = float(values[tested].max())
    largest = weight2[0] * _observed_variance(stats)[0]
    wider = math.sqrt(max(1.0, largest / max(stats[0, VARIANCE], 1e-300))) * _interval_factor(stats, values)
    interval = seminorm_interval(worst, critical * wider)
    p_value = float(np.nanmin(adjusted))
    summary = NullSummary(worst, floor, p_value, critical, interval, Method.BONFERRONI)
    return MaximumNull(summary, adjusted, tests)

"""Errors of subpopulations on one scale, and whether the worst is worse than that of calibrated predictions.

The whole maximum is simulated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from miscal.engines.subpopulations import Lists, Ordered, Search
from miscal.inference.aggregates import FLOOR_DRAWS, NullSummary, max_statistic_p, seminorm_interval, upper_quantile
from miscal.inference.beyond import rates_as_happened
from miscal.inference.clusters import ClusterDraws, ClusterSteps, drawn_by_cluster
from miscal.inference.nulls import Steps, seed_of
from miscal.inference.sums import CellRows, Spread
from miscal.inference.walks import brownian_range_cdf, brownian_range_isf, brownian_range_p
from miscal.kernels.threads import over_blocks, thread_count
from miscal.pairs import Pair

LIMIT = 2e8  # rows times draws above which nothing is simulated
LONGEST = 150_000_000  # positions of all subpopulations together that are held in memory
OWN_DRAWS = 199  # of the noise that the data have, for the interval
LANES = 16  # draws that walk together
MANY_LANES = 250  # draws that share what is prepared for a subpopulation, where only events are visited
RARE = 4  # rows of a subpopulation that are walked over in the time that one event is looked up
LARGEST = 1e300  # stands for an infinite error, so that it can be compared
EVENTS = 25.0  # expected events on both sides that the Brownian range needs
TOGETHER = 64  # subpopulations whose rows are listed at a time
NEARLY = 1e-12  # a walk shorter than this share of its weight has not moved


def spans(stats: np.ndarray, statistic: str = "range") -> np.ndarray:
    """Highest minus lowest partial sum, or the absolute end of the walk."""
    from miscal.kernels.subpopulation import HIGH, LOW, TOTAL

    return np.asarray(stats[:, HIGH] - stats[:, LOW] if statistic == "range" else np.abs(stats[:, TOTAL]))


def kuiper_errors(stats: np.ndarray, statistic: str = "range") -> np.ndarray:
    """D_k; 0 for an empty subpopulation."""
    from miscal.kernels.subpopulation import WEIGHT

    weight = stats[:, WEIGHT]
    return np.asarray(spans(stats, statistic) / np.where(weight > 0, weight, 1.0))


def deviations(stats: np.ndarray) -> np.ndarray:
    """σ_k, eq. 5."""
    from miscal.kernels.subpopulation import VARIANCE, WEIGHT

    weight = stats[:, WEIGHT]
    return np.asarray(np.sqrt(stats[:, VARIANCE]) / np.where(weight > 0, weight, 1.0))


def noise_scales(stats: np.ndarray) -> np.ndarray:
    """What a walk's span is multiplied by: M_k = span_k · scale_k; 0 where σ_k is 0."""
    from miscal.kernels.subpopulation import VARIANCE, WEIGHT

    variance = stats[:, VARIANCE]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt(variance[0] / variance) / stats[0, WEIGHT]
    scale = np.where(variance > 0, scale, 0.0)
    scale[0] = 1.0 / stats[0, WEIGHT]
    return np.asarray(scale)


def scaled_errors(stats: np.ndarray, statistic: str = "range", *, normalise: bool = True) -> np.ndarray:
    """M_k of each subpopulation, the full population first; D_k where not normalised.

    0/0 is 0, x/0 infinite. The first is exactly D_0. Where the full population is certain (σ_0 = 0) the others' scale
    is 0/0, so they count as 0 and the full population's own error stands.
    """
    from miscal.kernels.subpopulation import VARIANCE, WEIGHT

    errors = kuiper_errors(stats, statistic)
    if not normalise:
        return np.asarray(errors)
    span = spans(stats, statistic)
    values = span * noise_scales(stats)
    variance = stats[:, VARIANCE]
    if variance[0] > 0:
        values[(variance <= 0) & (span > NEARLY * stats[:, WEIGHT])] = np.inf
    values[0] = errors[0]
    return np.asarray(values)


def no_quieter(rows: Ordered, found: Search, spread: Spread) -> tuple[np.ndarray, np.ndarray]:
    """Statistics of outcomes that are no events, whose variance is that of their residuals or what is usual.

    Also by how much each is quieter than is usual, as standard deviations, at least 1: draws of flipped signs are.
    """
    from miscal.kernels.subpopulation import VARIANCE

    made, squares = found.stats.copy(), rows.residual() ** 2
    weight, second = (each if each.size else np.ones(rows.rows) for each in (rows.weight, rows.second))
    expected = spread.at(rows.signed, weight, second)
    own, usual = np.empty((2, len(made)))
    for first in range(0, len(made), TOGETHER):
        some = np.arange(first, min(first + TOGETHER, len(made)))
        lists = found.lists(some)
        for values, total in ((squares, own), (expected, usual)):
            total[some] = [values[lists.list(place)].sum() for place in range(some.size)]
    made[:, VARIANCE] = np.maximum(own, usual)
    return made, np.sqrt(made[:, VARIANCE] / np.maximum(own, 1e-300))


@dataclass(frozen=True, eq=False)
class MaximumNoise:
    """The largest error against its distribution under calibration, and the adjusted p-value of each subpopulation."""

    summary: NullSummary
    adjusted: np.ndarray
    method: str


def maximum_noise(
    rows: Ordered,
    found: Search,
    values: np.ndarray,
    pair: Pair,
    *,
    null: str,
    draws: int,
    statistic: str,
    random_state: Any,
    stretch: np.ndarray | None = None,
    model_variance: bool = False,
) -> MaximumNoise:
    """Compare the largest error with noise: simulated where rows times draws allow, by Bonferroni's inequality else.

    model_variance : outcomes are 0/1 and the weights do not depend on them, so that those of clusters can be drawn
    """
    sizes = found.stats[:, 0].sum()
    values = np.minimum(values, LARGEST)
    flips = null == "residual"
    if flips and rows.rows * draws > LIMIT:  # there is no other way: fewer draws, and a p-value that cannot be as small
        draws = max(FLOOR_DRAWS, int(LIMIT // rows.rows))
    if flips or (rows.rows * draws <= LIMIT and sizes <= LONGEST):
        by_cluster = _by_cluster(pair, rows.order, draws, random_state) if flips and model_variance else None
        source = by_cluster or Steps.of(pair, rows.order, flips, seed_of(random_state))
        stretch = np.ones(len(found.stats)) if stretch is None else stretch
        return _simulated(rows, found, values, pair, source, draws, statistic, random_state, stretch)
    return bonferroni_noise(found.stats, values, statistic)


def _by_cluster(pair: Pair, order: np.ndarray, draws: int, state: Any) -> ClusterSteps | None:
    """Draws of outcomes by cluster, where there are clusters, few enough to matter."""
    ends = np.array([0, order.size])
    given = [None if values is None else values[order] for values in (pair.weight, pair.cluster, pair.count)]
    own = CellRows(ends, pair.predicted[order], pair.observed[order], *given)
    if not drawn_by_cluster(own, draws):
        return None
    return ClusterSteps(ClusterDraws.of(own, np.zeros(1), int(seed_of(state))))


def _simulated(
    rows: Ordered,
    found: Search,
    values: np.ndarray,
    pair: Pair,
    source: Steps | ClusterSteps,
    draws: int,
    statistic: str,
    state: Any,
    stretch: np.ndarray,
) -> MaximumNoise:
    scale = noise_scales(found.stats) * stretch
    lists = found.lists(np.arange(scale.size))
    flips = isinstance(source, ClusterSteps) or source.flips
    made: list[np.ndarray] = []
    if isinstance(source, Steps) and not flips and pair.count is None and _rare(rows, found):
        run: Any
        run, block = partial(_event_maxima, rows, lists, scale, statistic, source.seed), MANY_LANES
    else:
        run, block = partial(_walked_maxima, rows, lists, scale, statistic, source), 4 * LANES

    def simulate(first: int, count: int) -> np.ndarray:
        made.append(run(first, count))
        return made[-1]

    summary = max_statistic_p(float(values.max()), simulate, draws, block=block)
    if not flips:
        own = Steps.of(replace(pair, predicted=rates_as_happened(pair)), rows.order, flips, seed_of(state))
        drawn = _walked_maxima(rows, lists, scale, statistic, own, 0, OWN_DRAWS)
        reach = upper_quantile(drawn) * _wider(found.stats, values)
        summary = replace(summary, interval=seminorm_interval(summary.value, reach))
    words = "signs of residuals flipped" if flips else "outcomes drawn from the predictions"
    if isinstance(source, ClusterSteps):
        words = source.draws.words
    elif flips and pair.cluster is not None:
        words += ", one sign a cluster"
    method = f"The whole search was repeated on {summary.draws} simulations ({words})"
    method += f": p = (1 + {summary.exceedances}) / (1 + {summary.draws})."
    return MaximumNoise(summary, reached_p(np.concatenate(made), values), method)


def _wider(stats: np.ndarray, values: np.ndarray) -> float:
    """How much wider the noise of the worst subpopulation is than that of the rows' scores, by its observed rate."""
    from miscal.kernels.subpopulation import PREDICTED, TOTAL, WEIGHT

    rates = np.clip((stats[:, PREDICTED] + stats[:, TOTAL]) / np.maximum(stats[:, WEIGHT], 1e-300), 0.0, 1.0)
    worst, every = rates[int(np.argmax(values))], rates[0]
    return math.sqrt(max(1.0, worst * (1.0 - worst) / max(every * (1.0 - every), 1e-300)))


def reached_p(maxima: np.ndarray, values: np.ndarray) -> np.ndarray:
    """P-value of each value among all tested ones: (1 + draws of the maximum that reach it) / (1 + draws)."""
    reached = maxima.size - np.searchsorted(np.sort(maxima), values - 1e-12 * np.abs(values), side="left")
    return np.asarray((1.0 + reached) / (1.0 + maxima.size))


def _walked_maxima(
    rows: Ordered, lists: Lists, scale: np.ndarray, statistic: str, source: Steps | ClusterSteps, first: int, count: int
) -> np.ndarray:
    from miscal.kernels.subpopulation_draws import simulated_maxima

    def work(start: int, stop: int) -> np.ndarray:
        maxima = np.empty(stop - start)
        steps = source.block(first + start, stop - start)
        simulated_maxima(rows.signed, lists.members, lists.offsets, scale, statistic == "mean", steps, maxima)
        return maxima

    return np.concatenate(over_blocks(count, work, LANES))


def _event_maxima(
    rows: Ordered, lists: Lists, scale: np.ndarray, statistic: str, seed: np.uint64, first: int, count: int
) -> np.ndarray:
    """As `_walked_maxima`; what is prepared for a subpopulation serves all draws, so threads share subpopulations."""
    from miscal.kernels.subpopulation_draws import bernoulli_events, event_maxima

    events = bernoulli_events(rows.signed, first, seed, count)

    def work(start: int, stop: int) -> np.ndarray:
        maxima = np.empty(count)
        some = (lists.members, lists.offsets[start : stop + 1], scale[start:stop])
        event_maxima(rows.signed, rows.weight, *some, statistic == "mean", *events, maxima)
        return maxima

    parts = over_blocks(scale.size, work, -(-scale.size // thread_count()))
    return np.asarray(np.max(parts, axis=0))


def _rare(rows: Ordered, found: Search) -> bool:
    """Whether looking up the events of all rows costs less than walking over the rows of a subpopulation."""
    return RARE * float(np.abs(rows.signed).sum()) < float(found.stats[:, 0].mean())


def effective_events(stats: np.ndarray) -> np.ndarray:
    """Expected events of the rarer side, in rows of equal weight that would be as noisy."""
    from miscal.kernels.subpopulation import PREDICTED, WEIGHT, WEIGHT2

    rarer = np.minimum(stats[:, PREDICTED], stats[:, WEIGHT] - stats[:, PREDICTED])
    return np.asarray(rarer * stats[:, WEIGHT] / np.maximum(stats[:, WEIGHT2], 1e-300))


def bonferroni_noise(stats: np.ndarray, values: np.ndarray, statistic: str) -> MaximumNoise:
    """Bonferroni over the range of Brownian motion, subpopulations with at least 25 expected events on both sides."""
    from scipy.special import erfc

    from miscal.kernels.subpopulation import PREDICTED, TOTAL, VARIANCE, WEIGHT, WEIGHT2

    unit = deviations(stats)[0]
    judged = (effective_events(stats) >= EVENTS) & (values < LARGEST)
    judged[0] = True
    tests = int(judged.sum())
    spans = values / unit if unit > 0 else np.full(values.size, np.nan)
    p_values = brownian_range_p(spans) if statistic == "range" else erfc(spans / math.sqrt(2.0))
    adjusted = np.where(judged, np.minimum(1.0, tests * p_values), np.nan)
    critical = _critical(tests, statistic)
    average = _mean_of_largest(tests, statistic)
    worst = float(values[judged].max())
    p_value = float(np.nanmin(adjusted))
    rate = np.clip((stats[0, PREDICTED] + stats[0, TOTAL]) / stats[0, WEIGHT], 0.0, 1.0)
    largest = stats[0, WEIGHT2] * rate * (1.0 - rate)
    wider = math.sqrt(max(1.0, float(largest / max(stats[0, VARIANCE], 1e-300)))) * _wider(stats, values)
    interval = seminorm_interval(worst, critical * unit * wider)
    summary = NullSummary(worst, average * unit, p_value, critical * unit, interval, "Bonferroni")
    method = (
        f"Too many rows to simulate: Bonferroni over the Brownian-range p-values of {tests:,} subpopulations with at "
        f"least {EVENTS:.0f} expected events; the floor is that of as many independent ones."
    )
    return MaximumNoise(summary, adjusted, method)


def _critical(tests: int, statistic: str) -> float:
    if statistic == "range":
        return brownian_range_isf(0.05 / tests)
    from scipy.special import ndtri

    return float(-ndtri(0.025 / tests))


def _mean_of_largest(tests: int, statistic: str) -> float:
    """Mean of the largest of independent ranges (or absolute normals): above that of dependent ones."""
    from scipy.special import erf

    grid = np.linspace(0.0, 12.0, 4801)
    below = brownian_range_cdf(grid) if statistic == "range" else erf(grid / math.sqrt(2.0))
    return float(np.trapezoid(1.0 - np.asarray(below) ** tests, grid))

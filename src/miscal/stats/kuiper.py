"""The Kuiper statistic of cumulative differences: its range under calibration, and its p-value.

The range (highest minus lowest value) of a standard Brownian motion on [0, 1] is the limit of the Kuiper statistic over
its standard deviation when the model is calibrated.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miscal.aggregate.in_memory import MIN_DISTINCT_KEYS, CumulativeRange
from miscal.codes.inference import Method, Null
from miscal.data.libraries import special
from miscal.stats.cell_sums import (
    EFFECTIVE_EVENTS,
    CellRows,
    CellSums,
    CellTestSettings,
    Floats,
    ignore_warnings,
)
from miscal.stats.metric_null import (
    DRAWS,
    NullSummary,
    affordable_draws,
    aggregate_null,
    max_statistic_p,
    seminorm_interval,
)
from miscal.stats.null_draws import ROW_DRAWS, residual_draws, widest_ranges
from miscal.stats.root_finding import find_root

# The range (highest minus lowest value) of a standard Brownian motion on [0, 1] is the limit of the Kuiper statistic
# over its standard deviation when the model is calibrated. Two series meet at 2: one converges at once above it, the
# other below, so both tails keep their relative precision.
RANGE_MEAN = 2.0 * math.sqrt(2.0 / math.pi)  # of the range: 1.5957691216
# What the range exceeds once in 20: `brownian_range_isf(0.05)`, without the solver that would find it.
RANGE_QUANTILE = 2.4976721610486496
SERIES_TERMS = 10


def cumulative_ranges(residual: Floats) -> Floats:
    """Highest minus lowest partial sum of residuals over cells in order: Kuiper, cells being tied keys."""
    cumulative = np.cumsum(residual, axis=1)
    return np.asarray(cumulative.max(axis=1, initial=0.0) - cumulative.min(axis=1, initial=0.0))


def brownian_range_p(x: ArrayLike, *, upper: bool = True) -> Any:
    """Give the probability that the range of a standard Brownian motion on [0, 1] is at least `x`, or at most.

    Above 2 it is ``8 Σ_k (-1)^(k-1) k (1 - Φ(k x))`` (Feller 1951, integrated); below, one minus
    ``8 Σ_{odd j} (1/x² + 1/(jπ)²) exp(-(jπ)²/(2x²))``. NaN gives NaN; 0 and below give 1. Both tails, that at most `x`
    where not `upper`, keep their relative precision.

    Examples
    --------
    >>> round(brownian_range_p(2.4977), 3)
    0.05
    >>> brownian_range_p([0.0, float("inf")]).tolist()
    [1.0, 0.0]
    """
    values = np.asarray(x, np.float64)
    below = values < 2.0
    k = np.arange(SERIES_TERMS, 0.0, -1.0)
    far = np.where(below, 4.0, values)[..., None]
    high = 8.0 * np.sum((-1.0) ** (k - 1.0) * k * special.ndtr(-k * far), axis=-1)
    j2 = (np.pi * np.arange(2 * SERIES_TERMS - 1, 0.0, -2.0)) ** 2
    near2 = np.where(below & (values > 0.0), values, 1.0)[..., None] ** 2
    with ignore_warnings():
        terms = (1.0 / near2 + 1.0 / j2) * np.exp(-0.5 * j2 / near2)
    low = np.where(values > 0.0, 8.0 * terms.sum(axis=-1), 0.0)
    answer = np.where(below, 1.0 - low, high) if upper else np.where(below, low, 1.0 - high)
    return answer if answer.ndim else float(answer)


def brownian_range_isf(p_value: float) -> float:
    """Give the value that the range exceeds with probability `p_value` (the critical value of a test)."""

    def falling(value: float) -> float:
        return math.log(max(brownian_range_p(value), 1e-320) / p_value)

    return find_root(falling, 0.04, 39.0, 1e-14)


def kuiper_p_value(
    walk: CumulativeRange,
    settings: CellTestSettings,
    *,
    events: float,
    residual2: float = 0.0,
    ties: CellSums | None = None,
    draws: int = DRAWS,
) -> NullSummary:
    """Test the range of cumulative differences over Σw, cut between distinct keys: the Kuiper statistic.

    Parameters
    ----------
    events
        Expected events of the rarer side; with weights the effective number (`effective_events`).
    residual2
        Σw²(y-p)²: the variance under the residual null; else, where it is larger, the variance of the interval.
    settings
        Its rows are by distinct key, in order, for a simulation; always simulated when they have clusters and
        null="residual". With `model_variance` outcomes can be drawn by cluster.
    ties
        Sums per distinct key, in order, in place of rows where there are few keys: each is drawn as a matched binomial.
    draws
        Of the simulation.

    Notes
    -----
    From 200 distinct keys and 25 expected events on both sides: the Brownian range, ``P(R >= value/sd)`` with
    ``sd = sqrt(variance)/Σw``, floor 1.596 sd, 95% point 2.498 sd. Else simulation. Without rows and ties, or where
    rows·draws > 2e8, the Brownian range still, which ties make conservative, or NaN where events are too few for it.

    Examples
    --------
    >>> walk = CumulativeRange(0.03, weight=1000.0, variance=100.0, events=120.0, n_distinct=1000)
    >>> summary = kuiper_p_value(walk, CellTestSettings(), events=120.0)
    >>> round(summary.p_value, 3), summary.method, round(summary.noise_floor, 4)
    (0.011, <Method.BROWNIAN_RANGE: 'Brownian range'>, 0.016)
    """
    flips, rows, value = settings.null == Null.RESIDUAL, settings.rows, walk.range
    variance = max(residual2 if flips else walk.variance, 0.0)
    interval_factor = math.sqrt(max(1.0, residual2 / variance)) if variance else 1.0
    clustered = flips and settings.clustered
    many_keys = not clustered and walk.n_distinct >= MIN_DISTINCT_KEYS
    enough = events >= EFFECTIVE_EVENTS
    if not (enough and many_keys):
        if ties is not None and not flips:
            total, settings = ties.weight.sum(), replace(settings, rows=None)
            return aggregate_null(ties, lambda residual: cumulative_ranges(residual) / total, settings, draws)
        if rows is not None and (clustered or rows.rows * draws <= ROW_DRAWS):
            summary = simulated_kuiper(
                value, rows, settings, affordable_draws(draws, rows.rows)
            )  # clusters have no other way
            return summary.no_narrower(interval_factor * summary.quantile)
    if not enough:
        return NullSummary.unknown(value, Method.TOO_SMALL)
    deviation = math.sqrt(variance) / walk.weight
    if deviation == 0.0:  # certain predictions: no noise at all
        p_value = 1.0 if value <= 1e-12 else 0.0
        return NullSummary(value, 0.0, p_value, 0.0, (value, value), Method.CERTAIN)
    method = Method.BROWNIAN_RANGE if many_keys else Method.BROWNIAN_RANGE_TIES
    p_value, quantile = brownian_range_p(value / deviation), RANGE_QUANTILE * deviation
    interval = seminorm_interval(value, interval_factor * quantile)
    return NullSummary(value, RANGE_MEAN * deviation, p_value, quantile, interval, method)


def simulated_kuiper(value: float, rows: CellRows, settings: CellTestSettings, draws: int) -> NullSummary:
    """Compare the Kuiper statistic with draws of it: Bernoulli outcomes, or signs flipped by row or cluster.

    With `model_variance` outcomes are drawn by cluster in place of flipping signs, where that can be afforded.
    """
    steps, method = residual_draws(rows, settings, draws)
    all_rows = np.arange(rows.rows, dtype=np.int32), np.array([0, rows.rows])
    walk = rows.codes().astype(float), all_rows, 1.0 / rows.sampling_weight.sum(keepdims=True)
    block = 64 if method is Method.CLUSTER_DRAWS else 50  # whole chunks of draws by cluster
    return max_statistic_p(value, partial(widest_ranges, *walk, steps), draws, block=block, method=method)

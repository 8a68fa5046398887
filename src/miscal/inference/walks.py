"""Is a walk's range beyond noise? The Kuiper statistic against Brownian motion or against draws of itself.

The range (highest minus lowest value) of a standard Brownian motion on [0, 1] is the limit of the Kuiper statistic over
its standard deviation when the model is calibrated. Two series meet at 2: one converges at once above it, the other
below, so both tails keep their relative precision.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miscal.inference.aggregates import (
    DRAWS,
    FLOOR_DRAWS,
    STOP,
    NullSummary,
    aggregate_null,
    max_statistic_p,
    root,
    seminorm_interval,
    walk_range,
)
from miscal.inference.clusters import CHUNK, ClusterDraws, drawn_by_cluster
from miscal.inference.sums import EFFECTIVE_EVENTS, CellRows, Floats, Null, Sums, seed_of

RANGE_MEAN = 2.0 * math.sqrt(2.0 / math.pi)
"""Mean of the range: 1.5957691216."""

RANGE_QUANTILE = 2.4976721610486496
"""What the range exceeds once in 20: `brownian_range_isf(0.05)`, without the solver that would find it."""

_SWITCH = 2.0
_TERMS = 10


def brownian_range_p(x: ArrayLike) -> Any:
    """Give the probability that the range of a standard Brownian motion on [0, 1] is at least `x`.

    Above 2 it is ``8 Σ_k (-1)^(k-1) k (1 - Φ(k x))`` (Feller 1951, integrated); below, one minus
    ``8 Σ_{odd j} (1/x² + 1/(jπ)²) exp(-(jπ)²/(2x²))``. NaN gives NaN; 0 and below give 1.

    Examples
    --------
    >>> round(brownian_range_p(2.4977), 3)
    0.05
    >>> brownian_range_p([0.0, float("inf")]).tolist()
    [1.0, 0.0]
    """
    return _probability(x, upper=True)


def brownian_range_cdf(x: ArrayLike) -> Any:
    """Give the probability that the range is at most `x`, with relative precision in the lower tail too."""
    return _probability(x, upper=False)


def _probability(x: ArrayLike, *, upper: bool) -> Any:
    values = np.asarray(x, dtype=np.float64)
    below = values < _SWITCH
    low, high = _lower_series(np.where(below, values, 1.0)), _upper_series(np.where(below, 4.0, values))
    answer = np.where(below, 1.0 - low, high) if upper else np.where(below, low, 1.0 - high)
    answer = np.where(np.isnan(values), np.nan, answer)
    return float(answer) if answer.ndim == 0 else answer


def brownian_range_isf(p_value: float) -> float:
    """Give the value that the range exceeds with probability `p_value` (the critical value of a test)."""
    return root(lambda value: math.log(max(float(brownian_range_p(value)), 1e-320) / p_value), 0.04, 39.0, 1e-14)


def _upper_series(x: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import ndtr

    total = np.zeros_like(x)
    for k in range(_TERMS, 0, -1):
        total += (-1.0) ** (k - 1) * k * ndtr(-k * x)
    return 8.0 * total


def _lower_series(x: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        positive = x > 0.0
        safe = np.where(positive, x, 1.0)
        total = np.zeros_like(safe)
        for odd in range(2 * _TERMS - 1, 0, -2):
            squared = (odd * math.pi) ** 2
            total += (1.0 / safe**2 + 1.0 / squared) * np.exp(-0.5 * squared / safe**2)
        return np.where(positive, 8.0 * total, 0.0)


DISTINCT = 200  # distinct keys from which the walk is as good as continuous
SIMULATION_LIMIT = 2e8  # rows times draws above which nothing is simulated row by row


def kuiper_p_value(
    value: float,
    *,
    weight: float,
    variance: float,
    distinct: int,
    events: float,
    null: Null = "bernoulli",
    happened: float = 0.0,
    model_variance: bool = False,
    rows: CellRows | None = None,
    ties: Sums | None = None,
    weighted: bool = False,
    draws: int = DRAWS,
    stop: int | None = STOP,
    random_state: int | np.random.Generator | None = 0,
) -> NullSummary:
    """Compare a walk's range over Σw with noise.

    Parameters
    ----------
    value
        (highest - lowest partial sum of w(y - p))/Σw, cut between distinct keys.
    weight, variance
        Σw and the walk's variance: Σw²p(1-p), or Σw²(y-p)² when null="residual".
    distinct
        Distinct keys.
    events
        Expected events of the rarer side; with weights the effective number (`effective_events`).
    happened
        Σw²(y-p)²: the noise that the data have, where it is larger, is the interval's.
    model_variance
        With clusters: 0/1 outcomes of weights that do not depend on them, which can be drawn by cluster.
    rows
        Rows by distinct key, in order, for a simulation; always simulated when they have clusters and null="residual".
    ties
        Sums per distinct key, in order, in place of rows where there are few keys: each is drawn as a matched binomial.
    weighted
        Whether `ties` hold weighted sums.
    draws, stop, random_state
        Of the simulation.

    Notes
    -----
    From 200 distinct keys and 25 expected events on both sides: the Brownian range, ``P(R >= value/sd)`` with
    ``sd = sqrt(variance)/Σw``, floor 1.596 sd, 95% point 2.498 sd. Else simulation. Without rows and ties, or where
    rows·draws > 2e8, the Brownian range still, which ties make conservative, or NaN where events are too few for it.

    Examples
    --------
    >>> found = kuiper_p_value(0.03, weight=1000.0, variance=100.0, distinct=1000, events=120.0)
    >>> round(found.p_value, 3), found.method, round(found.noise_floor, 4)
    (0.011, 'Brownian range', 0.016)
    """
    value = float(value)
    wider = math.sqrt(max(1.0, happened / variance)) if variance > 0.0 else 1.0
    deviation = math.sqrt(max(float(variance), 0.0)) / float(weight) if weight > 0.0 else math.nan
    clustered = null == "residual" and rows is not None and rows.cluster is not None
    enough = events >= EFFECTIVE_EVENTS
    affordable = rows is not None and rows.probability.size * draws <= SIMULATION_LIMIT
    if not clustered and enough and distinct >= DISTINCT:
        return _brownian(value, deviation, "Brownian range", wider)
    if ties is not None and null == "bernoulli":
        return aggregate_null(ties, walk_range, weighted=weighted, draws=draws, random_state=random_state)
    if rows is not None and (affordable or clustered):
        if not affordable:  # clusters have no other way: fewer draws, and a p-value that cannot be as small
            draws = max(FLOOR_DRAWS, int(SIMULATION_LIMIT // rows.probability.size))
        options: Any = {"null": null, "draws": draws, "stop": stop, "random_state": random_state}
        found = simulated_walk(value, rows, by_cluster=clustered and model_variance, **options)
        return replace(found, interval=seminorm_interval(value, wider * found.quantile))
    if enough:
        return _brownian(value, deviation, "Brownian range, conservative with ties", wider)
    return NullSummary.unknown(value, "too small to judge")


def _brownian(value: float, deviation: float, method: str, wider: float) -> NullSummary:
    if deviation == 0.0:  # certain predictions: no noise at all
        p_value = 1.0 if value <= 1e-12 else 0.0
        return NullSummary(value, 0.0, p_value, 0.0, (value, value), "certain predictions")
    quantile = RANGE_QUANTILE * deviation
    p_value = float(brownian_range_p(value / deviation))
    interval = seminorm_interval(value, wider * quantile)
    return NullSummary(value, RANGE_MEAN * deviation, p_value, quantile, interval, method)


def simulated_walk(
    value: float,
    rows: CellRows,
    *,
    null: Null = "bernoulli",
    by_cluster: bool = False,
    draws: int = DRAWS,
    stop: int | None = STOP,
    random_state: int | np.random.Generator | None = 0,
) -> NullSummary:
    """Compare a walk's range over Σw with draws of it: Bernoulli outcomes, or signs flipped row- or cluster-wise.

    by_cluster : outcomes are drawn by cluster in place of flipping signs, where that can be afforded
    """
    from miscal.kernels.simulate import draw_walks

    seed = seed_of(random_state)
    total = float(rows.probability.size if rows.weight is None else rows.weight.sum())
    if by_cluster and drawn_by_cluster(rows, draws):
        still = np.zeros(rows.cells)
        stream, unit_weight = ClusterDraws.of(rows, still, int(seed)), np.array([total])

        def drawn(first: int, count: int) -> Floats:
            return walk_range(still, stream.block(first, count), unit_weight)

        return max_statistic_p(value, drawn, draws, stop, block=4 * CHUNK, method=stream.words)
    nothing = np.empty(0)
    flips = null == "residual"
    weight = nothing if rows.weight is None else rows.weight
    size, probability = (rows.residuals(), nothing) if flips else (weight, rows.probability)
    unit = np.empty(0, dtype=np.int64) if rows.cluster is None else rows.cluster
    ends = rows.offsets[1:]

    def block(first: int, count: int) -> Floats:
        out = np.empty(count)
        draw_walks(size, probability, unit, ends, first, count, seed, out)
        return out / total

    method = "simulation" if null == "bernoulli" else "sign flips"
    return max_statistic_p(value, block, draws, stop, method=method)

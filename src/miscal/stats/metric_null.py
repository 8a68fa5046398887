"""Noise floor, p-value and interval of a number that is read off all cells, or all rows in order, at once."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miscal.aggregate.in_memory import DISTINCT, Walk
from miscal.codes.inference import Method, Null
from miscal.data.arrays import Array, Plain
from miscal.data.libraries import special
from miscal.data.target import TargetData
from miscal.stats.cell_sums import (
    EFFECTIVE_EVENTS,
    CellRows,
    CellSums,
    CellTestSettings,
    Floats,
    effective_events_of,
    unwarned,
)
from miscal.stats.null_draws import ROW_DRAWS, CellDraws, cell_draws, steps_of, widest_walks
from miscal.stats.sign_flip import STOP

# statistic(Σw(y - p), (draws, cells)) -> (draws,).
Statistic = Callable[[Floats], Floats]

DRAWS = 999
SMOOTH_DRAWS = 199
FLOOR_DRAWS = 199  # the floor and the 95% point want at least this many, however early the p-value is settled
BLOCK_VALUES = 1 << 24  # numbers held at a time: 128 MiB, and far less by the metric
CACHED_VALUES = 1 << 15


@dataclass(frozen=True)
class NullSummary:
    """A statistic against its distribution under calibration.

    `noise_floor` is the null's mean, `quantile` its 95% point, `interval` is ``[max(0, v - q), v + q]``, q the larger
    95% point of the noise, the null's or that of what happened; all NaN when they cannot be given. `exceedances` of
    `draws` reached the value; `drawn` are those that were simulated. With `sparse_cells` some cells were drawn from the
    predictions, whatever `method` says of the others.
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
    exceedances, quantile = int(_reaching(draws, value)), upper_quantile(draws)
    p_value = float(drawn_p(draws, value))
    interval = seminorm_interval(value, quantile)
    mean = float(draws.mean())
    return NullSummary(value, mean, p_value, quantile, interval, method, draws.size, exceedances, drawn=draws)


def drawn_p(drawn: Floats, values: Any) -> Floats:
    """P-values of values by draws of them, (draws, K): as of `summary_of_draws`, each by itself."""
    return np.asarray((1.0 + _reaching(drawn, values)) / (1.0 + len(drawn)))


def among_draws(drawn: Floats, values: Floats) -> tuple[Floats, ...]:
    """Between what 95% of the draws of each value lie, (draws, K), and its two-sided p-value."""
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    slack = 1e-12 * np.maximum(np.abs(values), 1.0)
    below, above = (drawn <= values + slack).sum(axis=0), (drawn >= values - slack).sum(axis=0)
    rarer = (1.0 + np.minimum(below, above)) / (1.0 + len(drawn))
    return low, high, np.minimum(2.0 * rarer, 1.0)


def _reaching(draws: Floats, value: Any) -> Any:
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
    at_least: int = FLOOR_DRAWS,
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
    >>> found = max_statistic_p(9.0, lambda first, count: np.arange(first, first + count) % 8.0)
    >>> found.p_value
    0.001
    """
    made: list[Floats] = []
    total, hits = 0, 0
    while total < draws and not (hits >= STOP and total >= min(at_least, draws)):
        count = min(block, draws - total)
        made.append(simulate_block(total, count))
        total += count
        hits += _reaching(made[-1], observed)
    return summary_of_draws(observed, np.concatenate(made), method=method)


def affordable(draws: int, rows: int) -> int:
    """Fewer draws where there are too many rows for them, and a p-value that cannot be as small."""
    return min(draws, max(FLOOR_DRAWS, int(ROW_DRAWS // rows)))


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
        least = 0.4 * tolerance * high
        middle = (low * below - high * above) / (below - above)
        middle = min(max(middle, low + least), high - least)
        height = falling(middle)
        again = raised == (height > 0.0)  # the same end moves twice: the other counts for half
        raised = height > 0.0
        if raised:
            low, above = middle, height
            below *= 0.5 if again else 1.0
        else:
            high, below = middle, height
            above *= 0.5 if again else 1.0
    if above <= 0.0:
        return low
    return high if below >= 0.0 else 0.5 * (low + high)


def seminorm_interval(value: float, quantile: float) -> tuple[float, float]:
    """Give ``[max(0, v - q), v + q]``, which covers by the triangle inequality at least as often as q does.

    Examples
    --------
    >>> seminorm_interval(0.03, 0.04)
    (0.0, 0.07)
    """
    return max(0.0, value - quantile), value + quantile


def aggregate_null(
    sums: CellSums, metric: Statistic, how: CellTestSettings, draws: int = DRAWS, drawn: Floats | None = None
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
    how
        See `cell_draws`; clusters need rows.
    drawn
        The metric of each of these draws, where it is known.

    Returns
    -------
    NullSummary
        The interval supposes a seminorm of y - p, and has the larger of the null's noise and that of what happened
        (`as_happened`); for another metric leave it unused.

    Examples
    --------
    >>> from miscal.stats.cell_sums import CellTestSettings, CellSums
    >>> one = np.ones(2)
    >>> sums = CellSums(100 * one, 100 * one, 100 * one, 20 * one, 45 * one, 16 * one, 40 * one)
    >>> found = aggregate_null(sums, PooledError(1.0, sums.weight), CellTestSettings())
    >>> found.value, found.p_value, round(found.noise_floor, 2)
    (0.25, 0.001, 0.03)
    """
    stream = cell_draws(sums, how, draws)
    values = drawn_values(stream, sums, [metric], draws)[:, 0] if drawn is None else drawn
    if stream.spread_factor > 1.0:
        values = np.maximum(values.mean() + stream.spread_factor * (values - values.mean()), 0.0)
    actual = float(metric(-sums.off[None])[0])
    found = summary_of_draws(actual, values, method=stream.method)
    found = replace(found, sparse_cells=stream.sparse_cells)
    if how.null == Null.RESIDUAL or math.isnan(actual) or draws < FLOOR_DRAWS:
        return found  # flipped residuals are what happened
    # Draws from p would be too quiet where far more happens than was predicted, and draws from what happened where no
    # event happened in many cells by luck: the interval has the larger noise.
    happened = as_happened(sums)
    stream = cell_draws(happened, replace(how, rows=None), FLOOR_DRAWS)
    own = drawn_values(stream, happened, [metric], FLOOR_DRAWS)
    return found.no_narrower(upper_quantile(own[:, 0]))


def drawn_values(stream: CellDraws, sums: CellSums, tests: Collection[Statistic], draws: int) -> Floats:
    """Some statistics of Σw(y* - p) of draws of the cells, (draws, tests).

    Draws are looked at so few at a time that what is made of them stays in the processor's cache.
    """
    cells = max(sums.rows.size, 1)
    block, few = max(1, BLOCK_VALUES // cells), max(1, CACHED_VALUES // cells)
    values = []
    for start in range(0, draws, block):
        made = stream.block(start, min(block, draws - start))
        for first in range(0, len(made), few):
            residual = made[first : first + few] - sums.predicted
            values.append(np.stack([test(residual) for test in tests], axis=1))
    return np.concatenate(values)


def as_happened(sums: CellSums) -> CellSums:
    """The cells as if they had been predicted as they happened, pulled towards the predictions by half an event.

    Their variance is the smaller of two that are too large on average, ``r(1 - r)Σw²`` and ``Σw²(y - p)²``, but not
    below what the spread of the predictions leaves of the first.

    Examples
    --------
    >>> one = np.ones(1)
    >>> sums = CellSums(100 * one, 100 * one, 100 * one, 2 * one, 30 * one, 1.96 * one, 28.84 * one)
    >>> made = as_happened(sums)
    >>> made.predicted.round(2).tolist(), made.variance.round(2).tolist()
    ([29.86], [20.94])
    """
    with unwarned():
        scale = sums.weight2 / sums.weight
        size = sums.weight / scale
        rate = np.clip(sums.mean, 0.0, 1.0)
        share = np.clip((sums.observed / scale + 0.5 * rate) / (size + 0.5), 0.0, 1.0)
        largest = share * (1.0 - share) * sums.weight2
        left = sums.variance / (rate * (1.0 - rate) * sums.weight2)
    left = np.where(left > 1e-6, np.minimum(left, 1.0), 1.0)
    variance = np.maximum(np.minimum(largest, sums.residual2), left * largest)
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


def walk_spans(residual: Floats) -> Floats:
    """Highest minus lowest partial sum of residuals over cells in order: Kuiper, cells being tied keys."""
    walk = np.cumsum(residual, axis=1)
    return np.asarray(walk.max(axis=1, initial=0.0) - walk.min(axis=1, initial=0.0))


# ---- walks: is the range of one, Kuiper's statistic, beyond noise? ---------------------------------------------------
# The range (highest minus lowest value) of a standard Brownian motion on [0, 1] is the limit of the Kuiper statistic
# over its standard deviation when the model is calibrated. Two series meet at 2: one converges at once above it, the
# other below, so both tails keep their relative precision.
RANGE_MEAN = 2.0 * math.sqrt(2.0 / math.pi)  # of the range: 1.5957691216
# What the range exceeds once in 20: `brownian_range_isf(0.05)`, without the solver that would find it.
RANGE_QUANTILE = 2.4976721610486496

_TERMS = 10


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
    k = np.arange(_TERMS, 0.0, -1.0)
    far = np.where(below, 4.0, values)[..., None]
    high = 8.0 * np.sum((-1.0) ** (k - 1.0) * k * special.ndtr(-k * far), axis=-1)
    j2 = (np.pi * np.arange(2 * _TERMS - 1, 0.0, -2.0)) ** 2
    near2 = np.where(below & (values > 0.0), values, 1.0)[..., None] ** 2
    with unwarned():
        terms = (1.0 / near2 + 1.0 / j2) * np.exp(-0.5 * j2 / near2)
    low = np.where(values > 0.0, 8.0 * terms.sum(axis=-1), 0.0)
    answer = np.where(below, 1.0 - low, high) if upper else np.where(below, low, 1.0 - high)
    return answer if answer.ndim else float(answer)


def brownian_range_isf(p_value: float) -> float:
    """Give the value that the range exceeds with probability `p_value` (the critical value of a test)."""

    def falling(value: float) -> float:
        return math.log(max(brownian_range_p(value), 1e-320) / p_value)

    return root(falling, 0.04, 39.0, 1e-14)


def kuiper_p_value(
    walk: Walk,
    how: CellTestSettings,
    *,
    events: float,
    happened: float = 0.0,
    ties: CellSums | None = None,
    draws: int = DRAWS,
) -> NullSummary:
    """Compare a walk's range over Σw, cut between distinct keys, with noise.

    Parameters
    ----------
    events
        Expected events of the rarer side; with weights the effective number (`effective_events`).
    happened
        Σw²(y-p)²: the walk's variance when null="residual"; else, where it is larger, the noise of the interval.
    how
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
    >>> walk = Walk(0.03, weight=1000.0, variance=100.0, events=120.0, distinct=1000)
    >>> found = kuiper_p_value(walk, CellTestSettings(), events=120.0)
    >>> round(found.p_value, 3), found.method, round(found.noise_floor, 4)
    (0.011, <Method.BROWNIAN_RANGE: 'Brownian range'>, 0.016)
    """
    flips, rows, value = how.null == Null.RESIDUAL, how.rows, walk.range
    variance = max(happened if flips else walk.variance, 0.0)
    wider = math.sqrt(max(1.0, happened / variance)) if variance else 1.0
    clustered = flips and how.clustered
    plain = not clustered and walk.distinct >= DISTINCT
    enough = events >= EFFECTIVE_EVENTS
    if not (enough and plain):
        if ties is not None and not flips:
            total, how = ties.weight.sum(), replace(how, rows=None)
            return aggregate_null(ties, lambda residual: walk_spans(residual) / total, how, draws)
        if rows is not None and (clustered or rows.rows * draws <= ROW_DRAWS):
            found = simulated_walk(
                value, rows, how, affordable(draws, rows.rows)
            )  # clusters have no other way
            return found.no_narrower(wider * found.quantile)
    if not enough:
        return NullSummary.unknown(value, Method.TOO_SMALL)
    deviation = math.sqrt(variance) / walk.weight
    if deviation == 0.0:  # certain predictions: no noise at all
        p_value = 1.0 if value <= 1e-12 else 0.0
        return NullSummary(value, 0.0, p_value, 0.0, (value, value), Method.CERTAIN)
    method = Method.BROWNIAN_RANGE if plain else Method.BROWNIAN_RANGE_TIES
    p_value, quantile = brownian_range_p(value / deviation), RANGE_QUANTILE * deviation
    interval = seminorm_interval(value, wider * quantile)
    return NullSummary(value, RANGE_MEAN * deviation, p_value, quantile, interval, method)


def simulated_walk(value: float, rows: CellRows, how: CellTestSettings, draws: int) -> NullSummary:
    """Compare a walk's range over Σw with draws of it: Bernoulli outcomes, or signs flipped row- or cluster-wise.

    With `model_variance` outcomes are drawn by cluster in place of flipping signs, where that can be afforded.
    """
    steps, method = steps_of(rows, how, draws)
    every = np.arange(rows.rows, dtype=np.int32), np.array([0, rows.rows])
    walk = rows.codes().astype(float), every, 1.0 / rows.sampling.sum(keepdims=True)
    block = 64 if method is Method.CLUSTER_DRAWS else 50  # whole chunks of draws by cluster
    return max_statistic_p(value, partial(widest_walks, *walk, steps), draws, block=block, method=method)


NODES = 1 << 12  # grid steps over [0, 1] at first; refined when the bandwidth is small against a step
FINEST = 1 << 20
OWN_DRAWS = 99  # of the noise that the data have
NOTHING_LEFT = 4.0  # times 1 / bandwidth: frequencies of which a Gaussian leaves less than 1e-34
EXACT, ROUGH = 1e-12, 1e-4  # relative error of a bandwidth: of the value, and of one draw of many
OVERSAMPLED = 4  # nodes a frequency that is left, on which a draw is integrated: off by less than 1e-4


def smooth_noise(pair: TargetData, value: float, null: Null, *, random_state: int = 0) -> NullSummary:
    """SmoothECE against calibrated outcomes: its p-value, and the value that noise alone would show.

    The residual mass of each node of the grid is drawn as a normal of the variance that its rows have under the null;
    each draw goes through the whole search of the bandwidth. Rows of one cluster lie on many nodes at once, which nodes
    drawn one by one cannot show: with clusters there is no p-value.

    The interval is that of a seminorm, though the value is none. For residuals r, noise e and σ = v + u, v and u being
    the values of r and of e, the smoothed error of r + e is at most s(r, σ) + s(e, σ) <= s(r, v) + s(e, u) = σ,
    because s falls with the bandwidth; so the value of r + e is at most v + u.
    """
    if pair.cluster is not None:
        return NullSummary.unknown(value, Method.NO_CLUSTER_TEST)
    if effective_events_of(pair) < EFFECTIVE_EVENTS:  # for the masses to be normal
        return NullSummary.unknown(value, Method.FEW_EVENTS)
    rng = np.random.default_rng(random_state)

    def block(deviation: Array, _first: int, count: int) -> Array:
        masses = (rng.normal(size=deviation.size) * deviation for _ in range(count))
        return np.array([fixed_point(spectrum_of(mass), ROUGH, value) for mass in masses])

    model, happened = (node_deviations(pair, NODES, kind) for kind in (null, Null.RESIDUAL))
    found = max_statistic_p(value, partial(block, model), SMOOTH_DRAWS, method=Method.GRID_SIMULATION)
    if null == Null.RESIDUAL:
        return found
    # The noise that the data have; nodes at which nothing happened by luck keep the model's share of it.
    wider = math.sqrt(max(1.0, (happened @ happened) / max(model @ model, 1e-300)))
    own = upper_quantile(block(happened, 0, OWN_DRAWS))
    return found.no_narrower(max(wider * found.quantile, own))


def node_deviations(pair: TargetData, steps: int, null: Null) -> Array:
    """Standard deviation of the residual mass at each node of a grid, per unit of weight."""
    predicted = pair.predicted
    spread = (pair.observed - predicted) ** 2 if null == Null.RESIDUAL else predicted * (1.0 - predicted)
    node = np.rint(predicted * steps).astype(np.int64)
    variance = np.bincount(node, spread * pair.weights[1], steps + 1)
    return np.sqrt(variance) / max(float(pair.weights[0].sum()), 1e-300)


def spectrum_of(residual: Array) -> Array:
    """Cosine transform of masses at the nodes, mirrored at 0 and 1."""
    # A mirror sees the end nodes once and the others twice.
    residual[[0, -1]] *= 2.0
    return np.fft.rfft(np.concatenate([residual, residual[-2:0:-1]])).real


def smooth_error_at(spectrum: Array, bandwidth: float, *, rough: bool = False) -> float:
    """The integral of the absolute smoothed residual: a Gaussian multiplies the cosine coefficients.

    What it leaves is told by far fewer nodes than the masses lie on: `rough` takes those.
    """
    steps = spectrum.size - 1
    kept = steps + 1 if bandwidth * steps <= NOTHING_LEFT else int(NOTHING_LEFT / bandwidth) + 1
    steps = min(steps, 1 << (OVERSAMPLED * kept).bit_length()) if rough else steps
    frequency = np.arange(kept) * (math.pi * bandwidth)
    smoothed = spectrum[:kept] * np.exp(-0.5 * frequency**2)
    density = np.abs(np.fft.irfft(smoothed, 2 * steps)[: steps + 1])
    return float(density.sum() - 0.5 * (density[0] + density[-1]))


def fixed_point(spectrum: Array, tolerance: float = EXACT, near: float | None = None) -> float:
    """The bandwidth that equals its own error: the error falls as the bandwidth grows, so there is one.

    It lies between any bandwidth, such as one that is `near`, and the error at it.
    """
    error = cache(partial(smooth_error_at, spectrum, rough=tolerance >= ROUGH))  # an end is asked for twice
    low, high = (0.0, 1.0) if near is None else sorted((near, error(near)))
    return root(lambda bandwidth: error(bandwidth) - bandwidth, low, high, tolerance)

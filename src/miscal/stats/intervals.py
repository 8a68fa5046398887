"""Confidence intervals of gaps and totals that agree with their tests."""

import math
from collections.abc import Sequence

import numpy as np

from miscal.codes.inference import Null
from miscal.data.target import TargetData
from miscal.stats.binomial import NORMAL_EVENTS, binomial_tail, equal_weights
from miscal.stats.cell_sums import CellSums, CellTestSettings, Floats, ignore_warnings
from miscal.stats.multiplicity import adjusted_z
from miscal.stats.normal import NORMAL_95, normal_p, student_95
from miscal.stats.sign_flip import residual_squares, student_reach

MAX_STEPS = 80
TOLERANCE = 1e-10  # of the root of a tail's logarithm


def wald_p(value: float, interval: Sequence[float], right: float, logarithm: bool = False) -> float:
    """The p-value that goes with a Wald interval of 95%, for the value that would be right.

    >>> round(wald_p(0.9, (0.8, 1.0), 1.0), 3)
    0.05
    """
    low, high = interval
    if logarithm and low > 0:
        value, low, high, right = (math.log(number) for number in (value, low, high, right))
    if not 0.0 < high - low < math.inf:
        return math.nan
    return float(normal_p(value - right, (0.5 * (high - low) / NORMAL_95) ** 2))


def cell_gap_intervals(
    sums: CellSums, settings: CellTestSettings, tests: int, level: float = 0.05
) -> tuple[Floats, Floats]:
    """Give bounds of the gaps that hold all at once with probability ``1 - level`` (Bonferroni over `tests`).

    The expected number of events is the unknown: the interval holds every mean λ that the cell's test would not reject,
    a binomial matched to λ and to the variance ``ρλ(1 - λ/n)``, ρ being the ratio that the predictions
    have, ``σ²/(μ(1 - μ/n))`` (1 for equal probabilities: Clopper and Pearson). It agrees with the test at λ = μ. Above
    200 events on both sides the same by Wilson's formula. Weighted: in units of Σw²/Σw, n the Kish size.
    "residual": the cell's test read the other way round, gap ± z·sqrt(ΣD²)/Σw, D a row's or a cluster's residual, z
    from Student's t; where Σw²p(1-p) is the noise it is a floor of ΣD², as in the test. Empty cells: NaN.

    Parameters
    ----------
    tests
        Cells tested in the call or the audit.

    Examples
    --------
    >>> from miscal.stats.cell_sums import CellTestSettings, CellSums
    >>> ones = np.ones(1)
    >>> none = CellSums(100 * ones, 100 * ones, 100 * ones, 2 * ones, 0 * ones, 1.96 * ones, 0.04 * ones)
    >>> low, high = cell_gap_intervals(none, CellTestSettings(), 1)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([-0.0162], [0.02])
    """
    with ignore_warnings():
        if settings.null == Null.BERNOULLI:
            low_events, high_events = _expected_event_bounds(sums, level / tests, weighted=settings.weighted)
            return (sums.predicted - high_events) / sums.weight, (sums.predicted - low_events) / sums.weight
        noise, n_blocks = residual_squares(sums, settings.rows)
        if settings.model_variance or settings.outcome_weights or not settings.binary:
            noise = np.maximum(noise, sums.variance)
        gap = sums.off / sums.weight
        half_width = student_reach(n_blocks, level / tests) * np.sqrt(noise) / sums.weight
        # One row or cluster with residual 0 gives no variance: the interval is unbounded.
        half_width = np.nan_to_num(half_width, nan=np.inf)
        return np.maximum(gap - half_width, sums.mean - 1.0), np.minimum(gap + half_width, sums.mean)


def total_half_width(target: TargetData, expected: Floats) -> float:
    """Half-width of the 95% interval of Σw·y around what is expected of each row, by cluster where there are any."""
    residual = target.observed - expected
    if target.cluster is None:
        squares = residual * residual
        return NORMAL_95 * math.sqrt(
            np.sum(squares if target.variance_weight is None else squares * target.variance_weight)
        )
    residual = target.weighted(residual)
    cluster_sums = np.bincount(target.cluster, residual)[np.bincount(target.cluster) > 0]
    # Few clusters: Student's t, and no less noise than rows that have nothing to do with each other would have.
    freedom = max(cluster_sums.size - 1.0, 1.0)
    by_cluster = np.sum(cluster_sums * cluster_sums) * cluster_sums.size / freedom
    noise = max(by_cluster, np.sum(residual * residual))
    return student_95(freedom) * math.sqrt(noise)


def agree_with_tests(
    low: Floats, high: Floats, gap: Floats, adjusted: Floats, level: float
) -> tuple[Floats, Floats]:
    """Make intervals agree with tests: 0 is outside exactly where the adjusted p-value is at most the level.

    Holm's rule rejects a little more than intervals at Bonferroni's level exclude: such an interval ends at 0, which
    it does not hold. Exact and simulated tests may differ from the approximation that the interval inverts: it is then
    extended to 0, and so is that of a cell too small to be tested.

    Examples
    --------
    >>> low, high = agree_with_tests(
    ...     *(np.array(v) for v in ([0.1, -0.1], [0.3, 0.2], [0.2, 0.05], [0.2, 0.9])), 0.05
    ... )
    >>> low.tolist(), high.tolist()
    ([0.0, -0.1], [0.3, 0.2])
    """
    significant = adjusted <= level
    tiny = np.finfo(np.float64).tiny
    above = np.where(gap > 0.0, np.maximum(low, tiny), low)
    below = np.where(gap < 0.0, np.minimum(high, -tiny), high)
    return np.where(significant, above, np.minimum(low, 0.0)), np.where(
        significant, below, np.maximum(high, 0.0)
    )


def _expected_event_bounds(sums: CellSums, level: float, *, weighted: bool) -> Floats:
    """Give bounds of the expected Σw·y of cells, each at a level; those of empty ones mean nothing."""
    scale = sums.weight2 / sums.weight
    size, mean = sums.weight / scale, sums.predicted / scale
    events = np.clip(sums.observed / scale, 0.0, size)
    if not weighted or equal_weights(sums)[sums.weight > 0.0].all():
        events, size = np.rint(events), np.rint(size)
    ratio = (sums.variance / scale**2) / (mean * (1.0 - mean / size))
    # Predictions of exactly 0 or 1 that were wrong have no variance: take the binomial's.
    ratio = np.where(np.isfinite(ratio) & (ratio > 1e-6), ratio, 1.0)
    ratio = ratio if weighted else np.minimum(ratio, 1.0)
    # Wilson's bounds: (k ∓ ½ - λ)² = z²ρλ(1 - λ/n), solved for λ.
    square = adjusted_z(1, level) ** 2 * ratio

    def wilson(side: float) -> Floats:
        count = np.clip(events + 0.5 * side, 0.0, size)
        inner = square * square + 4.0 * square * count * (1.0 - count / size)
        middle = 2.0 * count + square
        bound = (middle + side * np.sqrt(np.maximum(inner, 0.0))) / (2.0 * (1.0 + square / size))
        return np.clip(bound, 0.0, size)

    low = np.where(events <= 0.0, 0.0, wilson(-1.0))
    high = np.where(events >= size, size, wilson(1.0))
    bounds = np.stack([low, high])
    inexact = (np.minimum(events, size - events) <= NORMAL_EVENTS) & (ratio <= 1.0 + 1e-9)
    cells = np.stack([events, size, np.minimum(ratio, 1.0), mean > 0.5 * size])[:, inexact]
    bounds[:, inexact] = _inverted_tails(cells, 0.5 * level, bounds[:, inexact])
    return bounds * scale


def _inverted_tails(cells: Floats, half: float, start: Floats) -> Floats:
    """Solve P(K >= k) = half for the lower and P(K <= k) = half for the upper bound of λ, from Wilson's bounds on.

    Each is matched on the side that is rarer for the predictions, whatever λ is, as in the cell's test. The secant rule
    on sqrt(-log(tail)), which for a normal is a straight line far out; halving where it leaves the bracket. The first
    secant supposes a tail of one half at the events.

    cells : events, size, ratio of the variances, and whether the outcomes are swapped, an array each
    """
    count, trials, spread, swapped = np.tile(cells, 2)
    lower = np.repeat([True, False], start.shape[1])
    # Where no event, or nothing but events, was observed, the bound is the end.
    ends = np.where(lower, 0.0, trials)
    outer, inner = ends, np.maximum(count, 1e-12)
    target = math.sqrt(-math.log(half))
    last, last_height = inner, np.full(count.size, math.sqrt(math.log(2.0)) - target)
    guess, height = _inside_bracket(start.ravel(), outer, inner), last_height.copy()
    settled = count == ends
    with ignore_warnings():
        for _ in range(MAX_STEPS):
            live = np.flatnonzero(~settled)
            if not live.size:
                break
            variance = spread * guess * (1.0 - guess / trials)
            matched = [values[live] for values in (count, guess, variance, trials, swapped)]
            tail = binomial_tail(matched, upper=lower[live])
            height[live] = np.sqrt(np.maximum(-np.log(tail), 0.0)) - target
            outer, inner = np.where(height > 0.0, guess, outer), np.where(height > 0.0, inner, guess)
            settled |= np.abs(height) < TOLERANCE
            settled |= np.abs(outer - inner) <= TOLERANCE * np.maximum(outer, inner)
            secant = guess - height * (guess - last) / (height - last_height)
            last, last_height = guess, height.copy()
            guess = np.where(settled, guess, _inside_bracket(secant, outer, inner))
    return np.where(count == ends, ends, guess).reshape(2, -1)


def _inside_bracket(guess: Floats, outer: Floats, inner: Floats) -> Floats:
    """The guess where it lies inside the bracket, else the bracket's middle."""
    inside = (guess > np.minimum(outer, inner)) & (guess < np.maximum(outer, inner))
    return np.where(inside, guess, 0.5 * (outer + inner))

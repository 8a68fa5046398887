"""P-values, intervals and sizes that stay valid after looking in many places."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from miscal.codes.inference import Null
from miscal.data.libraries import special
from miscal.data.target import TargetData
from miscal.stats.binomial import NORMAL_EVENTS, binomial_tail, equal_weights
from miscal.stats.cell_sums import (
    NORMAL_95,
    CellSums,
    CellTestSettings,
    Floats,
    Integers,
    normal_p,
    student_95,
    unwarned,
)
from miscal.stats.metric_null import root
from miscal.stats.sign_flip import cell_noise, student_reach

POWER = 0.84  # the normal's 80% point, rounded as everybody rounds it
FURTHEST = 3.0  # standard deviations that a residual counts at most
CAPPED = 0.9950108  # E min(Z², 9) of a standard normal Z


def holm(p_values: ArrayLike, further: int = 0) -> Floats:
    """Adjust p-values by Holm's step-down rule: valid under any dependence between the tests.

    The i-th smallest of m becomes ``max_{j<=i} min(1, (m - j + 1)·p_(j))``. NaN stays NaN and is not counted.
    `further` tests that were not run count as if they had shown nothing.

    Examples
    --------
    >>> holm([0.01, float("nan"), 0.04, 0.03]).round(2).tolist()
    [0.03, nan, 0.06, 0.06]
    """
    values = np.asarray(p_values, np.float64)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    answer = np.full(values.size, np.nan)
    left = np.arange(order.size + further, further, -1)
    answer[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * left))
    return answer


def step_down(values: Floats, drawn: Floats) -> Floats:
    """Adjusted p-values of several statistics from joint draws (draws, K): the step-down rule of Westfall and Young.

    Each statistic is studentised by its own draws; the i-th largest is compared with the largest of those not above it.

    >>> step_down(np.array([9.0, 0.0]), np.array([[1.0, 1.0], [0.0, 2.0], [2.0, 0.0]])).tolist()
    [0.25, 1.0]
    """
    together = np.vstack([drawn, values])
    spread = together.std(axis=0)
    together = (together - together.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    order = np.argsort(-together[-1], kind="stable")
    ranked = together[:, order]
    largest = np.maximum.accumulate(ranked[:, ::-1], axis=1)[:, ::-1]
    reached = np.sum(largest[:-1] >= ranked[-1] - 1e-12, axis=0)
    adjusted = np.empty(values.size)
    adjusted[order] = np.maximum.accumulate((1.0 + reached) / len(together))
    return adjusted


def student_test(
    estimate: Floats, error: Floats, freedom: Floats | float, level: float
) -> tuple[Floats, ...]:
    """Student's test of estimates that may be NaN: p-values, by themselves and by Holm's rule, and reaches.

    An estimate and the reach on both sides of it are intervals that hold all at once.
    """
    with unwarned():
        p_value = 2.0 * special.stdtr(freedom, -np.abs(estimate) / error)
    tests = max(int(np.count_nonzero(~np.isnan(p_value))), 1)
    critical = special.stdtrit(np.maximum(freedom, 1.0), 1.0 - 0.5 * level / tests)
    return p_value, holm(p_value), critical * error


def adjusted_z(tests: float, level: float = 0.05) -> float:
    """Give the two-sided normal critical value at the Bonferroni level ``level / tests``.

    Examples
    --------
    >>> round(adjusted_z(1), 2), round(adjusted_z(1000), 2)
    (1.96, 4.06)
    """
    return float(-special.ndtri(0.5 * level / tests))


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


def paired_p(predicted: Floats, observed: Floats, variance: Floats) -> Floats:
    """P-values that two models are equally far from the truth on the same rows.

    The model on the truth's side of the middle between both is nearer: the outcomes are tested against the middle.

    >>> paired_p(np.array([[30.0], [60.0]]), np.array([30.0]), np.array([[21.0], [21.0]])).round(3)
    array([0.001])
    """
    found = normal_p(observed - np.mean(predicted, axis=0), np.mean(variance, axis=0))
    return np.where(predicted[0] == predicted[1], 1.0, found)


def minimum_detectable_gap(se: Floats, tests: int, level: float = 0.05) -> Floats:
    """Give the gap that would be found 4 times in 5 among `tests` cells: ``(z_adj + 0.84)·SE``.

    `se` is the standard error of the gap of a calibrated model, ``sqrt(Σw²p(1-p))/Σw``.

    Examples
    --------
    >>> minimum_detectable_gap(np.array([0.01]), tests=1).round(3).tolist()
    [0.028]
    """
    return (adjusted_z(tests, level) + POWER) * se


def shrunken_gap(gap: ArrayLike, se: ArrayLike, least: ArrayLike) -> Floats:
    """Give the gap of a cell that was picked because it passed a test, less the luck of being picked.

    0.4 of the raw gap and 0.6 of its maximum likelihood estimate given that it passed: the m, in standard errors, that
    solves ``z = m + φ(c - m)/Φ(m - c)``. Cells that did not pass keep their gap: they were not picked.

    Parameters
    ----------
    se : standard error of the gap as it happened, not as predicted: it is off, and so is the noise of the model
    least : the smallest gap that would have passed; ``c = least / se``

    Notes
    -----
    The raw gap is too large, the conditional estimate alone too small. Mixed like this they were within 15% of the
    truth on average wherever one such gap in five or more passes, for 1 to 60 expected events and for normal gaps;
    `studies/shrunken_sizes.py` counts it.

    Examples
    --------
    >>> shrunken_gap([0.05, 0.021, 0.01], [0.01] * 3, [0.0196] * 3).round(3).tolist()
    [0.05, 0.008, 0.01]
    """
    gaps, errors, smallest = np.broadcast_arrays(gap, se, least)
    size = np.abs(gaps)
    with unwarned():
        z, critical = size / errors, smallest / errors
    # Beyond a million standard errors (no noise at all: certain predictions that were wrong) luck takes nothing off.
    picked = np.flatnonzero((size >= smallest) & (z <= 1e6))
    target, critical = z[picked], critical[picked]
    low, high = np.zeros(picked.size), target
    for _ in range(60):
        middle = 0.5 * (low + high)
        short = critical - middle
        passed = np.exp(-0.5 * short**2 - special.log_ndtr(-short))
        above = middle + passed / np.sqrt(2.0 * np.pi) > target
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    made = gaps.copy()
    made[picked] = 0.4 * gaps[picked] + 0.6 * np.sign(gaps[picked]) * low * errors[picked]
    return made


# ---- intervals of the cells' gaps, simultaneous over all cells tested because findings are selected ------------------
STEPS = 80
SETTLED = 1e-10  # of the root of a tail's logarithm


def cell_gap_intervals(
    sums: CellSums, how: CellTestSettings, tests: int, level: float = 0.05
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
    >>> one = np.ones(1)
    >>> none = CellSums(100 * one, 100 * one, 100 * one, 2 * one, 0 * one, 1.96 * one, 0.04 * one)
    >>> low, high = cell_gap_intervals(none, CellTestSettings(), 1)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([-0.0162], [0.02])
    """
    with unwarned():
        if how.null == Null.BERNOULLI:
            least, most = _mean_events(sums, level / tests, weighted=how.weighted)
            return (sums.predicted - most) / sums.weight, (sums.predicted - least) / sums.weight
        noise, blocks = cell_noise(sums, how.rows)
        if how.model_variance or how.outcome_weights or not how.binary:
            noise = np.maximum(noise, sums.variance)
        gap = sums.off / sums.weight
        reach = student_reach(blocks, level / tests) * np.sqrt(noise) / sums.weight
        # One row or cluster whose residual is 0 says nothing of the others.
        reach = np.nan_to_num(reach, nan=np.inf)
        return np.maximum(gap - reach, sums.mean - 1.0), np.minimum(gap + reach, sums.mean)


def total_reach(pair: TargetData, expected: Floats) -> float:
    """Half-width of the 95% interval of Σw·y around what is expected of each row, by cluster where there are any."""
    residual = pair.observed - expected
    if pair.cluster is None:
        squares = residual * residual
        return NORMAL_95 * math.sqrt(np.sum(squares if pair.second is None else squares * pair.second))
    residual = pair.weighed(residual)
    own = np.bincount(pair.cluster, residual)[np.bincount(pair.cluster) > 0]
    # Few clusters: Student's t, and no less noise than rows that have nothing to do with each other would have.
    freedom = max(own.size - 1.0, 1.0)
    by_cluster = np.sum(own * own) * own.size / freedom
    noise = max(by_cluster, np.sum(residual * residual))
    return student_95(freedom) * math.sqrt(noise)


def agreeing(low: Floats, high: Floats, gap: Floats, adjusted: Floats, level: float) -> tuple[Floats, Floats]:
    """Make intervals say what the tests say: 0 is outside exactly where the adjusted p-value is at most the level.

    Holm's rule rejects a little more than intervals at Bonferroni's level exclude: such an interval ends at 0, which
    it does not hold. Exact and simulated tests may differ from the approximation that the interval inverts: it is then
    drawn to 0. So it is for cells that are too small to be judged.

    Examples
    --------
    >>> low, high = agreeing(*(np.array(v) for v in ([0.1, -0.1], [0.3, 0.2], [0.2, 0.05], [0.2, 0.9])), 0.05)
    >>> low.tolist(), high.tolist()
    ([0.0, -0.1], [0.3, 0.2])
    """
    real = adjusted <= level
    least = np.finfo(np.float64).tiny
    above = np.where(gap > 0.0, np.maximum(low, least), low)
    below = np.where(gap < 0.0, np.minimum(high, -least), high)
    return np.where(real, above, np.minimum(low, 0.0)), np.where(real, below, np.maximum(high, 0.0))


def _mean_events(sums: CellSums, level: float, *, weighted: bool) -> Floats:
    """Give bounds of the expected Σw·y of cells, each at a level; those of empty ones mean nothing."""
    scale = sums.weight2 / sums.weight
    size, mean = sums.weight / scale, sums.predicted / scale
    events = np.clip(sums.observed / scale, 0.0, size)
    if not weighted or equal_weights(sums)[sums.weight > 0.0].all():
        events, size = np.rint(events), np.rint(size)
    ratio = (sums.variance / scale**2) / (mean * (1.0 - mean / size))
    # Certain predictions say nothing of the noise once they are wrong: take the binomial's.
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

    least = np.where(events <= 0.0, 0.0, wilson(-1.0))
    most = np.where(events >= size, size, wilson(1.0))
    bounds = np.stack([least, most])
    small = (np.minimum(events, size - events) <= NORMAL_EVENTS) & (ratio <= 1.0 + 1e-9)
    cells = np.stack([events, size, np.minimum(ratio, 1.0), mean > 0.5 * size])[:, small]
    bounds[:, small] = _inverted(cells, 0.5 * level, bounds[:, small])
    return bounds * scale


def _inverted(cells: Floats, half: float, start: Floats) -> Floats:
    """Solve P(K >= k) = half for the lower and P(K <= k) = half for the upper bound of λ, from Wilson's bounds on.

    Each is matched on the side that is rarer for the predictions, whatever λ is, as in the cell's test. The secant rule
    on sqrt(-log(tail)), which for a normal is a straight line far out; halving where it leaves the bracket. The first
    secant supposes a tail of one half at the events.

    cells : events, size, ratio of the variances, and whether the outcomes are swapped, an array each
    """
    count, trials, spread, swapped = np.tile(cells, 2)
    lower = np.repeat([True, False], start.shape[1])
    # Where as few or as many events happened as can, the bound is the end.
    ends = np.where(lower, 0.0, trials)
    outer, inner = ends, np.maximum(count, 1e-12)
    target = math.sqrt(-math.log(half))
    last, last_height = inner, np.full(count.size, math.sqrt(math.log(2.0)) - target)
    guess, height = _between(start.ravel(), outer, inner), last_height.copy()
    settled = count == ends
    with unwarned():
        for _ in range(STEPS):
            live = np.flatnonzero(~settled)
            if not live.size:
                break
            variance = spread * guess * (1.0 - guess / trials)
            matched = [each[live] for each in (count, guess, variance, trials, swapped)]
            tail = binomial_tail(matched, upper=lower[live])
            height[live] = np.sqrt(np.maximum(-np.log(tail), 0.0)) - target
            outer, inner = np.where(height > 0.0, guess, outer), np.where(height > 0.0, inner, guess)
            settled |= np.abs(height) < SETTLED
            settled |= np.abs(outer - inner) <= SETTLED * np.maximum(outer, inner)
            secant = guess - height * (guess - last) / (height - last_height)
            last, last_height = guess, height.copy()
            guess = np.where(settled, guess, _between(secant, outer, inner))
    return np.where(count == ends, ends, guess).reshape(2, -1)


def _between(guess: Floats, outer: Floats, inner: Floats) -> Floats:
    """The guess where it lies inside the bracket, else the bracket's middle."""
    inside = (guess > np.minimum(outer, inner)) & (guess < np.maximum(outer, inner))
    return np.where(inside, guess, 0.5 * (outer + inner))


# ---- empirical Bayes: what the gap of a level is likely to be, once luck is taken off --------------------------------
def shrink(
    sums: CellSums, noise: Floats, parents: Sequence[Integers] = ()
) -> tuple[Floats, tuple[float, ...]]:
    """Draw each level's gap towards its parent's by as much as its noise asks for.

    A level's shift θ = Σw(p - y)/Σw·p(1-p) is, to first order, by how much its log-odds are too high; for rare events
    it is the relative error. Levels vary around their parent with a spread τ that the data tell: θ_level ~ N(θ_parent,
    τ²), and a measured shift varies around its level's with the noise s². On this scale rare and common levels are
    exchangeable, which on the scale of the gap they are not: a level at 0.1% cannot be off by 5 points.

    Parameters
    ----------
    sums : of the levels
    noise : (cells,) variance of each level's Σw(p - y), as far as the residuals tell
    parents : codes from the levels' parents up to the outermost ancestors; () when the root is the parent of all

    Returns
    -------
    (3, cells) the gaps drawn towards their parents', and the ends of the 95% interval of each level by itself; the
    spreads from level to root

    Notes
    -----
    The spread of each height is the root of the restricted likelihood's equation,
    Σω²(min(r², 9/ω) - β(1/ω - 1/Ω)) = 0, ω = 1/(s² + τ²), Ω the sum of ω in a family; 0 where levels vary no more than
    noise does. Residuals r count at most three standard deviations (β = E min(Z², 9) makes up for it), so that a few
    levels that are far off do not make all others look uncertain. Levels without noise (certain predictions) and
    empty ones keep their gap.
    """
    with unwarned():
        made = np.tile(sums.off / sums.weight, (3, 1))
    live = np.flatnonzero((sums.weight > 0) & (sums.variance > 1e-13 * sums.weight2))
    heard = noise[live].sum()
    if not heard > 0.0:  # no level, or clusters whose rows cancel to the last digit
        return made, (0.0,) * (len(parents) + 1)
    own = sums.take(live)
    information = own.variance * own.weight / own.weight2  # Σw·p(1-p), where weights do not depend on p
    # One factor for all levels: a level's own residuals would tie its noise to its gap.
    factor = heard / own.variance.sum()
    variance = factor * own.variance / information**2
    dense = [np.unique(codes[live], return_inverse=True)[1].astype(np.int64) for codes in parents]
    middle, spread, spreads = _partly_pooled(own.off / information, variance, dense)
    reach = NORMAL_95 * spread
    theta = np.stack([middle, middle - reach, middle + reach])
    made[:, live] = np.clip(theta * (information / own.weight), own.mean - 1.0, own.mean)
    return made, spreads


def _partly_pooled(
    value: Floats, noise: Floats, parents: list[Integers]
) -> tuple[Floats, Floats, tuple[float, ...]]:
    """Means and standard deviations of the levels given all data, and the spread of each height of the tree.

    Upwards a parent's value is the precision-weighted mean of its family; downwards each is drawn to its parent's.
    """
    heights, own = [], np.arange(value.size)
    for codes in [*parents, np.zeros(value.size, np.int64)]:
        parent = np.empty(value.size, np.int64)
        parent[own] = codes  # every row of levels below agrees on the parent of its ancestor
        spread2 = _spread2(value, noise, parent)
        heights.append((value, noise, parent, spread2))
        _, value, noise = _families(value, noise + spread2, parent)
        own = codes
    for measured, apart, parent, spread2 in reversed(heights):
        share = spread2 / (spread2 + apart)
        value = share * measured + (1.0 - share) * value[parent]
        noise = share * apart + (1.0 - share) ** 2 * noise[parent]
    return value, np.sqrt(noise), tuple(math.sqrt(spread2) for *_, spread2 in heights)


def _families(value: Floats, variance: Floats, parent: Integers) -> tuple[Floats, Floats, Floats]:
    """Precisions of the members of families, and of each family the mean that they weigh, and its variance."""
    omega = 1.0 / variance
    total = np.bincount(parent, omega)
    return omega, np.bincount(parent, omega * value) / total, 1.0 / total


def _spread2(value: Floats, noise: Floats, parent: Integers) -> float:
    """Variance between members of a family beyond their noise."""
    if np.unique(parent).size >= value.size:
        return 0.0  # families of one: nothing varies within them

    def excess(spread2: float) -> float:
        omega, mean, known = _families(value, noise + spread2, parent)
        residual = value - mean[parent]
        square = np.minimum(residual * residual, FURTHEST**2 / omega)
        expected = CAPPED * (1.0 / omega - known[parent])
        return float(np.sum(omega * omega * (square - expected)))

    if excess(0.0) <= 0.0:
        return 0.0
    furthest = float(np.max(np.abs(value - np.median(value))))
    return root(excess, 0.0, 8.0 * furthest**2, 1e-10)

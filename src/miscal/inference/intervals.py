"""Intervals of the cells' gaps, simultaneous over all cells tested because findings are selected."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from miscal.data.libraries import special
from miscal.inference.adjust import adjusted_z
from miscal.inference.cells import NORMAL_EVENTS, binomial_tail, equal_weights
from miscal.inference.residual import cell_noise, cluster_blocks, student_reach
from miscal.inference.sums import Floats, Integers, Judging, Sums
from miscal.pairs import Pair

Tail = Callable[[Floats, Integers], Floats]

STEPS = 80
STRAIGHT = 20  # steps after which only halving is left
SETTLED = 1e-9  # relative, of a bound or of its tail


def cell_gap_intervals(
    sums: Sums, how: Judging, tests: int | None = None, level: float = 0.05
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
        Cells tested in the call or the audit; the filled cells when None.

    Examples
    --------
    >>> from miscal.inference.sums import Judging, Sums
    >>> one = np.ones(1)
    >>> none = Sums(100 * one, 100 * one, 100 * one, 2 * one, 0 * one, 1.96 * one, 0.04 * one)
    >>> low, high = cell_gap_intervals(none, Judging())
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([-0.0162], [0.02])
    """
    filled = sums.weight > 0.0
    number = max(int(filled.sum()), 1) if tests is None else tests
    low, high = np.full(filled.size, np.nan), np.full(filled.size, np.nan)
    if how.null == "residual":
        own = None if how.rows is None else cluster_blocks(how.rows)
        noise, blocks = cell_noise(sums, own, model_variance=how.model_variance or how.usual)
        gap = (sums.predicted[filled] - sums.observed[filled]) / sums.weight[filled]
        z = student_reach(blocks[filled], level / number)
        with np.errstate(invalid="ignore"):  # one row or cluster whose residual is 0 says nothing of the others
            reach = np.nan_to_num(z * np.sqrt(noise[filled]) / sums.weight[filled], nan=np.inf)
        mean = sums.predicted[filled] / sums.weight[filled]
        low[filled], high[filled] = np.maximum(gap - reach, mean - 1.0), np.minimum(gap + reach, mean)
        return low, high
    least, most = _mean_events(sums, filled, weighted=how.weighted, tests=number, level=level)
    low[filled] = (sums.predicted[filled] - most) / sums.weight[filled]
    high[filled] = (sums.predicted[filled] - least) / sums.weight[filled]
    return low, high


def total_reach(pair: Pair, expected: Floats) -> float:
    """Half-width of the 95% interval of Σw·y around what is expected of each row, by cluster where there are any."""
    residual = pair.observed - expected
    if pair.cluster is None:
        noise = float(np.sum(residual * residual * (1.0 if pair.second is None else pair.second)))
        return adjusted_z(1) * math.sqrt(noise)
    if pair.first is not None:
        residual = residual * pair.first
    own = np.bincount(pair.cluster, residual)[np.bincount(pair.cluster) > 0]
    # Few clusters: Student's t, and no less noise than rows that have nothing to do with each other would have.
    noise = max(float(np.sum(own * own)) * own.size / max(own.size - 1.0, 1.0), float(np.sum(residual * residual)))
    return float(-special.stdtrit(max(own.size - 1.0, 1.0), 0.025)) * math.sqrt(noise)


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
    low = np.where(real, np.where(gap > 0.0, np.maximum(low, least), low), np.minimum(low, 0.0))
    high = np.where(real, np.where(gap < 0.0, np.minimum(high, -least), high), np.maximum(high, 0.0))
    return low, high


def _mean_events(
    sums: Sums, filled: NDArray[np.bool_], *, weighted: bool, tests: int, level: float
) -> tuple[Floats, Floats]:
    """Give bounds of the expected Σw·y of the filled cells."""
    scale = sums.weight2[filled] / sums.weight[filled] if weighted else np.ones(int(filled.sum()))
    size, mean = sums.weight[filled] / scale, sums.predicted[filled] / scale
    events = np.clip(sums.observed[filled] / scale, 0.0, size)
    if not weighted or equal_weights(sums)[filled].all():
        events, size = np.rint(events), np.rint(size)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (sums.variance[filled] / scale**2) / (mean * (1.0 - mean / size))
    # Certain predictions say nothing of the noise once they are wrong: take the binomial's.
    ratio = np.where(np.isfinite(ratio) & (ratio > 1e-6), ratio, 1.0)
    ratio = ratio if weighted else np.minimum(ratio, 1.0)
    z = adjusted_z(tests, level)
    least, most = _wilson(events, size, ratio, z)
    small = np.minimum(events, size - events) <= NORMAL_EVENTS
    small &= ratio <= 1.0 + 1e-9
    if small.any():
        half = 0.5 * level / tests
        parts = (events[small], size[small], np.minimum(ratio[small], 1.0), (mean > 0.5 * size)[small])
        least[small], most[small] = _inverted(*parts, half, (least[small], most[small]))
    return least * scale, most * scale


def _wilson(events: Floats, size: Floats, ratio: Floats, z: float) -> tuple[Floats, Floats]:
    """Solve (k ∓ ½ - λ)² = z²ρλ(1 - λ/n) for λ."""
    bounds = []
    for side in (-1.0, 1.0):
        count = np.clip(events + 0.5 * side, 0.0, size)
        square = z * z * ratio
        root = np.sqrt(np.maximum(square * square + 4.0 * square * count * (1.0 - count / size), 0.0))
        bounds.append((2.0 * count + square + side * root) / (2.0 * (1.0 + square / size)))
    at_zero, at_all = events <= 0.0, events >= size
    return np.where(at_zero, 0.0, np.maximum(bounds[0], 0.0)), np.where(at_all, size, np.minimum(bounds[1], size))


def _inverted(
    events: Floats, size: Floats, ratio: Floats, swapped: NDArray[np.bool_], half: float, start: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Solve P(K >= k) = half for the lower and P(K <= k) = half for the upper bound of λ, from Wilson's bounds on.

    Each is matched on the side that is rarer for the predictions, whatever λ is, as in the cell's test.
    """

    def tail(mean: Floats, cells: Integers, *, upper: bool) -> Floats:
        n = size[cells]
        variance = ratio[cells] * mean * (1.0 - mean / n)
        return binomial_tail(events[cells], mean, variance, n, swapped[cells], upper=upper)

    least, most = np.zeros(size.size), size * 1.0
    some, spare = np.flatnonzero(events > 0.0), np.flatnonzero(events < size)
    least[some] = _root(partial(tail, upper=True), some, np.zeros(some.size), events[some], half, start[0][some])
    most[spare] = _root(partial(tail, upper=False), spare, size[spare] * 1.0, events[spare], half, start[1][spare])
    return least, most


def _root(tail: Tail, cells: Integers, outer: Floats, inner: Floats, half: float, start: Floats) -> Floats:
    """Find where each cell's tail equals `half`, between `outer` (tail below it) and `inner` (above).

    The secant rule on sqrt(-log(tail)), which for a normal is a straight line far out; halving where it leaves the
    bracket, and in the end. The first secant supposes a tail of one half at `inner`. Cells leave as they settle.
    """
    answer = outer.copy()
    live = np.arange(cells.size)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        inner = np.clip(inner, 1e-12, None)
        target = np.sqrt(-np.log(half))
        last, last_height = inner, np.full(cells.size, np.sqrt(np.log(2.0)) - target)
        guess = _between(start, outer, inner)
        for step in range(STEPS):
            logarithm = np.log(tail(guess, cells[live]))
            height = np.sqrt(np.maximum(-logarithm, 0.0)) - target
            beyond = height > 0.0
            outer, inner = np.where(beyond, guess, outer), np.where(beyond, inner, guess)
            off = np.abs(logarithm - np.log(half))
            answer[live] = np.where(off < SETTLED, guess, outer)
            keep = (off >= SETTLED) & (np.abs(outer - inner) > SETTLED * np.maximum(outer, inner))
            if not keep.any():
                break
            secant = guess - height * (guess - last) / (height - last_height)
            last, last_height = guess[keep], height[keep]
            live, outer, inner, secant = live[keep], outer[keep], inner[keep], secant[keep]
            guess = _between(secant if step < STRAIGHT else np.full(live.size, np.nan), outer, inner)
    return answer


def _between(guess: Floats, outer: Floats, inner: Floats) -> Floats:
    """The guess where it lies inside the bracket, else the bracket's middle."""
    inside = (guess > np.minimum(outer, inner)) & (guess < np.maximum(outer, inner))
    return np.where(inside, guess, 0.5 * (outer + inner))

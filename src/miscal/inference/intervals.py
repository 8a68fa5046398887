"""Intervals of the cells' gaps, simultaneous over all cells tested because findings are selected."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from miscal.data.errors import refusal
from miscal.inference.adjust import adjusted_z, simultaneous_level
from miscal.inference.cells import Null, equal_weights
from miscal.inference.matched import NORMAL_EVENTS, binomial_tails
from miscal.inference.residual import cluster_blocks
from miscal.inference.sums import CellRows, CellSums, Floats, Integers

Tail = Callable[[Floats, Integers], Floats]

STEPS = 80
SETTLED = 1e-9  # relative, of a bound or of its tail


class GapIntervals(NamedTuple):
    """Lower and upper bounds of each cell's gap, predicted minus observed, per unit of weight."""

    low: Floats
    high: Floats


def cell_gap_intervals(
    sums: CellSums,
    *,
    weighted: bool,
    tests: int | None = None,
    level: float = 0.05,
    null: Null = "bernoulli",
    rows: CellRows | None = None,
) -> GapIntervals:
    """Give intervals of the gaps that hold all at once with probability ``1 - level`` (Bonferroni over `tests`).

    The expected number of events is the unknown: the interval holds every mean λ that the cell's test would not reject,
    a binomial matched to λ and to the variance ``ρλ(1 - λ/n)``, ρ being the ratio that the predictions
    have, ``σ²/(μ(1 - μ/n))`` (1 for equal probabilities: Clopper and Pearson). It agrees with the test at λ = μ. Above
    200 events on both sides the same by Wilson's formula. Weighted: in units of Σw²/Σw, n the Kish size.
    "residual": gap ± z·sqrt(ΣD²)/Σw, D a row's or a cluster's residual. Empty cells: NaN.

    Parameters
    ----------
    tests
        Cells tested in the call or the audit; the filled cells when None.

    Examples
    --------
    >>> from miscal.inference.sums import Sums
    >>> one = np.ones(1)
    >>> none = Sums(100 * one, 100 * one, 100 * one, 2 * one, 0 * one, 1.96 * one, 0.04 * one)
    >>> low, high = cell_gap_intervals(none, weighted=False)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([-0.0162], [0.02])
    """
    if null not in {"bernoulli", "residual"}:
        raise refusal('must be "bernoulli" or "residual"', where="'null'", got=f"got {null!r}")
    filled = sums.weight > 0.0
    number = max(int(filled.sum()), 1) if tests is None else tests
    low, high = np.full(filled.size, np.nan), np.full(filled.size, np.nan)
    if null == "residual":
        noise = sums.residual2
        if rows is not None:
            noise = np.where(np.diff(rows.offsets) > 0, cluster_blocks(rows).squares(), noise)
        gap = (sums.predicted[filled] - sums.observed[filled]) / sums.weight[filled]
        reach = adjusted_z(number, level) * np.sqrt(noise[filled]) / sums.weight[filled]
        low[filled], high[filled] = gap - reach, gap + reach
        return GapIntervals(low, high)
    least, most = _mean_events(sums, filled, weighted=weighted, tests=number, level=level)
    low[filled] = (sums.predicted[filled] - most) / sums.weight[filled]
    high[filled] = (sums.predicted[filled] - least) / sums.weight[filled]
    return GapIntervals(low, high)


def _mean_events(
    sums: CellSums, filled: NDArray[np.bool_], *, weighted: bool, tests: int, level: float
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
        half = simultaneous_level(tests, level) / 2.0
        parts = (events[small], size[small], np.minimum(ratio[small], 1.0), (mean > 0.5 * size)[small])
        least[small], most[small] = _inverted(*parts, half)
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
    events: Floats, size: Floats, ratio: Floats, swapped: NDArray[np.bool_], half: float
) -> tuple[Floats, Floats]:
    """Solve P(K >= k) = half for the lower and P(K <= k) = half for the upper bound of λ.

    Each is matched on the side that is rarer for the predictions, whatever λ is, as in the cell's test.
    """

    def tail(side: int) -> Tail:
        def function(mean: Floats, cells: Integers) -> Floats:
            n = size[cells]
            variance = ratio[cells] * mean * (1.0 - mean / n)
            return binomial_tails(events[cells], mean, variance, n, swapped[cells])[side]

        return function

    least, most = np.zeros(size.size), size * 1.0
    some, spare = np.flatnonzero(events > 0.0), np.flatnonzero(events < size)
    least[some] = _root(tail(1), some, np.zeros(some.size), events[some], half)
    most[spare] = _root(tail(0), spare, size[spare] * 1.0, events[spare], half)
    return least, most


def _root(tail: Tail, cells: Integers, outer: Floats, inner: Floats, half: float) -> Floats:
    """Find where each cell's tail equals `half`, between `outer` (tail below it) and `inner` (above).

    Regula falsi on the logarithm of the tail (Illinois variant: an end that stays counts half), with bisection while an
    end's logarithm is infinite and every fourth step, so that it cannot stall. Cells leave as they settle.
    """
    answer = outer.copy()
    live = np.arange(cells.size)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        inner = np.clip(inner, 1e-12, None)
        low, high = np.full(cells.size, -np.inf), np.full(cells.size, np.inf)
        for step in range(STEPS):
            straight = (outer * high - inner * low) / (high - low)
            guess = np.where(np.isfinite(straight) & (step % 4 != 3), straight, 0.5 * (outer + inner))
            height = np.log(tail(guess, cells[live]) / half)
            beyond = height < 0.0
            low, high = np.where(beyond, height, 0.5 * low), np.where(beyond, 0.5 * high, height)
            outer, inner = np.where(beyond, guess, outer), np.where(beyond, inner, guess)
            answer[live] = np.where(np.abs(height) < SETTLED, guess, outer)
            keep = (np.abs(height) >= SETTLED) & (np.abs(outer - inner) > SETTLED * np.maximum(outer, inner))
            if not keep.any():
                break
            live, outer, inner, low, high = live[keep], outer[keep], inner[keep], low[keep], high[keep]
    return answer

"""Is one cell's gap beyond noise? Two-sided p-values from a cell's sums, better ones where its rows are at hand.

Tails of a sum of independent 0/1 draws come from two numbers, its mean and its variance. The matched binomial has
``N = μ²/(μ - σ²)`` trials (not an integer in general) of probability ``1 - σ²/μ``: the same mean and variance. It is
matched on the rarer side, so swapping the outcomes changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from miscal.data.libraries import special
from miscal.inference.residual import STOP, TOO_SMALL, residual_p_values
from miscal.inference.sums import EFFECTIVE_EVENTS, CellRows, Floats, Integers, Judging, Sums, effective_events, seed_of
from miscal.kernels.simulate import exact_tails, simulated_cell_tails

NORMAL_EVENTS = 200.0  # expected on both sides, above which the normal takes over
NORMAL_REACH = 3.0  # but only this many standard deviations out: farther, skewness is a large factor


class Matched(NamedTuple):
    """The matched binomial of each cell: trials, probability, complement, and where the outcomes were swapped."""

    trials: Floats
    probability: Floats
    complement: Floats
    swapped: NDArray[np.bool_]
    poisson: NDArray[np.bool_]


def match(mean: Floats, variance: Floats, size: Floats, swapped: NDArray[np.bool_] | None = None) -> Matched:
    """Match a binomial to means and variances of sums of `size` 0/1 draws; variances must be positive.

    It is matched to the complement where `swapped`: where the mean is above half, unless told.
    """
    swapped = mean > 0.5 * size if swapped is None else swapped
    rare = np.where(swapped, size - mean, mean)
    squares = rare - variance  # Σp², or Σ(1-p)² where swapped
    poisson = squares <= 1e-10 * rare
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        trials = np.where(poisson, np.inf, rare * rare / np.where(poisson, 1.0, squares))
        # Cauchy-Schwarz: N <= n, with equality when all probabilities are equal; undo the rounding there.
        trials = np.where(~poisson & (trials > size * (1.0 - 1e-9)), size, trials)
        probability = np.where(poisson, 0.0, rare / trials)
        complement = np.where(trials == size, (size - rare) / size, variance / rare)
    return Matched(trials, probability, complement, swapped, poisson)


def tails(events: Floats, mean: Floats, variance: Floats, size: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Give P(K <= k), P(K >= k) at k = `events`, and where the normal was used; `variance` must be positive."""
    swapped = mean > 0.5 * size
    rare = np.where(swapped, size - mean, mean)
    count = np.where(swapped, size - events, events)
    deviation = np.sqrt(variance)
    normal = (rare > NORMAL_EVENTS) & (np.abs(count - rare) <= NORMAL_REACH * deviation)
    lower, upper = np.empty_like(mean), np.empty_like(mean)
    far = ~normal
    lower[normal], upper[normal] = _normal_tails(count[normal], rare[normal], variance[normal])
    lower[far], upper[far] = _binomial_tails(count[far], rare[far], variance[far], size[far])
    return np.where(swapped, upper, lower), np.where(swapped, lower, upper), normal


def binomial_tail(
    events: Floats, mean: Floats, variance: Floats, size: Floats, swapped: NDArray[np.bool_], *, upper: bool
) -> Floats:
    """Give P(K >= k), or P(K <= k), by the matched binomial alone, matched to the complement where `swapped`."""
    rare = np.where(swapped, size - mean, mean)
    count = np.where(swapped, size - events, events)
    made = np.empty_like(mean)
    for cells, side in ((np.flatnonzero(~swapped), upper), (np.flatnonzero(swapped), not upper)):
        if cells.size:
            parts = (values[cells] for values in (count, rare, variance, size))
            made[cells] = _binomial_tails(*parts, lower=not side, upper=side)[int(side)]
    return made


def _normal_tails(count: Floats, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Normal with continuity correction and one skewness term (that of the matched binomial)."""
    deviation = np.sqrt(variance)
    skewness = (2.0 * variance / mean - 1.0) / deviation  # (1 - 2π)/sd with 1 - π = σ²/μ

    def upper(edge: Floats) -> Floats:
        z = (edge - mean) / deviation
        density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        return np.asarray(special.ndtr(-z) + skewness * (z * z - 1.0) * density / 6.0)

    return 1.0 - upper(count + 0.5), upper(count - 0.5)


def _binomial_tails(
    count: Floats, mean: Floats, variance: Floats, size: Floats, *, lower: bool = True, upper: bool = True
) -> tuple[Floats, Floats]:
    """Both tails; one that is not asked for is empty."""
    fit = match(mean, variance, size, np.zeros(mean.size, dtype=bool))
    poisson = fit.poisson
    trials = np.where(poisson, size + 1.0, fit.trials)
    below = above = np.empty(0)
    if lower:
        inside = count < trials
        safe = np.where(inside, count, 0.0)
        below = np.where(inside, special.betainc(trials - safe, safe + 1.0, fit.complement), 1.0)
        if poisson.any():
            below = np.where(poisson, special.gammaincc(count + 1.0, mean), below)
    if upper:
        # Towards N the matched binomial runs out of mass, though as many events as rows can happen: keep N clear of k.
        # A larger N of the same mean has heavier tails, so this errs on the safe side, and changes nothing elsewhere.
        reach = np.maximum(count, 1.0)
        clear = np.maximum(trials, np.minimum(size, reach + 2.0 * np.sqrt(reach) + 2.0))
        above = np.where(count > 0.0, special.betainc(reach, clear - reach + 1.0, np.minimum(mean / clear, 1.0)), 1.0)
        if poisson.any():
            above = np.where(poisson, np.where(count > 0.0, special.gammainc(reach, mean), 1.0), above)
    return np.asarray(below), np.asarray(above)


EXACT_ROWS = 200  # trials up to which a cell is convolved
CELL_DRAWS = 9_999
ROW_DRAWS = 200_000_000  # rows times draws of one cell


@dataclass(frozen=True)
class CellPValues:
    """P-values of cells (NaN where none can be given) and in words how each was found."""

    p_value: Floats
    method: NDArray[np.object_]


def cell_p_values(sums: Sums, how: Judging, draws: int = CELL_DRAWS) -> CellPValues:
    """Give the two-sided p-value of each cell's gap, ``2·min(P(K <= k), P(K >= k))`` capped at 1.

    Parameters
    ----------
    sums
        Sums per cell.
    draws
        For the cells that are simulated.

    Notes
    -----
    Unweighted: exact by convolution for cells of at most 200 rows at hand, else the matched binomial, else (above 200
    expected events on both sides and within three standard deviations) the normal with a skewness term. Weighted: a
    cell whose weights are all equal is treated as unweighted; else the normal from 25 effective events, else simulation
    if its rows are at hand, else NaN, "too small to judge". An empty cell has NaN. Certain predictions (all 0 or 1)
    give 1 when they hold and 0 when not.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.inference.sums import Judging, Sums
    >>> one = np.ones(1)
    >>> cells = Sums(50 * one, 50 * one, 50 * one, 0.25 * one, 3 * one, 0.24875 * one, 3 * one)
    >>> cell_p_values(cells, Judging()).p_value.round(4).tolist()
    [0.0041]
    """
    made = CellPValues(np.full(sums.rows.size, np.nan), np.full(sums.rows.size, "empty", dtype=object))
    filled = sums.weight > 0.0
    if how.null == "residual":
        found = residual_p_values(sums, how, draws)
        made.p_value[filled], made.method[filled] = (part[filled] for part in found)
        return made
    equal = filled if not how.weighted else filled & equal_weights(sums)
    _unweighted(sums, np.flatnonzero(equal), how.rows, made)
    if not equal[filled].all():
        _weighted(sums, np.flatnonzero(filled & ~equal), how.rows, draws, seed_of(how.random_state), made)
    return made


def two_sided(lower: Floats, upper: Floats) -> Floats:
    """Double the smaller tail, at most 1."""
    return np.minimum(1.0, 2.0 * np.minimum(lower, upper))


def equal_weights(sums: Sums) -> NDArray[np.bool_]:
    """Tell which cells hold rows of one weight only, so that they can be treated as unweighted."""
    # (Σw)² = n Σw² only when all weights in the cell are equal (Cauchy-Schwarz).
    with np.errstate(divide="ignore", invalid="ignore"):
        size = sums.weight**2 / sums.weight2
        events = sums.observed * sums.weight / sums.weight2
        same = np.abs(size - sums.rows) <= 1e-9 * sums.rows
        return same & (np.abs(events - np.rint(events)) <= 1e-6)


def _unweighted(sums: Sums, cells: Integers, rows: CellRows | None, made: CellPValues) -> None:
    if cells.size == 0:
        return
    p_value, method = made.p_value, made.method
    scale = sums.weight2[cells] / sums.weight[cells]
    size = np.rint(sums.weight[cells] / scale)
    mean = sums.predicted[cells] / scale
    variance = sums.variance[cells] / scale**2
    events = np.rint(sums.observed[cells] / scale)
    certain = variance <= 1e-13 * size
    held = np.abs(events - mean) <= 1e-9 * np.maximum(1.0, size)
    p_value[cells] = np.where(held, 1.0, 0.0)
    method[cells] = "certain predictions"
    exact = ~certain & (size <= EXACT_ROWS) if rows is not None else np.zeros(cells.size, dtype=bool)
    matched = ~certain & ~exact
    if rows is not None and exact.any():
        lower, upper = np.empty((2, int(exact.sum())))
        counts = events[exact].astype(np.int64)
        exact_tails(rows.offsets, rows.predicted, rows.repeats(), counts, cells[exact], lower, upper)
        p_value[cells[exact]] = two_sided(lower, upper)
        method[cells[exact]] = "exact"
    if matched.any():
        lower, upper, normal = tails(events[matched], mean[matched], variance[matched], size[matched])
        p_value[cells[matched]] = two_sided(lower, upper)
        method[cells[matched]] = np.where(normal, "normal", "matched binomial")


def _weighted(
    sums: Sums, cells: Integers, rows: CellRows | None, draws: int, seed: np.uint64, made: CellPValues
) -> None:
    if cells.size == 0:
        return
    p_value, method = made.p_value, made.method
    off = np.abs(sums.observed[cells] - sums.predicted[cells])
    variance = sums.variance[cells]
    certain = variance <= 1e-13 * sums.weight2[cells]
    large = ~certain & (effective_events(sums)[cells] >= EFFECTIVE_EVENTS)
    small = ~certain & ~large
    held = off <= 1e-9 * sums.weight[cells]
    with np.errstate(divide="ignore", invalid="ignore"):
        z = off / np.sqrt(variance)
    p_value[cells] = np.where(certain, np.where(held, 1.0, 0.0), np.where(large, 2.0 * special.ndtr(-z), np.nan))
    method[cells] = np.where(certain, "certain predictions", np.where(large, "normal", TOO_SMALL))
    if rows is not None and small.any():
        chosen = cells[small]
        p_value[chosen] = _simulated(rows, chosen, sums.observed[chosen], sums.weight[chosen], draws, seed)
        method[chosen] = "simulation"


def _simulated(
    rows: CellRows, cells: Integers, observed: Floats, weight: Floats, draws: int, seed: np.uint64
) -> Floats:
    weights = rows.weight if rows.weight is not None else np.ones(rows.rows)
    counts = np.zeros((cells.size, 3), dtype=np.int64)
    # A cell of very many rows gets fewer draws: a p-value at the end of its scale is then larger, never smaller.
    most = np.clip(ROW_DRAWS // np.maximum(np.diff(rows.offsets)[cells], 1), 99, max(draws, 99))
    most = np.minimum(most, draws)
    sorted_rows = rows.offsets, rows.predicted, weights, rows.repeats()
    simulated_cell_tails(*sorted_rows, observed, 1e-12 * weight, cells, most, STOP, seed, counts)
    below, above, made = (counts[:, column].astype(np.float64) for column in range(3))
    return two_sided((1.0 + below) / (1.0 + made), (1.0 + above) / (1.0 + made))

"""Two-sided p-values of the gap of each cell, from its sums, and sharper ones where its rows are at hand.

Tails of a sum of independent 0/1 draws come from two numbers, its mean and its variance. The matched binomial has
``N = μ²/(μ - σ²)`` trials (not an integer in general) of probability ``1 - σ²/μ``: the same mean and variance. It is
matched on the rarer side, so swapping the outcomes changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miscal.codes.inference import Method, Null
from miscal.data.libraries import special
from miscal.kernels.simulate import exact_tails
from miscal.stats.cell_sums import (
    EFFECTIVE_EVENTS,
    Bools,
    CellRows,
    CellSums,
    CellTestSettings,
    Floats,
    Integers,
    effective_events,
    ignore_warnings,
)
from miscal.stats.sign_flip import residual_p_values, simulated_tail_counts

NORMAL_EVENTS = 200.0  # expected on both sides, above which the normal takes over
NORMAL_REACH = 3.0  # but only this many standard deviations out: farther, skewness is a large factor


def matched_trials(rare: Floats, variance: Floats, size: Floats) -> Floats:
    """Trials of the binomial matched to means and variances of sums of `size` 0/1 draws, those of the rarer side."""
    squares = rare - variance  # Σp²
    with ignore_warnings():
        trials = rare * rare / squares
        # Cauchy-Schwarz: N <= n, with equality when all probabilities are equal; undo the rounding there.
        return np.where((squares > 0.0) & (trials < size * (1.0 - 1e-9)), trials, size)


def both_tails(cells: Iterable[np.ndarray]) -> tuple[Floats, Floats, Bools]:
    """Give P(K <= k), P(K >= k) at k = `events`, and where the normal was used; `variance` must be positive.

    cells : events, mean, variance and size, an array each
    """
    events, mean, variance, size = cells
    swapped = mean > 0.5 * size
    rare = np.where(swapped, size - mean, mean)
    normal = (rare > NORMAL_EVENTS) & (np.abs(events - mean) <= NORMAL_REACH * np.sqrt(variance))
    lower, upper = np.empty((2, mean.size))
    k, mu, sigma2 = events[normal], mean[normal], variance[normal]
    skewed = np.where(swapped, -1.0, 1.0)[normal] * (2.0 * sigma2 / rare[normal] - 1.0)
    lower[normal] = 1.0 - _normal_tail(k + 0.5, mu, sigma2, skewed)
    upper[normal] = _normal_tail(k - 0.5, mu, sigma2, skewed)
    other = ~normal
    far_cells = [values[other] for values in (*cells, swapped)]
    lower[other], upper[other] = binomial_tail(far_cells, upper=False), binomial_tail(far_cells, upper=True)
    return lower, upper, normal


def _normal_tail(edge: Floats, mean: Floats, variance: Floats, skewed: Floats) -> Floats:
    """Normal with one skewness term, that of the matched binomial: (1 - 2π)/sd with 1 - π = σ²/μ."""
    deviation = np.sqrt(variance)
    z = (edge - mean) / deviation
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return np.asarray(special.ndtr(-z) + skewed / deviation * (z * z - 1.0) * density / 6.0)


def binomial_tail(cells: Iterable[np.ndarray], *, upper: bool | Bools) -> Floats:
    """Give P(K >= k), or P(K <= k), by the matched binomial alone, matched to the complement where `swapped`.

    cells : events, mean, variance, size and swapped (0 or 1), an array each
    """
    events, mean, variance, size, side = cells
    swapped = side > 0
    count, rare = np.where(swapped, size - events, events), np.where(swapped, size - mean, mean)
    trials = matched_trials(rare, variance, size)
    from_above = swapped != upper
    from_below = ~from_above
    tail = np.empty(from_above.size)
    tail[from_above] = _upper_tail(count[from_above], rare[from_above], trials[from_above], size[from_above])
    tail[from_below] = _lower_tail(count[from_below], rare[from_below], trials[from_below])
    return tail


MANY_TRIALS = 1e6  # beyond it the chance of no event in a trial has too few digits for the quicker way


def _lower_tail(count: Floats, mean: Floats, trials: Floats) -> Floats:
    inside = count < trials
    safe = np.where(inside, count, 0.0)
    above, rest, rate = safe + 1.0, trials - safe, mean / trials
    tail = special.betainc(rest, above, 1.0 - rate)
    many = trials > MANY_TRIALS
    if many.any():
        tail[many] = special.betaincc(above[many], rest[many], rate[many])
    return np.where(inside, tail, 1.0)


def _upper_tail(count: Floats, mean: Floats, trials: Floats, size: Floats) -> Floats:
    # Towards N the matched binomial runs out of mass, though as many events as rows are possible: keep N clear of k.
    # A larger N of the same mean has heavier tails, so this errs on the safe side, and changes nothing elsewhere.
    reach = np.maximum(count, 1.0)
    clear = np.maximum(trials, np.minimum(size, reach + 2.0 * np.sqrt(reach) + 2.0))
    tail = special.betainc(reach, clear - reach + 1.0, np.minimum(mean / clear, 1.0))
    return np.where(count > 0.0, tail, 1.0)


EXACT_ROWS = 200  # trials up to which a cell is convolved
CELL_DRAWS = 9_999
ROW_DRAWS = 200_000_000  # rows times draws of one cell


@dataclass(frozen=True)
class CellPValues:
    """P-values of cells (NaN where none can be given), and the `Method` of each."""

    p_value: Floats
    method: NDArray[np.object_]


def cell_p_values(sums: CellSums, settings: CellTestSettings, draws: int = CELL_DRAWS) -> CellPValues:
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
    if its rows are at hand, else NaN, `Method.TOO_SMALL`. An empty cell has NaN. Certain predictions (all 0 or 1)
    give 1 when they hold and 0 when not.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.stats.cell_sums import CellTestSettings, CellSums
    >>> ones = np.ones(1)
    >>> cells = CellSums(50 * ones, 50 * ones, 50 * ones, 0.25 * ones, 3 * ones, 0.24875 * ones, 3 * ones)
    >>> cell_p_values(cells, CellTestSettings()).p_value.round(4).tolist()
    [0.0041]
    """
    p_value = np.full(sums.rows.size, np.nan)
    method = np.full(sums.rows.size, Method.EMPTY, object)
    filled, rows, size_of_gap = sums.weight > 0.0, settings.rows, np.abs(sums.off)
    if settings.null == Null.RESIDUAL:
        p_value[filled], method[filled] = (part[filled] for part in residual_p_values(sums, settings, draws))
        return CellPValues(p_value, method)
    certain = filled & (sums.variance <= 1e-13 * sums.weight2)
    method[certain] = Method.CERTAIN
    p_value[certain] = (size_of_gap <= 1e-9 * sums.weight)[certain]
    live = filled & ~certain
    equal = equal_weights(sums) if settings.weighted else filled
    _test_equal_weights(sums, np.flatnonzero(live & equal), rows, p_value, method)
    large = effective_events(sums) >= EFFECTIVE_EVENTS
    normal, small = (np.flatnonzero(live & ~equal & of_size) for of_size in (large, ~large))
    method[normal] = Method.NORMAL
    method[small] = Method.TOO_SMALL if rows is None else Method.SIMULATION
    p_value[normal] = 2.0 * special.ndtr(-size_of_gap[normal] / np.sqrt(sums.variance[normal]))
    if rows is not None and small.size:
        # A cell of very many rows gets fewer draws: a p-value at the end of its scale is then larger, never smaller.
        size = np.maximum(np.diff(rows.offsets)[small], 1)
        max_draws = np.clip(ROW_DRAWS // size, 99, draws)
        values = rows.sampling_weight, np.zeros(rows.rows), rows.predicted, rows.trials()
        observed, slack = sums.observed[small], 1e-12 * sums.weight[small]
        ends = observed + slack, observed - slack
        below, above, n_draws = simulated_tail_counts(
            (rows.offsets, *values), *ends, small, max_draws, settings.seed
        )
        p_value[small] = two_sided((1.0 + below) / (1.0 + n_draws), (1.0 + above) / (1.0 + n_draws))
    return CellPValues(p_value, method)


def two_sided(lower: Floats, upper: Floats) -> Floats:
    """Double the smaller tail, at most 1."""
    return np.minimum(1.0, 2.0 * np.minimum(lower, upper))


def equal_weights(sums: CellSums) -> Bools:
    """Which cells hold rows of one weight only, so that they can be treated as unweighted."""
    # (Σw)² = n Σw² only when all weights in the cell are equal (Cauchy-Schwarz).
    with ignore_warnings():
        size = sums.weight**2 / sums.weight2
        events = sums.observed * sums.weight / sums.weight2
        same = np.abs(size - sums.rows) <= 1e-9 * sums.rows
        return same & (np.abs(events - np.rint(events)) <= 1e-6)


def _test_equal_weights(
    sums: CellSums, cells: Integers, rows: CellRows | None, p_value: Floats, method: NDArray[np.object_]
) -> None:
    """Fill in the p-values of cells of equal weights: exact ones of small cells whose rows are at hand."""
    chosen = sums.take(cells)
    scale = chosen.weight2 / chosen.weight
    size, events = np.rint(chosen.weight / scale), np.rint(chosen.observed / scale)
    exact = (size <= EXACT_ROWS) & (rows is not None)
    if rows is not None and exact.any():
        small, counts = cells[exact], events[exact].astype(np.int64)
        lower, upper = np.empty((2, small.size))
        exact_tails(rows.offsets, rows.predicted, rows.trials(), counts, small, lower, upper)
        p_value[small], method[small] = two_sided(lower, upper), Method.EXACT
    large = cells[~exact]
    units = events, chosen.predicted / scale, chosen.variance / scale**2, size
    lower, upper, normal = both_tails([values[~exact] for values in units])
    p_value[large], method[large] = two_sided(lower, upper), Method.MATCHED_BINOMIAL
    method[large[normal]] = Method.NORMAL


def rare_outcome_p(size: float, rare: float, mean: float, variance: float) -> float:
    """P-value of so many outcomes that are rare: twice the chance of at least as many."""
    if rare <= mean:
        return 1.0
    if variance <= 0:
        return 0.0
    trials = np.rint(size)
    cell = np.array([np.rint(rare), mean, variance, trials, mean > 0.5 * trials])
    return 2.0 * float(binomial_tail(cell[:, None], upper=True)[0])


def poisson_upper_tail(events: Floats, mean: Floats) -> Floats:
    """P(K >= events) of Poisson counts; `events` need not be whole numbers.

    >>> poisson_upper_tail(np.array([3.0]), np.array([1.0])).round(4).tolist()
    [0.0803]
    """
    return np.asarray(special.gammainc(events, mean))

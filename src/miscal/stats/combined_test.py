"""One p-value of several complementary tests, all read off the same draws of the cells' sums.

A result's p-value answers "is there anything here?", and no single statistic sees whatever can be there. The inverses
of the tests' own p-values are added, which the smallest dominates, and the sum is compared with the same of every draw:
the draws correct for the number of tests. (The smallest alone is a little weaker where several tests see
the same error.) A test that no other one comes near to counts for several of those that see much the same
(`TEST_WEIGHTS`, found by `studies/power.py`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from miscal.codes.inference import PartialTest
from miscal.data.libraries import special
from miscal.stats.cell_sums import CellSums, CellTestSettings, Floats, Integers, ignore_warnings, run_starts
from miscal.stats.kuiper import cumulative_ranges
from miscal.stats.metric_null import PooledError, Statistic, null_statistics
from miscal.stats.null_draws import cell_draws

MAX_PIECES = 200  # of equal information, into which a key is cut
# Polynomials along a key, the constant among them.
POLYNOMIAL_DEGREES = {
    PartialTest.TOTAL: 1,
    PartialTest.TREND: 2,
    PartialTest.BEND: 3,
    PartialTest.SMOOTH_CURVE: 5,
}
LARGEST_STATISTIC = 1e300  # a statistic that no draw comes near, still a number

# 1 for every other test.
TEST_WEIGHTS = {
    PartialTest.LEVEL_SUM: 4.0,
    PartialTest.TREND: 4.0,
    PartialTest.BEND: 2.0,
    PartialTest.SMOOTH_CURVE: 2.0,
}


@dataclass(frozen=True)
class CombinedTest:
    """The p-value of all tests together, and of each by itself.

    Attributes
    ----------
    p_value : float
        Of all tests together.
    parts : mapping of PartialTest to float
        The p-value of each test by itself.
    draws : int
        Draws of the cells that the tests have in common.
    bound : bool
        Whether no draw reached the data, so that the p-value is only a bound.
    """

    p_value: float
    parts: Mapping[PartialTest, float]
    draws: int
    bound: bool


def draw_tests(
    sums: CellSums, tests: Mapping[PartialTest, Statistic], settings: CellTestSettings, draws: int
) -> Floats:
    """Some statistics of draws of the cells, (draws + 1, tests), and in the end those of the cells themselves."""
    with ignore_warnings():  # cells of nearly no variance
        drawn = null_statistics(cell_draws(sums, settings, draws), sums, tests.values(), draws)
        return np.vstack([drawn, [test(-sums.off[None])[0] for test in tests.values()]])


def combine_tests(
    names: Sequence[PartialTest], drawn: Floats, fine_p_values: Sequence[float] = ()
) -> CombinedTest:
    """Compare the inverses of some tests' p-values, added up, with those of draws of the cells.

    Parameters
    ----------
    names : sequence of PartialTest
        The tests.
    drawn : ndarray of shape (draws + 1, tests)
        What `draw_tests` gives of them.
    fine_p_values : sequence of float, default=()
        P-values of some of the tests by other means, finer than the draws. Where no draw reaches the data, the p-value
        is the smallest of them, times the number of tests, if that is below the resolution of the draws.

    Examples
    --------
    >>> ones = np.ones(2)
    >>> sums = CellSums(100 * ones, 100 * ones, 100 * ones, 20 * ones, 35 * ones, 16 * ones, 30 * ones)
    >>> tests = level_tests(sums, PooledError(1.0, sums.weight))
    >>> combine_tests([*tests], draw_tests(sums, tests, CellTestSettings(), 199)).p_value
    0.005
    """
    single_p = np.column_stack(
        [_shares_as_large(column) for column in np.minimum(drawn, LARGEST_STATISTIC).T]
    )
    shares = np.array([TEST_WEIGHTS.get(name, 1.0) for name in names])
    p_value = float(_shares_as_large(sum_of_inverses(single_p, shares))[-1])
    finer = len(names) * min([p for p in fine_p_values if not math.isnan(p)], default=math.inf)
    bound = p_value <= 1.5 / len(drawn)
    if bound and finer < p_value:
        p_value, bound = finer, False
    return CombinedTest(p_value, dict(zip(names, single_p[-1].tolist(), strict=True)), len(drawn) - 1, bound)


def sum_of_inverses(single_p: Floats, shares: Floats) -> Floats:
    """One number of the p-values of all tests, (draws, tests), the larger the more there is."""
    return (1.0 / single_p) @ shares


def _shares_as_large(values: Floats) -> Floats:
    """The share of values that are at least as large as each, up to rounding."""
    below = np.searchsorted(np.sort(values), values - 1e-9 * np.abs(values))
    return (values.size - below) / values.size


# ---- tests -----------------------------------------------------------------------------------------------------------
def level_tests(sums: CellSums, error: PooledError, *, binary: bool = True) -> dict[PartialTest, Statistic]:
    """Tests of cells without an order: their average error, their deviance, the largest of them, and all together."""
    scale = _cached_for_same_draws(_squared_deviations(sums, binary=binary))
    return {
        PartialTest.AVERAGE_ERROR: error,
        PartialTest.CHI_SQUARE: lambda residual: scale(residual).sum(axis=1),
        PartialTest.LARGEST_CELL: lambda residual: scale(residual).max(axis=1, initial=0.0),
        PartialTest.LEVEL_SUM: QuadraticTest.of(sums, np.ones((1, sums.rows.size))),
    }


def score_tests(
    pieces: "VariablePieces", error: PooledError, *, binary: bool = True
) -> dict[PartialTest, Statistic]:
    """Tests along the score: the error of its bins, Kuiper, and slope and intercept (on log-odds for events)."""
    mean = np.clip(pieces.sums.mean, 1e-9, 1.0 - 1e-9)
    odds = np.log(mean) - np.log1p(-mean) if binary else mean
    error = replace(error, weight=np.add.reduceat(pieces.sums.weight, pieces.starts))
    return {
        PartialTest.EXPECTED_ERROR: lambda residual: error(pieces.by_cell(residual)),
        PartialTest.KUIPER: cumulative_ranges,
        PartialTest.SLOPE_INTERCEPT: QuadraticTest.of(pieces.sums, np.stack([np.ones_like(odds), odds])),
    }


def variable_tests(
    pieces: "VariablePieces", *, missing: bool, binary: bool = True
) -> dict[PartialTest, Statistic]:
    """Tests along a variable: polynomials of low degree in the place along it, and the largest range.

    The last piece holds the missing values, where there are any; it is a range, and has no place.
    """
    sums = pieces.sums
    n_pieces = sums.rows.size - missing
    scale = _squared_deviations(
        sums.map(lambda values: np.add.reduceat(values, pieces.starts)), binary=binary
    )
    variance = sums.variance[:n_pieces]
    cumulative = np.cumsum(variance)
    position = (cumulative - 0.5 * variance) / max(cumulative[-1], 1e-300)
    polynomials = np.polynomial.legendre.legvander(
        2.0 * position - 1.0, min(max(POLYNOMIAL_DEGREES.values()), n_pieces) - 1
    ).T
    smooth = QuadraticTest.of(sums, np.pad(polynomials, ((0, 0), (0, int(missing)))))
    return {
        **{name: QuadraticTest(smooth.basis[:degrees]) for name, degrees in POLYNOMIAL_DEGREES.items()},
        PartialTest.LARGEST_RANGE: lambda residual: scale(pieces.by_cell(residual)).max(axis=1, initial=0.0),
    }


@dataclass(frozen=True)
class QuadraticTest:
    """The score test of some directions: squares of the residuals' components, scaled to be independent of each other.

    The directions are made orthogonal one after the other, so that the first k of them are a test by themselves.
    """

    basis: Floats  # (directions, cells)

    @classmethod
    def of(cls, sums: CellSums, directions: Floats) -> "QuadraticTest":
        """The test of directions (directions, cells), orthogonal with respect to the cells' variances."""
        scale = np.sqrt(np.maximum(sums.variance, 0.0))
        q, _ = np.linalg.qr((directions * scale).T)
        with ignore_warnings():
            return cls(np.ascontiguousarray(np.where(scale > 0.0, q.T / scale, 0.0)))

    def __call__(self, residual: Floats) -> Floats:
        """Of residuals (draws, cells)."""
        # Not a product of matrices: it would wake the threads of BLAS, which turn idly for longer than this takes.
        return np.asarray(sum(np.einsum("ij,j->i", residual, direction) ** 2 for direction in self.basis))

    def p_value(self, sums: CellSums) -> float:
        """Chi-square's, of the data."""
        return float(special.chdtrc(len(self.basis), self(-sums.off[None])[0]))


def _cached_for_same_draws(statistic: Statistic) -> Statistic:
    """The same, worked out once for the tests that read it off the same residuals."""
    last: list[Floats] = []

    def cached(residual: Floats) -> Floats:
        if not last or last[0] is not residual:
            last[:] = residual, statistic(residual)
        return last[1]

    return cached


def _squared_deviations(sums: CellSums, *, binary: bool) -> Statistic:
    """How far out each cell is, in standard deviations, squared; (draws, cells) in and out.

    Squared deviance residuals of events: as many standard deviations as the binomial's tail is far out. 0 where
    predictions are certain or the cell is empty.
    """
    if not binary:
        noise = np.maximum(sums.residual2, sums.variance)
        noise[noise <= 0.0] = np.inf
        return lambda residual: residual**2 / noise
    with ignore_warnings():
        unit = np.where(sums.weight > 0.0, sums.weight2 / sums.weight, 1.0)
        size, mean = sums.weight / unit, sums.predicted / unit
        spread = sums.variance / unit**2 / (mean * (1.0 - mean / size))
    spread = np.where(np.isfinite(spread) & (spread > 0.0), spread, np.nan)

    def of_side(events: Floats, expected: Floats) -> Floats:
        return np.where(events > 0.0, events * np.log(events / expected), 0.0)

    def deviance(residual: Floats) -> Floats:
        events = np.clip(residual / unit + mean, 0.0, size)
        with ignore_warnings():
            likelihood = of_side(events, mean) + of_side(size - events, size - mean)
            squared = 2.0 * likelihood / spread
        return np.nan_to_num(np.maximum(squared, 0.0), posinf=1e9)

    return deviance


# ---- pieces ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class VariablePieces:
    """A fine grid taken together into pieces of about equal information, none across the border of a cell.

    piece : of each cell of the grid;  starts : the first piece of each cell
    """

    sums: CellSums
    piece: Integers
    starts: Integers

    @classmethod
    def of(cls, grid: CellSums, cell: Integers) -> "VariablePieces":
        """From the sums of a grid, and the cell that each of its cells lies in (rising)."""
        cumulative = np.cumsum(grid.variance) - 0.5 * grid.variance
        share = np.floor(cumulative * (MAX_PIECES / max(grid.variance.sum(), 1e-300)))
        new = run_starts(cell, share)
        first = np.flatnonzero(new)
        sums = grid.map(lambda values: np.add.reduceat(values, first))
        starts = np.flatnonzero(run_starts(cell[first]))
        return cls(sums, np.cumsum(new) - 1, starts)

    def by_cell(self, residual: Floats) -> Floats:
        """Sums of the cells from those of the pieces, (draws, cells)."""
        return np.add.reduceat(residual, self.starts, axis=1)

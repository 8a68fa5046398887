"""What inference needs to know of cells: their sums, and, where they are at hand, their rows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miscal.aggregate.tally import Tally
from miscal.codes.inference import Null
from miscal.data.errors import refusing
from miscal.data.libraries import special
from miscal.data.target import TargetData

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

NORMAL_95 = 1.959963984540054
EFFECTIVE_EVENTS = 25.0  # on both sides, from which a weighted sum counts as normal
BINS = 15  # of predictions, of as many rows each
LEAST = 200  # rows of a bin


def unwarned() -> np.errstate:
    """Where empty cells are divided by nothing, and what comes of it means nothing or is passed over."""
    return np.errstate(all="ignore")


def run_starts(*keys: np.ndarray) -> Bools:
    """Whether each of some sorted rows is the first with its keys."""
    new: Bools = np.arange(keys[0].size) == 0
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return new


@dataclass(frozen=True)
class CellSums:
    """Sums per cell, an array each: rows, Σw, Σw², Σw·p, Σw·y, Σw²p(1-p), Σw²(y-p)²; a Tally has the same."""

    rows: Floats
    weight: Floats
    weight2: Floats
    predicted: Floats
    observed: Floats
    variance: Floats
    residual2: Floats

    @classmethod
    def of(cls, sums: "Tally | CellSums") -> "CellSums":
        """The sums of a tally as plain arrays."""
        return cls(*[np.asarray(getattr(sums, name), np.float64) for name in cls.__annotations__])

    @classmethod
    def joined(cls, every: Sequence["CellSums"]) -> "CellSums":
        """The cells of several, one after the other."""
        return cls(*map(np.concatenate, zip(*(vars(one).values() for one in every), strict=True)))

    def map(self, change: Callable[[Floats], Floats]) -> "CellSums":
        """The same change made to each of them."""
        return CellSums(*map(change, vars(self).values()))

    def take(self, cells: Any) -> "CellSums":
        """The sums of some cells (indices, a mask or a slice)."""
        return self.map(lambda values: values[cells])

    def cell(self, place: int) -> "CellSums":
        """The sums of one cell."""
        return self.take(slice(place, place + 1))

    @property
    def off(self) -> Floats:
        """Σw(p - y)."""
        return self.predicted - self.observed

    @property
    def mean(self) -> Floats:
        """The mean prediction of each cell, 0 where it is empty."""
        with unwarned():
            return np.nan_to_num(self.predicted / self.weight)


@dataclass(frozen=True, eq=False, kw_only=True)
class CellRows(TargetData):
    """The rows of cells, sorted by cell: cell c owns rows ``offsets[c]:offsets[c + 1]``."""

    offsets: Integers

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.offsets.size - 1)

    def codes(self) -> Integers:
        """Give the cell of each row."""
        return np.repeat(np.arange(self.cells), np.diff(self.offsets))

    def rarer_events(self) -> Floats:
        """Give the outcomes of the rarer side that happened in each cell."""
        codes, times = self.codes(), self.repeats().astype(np.float64)
        events = np.bincount(codes, times * self.observed, self.cells)
        return np.asarray(np.minimum(events, np.bincount(codes, times, self.cells) - events))

    def residuals(self) -> Floats:
        """Give w(y - p) of each row."""
        return (self.observed - self.predicted) * self.sampling


@dataclass(frozen=True)
class CellTestSettings:
    """How the sums of cells are judged.

    weighted : False when all weights are 1 (aggregated rows count as their trials)
    null : "bernoulli": y* ~ Bernoulli(p) row by row; "residual": residuals keep their size and lose their sign, one
        sign a cluster; for clusters, for weights that depend on the outcome, for real-valued responses
    rows : the rows, sorted by cell; sharper where cells are small, and needed for clusters
    outcome_weights : whether weights depend on the outcome, so that Σw²p(1-p) is not the noise
    binary : False when outcomes are not 0/1; the sums then have the variance of their `ResidualVariance`
    model_variance : whether Σw²p(1-p) is known to be the noise of rows that are independent
    stretch : how much wider the flipped signs of each cell are made
    """

    weighted: bool = False
    null: Null = Null.BERNOULLI
    rows: CellRows | None = None
    outcome_weights: bool = False
    binary: bool = True
    model_variance: bool = False
    stretch: Floats | float = 1.0
    random_state: int = 0

    @property
    def clustered(self) -> bool:
        """Whether rows are at hand that move together."""
        return self.rows is not None and self.rows.cluster is not None

    @property
    def seed(self) -> np.uint64:
        """That of a counter-based stream."""
        return seed_of(self.random_state)


def rows_of_cells(codes: Integers, cells: int, pair: TargetData) -> CellRows:
    """Sort rows by cell (by cluster within it, where there is one); rows with a negative code are left out.

    Examples
    --------
    >>> import numpy as np
    >>> rows_of_cells(
    ...     np.array([1, 0, 1]), 2, TargetData(np.array([0.1, 0.2, 0.3]), np.zeros(3))
    ... ).predicted.tolist()
    [0.2, 0.1, 0.3]
    """
    order = np.argsort(codes, kind="stable") if pair.cluster is None else np.lexsort((pair.cluster, codes))
    order = order[np.searchsorted(codes[order], 0) :]
    offsets = np.searchsorted(codes[order], np.arange(cells + 1)).astype(np.int64)
    taken = pair.take(order[: offsets[-1]])
    return CellRows(**vars(taken), offsets=offsets)


def seed_of(random_state: int | np.random.Generator | None) -> np.uint64:
    """Give the 64-bit seed of a counter-based stream."""
    with refusing("must be a whole number of at least 0", "'random_state'", got=f"got {random_state!r}"):
        return np.uint64(np.random.default_rng(random_state).integers(2**63))


def effective_events(sums: CellSums) -> Floats:
    """Give the expected events of the rarer side, in rows of equal weight that would be as informative.

    ``(Σw)²/Σw² · min(m, 1 - m)`` with m the mean prediction: the rows' Kish size times the rate.
    """
    mean = sums.mean
    with unwarned():
        size = sums.weight**2 / sums.weight2
        return np.nan_to_num(size * np.minimum(mean, 1.0 - mean))


def effective_events_of(pair: TargetData) -> float:
    """Give what `effective_events` gives, of all rows together; of outcomes that are no events, rows as informative."""
    mean = float(np.average(pair.predicted, weights=pair.first)) if pair.rows and pair.binary else 0.5
    size = float(pair.weights[0].sum()) ** 2 / max(float(pair.weights[1].sum()), 1e-300)
    return min(mean, 1.0 - mean) * size


# ---- outcomes that are no events -------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class ResidualVariance:
    """Variance of residuals by prediction, a unit of weight squared; of exposure, where the weight is exposure.

    How much outcomes vary around a prediction that is no probability nobody says, so the residuals do.
    A cell of few rows that had no large outcome shows residuals that are too small: among amounts and rare counts it is
    always the quiet cells that look certain. So no cell counts as quieter than residuals of such predictions are in the
    whole table, and a cell that was not quiet counts as loud as it was. (Judged by their own residuals alone, some of
    ten levels is beyond noise in a quarter of calibrated tables of lognormal amounts: `studies/any_mean.py`.)

    borders : between bins of the prediction;  values : of each bin
    mixed : how much more a cell of all predictions varies than one of their mean
    """

    borders: Floats
    values: Floats
    exposed: bool
    mixed: float = 1.0

    @classmethod
    def of(cls, pair: TargetData) -> "ResidualVariance":
        """As the rows of a pair show it; rows of one cluster and one prediction are parts of one."""
        predicted, residual = pair.predicted, pair.observed - pair.predicted
        first, second = pair.weights
        squares = second * residual**2
        if pair.cluster is not None:
            order = np.lexsort((predicted, pair.cluster))
            cluster, predicted = pair.cluster[order], predicted[order]
            starts = np.flatnonzero(run_starts(cluster, predicted))
            predicted = predicted[starts]
            first, together = (np.add.reduceat(values[order], starts) for values in (first, first * residual))
            second, squares = first**2, together**2
        most = min(max(predicted.size // LEAST, 1), BINS)
        borders = np.unique(np.quantile(predicted, np.linspace(0.0, 1.0, most + 1)[1:-1]))
        bins = np.searchsorted(borders, predicted)
        squares = np.bincount(bins, squares, borders.size + 1)
        size = np.bincount(bins, first if pair.exposed else second, borders.size + 1)
        all_squares = squares.sum()
        every = all_squares / max(size.sum(), 1e-300)
        values = np.where(size > 0.0, squares / np.where(size > 0.0, size, 1.0), every)
        made = cls(borders, values, pair.exposed)
        mean = np.average(predicted, weights=first)
        alike = made.at(mean, first.sum(), second.sum())
        return replace(made, mixed=max(1.0, float(all_squares / max(alike, 1e-300))))

    def at(self, predicted: Floats, weight: Floats, weight2: Floats) -> Floats:
        """Variance of the sum of residuals of rows of a mean prediction and of weights that add up to so much."""
        return self.values[np.searchsorted(self.borders, predicted)] * (weight if self.exposed else weight2)

    def floor(self, sums: CellSums, *, narrow: bool = False) -> Floats:
        """Variance of the sum of residuals of each cell; `narrow` ones hold predictions that are much the same."""
        usual = self.at(sums.mean, sums.weight, sums.weight2)
        return usual if narrow else usual * self.mixed


@dataclass(frozen=True)
class OutcomeSamplingVariance:
    """Variance of residuals where events or others were kept in part and weighted back.

    It stands in the place of a `ResidualVariance`.

    Where events weigh u and others v, a row of probability p is an event of the sample with the odds v·p / (u·(1 - p)),
    and w(y - p) has the variance u·v·p(1-p), whatever happened in its cell. Residuals tell less of it: nearly all of
    their squares are those of the few events that weigh much, so that a cell of which fewer were kept looks certain.
    (By residuals alone 98 of 1,000 calibrated tables alarmed by field and 117 by variable: `sampled_by_outcome`.)

    scale : Σw²(y - p)² relative to Σp(1 - p), over all rows
    mixed : Σp(1 - p) of all rows relative to that of as many rows of their mean
    """

    scale: float
    mixed: float

    @classmethod
    def of(cls, sums: CellSums) -> "OutcomeSamplingVariance":
        """As narrow cells of the score show it, or rows."""
        mean = sums.mean
        known = float(np.sum(sums.rows * mean * (1.0 - mean)))
        every = float(np.average(mean, weights=sums.rows))
        alike = float(sums.rows.sum()) * every * (1.0 - every)
        scale = float(sums.residual2.sum()) / max(known, 1e-300)
        return cls(scale, min(known / max(alike, 1e-300), 1.0))

    def at(self, predicted: Floats, weight: Floats, weight2: Floats) -> Floats:
        """Variance of the sum of residuals of trials alike, of weights that add up to so much."""
        trials = weight**2 / np.where(weight2 > 0.0, weight2, 1.0)
        return self.scale * trials * predicted * (1.0 - predicted)

    def floor(self, sums: CellSums, *, narrow: bool = False) -> Floats:
        """Variance of the sum of residuals of each cell; `narrow` ones hold predictions that are much the same."""
        mean = sums.mean
        usual = self.scale * sums.rows * mean * (1.0 - mean)
        return usual if narrow else usual * self.mixed


def around(value: Any, error: Any) -> list[Any]:
    """The 95% interval of a normal estimate."""
    return [value - NORMAL_95 * error, value + NORMAL_95 * error]


def student_95(freedom: float) -> float:
    """The half-width of the 95% interval of Student's t."""
    return float(-special.stdtrit(freedom, 0.025))


def exceeding(value: float, variance: Any) -> float:
    """One-sided p-value of a normal value; 1 where there is no noise."""
    return float(special.ndtr(-value / math.sqrt(variance))) if variance > 0 else 1.0


def normal_p(value: Any, variance: Any) -> Floats:
    """Two-sided p-values of normal values; 1 where there is no noise."""
    with unwarned():
        return np.where(variance > 0, special.erfc(np.abs(value) / np.sqrt(2.0 * variance)), 1.0)

"""What a test reads: the sums of cells, their rows where they are at hand, and the settings of the test."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miscal.aggregate.tally import Tally
from miscal.codes.inference import Null
from miscal.data.errors import refusing
from miscal.data.target import TargetData

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

EFFECTIVE_EVENTS = 25.0  # on both sides, from which a weighted sum counts as normal


def ignore_warnings() -> np.errstate:
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
    def joined(cls, parts: Sequence["CellSums"]) -> "CellSums":
        """The cells of several, one after the other."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))

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
        with ignore_warnings():
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
        """Number of observed outcomes of the rarer side in each cell."""
        codes, times = self.codes(), self.trials().astype(np.float64)
        events = np.bincount(codes, times * self.observed, self.cells)
        return np.asarray(np.minimum(events, np.bincount(codes, times, self.cells) - events))

    def residuals(self) -> Floats:
        """Give w(y - p) of each row."""
        return (self.observed - self.predicted) * self.sampling_weight


@dataclass(frozen=True)
class CellTestSettings:
    """How the cells of a call are tested: the null model, and what is known of the rows.

    Attributes
    ----------
    weighted : bool
        False where all weights are 1; aggregated rows count as their trials.
    null : Null
        BERNOULLI: y* ~ Bernoulli(p) row by row. RESIDUAL: residuals keep their size and get a random sign, one per
        cluster; for clusters, weights that depend on the outcome, and outcomes that are not 0/1.
    rows : CellRows or None
        The rows, sorted by cell: tests of small cells are sharper with them, and clusters need them.
    outcome_weights : bool
        Whether weights depend on the outcome, so that Σw²p(1-p) is not the variance.
    binary : bool
        False where outcomes are not 0/1; the sums then hold the variance of a `ResidualVariance`.
    model_variance : bool
        Whether Σw²p(1-p) is the variance of rows that are independent.
    residual_scale : float or ndarray
        Factor of each cell's residuals where their signs are flipped.
    random_state : int
        Seed of all draws.
    """

    weighted: bool = False
    null: Null = Null.BERNOULLI
    rows: CellRows | None = None
    outcome_weights: bool = False
    binary: bool = True
    model_variance: bool = False
    residual_scale: Floats | float = 1.0
    random_state: int = 0

    @property
    def clustered(self) -> bool:
        """Whether the rows are at hand and belong to clusters."""
        return self.rows is not None and self.rows.cluster is not None

    @property
    def seed(self) -> np.uint64:
        """That of a counter-based stream."""
        return seed_of(self.random_state)


def rows_of_cells(codes: Integers, cells: int, target: TargetData) -> CellRows:
    """Sort rows by cell (by cluster within it, where there is one); rows with a negative code are left out.

    Examples
    --------
    >>> import numpy as np
    >>> rows_of_cells(
    ...     np.array([1, 0, 1]), 2, TargetData(np.array([0.1, 0.2, 0.3]), np.zeros(3))
    ... ).predicted.tolist()
    [0.2, 0.1, 0.3]
    """
    order = (
        np.argsort(codes, kind="stable") if target.cluster is None else np.lexsort((target.cluster, codes))
    )
    order = order[np.searchsorted(codes[order], 0) :]
    offsets = np.searchsorted(codes[order], np.arange(cells + 1)).astype(np.int64)
    sorted_rows = target.take(order[: offsets[-1]])
    return CellRows(**vars(sorted_rows), offsets=offsets)


def seed_of(random_state: int | np.random.Generator | None) -> np.uint64:
    """Give the 64-bit seed of a counter-based stream."""
    with refusing("must be a whole number of at least 0", "'random_state'", got=f"got {random_state!r}"):
        return np.uint64(np.random.default_rng(random_state).integers(2**63))


def effective_events(sums: CellSums) -> Floats:
    """Give the expected events of the rarer side, in rows of equal weight that would be as informative.

    ``(Σw)²/Σw² · min(m, 1 - m)`` with m the mean prediction: the rows' Kish size times the rate.
    """
    mean = sums.mean
    with ignore_warnings():
        size = sums.weight**2 / sums.weight2
        return np.nan_to_num(size * np.minimum(mean, 1.0 - mean))


def effective_events_of(target: TargetData) -> float:
    """Give what `effective_events` gives, of all rows together; of outcomes that are no events, rows as informative."""
    mean = (
        float(np.average(target.predicted, weights=target.mean_weight))
        if target.rows and target.binary
        else 0.5
    )
    size = float(target.all_weights[0].sum()) ** 2 / max(float(target.all_weights[1].sum()), 1e-300)
    return min(mean, 1.0 - mean) * size

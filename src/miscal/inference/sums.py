"""What inference needs to know of cells: their sums, and, where they are at hand, their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miscal.carriers.tally import Tally
from miscal.pairs import Pair

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

EFFECTIVE_EVENTS = 25.0  # on both sides, from which a weighted sum counts as normal


@dataclass(frozen=True)
class Sums:
    """Sums per cell, an array each: rows, Σw, Σw², Σw·p, Σw·y, Σw²p(1-p), Σw²(y-p)²; a Tally has the same."""

    rows: Floats
    weight: Floats
    weight2: Floats
    predicted: Floats
    observed: Floats
    variance: Floats
    residual2: Floats

    @classmethod
    def of(cls, sums: Tally) -> Sums:
        """The sums of a tally as plain arrays."""
        return cls(*[np.asarray(getattr(sums, name), dtype=np.float64) for name in cls.__annotations__])

    @classmethod
    def joined(cls, every: Sequence[Sums]) -> Sums:
        """The cells of several, one after the other."""
        return cls(*map(np.concatenate, zip(*(vars(one).values() for one in every), strict=True)))

    def map(self, change: Callable[[Floats], Floats]) -> Sums:
        """The same change made to each of them."""
        return Sums(*map(change, vars(self).values()))

    def cell(self, place: int) -> Sums:
        """The sums of one cell."""
        return self.map(lambda values: values[place : place + 1])

    @property
    def off(self) -> Floats:
        """Σw(p - y)."""
        return self.predicted - self.observed


@dataclass(frozen=True)
class CellRows:
    """The rows of cells, sorted by cell: cell c owns rows ``offsets[c]:offsets[c + 1]``.

    `weight` and `count` are None when every row has weight 1 and stands for one trial; `cluster` holds integer codes.
    """

    offsets: Integers
    probability: Floats
    outcome: Floats
    weight: Floats | None = None
    cluster: Integers | None = None
    count: Integers | None = None

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.offsets.size - 1)

    def codes(self) -> Integers:
        """Give the cell of each row."""
        return np.repeat(np.arange(self.cells), np.diff(self.offsets))

    def repeats(self) -> Integers:
        """Give how many trials each row stands for."""
        return np.ones(self.probability.size, dtype=np.int64) if self.count is None else self.count

    def rarer_events(self) -> Floats:
        """Give the outcomes of the rarer side that happened in each cell."""
        codes, times = self.codes(), self.repeats().astype(np.float64)
        events = np.bincount(codes, times * self.outcome, self.cells)
        return np.asarray(np.minimum(events, np.bincount(codes, times, self.cells) - events))

    def residuals(self) -> Floats:
        """Give w(y - p) of each row."""
        residual = self.outcome - self.probability
        return residual if self.weight is None else residual * self.weight


def rows_of_cells(
    codes: Integers,
    cells: int,
    probability: Floats,
    outcome: Floats,
    *,
    weight: Floats | None = None,
    cluster: Integers | None = None,
    count: Integers | None = None,
) -> CellRows:
    """Sort rows by cell (by cluster within it, where there is one); rows with a negative code are left out.

    Examples
    --------
    >>> import numpy as np
    >>> rows_of_cells(np.array([1, 0, 1]), 2, np.array([0.1, 0.2, 0.3]), np.zeros(3)).probability.tolist()
    [0.2, 0.1, 0.3]
    """
    order = np.argsort(codes, kind="stable") if cluster is None else np.lexsort((cluster, codes))
    order = order[np.searchsorted(codes[order], 0) :]
    offsets = np.searchsorted(codes[order], np.arange(cells + 1)).astype(np.int64)
    order = order[: offsets[-1]]
    return CellRows(
        offsets,
        np.ascontiguousarray(probability[order], dtype=np.float64),
        np.ascontiguousarray(outcome[order], dtype=np.float64),
        None if weight is None else np.ascontiguousarray(weight[order], dtype=np.float64),
        None if cluster is None else np.ascontiguousarray(cluster[order], dtype=np.int64),
        None if count is None else np.ascontiguousarray(count[order], dtype=np.int64),
    )


def effective_events(sums: Sums) -> Floats:
    """Give the expected events of the rarer side, in rows of equal weight that would be as informative.

    ``(Σw)²/Σw² · min(m, 1 - m)`` with m the mean prediction: the rows' Kish size times the rate.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sums.predicted / sums.weight
        size = sums.weight**2 / sums.weight2
        return np.asarray(np.nan_to_num(size * np.minimum(mean, 1.0 - mean), nan=0.0))


def effective_events_of(pair: Pair) -> float:
    """Give what `effective_events` gives, of all rows together; of outcomes that are no events, rows as informative."""
    mean = float(np.average(pair.predicted, weights=pair.first)) if pair.rows and pair.binary else 0.5
    size = float(pair.rows)
    if pair.first is not None and pair.second is not None:
        size = float(pair.first.sum()) ** 2 / max(float(pair.second.sum()), 1e-300)
    return min(mean, 1.0 - mean) * size

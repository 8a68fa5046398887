"""What inference needs to know of cells: their sums, and, where they are at hand, their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from miscal.data.errors import refusal

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class CellSums(Protocol):
    """Sums per cell, one float64 array each; a Tally is one."""

    @property
    def rows(self) -> Floats:
        """Rows."""

    @property
    def weight(self) -> Floats:
        """Σw."""

    @property
    def weight2(self) -> Floats:
        """Σw²."""

    @property
    def predicted(self) -> Floats:
        """Σw·p."""

    @property
    def observed(self) -> Floats:
        """Σw·y."""

    @property
    def variance(self) -> Floats:
        """Σw²p(1-p)."""

    @property
    def residual2(self) -> Floats:
        """Σw²(y-p)²."""


@dataclass(frozen=True)
class Sums:
    """Plain arrays that satisfy `CellSums`."""

    rows: Floats
    weight: Floats
    weight2: Floats
    predicted: Floats
    observed: Floats
    variance: Floats
    residual2: Floats

    @classmethod
    def of(cls, sums: CellSums) -> Sums:
        """The sums of a tally as plain arrays."""
        return cls(*(np.asarray(getattr(sums, name), dtype=np.float64) for name in cls.__annotations__))

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
    if codes.size != probability.size or codes.size != outcome.size:
        raise refusal("must have one entry a row", where="'codes'", got=f"{codes.size} against {probability.size} rows")
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


def sums_of_rows(rows: CellRows) -> Sums:
    """Add rows up into sums per cell."""
    codes, cells = rows.codes(), rows.cells
    times = np.ones(codes.size) if rows.count is None else rows.count.astype(np.float64)
    weight = np.ones(codes.size) if rows.weight is None else rows.weight
    p, y = rows.probability, rows.outcome

    def add(values: Floats) -> Floats:
        return np.asarray(np.bincount(codes, times * values, cells), dtype=np.float64)

    squared = weight * weight
    return Sums(
        add(np.ones(codes.size)),
        add(weight),
        add(squared),
        add(weight * p),
        add(weight * y),
        add(squared * p * (1.0 - p)),
        add(squared * (y - p) ** 2),
    )


def effective_events(sums: CellSums) -> Floats:
    """Give the expected events of the rarer side, in rows of equal weight that would be as informative.

    ``(Σw)²/Σw² · min(m, 1 - m)`` with m the mean prediction: the rows' Kish size times the rate.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sums.predicted / sums.weight
        size = sums.weight**2 / sums.weight2
        return np.asarray(np.nan_to_num(size * np.minimum(mean, 1.0 - mean), nan=0.0))

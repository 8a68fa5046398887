"""Sums of a tally over the cells of many columns at once: one layout for any weights, as predicted and recalibrated.

A row of weight 1 is packed into eight words, worked out once, and added to its cell in every column; a packed cell that
is full is emptied into the limbs of a `Tally`, and all of them are before anybody reads those. Rows of other weights
are added to limbs, or to real sums where weights are not whole numbers.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from miscal.carriers.tally import ALL_COLUMNS, Tally, carried
from miscal.data.vectors import Array, locked
from miscal.kernels.order import bucket_codes, edge_cells
from miscal.kernels.sorting import BucketMap
from miscal.kernels.sums import add_rows, full_exact, full_real, settle_packed
from miscal.pairs import Pair
from miscal.pooling.cells import Numbered

WORDS = 8
BUCKETS = 8  # for each edge: hardly any holds two
BLOCK = 4096
COLUMNS = len(ALL_COLUMNS)
NAMES = ("rows", "limbs", "sums", "after_limbs", "after_sums")
NO_WEIGHT = locked(np.empty(0, np.float64))
NO_COUNT = locked(np.empty(0, np.int64))


class EdgeIndex:
    """How many of some increasing edges lie strictly below a value, found by a bucket of the value and a look or two.

    The code of NaN is one more than any number of edges.
    """

    def __init__(self, edges: Array) -> None:
        self.edges = np.ascontiguousarray(edges, np.float64)
        if self.edges.size == 0:
            return
        buckets = min(max(BUCKETS * self.edges.size, 64), 1 << 17)
        self._buckets = BucketMap(self.edges, buckets).arguments
        own = np.empty(self.edges.size, np.int32)
        bucket_codes(self.edges, *self._buckets, own)
        lower = np.searchsorted(own, np.arange(buckets + 1))
        held = np.bincount(own, minlength=buckets + 1)
        pivots = np.where(held == 1, self.edges[np.minimum(lower, self.edges.size - 1)], np.inf)
        lower = np.where(held > 1, ~lower, lower).astype(np.int32)
        lower[-1] = self.edges.size + 1
        self._within = lower, pivots, self.edges

    def codes(self, values: Array, out: Array) -> None:
        """Write the code of each value, int32."""
        if self.edges.size == 0:
            out[:] = np.isnan(values)
        else:
            bucket_codes(values, *self._buckets, out)
            edge_cells(values, *self._within, out)


def _lines(count: int) -> Array:
    """Zeros, (count, 8) uint64, each row a cache line of its own and not the halves of two."""
    words = np.zeros(WORDS * (count + 1), np.uint64)
    first = -words.ctypes.data // words.itemsize % WORDS
    return words[first : first + WORDS * count].reshape(count, WORDS)


def _firsts(counts: list[int]) -> Array:
    """Where the cells of each column begin."""
    return np.cumsum([0, *counts[:-1]]).astype(np.uint64)


class CellSums:
    """Sums over the cells of several columns, one after the other in each array.

    counts : cells of each column
    recalibrated : whether a second probability of each row is added as well
    """

    def __init__(self, counts: Sequence[int], *, recalibrated: bool) -> None:
        self.recalibrated = recalibrated
        self._terms = _lines(BLOCK)
        self._place(list(counts))

    def _place(self, counts: list[int]) -> None:
        """Say where the cells of each column are, all of them empty."""
        total = sum(counts)
        self.counts, self.firsts = counts, _firsts(counts)
        self.rows = np.zeros(total, np.int64)
        self.limbs = np.zeros((total, COLUMNS, 2), np.int64)
        self.after_limbs = np.zeros((total if self.recalibrated else 0, COLUMNS, 2), np.int64)
        self.sums = self.after_sums = np.zeros((0, COLUMNS))  # stay empty while weights are whole numbers
        self._packed = _lines(0)
        self._fresh = False  # whether rows were packed since all was settled

    def _cells(self, column: int) -> slice:
        first = int(self.firsts[column])
        return slice(first, first + self.counts[column])

    def grow(self, column: int, count: int) -> None:
        """Make room for more cells of a column."""
        before, places = self.arrays(), [np.arange(own) for own in self.counts]
        self._place([*self.counts[:column], count, *self.counts[column + 1 :]])
        self.merge(before, places)

    def add(self, codes: Array, pair: Pair, recalibrated: Array | None = None) -> None:
        """Add rows to the cells of their codes, (columns, rows) int32."""
        predicted, observed = pair.predicted, pair.observed
        if pair.binary:  # outcomes of one type: kernels are compiled once for each
            observed = observed.astype(np.uint8, copy=False)
        if not (pair.plain and pair.binary):
            self._add_weighted(codes, pair, predicted, observed, "")
            if recalibrated is not None:
                self._add_weighted(codes, pair, recalibrated, observed, "after_")
            return
        if not self._packed.size:
            self._packed = _lines(sum(self.counts))
        self._fresh = True
        rows = predicted, observed, predicted if recalibrated is None else recalibrated
        sums = self.rows, self.limbs, self.after_limbs
        add_rows(*rows, codes, self.firsts, self._terms, self._packed, *sums)

    def _add_weighted(self, codes: Array, pair: Pair, predicted: Array, observed: Array, prefix: str) -> None:
        kernel, name, weight = full_exact, f"{prefix}limbs", NO_WEIGHT if pair.weight is None else pair.weight
        if not pair.whole:
            kernel, name, weight = (
                full_real,
                f"{prefix}sums",
                weight if weight.size else locked(np.ones(pair.rows)),
            )
            if not getattr(self, name).size:
                setattr(self, name, np.zeros((sum(self.counts), COLUMNS)))
        # Those of the recalibrated score are the same.
        rows = np.zeros_like(self.rows) if prefix else self.rows
        count = NO_COUNT if pair.count is None else pair.count
        for column, place in enumerate(codes):
            own = self._cells(column)
            kernel(place, predicted, observed, weight, count, rows[own], getattr(self, name)[own])

    def settle(self) -> None:
        """Move what is packed into the limbs."""
        if self._fresh:
            self._fresh = False
            settle_packed(self._packed, self.rows, self.limbs, self.after_limbs)

    def arrays(self) -> dict[str, Array]:
        """All sums, by name, and how many cells each column has; sums of no rows are empty."""
        self.settle()
        return {name: getattr(self, name) for name in NAMES} | {"counts": np.array(self.counts)}

    def merge(self, other: dict[str, Array], places: Sequence[Array]) -> None:
        """Add the sums of another part, cell i of its column c to cell places[c][i]; its further cells are empty."""
        self.settle()
        cells, others = [], []
        for own, first, first_there in zip(
            places, self.firsts, _firsts(other["counts"].tolist()), strict=True
        ):
            cells.append(own + int(first))
            others.append(np.arange(own.size) + int(first_there))
        here, there = np.concatenate(cells), np.concatenate(others)
        for name in NAMES:
            values = other[name]
            if not values.size:
                continue
            if not getattr(self, name).size:
                setattr(self, name, np.zeros((sum(self.counts), *values.shape[1:]), values.dtype))
            getattr(self, name)[here] += values[there]
        carried(self.limbs)
        carried(self.after_limbs)

    def tally(self, column: int, *, weighted: bool, after: bool = False) -> Tally:
        """The sums of a column, cells by number."""
        self.settle()
        own = self._cells(column)
        limbs, real = (self.after_limbs, self.after_sums) if after else (self.limbs, self.sums)
        made = Tally(Numbered(self.counts[column]), self.rows[own], limbs[own], None, weighted=weighted)
        if real.size:
            made = replace(made, limbs=None, sums=made.floats() + real[own])
        return made

"""Sums of a tally over the cells of many columns at once: one layout for any weights, as predicted and recalibrated.

A row of weight 1 is packed into eight words, worked out once, and added to its cell in every column; a packed cell that
is full is emptied into the limbs of a `Tally`, and all of them are before anybody reads those. Rows of other weights
are added to limbs, or to real sums where weights are not whole numbers.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from miscal.aggregate.tally import ALL_COLUMNS, Tally, carried
from miscal.cells.partitions import Numbered
from miscal.data.arrays import Array, locked
from miscal.data.target import TargetData
from miscal.kernels.sums import add_rows, full_exact, full_real, settle_packed

WORDS = 8
BLOCK = 4096
COLUMNS = len(ALL_COLUMNS)
NAMES = ("rows", "limbs", "sums", "after_limbs", "after_sums")
NO_WEIGHT = locked(np.empty(0, np.float64))
NO_COUNT = locked(np.empty(0, np.int64))


def _lines(count: int) -> Array:
    """Zeros, (count, 8) uint64, each row a cache line of its own and not the halves of two."""
    words = np.zeros(WORDS * (count + 1), np.uint64)
    first = -words.ctypes.data // words.itemsize % WORDS
    return words[first : first + WORDS * count].reshape(count, WORDS)


def _firsts(counts: list[int]) -> Array:
    """Where the cells of each column begin."""
    return np.cumsum([0, *counts[:-1]]).astype(np.uint64)


class ExactCellSums:
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
        self.after_limbs = np.zeros_like(self.limbs[: total if self.recalibrated else 0])
        self.sums = self.after_sums = np.zeros((0, COLUMNS))  # stay empty while weights are whole numbers
        self._packed = _lines(0)
        self._fresh = False  # whether rows were packed since all was settled

    def _cells(self, column: int) -> slice:
        first = int(self.firsts[column])
        return slice(first, first + self.counts[column])

    def grow(self, column: int, count: int) -> None:
        """Make room for more cells of a column."""
        before, counts = self.arrays(), [*self.counts]
        places = [np.arange(own) for own in counts]
        counts[column] = count
        self._place(counts)
        self.merge(before, places)

    def add(self, codes: Array, pair: TargetData, recalibrated: Array | None = None) -> None:
        """Add rows to the cells of their codes, (columns, rows) int32."""
        predicted, observed = pair.predicted, pair.observed
        if pair.binary:  # outcomes of one type: kernels are compiled once for each
            observed = observed.astype(np.uint8, copy=False)
        if not (pair.plain and pair.binary):
            self._add_weighted(codes, pair, (predicted, observed), self.rows, "")
            if recalibrated is not None:  # the rows are counted already
                rows = np.zeros_like(self.rows)
                self._add_weighted(codes, pair, (recalibrated, observed), rows, "after_")
            return
        if not self._packed.size:
            self._packed = _lines(sum(self.counts))
        self._fresh = True
        if recalibrated is None:
            recalibrated = predicted
        sums = self.rows, self.limbs, self.after_limbs
        add_rows(predicted, observed, recalibrated, codes, self.firsts, self._terms, self._packed, *sums)

    def _add_weighted(
        self, codes: Array, pair: TargetData, compared: tuple[Array, Array], rows: Array, prefix: str
    ) -> None:
        weight = NO_WEIGHT if pair.weight is None else pair.weight
        count = NO_COUNT if pair.count is None else pair.count
        kernel, name = (full_exact, "limbs") if pair.whole else (full_real, "sums")
        if not (pair.whole or weight.size):
            weight = locked(np.ones(pair.rows))
        sums = self._held(prefix + name)
        for column, place in enumerate(codes):
            own = self._cells(column)
            kernel(place, *compared, weight, count, rows[own], sums[own])

    def _held(self, name: str) -> Array:
        """Sums by name, made where there are none yet."""
        held: Array = getattr(self, name)
        if not len(held):
            held = np.zeros((sum(self.counts), *held.shape[1:]), held.dtype)
            setattr(self, name, held)
        return held

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
            if other[name].size:
                self._held(name)[here] += other[name][there]
        carried(self.limbs)
        carried(self.after_limbs)

    def tally(self, column: int, *, weighted: bool, after: bool = False) -> Tally:
        """The sums of a column, cells by number."""
        self.settle()
        own = self._cells(column)
        limbs, real = (self.after_limbs, self.after_sums) if after else (self.limbs, self.sums)
        cells = Numbered(self.counts[column])
        made = Tally(cells, self.rows[own], limbs[own], None, weighted=weighted)
        return replace(made, limbs=None, sums=made.floats() + real[own]) if real.size else made

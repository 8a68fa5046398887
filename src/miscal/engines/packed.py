"""Sums of rows as predicted and beyond the score together; rows of weight 1 of all columns at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miscal.engines.cells import CellSums, Packed
from miscal.pairs import Pair

WORDS = 8
BLOCK = 4096
LOWER = np.int64((1 << 32) - 1)
UNPACKED = ((1, 3), (2, 5), (3, 7))  # which word of a packed cell is which column of `CellSums.plain`
BEYOND = ((5, 3), (6, 5), (7, 7))


class PackedSums:
    """Packed cells of several columns, one after the other, and room to add rows to them."""

    def __init__(self, columns: Sequence[TwinSums]) -> None:
        counts = [each.count + 1 for each in columns]
        ends = np.cumsum(counts)
        self.firsts = np.append(0, ends[:-1]).astype(np.uint64)
        self.cells = lines(int(ends[-1]))
        self.wide = np.zeros((int(ends[-1]), 2 * WORDS), np.uint64)
        self.impossible = np.zeros(int(ends[-1]), np.int64)
        for each, start, stop in zip(columns, self.firsts.tolist(), ends.tolist(), strict=True):
            each.hold(self.cells[start:stop], self.wide[start:stop], self.impossible[start:stop])
        self.room = (lines(BLOCK), np.empty(BLOCK, np.int32), np.empty(BLOCK), np.empty(BLOCK))
        self._codes = np.empty(0, np.int32)

    def codes(self, rows: int) -> np.ndarray:
        """Room for the codes of a batch: (columns, rows) int32. It is the same at every call."""
        columns = self.firsts.size
        if self._codes.size < columns * rows:
            self._codes = np.empty(columns * rows, np.int32)
        return self._codes[: columns * rows].reshape(columns, rows)

    def add(self, pair: Pair, codes: np.ndarray, mended: np.ndarray) -> None:
        """Add rows of weight 1; the first column is the sketch of the score."""
        from miscal.kernels.packed import add_columns

        sums = (self.cells, self.wide, self.impossible)
        add_columns(pair.predicted, pair.observed, mended, codes, self.firsts, *self.room, *sums)


def lines(count: int) -> np.ndarray:
    """Zeros, (count, 8) uint64, each row a cache line of its own and not the halves of two."""
    words = np.zeros(WORDS * (count + 1), np.uint64)
    first = -words.ctypes.data // words.itemsize % WORDS
    return words[first : first + WORDS * count].reshape(count, WORDS)


class TwinSums:
    """Sums of a tally over cells 0..count-1, as predicted (`raw`) and beyond the score (`after`)."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.raw, self.after = CellSums(count), CellSums(count)
        self.cells = self.wide = np.empty((0, 0), np.uint64)
        self.impossible = np.empty(0, np.int64)

    def hold(self, cells: np.ndarray, wide: np.ndarray, impossible: np.ndarray) -> None:
        """Take over where packed rows are added."""
        self.cells, self.wide, self.impossible = cells, wide, impossible

    def add(self, codes: np.ndarray, pair: Pair, beyond: Pair | None) -> None:
        """Add rows of any weights."""
        self.raw.add(codes, pair)
        if beyond is not None:
            self.after.add(codes, beyond)

    def settle(self) -> None:
        """Move what is packed into `raw` and `after`."""
        from miscal.kernels.packed import empty_packed

        if not self.cells.size:
            return
        empty_packed(self.cells, self.wide)
        wide = self.wide.astype(np.int64)
        for sums, places in ((self.raw.plain, UNPACKED), (self.after.plain, BEYOND)):
            sums[:, 0] += wide[:, WORDS]
            sums[:, 1] += wide[:, 4]
            for word, column in places:
                _added(sums, column, wide[:, word], wide[:, word + WORDS])
        loss = wide[:, 4 + WORDS]  # its lower part has 40 bits
        _added(self.raw.plain, 9, (wide[:, 0] << 8) + (loss >> 32), loss & LOWER)
        self.raw.plain[:, 2] += self.impossible
        self.wide[:] = 0
        self.impossible[:] = 0

    def both(self) -> tuple[CellSums, CellSums]:
        """All sums, as predicted and beyond the score."""
        self.settle()
        return self.raw, self.after

    def arrays(self) -> Packed:
        """All sums, by name."""
        self.settle()
        packed = {f"raw:{name}": values for name, values in self.raw.arrays().items()}
        return packed | {f"after:{name}": values for name, values in self.after.arrays().items()}

    def merge(self, other: Packed) -> None:
        """Add the sums of another part."""
        self.settle()
        for head, sums in (("raw:", self.raw), ("after:", self.after)):
            sums.merge({name[len(head) :]: values for name, values in other.items() if name.startswith(head)})


def _added(sums: np.ndarray, column: int, high: np.ndarray, low: np.ndarray) -> None:
    """Add two limbs to a column of limbs, carried."""
    low = sums[:, column + 1] + low
    sums[:, column] += high + (low >> 32)
    sums[:, column + 1] = low & LOWER

"""Sums of rows of weight 1 as predicted and beyond the score together: one addition a row and column."""

from __future__ import annotations

import numpy as np

from miscal.engines.cells import CellSums, Packed
from miscal.engines.rows import locked
from miscal.pairs import Pair

WORDS = 8
BLOCK = 1 << 12  # rows packed at a time: a quarter of a megabyte, which stays in the cache for all columns
LOWER = np.uint64((1 << 32) - 1)
UNPACKED = ((1, 3), (2, 5), (3, 7))  # which word of a packed cell is which column of `CellSums.plain`
BEYOND = ((5, 3), (6, 5), (7, 7))


class PackedRows:
    """A block of rows, packed."""

    def __init__(self) -> None:
        self.terms = np.empty((BLOCK, WORDS), np.uint64)
        self.odd = np.empty(BLOCK, np.int32)
        self.none = locked(self.odd[:0])
        self.predicted = self.observed = np.empty(0)

    def fill(self, predicted: np.ndarray, observed: np.ndarray, mended: np.ndarray) -> None:
        """Pack at most BLOCK rows."""
        from miscal.kernels.stream import packed_rows

        self.predicted, self.observed = predicted, observed
        found = packed_rows(predicted, observed, mended, self.terms, self.odd)
        self.odd_rows = locked(self.odd[:found]) if found else self.none


class TwinSums:
    """Sums of a tally over cells 0..count-1, as predicted (`raw`) and beyond the score (`after`)."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.raw, self.after = CellSums(count), CellSums(count)
        self.cells = self.wide = np.empty((0, 0), np.uint64)
        self.impossible = np.empty(0, np.int64)

    def add_packed(self, codes: np.ndarray, rows: PackedRows) -> None:
        """Add a block of packed rows to the cells of their codes."""
        from miscal.kernels.stream import add_odd, add_packed

        if not self.cells.size:
            size = self.count + 1
            self.cells, self.wide = np.zeros((size, WORDS), np.uint64), np.zeros((size, 2 * WORDS), np.uint64)
            self.impossible = np.zeros(size, np.int64)
        add_packed(codes, rows.terms, self.cells, self.wide)
        if rows.odd_rows.size:
            add_odd(rows.odd_rows, codes, rows.predicted, rows.observed, self.wide, self.impossible)

    def add(self, codes: np.ndarray, pair: Pair, beyond: Pair | None) -> None:
        """Add rows of any weights."""
        self.raw.add(codes, pair)
        if beyond is not None:
            self.after.add(codes, beyond)

    def settle(self) -> None:
        """Move what is packed into `raw` and `after`."""
        from miscal.kernels.stream import empty_packed

        if not self.cells.size:
            return
        empty_packed(self.cells, self.wide)
        wide, upper = self.wide.astype(np.int64), np.int64(32)
        for sums, places in ((self.raw.plain, UNPACKED), (self.after.plain, BEYOND)):
            sums[:, 0] += wide[:, WORDS]
            sums[:, 1] += wide[:, 4]
            for word, column in places:
                _added(sums, column, wide[:, word], wide[:, word + WORDS])
        loss = wide[:, 4 + WORDS]  # its lower part has 40 bits
        _added(self.raw.plain, 9, (wide[:, 0] << 8) + (loss >> upper), loss & np.int64(LOWER))
        self.raw.plain[:, 2] += self.impossible
        self.wide[:] = 0
        self.impossible[:] = 0

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
    sums[:, column + 1] = low & 0xFFFFFFFF

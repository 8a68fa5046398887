"""Exact sums over the cells of many columns at once, with the score as predicted and, optionally, recalibrated.

The terms of a row of weight 1 are packed into eight words, computed once, and added to the row's cell in every column.
A packed cell that is full is emptied into the limbs of a `Tally`; `settle` empties all of them before sums are read.
Rows with other weights are added to the limbs directly, or to float sums if weights are not whole numbers.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from miscal.aggregate.tally import ALL_COLUMNS, Tally, carry_limbs
from miscal.cells.partitions import Numbered
from miscal.data.arrays import Array, locked
from miscal.data.target import TargetData
from miscal.kernels.sums import add_rows, full_exact, full_real, settle_packed

WORDS_PER_CELL = 8
ROWS_PER_BLOCK = 4096
N_SUMS = len(ALL_COLUMNS)
SUM_ARRAYS = ("rows", "limbs", "sums", "recalibrated_limbs", "recalibrated_sums")
NO_WEIGHT = locked(np.empty(0, np.float64))
NO_COUNT = locked(np.empty(0, np.int64))


def _aligned_words(count: int) -> Array:
    """Zeros, (count, 8) uint64, each row one cache line rather than the halves of two."""
    words = np.zeros(WORDS_PER_CELL * (count + 1), np.uint64)
    first = -words.ctypes.data // words.itemsize % WORDS_PER_CELL
    return words[first : first + WORDS_PER_CELL * count].reshape(count, WORDS_PER_CELL)


def _first_cells(counts: list[int]) -> Array:
    """The position of the first cell of each column."""
    return np.cumsum([0, *counts[:-1]]).astype(np.uint64)


class ExactCellSums:
    """Sums over the cells of several columns, one column after the other in each array.

    Parameters
    ----------
    counts : sequence of int
        Number of cells of each column.
    recalibrated : bool
        Whether a second probability of each row is added as well.

    Attributes
    ----------
    rows : ndarray of int64, (cells,)
    limbs, recalibrated_limbs : ndarray of int64, (cells, sums, 2)
        Exact sums; `recalibrated_limbs` is empty unless `recalibrated`.
    sums, recalibrated_sums : ndarray of float64, (cells, sums)
        Sums for weights that are not whole numbers; empty until there are such weights.
    """

    def __init__(self, counts: Sequence[int], *, recalibrated: bool) -> None:
        self.recalibrated = recalibrated
        self._terms = _aligned_words(ROWS_PER_BLOCK)
        self._allocate(list(counts))

    def _allocate(self, counts: list[int]) -> None:
        """Lay out the cells of each column, all of them empty."""
        total = sum(counts)
        self.counts, self.first_cells = counts, _first_cells(counts)
        self.rows = np.zeros(total, np.int64)
        self.limbs = np.zeros((total, N_SUMS, 2), np.int64)
        self.recalibrated_limbs = np.zeros_like(self.limbs[: total if self.recalibrated else 0])
        self.sums = self.recalibrated_sums = np.zeros((0, N_SUMS))
        self._packed = _aligned_words(0)
        self._unsettled = False  # whether rows were packed since `settle`

    def _cells(self, column: int) -> slice:
        first = int(self.first_cells[column])
        return slice(first, first + self.counts[column])

    def grow(self, column: int, count: int) -> None:
        """Make room for more cells of a column."""
        before, counts = self.arrays(), [*self.counts]
        positions = [np.arange(n_cells) for n_cells in counts]
        counts[column] = count
        self._allocate(counts)
        self.merge(before, positions)

    def add(self, codes: Array, target_data: TargetData, recalibrated: Array | None = None) -> None:
        """Add rows to the cells of their codes.

        Parameters
        ----------
        codes : ndarray of int32, (columns, rows)
        target_data : TargetData
        recalibrated : ndarray of float64, (rows,), optional
            The second probability of each row.
        """
        predicted, observed = target_data.predicted, target_data.observed
        if target_data.binary:  # outcomes of one type: kernels are compiled once for each
            observed = observed.astype(np.uint8, copy=False)
        if not (target_data.is_unweighted and target_data.binary):
            self._add_weighted(codes, target_data, (predicted, observed), self.rows, "")
            if recalibrated is not None:
                already_counted = np.zeros_like(self.rows)
                self._add_weighted(
                    codes, target_data, (recalibrated, observed), already_counted, "recalibrated_"
                )
            return
        if not self._packed.size:
            self._packed = _aligned_words(sum(self.counts))
        self._unsettled = True
        if recalibrated is None:
            recalibrated = predicted
        sums = self.rows, self.limbs, self.recalibrated_limbs
        add_rows(predicted, observed, recalibrated, codes, self.first_cells, self._terms, self._packed, *sums)

    def _add_weighted(
        self, codes: Array, target_data: TargetData, values: tuple[Array, Array], rows: Array, prefix: str
    ) -> None:
        weight = NO_WEIGHT if target_data.weight is None else target_data.weight
        count = NO_COUNT if target_data.count is None else target_data.count
        kernel, name = (full_exact, "limbs") if target_data.has_whole_weights else (full_real, "sums")
        if not (target_data.has_whole_weights or weight.size):
            weight = locked(np.ones(target_data.rows))
        sums = self._allocated(prefix + name)
        for column, column_codes in enumerate(codes):
            cells = self._cells(column)
            kernel(column_codes, *values, weight, count, rows[cells], sums[cells])

    def _allocated(self, name: str) -> Array:
        """Sums by name, allocated on first use."""
        sums: Array = getattr(self, name)
        if not len(sums):
            sums = np.zeros((sum(self.counts), *sums.shape[1:]), sums.dtype)
            setattr(self, name, sums)
        return sums

    def settle(self) -> None:
        """Move what is packed into the limbs."""
        if self._unsettled:
            self._unsettled = False
            settle_packed(self._packed, self.rows, self.limbs, self.recalibrated_limbs)

    def arrays(self) -> dict[str, Array]:
        """All sums by name, and the number of cells of each column; sums of no rows are empty."""
        self.settle()
        return {name: getattr(self, name) for name in SUM_ARRAYS} | {"counts": np.array(self.counts)}

    def merge(self, other: dict[str, Array], positions: Sequence[Array]) -> None:
        """Add the sums of another part.

        Parameters
        ----------
        other : dict of ndarray
            What `arrays` of the other part returned.
        positions : sequence of ndarray
            Cell i of column c is added to cell positions[c][i]. Cells beyond those listed are empty.
        """
        self.settle()
        here_by_column, there_by_column = [], []
        other_first_cells = _first_cells(other["counts"].tolist())
        for cells, first, other_first in zip(positions, self.first_cells, other_first_cells, strict=True):
            here_by_column.append(cells + int(first))
            there_by_column.append(np.arange(cells.size) + int(other_first))
        here, there = np.concatenate(here_by_column), np.concatenate(there_by_column)
        for name in SUM_ARRAYS:
            if other[name].size:
                self._allocated(name)[here] += other[name][there]
        carry_limbs(self.limbs)
        carry_limbs(self.recalibrated_limbs)

    def tally(self, column: int, *, weighted: bool, recalibrated: bool = False) -> Tally:
        """The sums of a column, with cells by number."""
        self.settle()
        cells = self._cells(column)
        limbs, sums = self.limbs, self.sums
        if recalibrated:
            limbs, sums = self.recalibrated_limbs, self.recalibrated_sums
        exact = Tally(Numbered(self.counts[column]), self.rows[cells], limbs[cells], None, weighted=weighted)
        if not sums.size:
            return exact
        return replace(exact, limbs=None, sums=exact.floats() + sums[cells])

"""Add the rows of arrays in memory into carriers, block by block on a few threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from miscal.carriers.tally import MEAN_COLUMNS, Tally
from miscal.data.vectors import locked
from miscal.engines.sums import NO_COUNT, CellSums
from miscal.kernels.threads import over_blocks, thread_count
from miscal.pairs import Pair
from miscal.pooling.cells import BinPooling, Cells, Pooling

# With many cells each block's own sums cost more than the rows: fewer, larger blocks then.
CELLS_A_BLOCK = 1 << 12


def tally(pair: Pair, pooling: Pooling) -> Tally:
    """All columns of a tally."""
    cells = pooling.cells

    def work(start: int, stop: int) -> CellSums:
        sums = CellSums([cells.count], recalibrated=False)
        codes = np.ascontiguousarray(pooling.codes(start, stop), np.int32)
        sums.add(codes[None], pair.take(slice(start, stop)), None)
        return sums

    total, *others = over_blocks(pair.rows, work, _block(cells.count))
    for other in others:
        total.merge(other.arrays())
    return total.tally(0, np.arange(cells.count), cells, weighted=pair.weight is not None)


def _block(cells: int) -> int:
    return 1 << 18 if cells <= CELLS_A_BLOCK else max(1 << 21, 32 * cells)


def _added(parts: list[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    return [sum(others, first) for first, *others in zip(*parts, strict=True)]


def mean_tally(pair: Pair, pooling: Pooling) -> Tally:
    """Only weight, predicted and observed: what errors without noise need, several times quicker."""
    from miscal.kernels.sums import SMALL, binned_means

    if not (pair.plain and pair.binary):
        return tally(pair, pooling) if pair.whole or pair.weight is None else _weighted_means(pair, pooling)
    cells = pooling.cells
    if not isinstance(pooling, BinPooling) or pooling.ranges.missing or cells.count > SMALL:
        return mean_tally_of(coded_sums(pair, pooling.codes, cells.count), cells)
    edges, values = pooling.ranges.edges, pooling.values
    low, high = pooling.width or (float(edges[0]), float(edges[-1]))
    options = low, high, edges, pooling.width is not None and high > low

    def work(start: int, stop: int) -> tuple[np.ndarray]:
        result = np.zeros((cells.count, 4), np.int64)
        binned_means(values[start:stop], pair.predicted[start:stop], pair.observed[start:stop], *options, result)
        return (result,)

    (sums,) = _added(over_blocks(pair.rows, work, _block(cells.count)))
    return mean_tally_of(sums, cells)


def coded_sums(pair: Pair, codes: Callable[[int, int], np.ndarray], cells: int) -> np.ndarray:
    """Rows, events and the two limbs of the predictions per cell, (cells, 4) int64; `codes` gives those of a block."""
    from miscal.kernels.sums import PACKED_ROWS, coded_means, unpacked_means

    def work(start: int, stop: int) -> np.ndarray:
        packed = np.zeros((cells, 2), np.uint64)
        rows = (codes(start, stop), pair.predicted[start:stop], pair.observed[start:stop])
        coded_means(*map(locked, rows), packed)
        return packed

    # Whole numbers: no partition changes a bit, so one block a thread spares adding many cells up.
    block = min(max(_block(cells), -(-pair.rows // thread_count())), PACKED_ROWS)
    sums = np.zeros((cells, 4), np.int64)
    for packed in over_blocks(pair.rows, work, block):
        unpacked_means(packed, sums)
    return sums


def _weighted_means(pair: Pair, pooling: Pooling) -> Tally:
    from miscal.kernels.sums import means_real

    cells = pooling.cells.count
    assert pair.weight is not None
    arrays = (pair.predicted, pair.observed, pair.weight, NO_COUNT if pair.count is None else pair.count)

    def work(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        rows, result = np.zeros(cells, np.int64), np.zeros((cells, len(MEAN_COLUMNS)))
        means_real(pooling.codes(start, stop), *(values[start:stop] for values in arrays), rows, result)
        return rows, result

    counts, sums = _added(over_blocks(pair.rows, work, _block(cells)))
    return Tally(cells=pooling.cells, counts=counts, limbs=None, sums=sums, columns=MEAN_COLUMNS, weighted=True)


def mean_tally_of(sums: np.ndarray, cells: Cells) -> Tally:
    """The tally of rows, events and the two limbs of the predictions per cell: sums (cells, 4) int64."""
    limbs = np.zeros((cells.count, 3, 2), np.int64)
    np.left_shift(sums[:, :2], 20, out=limbs[:, ::2, 0])
    np.add(sums[:, 2], sums[:, 3] >> 32, out=limbs[:, 1, 0])
    np.bitwise_and(sums[:, 3], 0xFFFFFFFF, out=limbs[:, 1, 1])
    return Tally(cells=cells, counts=sums[:, 0].copy(), limbs=limbs, sums=None, columns=MEAN_COLUMNS)

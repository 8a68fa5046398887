"""Add the rows of arrays in memory into carriers, block by block on a few threads."""

from collections.abc import Callable

import numpy as np

from miscal.carriers.tally import MEAN_COLUMNS, Tally
from miscal.engines.sums import NO_COUNT, CellSums
from miscal.kernels.order import strips
from miscal.kernels.sorting import rows_at
from miscal.kernels.sums import PACKED_ROWS, SMALL, binned_means, coded_means, means_real, unpacked_means
from miscal.kernels.threads import over_blocks, thread_count
from miscal.pairs import Pair
from miscal.pooling.bins import bin_index, interpolated, quantile_ranks
from miscal.pooling.cells import BinPooling, Cells, Pooling, Ranges

# With many cells each block's own sums cost more than the rows: fewer, larger blocks then.
CELLS_A_BLOCK = 1 << 12
LEAST_ROWS = 1 << 16  # below, sorting everything is as quick as cutting it into strips
STRIPS = 1 << 12
SAMPLE = 4096


def tally(pair: Pair, pooling: Pooling) -> Tally:
    """All columns of a tally."""
    cells, count, rows = pooling.cells, pooling.cells.count, pair.rows

    def work(start: int, stop: int) -> CellSums:
        sums = CellSums([count], recalibrated=False)
        codes = np.ascontiguousarray(pooling.codes(start, stop), np.int32)
        sums.add(codes[None], pair if stop - start == rows else pair.take(slice(start, stop)), None)
        return sums

    total, *others = over_blocks(rows, work, _block(count))
    for other in others:
        total.merge(other.arrays())
    return total.tally(0, np.arange(count), cells, weighted=pair.weight is not None)


def _block(cells: int) -> int:
    return 1 << 18 if cells <= CELLS_A_BLOCK else max(1 << 21, 32 * cells)


def mean_tally(pair: Pair, pooling: Pooling) -> Tally:
    """Only weight, predicted and observed: what errors without noise need, several times quicker."""
    if not (pair.plain and pair.binary):
        return tally(pair, pooling) if pair.whole or pair.weight is None else _weighted_means(pair, pooling)
    cells = pooling.cells
    if not isinstance(pooling, BinPooling) or pooling.cells.missing or cells.count > SMALL:
        return mean_tally_of(coded_sums(pair, pooling.codes, cells.count), cells)
    edges, values = pooling.cells.edges, pooling.values
    options = float(edges[0]), float(edges[-1]), edges, pooling.even

    def work(start: int, stop: int) -> np.ndarray:
        result = np.zeros((cells.count, 4), np.int64)
        binned_means(values[start:stop], pair.predicted[start:stop], pair.observed[start:stop], *options, result)
        return result

    return mean_tally_of(np.sum(over_blocks(pair.rows, work, _block(cells.count)), axis=0), cells)


def coded_sums(pair: Pair, codes: Callable[[int, int], np.ndarray], cells: int) -> np.ndarray:
    """Rows, events and the two limbs of the predictions per cell, (cells, 4) int64; `codes` gives those of a block."""

    def work(start: int, stop: int) -> np.ndarray:
        packed = np.zeros((cells, 2), np.uint64)
        cells_here = np.ascontiguousarray(codes(start, stop))
        coded_means(cells_here, pair.predicted[start:stop], pair.observed[start:stop], packed)
        return packed

    # Whole numbers: no partition changes a bit, so one block a thread spares adding many cells up.
    block = min(max(_block(cells), -(-pair.rows // thread_count())), PACKED_ROWS)
    sums = np.zeros((cells, 4), np.int64)
    for packed in over_blocks(pair.rows, work, block):
        unpacked_means(packed, sums)
    return sums


def _weighted_means(pair: Pair, pooling: Pooling) -> Tally:
    cells = pooling.cells.count
    assert pair.weight is not None
    arrays = (pair.predicted, pair.observed, pair.weight, NO_COUNT if pair.count is None else pair.count)

    def work(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        rows, result = np.zeros(cells, np.int64), np.zeros((cells, len(MEAN_COLUMNS)))
        means_real(pooling.codes(start, stop), *(values[start:stop] for values in arrays), rows, result)
        return rows, result

    parts = zip(*over_blocks(pair.rows, work, _block(cells)), strict=True)
    counts, sums = (sum(others, first) for first, *others in parts)
    return Tally(cells=pooling.cells, counts=counts, limbs=None, sums=sums, columns=MEAN_COLUMNS, weighted=True)


def mean_tally_of(sums: np.ndarray, cells: Cells) -> Tally:
    """The tally of rows, events and the two limbs of the predictions per cell: sums (cells, 4) int64."""
    limbs = np.zeros((cells.count, 3, 2), np.int64)
    np.left_shift(sums[:, :2], 20, out=limbs[:, ::2, 0])
    np.add(sums[:, 2], sums[:, 3] >> 32, out=limbs[:, 1, 0])
    np.bitwise_and(sums[:, 3], 0xFFFFFFFF, out=limbs[:, 1, 1])
    return Tally(cells=cells, counts=sums[:, 0].copy(), limbs=limbs, sums=None, columns=MEAN_COLUMNS)


def quantile_tally(pair: Pair, values: np.ndarray, bins: int, *, whole: bool = False) -> Tally:
    """Weight, predicted and observed per equal-support bin of `values`; every row counts once, outcomes are 0 or 1.

    Rows are added into thousands of narrow strips of the value. The edges lie in a few of them; only the rows of those
    are looked at again, all other strips fall into one bin whole.

    whole : the values are whole numbers; where their range is small each has a strip of its own, and no row is looked
        at twice
    """
    low, scale, own = _layout(values, whole=whole)
    codes = np.empty(values.size, np.int16)

    def strip_codes(start: int, stop: int) -> np.ndarray:
        strips(values[start:stop], low, scale, STRIPS - 1.0, codes[start:stop])
        return codes[start:stop]

    sums = coded_sums(pair, strip_codes, STRIPS)
    shares = np.arange(bins + 1) / bins
    ranks = quantile_ranks(shares, values.size)
    if own:
        rows, found = np.empty(0, np.int64), low + np.searchsorted(np.cumsum(sums[:, 0]), ranks, side="right")
    else:
        rows, places = rows_at(codes, sums[:, 0], ranks)
        found = np.sort(values[rows])[places]
    edges = np.unique(interpolated(found, shares, values.size))
    edges = edges if edges.size > 1 else np.repeat(edges, 2)
    again = bin_index(values[rows], edges)
    total = coded_sums(pair.take(rows), lambda start, stop: again[start:stop], edges.size - 1)
    sums[codes[rows]] = 0
    others = np.flatnonzero(sums[:, 0])
    # The last row at or below an edge lies in a strip that was looked at, so any other strip lies between two edges.
    place = low + others if own else low + (others + 0.5) / scale
    np.add.at(total, bin_index(place.astype(np.float64), edges), sums[others])
    return mean_tally_of(total, Ranges(edges))


def _layout(values: np.ndarray, *, whole: bool) -> tuple[float, float, bool]:
    """Where the strips start, how many there are a unit, and whether each whole number has its own."""
    if whole:
        low, high = float(values.min()), float(values.max())
        if high - low < STRIPS:
            return low, 1.0, True
    sample = np.sort(values[:: max(1, values.size // SAMPLE)])
    edge = sample.size // 256  # a few far outliers must not make all strips wide
    low, high = float(sample[edge]), float(sample[-1 - edge])
    if not high > low:
        low, high = float(values.min()), float(values.max())
    return low, (STRIPS - 1) / (high - low) if high > low else 1.0, False

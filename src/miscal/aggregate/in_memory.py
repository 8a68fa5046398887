"""Sums and cumulative differences of rows in memory, block by block on several threads.

`tally` adds rows to cells. `cumulative_range` orders rows by a key (the score, or a column) and finds the highest and
the lowest partial sum of the residuals: their difference is the Kuiper statistic.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from miscal.aggregate.exact_sums import NO_COUNT, ExactCellSums
from miscal.aggregate.tally import MEAN_COLUMNS, Tally, carry_limbs
from miscal.cells.partitions import BinPooling, Cells, LevelPooling, Numbered, Pooling, Ranges
from miscal.cells.ranges import bin_index, interpolated, quantile_ranks
from miscal.data.arrays import Array, locked
from miscal.data.target import TargetData
from miscal.kernels.order import add_exact, add_real, spread, strips
from miscal.kernels.sorting import BucketMap, distinct_up_to, rows_at, rows_in
from miscal.kernels.sums import PACKED_ROWS, SMALL, binned_means, coded_means, means_real, unpacked_means
from miscal.kernels.threads import over_blocks, thread_count

# With more cells the sums of a block cost more than its rows: blocks are then fewer and larger.
MAX_CELLS_OF_SMALL_BLOCKS = 1 << 12
MIN_ROWS_FOR_STRIPS = 1 << 16  # with fewer rows, sorting all of them is as fast as cutting them into strips
N_STRIPS = 1 << 12
STRIP_SAMPLE_ROWS = 4096
MIN_DISTINCT_KEYS = 200  # what a rule of the inference asks for; more are not counted
LIMB_BITS = 26
LIMB_MASK = (1 << LIMB_BITS) - 1
KEY_BLOCK_ROWS = 1 << 21  # large, since each block has its own buckets


def tally(target_data: TargetData, pooling: Pooling) -> Tally:
    """The sums of rows per cell, all columns.

    Parameters
    ----------
    target_data : TargetData
    pooling : Pooling
        The cells, and the cell of each row.
    """
    cells, rows = pooling.cells, target_data.rows

    def work(start: int, stop: int) -> Tally:
        sums = ExactCellSums([cells.count], recalibrated=False)
        codes = np.ascontiguousarray(pooling.codes(start, stop), np.int32)
        block = target_data if stop - start == rows else target_data.take(slice(start, stop))
        sums.add(codes[None], block)
        return sums.tally(0, weighted=target_data.weight is not None)

    total, *others = over_blocks(rows, work, _block_rows(cells.count))
    return replace(sum(others, total), cells=cells)


def _block_rows(n_cells: int) -> int:
    return 1 << 18 if n_cells <= MAX_CELLS_OF_SMALL_BLOCKS else max(1 << 21, 32 * n_cells)


def mean_tally(target_data: TargetData, pooling: Pooling) -> Tally:
    """As `tally`, but only weight, predicted and observed: several times faster, and enough for point estimates."""
    if not (target_data.is_unweighted and target_data.binary):
        return (
            tally(target_data, pooling)
            if target_data.has_whole_weights
            else _weighted_means(target_data, pooling)
        )
    cells = pooling.cells
    if not isinstance(pooling, BinPooling) or pooling.cells.missing or cells.count > SMALL:
        return mean_tally_of(coded_sums(target_data, pooling.codes, cells.count), cells)
    arrays = pooling.values, target_data.predicted, target_data.observed

    def add(start: int, stop: int, packed: Array) -> None:
        block = (values[start:stop] for values in arrays)
        binned_means(*block, pooling.cells.edges, pooling.even, packed)

    return mean_tally_of(_packed_sums(target_data.rows, add, cells.count), cells)


def coded_sums(target_data: TargetData, codes: Callable[[int, int], Array], cells: int) -> Array:
    """Rows, events and the two limbs of the predictions per cell.

    Parameters
    ----------
    target_data : TargetData
    codes : callable
        Called with the start and the stop of a block; returns the cell of each of its rows.
    cells : int
        Number of cells.

    Returns
    -------
    ndarray of int64, (cells, 4)
    """

    def add(start: int, stop: int, packed: Array) -> None:
        block_codes = np.ascontiguousarray(codes(start, stop))
        coded_means(block_codes, target_data.predicted[start:stop], target_data.observed[start:stop], packed)

    return _packed_sums(target_data.rows, add, cells)


def _packed_sums(rows: int, add: Callable[[int, int, Array], None], cells: int) -> Array:
    """The same for blocks of rows that `add` packs."""

    def work(start: int, stop: int) -> Array:
        packed = np.zeros(2 * cells, np.uint64)
        add(start, stop, packed)
        return packed

    # The sums are integers, so the division into blocks changes no bit; one block per thread saves adding many cells.
    block = min(max(_block_rows(cells), -(-rows // thread_count())), PACKED_ROWS)
    sums = np.zeros((cells, 4), np.int64)
    for packed in over_blocks(rows, work, block):
        unpacked_means(packed, sums)
    return sums


def _weighted_means(target_data: TargetData, pooling: Pooling) -> Tally:
    cells = pooling.cells.count
    arrays = (
        target_data.predicted,
        target_data.observed,
        target_data.sampling_weight,
        NO_COUNT if target_data.count is None else target_data.count,
    )

    def work(start: int, stop: int) -> tuple[Array, Array]:
        rows, result = np.zeros(cells, np.int64), np.zeros((cells, len(MEAN_COLUMNS)))
        block = [values[start:stop] for values in arrays]
        means_real(pooling.codes(start, stop), *block, rows, result)
        return rows, result

    parts = zip(*over_blocks(target_data.rows, work, _block_rows(cells)), strict=True)
    counts, sums = (sum(others, first) for first, *others in parts)
    return Tally(pooling.cells, counts, None, sums, MEAN_COLUMNS, weighted=True)


def mean_tally_of(sums: Array, cells: Cells) -> Tally:
    """The tally that `coded_sums` are the sums of."""
    limbs = np.zeros((cells.count, 3, 2), np.int64)
    limbs[:, ::2, 0] = sums[:, :2] << 20
    limbs[:, 1] = sums[:, 2:]
    return Tally(cells, sums[:, 0].copy(), carry_limbs(limbs), None, MEAN_COLUMNS)


def quantile_tally(target_data: TargetData, values: Array, bins: int) -> Tally:
    """Weight, predicted and observed per bin of `values`, with equal rows per bin, for binary unweighted rows.

    Rows are first added to thousands of narrow strips of the value. The edges lie in a few of them: only the rows of
    those strips are added again, and every other strip lies in one bin as a whole.
    """
    low, scale = _strip_layout(values)
    codes = np.empty(values.size, np.int16)

    def strip_codes(start: int, stop: int) -> Array:
        strips(values[start:stop], low, scale, N_STRIPS - 1.0, codes[start:stop])
        return codes[start:stop]

    sums = coded_sums(target_data, strip_codes, N_STRIPS)
    shares = np.arange(bins + 1) / bins
    rows, ranks = rows_at(codes, sums[:, 0], quantile_ranks(shares, values.size))
    order_statistics = np.sort(values[rows])[ranks]
    edges = np.unique(interpolated(order_statistics, shares, values.size))
    edges = edges if edges.size > 1 else np.repeat(edges, 2)
    bins_of_rows = bin_index(values[rows], edges)
    total = coded_sums(target_data.take(rows), lambda start, stop: bins_of_rows[start:stop], edges.size - 1)
    sums[codes[rows]] = 0
    whole_strips = np.flatnonzero(sums[:, 0])
    # The last row at or below an edge lies in a strip whose rows were added again: all others lie between two edges.
    middle = low + (whole_strips + 0.5) / scale
    np.add.at(total, bin_index(middle, edges), sums[whole_strips])
    return mean_tally_of(total, Ranges(edges))


def _strip_layout(values: Array) -> tuple[float, float]:
    """The start of the first strip, and the number of strips per unit of the value."""
    sample = np.sort(values[:: max(1, values.size // STRIP_SAMPLE_ROWS)])
    edge = sample.size // 256  # a few far outliers must not make all strips wide
    low, high = sample[[edge, -1 - edge]].tolist()
    if not high > low:
        low, high = float(values.min()), float(values.max())
    return low, (N_STRIPS - 1) / (high - low) if high > low else 1.0


@dataclass(frozen=True)
class CumulativeRange:
    """The range of the cumulative differences between observed and predicted, in the order of a key.

    Attributes
    ----------
    range : float
        The highest minus the lowest partial sum of the weighted residuals, the start (0) included, divided by the
        weight: the Kuiper statistic.
    weight : float
        Σw.
    variance : float
        Σw²p(1-p).
    events : float
        Expected number of the rarer outcome, the smaller of Σw·p and Σw·(1-p).
    n_distinct : int
        Number of distinct keys, counted up to `MIN_DISTINCT_KEYS`.
    highest_at, lowest_at : float
        The last key at the highest and at the lowest partial sum; NaN at the start.
    smallest_key : float
    """

    range: float
    weight: float
    variance: float
    events: float
    n_distinct: int
    highest_at: float = math.nan
    lowest_at: float = math.nan
    smallest_key: float = math.nan

    @property
    def deviation(self) -> float:
        """Standard deviation of the last partial sum of a calibrated model, divided by the weight."""
        return math.sqrt(self.variance) / self.weight


def cumulative_range_of_sums(
    sums: Array, keys: Array, whole: Tally, n_distinct: int, smallest_key: float
) -> CumulativeRange:
    """The range of partial sums that were computed already.

    Parameters
    ----------
    sums : ndarray
        Partial sums, the highest and the lowest among them; the start (0) may be left out.
    keys : ndarray
        The key at which each is reached.
    whole : Tally
        All rows as one cell.
    n_distinct : int
    smallest_key : float
    """
    sums, keys = np.append(0.0, sums), np.append(math.nan, keys)
    high, low = int(np.argmax(sums)), int(np.argmin(sums))
    weight, predicted = float(whole.weight[0]), float(whole.predicted[0])
    return CumulativeRange(
        range=float(sums[high] - sums[low]) / weight,
        weight=weight,
        variance=float(whole.variance[0]),
        events=min(predicted, weight - predicted),
        n_distinct=n_distinct,
        highest_at=float(keys[high]),
        lowest_at=float(keys[low]),
        smallest_key=smallest_key,
    )


def cumulative_range(target_data: TargetData, key: Array | None = None) -> CumulativeRange:
    """The range of the cumulative differences in the order of `key`, by default of the prediction."""
    differences = _OrderedDifferences(target_data, key)
    whole = tally(target_data, LevelPooling(np.zeros(target_data.rows, np.int32), Numbered(1)))
    n_distinct = distinct_up_to(differences.key, MIN_DISTINCT_KEYS)
    sums, keys = differences.extremes()
    return cumulative_range_of_sums(sums, keys, whole, n_distinct, differences.buckets.low)


def kuiper_statistic(target_data: TargetData, key: Array | None = None) -> float:
    """The Kuiper statistic alone: the highest minus the lowest partial sum, divided by the weight."""
    sums, _ = _OrderedDifferences(target_data, key).extremes()
    weight = target_data.rows if target_data.mean_weight is None else target_data.mean_weight.sum()
    span = sums.max(initial=0.0) - sums.min(initial=0.0)
    return float(span / weight)


class _OrderedDifferences:
    """Cumulative differences without sorting all rows.

    Rows are added to narrow buckets of the key. Only the rows of buckets that may hold an extreme are then sorted.
    """

    def __init__(self, target_data: TargetData, key: Array | None) -> None:
        self.target_data, self.key = target_data, locked(target_data.predicted if key is None else key)
        self.weight = target_data.kernel_weight
        self.exact = target_data.has_whole_weights and target_data.binary
        self.buckets = BucketMap(self.key, 4096 if target_data.rows < 200_000 else 16384)
        self.codes = locked(self.buckets.codes(self.key))

    def extremes(self) -> tuple[Array, Array]:
        """Partial sums, the highest and the lowest among them, and the keys at which they are reached."""
        # Sums of the negative and of the positive residuals in each bucket, of two limbs each if exact.
        down, up = self._bucket_sums().T.reshape(2, -1, self.buckets.count)
        falls, rises = _float_of(down), _float_of(up)
        partial = np.zeros((len(up), self.buckets.count + 1), up.dtype)  # at the borders of buckets
        np.cumsum(up - down, axis=1, out=partial[:, 1:])
        borders = _float_of(partial)
        start, ends = borders[:-1], borders[1:]
        highest, lowest = borders.max(), borders.min()
        slack = 1e-12 * max(1.0, highest, -lowest)
        candidates = (start + rises > highest - slack) | (start - falls < lowest + slack)
        candidates &= rises + falls > 0
        lows = np.full(self.buckets.count, np.inf)
        highs = -lows
        spread(self.codes, self.key, candidates, lows, highs)
        # A bucket of one key, and one whose residuals have one sign, has its extremes at its borders.
        inside = candidates & (lows < highs) & (rises > 0) & (falls > 0)
        sums, keys = self._inside(rows_in(self.codes, inside), partial)
        return np.append(ends[candidates], sums), np.append(highs[candidates], keys)

    def _bucket_sums(self) -> Array:
        kernel, width, kind = (add_exact, 4, np.int64) if self.exact else (add_real, 2, np.float64)

        def work(start: int, stop: int) -> Array:
            result = np.zeros((self.buckets.count, width), kind)
            kernel(self.codes[start:stop], *self._rows(slice(start, stop)), result)
            return result

        return np.asarray(np.sum(over_blocks(self.key.size, work, KEY_BLOCK_ROWS), axis=0))

    def _rows(self, rows: slice | Array) -> tuple[Array, Array, Array]:
        weight = self.weight[rows] if self.weight.size else self.weight
        return self.target_data.predicted[rows], self.target_data.observed[rows], weight

    def _inside(self, rows: Array, partial: Array) -> tuple[Array, Array]:
        """Partial sums after each key of some buckets, starting from the border of each."""
        rows = rows[np.argsort(self.key[rows], kind="stable")]
        key, codes, steps = self.key[rows], self.codes[rows], self._steps(rows)
        buckets, starts, sizes = np.unique(codes, return_index=True, return_counts=True)
        total = np.cumsum(steps, axis=1)
        before = partial[:, buckets] - (total - steps)[:, starts]
        sums = _float_of(total + np.repeat(before, sizes, axis=1))
        ends = np.append(key[1:] != key[:-1], True)[: rows.size]  # tied rows have no order
        return sums[ends], key[ends]

    def _steps(self, rows: Array) -> Array:
        """Weight times residual of some rows: limbs of 26 bits, (2, rows), if exact, else (1, rows)."""
        predicted, observed, weight = self._rows(rows)
        if not self.exact:
            residual = observed - predicted
            return (residual * weight if weight.size else residual)[None]
        grid = observed.astype(np.int64) << 52
        grid -= (predicted * 2.0**52 + 0.5).astype(np.int64)
        limbs = np.stack([grid >> 26, grid & LIMB_MASK])
        return limbs * weight.astype(np.int64) if weight.size else limbs


def _float_of(limbs: Array) -> Array:
    """Floats from limbs of 26 bits, (2, n) int64, carried or not; floats (1, n) are returned as they are."""
    if len(limbs) == 1:
        return np.asarray(limbs[0])
    upper, lower = limbs
    high, low = upper + (lower >> LIMB_BITS), lower & LIMB_MASK
    return np.asarray(high * 2.0**-26 + low * 2.0**-52)

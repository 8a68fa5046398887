"""Rows of arrays in memory: added into carriers block by block on a few threads, and walked in the order of a key."""

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

# With many cells each block's own sums cost more than the rows: fewer, larger blocks then.
CELLS_A_BLOCK = 1 << 12
LEAST_ROWS = 1 << 16  # below, sorting everything is as quick as cutting it into strips
STRIPS = 1 << 12
SAMPLE = 4096


def tally(pair: TargetData, pooling: Pooling) -> Tally:
    """All columns of a tally."""
    cells, rows = pooling.cells, pair.rows

    def work(start: int, stop: int) -> Tally:
        sums = ExactCellSums([cells.count], recalibrated=False)
        codes = np.ascontiguousarray(pooling.codes(start, stop), np.int32)
        own = pair if stop - start == rows else pair.take(slice(start, stop))
        sums.add(codes[None], own)
        return sums.tally(0, weighted=pair.weight is not None)

    total, *others = over_blocks(rows, work, _block(cells.count))
    return replace(sum(others, total), cells=cells)


def _block(cells: int) -> int:
    return 1 << 18 if cells <= CELLS_A_BLOCK else max(1 << 21, 32 * cells)


def mean_tally(pair: TargetData, pooling: Pooling) -> Tally:
    """Only weight, predicted and observed: what errors without noise need, several times quicker."""
    if not (pair.plain and pair.binary):
        return tally(pair, pooling) if pair.whole else _weighted_means(pair, pooling)
    cells = pooling.cells
    if not isinstance(pooling, BinPooling) or pooling.cells.missing or cells.count > SMALL:
        return mean_tally_of(coded_sums(pair, pooling.codes, cells.count), cells)
    arrays = pooling.values, pair.predicted, pair.observed

    def add(start: int, stop: int, packed: Array) -> None:
        own = (values[start:stop] for values in arrays)
        binned_means(*own, pooling.cells.edges, pooling.even, packed)

    return mean_tally_of(_packed_sums(pair.rows, add, cells.count), cells)


def coded_sums(pair: TargetData, codes: Callable[[int, int], Array], cells: int) -> Array:
    """Rows, events and the two limbs of the predictions per cell, (cells, 4) int64; `codes` gives those of a block."""

    def add(start: int, stop: int, packed: Array) -> None:
        cells_here = np.ascontiguousarray(codes(start, stop))
        coded_means(cells_here, pair.predicted[start:stop], pair.observed[start:stop], packed)

    return _packed_sums(pair.rows, add, cells)


def _packed_sums(rows: int, add: Callable[[int, int, Array], None], cells: int) -> Array:
    """The same of blocks of rows that `add` packs."""

    def work(start: int, stop: int) -> Array:
        packed = np.zeros(2 * cells, np.uint64)
        add(start, stop, packed)
        return packed

    # Whole numbers: no partition changes a bit, so one block a thread spares adding many cells up.
    block = min(max(_block(cells), -(-rows // thread_count())), PACKED_ROWS)
    sums = np.zeros((cells, 4), np.int64)
    for packed in over_blocks(rows, work, block):
        unpacked_means(packed, sums)
    return sums


def _weighted_means(pair: TargetData, pooling: Pooling) -> Tally:
    cells = pooling.cells.count
    arrays = (pair.predicted, pair.observed, pair.sampling, NO_COUNT if pair.count is None else pair.count)

    def work(start: int, stop: int) -> tuple[Array, Array]:
        rows, result = np.zeros(cells, np.int64), np.zeros((cells, len(MEAN_COLUMNS)))
        own = [values[start:stop] for values in arrays]
        means_real(pooling.codes(start, stop), *own, rows, result)
        return rows, result

    parts = zip(*over_blocks(pair.rows, work, _block(cells)), strict=True)
    counts, sums = (sum(others, first) for first, *others in parts)
    return Tally(pooling.cells, counts, None, sums, MEAN_COLUMNS, weighted=True)


def mean_tally_of(sums: Array, cells: Cells) -> Tally:
    """The tally of rows, events and the two limbs of the predictions per cell: sums (cells, 4) int64."""
    limbs = np.zeros((cells.count, 3, 2), np.int64)
    limbs[:, ::2, 0] = sums[:, :2] << 20
    limbs[:, 1] = sums[:, 2:]
    return Tally(cells, sums[:, 0].copy(), carry_limbs(limbs), None, MEAN_COLUMNS)


def quantile_tally(pair: TargetData, values: Array, bins: int) -> Tally:
    """Weight, predicted and observed per equal-support bin of `values`; every row counts once, outcomes are 0 or 1.

    Rows are added into thousands of narrow strips of the value. The edges lie in a few of them; only the rows of those
    are looked at again, all other strips fall into one bin whole.
    """
    low, scale = _layout(values)
    codes = np.empty(values.size, np.int16)

    def strip_codes(start: int, stop: int) -> Array:
        strips(values[start:stop], low, scale, STRIPS - 1.0, codes[start:stop])
        return codes[start:stop]

    sums = coded_sums(pair, strip_codes, STRIPS)
    shares = np.arange(bins + 1) / bins
    rows, places = rows_at(codes, sums[:, 0], quantile_ranks(shares, values.size))
    found = np.sort(values[rows])[places]
    edges = np.unique(interpolated(found, shares, values.size))
    edges = edges if edges.size > 1 else np.repeat(edges, 2)
    again = bin_index(values[rows], edges)
    looked_at = pair.take(rows)
    total = coded_sums(looked_at, lambda start, stop: again[start:stop], edges.size - 1)
    sums[codes[rows]] = 0
    others = np.flatnonzero(sums[:, 0])
    # The last row at or below an edge lies in a strip that was looked at, so any other strip lies between two edges.
    middle = low + (others + 0.5) / scale
    np.add.at(total, bin_index(middle, edges), sums[others])
    return mean_tally_of(total, Ranges(edges))


def _layout(values: Array) -> tuple[float, float]:
    """Where the strips start, and how many there are a unit."""
    sample = np.sort(values[:: max(1, values.size // SAMPLE)])
    edge = sample.size // 256  # a few far outliers must not make all strips wide
    low, high = sample[[edge, -1 - edge]].tolist()
    if not high > low:
        low, high = float(values.min()), float(values.max())
    return low, (STRIPS - 1) / (high - low) if high > low else 1.0


DISTINCT = 200  # what the inference's rule asks for; more need not be counted
LIMB = (1 << 26) - 1
BLOCK = 1 << 21  # rows a block: each block has its own buckets


@dataclass(frozen=True)
class Walk:
    """Summary of a walk.

    Attributes
    ----------
    range : highest minus lowest of its partial sums, the start, 0, included, divided by the weight: Kuiper's error
    weight : Σw;  variance : Σw²p(1-p)
    events : expected ones of the rarer side, the smaller of Σw·p and Σw·(1-p)
    distinct : number of distinct keys, counted up to a limit
    highest_at, lowest_at : the last key before the walk stands there; NaN at the start
    first : smallest key
    """

    range: float
    weight: float
    variance: float
    events: float
    distinct: int
    highest_at: float = math.nan
    lowest_at: float = math.nan
    first: float = math.nan

    @property
    def deviation(self) -> float:
        """Standard deviation of the walk's end under calibration, divided by the weight."""
        return math.sqrt(self.variance) / self.weight


def walk_of(sums: Array, keys: Array, whole: Tally, distinct: int, first: float) -> Walk:
    """The summary of partial sums and the keys they are reached at.

    sums : those that may be the highest or the lowest, apart from the start
    whole : all rows as one cell
    """
    sums, keys = np.append(0.0, sums), np.append(math.nan, keys)
    high, low = int(np.argmax(sums)), int(np.argmin(sums))
    weight, predicted = float(whole.weight[0]), float(whole.predicted[0])
    return Walk(
        range=float(sums[high] - sums[low]) / weight,
        weight=weight,
        variance=float(whole.variance[0]),
        events=min(predicted, weight - predicted),
        distinct=distinct,
        highest_at=float(keys[high]),
        lowest_at=float(keys[low]),
        first=first,
    )


def walk(pair: TargetData, key: Array | None = None) -> Walk:
    """Highest and lowest partial sum of the residuals ordered by `key` (the prediction unless given), and where."""
    walker = _Walker(pair, key)
    whole = tally(pair, LevelPooling(np.zeros(pair.rows, np.int32), Numbered(1)))
    distinct = distinct_up_to(walker.key, DISTINCT)
    return walk_of(*walker.extremes(), whole, distinct, walker.map.low)


def walk_range(pair: TargetData, key: Array | None = None) -> float:
    """Highest minus lowest partial sum over the total weight, and nothing else."""
    sums, _ = _Walker(pair, key).extremes()
    weight = pair.rows if pair.first is None else pair.first.sum()
    span = sums.max(initial=0.0) - sums.min(initial=0.0)
    return float(span / weight)


class _Walker:
    """One walk: rows in narrow buckets of the key, and a look inside those that may hold an extreme."""

    def __init__(self, pair: TargetData, key: Array | None) -> None:
        self.pair, self.key = pair, locked(pair.predicted if key is None else key)
        self.weight = pair.uneven
        self.exact = pair.whole and pair.binary
        self.map = BucketMap(self.key, 4096 if pair.rows < 200_000 else 16384)
        self.codes = locked(self.map.codes(self.key))

    def extremes(self) -> tuple[Array, Array]:
        """Partial sums with the highest and the lowest among them, and the keys they are reached at."""
        down, up = self._buckets().T.reshape(2, -1, self.map.count)  # of two limbs each where exact
        falls, rises = _value(down), _value(up)
        partial = np.zeros((len(up), self.map.count + 1), up.dtype)  # at the borders
        np.cumsum(up - down, axis=1, out=partial[:, 1:])
        borders = _value(partial)
        start, ends = borders[:-1], borders[1:]
        highest, lowest = borders.max(), borders.min()
        slack = 1e-12 * max(1.0, highest, -lowest)
        wanted = (start + rises > highest - slack) | (start - falls < lowest + slack)
        wanted &= rises + falls > 0
        lows = np.full(self.map.count, np.inf)
        highs = -lows
        spread(self.codes, self.key, wanted, lows, highs)
        # A bucket of one key, one that only rises or one that only falls has its extremes at its borders.
        inside = wanted & (lows < highs) & (rises > 0) & (falls > 0)
        sums, keys = self._inside(rows_in(self.codes, inside), partial)
        return np.append(ends[wanted], sums), np.append(highs[wanted], keys)

    def _buckets(self) -> Array:
        kernel, width, kind = (add_exact, 4, np.int64) if self.exact else (add_real, 2, np.float64)

        def work(start: int, stop: int) -> Array:
            result = np.zeros((self.map.count, width), kind)
            kernel(self.codes[start:stop], *self._rows(slice(start, stop)), result)
            return result

        return np.asarray(np.sum(over_blocks(self.key.size, work, BLOCK), axis=0))

    def _rows(self, rows: slice | Array) -> tuple[Array, Array, Array]:
        weight = self.weight[rows] if self.weight.size else self.weight
        return self.pair.predicted[rows], self.pair.observed[rows], weight

    def _inside(self, rows: Array, partial: Array) -> tuple[Array, Array]:
        """Partial sums after each key of some buckets, walked through from the border of each."""
        rows = rows[np.argsort(self.key[rows], kind="stable")]
        key, codes, steps = self.key[rows], self.codes[rows], self._steps(rows)
        buckets, starts, sizes = np.unique(codes, return_index=True, return_counts=True)
        total = np.cumsum(steps, axis=1)
        before = partial[:, buckets] - (total - steps)[:, starts]
        sums = _value(total + np.repeat(before, sizes, axis=1))
        ends = np.append(key[1:] != key[:-1], True)[: rows.size]  # within a block of ties there is no order
        return sums[ends], key[ends]

    def _steps(self, rows: Array) -> Array:
        """Weight times residual of some rows: (2, rows) limbs of 26 bits where exact, else (1, rows)."""
        predicted, observed, weight = self._rows(rows)
        if not self.exact:
            residual = observed - predicted
            return (residual * weight if weight.size else residual)[None]
        grid = observed.astype(np.int64) << 52
        grid -= (predicted * 2.0**52 + 0.5).astype(np.int64)
        limbs = np.stack([grid >> 26, grid & LIMB])
        return limbs * weight.astype(np.int64) if weight.size else limbs


def _value(limbs: Array) -> Array:
    """Numbers of their limbs (2, n) int64 of 26 bits, which need not be carried; real ones (1, n) as they are."""
    if len(limbs) == 1:
        return np.asarray(limbs[0])
    upper, lower = limbs
    high, low = upper + (lower >> 26), lower & LIMB
    return np.asarray(high * 2.0**-26 + low * 2.0**-52)

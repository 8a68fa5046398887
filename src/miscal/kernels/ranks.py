"""Order statistics of many rows without sorting all of them."""

from __future__ import annotations

import numpy as np

from miscal.kernels.buckets import BucketMap, bounds, bucket
from miscal.kernels.jit import kernel
from miscal.kernels.sums import SUB_BLOCK, coded_means
from miscal.kernels.threads import over_blocks

FEW = 1 << 16
BUCKETS = 1 << 14


@kernel
def _count(values, count, base, scale, starts, widths, result):
    for i in range(values.size):
        result[bucket(values[i], base, scale, starts, widths)] += count[i] if count.size else 1


@kernel
def pick(values, base, scale, starts, widths, wanted, rows):
    """Positions of the rows in wanted buckets; `rows` has one slot more than there are values."""
    found = 0
    for i in range(values.size):
        rows[found] = i
        found += wanted[bucket(values[i], base, scale, starts, widths)]
    return found


def order_statistics(values: np.ndarray, ranks: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The values at the given 0-based ranks of the sorted rows, each row standing `count` times (empty: once)."""
    if values.size <= FEW:
        order = np.argsort(values, kind="stable")
        ends = np.cumsum(count[order]) if count.size else np.arange(1, values.size + 1)
        return np.asarray(values[order[np.searchsorted(ends, ranks, side="right")]])
    low, high = bounds(values)
    where = BucketMap(values, low, high, BUCKETS)
    totals = _bucket_totals(values, count, where)
    ends = np.cumsum(totals)
    buckets = np.searchsorted(ends, ranks, side="right")
    wanted = np.zeros(BUCKETS, np.uint8)
    wanted[buckets] = 1
    kept, kept_count = _rows_in(values, count, where, wanted)
    order = np.argsort(kept, kind="stable")
    kept, kept_count = kept[order], kept_count[order]
    # The kept rows stand at the head of each wanted bucket; what lies before them is known from the totals.
    skipped = np.cumsum(np.where(wanted == 1, 0, totals))[buckets]
    return np.asarray(kept[np.searchsorted(np.cumsum(kept_count), ranks - skipped, side="right")])


def _bucket_totals(values: np.ndarray, count: np.ndarray, where: BucketMap) -> np.ndarray:
    def work(start: int, stop: int) -> np.ndarray:
        result = np.zeros(BUCKETS, np.int64)
        _count(values[start:stop], count[start:stop], *where.arguments, result)
        return result

    return np.sum(over_blocks(values.size, work, block=1 << 21), axis=0)


def _rows_in(
    values: np.ndarray, count: np.ndarray, where: BucketMap, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    def work(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        rows = np.empty(stop - start + 1, np.int32)
        found = pick(values[start:stop], *where.arguments, wanted, rows)
        rows = rows[:found]
        times = count[start:stop][rows] if count.size else np.ones(found, np.int64)
        return values[start:stop][rows], times

    parts = over_blocks(values.size, work)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


@kernel
def _strips(values, low, scale, last, codes):
    """The strip of each value: equally wide strips from `low` on, the end strips catch what lies outside."""
    for i in range(values.size):
        codes[i] = np.int32(min(max((values[i] - low) * scale, 0.0), last))


@kernel
def strip_means(values, predicted, observed, low, scale, packed):
    """Rows, events and the sum of predictions per strip, packed as in `kernels.sums.coded_means`."""
    last = float(packed.shape[0] - 1)
    codes = np.empty(SUB_BLOCK, np.int32)
    start = 0
    while start < values.size:
        stop = min(start + SUB_BLOCK, values.size)
        _strips(values[start:stop], low, scale, last, codes)
        coded_means(codes[: stop - start], predicted[start:stop], observed[start:stop], packed)
        start = stop


@kernel
def strip_pick(values, low, scale, wanted, rows):
    """Positions of the rows in wanted strips; `rows` has one slot more than there are values."""
    last = float(wanted.size - 1)
    codes = np.empty(SUB_BLOCK, np.int32)
    found = 0
    start = 0
    while start < values.size:
        stop = min(start + SUB_BLOCK, values.size)
        _strips(values[start:stop], low, scale, last, codes)
        for i in range(stop - start):
            rows[found] = start + i
            found += wanted[np.uint64(codes[i])]
        start = stop
    return found

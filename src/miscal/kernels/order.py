"""Order: many numbers sorted by digits, their dense ranks, order statistics, walks, and rates made to rise.

Sorting by digits takes linear time and is stable. A number becomes an unsigned integer in the same order
(`kernels.buckets.ordinal`); missing numbers come last. Digits that all rows share cost nothing, so whole numbers, which
leave most bits empty, take two or three passes.

The range of a walk, of partial sums of residuals in the order of a key, is exact without sorting all rows. Pass 1 adds
the positive and the negative residuals in each bucket of the key. The partial sums at bucket borders are then exact,
and inside a bucket the walk cannot rise above its start plus the bucket's positive part, nor fall below its start minus
the negative part. Pass 2 collects only the rows of buckets that could hold the highest or lowest point; only they are
sorted. Sums are integers on the grid of `kernels.sums`, split into limbs of 26 bits, so a whole number of weights gives
the same bits for any order of rows.
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.buckets import BucketMap, ordinal
from miscal.kernels.jit import kernel
from miscal.kernels.sums import grid
from miscal.kernels.threads import BLOCK, over_blocks

DIGIT = 11
DIGITS = 6
SIZE = 1 << DIGIT
LAST = np.uint64(0xFFFFFFFFFFFFFFFF)
FEW = 1 << 16  # rows up to which all are sorted
BUCKETS = 1 << 14
HALF = 26  # bits of a limb of a walk
HALF_MASK = (1 << HALF) - 1
ONE = 1 << 52


@kernel
def _read(values, keys, counts):
    """Keys of the values, and the histogram of each digit."""
    mask = np.uint64(SIZE - 1)
    for i in range(values.size):
        value = values[i]
        key = LAST if value != value else ordinal(value)  # noqa: PLR0124  # only a missing number differs from itself
        keys[i] = key
        for digit in range(DIGITS):
            counts[digit, key & mask] += 1
            key >>= np.uint64(DIGIT)


@kernel
def _scatter(keys, order, to_keys, to_order, shift, starts):
    mask = np.uint64(SIZE - 1)
    for k in range(order.size):
        key = keys[k]
        digit = (key >> shift) & mask
        place = starts[digit]
        to_keys[place] = key
        to_order[place] = order[k]
        starts[digit] = place + 1


def sorted_order(values: np.ndarray) -> np.ndarray:
    """Positions that sort the values, int32; ties keep their order.

    >>> sorted_order(np.array([2.0, np.nan, -1.0, 2.0])).tolist()
    [2, 0, 3, 1]
    """
    order = np.arange(values.size, dtype=np.int32)
    keys, counts = np.empty(values.size, np.uint64), np.zeros((DIGITS, SIZE), np.int64)
    _read(values, keys, counts)
    spare_keys, spare = np.empty_like(keys), np.empty_like(order)
    for digit in range(DIGITS):
        if counts[digit].max(initial=0) == values.size:
            continue
        starts = np.cumsum(counts[digit]) - counts[digit]
        _scatter(keys, order, spare_keys, spare, np.uint64(digit * DIGIT), starts)
        keys, spare_keys, order, spare = spare_keys, keys, spare, order
    return order


def dense_ranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rank of each value among the distinct ones (int32), and the distinct values.

    >>> dense_ranks(np.array([5.0, 3.0, 5.0, np.nan]))
    (array([1, 0, 1, 2], dtype=int32), array([ 3.,  5., nan]))
    """
    order = sorted_order(values)
    placed = values[order]
    new = np.ones(values.size, bool)
    new[1:] = (placed[1:] != placed[:-1]) & ~(np.isnan(placed[1:]) & np.isnan(placed[:-1]))
    ranks = np.empty(values.size, np.int32)
    ranks[order] = np.cumsum(new, dtype=np.int32) - 1
    return ranks, placed[new]


def order_statistics(values: np.ndarray, ranks: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The values at the given 0-based ranks of the sorted rows, each row standing `count` times (empty: once)."""
    skipped: np.ndarray | int = 0
    if values.size > FEW:
        where = BucketMap(values, BUCKETS)
        codes = where.codes(values)
        totals = _bucket_totals(codes, count)
        buckets = np.searchsorted(np.cumsum(totals), ranks, side="right")
        wanted = np.zeros(BUCKETS, bool)
        wanted[buckets] = True
        # The kept rows stand at the head of each wanted bucket; what lies before them is known from the totals.
        skipped = np.cumsum(np.where(wanted, 0, totals))[buckets]
        rows = rows_in(codes, wanted)
        values, count = values[rows], count[rows] if count.size else count
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(count[order]) if count.size else np.arange(1, values.size + 1)
    return np.asarray(values[order[np.searchsorted(ends, ranks - skipped, side="right")]])


def _bucket_totals(codes: np.ndarray, count: np.ndarray) -> np.ndarray:
    if count.size:
        totals = np.zeros(BUCKETS, np.int64)
        np.add.at(totals, codes, count)
        return totals
    parts = over_blocks(codes.size, lambda start, stop: np.bincount(codes[start:stop], minlength=BUCKETS))
    return np.asarray(np.sum(parts, axis=0))


def rows_in(codes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Positions of the rows whose code is wanted; wanted : (codes,) bool."""
    starts = range(0, codes.size, BLOCK)
    parts = over_blocks(codes.size, lambda start, stop: np.flatnonzero(wanted[codes[start:stop]]))
    return np.concatenate([part + start for start, part in zip(starts, parts, strict=True)])


@kernel
def rising_rates(events, weight, rates):
    """The non-decreasing rates that fit events / weight best: adjacent violators are pooled; all weights positive.

    Comparisons are products of sums, exact for whole weights.
    """
    last = np.empty(events.size, np.int64)
    total = np.empty(events.size)
    mass = np.empty(events.size)
    blocks = 0
    for i in range(events.size):
        last[blocks] = i
        total[blocks] = events[i]
        mass[blocks] = weight[i]
        blocks += 1
        while blocks > 1 and total[blocks - 2] * mass[blocks - 1] >= total[blocks - 1] * mass[blocks - 2]:
            last[blocks - 2] = i
            total[blocks - 2] += total[blocks - 1]
            mass[blocks - 2] += mass[blocks - 1]
            blocks -= 1
    i = 0
    for block in range(blocks):
        rate = total[block] / mass[block]
        while i <= last[block]:
            rates[i] = rate
            i += 1


@kernel
def add_exact(codes, predicted, observed, weight, result):
    """Residuals with whole-number weights per bucket: result (buckets, 4) int64 = limbs of falls and of rises.

    A row with outcome 0 falls by its prediction, a row with outcome 1 rises by one minus its prediction.
    """
    for i in range(codes.size):
        place = np.uint64(codes[i])
        event = np.int64(observed[i])
        q = event * ONE - grid(predicted[i])
        size = q * (2 * event - 1)
        times = np.int64(weight[i]) if weight.size else np.int64(1)
        side = np.uint64(2 * event)
        result[place, side] += (size >> HALF) * times
        result[place, side + np.uint64(1)] += (size & HALF_MASK) * times


@kernel
def add_real(codes, predicted, observed, weight, result):
    """Residuals with any weights or outcomes per bucket: result (buckets, 2) float64 = falls and rises."""
    for i in range(codes.size):
        place = np.uint64(codes[i])
        step = float(observed[i]) - predicted[i]
        if weight.size:
            step *= weight[i]
        if step < 0.0:
            result[place, 0] -= step
        else:
            result[place, 1] += step


@kernel
def spread(codes, key, wanted, lows, highs):
    """Smallest and largest key in each wanted bucket: a bucket with one distinct key has no inside."""
    for i in range(key.size):
        place = np.uint64(codes[i])
        if wanted[place]:
            lows[place] = min(lows[place], key[i])
            highs[place] = max(highs[place], key[i])


@kernel
def totals_exact(predicted, weight, count, result):
    """Whole-number weights: result (4, 2) int64 limbs of 26 bits, added to, of Σw, Σw²p(1-p), Σp and the rows."""
    for i in range(predicted.size):
        p = predicted[i]
        times = count[i] if count.size else np.int64(1)
        first = np.int64(weight[i]) * times if weight.size else times
        second = np.int64(weight[i]) * first if weight.size else times
        spread = grid(p * (1.0 - p))
        q = grid(p)
        result[0, 0] += first << HALF
        result[1, 0] += (spread >> HALF) * second
        result[1, 1] += (spread & HALF_MASK) * second
        result[2, 0] += (q >> HALF) * times
        result[2, 1] += (q & HALF_MASK) * times
        result[3, 0] += times << HALF

"""Numbers in order, their dense ranks and order statistics, and the buckets that share them out.

Sorting by digits takes linear time and is stable. A number becomes an unsigned integer in the same order; missing
numbers come last. Digits that all rows share cost nothing, so whole numbers, which leave most bits empty, take two or
three passes.
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.order import bucket_codes, read_digits, scatter_digits
from miscal.kernels.threads import BLOCK, over_blocks

DIGITS = 6  # of eleven bits each
SIZE = 1 << 11
FEW = 1 << 16  # counted rows up to which all are sorted
BUCKETS = 1 << 14
STRETCHES = 4096
SAMPLE = 16384
EVEN = 0.1  # the share of buckets spread evenly, so that a stretch the sample missed still has some


class BucketMap:
    """A monotone map from numbers to `count` buckets, fitted to a sample of the values; NaN has one more."""

    def __init__(self, values: np.ndarray, count: int) -> None:
        self.count = count
        self.low, self.high = float(values.min()), float(values.max())
        base, top = _ordinals(np.array([self.low, self.high]))
        # The half keeps the largest value inside the last stretch whatever rounding does.
        scale = (STRETCHES - 0.5) / max((int(top) - int(base)) >> 1, 1)
        sample = _ordinals(values[:: max(1, values.size // SAMPLE)])
        # One bit is dropped so that the distance between any two numbers fits a signed integer.
        places = (((sample - base) >> np.uint64(1)).astype(np.int64) * scale).astype(np.int64)
        share = (1.0 - EVEN) * np.bincount(places, minlength=STRETCHES) / sample.size + EVEN / STRETCHES
        starts = np.concatenate([[0.0], np.cumsum(share)])
        starts *= (count - 1) / starts[-1]
        # A hair narrower than the distance to the next stretch, so that rounding never steps over it.
        widths = np.diff(starts) * (1.0 - 1e-9)
        nan_starts, nan_widths = np.append(starts, count), np.append(widths, [0.0, 0.0])
        self.arguments = self.low, self.high, base, scale, nan_starts, nan_widths  # what `bucket_codes` takes

    def codes(self, values: np.ndarray) -> np.ndarray:
        """The bucket of each value, in two bytes."""
        values = np.ascontiguousarray(values, np.float64)
        codes = np.empty(values.size, np.uint16)
        over_blocks(values.size, lambda i, j: bucket_codes(values[i:j], *self.arguments, codes[i:j]))
        return codes


def _ordinals(values: np.ndarray) -> np.ndarray:
    """`kernels.places.ordinal` of many numbers."""
    bits = np.add(values, 0.0, dtype=np.float64).view(np.uint64)
    sign = np.uint64(0x8000000000000000)
    return np.where(bits & sign, ~bits, bits | sign)


def sorted_order(values: np.ndarray) -> np.ndarray:
    """Positions that sort the values, int32, missing ones last; ties keep their order.

    >>> sorted_order(np.array([2.0, np.nan, -1.0, 2.0])).tolist()
    [2, 0, 3, 1]
    """
    values = np.ascontiguousarray(values, np.float64)
    order = np.arange(values.size, dtype=np.int32)
    keys, counts = np.empty(values.size, np.uint64), np.zeros((DIGITS, SIZE), np.int64)
    read_digits(values, keys, counts)
    spare_keys, spare = np.empty_like(keys), np.empty_like(order)
    for digit in range(DIGITS):
        if counts[digit].max(initial=0) == values.size:
            continue
        starts = np.cumsum(counts[digit]) - counts[digit]
        scatter_digits(keys, order, spare_keys, spare, digit, starts)
        keys, spare_keys, order, spare = spare_keys, keys, spare, order
    return order


def dense_ranks(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rank of each value among the distinct ones (int32), and the distinct values, missing ones last as one.

    >>> dense_ranks(np.array([5.0, 3.0, 5.0, np.nan]))
    (array([1, 0, 1, 2], dtype=int32), array([ 3.,  5., nan]))
    """
    distinct, ranks = np.unique(values, return_inverse=True)
    return ranks.astype(np.int32), distinct


def distinct_up_to(values: np.ndarray, limit: int) -> int:
    """How many distinct values there are, `limit` at most; all are looked at only where the first of them are few.

    >>> distinct_up_to(np.array([2.0, 1.0, 2.0]), 200), distinct_up_to(np.arange(1e6), 200)
    (2, 200)
    """
    first = values[: 16 * limit]
    few = values if np.unique(first).size < limit else first
    return min(np.unique(few).size, limit)


def order_statistics(values: np.ndarray, ranks: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The values at the given 0-based ranks of the sorted rows, each row standing `count` times (empty: once)."""
    if not count.size:
        return np.sort(values)[ranks]
    if values.size > FEW:
        codes = BucketMap(values, BUCKETS).codes(values)
        totals = np.zeros(BUCKETS, np.int64)
        np.add.at(totals, codes, count)  # not by bincount: its sums are exact up to 2**53 only
        rows, ranks = rows_at(codes, totals, ranks)
        values, count = values[rows], count[rows]
    order = np.argsort(values)
    return np.asarray(values[order[np.searchsorted(np.cumsum(count[order]), ranks, side="right")]])


def rows_at(codes: np.ndarray, totals: np.ndarray, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of all rows whose code holds one of the ranks, and the ranks among those rows.

    totals : of each code; codes are in the order of the values
    """
    holders = np.searchsorted(np.cumsum(totals), ranks, side="right")
    wanted = np.zeros(totals.size, bool)
    wanted[holders] = True
    return rows_in(codes, wanted), ranks - np.cumsum(np.where(wanted, 0, totals))[holders]


def rows_in(codes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Positions of the rows whose code is wanted; wanted : (codes,) bool."""
    starts = range(0, codes.size, BLOCK)
    parts = over_blocks(codes.size, lambda start, stop: np.flatnonzero(wanted[codes[start:stop]]))
    return np.concatenate([part + start for start, part in zip(starts, parts, strict=True)])

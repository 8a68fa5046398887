"""Numbers in order, their order statistics, and the buckets that share them out.

Sorting by digits takes linear time and is stable. A number becomes an unsigned integer in the same order; missing
numbers come last. Digits that all rows share cost nothing, so whole numbers, which leave most bits empty, take two or
three passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.kernels.order import bucket_codes, read_digits, scatter_digits
from miscal.kernels.threads import over_blocks

Array = np.ndarray[Any, Any]
DIGITS = 6  # of eleven bits each
SIZE = 1 << 11
STRETCHES = 4096
SAMPLE = 16384
EVEN = 0.1  # the share of buckets spread evenly, so that a stretch the sample missed still has some


class BucketMap:
    """A monotone map from numbers to `count` buckets, fitted to a sample of the values; NaN has one more."""

    def __init__(self, values: Array, count: int) -> None:
        self.count = count
        self.low, high = float(values.min()), float(values.max())
        base, top = _ordinals(np.array([self.low, high]))
        # The half keeps the largest value inside the last stretch whatever rounding does.
        scale = (STRETCHES - 0.5) / max(int(top - base) >> 1, 1)
        sample = _ordinals(values[:: max(1, values.size // SAMPLE)])
        # One bit is dropped so that the distance between any two numbers fits a signed integer.
        steps = (sample - base) >> np.uint64(1)
        places = (steps.astype(np.int64) * scale).astype(np.int64)
        found = np.bincount(places, minlength=STRETCHES)
        share = (1.0 - EVEN) * found / sample.size + EVEN / STRETCHES
        starts = np.append(0.0, np.cumsum(share))
        starts *= (count - 1) / starts[-1]
        # A hair narrower than the distance to the next stretch, so that rounding never steps over it.
        widths = np.diff(starts) * (1.0 - 1e-9)
        of_all = np.append(starts, count), np.append(widths, [0.0, 0.0])  # those of NaN in the end
        self.arguments = self.low, high, base, scale, *of_all  # what `bucket_codes` takes

    def codes(self, values: Array) -> Array:
        """The bucket of each value, in two bytes."""
        values = np.ascontiguousarray(values, np.float64)
        codes = np.empty(values.size, np.uint16)

        def work(start: int, stop: int) -> None:
            bucket_codes(values[start:stop], *self.arguments, codes[start:stop])

        over_blocks(values.size, work)
        return codes


def _ordinals(values: Array) -> Array:
    """`kernels.places.ordinal` of many numbers."""
    bits = np.add(values, 0.0, dtype=np.float64).view(np.uint64)
    sign = np.uint64(0x8000000000000000)
    return np.where(bits & sign, ~bits, bits | sign)


def sorted_order(values: Array) -> Array:
    """Positions that sort the values, int32, missing ones last; ties keep their order.

    >>> sorted_order(np.array([2.0, np.nan, -1.0, 2.0])).tolist()
    [2, 0, 3, 1]
    """
    values = np.ascontiguousarray(values, np.float64)
    order = np.arange(values.size, dtype=np.int32)
    keys = np.empty(values.size, np.uint64)
    counts = np.zeros((DIGITS, SIZE), np.int64)
    read_digits(values, keys, counts)
    spare_keys, spare = np.empty_like(keys), np.empty_like(order)
    for digit, own in enumerate(counts):
        if own.max() == values.size:
            continue
        starts = np.cumsum(own) - own
        scatter_digits(keys, order, spare_keys, spare, digit, starts)
        keys, spare_keys, order, spare = spare_keys, keys, spare, order
    return order


def dense_ranks(values: Array) -> tuple[Array, Array]:
    """The rank of each value among the distinct ones (int32), and those; missing ones are one and come last.

    >>> dense_ranks(np.array([5.0, 3.0, 5.0, np.nan]))
    (array([1, 0, 1, 2], dtype=int32), array([ 3.,  5., nan]))
    """
    order = sorted_order(values)
    ordered = values[order]
    new = np.append(True, (ordered[1:] != ordered[:-1]) & ~np.isnan(ordered[:-1]))
    ranks = np.empty(values.size, np.int32)
    ranks[order] = np.cumsum(new, dtype=np.int32) - 1
    return ranks, ordered[new]


def distinct_up_to(values: Array, limit: int) -> int:
    """How many distinct values there are, `limit` at most; all are looked at only where the first of them are few.

    >>> distinct_up_to(np.array([2.0, 1.0, 2.0]), 200), distinct_up_to(np.arange(1e6), 200)
    (2, 200)
    """
    first = values[: 16 * limit]
    few = values if np.unique(first).size < limit else first
    return min(np.unique(few).size, limit)


def order_statistics(values: Array, ranks: Array, count: Array | None) -> Array:
    """The values at the given 0-based ranks of the sorted rows, each row standing `count` times (None: once)."""
    if count is None:
        return np.sort(values)[ranks]
    order = np.argsort(values)
    places = np.searchsorted(np.cumsum(count[order]), ranks, side="right")
    return np.asarray(values[order[places]])


def rows_at(codes: Array, totals: Array, ranks: Array) -> tuple[Array, Array]:
    """Positions of all rows whose code holds one of the ranks, and the ranks among those rows.

    totals : of each code; codes are in the order of the values
    """
    holders = np.searchsorted(np.cumsum(totals), ranks, side="right")
    wanted = np.zeros(totals.size, bool)
    wanted[holders] = True
    left_out = np.cumsum(np.where(wanted, 0, totals))
    return rows_in(codes, wanted), ranks - left_out[holders]


def rows_in(codes: Array, wanted: Array) -> Array:
    """Positions of the rows whose code is wanted; wanted : (codes,) bool."""

    def work(start: int, stop: int) -> Array:
        return np.flatnonzero(wanted[codes[start:stop]]) + start

    return np.concatenate(over_blocks(codes.size, work))

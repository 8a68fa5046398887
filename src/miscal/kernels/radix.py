"""Order of many numbers, and their dense ranks, by digits: linear time, and stable.

A number becomes an unsigned integer in the same order (`kernels.buckets.ordinal`); missing numbers come last. Digits
that all rows share cost nothing, so whole numbers, which leave most bits empty, take two or three passes.
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.buckets import ordinal
from miscal.kernels.jit import inlined, kernel

DIGIT = 11
DIGITS = 6
SIZE = 1 << DIGIT
LAST = np.uint64(0xFFFFFFFFFFFFFFFF)
NOTHING = np.empty(0, np.int32)


@inlined
def _key(value):
    return LAST if value != value else ordinal(value)  # noqa: PLR0124  # only a missing number differs from itself


@kernel
def _read(values, start, keys, counts):
    """Keys of the values in the order of `start` (of the rows where empty), and the histogram of each digit."""
    mask = np.uint64(SIZE - 1)
    for i in range(values.size):
        key = _key(values[start[i]] if start.size else values[i])
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


@kernel
def _number(values, order, ranks, distinct):
    """Number the distinct values in order; `distinct` is filled where it has room."""
    rank = -1
    last = np.uint64(0)
    for k in range(order.size):
        key = _key(values[order[k]])
        if k == 0 or key != last:
            rank += 1
            last = key
            if rank < distinct.size:
                distinct[rank] = values[order[k]]
        ranks[order[k]] = rank
    return rank + 1


def sorted_order(values: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """Positions that sort the values; ties keep the order of `start` (of the rows, unless given).

    >>> sorted_order(np.array([2.0, np.nan, -1.0, 2.0])).tolist()
    [2, 0, 3, 1]
    """
    order = np.arange(values.size, dtype=np.int32) if start is None else start.copy()
    keys, counts = np.empty(values.size, np.uint64), np.zeros((DIGITS, SIZE), np.int64)
    _read(values, NOTHING if start is None else start, keys, counts)
    spare_keys, spare = np.empty_like(keys), np.empty_like(order)
    for digit in range(DIGITS):
        if counts[digit].max(initial=0) == values.size:
            continue
        starts = np.cumsum(counts[digit]) - counts[digit]
        _scatter(keys, order, spare_keys, spare, np.uint64(digit * DIGIT), starts)
        keys, spare_keys, order, spare = spare_keys, keys, spare, order
    return order


def dense_ranks(values: np.ndarray, *, keep: bool) -> tuple[np.ndarray, int, np.ndarray]:
    """Rank of each value among the distinct ones (int32), how many there are, and, if kept, the distinct values.

    >>> dense_ranks(np.array([5.0, 3.0, 5.0, np.nan]), keep=True)
    (array([1, 0, 1, 2], dtype=int32), 3, array([ 3.,  5., nan]))
    """
    ranks = np.empty(values.size, np.int32)
    distinct = np.empty(values.size if keep else 0)
    count = int(_number(values, sorted_order(values), ranks, distinct))
    return ranks, count, distinct[:count].copy()

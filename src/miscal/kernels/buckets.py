"""A monotone map from any finite number to one of many buckets that hold about equally many rows.

The 64 bits of a double, read as an integer, keep the order of non-negative numbers and are spaced like logarithms, so
scores crowded near 0 spread out by themselves. A sample then decides how many buckets each stretch of that integer
line receives. The map only decides how the work is shared out: no result depends on it.
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.jit import inlined, kernel

STRETCHES = 4096
SAMPLE = 16384
EVEN = 0.1  # the share of buckets spread evenly, so that a stretch the sample missed still has some


@inlined
def ordinal(value):
    """An unsigned integer in the order of the numbers; -0.0 and 0.0 share one."""
    bits = np.float64(value + 0.0).view(np.uint64)
    if bits >> np.uint64(63):
        return ~bits
    return bits | np.uint64(0x8000000000000000)


@inlined
def bucket(value, base, scale, starts, widths):
    """The bucket of a value: where its stretch starts, plus its share of the stretch's width."""
    # One bit is dropped so that the distance between any two numbers fits a signed integer.
    position = np.float64(np.int64((ordinal(value) - base) >> np.uint64(1))) * scale
    stretch = np.uint64(np.int64(position))
    return np.uint64(np.int64(starts[stretch] + (position - np.float64(np.int64(stretch))) * widths[stretch]))


@kernel
def bounds(values):
    """Smallest and largest value."""
    low = values[0]
    high = values[0]
    for i in range(values.size):
        low = min(low, values[i])
        high = max(high, values[i])
    return low, high


@kernel
def _stretch_counts(sample, base, scale, counts):
    for i in range(sample.size):
        counts[np.int64(np.float64(np.int64((ordinal(sample[i]) - base) >> np.uint64(1))) * scale)] += 1.0


@kernel
def _ordinals(low, high):
    return ordinal(low), ordinal(high)


class BucketMap:
    """The arrays that `bucket` needs, fitted to a sample of the values."""

    def __init__(self, values: np.ndarray, low: float, high: float, buckets: int) -> None:
        self.count = buckets
        base, top = _ordinals(low, high)
        self.base = np.uint64(base)
        # The half keeps the largest value inside the last stretch whatever rounding does.
        self.scale = (STRETCHES - 0.5) / max((int(top) - int(base)) >> 1, 1)
        counts = np.zeros(STRETCHES)
        step = max(1, values.size // SAMPLE)
        _stretch_counts(values[::step], self.base, self.scale, counts)
        share = (1.0 - EVEN) * counts / counts.sum() + EVEN / STRETCHES
        self.starts = np.concatenate([[0.0], np.cumsum(share)])
        self.starts *= (buckets - 1) / self.starts[-1]
        # A hair narrower than the distance to the next stretch, so that rounding never steps over it.
        self.widths = np.diff(self.starts) * (1.0 - 1e-9)

    @property
    def arguments(self) -> tuple[np.uint64, float, np.ndarray, np.ndarray]:
        """What the kernels take after the value."""
        return self.base, self.scale, self.starts, self.widths


@kernel
def distinct_up_to(values, limit):
    """Count distinct values, giving up at `limit` (a small open-addressing set)."""
    size = 4
    while size < 4 * limit:
        size *= 2
    seen = np.zeros(size, np.bool_)
    kept = np.zeros(size, np.uint64)
    found = 0
    for i in range(values.size):
        key = ordinal(values[i])
        place = np.int64((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & (size - 1)
        while seen[place] and kept[place] != key:
            place = (place + 1) & (size - 1)
        if not seen[place]:
            seen[place] = True
            kept[place] = key
            found += 1
            if found >= limit:
                return found
    return found

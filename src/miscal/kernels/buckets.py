"""Which bin a value falls in, and a monotone map from numbers to buckets that hold about equally many rows.

Bins are right-closed, the lowest edge included, end bins catch what lies outside: the index of x is the number of
interior edges strictly below x, whatever shortcut finds it.

The 64 bits of a double, read as an integer, keep the order of non-negative numbers and are spaced like logarithms, so
scores crowded near 0 spread out by themselves. A sample then decides how many buckets each stretch of that integer
line receives. The map only decides how the work is shared out: no result depends on it.
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.jit import inlined, kernel
from miscal.kernels.threads import over_blocks

STRETCHES = 4096
SAMPLE = 16384
ROOM = 1024  # rows whose places are found at a time
# A value whose position is this close to a whole number may lie on the other side of an edge: it is compared with the
# edges themselves. The position errs by a few units in the last place times the number of bins, far below this.
DOUBT = 1e-9
MANY = 48  # from this many edges on, halving beats counting
EVEN = 0.1  # the share of buckets spread evenly, so that a stretch the sample missed still has some


@inlined
def ordinal(value):
    """An unsigned integer in the order of the numbers; -0.0 and 0.0 share one."""
    bits = np.float64(value + 0.0).view(np.uint64)
    if bits >> np.uint64(63):
        return ~bits
    return bits | np.uint64(0x8000000000000000)


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
        codes = np.empty(values.size, np.uint16)
        over_blocks(values.size, lambda i, j: bucket_codes(values[i:j], *self.arguments, codes[i:j]))
        return codes


def _ordinals(values: np.ndarray) -> np.ndarray:
    """`ordinal` of many numbers."""
    bits = np.add(values, 0.0, dtype=np.float64).view(np.uint64)
    sign = np.uint64(0x8000000000000000)
    return np.where(bits & sign, ~bits, bits | sign)


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


@kernel
def _positions(values, low, high, base, scale, absent, positions):
    """Where values lie on the line of stretches; a loop without a branch or a table."""
    sign = np.uint64(0x8000000000000000)
    for i in range(values.size):
        value = values[i]
        held = low if value < low else value
        held = high if held > high else held
        bits = np.float64(held + 0.0).view(np.uint64)
        place = bits ^ (np.uint64(np.int64(bits) >> 63) | sign)  # `ordinal`
        position = np.float64(np.int64((place - base) >> np.uint64(1))) * scale
        positions[i] = position if value == value else absent  # noqa: PLR0124  # NaN alone differs from itself


@kernel
def bucket_codes(values, low, high, base, scale, starts, widths, codes):
    """The bucket of each value, held within [low, high]: where its stretch starts, plus its share of its width.

    The last of the starts is the code of NaN.
    """
    positions = np.empty(ROOM)
    absent = np.float64(starts.size - 1)
    first = 0
    while first < values.size:
        last = min(first + ROOM, values.size)
        _positions(values[first:last], low, high, base, scale, absent, positions)
        some = codes[first:last]
        for i in range(some.size):
            stretch = np.int64(positions[i])
            place = np.uint64(stretch)
            some[i] = np.int32(starts[place] + (positions[i] - np.float64(stretch)) * widths[place])
        first = last


@kernel
def edge_cells(values, low, high, base, scale, starts, widths, lower, edges, missing, codes):
    """The number of edges strictly below each value; NaN has the code `missing`.

    lower[b] : how many edges lie in buckets before b; those in the value's own bucket are compared with it
    """
    bucket_codes(values, low, high, base, scale, starts, widths, codes)
    last, top = np.int32(lower.size - 1), np.int32(edges.size - 1)
    for i in range(values.size):
        place = codes[i]
        if place == last:
            codes[i] = missing
            continue
        code = lower[np.uint64(place)]
        stop = lower[np.uint64(place + 1)]
        value = values[i]
        # Nearly always one edge or none: no branch, which could only be guessed.
        code += np.int32((stop > code) & (value > edges[np.uint64(min(code, top))]))
        while code < stop and value > edges[np.uint64(code)]:
            code += np.int32(1)
        codes[i] = code


@kernel
def strips(values, low, scale, last, codes):
    """The strip of each value: equally wide strips from `low` on, the end strips catch what lies outside."""
    for i in range(values.size):
        codes[i] = np.int32(min(max((values[i] - low) * scale, 0.0), last))


@kernel
def uniform_index(values, low, high, edges, codes):
    """Equal-width bins: `edges` holds low + (high - low) * m / bins, m = 0..bins."""
    bins = edges.size - 1
    top = np.int32(bins - 1)
    scale = bins / (high - low)
    doubtful = 0
    for i in range(values.size):
        position = min(max((values[i] - low) * scale, 0.0), float(bins))
        guess = np.int32(position)
        rest = position - guess
        doubtful += (rest < DOUBT) | (rest > 1.0 - DOUBT)
        codes[i] = min(guess, top)
    if doubtful == 0:
        return
    for i in range(values.size):
        value = values[i]
        code = np.int64(codes[i])
        if value <= edges[code]:
            if code > 0:
                codes[i] = code - 1
        elif value > edges[code + 1] and code < top:
            codes[i] = code + 1


@kernel
def edge_index(values, edges, codes):
    """Any increasing edges: count the interior edges below each value, or halve when there are many."""
    bins = edges.size - 1
    if bins <= MANY:
        for i in range(values.size):
            codes[i] = 0
        for m in range(1, bins):
            edge = edges[m]
            for i in range(values.size):
                codes[i] += np.int32(values[i] > edge)
        return
    for i in range(values.size):
        value = values[i]
        low = 0
        high = bins - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if value > edges[middle]:
                low = middle
            else:
                high = middle - 1
        codes[i] = low

"""Which bin a value falls in, and a monotone map from numbers to buckets that hold about equally many rows.

`kernels.places` says what a bin is. The 64 bits of a double, read as an integer, keep the order of non-negative numbers
and are spaced like logarithms, so scores crowded near 0 spread out by themselves. A sample then decides how many
buckets each stretch of that integer line receives (`kernels.sorting.BucketMap`). The map only decides how the work is
shared out: no result depends on it.
"""

import cython
import numpy as np
from cython.cimports.libc.stdint import int16_t, int32_t
from cython.cimports.miscal.kernels import places
from cython.cimports.miscal.kernels.kinds import (
    BucketsOut, Codes, CodesOut, FlagsOut, Floats, FloatsOut, Index, Strided, StripsOut, Word, WordsOut,
)  # fmt: skip
from cython.cimports.miscal.kernels.places import SCATTER, ordinal, position_of

ROOM = 1024  # rows whose places are found at a time


def distinct_up_to(values: Floats, limit: Index) -> Index:
    """Count distinct values, giving up at `limit` (a small open-addressing set)."""
    i: Index
    place: Index
    found: Index = 0
    size: Index = 4
    while size < 4 * limit:
        size *= 2
    seen: FlagsOut = np.zeros(size, np.uint8)
    kept: WordsOut = np.zeros(size, np.uint64)
    with cython.nogil:
        for i in range(len(values)):
            key: Word = ordinal(values[i])
            place = cython.cast(Index, (key * SCATTER) >> 40) & (size - 1)
            while seen[place] and kept[place] != key:
                place = (place + 1) & (size - 1)
            if not seen[place]:
                seen[place] = True
                kept[place] = key
                found += 1
                if found >= limit:
                    break
    return found


@cython.cfunc
@cython.nogil
def _bucket_codes(
    values: Floats, low: cython.double, high: cython.double, base: Word, scale: cython.double, starts: Floats,
    widths: Floats, positions: FloatsOut, codes: BucketsOut,
) -> cython.void:  # fmt: skip
    i: Index
    rows: Index
    stretch: Index
    first: Index = 0
    absent: cython.double = len(starts) - 1
    while first < len(values):
        rows = min(len(positions), len(values) - first)
        for i in range(rows):  # without a branch or a table
            value: cython.double = values[first + i]
            held: cython.double = low if value < low else value
            held = high if held > high else held
            position: cython.double = position_of(held, base, scale)
            positions[i] = position if value == value else absent  # noqa: PLR0124  # NaN alone differs from itself
        for i in range(rows):
            stretch = cython.cast(Index, positions[i])
            codes[first + i] = cython.cast(int32_t, starts[stretch] + (positions[i] - stretch) * widths[stretch])
        first += rows


def bucket_codes(
    values: Floats, low: cython.double, high: cython.double, base: Word, scale: cython.double, starts: Floats,
    widths: Floats, codes: BucketsOut,
) -> None:  # fmt: skip
    """The bucket of each value, held within [low, high]: where its stretch starts, plus its share of its width.

    The last of the starts is the code of NaN.
    """
    positions: FloatsOut = np.empty(ROOM)
    with cython.nogil:
        _bucket_codes(values, low, high, base, scale, starts, widths, positions, codes)


def edge_cells(
    values: Floats, low: cython.double, high: cython.double, base: Word, scale: cython.double, starts: Floats,
    widths: Floats, lower: Codes, edges: Floats, missing: int32_t, codes: CodesOut,
) -> None:  # fmt: skip
    """The number of edges strictly below each value; NaN has the code `missing`.

    lower[b] : how many edges lie in buckets before b; those in the value's own bucket are compared with it
    """
    i: Index
    code: int32_t
    last: int32_t = len(lower) - 1
    top: int32_t = len(edges) - 1
    positions: FloatsOut = np.empty(ROOM)
    with cython.nogil:
        _bucket_codes(values, low, high, base, scale, starts, widths, positions, codes)
        for i in range(len(values)):
            place: int32_t = codes[i]
            if place == last:
                codes[i] = missing
                continue
            code = lower[place]
            stop: int32_t = lower[place + 1]
            value: cython.double = values[i]
            # Nearly always one edge or none: no branch, which could only be guessed.
            code += (stop > code) & (value > edges[min(code, top)])
            while code < stop and value > edges[code]:
                code += 1
            codes[i] = code


def strips(values: Floats, low: cython.double, scale: cython.double, last: cython.double, codes: StripsOut) -> None:
    """The strip of each value: equally wide strips from `low` on, the end strips catch what lies outside."""
    i: Index
    with cython.nogil:
        for i in range(len(values)):
            position: cython.double = (values[i] - low) * scale
            position = position if position > 0.0 else 0.0
            position = position if position < last else last
            codes[i] = cython.cast(int16_t, cython.cast(int32_t, position))


def edge_index(values: object, edges: Strided, codes: CodesOut) -> None:
    """Any increasing edges: the bin of each value."""
    flat: Floats = np.ascontiguousarray(values)
    with cython.nogil:
        if len(flat):
            places.edge_index(cython.address(flat[0]), len(flat), edges, cython.address(codes[0]))

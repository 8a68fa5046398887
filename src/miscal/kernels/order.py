"""Order: which bin or bucket a number falls in, digits to sort by, walks, rates made to rise.

`kernels.places` says what a bin is. The 64 bits of a double, read as an integer, keep the order of non-negative numbers
and are spaced like logarithms, so scores crowded near 0 spread out by themselves. A sample then decides how many
buckets each stretch of that integer line receives (`kernels.sorting.BucketMap`). The map only decides how the work is
shared out: no result depends on it.

The range of a walk, of partial sums of residuals in the order of a key, is exact without sorting all rows. Pass 1 adds
the positive and the negative residuals in each bucket of the key. The partial sums at bucket borders are then exact,
and inside a bucket the walk cannot rise above its start plus the bucket's positive part, nor fall below its start minus
the negative part. Pass 2 collects only the rows of buckets that could hold the highest or lowest point; only they are
sorted. Sums are integers on the grid of `kernels.sums`, split into limbs of 26 bits, so a whole number of weights gives
the same bits for any order of rows.
"""

import numpy as np
from cython import address, cast, cfunc, double, nogil, void
from cython.cimports.libc.stdint import int16_t, int32_t
from cython.cimports.miscal.kernels import places
from cython.cimports.miscal.kernels.arithmetic import HALF, HALF_MASK, grid
from cython.cimports.miscal.kernels.kinds import (
    Buckets, BucketsOut, Codes, CodesOut, CubeOut, Flags, Floats, FloatsOut, Index, Integer, IntegersOut,
    IntegerTableOut, Observed, Outcomes, Strided, StripsOut, TableOut, Word, Words, WordsOut,
)  # fmt: skip
from cython.cimports.miscal.kernels.places import DIGIT, DIGIT_MASK, DIGITS, ordinal, position_of


def read_digits(values: Floats, keys: WordsOut, counts: IntegerTableOut) -> None:
    """Keys of the values, unsigned integers in their order, missing ones last; and the histogram of each digit.

    counts : (DIGITS, 2**DIGIT) int64, added to
    """
    with nogil:
        for i in range(len(values)):
            # Only a missing number is not itself: it comes last.
            key: Word = ~cast(Word, 0) if values[i] != values[i] else ordinal(values[i])
            keys[i] = key
            for digit in range(DIGITS):
                counts[digit, key & DIGIT_MASK] += 1
                key >>= DIGIT


def scatter_digits(
    keys: Words, order: Codes, to_keys: WordsOut, to_order: CodesOut, digit: Index, starts: IntegersOut
) -> None:
    """Move rows to where their digit says, those of equal digits in the order in which they come."""
    shift: Word = digit * DIGIT
    with nogil:
        for k in range(len(order)):
            key = keys[k]
            own: Index = (key >> shift) & DIGIT_MASK
            place = starts[own]
            to_keys[place] = key
            to_order[place] = order[k]
            starts[own] = place + 1


def rising_rates(events: Floats, weight: Floats, rates: FloatsOut) -> None:
    """The non-decreasing rates that fit events / weight best: adjacent violators are pooled; all weights positive.

    Comparisons are products of sums, exact for whole weights.
    """
    i: Index
    blocks: Index = 0
    last: IntegersOut = np.empty(len(events), np.int64)
    total: FloatsOut = np.empty(len(events))
    mass: FloatsOut = np.empty(len(events))
    with nogil:
        for i in range(len(events)):
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
            rate: double = total[block] / mass[block]
            while i <= last[block]:
                rates[i] = rate
                i += 1


def add_exact(
    codes: Buckets, predicted: Floats, observed: Outcomes, weight: Floats, result: IntegerTableOut
) -> None:
    """Residuals with whole-number weights per bucket: result (buckets, 4) int64 = limbs of falls and of rises.

    A row with outcome 0 falls by its prediction, a row with outcome 1 rises by one minus its prediction.
    """
    with nogil:
        for i in range(len(codes)):
            event: Integer = observed[i]
            size: Integer = ((event << 52) - grid(predicted[i])) * (2 * event - 1)
            times: Integer = cast(Integer, weight[i]) if len(weight) else 1
            result[codes[i], 2 * event] += (size >> HALF) * times
            result[codes[i], 2 * event + 1] += (size & HALF_MASK) * times


def add_real(codes: Buckets, predicted: Floats, observed: Observed, weight: Floats, result: TableOut) -> None:
    """Residuals with any weights or outcomes per bucket: result (buckets, 2) float64 = falls and rises."""
    with nogil:
        for i in range(len(codes)):
            step: double = (observed[i] - predicted[i]) * (weight[i] if len(weight) else 1.0)
            if step < 0.0:
                result[codes[i], 0] -= step
            else:
                result[codes[i], 1] += step


def spread(codes: Buckets, key: Floats, wanted: Flags, lows: FloatsOut, highs: FloatsOut) -> None:
    """Smallest and largest key in each wanted bucket: a bucket with one distinct key has no inside."""
    with nogil:
        for i in range(len(key)):
            place: Index = codes[i]
            if wanted[place]:
                lows[place] = min(lows[place], key[i])
                highs[place] = max(highs[place], key[i])


def add_stretches(values: CubeOut, out: CubeOut) -> None:
    """Sums over every stretch of the middle axis, (first, last) in the order of the first: out (a, n(n + 1)/2, c)."""
    with nogil:
        for a in range(values.shape[0]):
            stretch: Index = 0
            for first in range(values.shape[1]):
                for last in range(first, values.shape[1]):
                    for c in range(values.shape[2]):
                        before: double = out[a, stretch - 1, c] if last > first else 0.0
                        out[a, stretch, c] = before + values[a, last, c]
                    stretch += 1


ROOM = 1024  # rows whose places are found at a time


@cfunc
@nogil
def _positions(
    values: Floats, first: Index, rows: Index, low: double, high: double, base: Word,
    scale: double, absent: double, positions: FloatsOut,
) -> void:  # fmt: skip
    """Where values lie among stretches of equal numbers of floats; several at a time, without a branch or a table."""
    for i in range(rows):
        value = values[first + i]
        held = low if value < low else value
        held = high if held > high else held
        position = position_of(held, base, scale)
        positions[i] = position if value == value else absent  # noqa: PLR0124  # NaN alone differs from itself


def bucket_codes(
    values: Floats, low: double, high: double, base: Word, scale: double, starts: Floats,
    widths: Floats, codes: BucketsOut,
) -> None:  # fmt: skip
    """The bucket of each value, held within [low, high]: where its stretch starts, plus its share of its width.

    The last of the starts is the code of NaN.
    """
    positions: FloatsOut = np.empty(ROOM)
    first = 0
    absent: double = len(starts) - 1
    with nogil:
        while first < len(values):
            rows = min(len(positions), len(values) - first)
            _positions(values, first, rows, low, high, base, scale, absent, positions)
            for i in range(rows):
                stretch = cast(Index, positions[i])
                beyond = (positions[i] - stretch) * widths[stretch]
                codes[first + i] = cast(int32_t, starts[stretch] + beyond)
            first += rows


def edge_cells(values: Floats, lower: Codes, edges: Floats, codes: CodesOut) -> None:
    """Turn the bucket of each value, as `bucket_codes` finds it, into the number of edges strictly below the value.

    lower[b] : how many edges lie in buckets before b; hardly any holds several. The last bucket is that of NaN. Behind
    the edges stand two of infinity.
    """
    with nogil:
        for i in range(len(values)):
            code: int32_t = lower[codes[i]]
            code += values[i] > edges[code]
            while values[i] > edges[code]:
                code += 1
            codes[i] = code


def read_off(places: Codes, numbers: Codes, times: int32_t, out: CodesOut) -> None:
    """Out = out * times + numbers[place] for each row; a negative place reads the last of the numbers."""
    last: int32_t = len(numbers) - 1
    with nogil:
        for i in range(len(places)):
            out[i] = out[i] * times + numbers[places[i] if places[i] >= 0 else last]


def strips(values: Floats, low: double, scale: double, last: double, codes: StripsOut) -> None:
    """The strip of each value: equally wide strips from `low` on, the end strips catch what lies outside."""
    with nogil:
        for i in range(len(values)):
            position = (values[i] - low) * scale
            position = position if position > 0.0 else 0.0
            position = position if position < last else last
            codes[i] = cast(int16_t, cast(int32_t, position))


def edge_index(values: object, edges: Strided, codes: CodesOut) -> None:
    """Any increasing edges: the bin of each value."""
    flat: Floats = np.ascontiguousarray(values)
    with nogil:
        if len(flat):
            places.edge_index(address(flat[0]), len(flat), edges, address(codes[0]))

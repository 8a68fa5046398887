"""Order: digits of numbers that are sorted by them, walks, and rates made to rise.

The range of a walk, of partial sums of residuals in the order of a key, is exact without sorting all rows. Pass 1 adds
the positive and the negative residuals in each bucket of the key. The partial sums at bucket borders are then exact,
and inside a bucket the walk cannot rise above its start plus the bucket's positive part, nor fall below its start minus
the negative part. Pass 2 collects only the rows of buckets that could hold the highest or lowest point; only they are
sorted. Sums are integers on the grid of `kernels.sums`, split into limbs of 26 bits, so a whole number of weights gives
the same bits for any order of rows.
"""

import cython
import numpy as np
from cython.cimports.miscal.kernels.arithmetic import HALF, HALF_MASK, ONE, grid
from cython.cimports.miscal.kernels.kinds import (
    Buckets, Codes, CodesOut, Flags, Floats, FloatsOut, Index, Integer, Integers, IntegersOut, IntegerTableOut,
    Observed, Outcomes, TableOut, Word, Words, WordsOut,
)  # fmt: skip
from cython.cimports.miscal.kernels.places import DIGIT, DIGIT_MASK, DIGITS, LAST, ordinal


def read_digits(values: Floats, keys: WordsOut, counts: IntegerTableOut) -> None:
    """Keys of the values, unsigned integers in their order, missing ones last; and the histogram of each digit.

    counts : (DIGITS, 2**DIGIT) int64, added to
    """
    i: Index
    digit: Index
    key: Word
    with cython.nogil:
        for i in range(len(values)):
            value: cython.double = values[i]
            key = LAST if value != value else ordinal(value)  # noqa: PLR0124  # only a missing number is not itself
            keys[i] = key
            for digit in range(DIGITS):
                counts[digit, key & DIGIT_MASK] += 1
                key >>= DIGIT


def scatter_digits(
    keys: Words, order: Codes, to_keys: WordsOut, to_order: CodesOut, digit: Index, starts: IntegersOut
) -> None:
    """Move rows to where their digit says, those of equal digits in the order in which they come."""
    k: Index
    shift: Word = digit * DIGIT
    with cython.nogil:
        for k in range(len(order)):
            key: Word = keys[k]
            own: Index = (key >> shift) & DIGIT_MASK
            place: Integer = starts[own]
            to_keys[place] = key
            to_order[place] = order[k]
            starts[own] = place + 1


def rising_rates(events: Floats, weight: Floats, rates: FloatsOut) -> None:
    """The non-decreasing rates that fit events / weight best: adjacent violators are pooled; all weights positive.

    Comparisons are products of sums, exact for whole weights.
    """
    i: Index
    block: Index
    blocks: Index = 0
    last: IntegersOut = np.empty(len(events), np.int64)
    total: FloatsOut = np.empty(len(events))
    mass: FloatsOut = np.empty(len(events))
    with cython.nogil:
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
            rate: cython.double = total[block] / mass[block]
            while i <= last[block]:
                rates[i] = rate
                i += 1


def add_exact(codes: Buckets, predicted: Floats, observed: Outcomes, weight: Floats, result: IntegerTableOut) -> None:
    """Residuals with whole-number weights per bucket: result (buckets, 4) int64 = limbs of falls and of rises.

    A row with outcome 0 falls by its prediction, a row with outcome 1 rises by one minus its prediction.
    """
    i: Index
    times: Integer
    with cython.nogil:
        for i in range(len(codes)):
            place: Index = codes[i]
            event: Integer = observed[i]
            q: Integer = event * ONE - grid(predicted[i])
            size: Integer = q * (2 * event - 1)
            times = cython.cast(Integer, weight[i]) if len(weight) else 1
            side: Index = 2 * event
            result[place, side] += (size >> HALF) * times
            result[place, side + 1] += (size & HALF_MASK) * times


def add_real(codes: Buckets, predicted: Floats, observed: Observed, weight: Floats, result: TableOut) -> None:
    """Residuals with any weights or outcomes per bucket: result (buckets, 2) float64 = falls and rises."""
    i: Index
    with cython.nogil:
        for i in range(len(codes)):
            place: Index = codes[i]
            step: cython.double = observed[i] - predicted[i]
            if len(weight):
                step *= weight[i]
            if step < 0.0:
                result[place, 0] -= step
            else:
                result[place, 1] += step


def spread(codes: Buckets, key: Floats, wanted: Flags, lows: FloatsOut, highs: FloatsOut) -> None:
    """Smallest and largest key in each wanted bucket: a bucket with one distinct key has no inside."""
    i: Index
    with cython.nogil:
        for i in range(len(key)):
            place: Index = codes[i]
            if wanted[place]:
                lows[place] = min(lows[place], key[i])
                highs[place] = max(highs[place], key[i])


def totals_exact(predicted: Floats, weight: Floats, count: Integers, result: IntegerTableOut) -> None:
    """Whole-number weights: result (4, 2) int64 limbs of 26 bits, added to, of Σw, Σw²p(1-p), Σp and the rows."""
    i: Index
    times: Integer
    first: Integer
    second: Integer
    with cython.nogil:
        for i in range(len(predicted)):
            p: cython.double = predicted[i]
            times = count[i] if len(count) else 1
            first = cython.cast(Integer, weight[i]) * times if len(weight) else times
            second = cython.cast(Integer, weight[i]) * first if len(weight) else times
            variance: Integer = grid(p * (1.0 - p))
            q: Integer = grid(p)
            result[0, 0] += first << HALF
            result[1, 0] += (variance >> HALF) * second
            result[1, 1] += (variance & HALF_MASK) * second
            result[2, 0] += (q >> HALF) * times
            result[2, 1] += (q & HALF_MASK) * times
            result[3, 0] += times << HALF

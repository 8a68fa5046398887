"""The exact range of partial sums of residuals without sorting all rows.

Pass 1 adds the positive and the negative residuals in each bucket of the key. The partial sums at bucket borders are
then exact, and inside a bucket the walk cannot rise above its start plus the bucket's positive part, nor fall below
its start minus the negative part. Pass 2 collects only the rows of buckets that could hold the highest or lowest
point; only they are sorted. Sums are integers on the grid of `kernels.sums`, split into limbs of 26 bits, so a whole
number of weights gives the same bits for any order of rows.
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.buckets import bucket
from miscal.kernels.jit import inlined, kernel
from miscal.kernels.sums import grid

HALF = 26
HALF_MASK = (1 << HALF) - 1
HIGH_UNIT = 2.0**-26
LOW_UNIT = 2.0**-52
ONE = 1 << 52


@inlined
def _value(high, low):
    return np.float64(high) * HIGH_UNIT + np.float64(low) * LOW_UNIT


@inlined
def _note(value, key, extremes):
    if value > extremes[0]:
        extremes[0] = value
        extremes[1] = key
    if value < extremes[2]:
        extremes[2] = value
        extremes[3] = key


@kernel
def add_exact(key, predicted, observed, weight, base, scale, starts, widths, result):
    """Residuals with whole-number weights per bucket: result (buckets, 4) int64 = limbs of falls and of rises.

    A row with outcome 0 falls by its prediction, a row with outcome 1 rises by one minus its prediction.
    """
    for i in range(key.size):
        place = bucket(key[i], base, scale, starts, widths)
        event = np.int64(observed[i])
        q = event * ONE - grid(predicted[i])
        size = q * (2 * event - 1)
        times = np.int64(weight[i]) if weight.size else np.int64(1)
        side = np.uint64(2 * event)
        result[place, side] += (size >> HALF) * times
        result[place, side + np.uint64(1)] += (size & HALF_MASK) * times


@kernel
def add_real(key, residual_predicted, residual_observed, weight, base, scale, starts, widths, result):
    """Residuals with any weights or outcomes per bucket: result (buckets, 2) float64 = falls and rises."""
    for i in range(key.size):
        place = bucket(key[i], base, scale, starts, widths)
        step = float(residual_observed[i]) - residual_predicted[i]
        if weight.size:
            step *= weight[i]
        if step < 0.0:
            result[place, 0] -= step
        else:
            result[place, 1] += step


@kernel
def borders_exact(sums, walk, falls, rises):
    """Partial sums at the bucket borders (walk has one entry more than there are buckets), and each bucket's parts."""
    high = np.int64(0)
    low = np.int64(0)
    walk[0] = 0.0
    for b in range(sums.shape[0]):
        falls[b] = _value(sums[b, 0], sums[b, 1])
        rises[b] = _value(sums[b, 2], sums[b, 3])
        low += sums[b, 3] - sums[b, 1]
        high += sums[b, 2] - sums[b, 0] + (low >> HALF)
        low &= HALF_MASK
        walk[b + 1] = _value(high, low)


@kernel
def borders_real(sums, walk, falls, rises):
    """As `borders_exact` for float sums."""
    total = 0.0
    walk[0] = 0.0
    for b in range(sums.shape[0]):
        falls[b] = sums[b, 0]
        rises[b] = sums[b, 1]
        total += sums[b, 1] - sums[b, 0]
        walk[b + 1] = total


@kernel
def spread(key, base, scale, starts, widths, wanted, lows, highs):
    """Smallest and largest key in each wanted bucket: a bucket with one distinct key has no inside."""
    for i in range(key.size):
        place = bucket(key[i], base, scale, starts, widths)
        if wanted[place]:
            lows[place] = min(lows[place], key[i])
            highs[place] = max(highs[place], key[i])


@kernel
def inside_exact(key, predicted, observed, weight, base, scale, starts, widths, sums, extremes):
    """Walk through the collected rows, sorted by key, from the exact border of each bucket.

    extremes : (4,) = highest, its key, lowest, its key; updated in place.
    """
    high = np.int64(0)
    low = np.int64(0)
    passed = 0
    i = 0
    while i < key.size:
        place = np.int64(bucket(key[i], base, scale, starts, widths))
        while passed < place:
            low += sums[passed, 3] - sums[passed, 1]
            high += sums[passed, 2] - sums[passed, 0] + (low >> HALF)
            low &= HALF_MASK
            passed += 1
        here_high = high
        here_low = low
        while i < key.size and np.int64(bucket(key[i], base, scale, starts, widths)) == place:
            tied = key[i]
            while i < key.size and key[i] == tied:
                times = np.int64(weight[i]) if weight.size else np.int64(1)
                q = np.int64(observed[i]) * ONE - grid(predicted[i])
                here_low += (q & HALF_MASK) * times
                here_high += (q >> HALF) * times + (here_low >> HALF)
                here_low &= HALF_MASK
                i += 1
            _note(_value(here_high, here_low), tied, extremes)


@kernel
def inside_real(key, predicted, observed, weight, base, scale, starts, widths, walk, extremes):
    """As `inside_exact` for float sums."""
    i = 0
    while i < key.size:
        place = np.int64(bucket(key[i], base, scale, starts, widths))
        here = walk[place]
        while i < key.size and np.int64(bucket(key[i], base, scale, starts, widths)) == place:
            tied = key[i]
            while i < key.size and key[i] == tied:
                step = float(observed[i]) - predicted[i]
                here += step * weight[i] if weight.size else step
                i += 1
            _note(here, tied, extremes)


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


@kernel
def totals_real(predicted, weight, count, result):
    """Any weights: as `totals_exact` with plain sums in result (4,)."""
    for i in range(predicted.size):
        p = predicted[i]
        times = float(count[i]) if count.size else 1.0
        first = weight[i] * times if weight.size else times
        second = weight[i] * first if weight.size else times
        result[0] += first
        result[1] += second * (p * (1.0 - p))
        result[2] += times * p
        result[3] += times

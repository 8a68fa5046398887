"""Sums of a stream over many sets of rows (cells), each by buckets of the score.

A cell is a combination of slots (every row is in one) or a subpopulation (rows come as a list). Per cell and bucket:
rows, the residuals as two limbs of 26 bits, and the rises in units of 2**-20, rounded up, which bound how far a walk
moves inside the bucket. Per cell: what its noise needs. Sums of rows and of first powers of whole-number weights are
integers; squares of weights times p(1-p) are floats.
"""

from __future__ import annotations

import math

import numpy as np

from miscal.kernels.jit import inlined, kernel
from miscal.kernels.simulate import mixed
from miscal.kernels.sums import grid

HALF = 26
HALF_MASK = (1 << HALF) - 1
ONE = 1 << 52
FEW = 16
COARSE = 32  # 52 - 20
# Columns of the sums of a cell and a bucket, and of the totals of a cell.
ROWS, HIGH, LOW, RISE = range(4)
BUCKET_WIDTH = 4
TOTAL_WIDTH = 10  # rows, weight, weight2, limbs of predicted, variance and squared residuals, fingerprint
REAL_WIDTH = 5  # weight, weight2, predicted, variance, squared residuals


@inlined
def _below(value, numbers):
    """How many of the numbers, which increase, are below a value: few are compared all, which no branch delays."""
    if numbers.size <= FEW:
        low = 0
        for j in range(numbers.size):
            low += numbers[j] < value
        return low
    low = 0
    high = numbers.size
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def number_slots(values, numbers, merged, slots):
    """What `merged` has for slot 2j + 1 of the j-th number, 2j of what lies before it, the last one of NaN."""
    for i in range(values.size):
        value = values[i]
        low = _below(value, numbers)
        slot = 2 * low + (1 if low < numbers.size and numbers[low] == value else 0)
        slots[i] = merged[2 * numbers.size + 1 if math.isnan(value) else slot]


@kernel
def range_codes(values, inner, missing, codes):
    """The number of inner edges below each value; NaN has the code `missing`."""
    for i in range(values.size):
        value = values[i]
        codes[i] = missing if math.isnan(value) else _below(value, inner)


@kernel
def bucket_order(codes, buckets, order):
    """Positions in the order of their buckets (a counting sort)."""
    starts = np.zeros(buckets + 1, np.int64)
    for i in range(codes.size):
        starts[codes[i] + 1] += 1
    for b in range(buckets):
        starts[b + 1] += starts[b]
    for i in range(codes.size):
        order[starts[codes[i]]] = i
        starts[codes[i]] += 1


@kernel
def bucket_spans(codes, values, spans):
    """Smallest and largest value of each bucket, (buckets, 2)."""
    for i in range(codes.size):
        place = codes[i]
        spans[place, 0] = min(spans[place, 0], values[i])
        spans[place, 1] = max(spans[place, 1], values[i])


@kernel
def keep_rows(slots, truth, rows, result):
    """Those of a list whose slot belongs, in order; returns how many."""
    found = 0
    for q in range(rows.size):
        i = rows[q]
        result[found] = i
        found += truth[slots[i]]
    return found


@inlined
def _add(i, cell, shift, codes, predicted, observed, first, second, seed, sums, totals, curve, real):
    """Add one row with a whole-number weight."""
    place = np.int64(codes[i])
    p = predicted[i]
    event = np.int64(observed[i])
    q = grid(p)
    weight = np.int64(first[i]) if first.size else np.int64(1)
    square = np.int64(second[i]) if second.size else np.int64(1)
    step = event * ONE - q
    sums[cell, place, 0] += 1
    sums[cell, place, 1] += (step >> HALF) * weight
    sums[cell, place, 2] += (step & HALF_MASK) * weight
    sums[cell, place, 3] += event * ((step >> COARSE) + 1) * weight
    spread = p * (1.0 - p)
    off = np.float64(event) - p
    totals[cell, 0] += 1
    totals[cell, 1] += weight
    totals[cell, 2] += square
    totals[cell, 3] += (q >> HALF) * weight
    totals[cell, 4] += (q & HALF_MASK) * weight
    if second.size:  # squares of weights times limbs could pass 2**63
        real[cell, 3] += second[i] * spread
        real[cell, 4] += second[i] * (off * off)
    else:
        v = grid(spread)
        r = grid(off * off)
        totals[cell, 5] += v >> HALF
        totals[cell, 6] += v & HALF_MASK
        totals[cell, 7] += r >> HALF
        totals[cell, 8] += r & HALF_MASK
    totals[cell, 9] += np.int64(mixed(seed, np.uint64(i))) if seed else 0
    curve[cell, place >> shift, 0] += np.float64(weight)
    curve[cell, place >> shift, 1] += np.float64(square) * spread


@inlined
def _add_real(i, cell, shift, codes, predicted, observed, first, second, seed, sums, totals, curve, real, sums_real):
    """Add one row with any weight: rows and fingerprint as whole numbers, all else as floats."""
    place = np.int64(codes[i])
    p = predicted[i]
    off = np.float64(observed[i]) - p
    step = off * first[i]
    spread = p * (1.0 - p)
    sums[cell, place, 0] += 1
    sums_real[cell, place, 0] += step
    sums_real[cell, place, 1] += max(step, 0.0)
    totals[cell, 0] += 1
    totals[cell, 9] += np.int64(mixed(seed, np.uint64(i))) if seed else 0
    real[cell, 0] += first[i]
    real[cell, 1] += second[i]
    real[cell, 2] += first[i] * p
    real[cell, 3] += second[i] * spread
    real[cell, 4] += second[i] * (off * off)
    curve[cell, place >> shift, 0] += first[i]
    curve[cell, place >> shift, 1] += second[i] * spread


@kernel
def add_cells(cells, shift, codes, predicted, observed, first, second, seed, sums, totals, curve, real):
    """Add every row to its cell."""
    for i in range(cells.size):
        cell = np.int64(cells[i])
        _add(i, cell, shift, codes, predicted, observed, first, second, seed, sums, totals, curve, real)


@kernel
def add_list(rows, cell, shift, codes, predicted, observed, first, second, seed, sums, totals, curve, real):
    """Add the rows of a list to one cell."""
    for q in range(rows.size):
        i = np.int64(rows[q])
        _add(i, cell, shift, codes, predicted, observed, first, second, seed, sums, totals, curve, real)


@kernel
def add_cells_real(
    cells, shift, codes, predicted, observed, first, second, seed, sums, totals, curve, real, sums_real,
):  # fmt: skip
    """As `add_cells` with any weights."""
    for i in range(cells.size):
        cell = np.int64(cells[i])
        _add_real(i, cell, shift, codes, predicted, observed, first, second, seed, sums, totals, curve, real, sums_real)


@kernel
def add_list_real(
    rows, cell, shift, codes, predicted, observed, first, second, seed, sums, totals, curve, real, sums_real,
):  # fmt: skip
    """As `add_list` with any weights."""
    for q in range(rows.size):
        i = np.int64(rows[q])
        _add_real(i, cell, shift, codes, predicted, observed, first, second, seed, sums, totals, curve, real, sums_real)


@kernel
def heaviest(cells, weight, top):
    """Largest weight of each cell."""
    for i in range(cells.size):
        top[cells[i]] = max(top[cells[i]], weight[i])

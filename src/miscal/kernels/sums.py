"""Sums per cell that do not depend on the order of the rows.

A value x in [0, 1] becomes the integer q = floor(x * 2**52 + 1/2). Integer sums are associative, so counts, unweighted
sums and integer-weighted sums have the same bits for any row order, threads, partition or engine. A sum is kept as two
limbs, high * 2**-20 + low * 2**-52 with 0 <= low < 2**32. The grid errs by at most 2**-53 a row.
"""

from __future__ import annotations

import math

import numpy as np

from miscal.kernels.buckets import edge_index, uniform_index
from miscal.kernels.fast_log import logarithm
from miscal.kernels.jit import inlined, kernel, vectorisable

UNIT = 4503599627370496.0  # 2**52
LOW_BITS = 32
LOW_MASK = (1 << LOW_BITS) - 1
SUB_BLOCK = 1024  # rows whose integers still fit one int64: 2**10 * 2**52 < 2**63
PACKED_ROWS = (1 << 24) - 1  # rows of one cell that two packed words can count
SURE = 2.0**-46  # down to this probability the logarithm is our own, which kernels can work out several at a time
SMALL = 256  # cells; beyond it, emptying the sub-blocks would cost more than it saves

# Columns of a full tally, in the order of the kernels' last axis.
COLUMNS = ("weight", "weight2", "predicted", "observed", "variance", "residual2", "squared_error", "log_loss")


@inlined
def grid(value):
    """The integer that stands for a value: value * 2**52, rounded half up."""
    return np.int64(value * UNIT + 0.5)


@kernel
def _scatter_means(predicted, observed, codes, counts, sums):
    """Add a sub-block: rows and events share one integer, four copies keep neighbouring rows independent."""
    rows = predicted.size
    whole = rows - rows % 4
    for i in range(0, whole, 4):
        a = np.uint64(codes[i])
        b = np.uint64(codes[i + 1])
        c = np.uint64(codes[i + 2])
        d = np.uint64(codes[i + 3])
        counts[0, a] += 1 + (np.int64(observed[i]) << 32)
        sums[0, a] += grid(predicted[i])
        counts[1, b] += 1 + (np.int64(observed[i + 1]) << 32)
        sums[1, b] += grid(predicted[i + 1])
        counts[2, c] += 1 + (np.int64(observed[i + 2]) << 32)
        sums[2, c] += grid(predicted[i + 2])
        counts[3, d] += 1 + (np.int64(observed[i + 3]) << 32)
        sums[3, d] += grid(predicted[i + 3])
    for i in range(whole, rows):
        a = np.uint64(codes[i])
        counts[0, a] += 1 + (np.int64(observed[i]) << 32)
        sums[0, a] += grid(predicted[i])


@kernel
def _empty_means(counts, sums, result):
    for cell in range(result.shape[0]):
        for copy in range(4):
            packed = counts[copy, cell]
            total = sums[copy, cell]
            result[cell, 0] += packed & LOW_MASK
            result[cell, 1] += packed >> 32
            result[cell, 2] += total >> LOW_BITS
            result[cell, 3] += total & LOW_MASK
            counts[copy, cell] = 0
            sums[copy, cell] = 0


@kernel
def binned_means(values, predicted, observed, low, high, edges, uniform, result):
    """Rows, events and the sum of predictions per bin of `values`, in one pass.

    result : (bins, 4) int64, added to: rows, events, high and low limb of the predictions.
    """
    bins = edges.size - 1
    codes = np.empty(SUB_BLOCK, np.int32)
    counts = np.zeros((4, bins), np.int64)
    sums = np.zeros((4, bins), np.int64)
    start = 0
    while start < values.size:
        stop = min(start + SUB_BLOCK, values.size)
        if uniform:
            uniform_index(values[start:stop], low, high, edges, codes)
        else:
            edge_index(values[start:stop], edges, codes)
        _scatter_means(predicted[start:stop], observed[start:stop], codes, counts, sums)
        _empty_means(counts, sums, result)
        start = stop


@kernel
def coded_means(codes, predicted, observed, packed):
    """Rows, events and the sum of predictions per cell given by code; made for many cells.

    A cell is two words, so that a row touches one place in memory: the sum of predictions modulo 2**64, and rows,
    events and carries of that sum side by side. At most `PACKED_ROWS` rows at a time.

    packed : (cells, 2) uint64, added to; `unpacked_means` reads it.
    """
    for i in range(codes.size):
        cell = np.uint64(codes[i])
        q = np.uint64(grid(predicted[i]))
        total = packed[cell, 0] + q
        packed[cell, 0] = total
        carry = np.uint64(total < q)
        packed[cell, 1] += np.uint64(1) + (np.uint64(observed[i]) << np.uint64(24)) + (carry << np.uint64(48))


@kernel
def unpacked_means(packed, result):
    """Add what `coded_means` packed to rows, events, high and low limb of the predictions, (cells, 4) int64."""
    for cell in range(packed.shape[0]):
        total = packed[cell, 0]
        counts = packed[cell, 1]
        result[cell, 0] += np.int64(counts & np.uint64(PACKED_ROWS))
        result[cell, 1] += np.int64((counts >> np.uint64(24)) & np.uint64(PACKED_ROWS))
        result[cell, 2] += np.int64(((counts >> np.uint64(48)) << np.uint64(32)) + (total >> np.uint64(LOW_BITS)))
        result[cell, 3] += np.int64(total & np.uint64(LOW_MASK))


@inlined
def loss(predicted, observed):
    """Log loss of one row, with 0 log 0 = 0; infinite when a certain prediction is wrong.

    The loss of a probability x up to SURE is libm's, any other -`logarithm(x)`, as in `losses`: the same bits from
    every kernel. 1 - p is rounded to half a step of the grid, which is as fine as the grid itself can tell.
    """
    if observed == 1.0:
        x = predicted
    elif observed == 0.0:
        x = 1.0 - predicted
    elif predicted <= 0.0 or predicted >= 1.0:
        return math.inf
    else:
        return -(observed * math.log(predicted) + (1.0 - observed) * math.log1p(-predicted))
    if x > SURE:
        return -logarithm(x)
    return -math.log(x) if x > 0.0 else math.inf


@vectorisable
def losses(predicted, observed, costs):
    """`loss` of rows with outcomes 0 and 1, several at a time; -1 where the probability is not above SURE."""
    for i in range(predicted.size):
        p = predicted[i]
        x = p if observed[i] else 1.0 - p
        costs[i] = -logarithm(x) if x > SURE else -1.0


@inlined
def _add(result, cell, column, q, weight):
    """Add weight * q to a pair of limbs; weight < 2**31, so no product overflows."""
    scaled = (q & LOW_MASK) * weight
    low = result[cell, column, 1] + (scaled & LOW_MASK)
    result[cell, column, 0] += (q >> LOW_BITS) * weight + (scaled >> LOW_BITS) + (low >> LOW_BITS)
    result[cell, column, 1] = low & LOW_MASK


@kernel
def full_exact(codes, predicted, observed, weight, count, rows, result, impossible):
    """All columns of a tally with whole-number weights (or none: arrays of length 0).

    rows : (cells,) int64; result : (cells, columns, 2) int64 limbs; impossible : (cells,) int64, rows that were
    certain and wrong: their log loss is infinite and is not in the sum. All three are added to.
    """
    for i in range(codes.size):
        cell = np.int64(codes[i])
        p = predicted[i]
        y = float(observed[i])
        times = count[i] if count.size else np.int64(1)
        first = np.int64(weight[i]) * times if weight.size else times
        second = np.int64(weight[i]) * first if weight.size else times
        difference = (y - p) * (y - p)
        rows[cell] += times
        result[cell, 0, 0] += first << (52 - LOW_BITS)
        result[cell, 1, 0] += second << (52 - LOW_BITS)
        _add(result, cell, 2, grid(p), first)
        _add(result, cell, 3, grid(y), first)
        _add(result, cell, 4, grid(p * (1.0 - p)), second)
        _add(result, cell, 5, grid(difference), second)
        _add(result, cell, 6, grid(difference), first)
        cost = loss(p, y)
        if cost < math.inf:
            _add(result, cell, 7, grid(cost), first)
        else:
            impossible[cell] += times


@kernel
def full_real(codes, predicted, observed, weight, count, rows, result, impossible):
    """As `full_exact` for weights that are not whole numbers: plain sums; result is (cells, columns) float64."""
    for i in range(codes.size):
        cell = np.int64(codes[i])
        p = predicted[i]
        y = float(observed[i])
        times = count[i] if count.size else np.int64(1)
        first = weight[i] * times
        second = weight[i] * first
        difference = (y - p) * (y - p)
        rows[cell] += times
        result[cell, 0] += first
        result[cell, 1] += second
        result[cell, 2] += first * p
        result[cell, 3] += first * y
        result[cell, 4] += second * (p * (1.0 - p))
        result[cell, 5] += second * difference
        result[cell, 6] += first * difference
        cost = loss(p, y)
        if cost < math.inf:
            result[cell, 7] += first * cost
        else:
            impossible[cell] += times


@kernel
def means_real(codes, predicted, observed, weight, count, rows, result):
    """Rows, and Σw, Σwp, Σwy with any weights: result (cells, 3) float64, added to as are the rows."""
    for i in range(codes.size):
        cell = np.int64(codes[i])
        p = predicted[i]
        times = count[i] if count.size else np.int64(1)
        first = weight[i] * times
        rows[cell] += times
        result[cell, 0] += first
        result[cell, 1] += first * p
        result[cell, 2] += first * float(observed[i])

"""Sums per cell that do not depend on the order of the rows.

A value x in [0, 1] becomes the integer q = floor(x * 2**52 + 1/2). Integer sums are associative, so counts, unweighted
sums and integer-weighted sums have the same bits for any row order, threads, partition or engine. A sum is kept as two
limbs, high * 2**-20 + low * 2**-52 with 0 <= low < 2**32. The grid errs by at most 2**-53 a row.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from miscal.kernels.arithmetic import logarithm
from miscal.kernels.buckets import edge_index, uniform_index
from miscal.kernels.jit import inlined, kernel

UNIT = 4503599627370496.0  # 2**52
LOW_BITS = 32
LOW_MASK = (1 << LOW_BITS) - 1
SUB_BLOCK = 1024  # rows whose integers still fit one int64: 2**10 * 2**52 < 2**63
PACKED_ROWS = (1 << 24) - 1  # rows of one cell that two packed words can count
AHEAD = 32  # rows; long enough for a cell to come from the third cache, short enough for it to stay in the first
FAR = 1 << 15  # cells of 16 bytes from which on they no longer fit beside the rows in the second cache
SURE = 2.0**-46  # down to this probability the logarithm is our own, which kernels can work out several at a time
SMALL = 256  # cells; beyond it, emptying the sub-blocks would cost more than it saves

WORDS = 8  # of a packed row, see below
WORD = ir.IntType(64)
LINE = ir.VectorType(WORD, WORDS)
FLAG = ir.IntType(32)
FULL = np.uint64(4095)  # rows of a packed cell: as many numbers of 52 bits fit one word
BLOCK = 4096  # rows packed at a time: a quarter of a megabyte, which stays in the cache for all columns
UPPER = np.uint64(32)  # where a word of a packed cell is cut in two; the fifth holds events above 52 bits
EVENTS = np.uint64(52)
LOSS = np.uint64(40)  # bits of a loss in the fifth word, the others are in the upper half of the first
UPPER_MASK = np.uint64((1 << 32) - 1)
EVENTS_MASK = np.uint64((1 << 52) - 1)
LOSS_MASK = np.uint64((1 << 40) - 1)

# Columns of a full tally, in the order of the kernels' last axis.
COLUMNS = ("weight", "weight2", "predicted", "observed", "variance", "residual2", "squared_error", "log_loss")


@inlined
def grid(value):
    """The integer that stands for a value: value * 2**52, rounded half up."""
    return np.int64(value * UNIT + 0.5)


@kernel
def _scatter_means(predicted, observed, codes, counts, sums):
    """Add a sub-block: rows and events share one integer, four copies keep neighbouring rows independent."""
    for i in range(predicted.size):
        copy = np.uint64(i & 3)
        cell = np.uint64(codes[i])
        counts[copy, cell] += 1 + (np.int64(observed[i]) << 32)
        sums[copy, cell] += grid(predicted[i])


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


@intrinsic  # type: ignore[untyped-decorator]
def _soon(typing_context: Any, values: Any, index: Any) -> Any:
    """Ask for the cache line of values[index], which will be written; values is flat and contiguous."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, FLAG, FLAG, FLAG])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(ask, [place, *(ir.Constant(FLAG, value) for value in (1, 3, 1))])
        return context.get_dummy_value()

    return types.void(values, types.uint64), generate


@inlined
def _add_mean(place, predicted, observed, words):
    q = np.uint64(grid(predicted))
    total = words[place] + q
    words[place] = total
    carry = np.uint64(total < q)
    words[place + np.uint64(1)] += np.uint64(1) + (np.uint64(observed) << np.uint64(24)) + (carry << np.uint64(48))


@kernel
def coded_means(codes, predicted, observed, packed):
    """Rows, events and the sum of predictions per cell given by code; made for many cells.

    A cell is two words, so that a row touches one place in memory: the sum of predictions modulo 2**64, and rows,
    events and carries of that sum side by side. At most `PACKED_ROWS` rows at a time. Where there are more cells than
    the nearest caches hold, they are asked for ahead of their use.

    packed : (cells, 2) uint64, added to; `unpacked_means` reads it.
    """
    words = packed.reshape(packed.size)
    near = max(0, codes.size - AHEAD) if packed.shape[0] > FAR else 0
    for i in range(near):
        _soon(words, np.uint64(codes[i + AHEAD]) << np.uint64(1))
        _add_mean(np.uint64(codes[i]) << np.uint64(1), predicted[i], observed[i], words)
    for i in range(near, codes.size):
        _add_mean(np.uint64(codes[i]) << np.uint64(1), predicted[i], observed[i], words)


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


@kernel
def losses(predicted, observed, costs):
    """`loss` of rows with outcomes 0 and 1, several at a time; -1 where the probability is not above SURE."""
    for i in range(predicted.size):
        p = predicted[i]
        x = p if observed[i] else 1.0 - p
        costs[i] = -logarithm(x) if x > SURE else -1.0


@inlined
def add_limbs(result, cell, column, q, weight):
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
        add_limbs(result, cell, 2, grid(p), first)
        add_limbs(result, cell, 3, grid(y), first)
        add_limbs(result, cell, 4, grid(p * (1.0 - p)), second)
        add_limbs(result, cell, 5, grid(difference), second)
        add_limbs(result, cell, 6, grid(difference), first)
        cost = loss(p, y)
        if cost < math.inf:
            add_limbs(result, cell, 7, grid(cost), first)
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


@kernel
def on_grid(predicted, observed, weight, result):
    """Share each row between its two neighbours of a grid over [0, 1]; result : (nodes, 2) = Σw(p - y), Σw."""
    steps = result.shape[0] - 1
    for i in range(predicted.size):
        p = predicted[i]
        place = p * steps
        left = min(int(place), steps - 1)
        part = place - left
        w = weight[i] if weight.size else 1.0
        residual = (p - float(observed[i])) * w
        result[left, 0] += (1.0 - part) * residual
        result[left, 1] += (1.0 - part) * w
        result[left + 1, 0] += part * residual
        result[left + 1, 1] += part * w


# ------------------------------------------------------------------------------------------------- packed rows
# The second pass of a stream over rows of weight 1: a block of rows at a time through all columns.
#
# What a row gives to a tally, as predicted and beyond the score, is packed into eight words, a cache line, while the
# row is in the cache; a column then costs one addition of eight words. A cell holds at most FULL rows in that form and
# is emptied into wide sums of two limbs a word. The cells of all columns lie in one array, one after the other.
#
# The words of a row are rows and loss, p, p(1-p), (y-p)², loss and events, and m, m(1-m), (y-m)² beyond the score. A
# loss is below 32, that of a probability of 2**-46; larger ones are rare and added by themselves.


def _address(context: Any, builder: Any, kind: Any, array: Any, row: Any, width: Any) -> Any:
    """Where row number `row` of a contiguous array begins, a row being `width` items."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [builder.mul(row, width)])


@intrinsic  # type: ignore[untyped-decorator]
def add_line(typing_context: Any, cells: Any, cell: Any, terms: Any, row: Any) -> Any:
    """Add row `row` of terms (rows, 8) uint64 to row `cell` of cells (cells, 8) uint64; returns its first word then."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        width, kinds = ir.Constant(WORD, WORDS), signature.args
        to, of = (
            builder.bitcast(
                _address(context, builder, kinds[place], arguments[place], arguments[place + 1], width),
                LINE.as_pointer(),
            )
            for place in (0, 2)
        )
        total = builder.add(builder.load(to, align=8), builder.load(of, align=8))
        builder.store(total, to, align=8)
        return builder.extract_element(total, ir.Constant(FLAG, 0))

    return types.uint64(cells, types.uint64, terms, types.uint64), generate


@kernel
def packed_rows(predicted, observed, mended, costs, terms, odd):
    """What each row of weight 1 gives, (rows, 8) uint64; the rows whose loss does not fit are listed in `odd`.

    Returns how many those are. Their loss is left out: `add_odd` adds it.  costs : room for the losses
    """
    losses(predicted, observed, costs)
    number = 0
    for i in range(predicted.size):
        p = predicted[i]
        y = np.float64(observed[i])
        m = mended[i]
        cost = costs[i]
        q = np.uint64(grid(cost if cost > 0.0 else 0.0))
        if cost < 0.0:
            odd[number] = i
            number += 1
        terms[i, 0] = np.uint64(1) | ((q >> LOSS) << UPPER)
        terms[i, 1] = np.uint64(grid(p))
        terms[i, 2] = np.uint64(grid(p * (1.0 - p)))
        terms[i, 3] = np.uint64(grid((y - p) * (y - p)))
        terms[i, 4] = (q & LOSS_MASK) | (np.uint64(observed[i]) << EVENTS)
        terms[i, 5] = np.uint64(grid(m))
        terms[i, 6] = np.uint64(grid(m * (1.0 - m)))
        terms[i, 7] = np.uint64(grid((y - m) * (y - m)))
    return number


@inlined
def _empty(cells, cell, wide):
    """Move a packed cell into its wide sums: the upper parts of the words, then the lower ones."""
    for k in range(WORDS):
        word = cells[cell, k]
        wide[cell, k] += word >> (EVENTS if k == 4 else UPPER)
        wide[cell, k + WORDS] += word & (EVENTS_MASK if k == 4 else UPPER_MASK)
        cells[cell, k] = np.uint64(0)
    lower = wide[cell, 4 + WORDS]  # 40 bits a row and up to 52 a cell: the first to fill a word
    wide[cell, 0] += lower >> LOSS
    wide[cell, 4 + WORDS] = lower & LOSS_MASK


@kernel
def add_packed(codes, terms, first, cells, wide):
    """Add packed rows: cells (cells, 8) uint64, emptied into wide (cells, 16) uint64 as they fill up.

    Code 0 is cell `first`.
    """
    for i in range(codes.size):
        cell = np.uint64(codes[i]) + first
        if add_line(cells, cell, terms, np.uint64(i)) & UPPER_MASK == FULL:
            _empty(cells, cell, wide)


@kernel
def add_odd(odd, codes, predicted, observed, first, wide, impossible):
    """Add the losses that were left out; those of certain and wrong predictions are counted."""
    for j in range(odd.size):
        i = odd[j]
        cell = np.uint64(codes[i]) + first
        cost = loss(predicted[i], np.float64(observed[i]))
        if cost < math.inf:
            q = np.uint64(grid(cost))
            wide[cell, 0] += q >> LOSS
            wide[cell, 4 + WORDS] += q & LOSS_MASK
        else:
            impossible[cell] += 1


@kernel
def empty_packed(cells, wide):
    """Empty all cells."""
    for cell in range(cells.shape[0]):
        _empty(cells, np.uint64(cell), wide)


@kernel
def add_rows(predicted, observed, recalibrated, codes, firsts, terms, odd, costs, cells, wide, impossible):
    """Add rows of weight 1 to the cells of all columns.

    codes : (columns, rows) int32, column k's code 0 being cell firsts[k].  terms, odd, costs : room for a block of rows
    """
    start = 0
    while start < predicted.size:
        stop = min(start + costs.size, predicted.size)
        size = stop - start
        some, events = predicted[start:stop], observed[start:stop]
        number = packed_rows(some, events, recalibrated[start:stop], costs[:size], terms, odd)
        for column in range(codes.shape[0]):
            place = codes[column, start:stop]
            add_packed(place, terms, firsts[column], cells, wide)
            if number:
                add_odd(odd[:number], place, some, events, firsts[column], wide, impossible)
        start = stop

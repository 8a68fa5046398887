"""The second pass of a stream over rows of weight 1: a block of rows at a time through all columns.

What a row gives to a tally, as predicted and beyond the score, is packed into eight words, a cache line, while the row
is in the cache; a column then costs one addition of eight words. A cell holds at most FULL rows in that form and is
emptied into wide sums of two limbs a word. The cells of all columns lie in one array, one after the other.

The words of a row are rows and loss, p, p(1-p), (y-p)², loss and events, and m, m(1-m), (y-m)² beyond the score. A loss
is below 32, that of a probability of 2**-46; larger ones are rare and added by themselves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from miscal.kernels.jit import inlined, kernel
from miscal.kernels.sums import grid, loss, losses

WORDS = 8
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

"""The second pass of a stream over rows of weight 1: a block of rows at a time through all columns.

What a row gives to a tally, as predicted and beyond the score, is packed into eight words, a cache line, while the row
is in the cache; a column then costs one addition of eight words. A cell holds at most FULL rows in that form and is
emptied into wide sums of two limbs a word. The cells of all columns lie in one array, one after the other.

The words of a row are rows and loss, p, p(1-p), (y-p)², loss and events, and m, m(1-m), (y-m)² beyond the score. A loss
is below 32, that of a probability of 2**-46; larger ones are rare and added by themselves.
"""

from __future__ import annotations

import math

import numpy as np

from miscal.kernels.jit import inlined, kernel
from miscal.kernels.lines import WORDS, add_line
from miscal.kernels.stream import FULL, bucket_codes
from miscal.kernels.sums import grid, loss, losses

BLOCK = 4096  # rows packed at a time: a quarter of a megabyte, which stays in the cache for all columns
UPPER = np.uint64(32)  # where a word of a packed cell is cut in two; the fifth holds events above 52 bits
EVENTS = np.uint64(52)
LOSS = np.uint64(40)  # bits of a loss in the fifth word, the others are in the upper half of the first
UPPER_MASK = np.uint64((1 << 32) - 1)
EVENTS_MASK = np.uint64((1 << 52) - 1)
LOSS_MASK = np.uint64((1 << 40) - 1)


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
def add_columns(predicted, observed, mended, codes, firsts, terms, odd, scores, costs, cells, wide, impossible):
    """Add rows of weight 1 to the cells of all columns.

    codes : (columns, rows) int32, column k's code 0 being cell firsts[k]; the first column is the sketch of the score,
    and mended[code] the recalibrated score of its cells.  terms, odd, scores, costs : room for a block of rows
    """
    start = 0
    while start < predicted.size:
        stop = min(start + scores.size, predicted.size)
        size = stop - start
        sketched = codes[0, start:stop]
        for i in range(size):
            scores[i] = mended[np.uint64(sketched[i])]
        some, events = predicted[start:stop], observed[start:stop]
        number = packed_rows(some, events, scores, costs[:size], terms, odd)
        for k in range(codes.shape[0]):
            # The sketch and the fields, with many cells, come last: they drive the packed rows out of the cache.
            column = k + 1 if k + 1 < codes.shape[0] else 0
            place = codes[column, start:stop]
            add_packed(place, terms, firsts[column], cells, wide)
            if number:
                add_odd(odd[:number], place, some, events, firsts[column], wide, impossible)
        start = stop


@kernel
def bucket_segments(values, low, high, base, scale, starts, widths, table, last, codes, picked):
    """The segment of each value's bucket; the rows whose segment is `last` are listed in `picked`.

    Returns how many are listed.
    """
    bucket_codes(values, low, high, base, scale, starts, widths, codes)
    return segments_of(codes, table, last, picked)


@kernel
def segments_of(codes, table, last, picked):
    """From buckets to segments, in place, and which rows are in segment `last`."""
    found = 0
    start = 0
    while start < codes.size:
        some = codes[start : start + BLOCK]
        number = 0
        for i in range(some.size):
            code = table[np.uint64(some[i])]
            some[i] = code
            number += np.int64(code == last)
        if number:
            for i in range(some.size):
                if some[i] == last:
                    picked[found] = start + i
                    found += 1
        start += BLOCK
    return found


@kernel
def sketch_cells(codes, shift):
    """From buckets of the score to cells of its sketch, in place."""
    for i in range(codes.size):
        codes[i] >>= shift


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

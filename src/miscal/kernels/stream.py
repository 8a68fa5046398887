"""Sums that a stream of batches is added into: buckets of a key, and cells of a tally.

What a row gives to a tally (the integers of `kernels.sums`) is worked out once and added into the cells of every
column; a row whose code is the last cell is set aside there (it is pulled and added later).
"""

from __future__ import annotations

import math

import numpy as np

from miscal.kernels.buckets import ordinal
from miscal.kernels.jit import inlined, kernel
from miscal.kernels.lines import fetch
from miscal.kernels.sums import grid, loss

HALF = 26
HALF_MASK = (1 << HALF) - 1
LOW = 32
LOW_MASK = (1 << LOW) - 1
ONE = 1 << 52
AHEAD = 16  # rows whose buckets are on their way
ROOM = 1024  # rows whose places are found at a time
FULL = np.uint64(4095)  # rows of a packed cell: as many numbers of 52 bits fit one word
ROWS = np.uint64((1 << 32) - 1)


@kernel
def _positions(values, low, high, base, scale, absent, positions):
    """Where values lie on the line of stretches of `kernels.buckets`; a loop without a branch or a table."""
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
    """The bucket of each value, held within [low, high]: `kernels.buckets.bucket`, some rows at a time.

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
def border_codes(values, borders, missing, codes):
    """The number of borders below each value; NaN has the code `missing`."""
    for i in range(values.size):
        value = values[i]
        if math.isnan(value):
            codes[i] = missing
            continue
        low = 0
        high = borders.size
        while low < high:
            middle = (low + high) >> 1
            if borders[middle] < value:
                low = middle + 1
            else:
                high = middle
        codes[i] = low


@kernel
def add_plain_steps(codes, values, predicted, observed, cells, sums, events, spans):
    """Rows of weight 1 per bucket, and the smallest and largest value.

    cells : (buckets, 3) uint64, added to: rows and, above 32 bits, events; falls; rises. A cell with FULL rows is
    emptied into the sums of `add_steps` and the events.
    """
    last = codes.size - 1
    for i in range(codes.size):
        soon = np.uint64(codes[min(i + AHEAD, last)])
        fetch(cells, soon, np.uint64(3))
        fetch(spans, soon, np.uint64(2))
        place = np.uint64(codes[i])
        event = np.int64(observed[i])
        size = np.uint64((event * ONE - grid(predicted[i])) * (2 * event - 1))
        head = cells[place, 0] + np.uint64(1 + (event << 32))
        cells[place, 0] = head
        cells[place, np.uint64(1 + event)] += size
        value = values[i]
        # Seldom, and what is not written need not be written back to memory.
        if value < spans[place, 0]:  # noqa: PLR1730
            spans[place, 0] = value
        if value > spans[place, 1]:  # noqa: PLR1730
            spans[place, 1] = value
        if head & ROWS == FULL:
            _empty_steps(cells, place, sums, events)


@inlined
def _empty_steps(cells, place, sums, events):
    rows = np.int64(cells[place, 0] & ROWS)
    sums[place, 0] += rows
    sums[place, 1] += rows
    events[place] += np.int64(cells[place, 0] >> np.uint64(32))
    for side in range(2):
        word = cells[place, side + 1]
        sums[place, 2 + 2 * side] += np.int64(word >> np.uint64(HALF))
        sums[place, 3 + 2 * side] += np.int64(word & np.uint64(HALF_MASK))
    for k in range(3):
        cells[place, k] = np.uint64(0)


@kernel
def empty_steps(cells, sums, events):
    """Empty all cells of `add_plain_steps`."""
    for place in range(cells.shape[0]):
        _empty_steps(cells, place, sums, events)


@kernel
def bucket_steps(
    values, predicted, observed, low, high, base, scale, starts, widths, codes, cells, sums, events, spans
):  # fmt: skip
    """`add_plain_steps` by the buckets of `bucket_codes`, some rows at a time: codes has room for them."""
    first = 0
    while first < values.size:
        last = min(first + codes.size, values.size)
        some = values[first:last]
        bucket_codes(some, low, high, base, scale, starts, widths, codes)
        rows = codes[: last - first]
        add_plain_steps(rows, some, predicted[first:last], observed[first:last], cells, sums, events, spans)
        first = last


@kernel
def add_steps(codes, values, predicted, observed, first, count, sums, spans):
    """Rows, weight and residuals per bucket with whole-number weights, and the smallest and largest value.

    sums : (buckets, 6) int64, added to: rows, weight, limbs of 26 bits of the falls and of the rises (as in
    `kernels.walk.add_exact`);  spans : (buckets, 2).
    """
    for i in range(codes.size):
        place = np.int64(codes[i])
        event = np.int64(observed[i])
        size = (event * ONE - grid(predicted[i])) * (2 * event - 1)
        times = count[i] if count.size else np.int64(1)
        weight = np.int64(first[i]) if first.size else times
        side = 2 + 2 * event
        sums[place, 0] += times
        sums[place, 1] += weight
        sums[place, side] += (size >> HALF) * weight
        sums[place, side + 1] += (size & HALF_MASK) * weight
        value = values[i]
        spans[place, 0] = min(spans[place, 0], value)
        spans[place, 1] = max(spans[place, 1], value)


@kernel
def add_steps_real(codes, values, predicted, observed, first, count, sums, real, spans):
    """As `add_steps` for any weights: rows in sums, and real (buckets, 3) float64 = weight, falls and rises."""
    for i in range(codes.size):
        place = np.int64(codes[i])
        sums[place, 0] += count[i] if count.size else np.int64(1)
        step = (np.float64(observed[i]) - predicted[i]) * first[i]
        real[place, 0] += first[i]
        if step < 0.0:
            real[place, 1] -= step
        else:
            real[place, 2] += step
        value = values[i]
        spans[place, 0] = min(spans[place, 0], value)
        spans[place, 1] = max(spans[place, 1], value)


@kernel
def row_terms(predicted, observed, losses, terms):
    """What each row gives to a tally, (rows, 4) int64: p, p(1-p), (y-p)² and the log loss (-1 where infinite).

    losses : whether the log loss is worked out; 0 otherwise
    """
    for i in range(predicted.size):
        p = predicted[i]
        y = np.float64(observed[i])
        terms[i, 0] = grid(p)
        terms[i, 1] = grid(p * (1.0 - p))
        terms[i, 2] = grid((y - p) * (y - p))
        terms[i, 3] = 0
        if losses:
            cost = loss(p, y)
            terms[i, 3] = grid(cost) if cost < math.inf else -1


@kernel
def add_terms(codes, terms, observed, result):
    """Add rows of weight 1: result (cells, 11) int64 = rows, events, impossible, and four sums as two limbs each.

    The low limbs are not carried over: a batch has fewer than 2**31 rows.
    """
    for i in range(codes.size):
        cell = np.int64(codes[i])
        result[cell, 0] += 1
        result[cell, 1] += np.int64(observed[i])
        for k in range(3):
            q = terms[i, k]
            result[cell, 3 + 2 * k] += q >> LOW
            result[cell, 4 + 2 * k] += q & LOW_MASK
        q = terms[i, 3]
        if q >= 0:
            result[cell, 9] += q >> LOW
            result[cell, 10] += q & LOW_MASK
        else:
            result[cell, 2] += 1


@kernel
def carry_terms(result):
    """Carry the low limbs over."""
    for cell in range(result.shape[0]):
        for k in range(3, 11, 2):
            result[cell, k] += result[cell, k + 1] >> LOW
            result[cell, k + 1] &= LOW_MASK


@kernel
def count_cells(codes, table, counts):
    """Count the rows of each code's cell; the last entry of the table serves code -1."""
    last = np.int32(table.size - 1)
    for i in range(codes.size):
        code = codes[i]
        cell = table[np.uint64(code if code >= 0 else last)]
        counts[np.uint64(cell)] += 1


@kernel
def cells_of(codes, table, cells):
    """The cell of each code; the last entry of the table serves code -1."""
    last = np.int32(table.size - 1)
    for i in range(codes.size):
        code = codes[i]
        cells[i] = table[np.uint64(code if code >= 0 else last)]


@kernel
def distinct_values(values, limit, found):
    """Distinct values other than NaN, into `found` (limit,); returns how many, `limit` meaning that many or more."""
    size = 4
    while size < 4 * limit:
        size *= 2
    place_of = np.full(size, -1, np.int64)
    number = 0
    for i in range(values.size):
        value = values[i]
        if math.isnan(value):
            continue
        key = ordinal(value)
        place = np.int64((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & (size - 1)
        while place_of[place] >= 0 and ordinal(found[place_of[place]]) != key:
            place = (place + 1) & (size - 1)
        if place_of[place] < 0:
            place_of[place] = number
            found[number] = value
            number += 1
            if number >= limit:
                return number
    return number

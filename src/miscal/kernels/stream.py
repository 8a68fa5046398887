"""Sums that a stream of batches is added into: buckets of a key, and cells of a tally.

What a row gives to a tally (the integers of `kernels.sums`) is worked out once and added into the cells of every
column; a row whose code is the last cell is set aside there (it is pulled and added later).

Rows of weight 1 are packed into eight words, a cache line: one addition of eight words a row and column. A cell holds
at most FULL rows in that form and is then emptied into wide sums of two limbs a word.
"""

from __future__ import annotations

import math

import numpy as np

from miscal.kernels.buckets import bucket, ordinal
from miscal.kernels.jit import inlined, kernel
from miscal.kernels.sums import grid, loss

HALF = 26
HALF_MASK = (1 << HALF) - 1
LOW = 32
LOW_MASK = (1 << LOW) - 1
ONE = 1 << 52
WORDS = 8  # of a packed row: rows and loss, p, p(1-p), (y-p)², loss and events, and m, m(1-m), (y-m)² beyond the score
FULL = np.uint64(4095)  # rows of a packed cell: as many numbers of 52 bits fit one word
UPPER = np.uint64(32)  # where a word of a packed cell is cut in two; the fifth holds events above 52 bits
EVENTS = np.uint64(52)
LOSS = np.uint64(40)  # bits of a loss in the fifth word, the others are in the upper half of the first
UPPER_MASK = np.uint64((1 << 32) - 1)
EVENTS_MASK = np.uint64((1 << 52) - 1)
LOSS_MASK = np.uint64((1 << 40) - 1)
MOST_LOSS = 32.0  # a larger loss is rare and added by itself


@kernel
def bucket_codes(values, low, high, base, scale, starts, widths, missing, codes):
    """The bucket of each value, held within [low, high]; NaN has the code `missing`."""
    for i in range(values.size):
        value = values[i]
        if math.isnan(value):
            codes[i] = missing
        else:
            codes[i] = np.int32(bucket(min(max(value, low), high), base, scale, starts, widths))


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
def add_plain_steps(codes, values, predicted, observed, sums, spans):
    """Rows of weight 1 per bucket, and the smallest and largest value.

    sums : (buckets, 5) int64, added to: rows and, above 32 bits, events; limbs of 26 bits of the falls and of the rises
    """
    for i in range(codes.size):
        place = np.uint64(codes[i])
        event = np.int64(observed[i])
        size = (event * ONE - grid(predicted[i])) * (2 * event - 1)
        side = np.uint64(1 + 2 * event)
        sums[place, 0] += 1 + (event << 32)
        sums[place, side] += size >> HALF
        sums[place, side + np.uint64(1)] += size & HALF_MASK
        value = values[i]
        spans[place, 0] = min(spans[place, 0], value)
        spans[place, 1] = max(spans[place, 1], value)


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
def packed_rows(predicted, observed, mended, terms, odd):
    """What each row of weight 1 gives, (rows, 8) uint64; the rows whose loss does not fit are listed in `odd`.

    Returns how many those are. Their loss is left out: `add_odd` adds it.
    """
    number = 0
    for i in range(predicted.size):
        p = predicted[i]
        y = np.float64(observed[i])
        m = mended[i]
        cost = loss(p, y)
        q = np.uint64(0)
        if cost < MOST_LOSS:
            q = np.uint64(grid(cost))
        else:
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
def add_packed(codes, terms, cells, wide):
    """Add packed rows: cells (cells, 8) uint64, emptied into wide (cells, 16) uint64 as they fill up."""
    for i in range(codes.size):
        cell = np.uint64(codes[i])
        for k in range(WORDS):
            cells[cell, k] += terms[i, k]
        if cells[cell, 0] & UPPER_MASK == FULL:
            _empty(cells, cell, wide)


@kernel
def add_odd(odd, codes, predicted, observed, wide, impossible):
    """Add the losses that were left out; those of certain and wrong predictions are counted."""
    for j in range(odd.size):
        i = odd[j]
        cell = np.uint64(codes[i])
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
def segments_of(buckets, table, last, first, codes, picked, found):
    """The segment of each bucket; rows whose segment is `last` are listed in `picked`, counted from `first`.

    Returns how many are listed now, `found` of them from earlier.
    """
    for i in range(buckets.size):
        codes[i] = table[np.uint64(buckets[i])]
    some = np.int64(0)
    for i in range(buckets.size):
        some += np.int64(codes[i] == last)
    if some == 0:
        return found
    for i in range(buckets.size):
        if codes[i] == last:
            picked[found] = first + i
            found += 1
    return found


@kernel
def mended_of(buckets, shift, table, cells, mended):
    """The cell of the sketch that each bucket of the score lies in, and its recalibrated score."""
    for i in range(buckets.size):
        cell = buckets[i] >> shift
        cells[i] = cell
        mended[i] = table[np.uint64(cell)]


@kernel
def count_cells(codes, table, counts):
    """Count the rows of each code's cell, the first column of `counts`; the last entry of the table serves code -1."""
    last = np.int32(table.size - 1)
    for i in range(codes.size):
        code = codes[i]
        cell = table[np.uint64(code if code >= 0 else last)]
        counts[np.uint64(cell), 0] += 1


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


@kernel
def hash_names(offsets, content, hashes):
    """A hash of each name i, content[offsets[i] : offsets[i + 1]]."""
    for i in range(offsets.size - 1):
        start = np.uint64(offsets[i])
        stop = np.uint64(offsets[i + 1])
        state = np.uint64(0xCBF29CE484222325) ^ (stop - start)
        while stop - start >= np.uint64(8):
            word = np.uint64(0)
            for k in range(8):
                word |= np.uint64(content[start + np.uint64(k)]) << np.uint64(8 * k)
            state = (state ^ word) * np.uint64(0x9E3779B97F4A7C15)
            state ^= state >> np.uint64(32)
            start += np.uint64(8)
        while start < stop:
            state = (state ^ np.uint64(content[start])) * np.uint64(0x100000001B3)
            start += np.uint64(1)
        state *= np.uint64(0x9E3779B97F4A7C15)
        hashes[i] = state ^ (state >> np.uint64(32))


@kernel
def find_names(hashes, offsets, content, slots, known_offsets, known_content, found):
    """The place of each name among known ones, -1 if it is not known.

    slots : hash table (a power of 2) of uint64, 0 where empty, otherwise 1 + place and, above 32 bits, a part of the
    hash. First the hashes are looked up, then all names compared: two short loops wait for memory less than a long one.
    """
    mask = np.uint64(slots.size - 1)
    for i in range(hashes.size):
        slot = hashes[i] & mask
        tag = hashes[i] >> np.uint64(32)
        while slots[slot] != np.uint64(0) and slots[slot] >> np.uint64(32) != tag:
            slot = (slot + np.uint64(1)) & mask
        found[i] = np.int32(slots[slot] & UPPER_MASK) - np.int32(1)
    for i in range(hashes.size):
        if found[i] >= 0 and not _same(offsets, content, i, known_offsets, known_content, found[i]):
            found[i] = _search(hashes[i], offsets, content, i, slots, known_offsets, known_content)


@kernel
def _search(hashed, offsets, content, i, slots, known_offsets, known_content):
    """The place of a name whose hash another one shares."""
    mask = np.uint64(slots.size - 1)
    slot = hashed & mask
    while slots[slot] != np.uint64(0):
        place = np.int32(slots[slot] & UPPER_MASK) - np.int32(1)
        if _same(offsets, content, i, known_offsets, known_content, place):
            return place
        slot = (slot + np.uint64(1)) & mask
    return np.int32(-1)


@inlined
def _same(offsets, content, i, known_offsets, known_content, place):
    start = np.uint64(offsets[i])
    size = np.uint64(offsets[i + 1]) - start
    other = np.uint64(known_offsets[np.uint64(place)])
    if np.uint64(known_offsets[np.uint64(place + 1)]) - other != size:
        return False
    different = False
    for k in range(size):
        different |= content[start + np.uint64(k)] != known_content[other + np.uint64(k)]
    return not different


@kernel
def keep_names(hashes, first, slots):
    """Put names `first`, first + 1, ... into the hash table; they must differ."""
    mask = np.uint64(slots.size - 1)
    for i in range(hashes.size):
        slot = hashes[i] & mask
        while slots[slot] != np.uint64(0):
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = np.uint64(first + i + 1) | ((hashes[i] >> np.uint64(32)) << np.uint64(32))

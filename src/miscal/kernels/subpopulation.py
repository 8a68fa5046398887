"""Subpopulations of rows sorted by score: lists of positions, walks over a list, random paths of median splits, draws.

Rows are sorted by (score, outcome, weight), so the numbers that a list meets, and every sum over it, do not depend on
the order in which the rows were given. Partial sums are taken only where the score changes.

A binary outcome is the sign of its score: +s for an event, -s for none (-0.0 included), one number to fetch a row.
"""

import numpy as np
from cython import bint, cast, cfunc, double, inline, nogil, void
from cython.cimports.libc.math import NAN, copysign, fabs
from cython.cimports.miscal.kernels.arithmetic import mixed
from cython.cimports.miscal.kernels.kinds import (
    Codes, CodesOut, FlagsOut, Floats, FloatsOut, Index, Integer, Integers, IntegersOut, TableOut, Word, WordsOut,
)  # fmt: skip

# Columns of what a walk leaves behind.
ROWS, HIGH, LOW, TOTAL, WEIGHT, VARIANCE, PREDICTED, WEIGHT2, TOP, HIGH_AT, LOW_AT = range(11)
WIDTH = 11
PAPER, CORRECTED = 1, 2  # how the variance of real responses is estimated
DEEPEST = 64


@cfunc
@inline
@nogil
def _walk_as(
    real: bint, weighted: bint, signed: Floats, observed: Floats, weight: Floats, second: Floats,
    largest: Floats, rows: Codes, out: FloatsOut,
) -> void:  # fmt: skip
    """The walk over a list, compiled once for each of its kinds: half as slow again otherwise."""
    size = rows.shape[0]
    total, high, low = 0.0, 0.0, 0.0
    variance, predicted, weight1, weight2, top = 0.0, 0.0, 0.0, 0.0, 0.0
    high_at = low_at = last = cast(Index, -1)
    before = NAN
    for q in range(size):
        i: Index = rows[q]
        score = signed[i] if real else fabs(signed[i])
        if score != before:
            if total > high:
                high, high_at = total, last
            if total < low:
                low, low_at = total, last
            before = score
        # A binary outcome minus the score: the sign says which outcome.
        step = observed[i] - score if real else copysign(0.5, signed[i]) + 0.5 - score
        if weighted:
            total += weight[i] * step
            variance += second[i] * (score * (1.0 - score))
            predicted += weight[i] * score
            weight1 += weight[i]
            weight2 += second[i]
            top = max(top, largest[i])
        else:
            total += step
            variance += score * (1.0 - score)
            predicted += score
        last = i
    if total > high:
        high, high_at = total, last
    if total < low:
        low, low_at = total, last
    if not weighted:
        weight1, weight2, top = size, size, 1.0 if size else 0.0
    out[0], out[1], out[2], out[3], out[4], out[5] = size, high, low, total, weight1, variance
    out[6], out[7], out[8], out[9], out[10] = predicted, weight2, top, high_at, low_at


@cfunc
@nogil
def _neighbour_variance(
    score: Floats, observed: Floats, weight: Floats, rows: Codes, how: Integer, order: CodesOut
) -> double:
    """Variance of the walk's end from differences of neighbours (Appendix C), times the squared weight.

    Tied rows have no order; each block of ties is put in an order of its own, drawn from its place alone, so that equal
    rows do not stand together and the rows' order in the file does not matter.
    """
    weighted: bint = weight.shape[0] > 0
    paper: bint = how == 1  # PAPER
    n = rows.shape[0]
    start = 0
    for k in range(n):
        order[k] = rows[k]
    while start < n:
        stop: Index = start + 1
        while stop < n and score[order[stop]] == score[order[start]]:
            stop += 1
        for k in range(stop - 1, start, -1):
            other = start + cast(Index, mixed(start, k) % cast(Word, k - start + 1))
            order[k], order[other] = order[other], order[k]
        start = stop
    total, squares, top, bottom = 0.0, 0.0, 0.0, 0.0
    for q in range(n):
        i: Index = order[q]
        w = weight[i] if weighted else 1.0
        total += w
        squares += w * w
        if q == 0:
            continue
        j: Index = order[q - 1]
        v = weight[j] if weighted else 1.0
        gap = (observed[j] - score[j]) - (observed[i] - score[i])
        if paper:
            top += gap * gap * (v + w) * (v + w)
            bottom += v + w
        else:
            top += gap * gap * (v * v + w * w)
            bottom += v * v + w * w
    if bottom == 0.0:
        return 0.0
    return top * total / (4.0 * bottom) if paper else squares * top / (2.0 * bottom)


def walk_list(
    signed: Floats, observed: Floats, weight: Floats, second: Floats, largest: Floats, how: Integer, rows: Codes,
    out: FloatsOut,
) -> None:  # fmt: skip
    """Walk over a list of positions in order; fills `out` (WIDTH,).

    Where `observed` is given it is the response, and `signed` the plain score.
    """
    order: CodesOut = np.empty(rows.shape[0] if how else 0, np.int32)
    with nogil:
        if observed.shape[0] > 0:
            _walk_as(True, weight.shape[0] > 0, signed, observed, weight, second, largest, rows, out)
        elif weight.shape[0] > 0:
            _walk_as(False, True, signed, observed, weight, second, largest, rows, out)
        else:
            _walk_as(False, False, signed, observed, weight, second, largest, rows, out)
        if how:
            out[5] = _neighbour_variance(signed, observed, weight, rows, how, order)


@cfunc
@nogil
def _distinct(bits: WordsOut) -> Index:
    """How many codes have their bit set."""
    count: Index = 0
    for k in range(bits.shape[0]):
        word = bits[k]
        while word:
            word &= word - 1  # without its lowest bit
            count += 1
    return count


@cfunc
@nogil
def _code_at(wanted: Index, bits: WordsOut) -> Integer:
    """The code after the `wanted` lowest of those whose bits are set."""
    place: Integer = 0
    for k in range(bits.shape[0]):
        word = bits[k]
        while word:
            if wanted == 0:
                while (word >> place) & 1 == 0:
                    place += 1
                return k * 64 + place
            word &= word - 1
            wanted -= 1
    return 0


def shuffled(seed: Word, column: Index, levels: Integer) -> np.ndarray:
    """Random order of a nominal column's levels, the same for a path wherever it is asked for."""
    result: IntegersOut = np.arange(levels)
    own = mixed(seed, (cast(Word, 1) << 40) + cast(Word, column))
    with nogil:
        for k in range(levels - 1, 0, -1):
            other: Integer = cast(Integer, mixed(own, k) % cast(Word, k + 1))
            result[k], result[other] = result[other], result[k]
    return np.asarray(result)


def fingerprint(rows: Codes) -> Word:
    """A number that equal lists share and different ones do not, but for a chance of 2**-64."""
    total = rows.shape[0]
    with nogil:
        for q in range(rows.shape[0]):
            z = (cast(Word, rows[q]) + 1) * cast(Word, 0x9E3779B97F4A7C15)
            total += (z ^ (z >> 29)) * cast(Word, 0xBF58476D1CE4E5B9)
    return total


def half(
    codes: Codes, levels: Integer, shuffle: Integers, upper: bint, rows: Codes, result: CodesOut
) -> tuple[int, int]:
    """One side of a list, in order, split at the median of a column's distinct values: the threshold, and how many.

    shuffle : the order of a nominal column's levels, else empty. The threshold is 0 where the column is constant.
    """
    bits: WordsOut = np.empty((levels + 63) >> 6, np.uint64)
    threshold = levels // 2
    found: Index = 0
    with nogil:
        if rows.shape[0] < codes.shape[0]:  # among all rows every level occurs
            bits[:] = 0
            for q in range(rows.shape[0]):
                code: Integer = shuffle[codes[rows[q]]] if shuffle.shape[0] else codes[rows[q]]
                bits[code >> 6] |= cast(Word, 1) << (code & 63)
            distinct = _distinct(bits)
            threshold = _code_at(distinct // 2, bits) if distinct > 1 else 0
        for q in range(rows.shape[0] if threshold else 0):
            code = shuffle[codes[rows[q]]] if shuffle.shape[0] else codes[rows[q]]
            result[found] = rows[q]
            found += (code >= threshold) == upper
    return threshold, found


def random_word(seed: Word, number: Word) -> Word:
    """The random word of a number: it depends on nothing but the seed and the number."""
    return mixed(seed, number)


def part(codes: Codes, levels: Index, rows: Codes, starts: IntegersOut, result: CodesOut) -> None:
    """Split a list by the levels of a column, keeping the order; level c is result[starts[c]:starts[c + 1]]."""
    place: IntegersOut = np.empty(levels + 1, np.int64)
    with nogil:
        starts[:] = 0
        for q in range(rows.shape[0]):
            starts[codes[rows[q]] + 1] += 1
        for c in range(levels):
            starts[c + 1] += starts[c]
        place[:] = starts
        for q in range(rows.shape[0]):
            c = codes[rows[q]]
            result[place[c]] = rows[q]
            place[c] += 1


@cfunc
@inline
@nogil
def _reach(risen: Floats, fallen: double, high: FloatsOut, low: FloatsOut) -> void:
    """Widen the ranges of all walks to where they stand."""
    for b in range(risen.shape[0]):
        value = risen[b] - fallen
        high[b] = max(high[b], value)
        low[b] = min(low[b], value)


def simulated_maxima(
    signed: Floats, members: Codes, offsets: Integers, scale: Floats, steps: TableOut, maxima: FloatsOut
) -> None:
    """Largest scale·range over the lists for every draw: maxima (draws,). `steps` is written over.

    All draws walk a list together, so each row's position is looked up once and the draws fill a vector register. What
    all of them fall by at a row is one number: where events are rare most rows cost no more than that. Where no draw
    rises a walk only falls, so its ends are looked at beside rows where one does.
    """
    rows, lanes = steps.shape[0], steps.shape[1]
    risen: FloatsOut = np.empty(lanes)
    high: FloatsOut = np.empty(lanes)
    low: FloatsOut = np.empty(lanes)
    fall: FloatsOut = np.zeros(rows)
    # Of few lists, to look at all rows first takes longer than it spares.
    rises: FlagsOut = np.full(rows, scale.shape[0] <= 8, np.uint8)
    with nogil:
        for i in range(rows if scale.shape[0] > 8 else 0):
            for b in range(lanes):
                fall[i] = max(fall[i], -steps[i, b])
            for b in range(lanes):
                steps[i, b] += fall[i]
                rises[i] |= steps[i, b] > 0.0
        maxima[:] = 0.0
        for k in range(scale.shape[0]):
            risen[:] = 0.0
            high[:] = 0.0
            low[:] = 0.0
            before = -1.0
            fallen = start = seen = 0.0
            fresh: bint = False  # whether some draw rose at this score
            for q in range(offsets[k], offsets[k + 1]):
                i: Index = members[q]
                score = fabs(signed[i])
                if score != before:
                    if fresh:
                        _reach(risen, fallen, high, low)
                        fresh, seen = False, fallen
                    before, start = score, fallen
                fallen += fall[i]
                if rises[i]:
                    if not fresh and start != seen:
                        _reach(risen, start, high, low)
                    fresh = True
                    for b in range(lanes):
                        risen[b] += steps[i, b]
            _reach(risen, fallen, high, low)
            for b in range(lanes):
                maxima[b] = max(maxima[b], (high[b] - low[b]) * scale[k])

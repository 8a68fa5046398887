"""Subpopulations of rows sorted by score: lists of positions, the walk over a list, and random paths of median splits.

Rows are sorted by (score, outcome, weight), so the numbers that a list meets, and every sum over it, do not depend on
the order in which the rows were given. Partial sums are taken only where the score changes.

A binary outcome is the sign of its score: +s for an event, -s for none (-0.0 included), one number to fetch a row.
"""

from __future__ import annotations

import math

import numpy as np

from miscal.kernels.jit import inlined, kernel
from miscal.kernels.simulate import mixed

# Columns of what a walk leaves behind.
ROWS, HIGH, LOW, TOTAL, WEIGHT, VARIANCE, PREDICTED, WEIGHT2, TOP, HIGH_AT, LOW_AT = range(11)
WIDTH = 11
PAPER, CORRECTED = 1, 2  # how the variance of real responses is estimated
DEEPEST = 64


@inlined
def _step(signed):
    """Outcome minus score."""
    return math.copysign(0.5, signed) + 0.5 - abs(signed)


@kernel
def _walk(signed, observed, weight, second, largest, rows, out):
    """Walk over a list; where `observed` is given it is the response and `signed` the plain score."""
    real = observed.size > 0
    weighted = weight.size > 0
    total, high, low, variance, predicted, weight1, weight2, top = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    high_at, low_at, last = -1, -1, -1
    before = np.nan
    for q in range(rows.size):
        i = rows[q]
        score = signed[i] if real else abs(signed[i])
        if score != before:
            if total > high:
                high, high_at = total, last
            if total < low:
                low, low_at = total, last
            before = score
        step = observed[i] - score if real else _step(signed[i])
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
        weight1, weight2, top = rows.size, rows.size, 1.0 if rows.size else 0.0
    out[HIGH], out[LOW], out[TOTAL], out[VARIANCE], out[PREDICTED] = high, low, total, variance, predicted
    out[ROWS], out[WEIGHT], out[WEIGHT2], out[TOP] = rows.size, weight1, weight2, top
    out[HIGH_AT], out[LOW_AT] = high_at, low_at


@kernel
def _neighbour_variance(score, observed, weight, rows, how):
    """Variance of the walk's end from differences of neighbours (Appendix C), times the squared weight.

    Tied rows have no order; each block of ties is put in an order of its own, drawn from its place alone, so that equal
    rows do not stand together and the rows' order in the file does not matter.
    """
    n = rows.size
    order = rows.copy()
    start = 0
    while start < n:
        stop = start + 1
        while stop < n and score[order[stop]] == score[order[start]]:
            stop += 1
        for k in range(stop - 1, start, -1):
            other = start + np.int64(mixed(np.uint64(start), np.uint64(k)) % np.uint64(k - start + 1))
            order[k], order[other] = order[other], order[k]
        start = stop
    total, squares, top, bottom = 0.0, 0.0, 0.0, 0.0
    for q in range(n):
        i = order[q]
        w = weight[i] if weight.size else 1.0
        total += w
        squares += w * w
        if q == 0:
            continue
        j = order[q - 1]
        v = weight[j] if weight.size else 1.0
        gap = (observed[j] - score[j]) - (observed[i] - score[i])
        if how == PAPER:
            top += gap * gap * (v + w) * (v + w)
            bottom += v + w
        else:
            top += gap * gap * (v * v + w * w)
            bottom += v * v + w * w
    if bottom == 0.0:
        return 0.0
    return top * total / (4.0 * bottom) if how == PAPER else squares * top / (2.0 * bottom)


@kernel
def walk_list(signed, observed, weight, second, largest, how, rows, out):
    """Walk over a list of positions in order; fills `out` (WIDTH,)."""
    _walk(signed, observed, weight, second, largest, rows, out)
    if how:
        out[VARIANCE] = _neighbour_variance(signed, observed, weight, rows, how)


@inlined
def _ones(bits):
    x = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def _middle(codes, shuffle, levels, rows, bits):
    """How many distinct codes a list has, and the upper one of the middle: codes below it are below the median."""
    words = (levels + 63) >> 6
    for k in range(words):
        bits[k] = np.uint64(0)
    for q in range(rows.size):
        code = np.int64(codes[rows[q]])
        if shuffle.size:
            code = shuffle[code]
        bits[code >> 6] |= np.uint64(1) << np.uint64(code & 63)
    distinct = 0
    for k in range(words):
        distinct += _ones(bits[k])
    wanted, seen = distinct // 2, 0
    for k in range(words):
        here = _ones(bits[k])
        if seen + here > wanted:
            word = bits[k]
            while seen < wanted:
                word &= word - np.uint64(1)
                seen += 1
            place = 0
            while (word >> np.uint64(place)) & np.uint64(1) == np.uint64(0):
                place += 1
            return distinct, np.int64(k * 64 + place)
        seen += here
    return distinct, np.int64(0)


@kernel
def shuffled(seed, column, levels):
    """Random order of a nominal column's levels, the same for a path wherever it is asked for."""
    own = mixed(seed, np.uint64(1 << 40) + np.uint64(column))
    result = np.arange(levels)
    for k in range(levels - 1, 0, -1):
        other = np.int64(mixed(own, np.uint64(k)) % np.uint64(k + 1))
        result[k], result[other] = result[other], result[k]
    return result


@kernel
def _keep(codes, shuffle, threshold, upper, rows, result):
    """Rows of a list on one side of a threshold, in order."""
    found = 0
    for q in range(rows.size):
        i = rows[q]
        result[found] = i
        code = shuffle[codes[i]] if shuffle.size else np.int64(codes[i])
        found += (code >= threshold) == upper
    return found


@kernel
def fingerprint(rows):
    """A number that equal lists share and different ones do not, but for a chance of 2**-64."""
    total = np.uint64(rows.size)
    for q in range(rows.size):
        z = (np.uint64(rows[q]) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        total += (z ^ (z >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return total


@kernel
def random_path(
    codes, levels, nominal, everyone, signed, observed, weight, second, largest, how,
    seed, least, information, splits, stats, marks,
):  # fmt: skip
    """One path of Algorithm 1: random column, random side of the median of its distinct values, until too few remain.

    Columns that are constant in the list are put aside for the rest of the path. `splits` receives (column, threshold,
    side) a level, `stats` the walk, `marks` the fingerprint. Returns how many levels there are; some may hold too
    little information, which the caller sees from their stats.
    """
    here, there = np.empty(everyone.size, np.int32), np.empty(everyone.size, np.int32)
    bits = np.empty((levels.max() + 63) >> 6, np.uint64)
    rows = everyone
    alive = np.arange(levels.size)
    remaining = levels.size
    counter = np.uint64(0)
    depth = 0
    nothing = np.empty(0, np.int64)
    while depth < stats.shape[0] and remaining > 0:
        pick = np.int64(mixed(seed, counter) % np.uint64(remaining))
        upper = mixed(seed, counter + np.uint64(1)) >> np.uint64(63) == np.uint64(1)
        counter += np.uint64(2)
        column = alive[pick]
        shuffle = shuffled(seed, column, levels[column]) if nominal[column] else nothing
        if depth == 0:
            distinct, threshold = levels[column], levels[column] // 2
        else:
            distinct, threshold = _middle(codes[column], shuffle, levels[column], rows, bits)
        if distinct < 2:
            remaining -= 1
            alive[pick] = alive[remaining]
            continue
        found = _keep(codes[column], shuffle, threshold, upper, rows, there)
        if found < least:
            break
        here, there = there, here
        rows = here[:found]
        splits[depth, 0], splits[depth, 1], splits[depth, 2] = column, threshold, upper
        walk_list(signed, observed, weight, second, largest, how, rows, stats[depth])
        marks[depth] = fingerprint(rows)
        depth += 1
        # Without weights fewer rows hold less information; with them, dropping a heavy row can leave more.
        if weight.size == 0 and stats[depth - 1, VARIANCE] < information:
            break
    return depth


@kernel
def path_seed(seed, path):
    """Seed of one path: it depends on nothing but the search's seed and the path's number."""
    return mixed(seed, np.uint64(path))


@kernel
def follow_path(codes, levels, nominal, everyone, seed, splits, wanted, members, offsets):
    """Take a path again and write the lists of its wanted levels to `members`, each from its offset."""
    here, there = np.empty(everyone.size, np.int32), np.empty(everyone.size, np.int32)
    rows = everyone
    nothing = np.empty(0, np.int64)
    for depth in range(splits.shape[0]):
        column = splits[depth, 0]
        shuffle = shuffled(seed, column, levels[column]) if nominal[column] else nothing
        found = _keep(codes[column], shuffle, splits[depth, 1], splits[depth, 2] == 1, rows, there)
        here, there = there, here
        rows = here[:found]
        if wanted[depth]:
            members[offsets[depth] : offsets[depth] + found] = rows


@kernel
def part(codes, levels, rows, starts, result):
    """Split a list by the levels of a column, keeping the order; level c is result[starts[c]:starts[c + 1]]."""
    for c in range(levels + 1):
        starts[c] = 0
    for q in range(rows.size):
        starts[codes[rows[q]] + 1] += 1
    for c in range(levels):
        starts[c + 1] += starts[c]
    place = starts.copy()
    for q in range(rows.size):
        i = rows[q]
        result[place[codes[i]]] = i
        place[codes[i]] += 1

"""Sums per cell that do not depend on the order of the rows.

A value x in [0, 1] becomes the integer q = floor(x * 2**52 + 1/2). Integer sums are associative, so counts, unweighted
sums and integer-weighted sums have the same bits for any row order, threads, partition or engine. A sum is kept as two
limbs, high * 2**-20 + low * 2**-52 with 0 <= low < 2**32. The grid errs by at most 2**-53 a row.
"""

import cython
import numpy as np
from cython import address, bint, cast, cfunc, double, nogil, pointer, void
from cython.cimports.miscal.kernels.arithmetic import (
    EVENTS, FULL, LOW_BITS, LOW_MASK, ROWS, SUB_BLOCK, UPPER, UPPER_MASK, add_limbs, add_line, add_pair, fetch, grid,
)  # fmt: skip
from cython.cimports.miscal.kernels.kinds import (
    Cells, Codes, CodesOut, CodeTable, Floats, Index, Integer, IntegerCubeOut, Integers, IntegersOut, IntegerTableOut,
    Observed, Outcomes, Strided, TableOut, Word, Words, WordTableOut, WordsOut,
)  # fmt: skip
from cython.cimports.miscal.kernels.places import edge_index, uniform_index

PACKED_ROWS = (1 << 24) - 1  # rows of one cell that two packed words can count
# Rows; long enough for a cell to come from the third cache, short enough for it to stay in the first.
AHEAD = 32
FAR = 1 << 15  # cells of 16 bytes from which on they no longer fit beside the rows in the second cache
SMALL = 256  # cells; beyond it, emptying the sub-blocks would cost more than it saves


@cfunc
@nogil
def _add_mean(words: pointer[Word], predicted: double, observed: Word) -> void:
    add_pair(words, grid(predicted), (1 << ROWS) + (observed << EVENTS))


def coded_means(codes: Cells, predicted: Floats, observed: Outcomes, packed: WordsOut) -> None:
    """Rows, events and the sum of predictions per cell given by code; made for many cells.

    A cell is two words, so that a row touches one place in memory: the sum of predictions modulo 2**64, and carries of
    that sum, rows and events side by side. At most `PACKED_ROWS` rows at a time. Where there are more cells than
    the nearest caches hold, they are asked for ahead of their use.

    packed : (cells * 2,) uint64, added to; `unpacked_means` reads it.
    """
    ahead: Index = AHEAD
    words: Index = 2  # of a cell, in 64 bits: twice a code may be more than 32 hold
    near = max(0, len(codes) - ahead) if len(packed) > words * FAR else 0
    with nogil:
        for i in range(near):
            fetch(address(packed[words * codes[i + ahead]]))
            _add_mean(address(packed[words * codes[i]]), predicted[i], observed[i])
        for i in range(near, len(codes)):
            _add_mean(address(packed[words * codes[i]]), predicted[i], observed[i])


def binned_means(
    values: Floats, predicted: Floats, observed: Outcomes, edges: Strided, uniform: bint, packed: WordsOut
) -> None:
    """As `coded_means` by bins of `values`, found while the rows are in the cache."""
    bins = len(edges) - 1
    codes: CodesOut = np.empty(SUB_BLOCK, np.int32)
    start = 0
    with nogil:
        while start < len(values):
            rows = min(SUB_BLOCK, len(values) - start)
            here, found = address(values[start]), address(codes[0])
            if uniform:
                uniform_index(here, rows, edges[0], edges[bins], edges, found)
            else:
                edge_index(here, rows, edges, found)
            for i in range(rows):
                place = address(packed[2 * codes[i]])
                _add_mean(place, predicted[start + i], observed[start + i])
            start += rows


def unpacked_means(packed: Words, result: IntegerTableOut) -> None:
    """Add what `coded_means` packed to rows, events, high and low limb of the predictions, (cells, 4) int64."""
    most: Word = PACKED_ROWS
    with nogil:
        for cell in range(len(packed) // 2):
            total, counts = packed[2 * cell], packed[2 * cell + 1]
            result[cell, 0] += (counts >> ROWS) & most
            result[cell, 1] += counts >> EVENTS
            result[cell, 2] += ((counts & ((1 << ROWS) - 1)) << 32) + (total >> LOW_BITS)  # carries first
            result[cell, 3] += total & LOW_MASK


def full_exact(
    codes: Codes, predicted: Floats, observed: Observed, weight: Floats, count: Integers, rows: IntegersOut,
    result: IntegerCubeOut,
) -> None:  # fmt: skip
    """All columns of a tally with whole-number weights (or none: arrays of length 0).

    rows : (cells,) int64; result : (cells, columns, 2) int64 limbs. Both are added to.
    """
    with nogil:
        for i in range(len(codes)):
            cell: Index = codes[i]
            p = predicted[i]
            y: double = observed[i]
            times = count[i] if len(count) else 1
            first = cast(Integer, weight[i]) * times if len(weight) else times
            second: Integer = cast(Integer, weight[i]) * first if len(weight) else times
            difference = (y - p) * (y - p)
            rows[cell] += times
            result[cell, 0, 0] += first << (52 - LOW_BITS)
            result[cell, 1, 0] += second << (52 - LOW_BITS)
            add_limbs(address(result[cell, 2, 0]), grid(p), first)
            add_limbs(address(result[cell, 3, 0]), grid(y), first)
            add_limbs(address(result[cell, 4, 0]), grid(p * (1.0 - p)), second)
            add_limbs(address(result[cell, 5, 0]), grid(difference), second)


def full_real(
    codes: Codes, predicted: Floats, observed: Observed, weight: Floats, count: Integers, rows: IntegersOut,
    result: TableOut,
) -> None:  # fmt: skip
    """As `full_exact` for weights that are not whole numbers: plain sums; result is (cells, columns) float64."""
    with nogil:
        for i in range(len(codes)):
            cell: Index = codes[i]
            p: double = predicted[i]
            y: double = observed[i]
            times = count[i] if len(count) else 1
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


def means_real(
    codes: Cells, predicted: Floats, observed: Observed, weight: Floats, count: Integers, rows: IntegersOut,
    result: TableOut,
) -> None:  # fmt: skip
    """Rows, and Σw, Σwp, Σwy with any weights: result (cells, 3) float64, added to as are the rows."""
    with nogil:
        for i in range(len(codes)):
            cell: Index = codes[i]
            times = count[i] if len(count) else 1
            first = weight[i] * times
            rows[cell] += times
            result[cell, 0] += first
            result[cell, 1] += first * predicted[i]
            result[cell, 2] += first * observed[i]


def on_grid(predicted: Floats, observed: Observed, weight: Floats, result: TableOut) -> None:
    """Share each row between its two neighbours of a grid over [0, 1]; result : (nodes, 2) = Σw(p - y), Σw."""
    steps = result.shape[0] - 1
    with nogil:
        for i in range(len(predicted)):
            p = predicted[i]
            place = p * steps
            left: Index = min(cast(Index, place), steps - 1)
            part: double = place - left
            w = weight[i] if len(weight) else 1.0
            residual = (p - observed[i]) * w
            result[left, 0] += (1.0 - part) * residual
            result[left, 1] += (1.0 - part) * w
            result[left + 1, 0] += part * residual
            result[left + 1, 1] += part * w


# ------------------------------------------------------------------------------------------------- packed rows
# The second pass of a stream over rows of weight 1: a block of rows at a time through all columns.
#
# What a row gives to a tally, as predicted and beyond the score, is packed into eight words, a cache line, while the
# row is in the cache; a column then costs one addition of eight words. A cell holds at most FULL rows in that form and
# is emptied into the limbs of a tally. The cells of all columns lie in one array, one after the other.
#
# The words of a row are rows and events, p, p(1-p), (y-p)², and m, m(1-m), (y-m)² beyond the score; the last is free.


@cfunc
@nogil
def _packed_rows(
    predicted: Floats, observed: Outcomes, mended: Floats, start: Index, rows: Index, terms: WordTableOut
) -> void:
    """What each row of weight 1 gives, (rows, 8) uint64."""
    for i in range(rows):
        p = predicted[start + i]
        y: double = observed[start + i]
        m = mended[start + i]
        terms[i, 0] = 1 | (cast(Word, observed[start + i]) << UPPER)
        terms[i, 1] = grid(p)
        terms[i, 2] = grid(p * (1.0 - p))
        terms[i, 3] = grid((y - p) * (y - p))
        terms[i, 4] = grid(m)
        terms[i, 5] = grid(m * (1.0 - m))
        terms[i, 6] = grid((y - m) * (y - m))


@cfunc
@nogil
def _to_limbs(cells: WordTableOut, cell: Index, word: Index, limbs: IntegerCubeOut) -> void:
    """Add a packed cell to the limbs of a tally's cell; the words of its probability begin at `word`."""
    rows: Integer = cells[cell, 0] & UPPER_MASK
    limbs[cell, 0, 0] += rows << (52 - LOW_BITS)
    limbs[cell, 1, 0] += rows << (52 - LOW_BITS)
    limbs[cell, 3, 0] += cast(Integer, cells[cell, 0] >> UPPER) << (52 - LOW_BITS)
    for k in range(3):  # p, p(1-p), (y-p)²
        to: Index = k + 3 if k else 2
        lower = limbs[cell, to, 1] + cast(Integer, cells[cell, word + k] & UPPER_MASK)
        limbs[cell, to, 0] += cast(Integer, cells[cell, word + k] >> UPPER) + (lower >> LOW_BITS)
        limbs[cell, to, 1] = lower & LOW_MASK


@cfunc
@nogil
def _empty(
    cells: WordTableOut, cell: Index, rows: IntegersOut, limbs: IntegerCubeOut, after: IntegerCubeOut
) -> void:
    """Move a packed cell into its rows and the limbs of both probabilities."""
    rows[cell] += cells[cell, 0] & UPPER_MASK
    _to_limbs(cells, cell, 1, limbs)
    if after.shape[0]:
        _to_limbs(cells, cell, 4, after)
    cells[cell, :] = 0


def settle_packed(
    cells: WordTableOut, rows: IntegersOut, limbs: IntegerCubeOut, after: IntegerCubeOut
) -> None:
    """Empty all cells into rows and limbs (cells, 6, 2) of both probabilities; `after` is empty where there is one."""
    with nogil:
        for cell in range(cells.shape[0]):
            if cells[cell, 0]:
                _empty(cells, cell, rows, limbs, after)


def add_rows(
    predicted: Floats, observed: Outcomes, recalibrated: Floats, codes: CodeTable, firsts: Words, terms: WordTableOut,
    cells: WordTableOut, sums: IntegersOut, limbs: IntegerCubeOut, after: IntegerCubeOut,
) -> None:  # fmt: skip
    """Add rows of weight 1 to the cells of all columns: (cells, 8) uint64, emptied as they fill (`settle_packed`).

    codes : (columns, rows) int32, column k's code 0 being cell firsts[k].  terms : room for a block of rows
    """
    start: Index = 0
    ahead: Index = AHEAD
    with cython.nogil:
        while start < len(predicted):
            rows: Index = min(terms.shape[0], len(predicted) - start)
            _packed_rows(predicted, observed, recalibrated, start, rows, terms)
            for column in range(codes.shape[0]):
                first: Index = cython.cast(Index, firsts[column])
                for i in range(rows):
                    if i + ahead < rows:
                        fetch(cython.address(cells[first + codes[column, start + i + ahead], 0]))
                    cell: Index = first + codes[column, start + i]
                    if (
                        add_line(cython.address(cells[cell, 0]), cython.address(terms[i, 0])) & UPPER_MASK
                        == FULL
                    ):
                        _empty(cells, cell, sums, limbs, after)
            start += rows

"""Variation of predicted distributions: each row's probabilities ranked, their variation, its bin, sums per rank.

Rows are taken in tiles of 64 whose columns are classes. A sorting network then exchanges whole columns, the entropy
adds whole columns, and every loop over a tile has a constant length, so that all of it becomes vector code without any
temporary as long as the data. Unweighted and whole-number-weighted sums are integers on the grid of `kernels.sums`.
"""

from functools import lru_cache

import cython
import numpy as np
from cython.cimports.libc.math import floor, log
from cython.cimports.miscal.kernels.arithmetic import LOW_BITS, LOW_MASK, SUB_BLOCK, add_limbs, grid, logarithm
from cython.cimports.miscal.kernels.kinds import (
    AS_GIVEN, BY_CONFIDENCE, BY_ENTROPY, BY_QUALITATIVE, BY_VARIATION_RATIO, PITCH, ROWS, CodesOut, Floats, FloatsOut,
    Index, Integer, IntegerCubeOut, Integers, IntegersOut, IntegerTable, IntegerTableOut, Outcomes, Strided, Table,
    TableOut,
)  # fmt: skip
from cython.cimports.miscal.kernels.places import edge_index, uniform_index

GIVEN, ENTROPY, CONFIDENCE = AS_GIVEN, BY_ENTROPY, BY_CONFIDENCE
VARIATION_RATIO, QUALITATIVE = BY_VARIATION_RATIO, BY_QUALITATIVE
NEAR = 2.0**40  # computed variations are compared with edges on the grid 1 / NEAR, so that rounding decides nothing


@lru_cache(maxsize=16)
def sorting_network(size: int) -> np.ndarray:
    """Batcher's odd-even merge exchange as pairs of places, int64 (steps, 2): the larger value goes to the first."""
    steps: list[tuple[int, int]] = []
    p = 1
    while p < size:
        k = p
        while k >= 1:
            places = (i + j for j in range(k % p, size - k, 2 * k) for i in range(min(k, size - j - k)))
            steps += [(a, a + k) for a in places if a // (2 * p) == (a + k) // (2 * p)]
            k //= 2
        p *= 2
    return np.array(steps, np.int64).reshape(-1, 2)


@cython.cfunc
@cython.nogil
def _prepare(
    probability: Table, outcome: Outcomes, values: Floats, start: Index, rows: Index, kind: cython.int,
    network: IntegerTable, tile: TableOut, rank: IntegersOut, value: FloatsOut, own: FloatsOut, label: IntegersOut,
) -> cython.void:  # fmt: skip
    """Fill a tile with ranked probabilities, and the rank and the variation of its rows.

    A single column of probabilities is P(class 1) of two classes. The rank is that of the class that occurred: how many
    are more probable, or as probable with a lower number.
    """
    if rows < ROWS:
        tile[:, :] = 0.0
    for i in range(rows):
        if probability.shape[1] == 1:
            tile[0, i], tile[1, i] = 1.0 - probability[start + i, 0], probability[start + i, 0]
            continue
        for k in range(probability.shape[1]):
            tile[k, i] = probability[start + i, k]
    for i in range(ROWS):
        rank[i], label[i] = 0, outcome[start + i] if i < rows else 0
        own[i] = tile[label[i], i]
    for k in range(tile.shape[0]):
        number: Integer = k
        for i in range(ROWS):
            rank[i] += (tile[k, i] > own[i]) | ((tile[k, i] == own[i]) & (number < label[i]))
    for step in range(network.shape[0]):  # every row from the largest to the smallest
        first, second = cython.address(tile[network[step, 0], 0]), cython.address(tile[network[step, 1], 0])
        for i in range(ROWS):
            one: cython.double = first[i]
            two: cython.double = second[i]
            first[i] = one if one > two else two
            second[i] = one if one < two else two
    if kind != AS_GIVEN:
        _variation(kind, tile, value)
    elif len(values):
        for i in range(rows):
            value[i] = values[start + i]


@cython.cfunc
@cython.nogil
def _variation(kind: cython.int, tile: TableOut, value: FloatsOut) -> cython.void:
    """Variation of every row of a sorted tile; entropy is to the base of the number of classes, with 0 log 0 = 0."""
    classes: cython.double = tile.shape[0]
    scale: cython.double = 1.0 / log(classes) if kind == BY_ENTROPY else classes / (classes - 1.0)
    for i in range(ROWS):
        value[i] = tile[0, i] if kind == BY_CONFIDENCE else 0.0
    if kind == BY_ENTROPY:
        for k in range(tile.shape[0]):
            for i in range(ROWS):
                x: cython.double = tile[k, i] if tile[k, i] > 1e-300 else 1e-300
                value[i] -= x * logarithm(x)
        for i in range(ROWS):
            value[i] = min(max(value[i] * scale, 0.0), 1.0)
    elif kind == BY_VARIATION_RATIO:
        for i in range(ROWS):
            value[i] = min(scale * (1.0 - tile[0, i]), 1.0)
    elif kind == BY_QUALITATIVE:
        for k in range(tile.shape[0]):
            for i in range(ROWS):
                value[i] += tile[k, i] * tile[k, i]
        for i in range(ROWS):
            value[i] = min(max(scale * (1.0 - value[i]), 0.0), 1.0)


@cython.cfunc
@cython.nogil
def _codes(
    kind: cython.int, value: FloatsOut, edges: Strided, uniform: cython.bint, near: cython.double, key: FloatsOut,
    codes: CodesOut,
) -> cython.void:  # fmt: skip
    """Bin of every row of a tile by its variation."""
    for i in range(ROWS):
        key[i] = value[i]
    if kind not in (AS_GIVEN, BY_CONFIDENCE):
        for i in range(ROWS):
            key[i] = floor(value[i] * near + 0.5) / near
    if uniform:
        last: cython.double = edges[len(edges) - 1]
        uniform_index(cython.address(key[0]), ROWS, edges[0], last, edges, cython.address(codes[0]))
    else:
        edge_index(cython.address(key[0]), ROWS, edges, cython.address(codes[0]))


def rank_sums(
    probability: Table, outcome: Outcomes, values: Floats, kind: cython.int, network: IntegerTable, edges: Strided,
    uniform: cython.bint, weight: Floats, second: Floats, count: Integers, counts: TableOut, limbs: IntegerCubeOut,
    sums: TableOut, size: TableOut,
) -> None:  # fmt: skip
    """Sums per bin of variation.

    probability : (n, K), or (n, 1) with P(class 1); values : (n,) variations when kind is GIVEN, else empty;
    weight, second : (n,) float64, of means and of variances, or empty; count : (n,) int64 repetitions, or empty.
    Added to: counts (bins, K), weight of the rows whose class had each rank; limbs (bins, K + 1, 2) int64 if weights
    are whole numbers, else sums (bins, K + 1), of the ranked probabilities and last the variations (the other of the
    two is empty); size (bins, 2), rows and the sum of `second`, left alone without weights.
    """
    start: Index = 0
    near: cython.double = NEAR
    classes: Index = counts.shape[1]
    tile: TableOut = np.zeros((classes, PITCH))
    rank: IntegersOut = np.zeros(ROWS, np.int64)
    label: IntegersOut = np.zeros(ROWS, np.int64)
    value: FloatsOut = np.zeros(ROWS)
    own: FloatsOut = np.zeros(ROWS)
    codes: CodesOut = np.zeros(ROWS, np.int32)
    pending: IntegerTableOut = np.zeros((counts.shape[0], classes + 1), np.int64)
    with cython.nogil:
        while start < len(outcome):
            rows: Index = min(ROWS, len(outcome) - start)
            _prepare(probability, outcome, values, start, rows, kind, network, tile, rank, value, own, label)
            _codes(kind, value, edges, uniform, near, own, codes)
            if not len(weight):
                _add_tile(tile, rank, codes, value, rows, kind != AS_GIVEN, counts, pending)
                if (start + rows) % SUB_BLOCK == 0 or start + rows == len(outcome):
                    for cell in range(pending.shape[0]):
                        for k in range(classes + 1):
                            limbs[cell, k, 0] += pending[cell, k] >> LOW_BITS
                            limbs[cell, k, 1] += pending[cell, k] & LOW_MASK
                            pending[cell, k] = 0
            for i in range(rows if len(weight) else 0):
                cell = codes[i]
                times: cython.double = weight[start + i]
                counts[cell, rank[i]] += times
                size[cell, 0] += count[start + i] if len(count) else 1
                size[cell, 1] += second[start + i]
                if limbs.shape[0]:
                    for k in range(classes):
                        add_limbs(cython.address(limbs[cell, k, 0]), grid(tile[k, i]), cython.cast(Integer, times))
                    if kind != AS_GIVEN:
                        add_limbs(cython.address(limbs[cell, classes, 0]), grid(value[i]), cython.cast(Integer, times))
                    continue
                for k in range(classes):
                    sums[cell, k] += times * tile[k, i]
                sums[cell, classes] += times * value[i]
            start += rows


@cython.cfunc
@cython.nogil
def _add_tile(
    tile: TableOut, rank: IntegersOut, codes: CodesOut, value: FloatsOut, rows: Index, known: cython.bint,
    counts: TableOut, pending: IntegerTableOut,
) -> cython.void:  # fmt: skip
    """Add the rows of a tile, each once, to integers that hold SUB_BLOCK of them."""
    for i in range(rows):
        cell: Index = codes[i]
        counts[cell, rank[i]] += 1.0
        if known:
            pending[cell, tile.shape[0]] += grid(value[i])
        for k in range(tile.shape[0]):
            pending[cell, k] += grid(tile[k, i])


def rank_rows(
    probability: Table, outcome: Outcomes, kind: cython.int, network: IntegerTable, ranked: TableOut, rank: IntegersOut,
    value: FloatsOut,
) -> None:  # fmt: skip
    """Fill, row by row, what is asked for: ranked (n, K) if it has rows, rank (n,), value (n,) if kind is not GIVEN."""
    start: Index = 0
    classes: Index = 2 if probability.shape[1] == 1 else probability.shape[1]
    tile: TableOut = np.zeros((classes, PITCH))
    ranks: IntegersOut = np.zeros(ROWS, np.int64)
    label: IntegersOut = np.zeros(ROWS, np.int64)
    values: FloatsOut = np.zeros(ROWS)
    own: FloatsOut = np.zeros(ROWS)
    nothing: Floats = np.empty(0)
    with cython.nogil:
        while start < len(outcome):
            rows: Index = min(ROWS, len(outcome) - start)
            _prepare(probability, outcome, nothing, start, rows, kind, network, tile, ranks, values, own, label)
            for i in range(rows):
                if len(rank):
                    rank[start + i] = ranks[i]
                if kind != AS_GIVEN:
                    value[start + i] = values[i]
            if ranked.shape[0]:
                for i in range(rows):
                    for k in range(classes):
                        ranked[start + i, k] = tile[k, i]
            start += rows

"""Variation of predicted distributions: each row's probabilities ranked, their variation, sums per rank of its bin.

Rows are taken in tiles of 64 whose columns are classes. A sorting network then exchanges whole columns, the entropy
adds whole columns, and every loop over a tile has a constant length, so that all of it becomes vector code without any
temporary as long as the data. Unweighted and whole-number-weighted sums are integers on the grid of `kernels.sums`.
"""

from functools import lru_cache

import cython
import numpy as np
from cython import address, cast, cfunc, double, nogil, void
from cython.cimports.libc.math import floor, log
from cython.cimports.miscal.kernels.arithmetic import (
    LOW_BITS, LOW_MASK, SUB_BLOCK, add_limbs, grid, logarithm,
)  # fmt: skip
from cython.cimports.miscal.kernels.kinds import (
    AS_GIVEN, BY_CONFIDENCE, BY_ENTROPY, BY_QUALITATIVE, BY_VARIATION_RATIO, PITCH, ROWS, CodesOut, Floats, FloatsOut,
    Index, Integer, IntegerCubeOut, IntegersOut, IntegerTable, Outcomes, Strided, Table, TableOut,
)  # fmt: skip
from cython.cimports.miscal.kernels.places import edge_index

GIVEN, ENTROPY, CONFIDENCE = AS_GIVEN, BY_ENTROPY, BY_CONFIDENCE
VARIATION_RATIO, QUALITATIVE = BY_VARIATION_RATIO, BY_QUALITATIVE
# Computed variations are compared with edges on the grid 1 / NEAR, so that rounding decides nothing.
NEAR = 2.0**40


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


@cfunc
@nogil
def _prepare(
    probability: Table, outcome: Outcomes, start: Index, rows: Index, network: IntegerTable, tile: TableOut,
    rank: IntegersOut, own: FloatsOut, label: IntegersOut,
) -> void:  # fmt: skip
    """Fill a tile with ranked probabilities, and the ranks of its rows.

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
        first, second = address(tile[network[step, 0], 0]), address(tile[network[step, 1], 0])
        for i in range(ROWS):
            one = first[i]
            two = second[i]
            first[i] = one if one > two else two
            second[i] = one if one < two else two


@cfunc
@nogil
def _variation(kind: cython.int, tile: TableOut, value: FloatsOut) -> void:
    """Variation of every row of a sorted tile; entropy is to the base of the number of classes, with 0 log 0 = 0."""
    classes: double = tile.shape[0]
    scale = 1.0 / log(classes) if kind == BY_ENTROPY else classes / (classes - 1.0)
    for i in range(ROWS):
        value[i] = tile[0, i] if kind == BY_CONFIDENCE else 0.0
    if kind == BY_ENTROPY:
        for k in range(tile.shape[0]):
            for i in range(ROWS):
                x = tile[k, i] if tile[k, i] > 1e-300 else 1e-300
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


@cfunc
@nogil
def _codes(
    kind: cython.int, value: FloatsOut, edges: Strided, near: double, key: FloatsOut, codes: CodesOut
) -> void:
    """Bin of every row of a tile by its variation."""
    for i in range(ROWS):
        key[i] = value[i]
    if kind not in (AS_GIVEN, BY_CONFIDENCE):
        for i in range(ROWS):
            key[i] = floor(value[i] * near + 0.5) / near
    edge_index(address(key[0]), ROWS, edges, address(codes[0]))


@cfunc
@nogil
def _add(
    tile: TableOut, rank: IntegersOut, value: FloatsOut, codes: CodesOut, start: Index, rows: Index, kind: cython.int,
    weight: Floats, counts: TableOut, limbs: IntegerCubeOut, sums: TableOut,
) -> void:  # fmt: skip
    """Add the rows of a tile; variations that are given may be any numbers, and their mean is not asked for."""
    classes = tile.shape[0]
    for i in range(rows):
        cell: Index = codes[i]
        last = 0.0 if kind == AS_GIVEN else value[i]
        times = weight[start + i] if len(weight) else 1.0
        counts[cell, rank[i]] += times
        if sums.shape[0]:
            for k in range(classes):
                sums[cell, k] += times * tile[k, i]
            sums[cell, classes] += times * last
        elif limbs.shape[0] and len(weight):
            for k in range(classes):
                add_limbs(address(limbs[cell, k, 0]), grid(tile[k, i]), cast(Integer, times))
            add_limbs(address(limbs[cell, classes, 0]), grid(last), cast(Integer, times))
        elif limbs.shape[0]:
            for k in range(classes):
                limbs[cell, k, 1] += grid(tile[k, i])
            limbs[cell, classes, 1] += grid(last)


def rank_rows(
    probability: Table, outcome: Outcomes, kind: cython.int, network: IntegerTable, edges: Strided, value: FloatsOut,
    ranked: TableOut, rank: IntegersOut, place: CodesOut, weight: Floats, counts: TableOut, limbs: IntegerCubeOut,
    sums: TableOut,
) -> None:  # fmt: skip
    """Rank rows, find their bins of variation, and add them up there.

    probability : (n, K), or (n, 1) with P(class 1); weight : (n,), of means, or empty; value : (n,) variations, read
    when kind is GIVEN, else filled. Filled: place (n,), the bins; ranked (n, K) and rank (n,) unless empty. Added to:
    counts (bins, K), weight of the rows whose class had each rank; sums of the ranked probabilities and last of the
    variations in limbs (bins, K + 1, 2), if weights are whole numbers, or sums (bins, K + 1), whichever has rows.
    Limbs are still to be carried over.
    """
    start = 0
    near: double = NEAR
    classes = counts.shape[1]
    tile: TableOut = np.zeros((classes, PITCH))
    ranks: IntegersOut = np.zeros(ROWS, np.int64)
    label: IntegersOut = np.zeros(ROWS, np.int64)
    values: FloatsOut = np.zeros(ROWS)
    own: FloatsOut = np.zeros(ROWS)
    codes: CodesOut = np.zeros(ROWS, np.int32)
    with nogil:
        while start < len(outcome):
            rows = min(ROWS, len(outcome) - start)
            _prepare(probability, outcome, start, rows, network, tile, ranks, own, label)
            if kind != AS_GIVEN:
                _variation(kind, tile, values)
                for i in range(rows):
                    value[start + i] = values[i]
            else:
                for i in range(rows):
                    values[i] = value[start + i]
            _codes(kind, values, edges, near, own, codes)
            for i in range(rows):
                place[start + i] = codes[i]
            if ranked.shape[0]:
                for i in range(rows):
                    rank[start + i] = ranks[i]
                    for k in range(classes):
                        ranked[start + i, k] = tile[k, i]
            _add(tile, ranks, values, codes, start, rows, kind, weight, counts, limbs, sums)
            start += rows
            if start % SUB_BLOCK == 0:  # no more fit an integer
                for cell in range(limbs.shape[0]):
                    for k in range(classes + 1):
                        limbs[cell, k, 0] += limbs[cell, k, 1] >> LOW_BITS
                        limbs[cell, k, 1] &= LOW_MASK

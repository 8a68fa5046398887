"""Variation of predicted distributions: each row's probabilities ranked, their variation, its bin, sums per rank.

Rows are taken in tiles of 64 whose columns are classes. A sorting network then exchanges whole columns, the entropy
adds whole columns, and every loop over a tile has a constant length, so that all of it becomes vector code without any
temporary as long as the data. Unweighted and whole-number-weighted sums are integers on the grid of `kernels.sums`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from miscal.kernels.arithmetic import logarithm
from miscal.kernels.buckets import edge_index, uniform_index
from miscal.kernels.jit import fused, kernel
from miscal.kernels.sums import LOW_BITS, LOW_MASK, SUB_BLOCK, add_limbs, grid

ROWS = 64  # of a tile
PITCH = 72  # numbers between the columns of a tile: were it a power of two, columns would share their cache lines
GIVEN, ENTROPY, CONFIDENCE, VARIATION_RATIO, QUALITATIVE = -1, 0, 1, 2, 3
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


@kernel
def _load(probability, tile):
    """Copy rows into the columns of a tile; a single column is P(class 1) of two classes."""
    rows = probability.shape[0]
    if rows < ROWS:
        tile[:, :] = 0.0
    if probability.shape[1] == 1:
        for i in range(rows):
            tile[0, i] = 1.0 - probability[i, 0]
            tile[1, i] = probability[i, 0]
        return
    for i in range(rows):
        for k in range(probability.shape[1]):
            tile[k, i] = probability[i, k]


@kernel
def _rank(tile, outcome, own, label, rank):
    """Rank of the class that occurred: how many are more probable, or as probable with a lower number."""
    for i in range(ROWS):
        label[i] = 0
        rank[i] = 0
    for i in range(outcome.size):
        label[i] = outcome[i]
    for i in range(ROWS):
        own[i] = tile[label[i], i]
    for k in range(tile.shape[0]):
        column = np.uint64(k)
        for i in range(ROWS):
            value = tile[column, np.uint64(i)]
            rank[i] += np.int64((value > own[i]) | ((value == own[i]) & (k < label[i])))


@kernel
def _sort(tile, network):
    """Order every row of a tile from the largest to the smallest."""
    for step in range(network.shape[0]):
        first = np.uint64(network[step, 0])
        second = np.uint64(network[step, 1])
        for i in range(ROWS):
            place = np.uint64(i)
            one = tile[first, place]
            two = tile[second, place]
            tile[first, place] = one if one > two else two
            tile[second, place] = one if one < two else two


@fused
def _entropy(tile, value):
    """Entropy of every row to the base of the number of classes, within [0, 1]; 0 log 0 = 0."""
    scale = 1.0 / math.log(tile.shape[0])
    for i in range(ROWS):
        value[i] = 0.0
    for k in range(tile.shape[0]):
        column = np.uint64(k)
        for i in range(ROWS):
            x = tile[column, np.uint64(i)]
            x = x if x > 1e-300 else 1e-300
            value[i] -= x * logarithm(x)
    for i in range(ROWS):
        value[i] = min(max(value[i] * scale, 0.0), 1.0)


@kernel
def _variation(kind, tile, value):
    """Variation of every row of a sorted tile."""
    classes = tile.shape[0]
    scale = classes / (classes - 1.0)
    if kind == ENTROPY:
        _entropy(tile, value)
    elif kind == CONFIDENCE:
        for i in range(ROWS):
            value[i] = tile[0, i]
    elif kind == VARIATION_RATIO:
        for i in range(ROWS):
            value[i] = min(scale * (1.0 - tile[0, i]), 1.0)
    else:
        for i in range(ROWS):
            value[i] = 0.0
        for k in range(classes):
            for i in range(ROWS):
                value[i] += tile[np.uint64(k), np.uint64(i)] * tile[np.uint64(k), np.uint64(i)]
        for i in range(ROWS):
            value[i] = min(max(scale * (1.0 - value[i]), 0.0), 1.0)


@kernel
def _codes(kind, value, edges, uniform, key, codes):
    """Bin of every row of a tile by its variation."""
    for i in range(ROWS):
        key[i] = value[i]
    if kind not in (GIVEN, CONFIDENCE):
        for i in range(ROWS):
            key[i] = np.floor(value[i] * NEAR + 0.5) / NEAR
    if uniform:
        uniform_index(key, edges[0], edges[edges.size - 1], edges, codes)
    else:
        edge_index(key, edges, codes)


@kernel
def _prepare(probability, outcome, values, kind, network, tile, rank, value, own, label):
    """Fill a tile with ranked probabilities, and the rank and the variation of its rows."""
    _load(probability, tile)
    _rank(tile, outcome, own, label, rank)
    _sort(tile, network)
    if kind != GIVEN:
        _variation(kind, tile, value)
        return
    for i in range(values.size):
        value[i] = values[i]


@kernel
def _tile(classes):
    """Working memory of a tile: ranked probabilities, rank, variation, and two columns for use within."""
    return (
        np.zeros((classes, PITCH)),  # contiguous as a whole: the compiler then knows the step within a column
        np.zeros(ROWS, np.int64),
        np.zeros(ROWS),
        np.zeros(ROWS),
        np.zeros(ROWS, np.int64),
    )


@kernel
def rank_sums(
    probability, outcome, values, kind, network, edges, uniform, weight, second, count, counts, limbs, sums, size
):
    """Sums per bin of variation.

    probability : (n, K), or (n, 1) with P(class 1); values : (n,) variations when kind is GIVEN, else empty;
    weight, second : (n,) float64, of means and of variances, or empty; count : (n,) int64 repetitions, or empty.
    Added to: counts (bins, K), weight of the rows whose class had each rank; limbs (bins, K + 1, 2) int64 if weights
    are whole numbers, else sums (bins, K + 1), of the ranked probabilities and last the variations (the other of the
    two is empty); size (bins, 2), rows and the sum of `second`, left alone without weights.
    """
    classes = counts.shape[1]
    tile, rank, value, own, label = _tile(classes)
    codes, pending = np.zeros(ROWS, np.int32), np.zeros((counts.shape[0], classes + 1), np.int64)
    for start in range(0, outcome.size, ROWS):
        stop = min(start + ROWS, outcome.size)
        _prepare(
            probability[start:stop], outcome[start:stop], values[start:stop], kind, network, tile, rank, value, own,
            label,
        )  # fmt: skip
        _codes(kind, value, edges, uniform, own, codes)
        if not weight.size:
            _add_tile(tile, rank, codes, value, stop - start, kind != GIVEN, counts, pending)
            if stop % SUB_BLOCK == 0 or stop == outcome.size:
                _empty(pending, limbs)
            continue
        for i in range(stop - start):
            cell = np.uint64(codes[i])
            times = weight[start + i]
            counts[cell, np.uint64(rank[i])] += times
            size[cell, 0] += count[start + i] if count.size else 1
            size[cell, 1] += second[start + i]
            if limbs.size:
                for k in range(classes):
                    add_limbs(limbs, cell, np.uint64(k), grid(tile[k, i]), np.int64(times))
                if kind != GIVEN:
                    add_limbs(limbs, cell, np.uint64(classes), grid(value[i]), np.int64(times))
                continue
            for k in range(classes):
                sums[cell, k] += times * tile[k, i]
            sums[cell, classes] += times * value[i]


@kernel
def _add_tile(tile, rank, codes, value, rows, known, counts, pending):
    """Add the rows of a tile, each once, to integers that hold SUB_BLOCK of them."""
    classes = np.uint64(tile.shape[0])
    for i in range(rows):
        cell = np.uint64(codes[i])
        counts[cell, np.uint64(rank[i])] += 1.0
        pending[cell, classes] += grid(value[i]) if known else 0
        for k in range(classes):
            pending[cell, k] += grid(tile[k, i])


@kernel
def _empty(pending, limbs):
    """Move the integers of a sub-block to their two halves."""
    for cell in range(pending.shape[0]):
        for k in range(pending.shape[1]):
            limbs[cell, k, 0] += pending[cell, k] >> LOW_BITS
            limbs[cell, k, 1] += pending[cell, k] & LOW_MASK
            pending[cell, k] = 0


@kernel
def rank_rows(probability, outcome, kind, network, ranked, rank, value):
    """Fill, row by row, what is asked for: ranked (n, K) if it has rows, rank (n,), value (n,) if kind is not GIVEN."""
    classes = 2 if probability.shape[1] == 1 else probability.shape[1]
    tile, ranks, values, own, label = _tile(classes)
    for start in range(0, outcome.size, ROWS):
        stop = min(start + ROWS, outcome.size)
        _prepare(
            probability[start:stop], outcome[start:stop], values[:0], kind, network, tile, ranks, values, own, label
        )
        for i in range(stop - start):
            if rank.size:
                rank[start + i] = ranks[i]
            if kind != GIVEN:
                value[start + i] = values[i]
        if ranked.shape[0]:
            for i in range(stop - start):
                for k in range(classes):
                    ranked[start + i, k] = tile[k, i]

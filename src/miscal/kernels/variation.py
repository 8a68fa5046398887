"""Variation of predicted distributions: each row's probabilities ranked, their variation, its bin, sums per rank.

Rows are taken in tiles of 64 whose columns are classes. A sorting network then exchanges whole columns, the entropy
adds whole columns, and every loop over a tile has a constant length, so that all of it becomes vector code without any
temporary as long as the data. Unweighted and whole-number-weighted sums are integers on the grid of `kernels.sums`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from miscal.kernels.buckets import edge_index, uniform_index
from miscal.kernels.fast_log import logarithm, vectorised
from miscal.kernels.jit import kernel
from miscal.kernels.sums import LOW_BITS, LOW_MASK, SUB_BLOCK, grid

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


@vectorised
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
def _prepare(probability, outcome, values, kind, network, edges, uniform, tile, rank, codes, value, own, label):
    """Fill a tile with ranked probabilities, and the rank, variation and bin of its rows."""
    _load(probability, tile)
    _rank(tile, outcome, own, label, rank)
    _sort(tile, network)
    if kind == GIVEN:
        for i in range(values.size):
            value[i] = values[i]
    else:
        _variation(kind, tile, value)
    _codes(kind, value, edges, uniform, own, codes)


@kernel
def _tile(classes):
    """Working memory of a tile: ranked probabilities, rank, bin, variation, and two columns for use within."""
    return (
        np.zeros((classes, PITCH)),  # contiguous as a whole: the compiler then knows the step within a column
        np.zeros(ROWS, np.int64),
        np.zeros(ROWS, np.int32),
        np.zeros(ROWS),
        np.zeros(ROWS),
        np.zeros(ROWS, np.int64),
    )


@kernel
def rank_sums(probability, outcome, values, kind, network, edges, uniform, counts, limbs, variation):
    """Sums per bin of variation, every row counting once.

    probability : (n, K), or (n, 1) with P(class 1); values : (n,) variations when kind is GIVEN, else empty.
    Added to: counts (bins, K) int64, how often the class that occurred had each rank; limbs (bins, K, 2) int64, sums of
    the ranked probabilities; variation (bins, 2) int64, sums of the variations.
    """
    classes = counts.shape[1]
    tile, rank, codes, value, own, label = _tile(classes)
    sums = np.zeros((counts.shape[0], classes + 1), np.int64)
    pending = 0
    for start in range(0, outcome.size, ROWS):
        stop = min(start + ROWS, outcome.size)
        _prepare(
            probability[start:stop], outcome[start:stop], values[start:stop], kind, network, edges, uniform,
            tile, rank, codes, value, own, label,
        )  # fmt: skip
        for i in range(stop - start):
            cell = np.uint64(codes[i])
            counts[cell, np.uint64(rank[i])] += 1
            sums[cell, np.uint64(classes)] += grid(value[i]) if kind != GIVEN else 0
            for k in range(classes):
                sums[cell, np.uint64(k)] += grid(tile[np.uint64(k), i])
        pending += ROWS
        if pending == SUB_BLOCK or stop == outcome.size:
            pending = 0
            for cell in range(sums.shape[0]):
                for k in range(classes):
                    limbs[cell, k, 0] += sums[cell, k] >> LOW_BITS
                    limbs[cell, k, 1] += sums[cell, k] & LOW_MASK
                    sums[cell, k] = 0
                variation[cell, 0] += sums[cell, classes] >> LOW_BITS
                variation[cell, 1] += sums[cell, classes] & LOW_MASK
                sums[cell, classes] = 0


@kernel
def rank_sums_whole(
    probability, outcome, values, kind, network, edges, uniform, weight, second, count, counts, limbs, variation, size
):
    """As `rank_sums`, rows counting as often as their whole-number weight says.

    weight, second : (n,) float64, of means and of variances; count : (n,) int64 repetitions, or empty.
    Added to as well: size (bins, 2) float64, rows and the sum of `second`.
    """
    classes = counts.shape[1]
    tile, rank, codes, value, own, label = _tile(classes)
    for start in range(0, outcome.size, ROWS):
        stop = min(start + ROWS, outcome.size)
        _prepare(
            probability[start:stop], outcome[start:stop], values[start:stop], kind, network, edges, uniform,
            tile, rank, codes, value, own, label,
        )  # fmt: skip
        for i in range(stop - start):
            cell = np.int64(codes[i])
            times = np.int64(weight[start + i])
            counts[cell, rank[i]] += times
            size[cell, 0] += count[start + i] if count.size else 1
            size[cell, 1] += second[start + i]
            if kind != GIVEN:
                q = grid(value[i])
                part = (q & LOW_MASK) * times
                variation[cell, 0] += (q >> LOW_BITS) * times + (part >> LOW_BITS)
                variation[cell, 1] += part & LOW_MASK
            for k in range(classes):
                q = grid(tile[k, i])
                part = (q & LOW_MASK) * times
                limbs[cell, k, 0] += (q >> LOW_BITS) * times + (part >> LOW_BITS)
                limbs[cell, k, 1] += part & LOW_MASK


@kernel
def rank_sums_real(
    probability, outcome, values, kind, network, edges, uniform, weight, second, count, counts, sums, variation, size
):
    """As `rank_sums_whole` with any weights: counts, sums (bins, K) and variation (bins,) are float64."""
    classes = counts.shape[1]
    tile, rank, codes, value, own, label = _tile(classes)
    for start in range(0, outcome.size, ROWS):
        stop = min(start + ROWS, outcome.size)
        _prepare(
            probability[start:stop], outcome[start:stop], values[start:stop], kind, network, edges, uniform,
            tile, rank, codes, value, own, label,
        )  # fmt: skip
        for i in range(stop - start):
            cell = np.int64(codes[i])
            times = weight[start + i]
            counts[cell, rank[i]] += times
            size[cell, 0] += count[start + i] if count.size else 1
            size[cell, 1] += second[start + i]
            variation[cell] += times * value[i]
            for k in range(classes):
                sums[cell, k] += times * tile[k, i]


@kernel
def rank_rows(probability, outcome, kind, network, ranked, rank, value):
    """Fill, row by row, what is asked for: ranked (n, K) if it has rows, rank (n,), value (n,) if kind is not GIVEN."""
    classes = 2 if probability.shape[1] == 1 else probability.shape[1]
    tile, ranks, _, values, own, label = _tile(classes)
    for start in range(0, outcome.size, ROWS):
        stop = min(start + ROWS, outcome.size)
        _load(probability[start:stop], tile)
        _rank(tile, outcome[start:stop], own, label, ranks)
        _sort(tile, network)
        if kind != GIVEN:
            _variation(kind, tile, values)
        for i in range(stop - start):
            if rank.size:
                rank[start + i] = ranks[i]
            if kind != GIVEN:
                value[start + i] = values[i]
        if ranked.shape[0]:
            for i in range(stop - start):
                for k in range(classes):
                    ranked[start + i, k] = tile[k, i]


@kernel
def rank_residuals(ranked, rank, codes, weight, group, residual):
    """Add weight * (rank indicator - ranked probabilities) to residual[group, bin], (groups, bins, K); no weight: 1."""
    for i in range(rank.size):
        times = weight[i] if weight.size else 1.0
        own = group[i]
        cell = codes[i]
        for k in range(ranked.shape[1]):
            residual[own, cell, k] -= times * ranked[i, k]
        residual[own, cell, rank[i]] += times

"""Kernel-weighted sums over all pairs, tile by tile: the part that is compiled.

Coordinates lie feature by feature, so that one row of a tile, a point against some hundred others, is a few vector
instructions a feature. A tile of distances never leaves the first-level cache.
"""

from __future__ import annotations

import numba
import numpy as np

from miscal.kernels.fast_exp import decay
from miscal.kernels.jit import kernel
from miscal.kernels.laplacian_sweep import FAR

TILE = 256

# Sums and minima over one row of a tile may be regrouped: without that they do not become vector instructions. The
# grouping is fixed when the function is compiled, so a machine gives the same bits in every run.
regrouped = numba.njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc", "nnan"})


@regrouped
def distances(points, point, low, high, square, distance):
    """Fill the L1 distances (squared Euclidean ones if `square`) of a point to points low..high."""
    dimensions = points.shape[0]
    for j in range(distance.size):
        distance[j] = 0.0
    if square:
        for k in range(dimensions):
            row, x = points[k, low:high], point[k]
            for j in range(distance.size):
                distance[j] += (row[j] - x) ** 2
        return
    k = 0
    while k + 8 <= dimensions:  # eight features a pass: fewer loads and stores of the running distance
        a, b, c, d = points[k, low:high], points[k + 1, low:high], points[k + 2, low:high], points[k + 3, low:high]
        e, f, g, h = points[k + 4, low:high], points[k + 5, low:high], points[k + 6, low:high], points[k + 7, low:high]
        x0, x1, x2, x3, x4, x5, x6, x7 = (
            point[k], point[k + 1], point[k + 2], point[k + 3], point[k + 4], point[k + 5], point[k + 6], point[k + 7]
        )  # fmt: skip
        for j in range(distance.size):
            distance[j] += (
                abs(a[j] - x0) + abs(b[j] - x1) + abs(c[j] - x2) + abs(d[j] - x3)
                + abs(e[j] - x4) + abs(f[j] - x5) + abs(g[j] - x6) + abs(h[j] - x7)
            )  # fmt: skip
        k += 8
    while k < dimensions:
        row, x = points[k, low:high], point[k]
        for j in range(distance.size):
            distance[j] += abs(row[j] - x)
        k += 1


@regrouped
def exchange(weight, values, value, totals):
    """Return the sum of weight * values, and add weight * value to the totals: both directions of a pair at once."""
    total = 0.0
    for j in range(weight.size):
        total += weight[j] * values[j]
        totals[j] += weight[j] * value
    return total


@regrouped
def weighted_sum(weight, values):
    """Return the sum of weight * values."""
    total = 0.0
    for j in range(weight.size):
        total += weight[j] * values[j]
    return total


@regrouped
def smallest(distance):
    """Return the smallest distance."""
    least = FAR
    for j in range(distance.size):
        least = min(least, distance[j])
    return least


@kernel
def symmetric_tile(points, by_row, values, scales, square, i_low, i_high, j_low, j_high, out):
    """Add the pairs of two ranges of points to both; of a range with itself, each pair once.

    points (d, n) and by_row (n, d) hold the same coordinates; values (m, n); out (b, m, n).
    """
    columns, width = values.shape[0], j_high - j_low
    distance, weight, totals = np.empty(width), np.empty(width), np.zeros((scales.size, columns, width))
    for i in range(i_low, i_high):
        low = i + 1 if i_low == j_low else j_low
        if low >= j_high:
            continue
        near, far = distance[low - j_low :], weight[low - j_low :]
        distances(points, by_row[i], low, j_high, square, near)
        for b in range(scales.size):
            decay(near, scales[b], far)
            for c in range(columns):
                out[b, c, i] += exchange(far, values[c, low:j_high], values[c, i], totals[b, c, low - j_low :])
    for b in range(scales.size):
        for c in range(columns):
            for j in range(width):
                out[b, c, j_low + j] += totals[b, c, j]


@kernel
def symmetric_tiles(points, by_row, values, scales, square, tiles, first, step, out):
    """Add every `step`-th tile, beginning with the `first`."""
    for t in range(first, tiles.shape[0], step):
        symmetric_tile(
            points, by_row, values, scales, square, tiles[t, 0], tiles[t, 1], tiles[t, 2], tiles[t, 3], out
        )  # fmt: skip


@kernel
def one_way(points, values, scales, square, slack, low, high, queries, own_place, first, last, reference, out):
    """Add to queries first..last the sums over sources low..high, relative to a reference that follows the nearest.

    own_place (q,) is the place of a query among the sources, which is left out; -1 for none. out (b, m, q).
    """
    columns = values.shape[0]
    distance, weight = np.empty(TILE), np.empty(TILE)
    for start in range(low, high, TILE):
        stop = min(start + TILE, high)
        near, far = distance[: stop - start], weight[: stop - start]
        for i in range(first, last):
            distances(points, queries[i], start, stop, square, near)
            own = own_place[i] - start
            inside = 0 <= own < stop - start
            if inside:
                near[own] = FAR
            nearest = smallest(near)
            lead = nearest - reference[i]
            if lead < -slack:
                reference[i] = nearest
                for b in range(scales.size):
                    factor = np.exp(lead * scales[b])
                    for c in range(columns):
                        out[b, c, i] *= factor
            for j in range(stop - start):
                near[j] -= reference[i]
            if inside:
                near[own] = FAR
            for b in range(scales.size):
                decay(near, scales[b], far)
                for c in range(columns):
                    out[b, c, i] += weighted_sum(far, values[c, start:stop])

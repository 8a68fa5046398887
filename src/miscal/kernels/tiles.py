"""Kernel-weighted sums over all pairs in any dimension, tile by tile: the loops of `neighbours`.

Coordinates lie feature by feature, so that one row of a tile, a point against some hundred others, is a few vector
instructions a feature. A tile of distances never leaves the first-level cache.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp
from cython.cimports.miscal.kernels.kinds import (
    CubeOut, Floats, FloatsOut, Index, Integers, IntegerTable, NumbersOut, Table,
)  # fmt: skip
from cython.cimports.miscal.kernels.nearness import decay, distances, far, smallest, weighted_sum


def symmetric_tiles(
    points: Table, by_row: Table, values: Table, scales: Floats, square: cython.bint, tiles: IntegerTable, first: Index,
    step: Index, out: CubeOut,
) -> None:  # fmt: skip
    """Add the pairs of every `step`-th tile, beginning with the `first`, to both points of each pair.

    A tile is two ranges of points (low, high, low, high); of a range with itself each pair counts once. points (d, n)
    and by_row (n, d) hold the same coordinates; values (m, n); out (b, m, n).
    """
    columns: Index = values.shape[0]
    bands: Index = scales.shape[0]
    widest: Index = 0
    t: Index = first
    for i in range(tiles.shape[0]):
        widest = max(widest, tiles[i, 3] - tiles[i, 2])
    distance: FloatsOut = np.empty(widest + 1)
    weight: FloatsOut = np.empty(widest + 1)
    totals: CubeOut = np.empty((bands, columns, widest + 1))
    with cython.nogil:
        while t < tiles.shape[0]:
            start: Index = tiles[t, 2]
            totals[:, :, :] = 0.0
            for i in range(tiles[t, 0], tiles[t, 1]):
                low: Index = i + 1 if tiles[t, 0] == start else start
                size: Index = tiles[t, 3] - low
                if size <= 0:
                    continue
                distances(
                    cython.address(points[0, low]), points.shape[1], points.shape[0], cython.address(by_row[i, 0]),
                    size, square, cython.address(distance[0]),
                )  # fmt: skip
                for b in range(bands):
                    decay(cython.address(distance[0]), size, scales[b], cython.address(weight[0]))
                    for c in range(columns):  # both directions of a pair at once
                        to, value = cython.address(totals[b, c, low - start]), values[c, i]
                        for j in range(size):
                            to[j] += weight[j] * value
                        out[b, c, i] += weighted_sum(cython.address(weight[0]), cython.address(values[c, low]), size)
            for b in range(bands):
                for c in range(columns):
                    for j in range(tiles[t, 3] - start):
                        out[b, c, start + j] += totals[b, c, j]
            t += step


@cython.cfunc
@cython.nogil
def follow(distance: NumbersOut, size: Index, i: Index, scales: Floats, reference: FloatsOut, out: CubeOut) -> cython.void:
    """Move the sums of query i to the nearest point, where that is nearer than any before, and count distances from it.

    So nothing overflows, and the nearest points never underflow. far() is a point that does not count.
    """
    nearest: cython.double = smallest(distance, size)
    if nearest < reference[i]:
        for b in range(scales.shape[0]):
            factor: cython.double = exp((nearest - reference[i]) * scales[b])
            for c in range(out.shape[2]):
                out[b, i, c] *= factor
        reference[i] = nearest
    nearest = reference[i]
    for j in range(size):
        distance[j] = distance[j] - nearest if distance[j] < far() else far()


def one_way(
    points: Table, values: Table, queries: Table, own_place: Integers, tiles: IntegerTable, scales: Floats,
    square: cython.bint, reference: FloatsOut, out: CubeOut,
) -> None:  # fmt: skip
    """Add the pairs of every tile to its queries: a tile is a range of sources and one of queries.

    points (d, n); values (m, n); queries (q, d); own_place (q,) is the place of a query among the sources, which is
    left out, -1 for none; out (b, q, m) is relative to exp(-reference * scale).
    """
    distance = cython.declare(cython.double[256])
    weight = cython.declare(cython.double[256])
    with cython.nogil:
        for t in range(tiles.shape[0]):
            for start in range(tiles[t, 0], tiles[t, 1], 256):
                size: Index = min(256, tiles[t, 1] - start)
                for i in range(tiles[t, 2], tiles[t, 3]):
                    distances(
                        cython.address(points[0, start]), points.shape[1], points.shape[0],
                        cython.address(queries[i, 0]), size, square, distance,
                    )  # fmt: skip
                    own: Index = own_place[i] - start
                    if own >= 0 and own < size:
                        distance[own] = far()
                    if reference[i] > 0.0:
                        follow(distance, size, i, scales, reference, out)
                    for b in range(scales.shape[0]):
                        decay(distance, size, scales[b], weight)
                        for c in range(out.shape[2]):
                            out[b, i, c] += weighted_sum(weight, cython.address(values[c, start]), size)

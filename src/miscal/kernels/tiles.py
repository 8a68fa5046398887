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
from cython.cimports.miscal.kernels.nearness import decay, distances, far, weighted_sum


@cython.cfunc
@cython.nogil
def follow(
    distance: NumbersOut, size: Index, i: Index, scales: Floats, reference: FloatsOut, out: CubeOut
) -> cython.void:
    """Move the sums of query i to the nearest point, where that is nearer than any before, and count distances from it.

    So nothing overflows, and the nearest points never underflow. far() is a point that does not count.
    """
    before: cython.double = reference[i]
    nearest: cython.double = before
    for j in range(size):
        nearest = distance[j] if distance[j] < nearest else nearest
    if nearest < before:
        for b in range(scales.shape[0]):
            factor: cython.double = exp((nearest - before) * scales[b])
            for c in range(out.shape[2]):
                out[b, i, c] *= factor
        reference[i] = nearest
    for j in range(size):
        distance[j] = distance[j] - nearest if distance[j] < far() else far()


def add_tiles(
    points: Table, values: Table, queries: Table, own_place: Integers, scales: Floats, square: cython.bint,
    tiles: IntegerTable, mirrored: cython.bint, reference: FloatsOut, out: CubeOut,
) -> None:  # fmt: skip
    """Add the pairs of every tile, a range of queries and one of sources, to the queries.

    `mirrored`: queries and sources are the same, and each pair of different ones, which only one tile has, is added to
    both; no range is longer than 256. points (d, n); values (m, n); queries (q, d); own_place (q,) is the place of a
    query among the sources, which is left out, -1 for none; out (b, q, m) is relative to exp(-reference * scale).
    """
    distance = cython.declare(cython.double[256])
    weight = cython.declare(cython.double[256])
    totals: CubeOut = np.zeros((out.shape[0], out.shape[2], 256))
    with cython.nogil:
        for t in range(tiles.shape[0]):
            for start in range(tiles[t, 2], tiles[t, 3], 256):
                for i in range(tiles[t, 0], tiles[t, 1]):
                    low: Index = i + 1 if mirrored and i >= start else start
                    size: Index = min(start + 256, tiles[t, 3]) - low
                    if size <= 0:
                        continue
                    point, own = cython.address(queries[i, 0]), own_place[i] - low
                    distances(
                        cython.address(points[0, low]), points.shape[1], points.shape[0], point, size, square, distance
                    )
                    if own >= 0 and own < size:
                        distance[own] = far()
                    if reference[i] > 0.0:
                        follow(distance, size, i, scales, reference, out)
                    for b in range(out.shape[0]):
                        decay(distance, size, scales[b], weight)
                        for c in range(out.shape[2]):
                            out[b, i, c] += weighted_sum(weight, cython.address(values[c, low]), size)
                            if mirrored:
                                to, value = cython.address(totals[b, c, low - start]), values[c, i]
                                for j in range(size):
                                    to[j] += weight[j] * value
                for b in range(out.shape[0] if mirrored else 0):
                    for c in range(out.shape[2]):
                        for j in range(tiles[t, 3] - start):
                            out[b, start + j, c] += totals[b, c, j]
                            totals[b, c, j] = 0.0

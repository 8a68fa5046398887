"""Kernel-weighted sums over all pairs in any dimension, tile by tile: the loops of `neighbours`.

Coordinates lie feature by feature, so that one row of a tile, a point against some hundred others, is a few vector
instructions a feature. A tile of distances never leaves the first-level cache.
"""

import cython
import numpy as np
from cython.cimports.miscal.kernels.kinds import (
    CubeOut, Floats, FloatsOut, Index, Integers, IntegerTable, Table, TableOut,
)  # fmt: skip
from cython.cimports.miscal.kernels.nearness import Sums, decay, distances, far, receive, weighted_sum


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


def one_way(
    points: Table, values: Table, scales: Floats, square: cython.bint, slack: cython.double, low: Index, high: Index,
    queries: Table, own_place: Integers, first: Index, last: Index, reference: FloatsOut, out: CubeOut,
) -> None:  # fmt: skip
    """Add to queries first..last the sums over sources low..high, relative to a reference that follows the nearest.

    own_place (q,) is the place of a query among the sources, which is left out; -1 for none. out (b, q, m).
    """
    if first >= last or low >= high or out.shape[2] == 0:
        return
    distance = cython.declare(cython.double[256])
    weight = cython.declare(cython.double[256])
    sums = cython.declare(Sums)
    sums.reference, sums.slack, sums.out = cython.address(reference[0]), slack, cython.address(out[0, 0, 0])
    sums.scales, sums.bands = cython.address(scales[0]), scales.shape[0]
    sums.rows, sums.columns = out.shape[1], out.shape[2]
    with cython.nogil:
        for start in range(low, high, 256):
            size: Index = min(256, high - start)
            for i in range(first, last):
                distances(
                    cython.address(points[0, start]), points.shape[1], points.shape[0],
                    cython.address(queries[i, 0]), size, square, distance,
                )  # fmt: skip
                own: Index = own_place[i] - start
                if own >= 0 and own < size:
                    distance[own] = far()
                receive(
                    distance, weight, size, cython.address(values[0, start]), values.shape[1], cython.address(sums), i
                )


def others_in_cell(starts: Integers, values: Table, others: TableOut) -> None:
    """Fill others[i] = sum of values[j] over the other points j of its cell; a subtraction would lose digits."""
    with cython.nogil:
        for cell in range(starts.shape[0] - 1):
            for c in range(values.shape[1]):
                before: cython.double = 0.0
                for i in range(starts[cell], starts[cell + 1]):
                    others[i, c] = before
                    before += values[i, c]
                after: cython.double = 0.0
                for i in range(starts[cell + 1] - 1, starts[cell] - 1, -1):
                    others[i, c] += after
                    after += values[i, c]

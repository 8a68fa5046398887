"""Kernel-weighted sums over all pairs in any dimension: tile by tile, threaded, memory bounded.

Coordinates lie feature by feature, so that one row of a tile, a point against some hundred others, is a few vector
instructions a feature. A tile of distances never leaves the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from miscal.kernels.arithmetic import decay
from miscal.kernels.jit import kernel, regrouped
from miscal.kernels.threads import over_blocks

Array = np.ndarray[Any, Any]
Kernel = Callable[[Array, Array], Any]

FAR = 1e300  # the distance of what is not there: finite, so that FAR - FAR is 0 and not NaN
SLACK = 50.0  # how far, in exponents, a point may be closer than the reference
TILE = 256
SHARES = 16  # parts of the tiles with sums of their own; fixed, so that the bits do not depend on the threads
BUDGET = 1 << 26  # bytes for the sums of all parts
ENTRIES = 1 << 20  # of a block of a given kernel's matrix


@regrouped
def distances(points, point, low, high, square, distance):
    """Fill the L1 distances (squared Euclidean ones if `square`) of a point to points low..high of (d, n)."""
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
    while k + 4 <= dimensions:  # four features a pass: fewer loads and stores of the running distance
        a, b, c, d = points[k, low:high], points[k + 1, low:high], points[k + 2, low:high], points[k + 3, low:high]
        x0, x1, x2, x3 = point[k], point[k + 1], point[k + 2], point[k + 3]
        for j in range(distance.size):
            distance[j] += abs(a[j] - x0) + abs(b[j] - x1) + abs(c[j] - x2) + abs(d[j] - x3)
        k += 4
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
def symmetric_tiles(points, by_row, values, scales, square, tiles, first, step, out):
    """Add the pairs of every `step`-th tile, beginning with the `first`, to both points of each pair.

    A tile is two ranges of points (low, high, low, high); of a range with itself each pair counts once. points (d, n)
    and by_row (n, d) hold the same coordinates; values (m, n); out (b, m, n).
    """
    columns = values.shape[0]
    for t in range(first, tiles.shape[0], step):
        i_low, i_high, j_low, j_high = tiles[t]
        width = j_high - j_low
        distance, weight, totals = np.empty(width), np.empty(width), np.zeros((scales.size, columns, width))
        for i in range(i_low, i_high):
            low = i + 1 if i_low == j_low else j_low
            if low >= j_high:
                continue
            far, near = distance[low - j_low :], weight[low - j_low :]
            distances(points, by_row[i], low, j_high, square, far)
            for b in range(scales.size):
                decay(far, scales[b], near)
                for c in range(columns):
                    out[b, c, i] += exchange(near, values[c, low:j_high], values[c, i], totals[b, c, low - j_low :])
        for b in range(scales.size):
            for c in range(columns):
                for j in range(width):
                    out[b, c, j_low + j] += totals[b, c, j]


@kernel
def receive(distance, weight, values, low, scales, slack, i, reference, out):
    """Add to out[b, i] = sum of exp(-distance * scales[b]) * values over points low.. of values (m, n).

    Sums are relative to exp(-reference[i] * scales[b]), which follows the nearest point: it is replaced only where one
    is closer than it by more than the slack, so that nothing overflows, the nearest points never underflow, and there
    are few roundings. FAR is a point that does not count. Distances are changed.
    """
    if reference[i] > 0.0:
        nearest = smallest(distance)
        lead = nearest - reference[i]
        if lead < -slack:
            reference[i] = nearest
            for b in range(scales.size):
                factor = np.exp(lead * scales[b])
                for c in range(values.shape[0]):
                    out[b, i, c] *= factor
        for j in range(distance.size):
            distance[j] = distance[j] - reference[i] if distance[j] < FAR else FAR
    for b in range(scales.size):
        decay(distance, scales[b], weight)
        for c in range(values.shape[0]):
            out[b, i, c] += weighted_sum(weight, values[c, low : low + distance.size])


@kernel
def one_way(points, values, scales, square, slack, low, high, queries, own_place, first, last, reference, out):
    """Add to queries first..last the sums over sources low..high, relative to a reference that follows the nearest.

    own_place (q,) is the place of a query among the sources, which is left out; -1 for none. out (b, q, m).
    """
    distance, weight = np.empty(TILE), np.empty(TILE)
    for start in range(low, high, TILE):
        stop = min(start + TILE, high)
        far, near = distance[: stop - start], weight[: stop - start]
        for i in range(first, last):
            distances(points, queries[i], start, stop, square, far)
            own = own_place[i] - start
            if 0 <= own < stop - start:
                far[own] = FAR
            receive(far, near, values, start, scales, slack, i, reference, out)


@kernel
def others_in_cell(starts, values, others):
    """Fill others[i] = sum of values[j] over the other points j of its cell; a subtraction would lose digits."""
    for cell in range(starts.size - 1):
        for c in range(values.shape[1]):
            before = 0.0
            for i in range(starts[cell], starts[cell + 1]):
                others[i, c] = before
                before += values[i, c]
            after = 0.0
            for i in range(starts[cell + 1] - 1, starts[cell] - 1, -1):
                others[i, c] += after
                after += values[i, c]


def symmetric_sums(points: Array, starts: Array, values: Array, scales: Array, square: bool) -> Array:
    """Sum kernel * values over all points of a point's cell, itself included.

    points (n, d), those of a cell together, cells beginning at `starts`; values (n, m) -> (b, n, m). The kernel is
    exp(-distance * scale), of the squared Euclidean distance if `square`, else of the L1 distance.
    """
    rows, columns = values.shape
    tiles = _tiles(starts)
    by_feature, by_row = np.ascontiguousarray(points.T), np.ascontiguousarray(points)
    by_column = np.ascontiguousarray(values.T)
    shares = max(1, min(SHARES, BUDGET // max(1, 8 * rows * columns * scales.size), len(tiles)))
    parts = np.zeros((shares, scales.size, columns, rows))

    def work(start: int, stop: int) -> None:
        for share in range(start, stop):
            symmetric_tiles(by_feature, by_row, by_column, scales, square, tiles, share, shares, parts[share])

    over_blocks(shares, work, block=1)
    return np.ascontiguousarray((parts.sum(axis=0) + by_column).transpose(0, 2, 1))


def _tiles(starts: Array) -> Array:
    """Pairs of ranges (low, high, low, high) that cover the upper triangle of every cell."""
    tiles = []
    for low, high in pairwise(starts.tolist()):
        cuts = [(cut, min(cut + TILE, high)) for cut in range(low, high, TILE)]
        tiles += [(*cuts[i], *cut) for i in range(len(cuts)) for cut in cuts[i:]]
    return np.array(tiles, np.int64).reshape(-1, 4)


def one_way_sums(
    points: Array, starts: Array, values: Array, queries: Array, query_starts: Array, scales: Array, square: bool,
    own_place: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Sum kernel * values over the sources of each query's cell, relative to exp(-reference * scale).

    `own_place` (q,) is the place of a query among the sources, to be left out. Gives sums (b, q, m), references (q,).
    """
    by_feature, by_column = np.ascontiguousarray(points.T), np.ascontiguousarray(values.T)
    asked = np.ascontiguousarray(queries)
    place = np.full(len(asked), -1, np.int64) if own_place is None else own_place
    reference, out = np.full(len(asked), FAR), np.zeros((scales.size, len(asked), values.shape[1]))
    slack = SLACK / float(scales.max())
    blocks = [
        (low, high, start, min(start + TILE, int(query_starts[cell + 1])))
        for cell, (low, high) in enumerate(pairwise(starts.tolist()))
        for start in range(int(query_starts[cell]), int(query_starts[cell + 1]), TILE)
    ]

    def work(begin: int, end: int) -> None:
        for low, high, first, last in blocks[begin:end]:
            one_way(
                by_feature, by_column, scales, square, slack, low, high, asked, place, first, last, reference, out
            )  # fmt: skip

    over_blocks(len(blocks), work, block=1)
    return out, reference


def given_kernel_sums(
    points: Array, starts: Array, values: Array, queries: Array, query_starts: Array, given: Kernel,
    own_place: Array | None = None,
) -> Array:  # fmt: skip
    """Sum given(queries, points) * values over each query's cell, in blocks -> (q, m); no threads: it is not ours."""
    sums = np.zeros((len(queries), values.shape[1]))
    for cell, (low, high) in enumerate(pairwise(starts.tolist())):
        size = max(1, ENTRIES // max(1, high - low))
        for first in range(int(query_starts[cell]), int(query_starts[cell + 1]) if high > low else 0, size):
            last = min(first + size, int(query_starts[cell + 1]))
            weights = _checked(given(queries[first:last], points[low:high]), (last - first, high - low))
            if own_place is not None:
                weights = weights.copy()
                weights[np.arange(last - first), own_place[first:last] - low] = 0.0
            sums[first:last] = weights @ values[low:high]
    return sums


def _checked(weights: Any, shape: tuple[int, int]) -> Array:
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"it gave the shape {array.shape} for {shape[0]} and {shape[1]} points")
    if not (array >= 0).all() or np.isinf(array).any():
        raise ValueError("it gave a weight that is negative, infinite or not a number")
    return array

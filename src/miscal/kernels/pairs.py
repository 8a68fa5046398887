"""Sums over all pairs of points, weighted by their nearness: the loops of `neighbours`.

A Laplacian kernel in one and two dimensions is summed exactly in O(n log^(d-1) n), by divide and conquer: split at the
middle of one coordinate, sweep between the sides, go down each side. The list of points sorted by the other coordinate
goes down with its node by a stable partition, so that sorting is done once, at the root (`neighbours.laplacian_sums`).

One sweep adds every pair of points on opposite sides of the split in linear time. The points of a node are split at the
middle of the first coordinate and sorted by the last, z. Between opposite sides the distance is a sum of one number a
point and the difference in z,

    distance(i, j) = cost_i + cost_j + |z_i - z_j|,

so that one running sum a side, read and added to while z rises and again while it falls, serves all pairs.
Running sums are kept relative to a reference (the cost and z of one of their points), and each row's sums relative to a
reference distance. Both are replaced only where a point is closer by more than the slack, so that nothing overflows,
the nearest points never underflow, and there are few roundings. Sums are added in two levels (`fresh`, `settled`),
because one long running sum of near-equal terms drifts.

In any dimension pairs are added tile by tile. Coordinates lie feature by feature, so that one row of a tile, a point
against some hundred others, is a few vector instructions a feature; a tile of distances never leaves the first-level
cache.
"""

import numpy as np
from cython import address, bint, cfunc, declare, double, nogil, pointer, void
from cython.cimports.libc.math import exp, fabs
from cython.cimports.libc.stdint import uint32_t
from cython.cimports.miscal.kernels.arithmetic import exponential
from cython.cimports.miscal.kernels.kinds import (
    CubeOut,
    Flags,
    Floats,
    FloatsOut,
    Index,
    Integers,
    IntegerTable,
    NumbersOut,
    PlacesOut,
    Table,
    TableOut,
)
from cython.cimports.miscal.kernels.nearness import decay, distances, far, weighted_sum

SETTLE = declare(Index, 255)  # a power of two less one: points after which the fresh sums are settled


@cfunc
@nogil
def move(sums: NumbersOut, further: NumbersOut, columns: Index, factor: double) -> void:
    """Take two levels of sums together, relative to another reference."""
    for c in range(columns):
        sums[c] = (sums[c] + further[c]) * factor
        further[c] = 0.0


@cfunc
@nogil
def walk(
    points: Table, order: pointer(uint32_t), size: Index, middle: Index, falling: bint, source: Flags,
    values: Table, scale: double, slack: double, running: NumbersOut, reference: FloatsOut,
    sums: TableOut,
) -> void:  # fmt: skip
    """Add to each point of a node, in order of z or against it, what those of the other side before it give.

    `running` is room for (2, 2, columns) numbers, the settled and fresh sums of each side. A line has one side.
    """
    columns = values.shape[1]
    last = points.shape[0] - 1
    settled, fresh = running, running + 2 * columns
    cost = declare(double[2])
    z = declare(double[2])
    cost[0] = cost[1] = far()
    z[0] = z[1] = 0.0
    for c in range(4 * columns):
        running[c] = 0.0
    for step in range(size):
        i: Index = order[size - 1 - step if falling else step]
        mine: Index = last and i >= middle
        other = last - mine
        height = points[last, i]
        aside = fabs(points[0, i] - points[0, middle]) if last else 0.0
        distance = aside + (cost[other] + fabs(height - z[other]))
        to, value = address(sums[i, 0]), address(values[i, 0])
        if distance < reference[i] - slack:
            factor = exp((distance - reference[i]) * scale)
            for c in range(columns):
                to[c] *= factor
            reference[i] = distance
        weight = exponential((reference[i] - distance) * scale)
        for c in range(columns):
            to[c] += weight * (settled[other * columns + c] + fresh[other * columns + c])
        if source[i]:
            lead = aside - (cost[mine] + fabs(height - z[mine]))
            if lead < -slack:
                move(settled + mine * columns, fresh + mine * columns, columns, exp(lead * scale))
                cost[mine], z[mine], lead = aside, height, 0.0
            weight = exponential(-lead * scale)
            for c in range(columns):
                fresh[mine * columns + c] += weight * value[c]
        if step & SETTLE == SETTLE:
            move(settled, fresh, 2 * columns, 1.0)


@cfunc
@nogil
def part(order: pointer(uint32_t), size: Index, middle: Index, spare: pointer(uint32_t)) -> void:
    """Put the points below the middle first, both parts in the order they had."""
    below = 0
    above = 0
    for q in range(size):
        place = order[q]
        belongs: Index = place < middle
        order[below] = place
        spare[above] = place
        below += belongs
        above += 1 - belongs
    for q in range(above):
        order[below + q] = spare[q]


def sweep(
    points: Table, order: PlacesOut, spans: IntegerTable, source: Flags, values: Table, scale: double,
    slack: double, reference: FloatsOut, sums: TableOut,
) -> None:  # fmt: skip
    """Add the pairs between the two halves of each span of a plane, or all pairs of each span of a line but own ones.

    points (d, n), points[0] ascending within a span; `order` holds the places of a span sorted by the last coordinate,
    and is parted at the middle. Only sources (n,) give; sums (n, m) are relative to exp(-reference * scale).
    """
    running: FloatsOut = np.empty(4 * values.shape[1])
    spare: PlacesOut = np.empty(np.diff(spans).max(initial=1), np.uint32)
    with nogil:
        for s in range(spans.shape[0]):
            size: Index = spans[s, 1] - spans[s, 0]
            middle: Index = (spans[s, 0] + spans[s, 1]) // 2
            here, room = address(order[spans[s, 0]]), address(running[0])
            for way in range(2):  # z rising, then falling
                walk(points, here, size, middle, way, source, values, scale, slack, room, reference, sums)
            if points.shape[0] > 1:
                part(here, size, middle, address(spare[0]))


@cfunc
@nogil
def follow(
    distance: NumbersOut, size: Index, i: Index, scales: Floats, reference: FloatsOut, out: CubeOut
) -> void:
    """Move the sums of query i to the nearest point, where that is nearer than any before, and count distances from it.

    So nothing overflows, and the nearest points never underflow. far() is a point that does not count.
    """
    before = reference[i]
    nearest = before
    for j in range(size):
        nearest = distance[j] if distance[j] < nearest else nearest
    if nearest < before:
        for b in range(scales.shape[0]):
            factor = exp((nearest - before) * scales[b])
            for c in range(out.shape[2]):
                out[b, i, c] *= factor
        reference[i] = nearest
    for j in range(size):
        distance[j] = distance[j] - nearest if distance[j] < far() else far()


def add_tiles(
    points: Table, values: Table, queries: Table, own_place: Integers, scales: Floats, square: bint,
    tiles: IntegerTable, mirrored: bint, reference: FloatsOut, out: CubeOut,
) -> None:  # fmt: skip
    """Add the pairs of every tile, a range of queries and one of sources, to the queries.

    `mirrored`: queries and sources are the same, and each pair of different ones, which only one tile has, is added to
    both; no range is longer than 256. points (d, n); values (m, n); queries (q, d); own_place (q,) is the place of a
    query among the sources, which is left out, -1 for none; out (b, q, m) is relative to exp(-reference * scale).
    """
    distance = declare(double[256])
    weight = declare(double[256])
    totals: CubeOut = np.zeros((out.shape[0], out.shape[2], 256))
    with nogil:
        for t in range(tiles.shape[0]):
            for start in range(tiles[t, 2], tiles[t, 3], 256):
                for i in range(tiles[t, 0], tiles[t, 1]):
                    low: Index = i + 1 if mirrored and i >= start else start
                    size = min(start + 256, tiles[t, 3]) - low
                    if size <= 0:
                        continue
                    point, own = address(queries[i, 0]), own_place[i] - low
                    near = address(points[0, low])
                    distances(near, points.shape[1], points.shape[0], point, size, square, distance)
                    if own >= 0 and own < size:
                        distance[own] = far()
                    if reference[i] > 0.0:
                        follow(distance, size, i, scales, reference, out)
                    for b in range(out.shape[0]):
                        decay(distance, size, scales[b], weight)
                        for c in range(out.shape[2]):
                            out[b, i, c] += weighted_sum(weight, address(values[c, low]), size)
                            if mirrored:
                                to, value = address(totals[b, c, low - start]), values[c, i]
                                for j in range(size):
                                    to[j] += weight[j] * value
                for b in range(out.shape[0] if mirrored else 0):
                    for c in range(out.shape[2]):
                        for j in range(tiles[t, 3] - start):
                            out[b, start + j, c] += totals[b, c, j]
                            totals[b, c, j] = 0.0

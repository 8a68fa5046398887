"""Exact sums of a Laplacian kernel over all pairs in one and two dimensions, in O(n log^(d-1) n): the loops.

Divide and conquer: split at the middle of one coordinate, sweep between the sides, go down each side. The list of
points sorted by the other coordinate goes down with its node by a stable partition, so that sorting is done once, at
the root (`neighbours.laplacian_sums`).

One sweep adds every pair of points on opposite sides of the split in linear time. The points of a node are split at the
middle of the first coordinate and sorted by the last, z. Between opposite sides the distance is a sum of one number a
point and the difference in z,

    distance(i, j) = cost_i + cost_j + |z_i - z_j|,

so that one running sum a side, read and added to while z rises and again while it falls, serves all pairs.
Running sums are kept relative to a reference (the cost and z of one of their points), and each row's sums relative to a
reference distance. Both are replaced only where a point is closer by more than the slack, so that nothing overflows,
the nearest points never underflow, and there are few roundings. Sums are added in two levels (`fresh`, `settled`),
because one long running sum of near-equal terms drifts.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, fabs
from cython.cimports.libc.stdint import uint8_t, uint32_t
from cython.cimports.miscal.kernels.kinds import (
    Flags, FlagsOut, Floats, FloatsOut, Index, IntegerTable, NumbersOut, PlacesOut, Table, TableOut,
)  # fmt: skip
from cython.cimports.miscal.kernels.nearness import decay, far

SETTLE = cython.declare(Index, 255)  # a power of two less one: points after which the fresh sums are settled

# The points of a node in ascending order of z, the rows they are, the side each lies on, and what a sweep computes.
# `taken` and `give` are (2, size): the distance beyond the reference that a point receives from, and of the one it
# gives to, while z rises and while it falls. `running` is (2, 2, columns): the fresh and settled sums of each side.
Node = cython.struct(
    size=Index, sides=cython.int, rows=cython.pointer(uint32_t), side=cython.pointer(uint8_t), z=NumbersOut,
    cost=NumbersOut, taken=NumbersOut, give=NumbersOut, received=NumbersOut, given=NumbersOut, running=NumbersOut,
)  # fmt: skip


@cython.cfunc
@cython.nogil
def plan(node: cython.pointer(Node), source: Flags, slack: cython.double, falling: cython.bint) -> cython.void:
    """Fill, for each point in order of z, its distance from the reference it receives from, and beyond its side's."""
    taken, give = node.taken + falling * node.size, node.give + falling * node.size
    best_cost = cython.declare(cython.double[2])
    best_z = cython.declare(cython.double[2])
    best_cost[0] = best_cost[1] = far()
    best_z[0] = best_z[1] = 0.0
    for step in range(node.size):
        q: Index = node.size - 1 - step if falling else step
        mine: cython.int = node.side[q]
        other: cython.int = node.sides - 1 - mine
        taken[q] = node.cost[q] + (best_cost[other] + fabs(node.z[q] - best_z[other]))
        give[q] = far()
        if source[node.rows[q]]:
            give[q] = node.cost[q] - (best_cost[mine] + fabs(node.z[q] - best_z[mine]))
            if give[q] < -slack:
                best_cost[mine], best_z[mine] = node.cost[q], node.z[q]


@cython.cfunc
@cython.nogil
def follow(
    node: cython.pointer(Node), scale: cython.double, slack: cython.double, reference: FloatsOut, sums: TableOut
) -> cython.void:
    """Move each row's sums to the reference distance that the node asks for, and count distances from there."""
    taken, size = node.taken, node.size
    for q in range(size):
        row: Index = node.rows[q]
        nearest: cython.double = min(taken[q], taken[size + q])
        if nearest < reference[row] - slack:
            factor: cython.double = exp((nearest - reference[row]) * scale)
            for c in range(sums.shape[1]):
                sums[row, c] *= factor
            reference[row] = nearest
        taken[q] -= reference[row]
        taken[size + q] -= reference[row]


@cython.cfunc
@cython.nogil
def add(
    node: cython.pointer(Node), values: Table, slack: cython.double, falling: cython.bint, sums: TableOut
) -> cython.void:
    """Add to the rows what each receives; `received` and `given` are the weights of the plan."""
    columns: Index = values.shape[1]
    give, fresh, settled = node.give + falling * node.size, node.running, node.running + 2 * columns
    for c in range(4 * columns):
        fresh[c] = 0.0
    for step in range(node.size):
        q: Index = node.size - 1 - step if falling else step
        row: Index = node.rows[q]
        mine: Index = node.side[q] * columns
        other: Index = (node.sides - 1) * columns - mine
        weight: cython.double = node.received[q]
        to, value = cython.address(sums[row, 0]), cython.address(values[row, 0])
        for c in range(columns):
            to[c] += weight * (settled[other + c] + fresh[other + c])
        weight = node.given[q]
        if give[q] < -slack:
            for c in range(columns):
                settled[mine + c] = (settled[mine + c] + fresh[mine + c]) * weight
                fresh[mine + c] = 0.0
            weight = 1.0
        for c in range(columns):
            fresh[mine + c] += weight * value[c]
        if step & SETTLE == SETTLE:
            for c in range(2 * columns):
                settled[c] += fresh[c]
                fresh[c] = 0.0


@cython.cfunc
@cython.nogil
def part(node: cython.pointer(Node), order: cython.pointer(uint32_t), middle: Index) -> cython.void:
    """Put the points below the middle first, both parts in the order they had."""
    below: Index = 0
    above: Index = 0
    for q in range(node.size):
        place: uint32_t = node.rows[q]
        belongs: Index = place < middle
        order[below] = place
        node.rows[above] = place
        below += belongs
        above += 1 - belongs
    for q in range(above):
        order[below + q] = node.rows[q]


def sweep(
    points: Table, order: PlacesOut, spans: IntegerTable, source: Flags, values: Table, scale: cython.double,
    slack: cython.double, reference: FloatsOut, sums: TableOut,
) -> None:  # fmt: skip
    """Add the pairs between the two halves of each span of a plane, or all pairs of each span of a line but own ones.

    points (d, n), points[0] ascending within a span; `order` holds the places of a span sorted by the last coordinate,
    and is parted at the middle. Only sources (n,) give; sums (n, m) are relative to exp(-reference * scale).
    """
    widest: Index = np.diff(spans).max(initial=0)
    columns: Index = values.shape[1]
    last: Index = points.shape[0] - 1
    numbers: FloatsOut = np.empty(8 * widest + 4 * columns)
    sides: FlagsOut = np.empty(widest, np.uint8)
    rows: PlacesOut = np.empty(widest, np.uint32)
    node = cython.declare(Node)
    at = cython.address(numbers[0])
    node.sides, node.rows, node.side = last + 1, cython.address(rows[0]), cython.address(sides[0])
    with cython.nogil:
        for s in range(spans.shape[0]):
            low: Index = spans[s, 0]
            size: Index = spans[s, 1] - low
            middle: Index = low + size // 2
            node.size, node.z, node.cost, node.taken, node.give = size, at, at + size, at + 2 * size, at + 4 * size
            node.received, node.given, node.running = at + 6 * size, at + 7 * size, at + 8 * size
            for q in range(size):
                i: Index = order[low + q]
                node.rows[q], node.side[q], node.z[q] = i, last and i >= middle, points[last, i]
                node.cost[q] = fabs(points[0, i] - points[0, middle]) if last else 0.0
            for way in range(2):  # z rising, then falling
                plan(cython.address(node), source, slack, way)
            follow(cython.address(node), scale, slack, reference, sums)
            for way in range(2):
                decay(node.taken + way * size, size, scale, slack, node.received)
                decay(node.give + way * size, size, scale, slack, node.given)
                add(cython.address(node), values, slack, way, sums)
            if last:
                part(cython.address(node), cython.address(order[low]), middle)


def laplacian_energy(scores: Floats, residuals: Floats, bandwidth: cython.double) -> cython.double:
    """Σ_i Σ_j r_i r_j exp(-|s_i - s_j| / bandwidth) for sorted scores, in one sweep.

    The kernel factorises along a line: what lies to the left of a score is a single decaying sum.
    """
    from_left: cython.double = 0.0
    total: cython.double = 0.0
    with cython.nogil:
        for i in range(scores.shape[0]):
            if i > 0:
                from_left *= exp(-(scores[i] - scores[i - 1]) / bandwidth)
            total += residuals[i] * (2.0 * from_left + residuals[i])
            from_left += residuals[i]
    return total

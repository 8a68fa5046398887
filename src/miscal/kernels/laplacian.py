"""Exact sums of a Laplacian kernel over all pairs in one and two dimensions, in O(n log^(d-1) n): the loops.

Divide and conquer: split at the middle of one coordinate, sweep between the sides, go down each side. The list of
points sorted by the other coordinate goes down with its node by a stable partition, so that sorting is done once, at
the root, for all nodes and all bandwidths (`neighbours.laplacian_sums`).

One sweep adds every pair of points on opposite sides of the split in linear time. The points of a node are split at the
middle of the first coordinate and sorted by the last, z. Between opposite sides the distance is a sum of one number a
point and the difference in z,

    distance(i, j) = cost_i + cost_j + |z_i - z_j|,

so that one running sum a side, read and added to while z rises and again while it falls, serves all pairs.
Running sums are kept relative to a reference (the cost and z of one of their points), and each row's sums relative to a
reference distance, as `nearness.receive` says. Sums are added in two levels (`fresh`, `settled`), because one long
running sum of near-equal terms drifts.

What is summed is one tuple `sums`: source (n,) uint8, values (n, m), reference (n,), slack, scales (b,) and out
(b, n, m).
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, fabs
from cython.cimports.libc.stdint import uint8_t, uint32_t
from cython.cimports.miscal.kernels.kinds import (
    CubeOut, Flags, FlagsOut, Floats, FloatsOut, Index, Numbers, NumbersOut, PlacesOut, Table,
)  # fmt: skip
from cython.cimports.miscal.kernels.nearness import Sums, decay_or_rebase, distances, far, receive

LEAF = cython.declare(Index, 32)  # points of a plane below which all pairs are cheaper than another split
GIVES_ONLY = cython.declare(cython.int, 2)
SETTLE = cython.declare(Index, 255)  # a power of two less one: points after which the fresh sums are settled

# Points in the order in which they are swept, and room for what a sweep computes of them.
# `receive` and `give` are (2, size): the distance beyond the reference that a point receives from, and of the one it
# gives to, while z rises and while it falls. `running` is (2, 2, columns): the fresh and settled sums of each side.
Sweep = cython.struct(
    size=Index, kind=cython.pointer(uint8_t), source=cython.pointer(uint8_t), rows=cython.pointer(uint32_t),
    above=cython.pointer(uint32_t), z=NumbersOut, cost=NumbersOut, reference=NumbersOut, receive=NumbersOut,
    give=NumbersOut, received=NumbersOut, given=NumbersOut, values=NumbersOut, got=NumbersOut, running=NumbersOut,
)  # fmt: skip

# The points of a plane, points[0] ascending, and their places sorted by points[1].
Plane = cython.struct(points=Numbers, count=Index, order=cython.pointer(uint32_t))


@cython.cfunc
@cython.exceptval(check=True)
def opened(sums: tuple) -> Sums:
    """The arrays of the tuple, which outlives the call, as places in memory."""
    source: Flags = sums[0]
    values: Table = sums[1]
    reference: FloatsOut = sums[2]
    scales: Floats = sums[4]
    out: CubeOut = sums[5]
    if not (source.shape[0] == values.shape[0] == reference.shape[0] == out.shape[1] and out.shape[1] > 0):
        raise ValueError("source, values, reference and out must have as many rows")
    if out.shape[0] != scales.shape[0] or out.shape[2] != values.shape[1] or out.shape[0] * out.shape[2] == 0:
        raise ValueError("out must be (scales, rows, columns)")
    made = cython.declare(Sums)
    made.source, made.values = cython.address(source[0]), cython.address(values[0, 0])
    made.reference, made.slack, made.scales = cython.address(reference[0]), sums[3], cython.address(scales[0])
    made.out = cython.address(out[0, 0, 0])
    made.bands, made.rows, made.columns = out.shape[0], out.shape[1], out.shape[2]
    return made


@cython.cfunc
@cython.nogil
def room(numbers: FloatsOut, flags: FlagsOut, places: PlacesOut, size: Index, columns: Index) -> Sweep:
    """Cut the room of a sweep of at most `size` points from (9 + 2 columns) (size + 8) numbers and 2 size others."""
    made = cython.declare(Sweep)
    at = cython.address(numbers[0])
    made.size, made.z, made.cost, made.reference = size, at, at + size, at + 2 * size
    made.receive, made.give, made.received, made.given = at + 3 * size, at + 5 * size, at + 7 * size, at + 8 * size
    made.values, made.got = at + 9 * size, at + (9 + columns) * size
    made.running = at + (9 + 2 * columns) * size
    made.kind, made.source = cython.address(flags[0]), cython.address(flags[size])
    made.rows, made.above = cython.address(places[0]), cython.address(places[size])
    return made


@cython.cfunc
@cython.nogil
def plan(here: cython.pointer(Sweep), opposite: cython.int, slack: cython.double, rising: cython.bint) -> cython.void:
    """Fill, for each point in order of z, its distance beyond the reference it receives from and gives to."""
    size: Index = here.size
    z, cost, reference = here.z, here.cost, here.reference
    taken, give = here.receive + (0 if rising else size), here.give + (0 if rising else size)
    best_cost = cython.declare(cython.double[2])
    best_z = cython.declare(cython.double[2])
    best_cost[0] = best_cost[1] = far()
    best_z[0] = best_z[1] = 0.0
    for step in range(size):
        q: Index = step if rising else size - 1 - step
        mine: cython.int = here.kind[q]
        other: cython.int = mine ^ opposite
        distance: cython.double = cost[q] + (best_cost[other] + fabs(z[q] - best_z[other]))
        lead: cython.double = distance - reference[q]
        taken[q] = lead
        if lead < -slack:
            reference[q] = distance
        if here.source[q]:
            lead = cost[q] - (best_cost[mine] + fabs(z[q] - best_z[mine]))
            give[q] = lead
            if lead < -slack:
                best_cost[mine] = cost[q]
                best_z[mine] = z[q]
        else:
            give[q] = far()


@cython.cfunc
@cython.nogil
def add(
    here: cython.pointer(Sweep), opposite: cython.int, columns: Index, slack: cython.double, rising: cython.bint
) -> cython.void:
    """Add to got the sums that each point receives; `received` and `given` are the weights of the plan."""
    size: Index = here.size
    taken, give = here.receive + (0 if rising else size), here.give + (0 if rising else size)
    values, got, fresh, settled = here.values, here.got, here.running, here.running + 2 * columns
    for c in range(4 * columns):
        fresh[c] = 0.0
    for step in range(size):
        q: Index = step if rising else size - 1 - step
        mine: Index = here.kind[q] * columns
        other: Index = (here.kind[q] ^ opposite) * columns
        weight: cython.double = here.received[q]
        if taken[q] < -slack:
            for c in range(columns):
                got[q * columns + c] *= weight
            weight = 1.0
        for c in range(columns):
            got[q * columns + c] += weight * (settled[other + c] + fresh[other + c])
        weight = here.given[q]
        if give[q] < -slack:
            for c in range(columns):
                settled[mine + c] = (settled[mine + c] + fresh[mine + c]) * weight
                fresh[mine + c] = 0.0
            weight = 1.0
        for c in range(columns):
            fresh[mine + c] += weight * values[q * columns + c]
        if step & SETTLE == SETTLE:
            for c in range(2 * columns):
                settled[c] += fresh[c]
                fresh[c] = 0.0


@cython.cfunc
@cython.nogil
def sweep_here(here: cython.pointer(Sweep), kinds: cython.int, sums: cython.pointer(Sums)) -> cython.void:
    """Add to out[b, row] = sum over the opposite class of exp(-distance * scales[b]) * values, for every scale.

    The points are in ascending order of z; `rows` says where each lies in what is summed. Class k receives from class
    kinds - 1 - k. With a single class every point receives from every other.
    """
    size: Index = here.size
    columns: Index = sums.columns
    for q in range(size):
        row: Index = here.rows[q]
        here.source[q] = sums.source[row]
        here.reference[q] = sums.reference[row]
        for c in range(columns):
            here.values[q * columns + c] = sums.values[row * columns + c]
    for way in range(2):  # z rising, then falling
        plan(here, kinds - 1, sums.slack, way == 0)
    for b in range(sums.bands):
        for c in range(size * columns):
            here.got[c] = 0.0
        for way in range(2):
            decay_or_rebase(here.receive + way * size, size, sums.scales[b], sums.slack, here.received)
            decay_or_rebase(here.give + way * size, size, sums.scales[b], sums.slack, here.given)
            add(here, kinds - 1, columns, sums.slack, way == 0)
        for q in range(size):  # what each point got goes to its row, which first moves to the new reference
            row = here.rows[q]
            to = sums.out + (b * sums.rows + row) * columns
            if here.reference[q] < sums.reference[row]:
                factor: cython.double = exp((here.reference[q] - sums.reference[row]) * sums.scales[b])
                for c in range(columns):
                    to[c] *= factor
            for c in range(columns):
                to[c] += here.got[q * columns + c]
    for q in range(size):
        sums.reference[here.rows[q]] = here.reference[q]


@cython.cfunc
@cython.nogil
def all_pairs(
    low: Index, high: Index, of: cython.pointer(Plane), scratch: NumbersOut, sums: cython.pointer(Sums)
) -> cython.void:
    """Add all pairs of points low..high, except a point with itself; room for 3 + columns numbers a point."""
    size: Index = high - low
    distance, weight, barrier, values = scratch, scratch + size, scratch + 2 * size, scratch + 3 * size
    point = cython.declare(cython.double[2])
    for j in range(size):
        for c in range(sums.columns):
            values[c * size + j] = sums.values[(low + j) * sums.columns + c]
        barrier[j] = 0.0 if sums.source[low + j] else far()
    for i in range(low, high):
        if sums.source[i] == GIVES_ONLY:
            continue
        point[0], point[1] = of.points[i], of.points[of.count + i]
        distances(of.points + low, of.count, 2, point, size, False, distance)
        for j in range(size):
            distance[j] += barrier[j]
        distance[i - low] = far()
        receive(distance, weight, size, values, size, sums, i)


@cython.cfunc
@cython.nogil
def split(
    low: Index, high: Index, of: cython.pointer(Plane), here: cython.pointer(Sweep), sums: cython.pointer(Sums)
) -> cython.void:
    """Sweep between the two halves of points low..high of a plane, then partition its order."""
    middle: Index = (low + high) // 2
    border: cython.double = of.points[middle]
    order = of.order + low
    for q in range(high - low):
        i: Index = order[q]
        here.z[q] = of.points[of.count + i]
        here.cost[q] = fabs(of.points[i] - border)
        here.kind[q] = i >= middle
        here.rows[q] = i
    here.size = high - low
    sweep_here(here, 2, sums)
    below: Index = 0
    above: Index = 0
    for q in range(high - low):  # those below the middle come first, both parts in the order they had
        place: uint32_t = order[q]
        here.above[above] = place
        order[below] = place
        belongs: Index = place < middle
        below += belongs
        above += 1 - belongs
    for q in range(above):
        order[below + q] = here.above[q]


@cython.cfunc
@cython.nogil
def descend(
    low: Index, high: Index, of: cython.pointer(Plane), here: cython.pointer(Sweep), sums: cython.pointer(Sums)
) -> cython.void:
    """Add all pairs among points low..high of a plane."""
    stack = cython.declare(Index[128])
    depth: Index = 1
    stack[0], stack[1] = low, high
    while depth > 0:
        depth -= 1
        start: Index = stack[2 * depth]
        stop: Index = stack[2 * depth + 1]
        if stop - start <= LEAF:
            all_pairs(start, stop, of, here.z, sums)
            continue
        split(start, stop, of, here, sums)
        middle: Index = (start + stop) // 2
        stack[2 * depth], stack[2 * depth + 1] = middle, stop
        stack[2 * depth + 2], stack[2 * depth + 3] = start, middle
        depth += 2


def add_pairs(low: Index, high: Index, order: PlacesOut, points: Table, whole: cython.bint, sums: tuple) -> None:
    """Add all pairs among points low..high, points[0] ascending; if not `whole`, those between its two halves alone.

    `order` holds the positions of points of a plane sorted by points[1]; it is partitioned at the middle of every
    split. The points of a line, (1, n), have none and are always added whole.
    """
    to: Sums = opened(sums)
    size: Index = high - low
    numbers: FloatsOut = np.empty((9 + 2 * to.columns) * (size + 8))
    flags: FlagsOut = np.empty(2 * size, np.uint8)
    places: PlacesOut = np.empty(2 * size, np.uint32)
    of = cython.declare(Plane)
    of.points, of.count = cython.address(points[0, 0]), points.shape[1]
    if points.shape[0] > 1:
        of.order = cython.address(order[0])
    with cython.nogil:
        here: Sweep = room(numbers, flags, places, size, to.columns)
        if points.shape[0] == 1:
            for q in range(size):
                here.z[q], here.cost[q], here.kind[q], here.rows[q] = points[0, low + q], 0.0, 0, low + q
            sweep_here(cython.address(here), 1, cython.address(to))
        elif whole:
            descend(low, high, cython.address(of), cython.address(here), cython.address(to))
        else:
            split(low, high, cython.address(of), cython.address(here), cython.address(to))


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

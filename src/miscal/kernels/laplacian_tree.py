"""Divide and conquer: split at the middle of one coordinate, sweep between the sides, go down each side.

Every list of points sorted by another coordinate goes down with its node by a stable partition, so that sorting is done
once, at the root, for all nodes and all bandwidths.
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.fast_exp import decay
from miscal.kernels.jit import kernel
from miscal.kernels.laplacian_sweep import FAR, sweep

LEAF = 32  # points below which all pairs are cheaper than another split


@kernel
def _distances(first, second, third, j, side, sides, distance):
    x, y, z = first[j], second[j], third[j]
    for i in range(first.size):
        distance[i] = abs(first[i] - x) + abs(second[i] - y) + abs(third[i] - z)
    if sides == 2:
        mine = side[j]
        for i in range(first.size):
            if side[i] == mine:
                distance[i] = FAR
    distance[j] = FAR


@kernel
def _add(weight, value, total):
    for i in range(weight.size):
        total[i] += weight[i] * value


@kernel
def _move_references(first, second, third, side, sides, rows, source, reference, slack, scales, out, distance, nearest):
    """Bring each row's reference to its nearest source within the leaf where that is closer by more than the slack."""
    for i in range(first.size):
        nearest[i] = FAR
    for j in range(first.size):
        if source[rows[j]]:
            _distances(first, second, third, j, side, sides, distance)
            for i in range(first.size):
                nearest[i] = min(nearest[i], distance[i])
    for i in range(first.size):
        row = rows[i]
        lead = nearest[i] - reference[row]
        if lead < -slack:
            reference[row] = nearest[i]
            for b in range(scales.size):
                factor = np.exp(lead * scales[b])
                for c in range(out.shape[2]):
                    out[b, row, c] *= factor


@kernel
def leaf(first, second, third, side, sides, rows, source, values, reference, moving, slack, scales, out):
    """Add all pairs of a small node, except a point with itself; with two sides, opposite sides only."""
    size = first.size
    distance, weight, offset = np.empty(size), np.empty(size), np.empty(size)
    if moving:
        _move_references(
            first, second, third, side, sides, rows, source, reference, slack, scales, out, distance, weight
        )  # fmt: skip
    for i in range(size):
        offset[i] = reference[rows[i]]
    total = np.zeros((scales.size, values.shape[1], size))
    for j in range(size):
        row = rows[j]
        if source[row]:
            _distances(first, second, third, j, side, sides, distance)
            if moving:
                for i in range(size):  # what is left out stays out, also where there is no reference yet
                    distance[i] = distance[i] - offset[i] if distance[i] < FAR else FAR
            for b in range(scales.size):
                decay(distance, scales[b], weight)
                for c in range(values.shape[1]):
                    _add(weight, values[row, c], total[b, c])
    for b in range(scales.size):
        for i in range(size):
            for c in range(values.shape[1]):
                out[b, rows[i], c] += total[b, c, i]


@kernel
def partition(order, middle):
    """Put the entries below `middle` first, both parts in the order they had."""
    above = np.empty(order.size, order.dtype)
    low, high = 0, 0
    for q in range(order.size):
        i = order[q]
        above[high] = i
        order[low] = i
        belongs_low = i < middle
        low += belongs_low
        high += 1 - belongs_low
    for q in range(high):
        order[low + q] = above[q]


@kernel
def split_plane(
    low, high, order, first, second, cost, side, sides, rows, source, values, reference, slack, scales, out
):
    """Sweep between the two halves of points low..high of a plane, then partition `order` (positions by `second`)."""
    size = high - low
    middle = (low + high) // 2
    border = first[middle]
    here = order[low:high]
    z, cost_here, kind, rows_here = np.empty(size), np.empty(size), np.empty(size, np.uint8), np.empty(size, np.uint32)
    for q in range(size):
        i = here[q]
        z[q] = second[i]
        cost_here[q] = cost[i] + abs(first[i] - border)
        kind[q] = side[i] + sides * (i >= middle)
        rows_here[q] = rows[i]
    sweep(z, cost_here, kind, 2 * sides, rows_here, source, values, reference, slack, scales, out)
    partition(here, middle)


@kernel
def plane(
    low,
    high,
    order,
    first,
    second,
    third,
    cost,
    side,
    sides,
    rows,
    source,
    values,
    reference,
    moving,
    slack,
    scales,
    out,
):
    """Add all pairs among points low..high, `first` ascending; with two sides only those between the sides.

    `order` holds their positions sorted by `second`. With two sides `third` is the coordinate they were split on and
    `cost` the distance to that split; with one side both are 0.
    """
    stack = np.empty((64, 2), np.int64)
    stack[0, 0], stack[0, 1] = low, high
    depth = 1
    while depth > 0:
        depth -= 1
        start, stop = stack[depth, 0], stack[depth, 1]
        if stop - start <= LEAF:
            leaf(
                first[start:stop], second[start:stop], third[start:stop], side[start:stop], sides, rows[start:stop],
                source, values, reference, moving, slack, scales, out,
            )  # fmt: skip
            continue
        split_plane(
            start, stop, order, first, second, cost, side, sides, rows, source, values, reference, slack, scales, out
        )  # fmt: skip
        middle = (start + stop) // 2
        stack[depth, 0], stack[depth, 1] = middle, stop
        stack[depth + 1, 0], stack[depth + 1, 1] = start, middle
        depth += 2


@kernel
def split_space(
    low, high, by_second, by_third, first, second, third, source, values, reference, moving, slack, scales, out
):
    """Add the pairs between the two halves of points low..high of a space, then partition both orders."""
    size = high - low
    middle = (low + high) // 2
    border = first[middle]
    here = by_second[low:high]
    y, z, x, cost = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    side, order, rank = np.empty(size, np.uint8), np.empty(size, np.uint32), np.empty(size, np.uint32)
    for q in range(size):
        i = here[q]
        y[q], z[q], x[q] = second[i], third[i], first[i]
        cost[q] = abs(first[i] - border)
        side[q] = i >= middle
        rank[i - low] = q
    for q in range(size):
        order[q] = rank[by_third[low + q] - low]
    plane(
        0, size, order, y, z, x, cost, side, 2, here, source, values, reference, moving, slack, scales, out
    )  # fmt: skip
    partition(here, middle)
    partition(by_third[low:high], middle)

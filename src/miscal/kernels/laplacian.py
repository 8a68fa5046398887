"""Exact sums of a Laplacian kernel over all pairs in one to three dimensions, in O(n log^(d-1) n).

Divide and conquer: split at the middle of one coordinate, sweep between the sides, go down each side. Every list of
points sorted by another coordinate goes down with its node by a stable partition, so that sorting is done once, at the
root, for all nodes and all bandwidths.

One sweep adds every pair of points on opposite sides of the splits in linear time. The points of a node are split at
the middle of every coordinate but the last, and sorted by the last, z. Between opposite sides the distance is a sum of
one number a point and the difference in z,

    distance(i, j) = cost_i + cost_j + |z_i - z_j|,

so that one running sum a class of sides, read and added to while z rises and again while it falls, serves all pairs.
Running sums are kept relative to a reference (the cost and z of one of their points), and each row's sums relative to a
reference distance, as `pairs.receive` says. Sums are added in two levels (`fresh`, `settled`), because one long running
sum of near-equal terms drifts.

What is summed is one tuple `sums`: source (n,), values (n, m), reference (n,), slack, scales (b,) and out (b, n, m).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from miscal.kernels.arithmetic import decay_or_rebase
from miscal.kernels.jit import kernel
from miscal.kernels.pairs import FAR, SLACK, distances, receive
from miscal.kernels.sorting import sorted_order
from miscal.kernels.threads import over_blocks

Array = np.ndarray[Any, Any]
Span = tuple[int, int]

GRAIN = 1 << 14  # points below which a subtree is one task
LEAF = 32  # points of a plane below which all pairs are cheaper than another split
SPACE_LEAF = 512  # and points of a space
MANY = 5000  # numbers from which sorting by digits is quicker
GIVES_ONLY = 2
SETTLE = 255  # a power of two less one: how many points the fresh sums take before they are settled


@kernel
def plan_sweep(z, cost, kind, opposite, source, reference, slack, rising, receive, give):
    """Fill, for each point in order of z, its distance beyond the reference it receives from and gives to."""
    size = z.size
    best_cost = np.full(4, FAR)
    best_z = np.zeros(4)
    for step in range(size):
        q = step if rising else size - 1 - step
        mine = kind[q]
        other = np.uint8(mine ^ opposite)
        distance = cost[q] + (best_cost[other] + abs(z[q] - best_z[other]))
        lead = distance - reference[q]
        receive[q] = lead
        if lead < -slack:
            reference[q] = distance
        if source[q]:
            lead = cost[q] - (best_cost[mine] + abs(z[q] - best_z[mine]))
            give[q] = lead
            if lead < -slack:
                best_cost[mine] = cost[q]
                best_z[mine] = z[q]
        else:
            give[q] = FAR


@kernel
def add_sweep(kind, opposite, values, receive, give, received, given, slack, rising, got):
    """Add to got the sums that each point receives; `received` and `given` are the weights of the plan."""
    size, columns = values.shape
    fresh = np.zeros((4, columns))
    settled = np.zeros((4, columns))
    for step in range(size):
        q = step if rising else size - 1 - step
        mine = kind[q]
        other = np.uint8(mine ^ opposite)
        weight = received[q]
        if receive[q] < -slack:
            for c in range(columns):
                got[q, c] *= weight
            weight = 1.0
        for c in range(columns):
            got[q, c] += weight * (settled[other, c] + fresh[other, c])
        weight = given[q]
        if give[q] < -slack:
            for c in range(columns):
                settled[mine, c] = (settled[mine, c] + fresh[mine, c]) * weight
                fresh[mine, c] = 0.0
            weight = 1.0
        for c in range(columns):
            fresh[mine, c] += weight * values[q, c]
        if step & SETTLE == SETTLE:
            for k in range(4):
                for c in range(columns):
                    settled[k, c] += fresh[k, c]
                    fresh[k, c] = 0.0


@kernel
def deliver(rows, before, after, scale, got, out):
    """Add what each point got to its row of out, which first moves to the new reference."""
    for q in range(rows.size):
        row = rows[q]
        if after[q] < before[row]:
            factor = np.exp((after[q] - before[row]) * scale)
            for c in range(got.shape[1]):
                out[row, c] *= factor
        for c in range(got.shape[1]):
            out[row, c] += got[q, c]


@kernel
def sweep(z, cost, kind, kinds, rows, sums):
    """Add to out[b, row] = sum over the opposite class of exp(-distance * scales[b]) * values, for every scale.

    The points are given in ascending order of `z`; `rows` says where each lies in what is summed. Class k receives from
    class kinds - 1 - k. With a single class every point receives from every other.
    """
    source, values, reference, slack, scales, out = sums
    size, columns = z.size, values.shape[1]
    opposite = np.uint8(kinds - 1)
    source_here, values_here, reference_here = np.empty(size, np.uint8), np.empty((size, columns)), np.empty(size)
    for q in range(size):
        row = rows[q]
        source_here[q] = source[row]
        reference_here[q] = reference[row]
        for c in range(columns):
            values_here[q, c] = values[row, c]
    receive, give = np.empty((2, size)), np.empty((2, size))
    for way in range(2):  # z rising, then falling
        plan_sweep(z, cost, kind, opposite, source_here, reference_here, slack, way == 0, receive[way], give[way])
    got, received, given = np.empty((size, columns)), np.empty(size), np.empty(size)
    for b in range(scales.size):
        got[:] = 0.0
        for way in range(2):
            decay_or_rebase(receive[way], scales[b], slack, received)
            decay_or_rebase(give[way], scales[b], slack, given)
            add_sweep(kind, opposite, values_here, receive[way], give[way], received, given, slack, way == 0, got)
        deliver(rows, reference, reference_here, scales[b], got, out[b])
    for q in range(size):
        reference[rows[q]] = reference_here[q]


@kernel
def leaf(low, high, points, side, sides, rows, sums):
    """Add all pairs of points low..high of (d, n), except a point with itself; with two sides, opposite sides only."""
    source, values, reference, slack, scales, out = sums
    size, columns = high - low, values.shape[1]
    values_here, barrier = np.empty((columns, size)), np.zeros((2, size))  # what keeps a side from receiving
    for j in range(size):
        row = rows[low + j]
        for c in range(columns):
            values_here[c, j] = values[row, c]
        if not source[row]:
            barrier[:, j] = FAR
        elif sides == 2:
            barrier[side[low + j], j] = FAR
    distance, weight, point = np.empty(size), np.empty(size), np.empty(points.shape[0])
    for i in range(low, high):
        if source[rows[i]] == GIVES_ONLY:
            continue
        for k in range(point.size):
            point[k] = points[k, i]
        distances(points, point, low, high, False, distance)
        distance += barrier[side[i]]
        distance[i - low] = FAR
        receive(distance, weight, values_here, 0, scales, slack, rows[i], reference, out)


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
def split_plane(low, high, order, points, cost, side, sides, rows, sums):
    """Sweep between the two halves of points low..high of a plane, then partition `order` (positions by points[1])."""
    size = high - low
    middle = (low + high) // 2
    border = points[0, middle]
    here = order[low:high]
    z, cost_here, kind, rows_here = np.empty(size), np.empty(size), np.empty(size, np.uint8), np.empty(size, np.uint32)
    for q in range(size):
        i = here[q]
        z[q] = points[1, i]
        cost_here[q] = cost[i] + abs(points[0, i] - border)
        kind[q] = side[i] + sides * (i >= middle)
        rows_here[q] = rows[i]
    sweep(z, cost_here, kind, 2 * sides, rows_here, sums)
    partition(here, middle)


@kernel
def plane(low, high, order, points, cost, side, sides, rows, sums):
    """Add all pairs among points low..high, points[0] ascending; with two sides only those between the sides.

    `order` holds their positions sorted by points[1]. With two sides points[2] is the coordinate they were split on and
    `cost` the distance to that split; with one side the cost is 0.
    """
    stack = np.empty((64, 2), np.int64)
    stack[0, 0], stack[0, 1] = low, high
    depth = 1
    while depth > 0:
        depth -= 1
        start, stop = stack[depth, 0], stack[depth, 1]
        if stop - start <= LEAF:
            leaf(start, stop, points, side, sides, rows, sums)
            continue
        split_plane(start, stop, order, points, cost, side, sides, rows, sums)
        middle = (start + stop) // 2
        stack[depth, 0], stack[depth, 1] = middle, stop
        stack[depth + 1, 0], stack[depth + 1, 1] = start, middle
        depth += 2


@kernel
def split_space(low, high, by_second, by_third, points, sums):
    """Add the pairs between the two halves of points low..high of a space, then partition both orders."""
    size = high - low
    middle = (low + high) // 2
    border = points[0, middle]
    here = by_second[low:high]
    turned, cost = np.empty((3, size)), np.empty(size)
    side, order, rank = np.empty(size, np.uint8), np.empty(size, np.uint32), np.empty(size, np.uint32)
    for q in range(size):
        i = here[q]
        turned[0, q], turned[1, q], turned[2, q] = points[1, i], points[2, i], points[0, i]
        cost[q] = abs(points[0, i] - border)
        side[q] = i >= middle
        rank[i - low] = q
    for q in range(size):
        order[q] = rank[by_third[low + q] - low]
    plane(0, size, order, turned, cost, side, 2, here, sums)
    partition(here, middle)
    partition(by_third[low:high], middle)


@kernel
def laplacian_energy(scores, residuals, bandwidth):
    """Σ_i Σ_j r_i r_j exp(-|s_i - s_j| / bandwidth) for sorted scores, in one sweep.

    The kernel factorises along a line: what lies to the left of a score is a single decaying sum.
    """
    from_left = 0.0
    total = 0.0
    for i in range(scores.size):
        if i > 0:
            from_left *= math.exp(-(scores[i] - scores[i - 1]) / bandwidth)
        total += residuals[i] * (2.0 * from_left + residuals[i])
        from_left += residuals[i]
    return total


def laplacian_sums(
    points: Array, starts: Array, source: Array, values: Array, scales: Array, own: bool
) -> tuple[Array, Array]:
    """Sum exp(-L1 distance * scale) * values over all sources of each point's cell.

    Parameters
    ----------
    points : (d, n) float64, d = 1, 2 or 3
        Coordinates; the points of a cell lie together.
    starts : (cells + 1,) int64
        Where each cell begins.
    source : (n,) uint8
        1: a point that is summed over and receives, 2: one that is summed over only, 0: one that receives only.
    values : (n, m) float64
        Columns to be summed; 0 where not a source.
    scales : (b,) float64
        Inverse bandwidths, all > 0.
    own : bool
        Whether a source counts for itself.

    Returns
    -------
    sums : (b, n, m) float64
        The sums times exp(reference * scale); of no meaning where a point does not receive.
    reference : (n,) float64
        0 where a point counts for itself, otherwise near the distance of its nearest source, 1e300 when it has none.
    """
    spans = [(low, high) for low, high in pairwise(starts.tolist()) if high > low]
    by_first = _orders(points[0], spans)
    placed = np.stack([coordinate.take(by_first) for coordinate in points])
    sources, columns = source.take(by_first), values.take(by_first, axis=0)
    alone = (sources == 1) & own | (sources == GIVES_ONLY)
    reference = np.where(alone, 0.0, FAR)
    out = np.where(alone[:, None], columns, 0.0)[None].repeat(scales.size, axis=0)
    _add_all(placed, spans, (sources, columns, reference, SLACK / float(scales.max()), scales, out))
    sums, nearest = np.empty_like(out), np.empty_like(reference)
    for b in range(scales.size):
        sums[b][by_first] = out[b]
    nearest[by_first] = reference
    return sums, nearest


def _orders(key: Array, spans: list[Span]) -> Array:
    """Positions sorted by the key within each span."""
    order = np.empty(key.size, np.uint32)
    key = np.ascontiguousarray(key)

    def work(start: int, stop: int) -> None:
        for low, high in spans[start:stop]:
            here = key[low:high]
            order[low:high] = sorted_order(here) if here.size >= MANY else np.argsort(here, kind="stable")
            order[low:high] += low

    over_blocks(len(spans), work, block=1)
    return order


def _add_all(points: Array, spans: list[Span], sums: tuple[Any, ...]) -> None:
    """Add all pairs of each span, within which points[0] ascends."""
    orders = [_orders(each, spans) for each in points[1:]]
    rows, nothing = np.arange(points.shape[1], dtype=np.uint32), np.zeros(points.shape[1])
    side = np.zeros(rows.size, np.uint8)

    def lines(start: int, stop: int) -> None:
        for low, high in spans[start:stop]:
            sweep(points[0, low:high], nothing[low:high], side[low:high], 1, rows[low:high], sums)

    def split(low: int, high: int) -> None:
        if len(points) == 2:
            split_plane(low, high, *orders, points, nothing, side, 1, rows, sums)
        else:
            split_space(low, high, *orders, points, sums)

    def whole(low: int, high: int) -> None:
        if len(points) == 2:
            plane(low, high, *orders, points, nothing, side, 1, rows, sums)
        elif high - low <= SPACE_LEAF:
            leaf(low, high, points, side, 1, rows, sums)
        else:
            split(low, high)
            whole(low, (low + high) // 2)
            whole((low + high) // 2, high)

    if len(points) == 1:
        over_blocks(len(spans), lines, block=1)
    else:
        _descend(spans, whole, split)


def _descend(spans: list[Span], whole: Callable[[int, int], None], split: Callable[[int, int], None]) -> None:
    """Split large spans level by level and finish small ones; the spans of a level are tasks of the thread pool.

    A row receives once from each level and levels follow each other, so the sums have the same bits for any threads.
    """
    while spans:
        spans = sorted(spans, key=lambda span: (span[0] - span[1], span[0]))

        def work(start: int, stop: int, spans: list[Span] = spans) -> None:
            for low, high in spans[start:stop]:
                (whole if high - low <= GRAIN else split)(low, high)

        over_blocks(len(spans), work, block=1)
        halves = [(low, (low + high) // 2, high) for low, high in spans if high - low > GRAIN]
        spans = [half for low, middle, high in halves for half in ((low, middle), (middle, high))]

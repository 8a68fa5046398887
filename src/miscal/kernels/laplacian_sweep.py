"""One sweep: sums of exp(-distance) over every pair of points on opposite sides of the splits, in linear time.

The points of a node are split at the middle of every coordinate but the last, and sorted by the last, z. Between
opposite sides the distance is a sum of one number a point and the difference in z,

    distance(i, j) = cost_i + cost_j + |z_i - z_j|,

so that one running sum a class of sides, read and added to while z rises and again while it falls, serves all pairs.

Running sums are kept relative to a reference (the cost and z of one of their points), and each row's sums relative to a
reference distance. A reference is replaced only when a point is closer than it by more than `slack`, so that nothing
overflows, the nearest points never underflow, and there are few roundings. Sums are added in two levels (`fresh`,
`settled`), because one long running sum of near-equal terms drifts.
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.fast_exp import decay_or_rebase
from miscal.kernels.jit import kernel

FAR = 1e300  # the distance of what is not there: finite, so that FAR - FAR is 0 and not NaN
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
def _deliver(rows, before, after, scale, got, out):
    for q in range(rows.size):
        row = rows[q]
        if after[q] < before[row]:
            factor = np.exp((after[q] - before[row]) * scale)
            for c in range(got.shape[1]):
                out[row, c] *= factor
        for c in range(got.shape[1]):
            out[row, c] += got[q, c]


@kernel
def sweep(z, cost, kind, kinds, rows, source, values, reference, slack, scales, out):
    """Add to out[b, row] = sum over the opposite class of exp(-distance * scales[b]) * values, for every scale.

    The points are given in ascending order of `z`; `rows` says where each lies in source, values, reference and out.
    Class k receives from class kinds - 1 - k. With a single class every point receives from every other.
    """
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
        for q in range(size):
            for c in range(columns):
                got[q, c] = 0.0
        for way in range(2):
            decay_or_rebase(receive[way], scales[b], slack, received)
            decay_or_rebase(give[way], scales[b], slack, given)
            add_sweep(kind, opposite, values_here, receive[way], give[way], received, given, slack, way == 0, got)
        _deliver(rows, reference, reference_here, scales[b], got, out[b])
    for q in range(size):
        reference[rows[q]] = reference_here[q]

"""Draws of the largest error over subpopulations: all draws of a block walk the lists together."""

from __future__ import annotations

import numpy as np

from miscal.kernels.jit import kernel
from miscal.kernels.simulate import mixed, uniform


@kernel
def bernoulli_steps(signed, weight, first, seed, steps):
    """Fill steps[row, draw] with w(y* - s), y* ~ Bernoulli(s); weight is empty when all are 1."""
    for b in range(steps.shape[1]):
        own = mixed(seed, np.uint64(first + b))
        for i in range(signed.size):
            score = abs(signed[i])
            step = 1.0 - score if uniform(own, np.uint64(i)) < score else -score
            steps[i, b] = step * weight[i] if weight.size else step


@kernel
def flipped_steps(residual, unit, first, seed, steps):
    """Fill steps[row, draw] with ±residual, one sign a unit (a row, or its cluster)."""
    for b in range(steps.shape[1]):
        own = mixed(seed, np.uint64(first + b))
        for i in range(residual.size):
            flip = mixed(own, np.uint64(unit[i] if unit.size else i)) >> np.uint64(63)
            steps[i, b] = residual[i] if flip else -residual[i]


@kernel
def simulated_maxima(signed, members, offsets, scale, ends_only, steps, maxima):
    """Largest scale·range over the lists for every draw: maxima (draws,). With `ends_only`, |end| in the range's place.

    All draws walk a list together, so each row's position is looked up once and the draws fill a vector register.
    """
    lanes = steps.shape[1]
    total, high, low = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    for b in range(lanes):
        maxima[b] = 0.0
    for k in range(scale.size):
        for b in range(lanes):
            total[b], high[b], low[b] = 0.0, 0.0, 0.0
        before = -1.0
        for q in range(offsets[k], offsets[k + 1]):
            i = members[q]
            score = abs(signed[i])
            if score != before and not ends_only:
                before = score
                for b in range(lanes):
                    value = total[b]
                    high[b] = value if value > high[b] else high[b]
                    low[b] = value if value < low[b] else low[b]
            for b in range(lanes):
                total[b] += steps[i, b]
        for b in range(lanes):
            span = max(high[b], total[b]) - min(low[b], total[b])
            span = abs(total[b]) if ends_only else span
            maxima[b] = max(maxima[b], span * scale[k])


@kernel
def bernoulli_events(signed, first, seed, draws):
    """Rows with an event in the draws of `bernoulli_steps`, draw after draw: rows and where each draw starts."""
    starts = np.zeros(draws + 1, np.int64)
    for b in range(draws):
        own = mixed(seed, np.uint64(first + b))
        found = 0
        for i in range(signed.size):
            found += uniform(own, np.uint64(i)) < abs(signed[i])
        starts[b + 1] = starts[b] + found
    rows = np.empty(starts[draws] + 1, np.int32)  # one place more: a row is written before it is known to count
    for b in range(draws):
        own = mixed(seed, np.uint64(first + b))
        found = starts[b]
        for i in range(signed.size):
            rows[found] = i
            found += uniform(own, np.uint64(i)) < abs(signed[i])
    return rows, starts


@kernel
def _falls(signed, weight, members, number, falls, mark):
    """For each row of a list the sum of w·s below its score and up to it, ties included; returns the sum of all."""
    total = 0.0
    start = 0
    while start < members.size:
        score = abs(signed[members[start]])
        below = total
        stop = start
        while stop < members.size and abs(signed[members[stop]]) == score:
            total += score * weight[members[stop]] if weight.size else score
            stop += 1
        for q in range(start, stop):
            i = members[q]
            falls[i, 0], falls[i, 1] = below, total
            mark[i] = number
        start = stop
    return total


@kernel
def event_maxima(signed, weight, members, offsets, scale, ends_only, rows, starts, maxima):
    """As `simulated_maxima` where events are rare: between two events a walk only falls, so only events are visited.

    rows, starts : of `bernoulli_events`. The sums are grouped differently, so the last digits may differ.
    """
    falls, mark = np.empty((signed.size, 2)), np.full(signed.size, -1, np.int32)
    maxima[:] = 0.0
    for k in range(scale.size):
        fallen = _falls(signed, weight, members[offsets[k] : offsets[k + 1]], k, falls, mark)
        for b in range(maxima.size):
            risen, high, low, end, before = 0.0, 0.0, 0.0, 0.0, -1.0
            for e in range(starts[b], starts[b + 1]):
                i = rows[e]
                if mark[i] != k:
                    continue
                score = abs(signed[i])
                if score != before:  # the walk ends a block of ties here, and falls to where the next one begins
                    high = max(high, risen - end)
                    low = min(low, risen - falls[i, 0])
                    before = score
                risen += weight[i] if weight.size else 1.0
                end = falls[i, 1]
            total = risen - fallen
            high, low = max(high, risen - end, total), min(low, total)
            span = abs(total) if ends_only else high - low
            maxima[b] = max(maxima[b], span * scale[k])

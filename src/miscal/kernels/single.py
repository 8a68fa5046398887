"""One row at a time: its distances to the rows of its cell, and its way through a list of shifts."""

from __future__ import annotations

import numpy as np

from miscal.kernels.fast_exp import decay, fused
from miscal.kernels.jit import kernel


@fused
def row_sums(numbers, codes, values, start, stop, point, levels, apart, unknown, scale, square):
    """Sum of values over rows start .. stop - 1, weighted by exp(-scale (distance - least distance)).

    Rows lie along the last axis: numbers (a, n), codes (b, n), values (2, n). The distance to the point is the sum of
    |difference| (or of its square) over the numbers, plus apart[j] wherever code j is another level than the point's;
    a level below 0 is known nowhere and adds unknown[j] everywhere.
    """
    size = stop - start
    distance, weight = np.zeros(size), np.empty(size)
    for j in range(numbers.shape[0]):
        row, at = numbers[j, start:stop], point[j]
        if square:
            for i in range(size):
                distance[i] += (row[i] - at) * (row[i] - at)
        else:
            for i in range(size):
                distance[i] += abs(row[i] - at)
    for j in range(codes.shape[0]):
        level = levels[j]
        if level < 0:
            for i in range(size):
                distance[i] += unknown[j]
            continue
        found, away = codes[j, start:stop], apart[j]
        for i in range(size):
            distance[i] += 0.0 if found[i] == level else away
    least = np.inf
    for i in range(size):
        least = min(least, distance[i])
    for i in range(size):
        distance[i] -= least
    decay(distance, scale, weight)
    first, second = 0.0, 0.0
    for i in range(size):
        first += weight[i] * values[0, start + i]
        second += weight[i] * values[1, start + i]
    return first, second


@kernel
def shifted(score, holds, member_starts, member_of, visit_of, starts, cell, shift, cells):
    """Shift a score at every visit to a subpopulation it belongs to, by the shift of its cell, held within [0, 1].

    Subpopulation k is where all the conditions member_of[member_starts[k] : member_starts[k + 1]] hold. Visit v is to
    visit_of[v]; its shifts are starts[v] .. starts[v + 1] - 1, of the cells `cell`.
    """
    inside = np.ones(member_starts.size - 1, np.bool_)
    for k in range(inside.size):
        for i in range(member_starts[k], member_starts[k + 1]):
            inside[k] &= holds[member_of[i]]
    for v in range(visit_of.size):
        if not inside[visit_of[v]]:
            continue
        own = min(max(int(np.ceil(score * cells)) - 1, 0), cells - 1)
        for i in range(starts[v], starts[v + 1]):
            if cell[i] == own:
                score = min(max(score + shift[i], 0.0), 1.0)
                break
    return score

"""Draws of the largest error over subpopulations: all draws of a block walk the lists together."""

from __future__ import annotations

import numpy as np

from miscal.kernels.jit import kernel
from miscal.kernels.simulate import mixed


@kernel
def bernoulli_steps(signed, weight, first, seed, steps):
    """Fill steps[row, draw] with w(y* - s), y* ~ Bernoulli(s); weight is empty when all are 1."""
    for b in range(steps.shape[1]):
        own = mixed(seed, np.uint64(first + b))
        for i in range(signed.size):
            score = abs(signed[i])
            hit = np.float64(mixed(own, np.uint64(i)) >> np.uint64(11)) * 1.1102230246251565e-16 < score
            step = 1.0 - score if hit else -score
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

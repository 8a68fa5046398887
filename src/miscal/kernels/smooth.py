"""Residuals and weight on a fine grid of scores, each row shared between its two neighbours."""

from __future__ import annotations

import math

from miscal.kernels.jit import inlined, kernel


@kernel
def on_grid(predicted, observed, weight, result):
    """Add each row's residual to a grid over [0, 1]; result : (nodes, 2) = Σw(p - y), Σw."""
    steps = result.shape[0] - 1
    for i in range(predicted.size):
        p = predicted[i]
        place = p * steps
        left = min(int(place), steps - 1)
        part = place - left
        w = weight[i] if weight.size else 1.0
        residual = (p - float(observed[i])) * w
        result[left, 0] += (1.0 - part) * residual
        result[left, 1] += (1.0 - part) * w
        result[left + 1, 0] += part * residual
        result[left + 1, 1] += part * w


@inlined
def _decay(distance, bandwidth):
    return math.exp(-distance / bandwidth)


@kernel
def laplacian_energy(scores, residuals, bandwidth):
    """Σ_i Σ_j r_i r_j exp(-|s_i - s_j| / bandwidth) for sorted scores, in one sweep.

    The kernel factorises along a line: what lies to the left of a score is a single decaying sum.
    """
    from_left = 0.0
    total = 0.0
    for i in range(scores.size):
        if i > 0:
            from_left *= _decay(scores[i] - scores[i - 1], bandwidth)
        total += residuals[i] * (2.0 * from_left + residuals[i])
        from_left += residuals[i]
    return total

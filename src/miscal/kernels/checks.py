"""Scans of validation: how many values break a rule.

They count and never stop early, because a counting loop without a branch runs at the speed of memory; the first bad
row is looked for only when there is one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from miscal.kernels.jit import kernel

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@kernel
def count_outside(values: Floats, low: float, high: float) -> int:
    """Count the values outside [low, high]; NaN is outside."""
    outside = 0
    for i in range(values.size):
        inside = (values[i] >= low) & (values[i] <= high)
        outside += 1 - inside
    return outside


@kernel
def count_infinite(values: Floats) -> int:
    """Count the infinite values; NaN is none."""
    infinite = 0
    for i in range(values.size):
        infinite += abs(values[i]) == np.inf
    return infinite


@kernel
def count_zeros(values: Floats) -> int:
    """Count the values that are exactly zero."""
    zeros = 0
    for i in range(values.size):
        zeros += values[i] == 0.0
    return zeros


@kernel
def smallest_and_largest(values: Integers) -> tuple[int, int]:
    """Span of integers; `values` is not empty."""
    low = values[0]
    high = values[0]
    for i in range(values.size):
        low = min(low, values[i])
        high = max(high, values[i])
    return low, high


@kernel
def count_bad_sums(matrix: Floats, tolerance: float) -> int:
    """Count the rows of an (n, K) matrix that do not sum to 1 within the tolerance; NaN does not."""
    bad = 0
    for i in range(matrix.shape[0]):
        total = 0.0
        for k in range(matrix.shape[1]):
            total += matrix[i, k]
        good = (total >= 1.0 - tolerance) & (total <= 1.0 + tolerance)
        bad += 1 - good
    return bad

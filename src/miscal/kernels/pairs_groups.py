"""Sums over the other rows of a group, without the subtraction that would lose digits."""

from __future__ import annotations

from miscal.kernels.jit import kernel


@kernel
def others_in_group(groups, values, running, others):
    """Fill others[i] = sum of values[j] over j != i of the same group; `running` (groups, m) begins at 0."""
    rows, columns = values.shape
    for i in range(rows):
        g = groups[i]
        for c in range(columns):
            others[i, c] = running[g, c]
            running[g, c] += values[i, c]
    running[:] = 0.0
    for i in range(rows - 1, -1, -1):
        g = groups[i]
        for c in range(columns):
            others[i, c] += running[g, c]
            running[g, c] += values[i, c]

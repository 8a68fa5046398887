"""Rows drawn by a hash of their number."""

from __future__ import annotations

import numpy as np

from miscal.kernels.jit import kernel


@kernel
def rows_below(rows, first, start, limit, found):
    """List the rows 0, 1, ... whose splitmix64 of `start` and first + row is below the limit; returns how many."""
    number = 0
    for i in range(rows):
        z = np.uint64(first + i) * np.uint64(0x9E3779B97F4A7C15) + start
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        if z ^ (z >> np.uint64(31)) < limit:
            found[number] = i
            number += 1
    return number

"""Rows drawn by a hash of their number."""

from __future__ import annotations

import numpy as np

from miscal.kernels.jit import kernel
from miscal.kernels.simulate import mixed


@kernel
def rows_below(rows, first, start, limit, found):
    """List the rows 0, 1, ... whose splitmix64 of `start` and first + row is below the limit; returns how many."""
    number = 0
    for i in range(rows):
        if mixed(start, np.uint64(first + i) - np.uint64(1)) < limit:  # `mixed` counts from 1
            found[number] = i
            number += 1
    return number


@kernel
def hashed(numbers, start, found):
    """The splitmix64 of `start` and each number, as `rows_below` compares it."""
    for i in range(numbers.size):
        found[i] = mixed(start, np.uint64(numbers[i]) - np.uint64(1))

"""Which bin a value falls in: right-closed bins, lowest edge included, end bins catch what lies outside.

The index of x is the number of interior edges strictly below x, whatever shortcut finds it.
"""

from __future__ import annotations

import numpy as np

from miscal.kernels.jit import kernel

# A value whose position is this close to a whole number may lie on the other side of an edge: it is compared with the
# edges themselves. The position errs by a few units in the last place times the number of bins, far below this.
DOUBT = 1e-9
MANY = 48  # from this many edges on, halving beats counting


@kernel
def uniform_index(values, low, high, edges, codes):
    """Equal-width bins: `edges` holds low + (high - low) * m / bins, m = 0..bins."""
    bins = edges.size - 1
    top = np.int32(bins - 1)
    scale = bins / (high - low)
    doubtful = 0
    for i in range(values.size):
        position = min(max((values[i] - low) * scale, 0.0), float(bins))
        guess = np.int32(position)
        rest = position - guess
        doubtful += (rest < DOUBT) | (rest > 1.0 - DOUBT)
        codes[i] = min(guess, top)
    if doubtful == 0:
        return
    for i in range(values.size):
        value = values[i]
        code = np.int64(codes[i])
        if value <= edges[code]:
            if code > 0:
                codes[i] = code - 1
        elif value > edges[code + 1] and code < top:
            codes[i] = code + 1


@kernel
def edge_index(values, edges, codes):
    """Any increasing edges: count the interior edges below each value, or halve when there are many."""
    bins = edges.size - 1
    if bins <= MANY:
        for i in range(values.size):
            codes[i] = 0
        for m in range(1, bins):
            edge = edges[m]
            for i in range(values.size):
                codes[i] += np.int32(values[i] > edge)
        return
    for i in range(values.size):
        value = values[i]
        low = 0
        high = bins - 1
        while low < high:
            middle = (low + high + 1) >> 1
            if value > edges[middle]:
                low = middle
            else:
                high = middle - 1
        codes[i] = low

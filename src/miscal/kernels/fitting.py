"""Inner loops of fits that are not logistic: isotonic regression and forests."""

from __future__ import annotations

import numpy as np

from miscal.kernels.jit import kernel


@kernel
def rising_rates(events, weight, rates):
    """The non-decreasing rates that fit events / weight best: adjacent violators are pooled; all weights positive.

    Comparisons are products of sums, exact for whole weights.
    """
    last = np.empty(events.size, np.int64)
    total = np.empty(events.size)
    mass = np.empty(events.size)
    blocks = 0
    for i in range(events.size):
        last[blocks] = i
        total[blocks] = events[i]
        mass[blocks] = weight[i]
        blocks += 1
        while blocks > 1 and total[blocks - 2] * mass[blocks - 1] >= total[blocks - 1] * mass[blocks - 2]:
            last[blocks - 2] = i
            total[blocks - 2] += total[blocks - 1]
            mass[blocks - 2] += mass[blocks - 1]
            blocks -= 1
    i = 0
    for block in range(blocks):
        rate = total[block] / mass[block]
        while i <= last[block]:
            rates[i] = rate
            i += 1


@kernel
def add_trees(features, column, threshold, left, right, value, roots, first, last, result):
    """Add the leaf values of trees first .. last - 1 to result (n,); features is (columns, n).

    At an inner node rows with features[column] <= threshold go left; a leaf has left -1.
    """
    for tree in range(first, last):
        root = roots[tree]
        for i in range(result.size):
            node = root
            while left[node] >= 0:
                node = left[node] if features[column[node], i] <= threshold[node] else right[node]
            result[i] += value[node]

"""Add up the leaves of many small trees."""

from __future__ import annotations

from miscal.kernels.jit import kernel


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

"""Forests in one walk: what trees say of rows is added up, tree by tree."""

import cython
from cython.cimports.miscal.kernels.kinds import Floats, FloatsOut, Index, Integers, Table


def add_trees(
    features: Table, column: Integers, threshold: Floats, left: Integers, right: Integers, value: Floats,
    roots: Integers, first: Index, last: Index, result: FloatsOut,
) -> None:  # fmt: skip
    """Add the leaf values of trees first .. last - 1 to result (n,); features is (columns, n).

    At an inner node rows with features[column] <= threshold go left; a leaf has left -1.
    """
    with cython.nogil:
        for tree in range(first, last):
            for i in range(result.shape[0]):
                node: Index = roots[tree]
                while left[node] >= 0:
                    node = left[node] if features[column[node], i] <= threshold[node] else right[node]
                result[i] += value[node]

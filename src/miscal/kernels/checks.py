"""The scan of validation that numpy is slow at: sums of short rows."""

import cython
from cython.cimports.miscal.kernels.kinds import Index, Table


def count_bad_sums(matrix: Table, tolerance: cython.double) -> Index:
    """Count the rows of an (n, K) matrix that do not sum to 1 within the tolerance; NaN does not."""
    bad: Index = 0
    with cython.nogil:
        for i in range(matrix.shape[0]):
            total: cython.double = 0.0
            for k in range(matrix.shape[1]):
                total += matrix[i, k]
            bad += not (total >= 1.0 - tolerance and total <= 1.0 + tolerance)
    return bad

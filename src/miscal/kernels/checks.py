"""The scan of validation that numpy is slow at: sums of short rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from miscal.kernels.jit import kernel

Floats = npt.NDArray[np.float64]


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

"""Sums of cells from their rows, added up by numpy."""

from __future__ import annotations

import numpy as np

from miscal.stats.cell_sums import CellRows, CellSums, Floats


def sums_of_rows(rows: CellRows) -> CellSums:
    """Add rows up into sums per cell."""
    codes, cells = rows.codes(), rows.cells
    times = np.ones(codes.size) if rows.count is None else rows.count.astype(np.float64)
    weight = np.ones(codes.size) if rows.weight is None else rows.weight
    p, y = rows.predicted, rows.observed

    def add(values: Floats) -> Floats:
        return np.asarray(np.bincount(codes, times * values, cells), dtype=np.float64)

    squared = weight * weight
    return CellSums(
        add(np.ones(codes.size)),
        add(weight),
        add(squared),
        add(weight * p),
        add(weight * y),
        add(squared * p * (1.0 - p)),
        add(squared * (y - p) ** 2),
    )

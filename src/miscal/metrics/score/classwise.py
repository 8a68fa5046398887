"""Sums of every class against the rest, in bins of each class's own probability, in one pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miscal.carriers.tally import HIGH_UNIT, LOW_UNIT
from miscal.data.predictions import Predictions
from miscal.kernels.threads import BLOCK, over_blocks
from miscal.metrics.norms import Norm, aggregate


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Σw, Σw·p, Σw·y and Σw·(p - y) of every class and cell, (K, cells); unused cells have weight 0."""

    weight: np.ndarray
    predicted: np.ndarray
    observed: np.ndarray
    apart: np.ndarray

    def errors(self, apart: np.ndarray, norm: Norm) -> np.ndarray:
        """A norm of the gaps of each class, over the last axis of (..., K, cells)."""
        gaps = apart / np.where(self.weight > 0, self.weight, 1.0)
        each = [aggregate(gaps[..., k, :], weight, norm) for k, weight in enumerate(self.weight)]
        return np.stack(each, axis=-1)


def class_sums(p: Predictions, edges: np.ndarray, *, equal_width: bool) -> ClassSums:
    """Sums in the same bins for every class; p has several classes and no weights.

    Memory is that of K times the bins for each block of rows, whatever their number.
    """
    from miscal.kernels.classes import class_means

    bins = edges.size - 1

    def work(start: int, stop: int) -> np.ndarray:
        result = np.zeros((p.n_classes, bins, 4), np.int64)
        class_means(p.probability[start:stop], p.outcome[start:stop], edges, equal_width, result)
        return result

    total = np.sum(over_blocks(p.rows, work, max(BLOCK, 8 * p.n_classes * bins)), axis=0)
    rows, events, high, low = np.moveaxis(total, -1, 0)
    high = high + (low >> 32)
    low = low & 0xFFFFFFFF
    return ClassSums(
        weight=rows.astype(np.float64),
        predicted=high * HIGH_UNIT + low * LOW_UNIT,
        observed=events.astype(np.float64),
        apart=(high - (events << 20)) * HIGH_UNIT + low * LOW_UNIT,
    )

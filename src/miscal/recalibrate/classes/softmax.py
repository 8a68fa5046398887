"""Multinomial logistic fits on the logarithms of the probabilities, in blocks of rows.

A block's features and probabilities fit in the cache; sums over its rows are matrix products. With many parameters the
Hessian is never formed: its products with vectors are enough for conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from miscal.kernels.threads import over_blocks
from miscal.recalibrate.base import Floats, Sample
from miscal.recalibrate.fitting.logistic import LOGIT_CLIP, WARM_ROWS

BLOCK = 2048  # rows at a time
TASK = 32 * BLOCK  # rows to a thread


def logs_of(probability: Floats) -> Floats:
    """Logarithms of probabilities held at 1e-12 or more."""
    logs: Floats = np.log(np.maximum(probability, LOGIT_CLIP))
    return logs


def softmax(scores: Floats) -> tuple[Floats, Floats]:
    """Probabilities, and the logarithm of the sum of exponentials, of each row."""
    highest = scores.max(axis=1, keepdims=True)
    scores = np.exp(scores - highest)
    sums = scores.sum(axis=1, keepdims=True)
    scores /= sums
    return scores, (np.log(sums) + highest)[:, 0]


class Rows:
    """Rows of a multinomial fit, handed out in blocks: ln p, outcome and weight."""

    def __init__(self, sample: Sample) -> None:
        self.probability = sample.matrix() if sample.probability.ndim == 2 else sample.probability
        self.outcome = sample.outcome.astype(np.int64, copy=False)
        self.weight = sample.weight
        self.total = sample.total
        self.size = sample.rows
        self.classes = sample.n_classes

    def block(self, start: int, stop: int) -> tuple[Floats, Floats, Floats]:
        """Logarithms, the outcome as 0/1 columns, and the weights of some rows."""
        part = self.probability[start:stop]
        if part.ndim == 1:
            part = np.stack([1.0 - part, part], axis=1)
        happened = np.zeros((stop - start, self.classes))
        happened[np.arange(stop - start), self.outcome[start:stop]] = 1.0
        weight = np.ones(stop - start) if self.weight is None else self.weight[start:stop]
        return logs_of(part), happened, weight


def summed(rows: int, work: Callable[[int, int], tuple[Floats | float, ...]]) -> list[Floats]:
    """Sum what `work` gives for each block, part by part, in the order of the blocks."""

    def many(start: int, stop: int) -> list[Floats]:
        sums = [np.array(part) for part in work(start, min(start + BLOCK, stop))]
        for at in range(start + BLOCK, stop, BLOCK):
            for i, part in enumerate(work(at, min(at + BLOCK, stop))):
                sums[i] += part
        return sums

    parts = over_blocks(rows, many, TASK)
    return [np.sum([part[i] for part in parts], axis=0) for i in range(len(parts[0]))]


def thinned(sample: Sample) -> Sample | None:
    """Every so many rows to start a fit from; None when there are few."""
    stride = sample.rows // WARM_ROWS
    return sample.take(np.arange(0, sample.rows, stride)) if stride >= 4 else None

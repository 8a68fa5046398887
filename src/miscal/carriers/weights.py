"""Weights by score and outcome: sums that tell whether weights know the outcome, and that add."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.carriers.summary import GRID

BORDERS = GRID[16:-1:16]
"""Borders of some 500 cells of the score, narrow near 0 and 1."""

TRIALS, WEIGHT, SQUARE, PREDICTED, PRODUCT = range(5)


def no_weights() -> np.ndarray:
    """The sums of no rows: (cells of the score, outcomes, [trials, Σw, Σw², Σp, Σw·p])."""
    return np.zeros((BORDERS.size + 1, 2, 5))


def weight_sums(weight: np.ndarray, outcome: Any, score: Any, count: np.ndarray | None = None) -> np.ndarray:
    """Sums by score and outcome of rows of positive weight; `outcome` is 0 and 1.

    Examples
    --------
    >>> weight_sums(np.array([1.0, 3.0]), np.array([1, 1]), np.array([0.5, 0.5])).sum(axis=0)[1].tolist()
    [2.0, 4.0, 10.0, 1.0, 2.0]
    """
    kept = weight > 0.0
    scores, weights = np.asarray(score)[kept], weight[kept]
    place = 2 * np.searchsorted(BORDERS, scores) + (np.asarray(outcome)[kept] > 0)
    trials = np.ones(weights.size) if count is None else count[kept].astype(np.float64)
    each = (trials, trials * weights, trials * weights**2, trials * scores, trials * weights * scores)
    made = [np.bincount(place, values, 2 * (BORDERS.size + 1)) for values in each]
    return np.stack(made, axis=1).reshape(no_weights().shape)

"""Probabilities and log-odds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)) without overflow, both ends accurate.

    >>> sigmoid(np.array([-800.0, 0.0, 800.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1.0 + small))


def logit(probability: Floats, edge: float) -> Floats:
    """ln(p / (1 - p)) of probabilities held within [edge, 1 - edge]."""
    held = np.clip(probability, edge, 1.0 - edge)
    return np.asarray(np.log(held) - np.log1p(-held))

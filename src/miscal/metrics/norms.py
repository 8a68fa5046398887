"""Gaps of cells made into one number."""

from __future__ import annotations

import numpy as np

from miscal.data.errors import refusal

Norm = str | float


def norm_power(norm: Norm) -> float:
    """The exponent a norm stands for: 1 for "l1", 2 for "l2", infinity for "max", or the number itself."""
    named = {"l1": 1.0, "l2": 2.0, "max": np.inf}
    if isinstance(norm, str):
        if norm in named:
            return named[norm]
    elif isinstance(norm, (int, float, np.number)) and not isinstance(norm, bool) and norm >= 1:
        return float(norm)
    raise refusal("must be 'l1', 'l2', 'max' or a number of at least 1", where="'norm'", got=f"it is {norm!r}")


def aggregate(gaps: np.ndarray, weight: np.ndarray, norm: Norm = "l1") -> np.ndarray:
    """(Σ share·|gap|^p)^(1/p) over the last axis, share = weight / Σ weight; cells without weight do not count.

    >>> float(aggregate(np.array([0.1, -0.3]), np.array([3.0, 1.0])))
    0.15
    """
    power = norm_power(norm)
    sizes = np.where(weight > 0, np.abs(gaps), 0.0)
    if np.isinf(power):
        return np.asarray(sizes.max(axis=-1))
    share = weight / weight.sum()
    if power == 1.0:
        return np.asarray((sizes * share).sum(axis=-1))
    return np.asarray((sizes**power * share).sum(axis=-1) ** (1.0 / power))

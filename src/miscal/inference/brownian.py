"""The range (highest minus lowest value) of a standard Brownian motion on [0, 1].

It is the limit of the Kuiper statistic over its standard deviation when the model is calibrated. Two series meet at
2: one converges at once above it, the other below, so both tails keep their relative precision.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

RANGE_MEAN = 2.0 * math.sqrt(2.0 / math.pi)
"""Mean of the range: 1.5957691216."""

RANGE_QUANTILE = 2.4976721610486496
"""What the range exceeds once in 20: `brownian_range_isf(0.05)`, without the solver that would find it."""

_SWITCH = 2.0
_TERMS = 10


def brownian_range_p(x: ArrayLike) -> Any:
    """Give the probability that the range of a standard Brownian motion on [0, 1] is at least `x`.

    Above 2 it is ``8 Σ_k (-1)^(k-1) k (1 - Φ(k x))`` (Feller 1951, integrated); below, one minus
    ``8 Σ_{odd j} (1/x² + 1/(jπ)²) exp(-(jπ)²/(2x²))``. NaN gives NaN; 0 and below give 1.

    Examples
    --------
    >>> round(brownian_range_p(2.4977), 3)
    0.05
    >>> brownian_range_p([0.0, float("inf")]).tolist()
    [1.0, 0.0]
    """
    return _probability(x, upper=True)


def brownian_range_cdf(x: ArrayLike) -> Any:
    """Give the probability that the range is at most `x`, with relative precision in the lower tail too."""
    return _probability(x, upper=False)


def _probability(x: ArrayLike, *, upper: bool) -> Any:
    values = np.asarray(x, dtype=np.float64)
    below = values < _SWITCH
    low, high = _lower_series(np.where(below, values, 1.0)), _upper_series(np.where(below, 4.0, values))
    answer = np.where(below, 1.0 - low, high) if upper else np.where(below, low, 1.0 - high)
    answer = np.where(np.isnan(values), np.nan, answer)
    return float(answer) if answer.ndim == 0 else answer


def brownian_range_isf(p_value: float) -> float:
    """Give the value that the range exceeds with probability `p_value` (the critical value of a test)."""
    from scipy.optimize import brentq

    def apart(value: float) -> float:
        return math.log(p_value) - math.log(max(float(brownian_range_p(value)), 1e-320))

    return float(brentq(apart, 0.04, 39.0, xtol=1e-13, rtol=1e-14))


def _upper_series(x: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import ndtr

    total = np.zeros_like(x)
    for k in range(_TERMS, 0, -1):
        total += (-1.0) ** (k - 1) * k * ndtr(-k * x)
    return 8.0 * total


def _lower_series(x: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        positive = x > 0.0
        safe = np.where(positive, x, 1.0)
        total = np.zeros_like(safe)
        for odd in range(2 * _TERMS - 1, 0, -2):
            squared = (odd * math.pi) ** 2
            total += (1.0 / safe**2 + 1.0 / squared) * np.exp(-0.5 * squared / safe**2)
        return np.where(positive, 8.0 * total, 0.0)

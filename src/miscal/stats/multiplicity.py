"""P-values that stay valid when many segments are tested, and the gaps that such tests can detect."""

import numpy as np
from numpy.typing import ArrayLike

from miscal.data.libraries import special
from miscal.stats.cell_sums import Floats, ignore_warnings

POWER = 0.84  # the normal's 80% point, rounded as everybody rounds it


def holm(p_values: ArrayLike, further: int = 0) -> Floats:
    """Adjust p-values by Holm's step-down rule: valid under any dependence between the tests.

    The i-th smallest of m becomes ``max_{j<=i} min(1, (m - j + 1)·p_(j))``. NaN stays NaN and is not counted.
    `further` tests that were not run count as if they had shown nothing.

    Examples
    --------
    >>> holm([0.01, float("nan"), 0.04, 0.03]).round(2).tolist()
    [0.03, nan, 0.06, 0.06]
    """
    values = np.asarray(p_values, np.float64)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    adjusted = np.full(values.size, np.nan)
    n_remaining = np.arange(order.size + further, further, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * n_remaining))
    return adjusted


def step_down(values: Floats, drawn: Floats) -> Floats:
    """Adjusted p-values of several statistics from joint draws (draws, K): the step-down rule of Westfall and Young.

    Each statistic is studentised by its own draws; the i-th largest is compared with the largest of those not above it.

    >>> step_down(np.array([9.0, 0.0]), np.array([[1.0, 1.0], [0.0, 2.0], [2.0, 0.0]])).tolist()
    [0.25, 1.0]
    """
    studentised = np.vstack([drawn, values])
    spread = studentised.std(axis=0)
    studentised = (studentised - studentised.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    order = np.argsort(-studentised[-1], kind="stable")
    ranked = studentised[:, order]
    largest = np.maximum.accumulate(ranked[:, ::-1], axis=1)[:, ::-1]
    exceedances = np.sum(largest[:-1] >= ranked[-1] - 1e-12, axis=0)
    adjusted = np.empty(values.size)
    adjusted[order] = np.maximum.accumulate((1.0 + exceedances) / len(studentised))
    return adjusted


def student_test(
    estimate: Floats, error: Floats, freedom: Floats | float, level: float
) -> tuple[Floats, ...]:
    """Student's test of estimates that may be NaN: p-values, by themselves and by Holm's rule, and reaches.

    An estimate and the reach on both sides of it are intervals that hold all at once.
    """
    with ignore_warnings():
        p_value = 2.0 * special.stdtr(freedom, -np.abs(estimate) / error)
    tests = max(int(np.count_nonzero(~np.isnan(p_value))), 1)
    critical = special.stdtrit(np.maximum(freedom, 1.0), 1.0 - 0.5 * level / tests)
    return p_value, holm(p_value), critical * error


def adjusted_z(tests: float, level: float = 0.05) -> float:
    """Give the two-sided normal critical value at the Bonferroni level ``level / tests``.

    Examples
    --------
    >>> round(adjusted_z(1), 2), round(adjusted_z(1000), 2)
    (1.96, 4.06)
    """
    return float(-special.ndtri(0.5 * level / tests))


def minimum_detectable_gap(se: Floats, tests: int, level: float = 0.05) -> Floats:
    """Give the gap that would be found 4 times in 5 among `tests` cells: ``(z_adj + 0.84)·SE``.

    `se` is the standard error of the gap of a calibrated model, ``sqrt(Σw²p(1-p))/Σw``.

    Examples
    --------
    >>> minimum_detectable_gap(np.array([0.01]), tests=1).round(3).tolist()
    [0.028]
    """
    return (adjusted_z(tests, level) + POWER) * se

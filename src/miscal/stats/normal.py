"""Tails, quantiles and intervals of the normal distribution and of Student's t."""

import math
from typing import Any

import numpy as np

from miscal.data.libraries import special
from miscal.stats.cell_sums import Floats, ignore_warnings

NORMAL_95 = 1.959963984540054


def normal_interval(value: Any, error: Any) -> list[Any]:
    """The 95% interval of a normal estimate."""
    return [value - NORMAL_95 * error, value + NORMAL_95 * error]


def student_95(freedom: float) -> float:
    """The half-width of the 95% interval of Student's t."""
    return float(-special.stdtrit(freedom, 0.025))


def one_sided_p(value: float, variance: Any) -> float:
    """One-sided p-value of a normal value; 1 where there is no noise."""
    return float(special.ndtr(-value / math.sqrt(variance))) if variance > 0 else 1.0


def normal_p(value: Any, variance: Any) -> Floats:
    """Two-sided p-values of normal values; 1 where there is no noise."""
    with ignore_warnings():
        return np.where(variance > 0, special.erfc(np.abs(value) / np.sqrt(2.0 * variance)), 1.0)


def normal_z(p_value: Floats) -> Floats:
    """The standard deviations of a normal that have these two-sided p-values.

    >>> normal_z(np.array([0.05, 1.0])).round(2).tolist()
    [1.96, -0.0]
    """
    return np.asarray(-special.ndtri(0.5 * np.clip(p_value, 1e-300, 1.0)))

"""Tails, quantiles and intervals of the normal distribution and of Student's t."""

import math
from typing import Any

import numpy as np

from miscal.data.libraries import special
from miscal.stats.cell_sums import Floats, ignore_warnings

NORMAL_95 = 1.959963984540054  # half-width of a two-sided 95% interval, in standard errors
ONE_SIDED_95 = 1.6448536269514722


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


def half_width(error: Any) -> Any:
    """The half-width of the 95% interval of a normal estimate with this standard error."""
    return NORMAL_95 * error


def cluster_half_width(clusters: int) -> float:
    """The half-width of a 95% interval in standard errors that were summed over so many clusters.

    Student's t, with the usual correction of the variance. One cluster counts as two.

    >>> round(cluster_half_width(10), 3)
    2.385
    """
    groups = max(clusters, 2)
    return student_95(groups - 1.0) * math.sqrt(groups / (groups - 1.0))


def significantly_positive(values: Floats) -> bool:
    """Whether a sum of independent values of mean 0 is significantly positive at the one-sided level of 5%.

    >>> significantly_positive(np.ones(4)), significantly_positive(np.array([1.0, -1.0]))
    (True, False)
    """
    return bool(values.sum() > ONE_SIDED_95 * math.sqrt(values @ values))

"""Comparison of two models, and of two sets of rows: tests of whether a gap changed."""

import math

import numpy as np

from miscal.stats.cell_sums import Floats
from miscal.stats.normal import normal_p

CHANGE_Z = 3.0  # standard errors of a change, of findings that were picked for their size
UNDETECTED_Z = 2.0  # the same, after the earlier audit was given all that it could have missed


def paired_p(predicted: Floats, observed: Floats, variance: Floats) -> Floats:
    """P-values that two models are equally far from the truth on the same rows.

    The model on the truth's side of the middle between both is nearer: the outcomes are tested against the middle.

    Parameters
    ----------
    predicted, variance : ndarray of shape (2, cells)
        Sums of the predictions of both models, and variances of the outcomes' sums that they expect.
    observed : ndarray of shape (cells,)
        Sums of the outcomes.

    Returns
    -------
    ndarray of shape (cells,)
        Two-sided p-values; 1 where both models predict the same.

    Examples
    --------
    >>> paired_p(np.array([[30.0], [60.0]]), np.array([30.0]), np.array([[21.0], [21.0]])).round(3)
    array([0.001])
    """
    p_value = normal_p(observed - np.mean(predicted, axis=0), np.mean(variance, axis=0))
    return np.where(predicted[0] == predicted[1], 1.0, p_value)


def equal_gaps_p(gap: Floats, residual2: Floats, weight: Floats) -> Floats:
    """P-values that the gap of a cell is the same on two independent sets of rows.

    Parameters
    ----------
    gap, residual2, weight : ndarray of shape (2, cells)
        Gap, Σw²(y-p)² and Σw of each cell in both sets.

    Returns
    -------
    ndarray of shape (cells,)
        Two-sided p-values.

    Examples
    --------
    >>> equal_gaps_p(np.array([[0.1], [0.3]]), np.full((2, 1), 50.0), np.full((2, 1), 100.0)).round(3)
    array([0.046])
    """
    return normal_p(np.diff(gap, axis=0)[0], np.sum(residual2 / weight**2, axis=0))


def gap_changed(before: tuple[float, float], after: tuple[float, float]) -> bool:
    """Whether two gaps, each with its standard error, differ by more than chance explains.

    Examples
    --------
    >>> gap_changed((0.01, 0.01), (0.03, 0.01)), gap_changed((0.01, 0.01), (0.08, 0.01))
    (False, True)
    """
    # An unknown gap or error (NaN) counts as a change.
    return not abs(before[0] - after[0]) < CHANGE_Z * math.hypot(before[1], after[1])


def exceeds_undetected(size: float, error: float, critical: float, error_ratio: float) -> bool:
    """Whether a gap is larger than one that an earlier audit could have had without a significant test.

    Parameters
    ----------
    size, error : float
        Of the gap in the later audit, and its standard error there.
    critical : float
        Standard errors from which a gap was significant in the earlier audit.
    error_ratio : float
        Standard error in the earlier audit relative to that in the later one.

    Returns
    -------
    bool
        True if even the largest undetected gap would have had to grow.

    Examples
    --------
    >>> exceeds_undetected(0.05, 0.01, 3.0, 1.0), exceeds_undetected(0.07, 0.01, 3.0, 1.0)
    (False, True)
    """
    growth = size / max(error, 1e-300) - critical * error_ratio
    return not growth < UNDETECTED_Z * math.hypot(1.0, error_ratio)  # NaN counts as larger

"""Shapes of probabilities: (n,) = P(class 1), and (n, K) with rows that sum to 1."""

import numpy as np

from miscal.data.arrays import Floats

#: Rows whose sum is this close to 1 are left alone.
SUM_ROUNDING = 1e-12


def as_two_columns(probability: Floats) -> Floats:
    """P(class 1), (n,), as (n, 2); what has one column per class stays as it is."""
    if probability.ndim == 2:
        return probability
    return np.stack([1.0 - probability, probability], axis=1)


def normalised_matrix(probability: Floats) -> Floats:
    """Probabilities as they are, as (n, K) with rows that sum to 1."""
    if probability.ndim == 1:
        return as_two_columns(probability)
    return normalise_rows(probability.copy(), probability)


def normalise_rows(values: Floats, fallback: Floats) -> Floats:
    """Divide rows by their sums, in place.

    Parameters
    ----------
    values : (n, K) array
        At least 0; it is changed.
    fallback : (n, K) array
        What rows of zeros are replaced by.

    Returns
    -------
    (n, K) array
        `values`. Rows whose sum is 1 to rounding are left alone.
    """
    sums = values.sum(axis=1)
    empty = sums <= 0.0
    if empty.any():
        values[empty] = fallback[empty]
        sums = values.sum(axis=1)
    unnormalised = np.abs(sums - 1.0) > SUM_ROUNDING
    values[unnormalised] /= sums[unnormalised, None]
    return values

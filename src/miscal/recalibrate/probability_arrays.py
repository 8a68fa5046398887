"""TODO probability_arrays."""

import numpy as np

from miscal.data.arrays import Floats


def as_two_columns(probability: Floats) -> Floats:
    """(n,) = P(class 1) as (n, 2); what has a column a class stays as it is."""
    if probability.ndim == 2:
        return probability
    return np.stack([1.0 - probability, probability], axis=1)


def normalised_matrix(probability: Floats) -> Floats:
    """Probabilities as they are, as (n, K) with rows that sum to 1."""
    return (
        as_two_columns(probability)
        if probability.ndim == 1
        else normalise_rows(probability.copy(), probability)
    )


def normalise_rows(values: Floats, fallback: Floats) -> Floats:
    """Divide rows by their sums in place; rows of zeros take those of `fallback`; sums already 1 are left alone."""
    sums = values.sum(axis=1)
    empty = sums <= 0.0
    if empty.any():
        values[empty] = fallback[empty]
        sums = values.sum(axis=1)
    off = np.abs(sums - 1.0) > 1e-12
    values[off] /= sums[off, None]
    return values

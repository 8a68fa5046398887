"""Tails of a sum of independent 0/1 draws from two numbers: its mean and its variance.

The matched binomial has ``N = μ²/(μ - σ²)`` trials (not an integer in general) of probability ``1 - σ²/μ``: the same
mean and variance. It is matched on the rarer side, so swapping the outcomes changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NORMAL_EVENTS = 200.0  # expected on both sides, above which the normal takes over
NORMAL_REACH = 3.0  # but only this many standard deviations out: farther, skewness is a large factor


class Tails(NamedTuple):
    """P(K <= k), P(K >= k), and where the normal was used."""

    lower: Floats
    upper: Floats
    normal: NDArray[np.bool_]


class Matched(NamedTuple):
    """The matched binomial of each cell: trials, probability, complement, and where the outcomes were swapped."""

    trials: Floats
    probability: Floats
    complement: Floats
    swapped: NDArray[np.bool_]
    poisson: NDArray[np.bool_]


def match(mean: Floats, variance: Floats, size: Floats, swapped: NDArray[np.bool_] | None = None) -> Matched:
    """Match a binomial to means and variances of sums of `size` 0/1 draws; variances must be positive.

    It is matched to the complement where `swapped`: where the mean is above half, unless told.
    """
    swapped = mean > 0.5 * size if swapped is None else swapped
    rare = np.where(swapped, size - mean, mean)
    squares = rare - variance  # Σp², or Σ(1-p)² where swapped
    poisson = squares <= 1e-10 * rare
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        trials = np.where(poisson, np.inf, rare * rare / np.where(poisson, 1.0, squares))
        # Cauchy-Schwarz: N <= n, with equality when all probabilities are equal; undo the rounding there.
        trials = np.where(~poisson & (trials > size * (1.0 - 1e-9)), size, trials)
        probability = np.where(poisson, 0.0, rare / trials)
        complement = np.where(trials == size, (size - rare) / size, variance / rare)
    return Matched(trials, probability, complement, swapped, poisson)


def tails(events: Floats, mean: Floats, variance: Floats, size: Floats) -> Tails:
    """Give both tails of the sums at `events`; `variance` must be positive."""
    swapped = mean > 0.5 * size
    rare = np.where(swapped, size - mean, mean)
    count = np.where(swapped, size - events, events)
    deviation = np.sqrt(variance)
    normal = (rare > NORMAL_EVENTS) & (np.abs(count - rare) <= NORMAL_REACH * deviation)
    lower, upper = np.empty_like(mean), np.empty_like(mean)
    far = ~normal
    lower[normal], upper[normal] = _normal_tails(count[normal], rare[normal], variance[normal])
    lower[far], upper[far] = _binomial_tails(count[far], rare[far], variance[far], size[far])
    lower, upper = np.where(swapped, upper, lower), np.where(swapped, lower, upper)
    return Tails(lower, upper, normal)


def binomial_tail(
    events: Floats, mean: Floats, variance: Floats, size: Floats, swapped: NDArray[np.bool_], *, upper: bool
) -> Floats:
    """Give P(K >= k), or P(K <= k), by the matched binomial alone, matched to the complement where `swapped`."""
    rare = np.where(swapped, size - mean, mean)
    count = np.where(swapped, size - events, events)
    made = np.empty_like(mean)
    for cells, side in ((np.flatnonzero(~swapped), upper), (np.flatnonzero(swapped), not upper)):
        if cells.size:
            parts = (values[cells] for values in (count, rare, variance, size))
            made[cells] = _binomial_tails(*parts, lower=not side, upper=side)[int(side)]
    return made


def _normal_tails(count: Floats, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Normal with continuity correction and one skewness term (that of the matched binomial)."""
    from scipy.special import ndtr

    deviation = np.sqrt(variance)
    skewness = (2.0 * variance / mean - 1.0) / deviation  # (1 - 2π)/sd with 1 - π = σ²/μ

    def upper(edge: Floats) -> Floats:
        z = (edge - mean) / deviation
        density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        return np.asarray(ndtr(-z) + skewness * (z * z - 1.0) * density / 6.0)

    return 1.0 - upper(count + 0.5), upper(count - 0.5)


def _binomial_tails(
    count: Floats, mean: Floats, variance: Floats, size: Floats, *, lower: bool = True, upper: bool = True
) -> tuple[Floats, Floats]:
    """Both tails; one that is not asked for is empty."""
    from scipy.special import betainc, gammainc, gammaincc

    fit = match(mean, variance, size, np.zeros(mean.size, dtype=bool))
    poisson = fit.poisson
    trials = np.where(poisson, size + 1.0, fit.trials)
    below = above = np.empty(0)
    if lower:
        inside = count < trials
        safe = np.where(inside, count, 0.0)
        below = np.where(inside, betainc(trials - safe, safe + 1.0, fit.complement), 1.0)
        if poisson.any():
            below = np.where(poisson, gammaincc(count + 1.0, mean), below)
    if upper:
        # Towards N the matched binomial runs out of mass, though as many events as rows can happen: keep N clear of k.
        # A larger N of the same mean has heavier tails, so this errs on the safe side, and changes nothing elsewhere.
        reach = np.maximum(count, 1.0)
        clear = np.maximum(trials, np.minimum(size, reach + 2.0 * np.sqrt(reach) + 2.0))
        above = np.where(count > 0.0, betainc(reach, clear - reach + 1.0, np.minimum(mean / clear, 1.0)), 1.0)
        if poisson.any():
            above = np.where(poisson, np.where(count > 0.0, gammainc(reach, mean), 1.0), above)
    return np.asarray(below), np.asarray(above)

"""Isotonic maps of the score, cross-fitted, and the folds that they are fitted on."""

import numpy as np
from numpy.typing import ArrayLike

from miscal.data.arrays import Array
from miscal.data.target import TargetData
from miscal.kernels import order
from miscal.stats.cell_sums import Floats, Integers

FOLDS = 5


def cross_fitted_score(target: TargetData, random_state: int = 0) -> Floats:
    """Recalibrate the score by isotonic regression, each row by a fit on the other folds.

    A cell whose gap to the recalibrated score is significant has an error of its own (*specific*); otherwise it shares
    the whole model's (*general*). Tied scores are pooled; between fitted scores the fit is linear, outside it is
    constant. Folds are random, equal in size and the same for the same `random_state`; a cluster is never split.
    Rows of weight 0 get a value and give nothing.

    Examples
    --------
    >>> score = np.repeat([0.1, 0.2], 50)
    >>> observed = np.tile([1.0, 0.0, 0.0, 0.0, 0.0], 20)
    >>> bool(np.abs(cross_fitted_score(TargetData(score, observed)).mean() - 0.2) < 0.01)
    True
    """
    weight = target.all_weights[0]
    events_of_rows = weight * target.observed
    fold = assign_folds(target.rows, FOLDS, cluster=target.cluster, random_state=random_state)
    answer = target.predicted.copy()
    levels, places = np.unique(target.predicted, return_inverse=True)
    # Each fit is the total of every distinct score less one fold's own: one fold's sums at a time are held.
    mass, events = np.bincount(places, weight), np.bincount(places, events_of_rows)
    for index in range(FOLDS):
        inside = np.flatnonzero(fold == index)
        own_places = places[inside]
        others = mass - np.bincount(own_places, weight[inside], levels.size)
        others_events = events - np.bincount(own_places, events_of_rows[inside], levels.size)
        answer[inside] = _isotonic(levels, others, others_events)[own_places]
    return answer


def smoothed_isotonic_rates(target: TargetData) -> Floats:
    """The isotonic map of the score, its steps pulled towards the score by half an event so that no rate is 0 or 1."""
    levels, places = np.unique(target.predicted, return_inverse=True)
    first = target.all_weights[0]
    mass = np.bincount(places, first)
    size = mass if target.weight is None else mass**2 / np.bincount(places, target.variance_weight)
    rates = _isotonic(levels, mass, np.bincount(places, first * target.observed))
    step = np.cumsum(np.diff(rates, prepend=rates[:1]) != 0.0)
    trials = np.bincount(step, size)[step]
    return np.asarray(np.clip((trials * rates + 0.5 * levels) / (trials + 0.5), 0.0, 1.0)[places])


def _isotonic(levels: Floats, mass: Array, events: Array) -> Floats:
    """Fit at the scores that have weight and read the fit at all of them."""
    used = mass > 1e-12 * max(mass.sum(), 1e-300)
    if not used.any():
        return levels
    return np.interp(levels, levels[used], increasing_rates(events[used], mass[used]))


def increasing_rates(events: Floats, weight: Floats) -> Floats:
    """The non-decreasing rates that fit events / weight best; all weights positive."""
    rates = np.empty(len(weight))
    order.rising_rates(*np.array([events, weight], np.float64), rates)
    return rates


def assign_folds(
    rows: int,
    folds: int,
    *,
    cluster: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> Integers:
    """Give each row one of `folds` folds, the same for all rows of a cluster."""
    names = units = np.arange(rows)
    if cluster is not None:
        names, units = np.unique(cluster, return_inverse=True)
    assigned = np.empty(names.size, np.int64)
    order = np.random.default_rng(random_state).permutation(names.size)
    assigned[order] = np.arange(names.size) % folds
    return assigned[units]

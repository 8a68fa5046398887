"""The gap beyond the score: what is left of a cell's gap after the score itself has been put right."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from miscal.inference.sums import Floats, Integers
from miscal.kernels import order
from miscal.pairs import Pair

FOLDS = 5


def beyond_score(pair: Pair, random_state: int | np.random.Generator | None = 0) -> Floats:
    """Recalibrate the score by isotonic regression, each row by a fit on the other folds.

    A cell whose gap to the recalibrated score is significant has an error of its own (*specific*); otherwise it shares
    the whole model's (*general*). Tied scores are pooled; between fitted scores the fit is linear, outside it is
    constant. Folds are random, equal in size and the same for the same `random_state`; a cluster is never split.
    Rows of weight 0 get a value and give nothing.

    Examples
    --------
    >>> score = np.repeat([0.1, 0.2], 50)
    >>> happened = np.tile([1.0, 0.0, 0.0, 0.0, 0.0], 20)
    >>> bool(np.abs(beyond_score(Pair(score, happened)).mean() - 0.2) < 0.01)
    True
    """
    weights = np.ones(pair.rows) if pair.first is None else pair.first
    fold = fold_of_rows(pair.rows, FOLDS, cluster=pair.cluster, random_state=random_state)
    answer = pair.predicted.copy()
    levels, places = np.unique(pair.predicted, return_inverse=True)
    # Each fit is the total of every distinct score less one fold's own: one fold's sums at a time are held.
    mass = _added(places, weights, levels.size)
    events = _added(places, weights * pair.observed, levels.size)
    for index in range(FOLDS):
        inside = np.flatnonzero(fold == index)
        own, share = places[inside], weights[inside]
        others = mass - _added(own, share, levels.size)
        share *= pair.observed[inside]
        fitted = _isotonic(levels, others, events - _added(own, share, levels.size))
        answer[inside] = fitted[own]
    return answer


def rates_as_happened(pair: Pair) -> Floats:
    """The isotonic map of the score, its steps pulled towards the score by half an event so that no rate is 0 or 1."""
    levels, places = np.unique(pair.predicted, return_inverse=True)
    first = np.ones(pair.rows) if pair.first is None else pair.first
    mass = _added(places, first, levels.size)
    size = mass if pair.second is None or pair.weight is None else mass**2 / _added(places, pair.second, levels.size)
    rates = _isotonic(levels, mass, _added(places, first * pair.observed, levels.size))
    step = np.cumsum(np.diff(rates, prepend=rates[:1]) != 0.0)
    trials = np.bincount(step, size)[step]
    return np.asarray(np.clip((trials * rates + 0.5 * levels) / (trials + 0.5), 0.0, 1.0)[places])


def _added(places: Integers, values: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(places, values, size), dtype=np.float64)


def _isotonic(levels: Floats, mass: Floats, events: Floats) -> Floats:
    """Fit at the scores that have weight and read the fit at all of them."""
    used = mass > 1e-12 * max(float(mass.sum()), 1e-300)
    if not used.any():
        return levels
    return np.asarray(np.interp(levels, levels[used], rising_rates(events[used], mass[used])))


def rising_rates(events: Floats, weight: Floats) -> Floats:
    """The non-decreasing rates that fit events / weight best; all weights positive."""
    rates = np.empty(len(weight))
    order.rising_rates(*(np.ascontiguousarray(each, dtype=np.float64) for each in (events, weight)), rates)
    return rates


def fold_of_rows(
    rows: int,
    folds: int,
    *,
    cluster: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> Integers:
    """Give each row one of `folds` folds, the same for all rows of a cluster."""
    generator = np.random.default_rng(random_state)
    if cluster is None:
        units, count = np.arange(rows), rows
    else:
        names, units = np.unique(np.asarray(cluster), return_inverse=True)
        count = names.size
    assigned = np.empty(count, dtype=np.int64)
    assigned[generator.permutation(count)] = np.arange(count) % folds
    return np.asarray(assigned[units])

"""Scores of exactly 0 and 1, and others near them that the outcomes refute: what range they are moved into.

The rule: no recalibrator rules out an outcome because it was not observed among the rows to fit on. Maps of free shape
keep rates half an event away from 0 and 1 (`clip_rates`); all others clip the score first (`certain_score_range`).
"""

import numpy as np

from miscal.codes.data import Response
from miscal.data.arrays import Floats
from miscal.data.target import TargetData
from miscal.metrics.losses import pooled_scores
from miscal.recalibrate.training_sample import TrainingSample, weight_of_one_row
from miscal.stats.binomial import poisson_upper_tail

#: Events that are added to those observed where a rate would be 0 or 1.
HALF_EVENT = 0.5
#: Scores above it are not regarded as certain, whatever was observed.
MAX_CERTAIN_SCORE = 0.01
#: How far a score is moved at most: errors above it are for the map to correct.
MAX_CLIPPED_SCORE = 0.05
#: Probability of as many events among scores that predict hardly any, below which they are refuted.
REFUTED_LEVEL = 1e-4


def clip_rates(rate: Floats, mass: Floats, smooth: float) -> Floats:
    """Clip rates away from 0 and 1 by `smooth` events: to at least smooth / (n + 2 smooth).

    Parameters
    ----------
    rate : array
        Observed rates of cells.
    mass : array
        Rows of each cell.
    smooth : float
        Events; 0 leaves rates as they are.

    Returns
    -------
    array
        Rates.
    """
    edge = smooth / (np.maximum(mass, 0.0) + 2.0 * smooth) if smooth else 0.0
    return np.clip(rate, edge, 1.0 - edge)


def certain_score_range(sample: TrainingSample) -> Floats | None:
    """The range that scores are clipped to before they are mapped.

    Rows with a score of exactly 0 (and 1, the other way round) are moved to the rate that they support, half an event
    added, but not past the next score. Where significantly more events were observed among the lowest scores than a
    Poisson of their sum allows, they are moved past it: to the least such rate among all scores up to some point, 0.05
    at most.

    Parameters
    ----------
    sample : TrainingSample
        The rows to fit on.

    Returns
    -------
    (2,) array or None
        Low and high; None where no score is certain or refuted, and for several classes and means.
    """
    if sample.n_classes > 2 or sample.response != Response.BINARY:
        return None
    p, y, weight = sample.probability, sample.outcome, sample.weight
    mass = None if weight is None else weight / weight_of_one_row(sample.total, sample.rows)
    low = _lowest_supported_score(TargetData(p, y, mass))
    high = _lowest_supported_score(TargetData(1.0 - p, 1 - y, mass))
    return np.array([low, 1.0 - high]) if low > 0.0 or high > 0.0 else None


def _lowest_supported_score(target: TargetData) -> float:
    """What the lowest scores are moved to; 0 where they stay."""
    near = target.take(np.flatnonzero(target.predicted <= MAX_CERTAIN_SCORE))
    if near.predicted.min(initial=1.0) > 0.0 and not near.observed.any():
        return 0.0
    scores, weight, observed = pooled_scores(near)
    events, predicted = np.cumsum(observed), np.cumsum(weight * scores)
    # A cheap bound first: the exact tail is computed only where the excess is large.
    refuted = (events >= 1.0) & (events > predicted + 3.0 * np.sqrt(predicted))
    refuted[refuted] = poisson_upper_tail(events[refuted], predicted[refuted]) <= REFUTED_LEVEL
    moved = np.flatnonzero(refuted | (scores == 0.0))
    if not moved.size:
        return 0.0
    last = moved[-1]
    # Of more scores: those of `near` come first, at the same positions.
    scores, weight, observed = pooled_scores(
        target.take(np.flatnonzero(target.predicted <= MAX_CLIPPED_SCORE))
    )
    rates = (np.cumsum(observed) + HALF_EVENT) / (np.cumsum(weight) + 2.0 * HALF_EVENT)
    low = rates[last:].min(initial=MAX_CLIPPED_SCORE)
    if not refuted.any():
        low = scores[last + 1 : last + 2].min(initial=low)
    return float(low)

"""TODO certain_scores."""

import numpy as np

from miscal.data.arrays import Floats
from miscal.data.libraries import special
from miscal.data.target import TargetData
from miscal.metrics.losses import pooled_scores
from miscal.recalibrate.training_sample import TrainingSample, weight_of_one_row

HALF_EVENT = 0.5  # events
MAX_CERTAIN_SCORE = 0.01  # scores beyond it are no certainties, whatever happened
MAX_CLIPPED_SCORE = 0.05  # that a score is moved: what is wrong beyond it is the map's to mend
REFUTED_LEVEL = 1e-4  # chance of as many events at scores that said there would be hardly any


def clip_rates(rate: Floats, mass: Floats, smooth: float) -> Floats:
    """Rates of cells of so many rows, held `smooth` of an event away from certainty: e / (n + 2 e) at least."""
    edge = smooth / (np.maximum(mass, 0.0) + 2.0 * smooth) if smooth else 0.0
    return np.clip(rate, edge, 1.0 - edge)


def certain_score_range(sample: TrainingSample) -> Floats | None:
    """Within what scores of two classes are held: (low, high), or None where none is certain or refuted.

    Rows said exactly 0 (and 1, the other way round) are moved to the rate that they bear out, half an event added, but
    not past the next score; where more of the lowest scores happened than a Poisson of their sum allows (chance 1e-4)
    past it: to the least such rate among all the scores up to some point, 0.05 at most.
    """
    if sample.n_classes > 2 or sample.response != "binary":
        return None
    p, y, weight = sample.probability, sample.outcome, sample.weight
    mass = None if weight is None else weight / weight_of_one_row(sample.total, sample.rows)
    low, rest = (
        _lowest_supported_score(TargetData(p, y, mass)),
        _lowest_supported_score(TargetData(1.0 - p, 1 - y, mass)),
    )
    return np.array([low, 1.0 - rest]) if low > 0.0 or rest > 0.0 else None


def _lowest_supported_score(rows: TargetData) -> float:
    near = rows.take(np.flatnonzero(rows.predicted <= MAX_CERTAIN_SCORE))
    if near.predicted.min(initial=1.0) > 0.0 and not near.observed.any():
        return 0.0
    at, weight, here = pooled_scores(near)
    events, said = np.cumsum(here), np.cumsum(weight * at)
    refuted = (events >= 1.0) & (events > said + 3.0 * np.sqrt(said))  # nearer it happens more often
    refuted[refuted] = special.gammainc(events[refuted], said[refuted]) <= REFUTED_LEVEL
    found = np.flatnonzero(refuted | (at == 0.0))
    if not found.size:
        return 0.0
    last = found[-1]
    at, weight, here = pooled_scores(
        rows.take(np.flatnonzero(rows.predicted <= MAX_CLIPPED_SCORE))
    )  # the same ones first
    rates = (np.cumsum(here) + HALF_EVENT) / (np.cumsum(weight) + 2.0 * HALF_EVENT)
    low = rates[last:].min(initial=MAX_CLIPPED_SCORE)
    if not refuted.any():
        low = at[last + 1 : last + 2].min(initial=low)
    return float(low)

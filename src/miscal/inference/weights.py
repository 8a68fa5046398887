"""Do weights know the outcome? If they do, outcomes drawn from the predictions are not their noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from miscal.carriers.weights import PREDICTED, PRODUCT, SQUARE, TRIALS, WEIGHT, weight_sums
from miscal.inference.sums import Floats

CRITICAL = 3.3  # standard deviations: once in a thousand where weights and outcomes have nothing to do with each other
LEAST_TRIALS = 30.0  # of neighbouring scores that are taken together


def weights_depend_on_outcome(weight: ArrayLike | None, outcome: ArrayLike, score: ArrayLike | None = None) -> bool:
    """Tell whether weights depend on a 0/1 outcome, given the score; see `sums_depend_on_outcome`.

    Examples
    --------
    >>> weights_depend_on_outcome([1, 1, 10, 10], [1, 1, 0, 0])
    True
    >>> weights_depend_on_outcome([1, 2, 10, 10], [1, 1, 0, 0])
    False
    """
    if weight is None:
        return False
    weights, outcomes = np.asarray(weight, dtype=np.float64), np.asarray(outcome)
    scores = np.full(weights.size, 0.5) if score is None else np.asarray(score, dtype=np.float64)
    return sums_depend_on_outcome(weight_sums(weights, outcomes, scores))


def sums_depend_on_outcome(sums: Floats) -> bool:
    """Tell from the sums of `weight_sums` whether weights depend on the outcome, given the score.

    They do after events or non-events were kept in part. ``T = Σ(w - m)(y - p)``, m the mean weight at that score,
    is then far from 0: beyond 3.3 of its own standard deviations, ``sqrt(Σ(w - m)²(y - p)²)``. Neighbouring scores are
    taken together until they hold 30 trials. Weights that are constant within each outcome and differ between the two
    (two trials of each at least) depend on it however few they are.
    """
    if _constant(sums.sum(axis=0)):
        return True
    used = sums[sums[:, :, TRIALS].sum(axis=1) > 0]
    trials = used[:, :, TRIALS].sum(axis=1)
    if not trials.size:
        return False
    group = np.minimum(np.floor((np.cumsum(trials) - trials) / LEAST_TRIALS), trials.sum() // LEAST_TRIALS - 1)
    cells = np.add.reduceat(used, np.flatnonzero(np.diff(group, prepend=-2.0)), axis=0)
    both = cells.sum(axis=1)
    mean, rate = both[:, WEIGHT] / both[:, TRIALS], both[:, PREDICTED] / both[:, TRIALS]
    events = cells[:, 1, WEIGHT] - mean * cells[:, 1, TRIALS]
    expected = both[:, PRODUCT] - mean * both[:, PREDICTED]
    residual2 = np.stack([rate**2, (1.0 - rate) ** 2], axis=1)
    centre = mean[:, np.newaxis]
    spread = cells[:, :, SQUARE] - 2.0 * centre * cells[:, :, WEIGHT] + centre**2 * cells[:, :, TRIALS]
    deviation = float(np.sqrt(max(float(np.sum(residual2 * spread)), 0.0)))
    # Equal weights leave nothing but rounding.
    scale = float(np.sqrt(np.sum(cells[:, :, SQUARE])))
    return deviation > 1e-6 * scale and abs(float(np.sum(events - expected))) > CRITICAL * deviation


def _constant(outcomes: Floats) -> bool:
    trials, weight, square = (outcomes[:, column] for column in (TRIALS, WEIGHT, SQUARE))
    if trials.min() < 2.0:
        return False
    mean = weight / trials
    if np.any(square / trials - mean**2 > 1e-9 * mean**2):
        return False
    return bool(mean.max() > mean.min() * (1.0 + 1e-6))

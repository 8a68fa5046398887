"""What probabilities are worth when one may decline to answer (paper 002)."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.metrics.arrays import Given
from miscal.metrics.score.losses import pooled_scores


def prediction_rejection_ratio(
    y_true: Any, y_prob: Any, *, target: str | int = "top", sample_weight: Any = None
) -> float:
    """How much rejecting the least confident answers helps, from 0 (random) to 1 (errors first).

    It equals 2·AUROC - 1 of confidence as a score for being right, ties counted half, so it costs one sort. NaN when
    all answers are right or all are wrong.

    Examples
    --------
    >>> from miscal.metrics import prediction_rejection_ratio
    >>> prediction_rejection_ratio([1, 1, 0, 1], [0.9, 0.8, 0.6, 0.7])
    1.0
    """
    return 2.0 * area_under_curve(*pooled_scores(Given(y_true, y_prob, sample_weight).pair(target))[1:]) - 1.0


def area_under_curve(weight: np.ndarray, events: np.ndarray) -> float:
    """Probability that an event's score exceeds a non-event's, ties half; cells are distinct scores in order."""
    others = weight - events
    below = np.cumsum(others) - 0.5 * others
    pairs = events.sum() * others.sum()
    return float((events * below).sum() / pairs) if pairs > 0 else float("nan")


def abstention_reward(
    y_true: Any,
    y_prob: Any,
    *,
    unsure_cost: float = 1.0,
    error_cost: float = 10.0,
    target: str | int = "top",
    sample_weight: Any = None,
) -> float:
    """Total reward (at most 0) of answering only when confident enough.

    Answers when the confidence is at least 1 - unsure_cost/error_cost; an answer that is wrong costs `error_cost`,
    declining costs `unsure_cost`. With weights the total is of the weighted rows.

    Examples
    --------
    >>> from miscal.metrics import abstention_reward
    >>> abstention_reward([1, 1, 0], [0.95, 0.6, 0.99])
    -11.0
    """
    for name, cost in (("'unsure_cost'", unsure_cost), ("'error_cost'", error_cost)):
        if not (isinstance(cost, (int, float, np.number)) and cost > 0 and np.isfinite(cost)):
            raise refusal("must be a number above 0", where=name, got=f"it is {cost!r}")
    pair = Given(y_true, y_prob, sample_weight).pair(target)
    answers = pair.predicted >= 1.0 - unsure_cost / error_cost
    cost_of_row = np.where(answers, error_cost * (1.0 - pair.observed), unsure_cost)
    weight = 1.0 if pair.first is None else pair.first
    return -float(np.sum(cost_of_row * weight))

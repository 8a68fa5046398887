"""Log loss and Brier score, how much of them is miscalibration, and what an answer is worth to who may decline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.engines.memory import tally
from miscal.metrics.arrays import Given
from miscal.pairs import Pair
from miscal.pooling.cells import BinPooling, Ranges


@dataclass(frozen=True)
class Decomposition:
    """A mean score = miscalibration - discrimination + uncertainty.

    Attributes
    ----------
    score : mean loss of the predictions
    miscalibration : what an isotonic recalibration of these rows would save (CORP; at least 0)
    discrimination : how much better the recalibrated predictions are than the overall rate
    uncertainty : mean loss of the overall rate
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def score_decomposition(
    y_true: Any, y_prob: Any, *, loss: str = "brier", target: str | int = "auto", sample_weight: Any = None
) -> Decomposition:
    """Split the Brier score or the log loss by isotonic regression (Dimitriadis, Gneiting & Jordan, 2021).

    Tied scores are pooled before the regression. A certain prediction that is wrong has an infinite log loss, and so
    an infinite miscalibration.

    Examples
    --------
    >>> from miscal.metrics import score_decomposition
    >>> parts = score_decomposition([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
    >>> round(parts.miscalibration - parts.discrimination + parts.uncertainty - parts.score, 12)
    0.0
    """
    if loss not in ("brier", "log"):
        raise refusal("must be 'brier' or 'log'", where="'loss'", got=f"it is {loss!r}")
    scores, weight, events = pooled_scores(Given(y_true, y_prob, sample_weight).pair(target))
    return decomposed(scores, weight, events, isotonic_rates(weight, events), loss)


def decomposed(
    scores: np.ndarray, weight: np.ndarray, events: np.ndarray, rates: np.ndarray, loss: str
) -> Decomposition:
    """The decomposition from `pooled_scores` and their `isotonic_rates`."""
    rate = np.full(scores.size, events.sum() / weight.sum())
    own, fitted, constant = (_mean_loss(values, weight, events, loss) for values in (scores, rates, rate))
    return Decomposition(own, own - fitted, constant - fitted, constant)


def pooled_scores(pair: Pair) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct predictions in order, with the weight and the weighted events of each."""
    order = np.argsort(pair.predicted, kind="stable")
    scores = pair.predicted[order]
    starts = np.flatnonzero(np.append(True, scores[1:] != scores[:-1]))
    weight = np.ones(pair.rows) if pair.first is None else pair.first[order]
    events = weight * pair.observed[order]
    return scores[starts], np.add.reduceat(weight, starts), np.add.reduceat(events, starts)


def isotonic_rates(weight: np.ndarray, events: np.ndarray) -> np.ndarray:
    """The non-decreasing rates that fit best."""
    from miscal.kernels.order import rising_rates

    rates = np.empty(weight.size)
    rising_rates(np.ascontiguousarray(events, dtype=np.float64), np.ascontiguousarray(weight, dtype=np.float64), rates)
    return np.clip(rates, 0.0, 1.0)


def _mean_loss(predicted: np.ndarray, weight: np.ndarray, events: np.ndarray, loss: str) -> float:
    others = weight - events
    if loss == "brier":
        return float((events * (1 - predicted) ** 2 + others * predicted**2).sum() / weight.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.where(events > 0, -events * np.log(predicted), 0.0)
        cost = cost + np.where(others > 0, -others * np.log1p(-predicted), 0.0)
    return float(cost.sum() / weight.sum())


def log_loss(y_true: Any, y_prob: Any, *, target: str | int = "auto", sample_weight: Any = None) -> float:
    """Mean logarithmic loss, never clipped: infinite when a certain prediction is wrong.

    With several classes and ``target="auto"`` it is the loss of the true class's probability.

    Examples
    --------
    >>> from miscal.metrics import log_loss
    >>> round(log_loss([1, 0], [0.5, 0.5]), 6)
    0.693147
    """
    given = Given(y_true, y_prob, sample_weight)
    if given.predictions.probability.ndim == 2 and target == "auto":
        chosen = np.take_along_axis(given.predictions.probability, given.predictions.outcome[:, None].astype(int), 1)
        with np.errstate(divide="ignore"):
            return float(np.average(-np.log(chosen[:, 0]), weights=given.predictions.weight))
    return _tally_mean(given.pair(target), "log_loss")


def brier_score(y_true: Any, y_prob: Any, *, target: str | int = "auto", sample_weight: Any = None) -> float:
    """Mean squared difference between outcome and probability; over all classes when there are several.

    Examples
    --------
    >>> from miscal.metrics import brier_score
    >>> brier_score([1, 0], [0.5, 0.5])
    0.25
    """
    given = Given(y_true, y_prob, sample_weight)
    if given.predictions.probability.ndim == 2 and target == "auto":
        probability, outcome = given.predictions.probability, given.predictions.outcome.astype(int)
        chosen = np.take_along_axis(probability, outcome[:, None], 1)[:, 0]
        squares = np.einsum("ij,ij->i", probability, probability) - 2 * chosen + 1
        return float(np.average(squares, weights=given.predictions.weight))
    return _tally_mean(given.pair(target), "squared_error")


def _tally_mean(pair: Pair, name: str) -> float:
    one = tally(pair, BinPooling(pair.predicted, Ranges(np.array([0.0, 1.0]))))
    return float(getattr(one, name)[0] / one.weight[0])


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

"""Losses and what they are made of, answers with a right to decline, and the clinic's measures.

Those are slope, intercept, calibration in the large, the ratio, and the smooth curve's distance.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from miscal.data.arrays import Array, Plain
from miscal.data.checks import number, one_of
from miscal.data.libraries import special
from miscal.data.target import TargetData
from miscal.kernels.logistic import LOGIT, score_pass
from miscal.kernels.sorting import sorted_order
from miscal.kernels.threads import over_blocks
from miscal.metrics.inputs import MetricInput
from miscal.results import Record
from miscal.stats.cell_sums import run_starts
from miscal.stats.intervals import total_half_width
from miscal.stats.isotonic import increasing_rates
from miscal.stats.normal import NORMAL_95, cluster_half_width


@dataclass(frozen=True)
class Decomposition(Record):
    """A mean score = miscalibration - discrimination + uncertainty.

    Attributes
    ----------
    score : float
        Mean loss of the predictions.
    miscalibration : float
        What an isotonic recalibration of these rows would save (CORP); at least 0.
    discrimination : float
        How much better the recalibrated predictions are than the overall rate.
    uncertainty : float
        Mean loss of the overall rate.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def score_decomposition(
    y_true: Any, y_prob: Any, *, loss: str = "brier", target: str | int = "auto", sample_weight: Any = None
) -> Decomposition:
    """Split the Brier score or the log loss by isotonic regression (Dimitriadis, Gneiting & Jordan, 2021).

    This is the CORP decomposition.
    Tied scores are pooled before the regression. A certain prediction that is wrong has an infinite log loss, and so
    an infinite miscalibration.

    Examples
    --------
    >>> from miscal.metrics import score_decomposition
    >>> parts = score_decomposition([0, 0, 1, 1], [0.1, 0.4, 0.3, 0.8])
    >>> round(parts.miscalibration - parts.discrimination + parts.uncertainty - parts.score, 12)
    0.0
    """
    one_of("loss", loss, ("brier", "log"))
    scores, weight, events = pooled_scores(MetricInput(y_true, y_prob, sample_weight).pair(target))
    return decomposed(scores, weight, events, isotonic_rates(weight, events), loss)


def decomposed(scores: Array, weight: Array, events: Array, rates: Array, loss: str) -> Decomposition:
    """The decomposition from `pooled_scores` and their `isotonic_rates`."""
    rate = np.full(scores.size, events.sum() / weight.sum())
    raw, fitted, constant = (_mean_loss(values, weight, events, loss) for values in (scores, rates, rate))
    return Decomposition(raw, raw - fitted, constant - fitted, constant)


def pooled_scores(data: TargetData) -> tuple[Array, Array, Array]:
    """Distinct predictions in order, with the weight and the weighted events of each."""
    order = sorted_order(data.predicted)
    scores = data.predicted[order]
    starts = np.flatnonzero(run_starts(scores))
    weight = np.ones(data.rows) if data.mean_weight is None else data.mean_weight[order]
    events = weight * data.observed[order]
    return scores[starts], np.add.reduceat(weight, starts), np.add.reduceat(events, starts)


def isotonic_rates(weight: Array, events: Array) -> Array:
    """The non-decreasing rates that fit best."""
    return np.clip(increasing_rates(events, weight), 0.0, 1.0)


def _mean_loss(predicted: Array, weight: Array, events: Array, loss: str) -> float:
    non_events = weight - events
    if loss == "brier":
        return float((events * (1 - predicted) ** 2 + non_events * predicted**2).sum() / weight.sum())
    likelihood = special.xlogy(events, predicted) + special.xlog1py(non_events, -predicted)
    return float(-likelihood.sum() / weight.sum())


def log_loss(y_true: Any, y_prob: Any, *, target: str | int = "auto", sample_weight: Any = None) -> float:
    """Mean logarithmic loss (negative log-likelihood), never clipped: infinite when a certain prediction is wrong.

    With several classes and ``target="auto"`` it is the loss of the true class's probability.

    Examples
    --------
    >>> from miscal.metrics import log_loss
    >>> round(log_loss([1, 0], [0.5, 0.5]), 6)
    0.693147
    """
    inputs = MetricInput(y_true, y_prob, sample_weight)
    with np.errstate(divide="ignore"):
        losses = np.log(_of_the_truth(inputs, target))
    return float(0.0 - np.average(losses, weights=inputs.predictions.weight))


def _of_the_truth(inputs: MetricInput, target: str | int) -> Array:
    """The probability that each row gave to the outcome that was observed."""
    p = inputs.predictions
    if p.probability.ndim == 2 and target == "auto":
        return np.take_along_axis(p.probability, p.outcome[:, None].astype(int), 1)[:, 0]
    data = inputs.pair(target)
    return np.where(data.observed, data.predicted, 1.0 - data.predicted)


def brier_score(y_true: Any, y_prob: Any, *, target: str | int = "auto", sample_weight: Any = None) -> float:
    """Mean squared difference between outcome and probability (Brier score); over all classes when there are several.

    Examples
    --------
    >>> from miscal.metrics import brier_score
    >>> brier_score([1, 0], [0.5, 0.5])
    0.25
    """
    inputs = MetricInput(y_true, y_prob, sample_weight)
    truth, probability = _of_the_truth(inputs, target), inputs.predictions.probability
    losses = (1.0 - truth) ** 2
    if probability.ndim == 2 and target == "auto":
        losses = np.einsum("ij,ij->i", probability, probability) - 2 * truth + 1
    return float(np.average(losses, weights=inputs.predictions.weight))


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
    _, weight, events = pooled_scores(MetricInput(y_true, y_prob, sample_weight).pair(target))
    return 2.0 * area_under_curve(weight, events) - 1.0


def area_under_curve(weight: Array, events: Array) -> float:
    """Probability that an event's score exceeds a non-event's, ties half; cells are distinct scores in order."""
    non_events = weight - events
    below = np.cumsum(non_events) - 0.5 * non_events
    pairs = events.sum() * non_events.sum()
    return float((events * below).sum() / pairs) if pairs > 0 else math.nan


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
    The reward ratio w/u of paper 002 is ``error_cost / unsure_cost``.

    Examples
    --------
    >>> from miscal.metrics import abstention_reward
    >>> abstention_reward([1, 1, 0], [0.95, 0.6, 0.99])
    -11.0
    """
    number("unsure_cost", unsure_cost, 0.0, above=True)
    number("error_cost", error_cost, 0.0, above=True)
    data = MetricInput(y_true, y_prob, sample_weight).pair(target)
    answers = data.predicted >= 1.0 - unsure_cost / error_cost
    cost_of_row = np.where(answers, error_cost * (1.0 - data.observed), unsure_cost)
    return -float(np.sum(data.weighted(cost_of_row)))


# Numbers below it have fewer digits, and the kernels' logarithm none.
SMALLEST = sys.float_info.min
BELOW_ONE = 1.0 - 2.0**-53  # the largest number below 1
MOST_STEPS = 100
SMALL_STEP = 1e-7  # the error after a step is of the order of the step's square: 1e-14
MOST_HALVINGS = 40
ROUNDING = 1e-12  # of the loss: a step to the last digits may not lower it
WIDEST = math.log(sys.float_info.max)  # an exponent beyond it is infinite
GRID = 2000  # points at which the smooth curve is fitted when there are more distinct scores


@dataclass(frozen=True)
class IntervalEstimate(Record):
    """A number with its 95% interval.

    Attributes
    ----------
    value, low, high : float
        NaN where nothing can be fitted.
    """

    value: float
    low: float
    high: float

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval."""
        return self.low, self.high

    def entries(self) -> Plain:
        """The value and its interval, as `Result.extra` has them."""
        return {"value": self.value, "interval": [self.low, self.high]}


UNKNOWN_ESTIMATE = IntervalEstimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class SlopeIntercept:
    """Logistic recalibration of the score, and totals.

    Attributes
    ----------
    slope : IntervalEstimate
        Of the outcome's logit on the predicted logit: 1 for calibrated predictions, below 1 where they are too extreme.
    intercept : IntervalEstimate
        At that slope.
    in_the_large : IntervalEstimate
        Intercept at a slope of 1: 0 for calibrated predictions, below 0 where they are too high.
    ratio : IntervalEstimate
        Predicted over observed events: 1 for calibrated predictions; its inverse is the O/E ratio.
    """

    slope: IntervalEstimate
    intercept: IntervalEstimate
    in_the_large: IntervalEstimate
    ratio: IntervalEstimate


def calibration_slope_intercept(
    y_true: Any, y_prob: Any, *, target: str | int = "auto", sample_weight: Any = None
) -> SlopeIntercept:
    """Slope, intercept, calibration in the large and the ratio predicted / observed, each with a 95% interval.

    The calibration slope and intercept are Cox's: maximum likelihood of logit P(y=1) = intercept + slope·logit(p).
    The ratio is the inverse of O/E, observed over expected.
    Rows with a probability of exactly 0 or 1 have no log-odds, and any number put in their place would make the slope:
    they are left out of all but the ratio.
    Intervals are Wald's from the information matrix, or from the sandwich when there are weights; the ratio's is on
    the log scale, with the noise of what was observed. A single class or a single score gives NaN: nothing can be
    fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.metrics import calibration_slope_intercept
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(2, 3, 10_000)
    >>> fit = calibration_slope_intercept(rng.random(10_000) < p, p)
    >>> fit.slope.low < 1 < fit.slope.high
    True
    """
    return slope_intercept(MetricInput(y_true, y_prob, sample_weight).pair(target))


def slope_intercept(data: TargetData) -> SlopeIntercept:
    """Slope, intercept, in the large and ratio of a pair."""
    intercept, slope = _fit(data, 2)
    return SlopeIntercept(slope, intercept, in_the_large(data), ratio_of(data))


def in_the_large(data: TargetData) -> IntervalEstimate:
    """The shift in log-odds after which as many events are predicted as were observed."""
    return _fit(data, 1)[0]


def _fit(data: TargetData, free: int) -> list[IntervalEstimate]:
    """Newton's method on one or two free coefficients, of the rows with log-odds; the slope starts, or stays, at 1.

    A whole step from there may lead far beyond the minimum where the slope is nowhere near 1 (scores of the other
    class, scores far too extreme), and the next one further: a step that does not lower the loss is halved.
    """
    inside = (data.predicted > 0.0) & (data.predicted < 1.0)
    data = data if inside.all() else data.take(inside)
    varied = (data.observed, data.predicted)[:free]
    if not data.rows or not all(map(np.ptp, varied)):
        return [UNKNOWN_ESTIMATE] * free

    hessians: list[Array] = []  # the Hessian at each step

    def step_at(_: Array, state: Any) -> tuple[Array, bool]:
        step = np.zeros(2)
        hessians.append(state[2][:free, :free])
        step[:free] = np.linalg.lstsq(hessians[-1], state[1][:free], rcond=None)[0]
        return np.clip(step, -5.0, 5.0), bool(np.abs(step).max() < SMALL_STEP)

    as_logit = LOGIT, SMALLEST, BELOW_ONE, np.zeros(1), np.ones(1)
    evaluate = partial(logistic_loss, data.predicted, data.observed, data.mean_weight, *as_logit)
    theta = descended(evaluate, np.array([0.0, 1.0]), step_at)
    reach = NORMAL_95 if data.cluster is None else cluster_half_width(np.unique(data.cluster).size)
    variance = np.diag(_covariance(data, theta, hessians[-1]))
    spread = reach * np.sqrt(np.maximum(variance, 0.0))
    estimates = theta[:free]
    ends = np.stack([estimates, estimates - spread, estimates + spread], axis=1)
    return [IntervalEstimate(*row) for row in ends.tolist()]


def descended(
    evaluate: Callable[[Array], Any],
    theta: Array,
    step_at: Callable[[Array, Any], tuple[Array, bool]],
) -> Array:
    """Take steps until one is the last; each is halved until the loss does not rise.

    `evaluate` gives the loss and what else `step_at` needs; that gives what is subtracted from theta, and whether it
    ends the search.
    """
    state = evaluate(theta)
    for _ in range(MOST_STEPS):
        step, last = step_at(theta, state)
        if last:
            return theta - step
        for _ in range(MOST_HALVINGS):
            new = evaluate(theta - step)
            if new[0] <= state[0] + ROUNDING * abs(state[0]):
                break
            step = 0.5 * step
        else:
            return theta
        theta, state = theta - step, new
    return theta


def logistic_loss(
    score: Array, outcome: Array, weight: Array | None, *arguments: Any
) -> tuple[float, Array, Array]:
    """Sum of log losses of a logistic curve of the score, its gradient and Hessian; `arguments` are the kernel's."""
    weight = np.empty(0) if weight is None else weight  # to the kernel ones

    def block_sums(start: int, stop: int) -> Array:
        observed = outcome[start:stop].astype(float)
        return np.asarray(score_pass(score[start:stop], observed, weight[start:stop], *arguments))

    total = np.sum(over_blocks(len(score), block_sums), axis=0)
    return total[0, 0], total[1], total[2:]


def _covariance(data: TargetData, theta: Array, hessian: Array) -> Array:
    bread = np.linalg.pinv(hessian)
    if data.weight is None and data.cluster is None:
        return bread
    logit = special.logit(data.predicted)
    off = data.observed - special.expit(theta[0] + theta[1] * logit)
    off = data.weighted(off)
    score = np.stack([off, off * logit][: len(bread)])
    if data.cluster is not None:
        score = np.stack([np.bincount(data.cluster, part) for part in score])
    with np.errstate(over="ignore", invalid="ignore"):  # scores of next to nothing: no slope is known
        covariance = bread @ (score @ score.T) @ bread
    return np.where(np.isfinite(covariance), covariance, np.inf)


def ratio_of(data: TargetData) -> IntervalEstimate:
    """Predicted / observed, with the noise of what was observed: Σw(y - p/ratio), by cluster where there are any."""
    predicted, observed = (float(np.sum(data.weighted(values))) for values in (data.predicted, data.observed))
    if observed == 0 or predicted == 0:
        return IntervalEstimate(math.inf if predicted > 0 else math.nan, math.nan, math.nan)
    ratio = predicted / observed
    expected = data.predicted / ratio
    spread = total_half_width(data, np.minimum(expected, 1.0) if data.binary else expected) / observed
    return ratio_within(ratio, spread)


def ratio_within(ratio: float, spread: float) -> IntervalEstimate:
    """A ratio with its interval, whose ends are so far from it on the log scale."""
    high = ratio * math.exp(spread) if spread < WIDEST else math.inf
    return IntervalEstimate(ratio, ratio * math.exp(-spread), high)


def integrated_calibration_index(
    y_true: Any, y_prob: Any, *, span: float = 0.75, target: str | int = "auto", sample_weight: Any = None
) -> float:
    """Mean distance between the prediction and a smooth curve of the outcome (ICI; Austin & Steyerberg, 2019).

    The curve is local regression of degree 2 of the outcome on the score. Up to 2,000 distinct scores it is fitted at
    each; beyond that at 2,000 of their quantiles, and interpolated.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.metrics import integrated_calibration_index
    >>> p = np.linspace(0.05, 0.95, 400)
    >>> bool(integrated_calibration_index(np.random.default_rng(0).random(400) < p, p) < 0.1)
    True
    """
    number("span", span, 0.0, 1.0, above=True)
    from miscal.metrics.curves import smooth

    data = MetricInput(y_true, y_prob, sample_weight).pair(target)
    scores = np.unique(data.predicted)
    if scores.size > GRID:
        scores = np.unique(np.quantile(scores, np.linspace(0, 1, GRID)))
    curve = smooth(data.predicted, data.observed, weight=data.mean_weight, span=span, grid=scores)
    fitted = np.interp(data.predicted, curve.grid, np.clip(curve.fit[:, 0], 0.0, 1.0))
    return float(np.average(np.abs(fitted - data.predicted), weights=data.mean_weight))

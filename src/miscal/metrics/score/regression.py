"""The clinic's measures: slope, intercept, calibration in the large, ratio, and the smooth curve's distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.engines.sums import NO_WEIGHT
from miscal.inference.intervals import total_reach
from miscal.kernels.threads import over_blocks
from miscal.metrics.arrays import Given
from miscal.pairs import Pair

LEAST, MOST = float(np.nextafter(0.0, 1.0)), float(np.nextafter(1.0, 0.0))  # scores between them have log-odds
MOST_STEPS = 50
MOST_HALVINGS = 40
ROUNDING = 1e-12  # of the loss: a step to the last digits may not lower it
NORMAL_95 = 1.959963984540054
GRID = 2000  # points at which the smooth curve is fitted when there are more distinct scores


@dataclass(frozen=True)
class Estimate:
    """A number with its 95% interval."""

    value: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.value


NOTHING = Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class SlopeIntercept:
    """Logistic recalibration of the score, and totals.

    Attributes
    ----------
    slope : of the outcome's logit on the predicted logit; 1 is right, below 1 the predictions are too extreme
    intercept : at that slope
    in_the_large : intercept when the slope is held at 1; 0 is right, below 0 the predictions are too high
    ratio : predicted / observed events; 1 is right (its inverse is the O/E ratio)
    """

    slope: Estimate
    intercept: Estimate
    in_the_large: Estimate
    ratio: Estimate


def calibration_slope_intercept(
    y_true: Any, y_prob: Any, *, target: str | int = "auto", sample_weight: Any = None
) -> SlopeIntercept:
    """Slope, intercept, calibration in the large and the ratio predicted / observed, each with a 95% interval.

    Maximum likelihood of logit P(y=1) = intercept + slope·logit(p). Rows said to be certain, 0 or 1, have no
    log-odds, and any number put in their place would make the slope: they are left out of all but the ratio.
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
    return slope_intercept(Given(y_true, y_prob, sample_weight).pair(target))


def slope_intercept(pair: Pair) -> SlopeIntercept:
    """Slope, intercept, in the large and ratio of a pair."""
    ratio, pair = ratio_of(pair), without_certain(pair)
    large = in_the_large(pair)
    if math.isnan(large.value) or pair.predicted.min() == pair.predicted.max():
        return SlopeIntercept(NOTHING, NOTHING, large, ratio)
    intercept, slope = _fit(pair, free_slope=True)
    return SlopeIntercept(slope, intercept, large, ratio)


def in_the_large(pair: Pair) -> Estimate:
    """The shift in log-odds after which as many events are predicted as were observed."""
    pair = without_certain(pair)
    one_class = not pair.rows or pair.observed.min() == pair.observed.max()
    return NOTHING if one_class else _fit(pair, free_slope=False)[0]


def without_certain(pair: Pair) -> Pair:
    """The rows whose scores have log-odds."""
    inside = has_log_odds(pair)
    return pair if inside.all() else pair.take(inside)


def has_log_odds(pair: Pair) -> np.ndarray:
    """Which rows were not said to be certain."""
    return np.asarray((pair.predicted > 0.0) & (pair.predicted < 1.0))


def _fit(pair: Pair, *, free_slope: bool) -> list[Estimate]:
    """Newton's method on one or two coefficients; the slope starts, or stays, at 1.

    A whole step from there may lead far beyond the minimum where the slope is nowhere near 1 (scores of the other
    class, scores far too extreme), and the next one further: a step that does not lower the loss is halved.
    """
    from scipy.special import stdtrit

    theta = np.array([0.0, 1.0])
    free = np.array([True, free_slope])
    loss, gradient, hessian = _derivatives(pair, theta)
    for _ in range(MOST_STEPS):
        step = np.zeros(2)
        step[free] = np.linalg.lstsq(hessian[np.ix_(free, free)], gradient[free], rcond=None)[0]
        if np.abs(step).max() < 1e-10:
            theta -= step
            break
        step = np.clip(step, -5.0, 5.0)
        state = _derivatives(pair, theta - step)
        for _ in range(MOST_HALVINGS):
            if state[0] <= loss + ROUNDING * abs(loss):
                break
            step *= 0.5
            state = _derivatives(pair, theta - step)
        theta -= step
        loss, gradient, hessian = state
    if not np.isfinite(theta).all() or np.abs(theta).max() > 1e6:
        return [NOTHING] * int(free.sum())
    reach = NORMAL_95
    if pair.cluster is not None:  # few clusters: Student's t, and their variance with the usual correction
        groups = max(int(np.unique(pair.cluster).size), 2)
        reach = float(-stdtrit(groups - 1.0, 0.025)) * math.sqrt(groups / (groups - 1.0))
    spread = np.sqrt(np.maximum(np.diag(_covariance(pair, theta, hessian, free)), 0.0))
    return [
        Estimate(float(value), float(value - reach * error), float(value + reach * error))
        for value, error in zip(theta[free], spread, strict=True)
    ]


def _derivatives(pair: Pair, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Loss, gradient and Hessian."""
    from miscal.kernels.logistic import LOGIT, score_pass

    weight = NO_WEIGHT if pair.first is None else pair.first
    zero, one = np.zeros(1), np.ones(1)

    def work(start: int, stop: int) -> np.ndarray:
        rows = pair.predicted[start:stop], pair.observed[start:stop].astype(np.float64), weight[start:stop]
        return np.asarray(score_pass(*rows, LOGIT, LEAST, MOST, 0.0, zero, one, theta))

    total = np.sum(over_blocks(pair.predicted.size, work), axis=0)
    hessian = np.triu(total[2:]) + np.triu(total[2:], 1).T
    return float(total[0, 0]), total[1], hessian


def _covariance(pair: Pair, theta: np.ndarray, hessian: np.ndarray, free: np.ndarray) -> np.ndarray:
    from scipy.special import expit

    bread = np.linalg.pinv(hessian[np.ix_(free, free)])
    if pair.weight is None and pair.cluster is None:
        return np.asarray(bread)
    logit = np.log(pair.predicted) - np.log1p(-pair.predicted)
    fitted = expit(theta[0] + theta[1] * logit)
    score = np.stack([np.ones(pair.rows), logit], axis=1)[:, free] * (pair.observed - fitted)[:, None]
    if pair.first is not None:
        score *= pair.first[:, None]
    if pair.cluster is not None:
        totals = np.zeros((int(pair.cluster.max()) + 1, score.shape[1]))
        np.add.at(totals, pair.cluster, score)
        score = totals
    with np.errstate(over="ignore", invalid="ignore"):  # scores of next to nothing: no slope is known
        found = bread @ (score.T @ score) @ bread
    return np.where(np.isfinite(found), found, np.inf)


def ratio_of(pair: Pair) -> Estimate:
    """Predicted / observed, with the noise of what was observed: Σw(y - p/ratio), by cluster where there are any."""
    weight = 1.0 if pair.first is None else pair.first
    predicted = float(np.sum(pair.predicted * weight))
    observed = float(np.sum(pair.observed * weight))
    if observed == 0 or predicted == 0:
        return Estimate(math.inf if predicted > 0 else math.nan, math.nan, math.nan)
    ratio = predicted / observed
    expected = pair.predicted / ratio
    spread = total_reach(pair, np.minimum(expected, 1.0) if pair.binary else expected) / observed
    widest = math.log(np.finfo(np.float64).max)
    return Estimate(ratio, ratio * math.exp(-spread), ratio * math.exp(spread) if spread < widest else math.inf)


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
    if not (isinstance(span, (int, float)) and 0 < span <= 1):
        raise refusal("must lie in (0, 1]", where="'span'", got=f"it is {span!r}")
    from miscal.metrics.curves import smooth

    pair = Given(y_true, y_prob, sample_weight).pair(target)
    scores = np.unique(pair.predicted)
    if scores.size > GRID:
        scores = np.unique(np.quantile(scores, np.linspace(0, 1, GRID)))
    curve = smooth(pair.predicted, pair.observed, weight=pair.first, span=span, degree=2, grid=scores)
    fitted = np.interp(pair.predicted, curve.grid, np.clip(curve.fit[:, 0], 0.0, 1.0))
    return float(np.average(np.abs(fitted - pair.predicted), weights=pair.first))

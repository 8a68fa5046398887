"""Logistic regression on features of the score: its logit, the probability itself, or beta's two logarithms.

Fits are made in standardised coordinates (features centred and scaled), so that one tolerance serves every unit of
measure.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from miscal.data.arrays import Array, Floats, Integers
from miscal.data.errors import warn
from miscal.kernels import logistic as kernels
from miscal.kernels.threads import over_blocks
from miscal.metrics.losses import BELOW_ONE, SMALLEST, logistic_loss
from miscal.recalibrate.newton import Derivatives, newton_minimise
from miscal.recalibrate.outcome_families import ArrayFunction
from miscal.recalibrate.training_sample import FitResult, TrainingSample, warm_started

#: The kernel's code of each kind of features.
KERNEL_FEATURES = {"probability": kernels.PROBABILITY, "logit": kernels.LOGIT, "beta": kernels.BETA}
#: Probabilities are clipped to [LOGIT_CLIP, 1 - LOGIT_CLIP] before the logit.
LOGIT_CLIP = 1e-12
#: Rows per block of a map.
MAP_BLOCK_ROWS = 1 << 14
#: Features whose range is smaller than this, relative to their mean, are constant.
CONSTANT_RANGE = 1e-13

SEPARATED_CLASSES = (
    "the classes are separated, wholly or on one side: without a penalty a steeper curve always fits better. "
    "The coefficients were stopped where the loss is flat (curvature below 1e-12 of its scale). "
    "Pass l2=1 to fit a finite optimum"
)


@dataclass(frozen=True)
class ScoreFeatures:
    """How features are made from a score.

    Attributes
    ----------
    kind : {"probability", "logit", "beta"}
        The score itself, its logit, or ln p and -ln(1 - p).
    clip : float
        Distance from 0 and 1 that scores are clipped to before logarithms.
    """

    kind: str
    clip: float = LOGIT_CLIP

    @classmethod
    def for_recalibrator(cls, recalibrator: Any) -> "ScoreFeatures":
        """Those that the parameter `on` of a recalibrator says; without it, beta's with its `clip`."""
        if hasattr(recalibrator, "on"):
            return cls(recalibrator.on)
        return cls("beta", float(recalibrator.clip))

    @property
    def count(self) -> int:
        """How many features."""
        return 2 if self.kind == "beta" else 1

    @property
    def kernel_arguments(self) -> tuple[int, float, float]:
        """What the kernel takes: kind, and the range that scores are clipped to."""
        if self.kind == "probability":
            return KERNEL_FEATURES[self.kind], SMALLEST, 1.0
        low = max(self.clip, SMALLEST)
        return KERNEL_FEATURES[self.kind], low, min(1.0 - low, BELOW_ONE)

    def rows(self, score: Floats) -> Floats:
        """Features of rows, (count, rows)."""
        _, low, high = self.kernel_arguments
        clipped = np.clip(score, low, high)
        if self.kind == "beta":
            return np.stack([np.log(clipped), -np.log(1.0 - clipped)])
        return (clipped if self.kind == "probability" else np.log(clipped / (1.0 - clipped)))[None, :]

    def map(self, score: Floats, coefficients: Floats, intercept: float) -> Floats:
        """Probabilities (n, 2) of a fitted curve."""
        return probabilities_from_log_odds(score, lambda part: coefficients @ self.rows(part) + intercept)


def probabilities_from_log_odds(score: Floats, log_odds: ArrayFunction) -> Floats:
    """Probabilities of the log-odds that a function gives, accurate near 0 and near 1.

    Parameters
    ----------
    score : (n,) array
        What the function is called with, in blocks.
    log_odds : callable
        Gives log-odds of class 1.

    Returns
    -------
    (n, 2) array
    """
    out = np.empty((len(score), 2))

    def map_block(start: int, stop: int) -> None:
        x = log_odds(score[start:stop])
        small = np.exp(-np.abs(x))
        large = 1.0 / (1.0 + small)
        small *= large
        out[start:stop, 0] = np.where(x >= 0.0, small, large)
        out[start:stop, 1] = np.where(x >= 0.0, large, small)

    over_blocks(len(score), map_block, MAP_BLOCK_ROWS)
    return out


def locate_between_knots(knots: Floats, x: Floats) -> tuple[Integers, Floats]:
    """The knot below each number, and its distance from it as a part of the step to the next knot.

    Parameters
    ----------
    knots : (k,) array
        Increasing.
    x : array
        The numbers.

    Returns
    -------
    place : array of int
        From 0 to k - 2.
    part : array
        Outside of the knots below 0 or above 1.
    """
    place = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    return place, (x - knots[place]) / np.diff(knots)[place]


def loss_derivatives(x: Floats, outcome: Array, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Log loss of each row and its derivatives.

    Parameters
    ----------
    x : (n,) array
        Log-odds of class 1.
    outcome, weight : (n,) array
        Of each row.

    Returns
    -------
    loss : (n,) array
        Without weights.
    gradient : (n,) array
        w (P - y).
    curvature : (n,) array
        w P (1 - P).
    """
    small = np.exp(-np.abs(x))
    larger = 1.0 / (1.0 + small)
    smaller = small * larger
    loss = np.maximum(x, 0.0) - outcome * x - np.log(larger)
    return loss, (np.where(x >= 0.0, larger, smaller) - outcome) * weight, smaller * larger * weight


class LogisticFit:
    """One logistic regression on features of a score, in coordinates centred and scaled by the rows themselves.

    Parameters
    ----------
    rows : TrainingSample
        Two classes.
    recalibrator : Recalibrator
        Its parameters `l2`, `constraint`, `towards`, and `on` or `clip` say what is fitted.

    Attributes
    ----------
    features : ScoreFeatures
        Of the score.
    centre, scale : (features,) array
        Coordinates are (feature - centre) * scale.
    constant : bool
        Whether the features of the score do not vary.
    shrinks_to_identity : bool
        Whether the penalty shrinks to the score as it is.
    """

    #: Whether a thinned sample is fitted first.
    starts_warm = True

    def __init__(self, rows: TrainingSample, recalibrator: Any) -> None:
        self.rows, self.features = rows, ScoreFeatures.for_recalibrator(recalibrator)
        self.l2 = recalibrator.l2
        self.positive = recalibrator.constraint == "positive"
        self.shrinks_to_identity = recalibrator.towards == "identity" and recalibrator.l2 > 0
        # A thinned sample will do: the coordinates need not be exact.
        values = self.features.rows((rows.thinned() or rows).probability)
        self.centre, deviation = values.mean(axis=1), values.std(axis=1)
        ends = np.array([rows.probability.min(), rows.probability.max()])
        reach = np.ptp(self.features.rows(ends), axis=1)
        self.constant = not (reach > CONSTANT_RANGE * (1.0 + np.abs(self.centre))).all()
        self.scale = 1.0 / np.where(deviation > 0, deviation, np.where(reach > 0, reach, 1.0))
        if self.shrinks_to_identity:  # the intercept is penalised too, and must be one of the coordinates
            self.centre, self.constant = np.zeros(self.features.count), False

    def evaluate(self, rows: TrainingSample, theta: Floats) -> Derivatives:
        """Sum of log losses, its gradient and Hessian."""
        curve = *self.features.kernel_arguments, self.centre, self.scale, theta
        return logistic_loss(rows.probability, rows.outcome, rows.weight, *curve)

    def minimum(self, free: Array) -> FitResult:
        """Fit with the coefficients outside `free` at 0."""
        target = np.zeros(len(self.centre) + 1)
        start = target.copy()
        start[0] = np.log(self.rows.rate / (1.0 - self.rows.rate))
        if self.shrinks_to_identity:
            start = target = np.append(0.0, 1.0 / self.scale) * free
        penalty = np.append(self.l2 * self.shrinks_to_identity, self.l2 * self.scale**2) / self.rows.total

        def fit(rows: TrainingSample, start: Floats) -> FitResult:
            evaluate = partial(self.evaluate, rows)
            return newton_minimise(evaluate, start, rows.total, penalty * rows.total, free, target)

        return warm_started(self.rows, fit, start) if self.starts_warm else fit(self.rows, start)

    def best(self) -> tuple[Floats, float]:
        """Coefficients, and the intercept where the score's features are 0 and columns are at their centres.

        With ``constraint="positive"`` the coefficients of the score's two features are not negative: the optimum is
        found by trying every face of that constraint.
        """
        free = np.append(True, self.scale > 0)
        theta, diverges = self.minimum(free)
        if self.positive and not (theta[1:3] >= 0).all():
            feasible = []
            for fixed in ([1], [2], [1, 2]):
                face = free.copy()
                face[fixed] = False
                theta, _ = self.minimum(face)
                if (theta[1:3] >= 0).all():
                    feasible.append(theta)
            theta, diverges = min(feasible, key=self.loss), False
        if diverges:
            warn(SEPARATED_CLASSES)
        coefficients, width = theta[1:] * self.scale, self.features.count
        return coefficients, theta[0] - coefficients[:width] @ self.centre[:width]

    def loss(self, theta: Floats) -> float:
        """Log loss and penalty at a point."""
        deviation = theta[1:] * self.scale - self.shrinks_to_identity
        penalty = self.l2 * (deviation @ deviation + self.shrinks_to_identity * theta[0] ** 2)
        return self.evaluate(self.rows, theta)[0] + 0.5 * float(penalty)


def fit_logistic(rows: TrainingSample, recalibrator: Any) -> tuple[Floats, float]:
    """Fit a penalised logistic regression on features of the score.

    Towards the identity a penalty shrinks to coefficients 1 and intercept 0, not to coefficients 0. When all scores are
    equal the slope cannot be learned: without a penalty it is that of the identity (0 for "probability", which has
    none) and the intercept meets the observed rate.

    Parameters
    ----------
    rows : TrainingSample
        Two classes.
    recalibrator : Recalibrator
        Its parameters say what is fitted, as in `LogisticFit`.

    Returns
    -------
    coefficients : (features,) array
        Of the features.
    intercept : float
        Where they are 0.
    """
    fit = LogisticFit(rows, recalibrator)
    if fit.constant:
        features = fit.features
        no_slope = recalibrator.l2 > 0 or features.kind == "probability"
        slope = np.full(features.count, 0.0 if no_slope else 1.0)
        return slope, np.log(rows.rate / (1.0 - rows.rate)) - slope @ fit.centre
    return fit.best()

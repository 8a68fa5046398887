"""Logistic fits by Newton's method with step control, on features of the score: logit, probability, beta's logarithms.

Fits are made in standardised coordinates (features centred and scaled), so one tolerance serves every unit of measure.
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

KERNEL_FEATURES = {"probability": kernels.PROBABILITY, "logit": kernels.LOGIT, "beta": kernels.BETA}
LOGIT_CLIP = 1e-12
MAP_BLOCK_ROWS = 1 << 14  # rows of a block

SEPARATED_CLASSES = (
    "the classes are separated, wholly or on one side: without a penalty a steeper curve always fits better. "
    "The coefficients were stopped where the loss is flat (curvature below 1e-12 of its scale). "
    "Pass l2=1 to fit a finite optimum"
)


@dataclass(frozen=True)
class ScoreFeatures:
    """How features are made from a score: their kind, and the distance from 0 and 1 that logarithms are held at."""

    kind: str
    clip: float = LOGIT_CLIP

    @classmethod
    def for_recalibrator(cls, recalibrator: Any) -> "ScoreFeatures":
        """Those that the parameters of a recalibrator ask for."""
        if hasattr(recalibrator, "on"):
            return cls(recalibrator.on)
        return cls("beta", float(recalibrator.clip))

    @property
    def count(self) -> int:
        """How many features."""
        return 2 if self.kind == "beta" else 1

    @property
    def arguments(self) -> tuple[int, float, float]:
        """What the kernel takes: kind, low, high."""
        if self.kind == "probability":
            return KERNEL_FEATURES[self.kind], SMALLEST, 1.0
        low = max(self.clip, SMALLEST)
        return KERNEL_FEATURES[self.kind], low, min(1.0 - low, BELOW_ONE)

    def rows(self, score: Floats) -> Floats:
        """Features of rows, (count, rows)."""
        held = np.clip(score, *self.arguments[1:])
        if self.kind == "beta":
            return np.stack([np.log(held), -np.log(1.0 - held)])
        return (held if self.kind == "probability" else np.log(held / (1.0 - held)))[None, :]

    def map(self, score: Floats, coefficients: Floats, intercept: float) -> Floats:
        """Probabilities (n, 2) of a fitted curve."""
        return probabilities_from_log_odds(score, lambda part: coefficients @ self.rows(part) + intercept)


def probabilities_from_log_odds(score: Floats, log_odds: ArrayFunction) -> Floats:
    """Probabilities (n, 2) of the log-odds that a function gives, both ends accurate."""
    out = np.empty((len(score), 2))

    def work(start: int, stop: int) -> None:
        x = log_odds(score[start:stop])
        small = np.exp(-np.abs(x))
        large = 1.0 / (1.0 + small)
        small *= large
        out[start:stop, 0] = np.where(x >= 0.0, small, large)
        out[start:stop, 1] = np.where(x >= 0.0, large, small)

    over_blocks(len(score), work, MAP_BLOCK_ROWS)
    return out


def locate_between_knots(knots: Floats, x: Floats) -> tuple[Integers, Floats]:
    """The knot below each number, and which part of the way to the next it has gone; outside below 0 or above 1."""
    place = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    return place, (x - knots[place]) / np.diff(knots)[place]


def loss_derivatives(x: Floats, outcome: Array, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """For each row log loss, w (P - y) and w P (1 - P), where x are log-odds."""
    small = np.exp(-np.abs(x))
    share = 1.0 / (1.0 + small)
    rest = small * share
    loss = np.maximum(x, 0.0) - outcome * x - np.log(share)
    return loss, (np.where(x >= 0.0, share, rest) - outcome) * weight, rest * share * weight


class LogisticFit:
    """One logistic regression on features of a score, in coordinates centred and scaled by the rows themselves.

    `how` is a recalibrator with what says which: `l2`, `constraint`, `towards`, and `on` or `clip`.
    """

    warm = True  # whether a part of the rows is fitted first

    def __init__(self, rows: TrainingSample, how: Any) -> None:
        self.rows, self.features, self.l2 = rows, ScoreFeatures.for_recalibrator(how), how.l2
        self.positive = how.constraint == "positive"
        self.identity = how.towards == "identity" and how.l2 > 0
        # Enough: the coordinates need not be exact.
        made = self.features.rows((rows.thinned() or rows).probability)
        self.centre, deviation = made.mean(axis=1), made.std(axis=1)
        ends = np.array([rows.probability.min(), rows.probability.max()])
        reach = np.ptp(self.features.rows(ends), axis=1)
        self.constant = not (reach > 1e-13 * (1.0 + np.abs(self.centre))).all()
        self.scale = 1.0 / np.where(deviation > 0, deviation, np.where(reach > 0, reach, 1.0))
        if self.identity:  # its intercept is penalised too, and must be one of the coordinates
            self.centre, self.constant = np.zeros(self.features.count), False

    def evaluate(self, rows: TrainingSample, theta: Floats) -> Derivatives:
        """Sum of log losses, its gradient and Hessian."""
        curve = *self.features.arguments, self.centre, self.scale, theta
        return logistic_loss(rows.probability, rows.outcome, rows.weight, *curve)

    def minimum(self, free: Array) -> FitResult:
        """Fit; coefficients outside `free` stay 0."""
        target = np.zeros(len(self.centre) + 1)
        start = target.copy()
        start[0] = np.log(self.rows.rate / (1.0 - self.rows.rate))
        if self.identity:
            start = target = np.append(0.0, 1.0 / self.scale) * free
        penalty = np.append(self.l2 * self.identity, self.l2 * self.scale**2) / self.rows.total

        def fit(rows: TrainingSample, start: Floats) -> FitResult:
            evaluate = partial(self.evaluate, rows)
            return newton_minimise(evaluate, start, rows.total, penalty * rows.total, free, target)

        return warm_started(self.rows, fit, start) if self.warm else fit(self.rows, start)

    def best(self) -> tuple[Floats, float]:
        """Coefficients, and the intercept where the score's features are 0 and columns are at their centres.

        Where they must be positive the coefficients of the score's two features are not below 0: the optimum is found
        by trying every face of that constraint.
        """
        free = np.append(True, self.scale > 0)
        theta, separated = self.minimum(free)
        if self.positive and not (theta[1:3] >= 0).all():
            found = []
            for held in ([1], [2], [1, 2]):
                face = free.copy()
                face[held] = False
                theta, _ = self.minimum(face)
                if (theta[1:3] >= 0).all():
                    found.append(theta)
            theta, separated = min(found, key=self.loss), False
        if separated:
            warn(SEPARATED_CLASSES)
        coefficients, own = theta[1:] * self.scale, self.features.count
        return coefficients, theta[0] - coefficients[:own] @ self.centre[:own]

    def loss(self, theta: Floats) -> float:
        """Log loss and penalty at a point."""
        off = theta[1:] * self.scale - self.identity
        held = self.l2 * (off @ off + self.identity * theta[0] ** 2)
        return self.evaluate(self.rows, theta)[0] + 0.5 * float(held)


def fit_logistic(rows: TrainingSample, how: Any) -> tuple[Floats, float]:
    """Coefficients and intercept of the penalised logistic regression, `how` as in `LogisticFit`.

    Towards the identity a penalty draws to coefficients 1 and intercept 0, not to coefficients 0.

    When all scores are equal the slope cannot be learned: without a penalty it is that of the identity (0 for
    "probability", which has none) and the intercept meets the observed rate.
    """
    fit = LogisticFit(rows, how)
    if fit.constant:
        features = fit.features
        slope = np.full(features.count, 0.0 if how.l2 > 0 or features.kind == "probability" else 1.0)
        return slope, np.log(rows.rate / (1.0 - rows.rate)) - slope @ fit.centre
    return fit.best()

"""Logistic fits by Newton's method with step control, on features of the score: logit, probability, beta's logarithms.

Fits are made in standardised coordinates (features centred and scaled), so one tolerance serves every unit of measure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from miscal.data.arrays import Array, Floats, Integers
from miscal.data.errors import warn
from miscal.kernels import logistic as kernels
from miscal.kernels.threads import over_blocks
from miscal.metrics.losses import BELOW_ONE, SMALL_STEP, SMALLEST, descended, logistic_loss
from miscal.recalibrate.sample import Found, Map, Sample, warmed

State: TypeAlias = tuple[float, Floats, Floats]  # loss, gradient and Hessian at a point

FLAT = 1e-12  # curvature for each unit of weight below which a direction is not followed

KINDS = {"probability": kernels.PROBABILITY, "logit": kernels.LOGIT, "beta": kernels.BETA}
LOGIT_CLIP = 1e-12
MAPPED = 1 << 14  # rows of a block

SEPARATED = (
    "the classes are separated, wholly or on one side: without a penalty a steeper curve always fits better. "
    "The coefficients were stopped where the loss is flat (curvature below 1e-12 of its scale). "
    "Pass l2=1 to fit a finite optimum"
)


def minimise(
    evaluate: Callable[[Floats], State],
    start: Floats,
    total: float,
    penalty: Floats | float = 0.0,
    free: Array | bool = True,
    target: Floats | float = 0.0,
) -> Found:
    """Minimise loss(theta) + sum_j penalty_j (theta_j - target_j)^2 / 2; also whether it falls towards infinity.

    `evaluate` gives the loss, its gradient and Hessian; `total` is the sum of the weights. Parameters outside `free`
    keep their start. A direction whose curvature per unit of weight is under 1e-12 is not followed: collinear features
    keep the share they started with, and separable classes stop at certainty instead of overflowing.
    """
    followed: list[int] = []  # directions, at each step
    penalties = np.broadcast_to(penalty, len(start))

    def penalised(at: Floats) -> State:
        loss, gradient, hessian = evaluate(at)
        off = at - target
        pull = penalties * off
        return loss + 0.5 * float(penalties @ (off * off)), gradient + pull, hessian + np.diag(penalties)

    def step_at(_: Floats, state: State) -> Found:
        gradient, hessian = state[1:]
        diagonal = np.diag(hessian)
        used = np.flatnonzero(free & (diagonal > FLAT * total))
        # Scaled to a unit diagonal: penalties and features may differ by many orders of magnitude.
        root, step = np.sqrt(diagonal[used]), np.zeros(len(gradient))
        scaled = hessian[np.ix_(used, used)] / np.outer(root, root)
        found, _, rank, _ = np.linalg.lstsq(scaled, gradient[used] / root, rcond=FLAT)
        step[used] = found / root
        followed.append(rank)
        return step, np.abs(step).max(initial=0.0) <= SMALL_STEP

    theta = descended(penalised, start, step_at)
    return theta, followed[-1] < followed[0]


@dataclass(frozen=True)
class Features:
    """How features are made from a score: their kind, and the distance from 0 and 1 that logarithms are held at."""

    kind: str
    clip: float = LOGIT_CLIP

    @classmethod
    def of(cls, recalibrator: Any) -> "Features":
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
            return KINDS[self.kind], SMALLEST, 1.0
        low = max(self.clip, SMALLEST)
        return KINDS[self.kind], low, min(1.0 - low, BELOW_ONE)

    def rows(self, score: Floats) -> Floats:
        """Features of rows, (count, rows)."""
        held = np.clip(score, *self.arguments[1:])
        if self.kind == "beta":
            return np.stack([np.log(held), -np.log(1.0 - held)])
        return (held if self.kind == "probability" else np.log(held / (1.0 - held)))[None, :]

    def map(self, score: Floats, coefficients: Floats, intercept: float) -> Floats:
        """Probabilities (n, 2) of a fitted curve."""
        return mapped(score, lambda part: coefficients @ self.rows(part) + intercept)


def mapped(score: Floats, log_odds: Map) -> Floats:
    """Probabilities (n, 2) of the log-odds that a function gives, both ends accurate."""
    out = np.empty((len(score), 2))

    def work(start: int, stop: int) -> None:
        x = log_odds(score[start:stop])
        small = np.exp(-np.abs(x))
        large = 1.0 / (1.0 + small)
        small *= large
        out[start:stop, 0] = np.where(x >= 0.0, small, large)
        out[start:stop, 1] = np.where(x >= 0.0, large, small)

    over_blocks(len(score), work, MAPPED)
    return out


def between(knots: Floats, x: Floats) -> tuple[Integers, Floats]:
    """The knot below each number, and which part of the way to the next it has gone; outside below 0 or above 1."""
    place = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    return place, (x - knots[place]) / np.diff(knots)[place]


def residuals(x: Floats, outcome: Array, weight: Floats) -> tuple[Floats, Floats, Floats]:
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

    def __init__(self, rows: Sample, how: Any) -> None:
        self.rows, self.features, self.l2 = rows, Features.of(how), how.l2
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

    def evaluate(self, rows: Sample, theta: Floats) -> State:
        """Sum of log losses, its gradient and Hessian."""
        curve = *self.features.arguments, self.centre, self.scale, theta
        return logistic_loss(rows.probability, rows.outcome, rows.weight, *curve)

    def minimum(self, free: Array) -> Found:
        """Fit; coefficients outside `free` stay 0."""
        target = np.zeros(len(self.centre) + 1)
        start = target.copy()
        start[0] = np.log(self.rows.rate / (1.0 - self.rows.rate))
        if self.identity:
            start = target = np.append(0.0, 1.0 / self.scale) * free
        penalty = np.append(self.l2 * self.identity, self.l2 * self.scale**2) / self.rows.total

        def fit(rows: Sample, start: Floats) -> Found:
            evaluate = partial(self.evaluate, rows)
            return minimise(evaluate, start, rows.total, penalty * rows.total, free, target)

        return warmed(self.rows, fit, start) if self.warm else fit(self.rows, start)

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
            warn(SEPARATED)
        coefficients, own = theta[1:] * self.scale, self.features.count
        return coefficients, theta[0] - coefficients[:own] @ self.centre[:own]

    def loss(self, theta: Floats) -> float:
        """Log loss and penalty at a point."""
        off = theta[1:] * self.scale - self.identity
        held = self.l2 * (off @ off + self.identity * theta[0] ** 2)
        return self.evaluate(self.rows, theta)[0] + 0.5 * float(held)


def fit_curve(rows: Sample, how: Any) -> tuple[Floats, float]:
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

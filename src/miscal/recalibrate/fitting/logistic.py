"""Logistic fits on features of the score alone: logit, probability, or the two logarithms of beta calibration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from miscal.data.errors import warn
from miscal.data.vectors import locked
from miscal.kernels import newton as kernels
from miscal.kernels.threads import over_blocks
from miscal.recalibrate.fitting.newton import Evaluate, Floats, Minimum, minimise

KINDS = {"probability": kernels.PROBABILITY, "logit": kernels.LOGIT, "beta": kernels.BETA}
LOGIT_CLIP = 1e-12
WARM_ROWS = 1 << 14  # a fit on so many rows starts the fit on all of them close to its end

SEPARATED = (
    "the classes are separated, wholly or on one side: without a penalty a steeper curve always fits better. "
    "The coefficients were stopped where the loss is flat (curvature below 1e-12 of its scale). "
    "Pass l2=1 to fit a finite optimum"
)


@dataclass(frozen=True)
class Features:
    """How features are made from a score: their kind, the range logits are held in, what exact 0 and 1 become."""

    kind: str
    clip: float = 0.0

    @property
    def count(self) -> int:
        """How many features."""
        return 2 if self.kind == "beta" else 1

    @property
    def arguments(self) -> tuple[int, float, float, float]:
        """What the kernels take: kind, low, high, clip."""
        low = LOGIT_CLIP if self.kind == "logit" else 0.0
        return KINDS[self.kind], low, 1.0 - low, self.clip

    def rows(self, score: Floats) -> Floats:
        """Features of a few rows, (count, rows)."""
        kind, low, high, clip = self.arguments
        moved = np.empty(len(score))
        if clip > 0:
            kernels.exact_ends(locked(score), clip, moved)
        else:
            moved[:] = score
        made = np.empty((3, len(score)))
        kernels.score_features(moved, kind, low, high, made)
        return made[: self.count]

    def map(self, score: Floats, coefficients: Floats, intercept: float) -> Floats:
        """Probabilities (n, 2) of a fitted curve."""
        out = np.empty((len(score), 2))
        rows = locked(score)

        def work(start: int, stop: int) -> None:
            kernels.score_map(rows[start:stop], *self.arguments, coefficients, intercept, out[start:stop])

        over_blocks(len(score), work)
        return out


@dataclass(frozen=True)
class Binary:
    """The rows of a binary fit: score, outcome 0/1, weights (empty: all ones)."""

    score: Floats
    outcome: npt.NDArray[np.uint8]
    weight: Floats

    def __post_init__(self) -> None:
        for name in ("score", "outcome", "weight"):
            object.__setattr__(self, name, locked(getattr(self, name)))

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weight.sum()) if self.weight.size else float(len(self.score))

    @property
    def rate(self) -> float:
        """Weighted share of events."""
        events = self.weight @ self.outcome if self.weight.size else self.outcome.sum(dtype=np.int64)
        return float(events) / self.total

    def thinned(self) -> Binary | None:
        """Every so many rows, enough to start from; None when there are few rows or one class is left."""
        stride = len(self.score) // WARM_ROWS
        if stride < 4:
            return None
        weight = self.weight[::stride].copy() if self.weight.size else self.weight
        thin = Binary(self.score[::stride].copy(), self.outcome[::stride].copy(), weight)
        return thin if 0 < thin.rate < 1 else None


class LogisticFit:
    """One logistic regression on features of a score, in coordinates centred and scaled by the rows themselves."""

    def __init__(self, rows: Binary, features: Features, l2: float) -> None:
        self.rows, self.features, self.l2 = rows, features, l2
        self.centre, deviation = self._moments()
        self.constant = bool((deviation <= 1e-13 * (1.0 + np.abs(self.centre))).any())
        self.scale = 1.0 / np.where(deviation > 0, deviation, 1.0)

    def _moments(self) -> tuple[Floats, Floats]:
        rows, features, count = self.rows, self.features, self.features.count
        zero = np.zeros(count)
        first = kernels.score_moments(rows.score[:1], rows.weight[:1], *features.arguments, count, zero)
        shift = first[1] / first[0]

        def work(start: int, stop: int) -> Floats:
            part, weight = rows.score[start:stop], rows.weight[start:stop]
            return kernels.score_moments(part, weight, *features.arguments, count, shift)  # type: ignore[no-any-return]

        weight, linear, square = np.sum(over_blocks(len(rows.score), work), axis=0)
        mean = linear / weight
        return shift + mean, np.sqrt(np.maximum(square / weight - mean * mean, 0.0))

    def _evaluator(self, rows: Binary) -> Evaluate:
        def evaluate(theta: Floats) -> tuple[float, Floats, Floats]:
            def work(start: int, stop: int) -> Floats:
                part, y, weight = rows.score[start:stop], rows.outcome[start:stop], rows.weight[start:stop]
                arguments = (*self.features.arguments, self.centre, self.scale, theta)
                return kernels.score_pass(part, y, weight, *arguments)  # type: ignore[no-any-return]

            return unpacked(np.sum(over_blocks(len(rows.score), work), axis=0))

        return evaluate

    def minimum(self, free: npt.NDArray[np.bool_] | None = None) -> Minimum:
        """Fit; coefficients outside `free` stay 0."""
        start = np.zeros(self.features.count + 1)
        rate = self.rows.rate
        start[0] = np.log(rate / (1.0 - rate))
        penalty = np.append(0.0, self.l2 * self.scale**2)
        thin = self.rows.thinned()
        if thin is not None:
            share = thin.total / self.rows.total
            warm = minimise(self._evaluator(thin), start, penalty * share, thin.total, free)
            start = start if warm.separated else warm.theta
        return minimise(self._evaluator(self.rows), start, penalty, self.rows.total, free)

    def loss(self, theta: Floats) -> float:
        """Log loss and penalty at a point."""
        return float(self._evaluator(self.rows)(theta)[0]) + 0.5 * self.l2 * float(
            ((theta[1:] * self.scale) ** 2).sum()
        )

    def raw(self, theta: Floats) -> tuple[Floats, float]:
        """Coefficients and intercept for features as they are."""
        coefficients = theta[1:] * self.scale
        return coefficients, float(theta[0] - coefficients @ self.centre)


def unpacked(sums: Floats) -> tuple[float, Floats, Floats]:
    """Loss, gradient and the full symmetric Hessian from the sums of a pass."""
    upper = sums[2:]
    return float(sums[0, 0]), sums[1].copy(), np.triu(upper) + np.triu(upper, 1).T


def fit_curve(rows: Binary, features: Features, l2: float) -> tuple[Floats, float]:
    """Coefficients and intercept of the penalised logistic regression.

    When all scores are equal the slope cannot be learned: without a penalty it is that of the identity (0 for
    "probability", which has none) and the intercept meets the observed rate.
    """
    fit = LogisticFit(rows, features, l2)
    if fit.constant:
        slope = np.zeros(features.count) if l2 > 0 or features.kind == "probability" else np.ones(features.count)
        rate = rows.rate
        return slope, float(np.log(rate / (1.0 - rate)) - slope @ fit.centre)
    best = fit.minimum()
    if best.separated:
        warn(SEPARATED)
    return fit.raw(best.theta)


def fit_positive(rows: Binary, features: Features, l2: float) -> tuple[Floats, float]:
    """As `fit_curve`, with no coefficient below 0: the constrained optimum, by trying every face of the constraint."""
    fit = LogisticFit(rows, features, l2)
    if fit.constant:
        return fit_curve(rows, features, l2)
    best = fit.minimum()
    if (best.theta[1:] >= 0).all():
        if best.separated:
            warn(SEPARATED)
        return fit.raw(best.theta)
    faces = [fit.minimum(np.array([True, j == 1, j == 2])).theta for j in (1, 2)]
    faces = [face for face in faces if (face[1:] >= 0).all()]
    faces.append(fit.minimum(np.array([True, False, False])).theta)
    return fit.raw(min(faces, key=fit.loss))

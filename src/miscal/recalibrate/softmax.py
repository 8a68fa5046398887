"""Multinomial logistic fits on the logarithms of the probabilities: one loss, minimised by Newton's method.

    P = softmax(W z + b),   z = (ln p - centre) scale,   W full or diagonal

Rows are taken in blocks that fit in the cache, each turned on its side (one class a line); sums over them are matrix
products. The Hessian, which would have K^4
entries, is never formed: its products with vectors are enough for conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from miscal.kernels.threads import over_blocks
from miscal.metrics.losses import descended
from miscal.recalibrate.base import Floats, pairs
from miscal.recalibrate.logistic import LOGIT_CLIP
from miscal.recalibrate.sample import Sample

Solve: TypeAlias = Callable[[Floats], Floats]

BLOCK = 2048  # rows at a time
TASK = 32 * BLOCK  # rows to a thread
MOST_KEPT = 1 << 24  # numbers held between products with the Hessian
MOST_PRODUCTS = 500  # with the Hessian, to a step
SMALL_GRADIENT = 1e-13  # of the mean loss
LONG_STEP = 1e-2  # a last step beyond it went down a slope without end


def logs_of(probability: Floats) -> Floats:
    """Logarithms of probabilities held at 1e-12 or more."""
    logs: Floats = np.log(np.maximum(probability, LOGIT_CLIP))
    return logs


def softmax(scores: Floats, classes: int = 1) -> tuple[Floats, Floats]:
    """Probabilities, and the logarithm of the sum of exponentials, of each row; `classes` is the classes' axis."""
    highest = scores.max(axis=classes, keepdims=True)
    scores = np.exp(scores - highest)
    sums = scores.sum(axis=classes, keepdims=True)
    scores /= sums
    return scores, (np.log(sums) + highest).squeeze(classes)


def softmax_map(probability: Floats, slopes: Floats, shifts: Floats, power: float | None = None) -> Floats:
    """P = softmax(slopes ln p + shifts), slopes (K,) or (K, K); with `power`, ln p less ln(sum p^power) / power."""
    matrix = pairs(probability) if probability.ndim == 1 else probability
    out = np.empty(matrix.shape)

    def work(start: int, stop: int) -> None:
        logs = logs_of(np.ascontiguousarray(matrix[start:stop].T))
        if power is not None:
            logs -= softmax(power * logs, 0)[1] / power
        moved = (logs * slopes[:, None] if slopes.ndim == 1 else slopes @ logs) + shifts[:, None]
        out[start:stop] = softmax(moved, 0)[0].T

    over_blocks(len(matrix), work, BLOCK)
    return out


def summed(rows: int, work: Callable[[int, int], tuple[Floats | float, ...]]) -> list[Floats]:
    """Sum what `work` gives for each block, part by part, in the order of the blocks."""

    def many(start: int, stop: int) -> list[Floats]:
        sums = [np.array(part) for part in work(start, min(start + BLOCK, stop))]
        for at in range(start + BLOCK, stop, BLOCK):
            for i, part in enumerate(work(at, min(at + BLOCK, stop))):
                sums[i] += part
        return sums

    parts = over_blocks(rows, many, TASK)
    return [np.sum([part[i] for part in parts], axis=0) for i in range(len(parts[0]))]


class SoftmaxFit:
    """The mean log loss plus penalty/2 (theta - target)², and its minimum.

    theta is (free, K + 1), the intercepts last, or (free, 2) where W is diagonal; classes beyond the first `free` have
    coefficients 0. `penalty` and `target` have its shape; the penalty is relative to the mean loss.
    """

    def __init__(
        self,
        sample: Sample,
        penalty: Floats,
        target: Floats,
        centre: Floats | float = 0.0,
        scale: Floats | float = 1.0,
        normal: bool = False,
    ) -> None:
        self.sample, self.penalty, self.target, self.normal = sample, penalty, target, normal
        self.centre, self.scale = np.reshape(centre, (-1, 1)), np.reshape(scale, (-1, 1))
        self.free, width = penalty.shape
        self.diagonal = width == 2
        self.keeping = sample.rows * sample.n_classes <= MOST_KEPT
        self.known: dict[int, Floats] = {}  # z of each block
        self.likely: dict[int, Floats] = {}  # probabilities of each block at the last point

    def features(self, start: int, stop: int) -> Floats:
        """The z of some rows, (K, rows)."""
        if start in self.known:
            return self.known[start]
        part = self.sample.probability[start:stop]
        matrix = np.ascontiguousarray((pairs(part) if part.ndim == 1 else part).T)
        made: Floats = (logs_of(matrix) - self.centre) * self.scale
        if self.normal:  # logarithms of probabilities that sum to 1
            made -= softmax(made, 0)[1]
        if self.keeping:
            self.known[start] = made
        return made

    def weight(self, start: int, stop: int) -> Floats:
        """Shares of some rows in the mean."""
        weight = self.sample.weight
        part = np.ones(stop - start) if weight is None else weight[start:stop]
        return part / self.sample.total

    def moved(self, theta: Floats, z: Floats) -> Floats:
        """W z + b of the free classes."""
        return (z[: self.free] * theta[:, :1] if self.diagonal else theta[:, :-1] @ z) + theta[:, -1:]

    def gathered(self, off: Floats, z: Floats) -> Floats:
        """Sums over rows of `off`, of the free classes, times each feature: shaped as theta."""
        first = np.einsum("ij,ij->i", off, z[: self.free])[:, None] if self.diagonal else off @ z.T
        return np.concatenate([first, off.sum(axis=1)[:, None]], axis=1)

    def scores(self, theta: Floats, start: int, stop: int) -> Floats:
        """W z + b of all classes."""
        made = np.zeros((self.sample.n_classes, stop - start))
        made[: self.free] = self.moved(theta, self.features(start, stop))
        return made

    def evaluate(self, theta: Floats) -> tuple[float, Floats]:
        """Loss and gradient."""
        kept: dict[int, Floats] = {}

        def work(start: int, stop: int) -> tuple[float, Floats]:
            weight, own, at = self.weight(start, stop), self.sample.outcome[start:stop], np.arange(stop - start)
            scores = self.scores(theta, start, stop)
            likely, log_sum = softmax(scores, 0)
            if self.keeping:
                kept[start] = likely[: self.free].copy()
            loss = float(weight @ (log_sum - scores[own, at]))
            likely[own, at] -= 1.0
            return loss, self.gathered(likely[: self.free] * weight, self.features(start, stop))

        loss, gradient = summed(self.sample.rows, work)
        off = theta - self.target
        self.theta, self.likely = theta, kept
        return float(loss) + 0.5 * float((self.penalty * off * off).sum()), gradient + self.penalty * off

    def probabilities(self, start: int, stop: int) -> Floats:
        """Of the free classes, at the point last evaluated."""
        if start in self.likely:
            return self.likely[start]
        return softmax(self.scores(self.theta, start, stop), 0)[0][: self.free]

    def product(self, direction: Floats) -> Floats:
        """The Hessian at the point last evaluated, times a vector."""

        def work(start: int, stop: int) -> tuple[Floats]:
            z, likely = self.features(start, stop), self.probabilities(start, stop)
            change = self.moved(direction, z)
            change -= np.einsum("ij,ij->j", likely, change)
            change *= likely
            change *= self.weight(start, stop)
            return (self.gathered(change, z),)

        return summed(self.sample.rows, work)[0] + self.penalty * direction

    def near_inverse(self) -> Solve:
        """A function that nearly solves with the Hessian."""
        return self._diagonal_inverse() if self.diagonal else self._product_inverse()

    def _diagonal_inverse(self) -> Solve:
        def work(start: int, stop: int) -> tuple[Floats]:
            z, likely = self.features(start, stop), self.probabilities(start, stop)
            return (self.gathered(likely * (1.0 - likely) * self.weight(start, stop), z * z),)

        own = summed(self.sample.rows, work)[0] + self.penalty
        inverse = 1.0 / np.maximum(own, 1e-12 * max(float(own.max()), 1e-288))
        return lambda gradient: inverse * gradient

    def _product_inverse(self) -> Solve:
        """A sum over rows of (diag p - p p') x (f f') taken for a product of two sums.

        With the features' sum weighted by the trace of diag p - p p' it has the Hessian's trace. In the bases in which
        both sums are diagonal the penalty is one more diagonal.
        """

        def work(start: int, stop: int) -> tuple[Floats, Floats, float]:
            likely, weight = self.probabilities(start, stop), self.weight(start, stop)
            features = np.concatenate([self.features(start, stop), np.ones((1, stop - start))])
            spread = weight * (likely * (1.0 - likely)).sum(axis=0)
            between = np.diag(likely @ weight) - (likely * weight) @ likely.T
            return between, (features * spread) @ features.T, float(spread.sum())

        between, within, spread = summed(self.sample.rows, work)
        own, classes = np.linalg.eigh(between)
        other, directions = np.linalg.eigh(within / max(float(spread), 1e-300))
        curvature = np.outer(np.maximum(own, 0.0), np.maximum(other, 0.0))
        curvature += max(float(self.penalty[:, :-1].mean()), 1e-9 * float(curvature.max()), 1e-300)
        return lambda gradient: np.asarray(classes @ ((classes.T @ gradient @ directions) / curvature) @ directions.T)

    def minimum(self, theta: Floats) -> tuple[Floats, bool]:
        """Newton's method, each step by conjugate gradients; also whether the loss only falls towards infinity."""
        longest = [0.0]

        def step_at(_: Floats, state: tuple[float, Floats]) -> tuple[Floats, bool]:
            length = float(np.linalg.norm(state[1]))
            if length <= SMALL_GRADIENT:
                return np.zeros(theta.shape), True
            small = max(min(0.1, length) * length, 0.3 * SMALL_GRADIENT)
            step = _conjugate_gradients(self.product, state[1], self.near_inverse(), small)
            longest.append(float(np.abs(step).max()))
            return step, False

        return descended(self.evaluate, theta, step_at), longest[-1] > LONG_STEP


def _conjugate_gradients(product: Solve, gradient: Floats, near_inverse: Solve, small: float) -> Floats:
    """Solve H step = gradient until the rest is small, given an approximate inverse of H."""
    step, rest = np.zeros(gradient.shape), gradient.copy()
    along = near_inverse(rest)
    squared = float((rest * along).sum())
    for _ in range(MOST_PRODUCTS):
        image = product(along)
        curvature = float((along * image).sum())
        if curvature <= 0.0:
            break
        share = squared / curvature
        step += share * along
        rest -= share * image
        if float(np.linalg.norm(rest)) <= small:
            break
        scaled = near_inverse(rest)
        before, squared = squared, float((rest * scaled).sum())
        along = scaled + (squared / before) * along
    return step if step.any() else gradient.copy()


def fitted(
    sample: Sample,
    start: Floats,
    penalty: Floats,
    target: Floats,
    centre: Floats | float = 0.0,
    scale: Floats | float = 1.0,
    normal: bool = False,
) -> tuple[Floats, bool]:
    """The minimum of `SoftmaxFit`, and whether the classes are separated; of many rows, from that of a part of them."""
    part = sample.thinned()
    if part is not None:
        warm, separated = SoftmaxFit(part, penalty, target, centre, scale, normal).minimum(start)
        start = start if separated else warm
    return SoftmaxFit(sample, penalty, target, centre, scale, normal).minimum(start)


def power_derivatives(sample: Sample) -> Callable[[float], tuple[float, float]]:
    """Slope and curvature, at a power b, of the mean log loss of P_k = p_k^b / sum_j p_j^b."""
    rows = _as_is(sample)

    def derivatives(power: float) -> tuple[float, float]:
        def work(start: int, stop: int) -> tuple[float, float]:
            logs, weight, own = rows.features(start, stop), rows.weight(start, stop), sample.outcome[start:stop]
            weighted = softmax(power * logs, 0)[0] * logs
            mean = weighted.sum(axis=0)
            spread = np.einsum("ij,ij->j", weighted, logs) - mean * mean
            return float(weight @ (mean - logs[own, np.arange(len(own))])), float(weight @ spread)

        slope, curvature = summed(sample.rows, work)
        return float(slope), float(curvature)

    return derivatives


def _as_is(sample: Sample) -> SoftmaxFit:
    """The rows alone, for their features and weights."""
    nothing = np.zeros((sample.n_classes, 2))
    return SoftmaxFit(sample, nothing, nothing)


def moments(sample: Sample) -> tuple[Floats, Floats]:
    """Mean of each ln p, and 1 / its standard deviation (0 where it is constant)."""
    rows = _as_is(sample)

    def work(start: int, stop: int) -> tuple[Floats, Floats]:
        logs, weight = rows.features(start, stop), rows.weight(start, stop)
        return logs @ weight, (logs * logs) @ weight

    centre, second = summed(sample.rows, work)
    variance = second - centre * centre
    moving = variance > 1e-12 * (1.0 + centre * centre)
    return centre, np.where(moving, 1.0 / np.sqrt(np.where(moving, variance, 1.0)), 0.0)

"""Maps of all classes together: temperature, vector, structured and Dirichlet scaling, one loss by Newton's method.

    P = softmax(W z + b),   z = ln p,   W full or diagonal

Rows are taken in blocks that fit in the cache, one class a line; sums over them are matrix products. The Hessian, which
would have K^4 entries, is never formed: its products with vectors are enough for conjugate gradients.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from miscal.data.arrays import Floats
from miscal.data.libraries import sparse
from miscal.export.formula import Formula, Softmax, curve
from miscal.kernels.threads import over_blocks
from miscal.metrics.losses import descended
from miscal.recalibrate.logistic_fit import LOGIT_CLIP, ScoreFeatures
from miscal.recalibrate.newton import Derivatives, newton_minimise
from miscal.recalibrate.outcome_families import ArrayFunction
from miscal.recalibrate.probability_arrays import as_two_columns
from miscal.recalibrate.training_sample import FitResult, TrainingSample

LinearMap: TypeAlias = tuple[Floats, Floats, float | None]  # slopes, shifts and power
BlockSums: TypeAlias = tuple[Any, ...]  # over a block of rows

LOGIT_FEATURES = ScoreFeatures("logit")
MIN_POWER, MAX_POWER = math.exp(-10.0), math.exp(10.0)  # inverse temperatures
SOFTMAX_BLOCK_NUMBERS = 1 << 16  # numbers in a block of rows
MIN_BLOCK_ROWS = 128  # of a block
MAX_CG_ITERATIONS = 500  # with the Hessian, to a step
GRADIENT_TOLERANCE = 1e-13  # of the mean loss
ADDED_CURVATURE = 1e-14  # added to the curvature, so that no step is long where there is none
DIVERGING_STEP = 1e-2  # a last step beyond it went down a slope without end


def clipped_log(probability: Floats) -> Floats:
    """Logarithms of probabilities held at 1e-12 or more."""
    return np.log(np.maximum(probability, LOGIT_CLIP))


def softmax(scores: Floats, classes: int = 1) -> tuple[Floats, Floats]:
    """Probabilities, and the logarithm of the sum of exponentials, of each row; `classes` is the classes' axis."""
    highest = scores.max(axis=classes, keepdims=True)
    scores = np.exp(scores - highest)
    sums = scores.sum(axis=classes, keepdims=True)
    scores /= sums
    return scores, (np.log(sums) + highest).squeeze(classes)


def block_rows(classes: int) -> int:
    """Rows in a block."""
    return max(MIN_BLOCK_ROWS, SOFTMAX_BLOCK_NUMBERS // classes)


def softmax_map(probability: Floats, slopes: Floats, shifts: Floats, power: float | None = None) -> Floats:
    """P = softmax(slopes ln p + shifts), slopes (K,) or (K, K); with `power`, ln p less ln(sum p^power) / power."""
    matrix = as_two_columns(probability)
    out = np.empty(matrix.shape)

    def work(start: int, stop: int) -> None:
        logs = clipped_log(np.ascontiguousarray(matrix[start:stop].T))
        if power is not None:
            logs -= softmax(power * logs, 0)[1] / power
        moved = (logs * slopes[:, None] if slopes.ndim == 1 else slopes @ logs) + shifts[:, None]
        out[start:stop] = softmax(moved, 0)[0].T

    over_blocks(len(matrix), work, block_rows(matrix.shape[1]))
    return out


def power_scaled(probability: Floats, power: float, shift: float = 0.0) -> Floats:
    """Probabilities (n, K) to a power, rows divided by their sums; of binary ones by the curve of the logit."""
    if probability.ndim == 1:
        return LOGIT_FEATURES.map(probability, np.array([power]), shift)
    classes = probability.shape[1]
    return softmax_map(probability, np.full(classes, power), np.zeros(classes))


def power_formula(n_classes: int, power: float, shift: float = 0.0) -> Formula:
    """What `power_scaled` does."""
    if n_classes > 2:
        return Softmax(power * np.eye(n_classes), np.zeros(n_classes))
    return curve(LOGIT_FEATURES, [power], shift)


@dataclass(eq=False)
class SoftmaxFit:
    """The mean log loss plus penalty/2 (theta - target)², and its minimum.

    theta is (free, K + 1), the intercepts last, or (free, 2) where W is diagonal; classes beyond the first `free` have
    coefficients 0. `penalty` and `target` have its shape; the penalty is relative to the mean loss. With `power`, z are
    logarithms of probabilities to that power, divided by their sums.
    """

    penalty: Floats
    target: Floats
    power: float | None = None

    def look_at(self, sample: TrainingSample) -> None:
        """Take rows, one class a line: the logarithms, the rows' shares of the mean, and their classes."""
        self.z = clipped_log(np.ascontiguousarray(as_two_columns(sample.probability).T))  # (K, rows)
        if self.power is not None:
            self.z *= self.power
            self.z -= softmax(self.z, 0)[1]
        self.share = sample.weights / sample.total
        self.outcome = sample.outcome
        self.free, width = self.penalty.shape
        self.diagonal = width == 2
        self.likely = np.empty((self.free, sample.rows))  # at the point last evaluated

    def summed(self, work: Callable[..., BlockSums]) -> list[Any]:
        """Sum what `work` gives for each block of rows, its z and shares, part by part, in the order of the blocks."""

        def of(start: int, stop: int) -> BlockSums:
            rows = slice(start, stop)
            return work(rows, self.z[:, rows], self.share[rows])

        blocks = over_blocks(len(self.share), of, block_rows(len(self.z)))
        return [sum(part) for part in zip(*blocks, strict=True)]

    def fitted(self, sample: TrainingSample, theta: Floats) -> FitResult:
        """Newton's method, each step by conjugate gradients; also whether the loss only falls towards infinity."""
        self.look_at(sample)
        longest = [0.0]

        def step_at(_: Floats, state: tuple[float, Floats]) -> FitResult:
            length = float(np.linalg.norm(state[1]))
            if length <= GRADIENT_TOLERANCE:
                return np.zeros(theta.shape), True
            step = self.solved(state[1], max(min(0.1, length) * length, 0.3 * GRADIENT_TOLERANCE))
            longest.append(np.abs(step).max())
            return step, False

        return descended(self.evaluate, theta, step_at), longest[-1] > DIVERGING_STEP

    def moved(self, theta: Floats, z: Floats) -> Floats:
        """W z + b of the free classes."""
        slopes, shifts = theta[:, :-1], theta[:, -1:]
        return (z[: self.free] * slopes if self.diagonal else slopes @ z) + shifts

    def gathered(self, off: Floats, z: Floats) -> Floats:
        """Sums over rows of `off`, of the free classes, times each feature: shaped as theta."""
        first = np.einsum("ij,ij->i", off, z[: self.free]) if self.diagonal else off @ z.T
        return np.column_stack([first, off.sum(axis=1)])

    def evaluate(self, theta: Floats) -> tuple[float, Floats]:
        """Loss and gradient."""

        def work(rows: slice, z: Floats, share: Floats) -> BlockSums:
            scores = np.zeros(z.shape)
            scores[: self.free] = self.moved(theta, z)
            likely, log_sum = softmax(scores, 0)
            self.likely[:, rows] = likely[: self.free]
            own = self.outcome[rows], np.arange(len(share))
            likely[own] -= 1.0
            loss = share @ (log_sum - scores[own])
            return loss, self.gathered(likely[: self.free] * share, z)

        loss, gradient = self.summed(work)
        off = theta - self.target
        pull = self.penalty * off
        return loss + 0.5 * (pull * off).sum(), gradient + pull

    def product(self, direction: Floats) -> Floats:
        """The Hessian at the point last evaluated, times a vector."""

        def work(rows: slice, z: Floats, share: Floats) -> BlockSums:
            likely = self.likely[:, rows]
            change = self.moved(direction, z)
            change -= np.einsum("ij,ij->j", likely, change)
            change *= likely
            change *= share
            return (self.gathered(change, z),)

        return np.asarray(self.summed(work)[0] + (self.penalty + ADDED_CURVATURE) * direction)

    def solved(self, gradient: Floats, small: float) -> Floats:
        """The Hessian's solution of a gradient, until the rest is small."""
        near = self._diagonal_inverse() if self.diagonal else self._product_inverse()
        size, shape = gradient.size, gradient.shape

        def operator(of: ArrayFunction) -> Any:
            return sparse.linalg.LinearOperator((size, size), lambda flat: of(flat.reshape(shape)))

        steps = {"rtol": 0.0, "atol": small, "maxiter": MAX_CG_ITERATIONS, "M": operator(near)}
        found, _ = sparse.linalg.cg(operator(self.product), gradient.ravel(), **steps)
        step: Floats = found.reshape(shape)
        return step if step.any() and np.isfinite(step).all() else gradient

    def _diagonal_inverse(self) -> ArrayFunction:
        """A function that nearly solves with the Hessian."""

        def work(rows: slice, z: Floats, share: Floats) -> BlockSums:
            likely = self.likely[:, rows]
            return (self.gathered(likely * (1.0 - likely) * share, z * z),)

        own = self.summed(work)[0] + self.penalty
        inverse = 1.0 / np.maximum(own, 1e-12 * max(own.max(), 1e-288))
        return lambda gradient: inverse * gradient

    def _product_inverse(self) -> ArrayFunction:
        """A sum over rows of (diag p - p p') x (f f') taken for a product of two sums.

        With the features' sum weighted by the trace of diag p - p p' it has the Hessian's trace. In the bases in which
        both sums are diagonal the penalty is one more diagonal.
        """

        def work(rows: slice, z: Floats, share: Floats) -> BlockSums:
            likely = self.likely[:, rows]
            features = np.concatenate([z, np.ones((1, len(share)))])
            spread = share * (likely * (1.0 - likely)).sum(axis=0)
            between = np.diag(likely @ share) - (likely * share) @ likely.T
            return between, (features * spread) @ features.T, spread.sum()

        between, within, spread = self.summed(work)
        own, classes = np.linalg.eigh(between)
        other, directions = np.linalg.eigh(within / max(spread, 1e-300))
        curvature = np.outer(np.maximum(own, 0.0), np.maximum(other, 0.0))
        curvature += max(self.penalty[:, :-1].mean(), 1e-9 * curvature.max(), 1e-300)
        return lambda gradient: classes @ ((classes.T @ gradient @ directions) / curvature) @ directions.T


def fit_power(sample: TrainingSample, start: Floats) -> FitResult:
    """The power b of least mean log loss of P_k = p_k^b / sum_j p_j^b; also whether there is none."""
    nothing = np.zeros((0, 2))  # no coefficients beside the power
    data = SoftmaxFit(nothing, nothing)
    data.look_at(sample)
    own = data.z[data.outcome, np.arange(sample.rows)]

    def evaluate(power: Floats) -> Derivatives:
        def work(rows: slice, z: Floats, share: Floats) -> BlockSums:
            likely, log_sum = softmax(power[0] * z, 0)
            likely *= z
            mean = likely.sum(axis=0)
            spread = np.einsum("ij,ij->j", likely, z) - mean * mean
            loss = log_sum - power[0] * own[rows]
            return share @ loss, share @ (mean - own[rows]), share @ spread

        loss, slope, curvature = data.summed(work)
        return loss, np.array([slope]), np.array([[curvature]])

    return newton_minimise(evaluate, start, 1.0)

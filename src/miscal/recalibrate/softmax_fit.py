"""The softmax of a linear map of log-probabilities, and its fit: one loss for all classes, by Newton's method.

    P = softmax(W z + b),   z = ln p,   W full or diagonal

Rows are taken in blocks that fit in the cache, one class per line; sums over them are matrix products. The Hessian,
which would have K^4 entries, is never formed: its products with vectors are enough for conjugate gradients.
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

#: Sums over a block of rows.
BlockSums: TypeAlias = tuple[Any, ...]

LOGIT_FEATURES = ScoreFeatures("logit")
#: Range of powers, the inverses of temperatures.
MIN_POWER, MAX_POWER = math.exp(-10.0), math.exp(10.0)
#: Numbers in a block of rows, and fewest rows in it.
SOFTMAX_BLOCK_NUMBERS = 1 << 16
MIN_BLOCK_ROWS = 128
#: Products with the Hessian per step, at most.
MAX_CG_ITERATIONS = 500
#: Norm of the gradient of the mean loss at which a fit ends.
GRADIENT_TOLERANCE = 1e-13
#: Added to the curvature, so that no step is long where the loss is flat.
ADDED_CURVATURE = 1e-14
#: A fit whose last step is longer went down a slope without end.
DIVERGING_STEP = 1e-2


def clipped_log(probability: Floats) -> Floats:
    """Logarithms of probabilities clipped to at least 1e-12."""
    return np.log(np.maximum(probability, LOGIT_CLIP))


def softmax(scores: Floats, axis: int = 1) -> tuple[Floats, Floats]:
    """Softmax and log-sum-exp.

    Parameters
    ----------
    scores : 2-D array
        Log-weights.
    axis : int, default=1
        Of the classes.

    Returns
    -------
    probability : 2-D array
        Shaped as the scores.
    log_sum : 1-D array
        Logarithm of the sum of the exponentials of each row.
    """
    highest = scores.max(axis=axis, keepdims=True)
    scores = np.exp(scores - highest)
    sums = scores.sum(axis=axis, keepdims=True)
    scores /= sums
    return scores, (np.log(sums) + highest).squeeze(axis)


def block_rows(classes: int) -> int:
    """How many rows are in a block."""
    return max(MIN_BLOCK_ROWS, SOFTMAX_BLOCK_NUMBERS // classes)


def softmax_map(probability: Floats, slopes: Floats, shifts: Floats, power: float | None = None) -> Floats:
    """Map probabilities by softmax(slopes ln p + shifts).

    Parameters
    ----------
    probability : (n,) or (n, K) array
        What is mapped.
    slopes : (K,) or (K, K) array
        Of the logarithms.
    shifts : (K,) array
        Added to each class.
    power : float, optional
        Then ln p less ln(sum p^power) / power is taken for ln p.

    Returns
    -------
    (n, K) array
    """
    matrix = as_two_columns(probability)
    out = np.empty(matrix.shape)

    def map_block(start: int, stop: int) -> None:
        logs = clipped_log(np.ascontiguousarray(matrix[start:stop].T))
        if power is not None:
            logs -= softmax(power * logs, 0)[1] / power
        scores = (logs * slopes[:, None] if slopes.ndim == 1 else slopes @ logs) + shifts[:, None]
        out[start:stop] = softmax(scores, 0)[0].T

    over_blocks(len(matrix), map_block, block_rows(matrix.shape[1]))
    return out


def power_scaled(probability: Floats, power: float, shift: float = 0.0) -> Floats:
    """Probabilities to a power, rows divided by their sums; of binary ones by the curve of the logit.

    Parameters
    ----------
    probability : (n,) or (n, K) array
        What is mapped.
    power : float
        1 / temperature.
    shift : float, default=0.0
        Of the logit, two classes only.

    Returns
    -------
    (n, K) array
    """
    if probability.ndim == 1:
        return LOGIT_FEATURES.map(probability, np.array([power]), shift)
    classes = probability.shape[1]
    return softmax_map(probability, np.full(classes, power), np.zeros(classes))


def power_formula(n_classes: int, power: float, shift: float = 0.0) -> Formula:
    """The map of `power_scaled` as an expression."""
    if n_classes > 2:
        return Softmax(power * np.eye(n_classes), np.zeros(n_classes))
    return curve(LOGIT_FEATURES, [power], shift)


@dataclass(eq=False)
class SoftmaxFit:
    """The mean log loss plus penalty/2 (theta - target)², and its minimum.

    theta is (free, K + 1), the intercepts last, or (free, 2) where W is diagonal. Classes beyond the first `free` have
    coefficients 0.

    Attributes
    ----------
    penalty : array
        Shaped as theta, relative to the mean loss.
    target : array
        What theta is shrunk to.
    power : float or None
        With it, z are logarithms of probabilities to that power, divided by their sums.
    """

    penalty: Floats
    target: Floats
    power: float | None = None

    def set_rows(self, sample: TrainingSample) -> None:
        """Take the rows to fit on, one class per line: logarithms, shares of the mean, and classes."""
        self.z = clipped_log(np.ascontiguousarray(as_two_columns(sample.probability).T))  # (K, rows)
        if self.power is not None:
            self.z *= self.power
            self.z -= softmax(self.z, 0)[1]
        self.share = sample.weights / sample.total
        self.outcome = sample.outcome
        self.free, width = self.penalty.shape
        self.diagonal = width == 2
        self.probability = np.empty((self.free, sample.rows))  # at the point last evaluated

    def sum_blocks(self, block_sums: Callable[..., BlockSums]) -> list[Any]:
        """Add up sums over blocks of rows, in the order of the blocks.

        Parameters
        ----------
        block_sums : callable
            Called with the slice of a block's rows, their z and their shares.

        Returns
        -------
        list
            One entry per sum.
        """

        def on_rows(start: int, stop: int) -> BlockSums:
            rows = slice(start, stop)
            return block_sums(rows, self.z[:, rows], self.share[rows])

        blocks = over_blocks(len(self.share), on_rows, block_rows(len(self.z)))
        return [sum(terms) for terms in zip(*blocks, strict=True)]

    def fit(self, sample: TrainingSample, theta: Floats) -> FitResult:
        """Newton's method, each step by conjugate gradients.

        Parameters
        ----------
        sample : TrainingSample
            The rows.
        theta : array
            Where to start.

        Returns
        -------
        theta : array
            The optimum.
        diverges : bool
            Whether the loss falls towards infinity.
        """
        self.set_rows(sample)
        step_lengths = [0.0]

        def step_at(_: Floats, state: tuple[float, Floats]) -> FitResult:
            length = float(np.linalg.norm(state[1]))
            if length <= GRADIENT_TOLERANCE:
                return np.zeros(theta.shape), True
            step = self.newton_step(state[1], max(min(0.1, length) * length, 0.3 * GRADIENT_TOLERANCE))
            step_lengths.append(np.abs(step).max())
            return step, False

        return descended(self.evaluate, theta, step_at), step_lengths[-1] > DIVERGING_STEP

    def linear_map(self, theta: Floats, z: Floats) -> Floats:
        """W z + b of the free classes."""
        slopes, shifts = theta[:, :-1], theta[:, -1:]
        return (z[: self.free] * slopes if self.diagonal else slopes @ z) + shifts

    def feature_sums(self, terms: Floats, z: Floats) -> Floats:
        """Sums over rows of the free classes' terms times each feature, shaped as theta."""
        slopes = np.einsum("ij,ij->i", terms, z[: self.free]) if self.diagonal else terms @ z.T
        return np.column_stack([slopes, terms.sum(axis=1)])

    def evaluate(self, theta: Floats) -> tuple[float, Floats]:
        """Loss and gradient."""

        def block_sums(rows: slice, z: Floats, share: Floats) -> BlockSums:
            scores = np.zeros(z.shape)
            scores[: self.free] = self.linear_map(theta, z)
            probability, log_sum = softmax(scores, 0)
            self.probability[:, rows] = probability[: self.free]
            observed = self.outcome[rows], np.arange(len(share))
            probability[observed] -= 1.0
            loss = share @ (log_sum - scores[observed])
            return loss, self.feature_sums(probability[: self.free] * share, z)

        loss, gradient = self.sum_blocks(block_sums)
        deviation = theta - self.target
        pull = self.penalty * deviation
        return loss + 0.5 * (pull * deviation).sum(), gradient + pull

    def hessian_product(self, direction: Floats) -> Floats:
        """The Hessian at the point last evaluated, times a vector."""

        def block_sums(rows: slice, z: Floats, share: Floats) -> BlockSums:
            probability = self.probability[:, rows]
            change = self.linear_map(direction, z)
            change -= np.einsum("ij,ij->j", probability, change)
            change *= probability
            change *= share
            return (self.feature_sums(change, z),)

        return np.asarray(self.sum_blocks(block_sums)[0] + (self.penalty + ADDED_CURVATURE) * direction)

    def newton_step(self, gradient: Floats, tolerance: float) -> Floats:
        """The Hessian's solution of a gradient, by conjugate gradients until the residual is small."""
        preconditioner = self._diagonal_inverse() if self.diagonal else self._product_inverse()
        size, shape = gradient.size, gradient.shape

        def operator(function: ArrayFunction) -> Any:
            return sparse.linalg.LinearOperator((size, size), lambda vector: function(vector.reshape(shape)))

        options = {
            "rtol": 0.0,
            "atol": tolerance,
            "maxiter": MAX_CG_ITERATIONS,
            "M": operator(preconditioner),
        }
        solution, _ = sparse.linalg.cg(operator(self.hessian_product), gradient.ravel(), **options)
        step: Floats = solution.reshape(shape)
        return step if step.any() and np.isfinite(step).all() else gradient

    def _diagonal_inverse(self) -> ArrayFunction:
        """The inverse of the Hessian's diagonal."""

        def block_sums(rows: slice, z: Floats, share: Floats) -> BlockSums:
            probability = self.probability[:, rows]
            return (self.feature_sums(probability * (1.0 - probability) * share, z * z),)

        diagonal = self.sum_blocks(block_sums)[0] + self.penalty
        inverse = 1.0 / np.maximum(diagonal, 1e-12 * max(diagonal.max(), 1e-288))
        return lambda gradient: inverse * gradient

    def _product_inverse(self) -> ArrayFunction:
        """A sum over rows of (diag p - p p') x (f f') taken for a product of two sums.

        With the features' sum weighted by the trace of diag p - p p' it has the Hessian's trace. In the bases in which
        both sums are diagonal the penalty is one more diagonal.
        """

        def block_sums(rows: slice, z: Floats, share: Floats) -> BlockSums:
            probability = self.probability[:, rows]
            features = np.concatenate([z, np.ones((1, len(share)))])
            trace = share * (probability * (1.0 - probability)).sum(axis=0)
            class_sum = np.diag(probability @ share) - (probability * share) @ probability.T
            return class_sum, (features * trace) @ features.T, trace.sum()

        class_sum, feature_sum, total_trace = self.sum_blocks(block_sums)
        class_values, class_vectors = np.linalg.eigh(class_sum)
        feature_values, feature_vectors = np.linalg.eigh(feature_sum / max(total_trace, 1e-300))
        curvature = np.outer(np.maximum(class_values, 0.0), np.maximum(feature_values, 0.0))
        curvature += max(self.penalty[:, :-1].mean(), 1e-9 * curvature.max(), 1e-300)

        def inverse(gradient: Floats) -> Floats:
            rotated = class_vectors.T @ gradient @ feature_vectors
            return np.asarray(class_vectors @ (rotated / curvature) @ feature_vectors.T)

        return inverse


def fit_power(sample: TrainingSample, start: Floats) -> FitResult:
    """The power b of least mean log loss of P_k = p_k^b / sum_j p_j^b.

    Parameters
    ----------
    sample : TrainingSample
        The rows.
    start : (1,) array
        Where to start.

    Returns
    -------
    power : (1,) array
        1 / temperature.
    diverges : bool
        Whether there is no finite optimum.
    """
    no_coefficients = np.zeros((0, 2))  # beside the power
    fit = SoftmaxFit(no_coefficients, no_coefficients)
    fit.set_rows(sample)
    observed_log = fit.z[fit.outcome, np.arange(sample.rows)]

    def evaluate(power: Floats) -> Derivatives:
        def block_sums(rows: slice, z: Floats, share: Floats) -> BlockSums:
            weighted_logs, log_sum = softmax(power[0] * z, 0)
            weighted_logs *= z
            mean = weighted_logs.sum(axis=0)
            variance = np.einsum("ij,ij->j", weighted_logs, z) - mean * mean
            loss = log_sum - power[0] * observed_log[rows]
            return share @ loss, share @ (mean - observed_log[rows]), share @ variance

        loss, slope, curvature = fit.sum_blocks(block_sums)
        return loss, np.array([slope]), np.array([[curvature]])

    return newton_minimise(evaluate, start, 1.0)

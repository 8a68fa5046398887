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
from miscal.data.checks import number, one_of, truth
from miscal.data.errors import warn
from miscal.data.libraries import sparse
from miscal.export.formula import Formula, Softmax, curve, softmax_of
from miscal.kernels.threads import over_blocks
from miscal.metrics.losses import descended
from miscal.recalibrate.base import Recalibrator, pairs
from miscal.recalibrate.logistic import LOGIT_CLIP, SEPARATED, Features, State, minimise
from miscal.recalibrate.parameters import parameter, state
from miscal.recalibrate.sample import Found, Map, Sample, warmed

Parts: TypeAlias = tuple[Floats, Floats, float | None]  # slopes, shifts and power
Sums: TypeAlias = tuple[Any, ...]  # over a block of rows

LOGIT = Features("logit")
LOWEST, HIGHEST = math.exp(-10.0), math.exp(10.0)  # inverse temperatures
CELLS = 1 << 16  # numbers in a block of rows
LEAST_ROWS = 128  # of a block
MOST_PRODUCTS = 500  # with the Hessian, to a step
SMALL_GRADIENT = 1e-13  # of the mean loss
MOST_CLASSES = 30  # beyond it K² coefficients want more rows than there mostly are, and seconds a fold
FLAT = 1e-14  # added to the curvature, so that no step is long where there is none
LONG_STEP = 1e-2  # a last step beyond it went down a slope without end


def logs_of(probability: Floats) -> Floats:
    """Logarithms of probabilities held at 1e-12 or more."""
    return np.log(np.maximum(probability, LOGIT_CLIP))


def softmax(scores: Floats, classes: int = 1) -> tuple[Floats, Floats]:
    """Probabilities, and the logarithm of the sum of exponentials, of each row; `classes` is the classes' axis."""
    highest = scores.max(axis=classes, keepdims=True)
    scores = np.exp(scores - highest)
    sums = scores.sum(axis=classes, keepdims=True)
    scores /= sums
    return scores, (np.log(sums) + highest).squeeze(classes)


def block_of(classes: int) -> int:
    """Rows in a block."""
    return max(LEAST_ROWS, CELLS // classes)


def softmax_map(probability: Floats, slopes: Floats, shifts: Floats, power: float | None = None) -> Floats:
    """P = softmax(slopes ln p + shifts), slopes (K,) or (K, K); with `power`, ln p less ln(sum p^power) / power."""
    matrix = pairs(probability)
    out = np.empty(matrix.shape)

    def work(start: int, stop: int) -> None:
        logs = logs_of(np.ascontiguousarray(matrix[start:stop].T))
        if power is not None:
            logs -= softmax(power * logs, 0)[1] / power
        moved = (logs * slopes[:, None] if slopes.ndim == 1 else slopes @ logs) + shifts[:, None]
        out[start:stop] = softmax(moved, 0)[0].T

    over_blocks(len(matrix), work, block_of(matrix.shape[1]))
    return out


def powered(probability: Floats, power: float, shift: float = 0.0) -> Floats:
    """Probabilities (n, K) to a power, rows divided by their sums; of binary ones by the curve of the logit."""
    if probability.ndim == 1:
        return LOGIT.map(probability, np.array([power]), shift)
    classes = probability.shape[1]
    return softmax_map(probability, np.full(classes, power), np.zeros(classes))


def powers(n_classes: int, power: float, shift: float = 0.0) -> Formula:
    """What `powered` does."""
    if n_classes > 2:
        return Softmax(power * np.eye(n_classes), np.zeros(n_classes))
    return curve(LOGIT, [power], shift)


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

    def look_at(self, sample: Sample) -> None:
        """Take rows, one class a line: the logarithms, the rows' shares of the mean, and their classes."""
        self.z = logs_of(np.ascontiguousarray(pairs(sample.probability).T))  # (K, rows)
        if self.power is not None:
            self.z *= self.power
            self.z -= softmax(self.z, 0)[1]
        self.share = sample.weights / sample.total
        self.outcome = sample.outcome
        self.free, width = self.penalty.shape
        self.diagonal = width == 2
        self.likely = np.empty((self.free, sample.rows))  # at the point last evaluated

    def summed(self, work: Callable[..., Sums]) -> list[Any]:
        """Sum what `work` gives for each block of rows, its z and shares, part by part, in the order of the blocks."""

        def of(start: int, stop: int) -> Sums:
            rows = slice(start, stop)
            return work(rows, self.z[:, rows], self.share[rows])

        blocks = over_blocks(len(self.share), of, block_of(len(self.z)))
        return [sum(part) for part in zip(*blocks, strict=True)]

    def fitted(self, sample: Sample, theta: Floats) -> Found:
        """Newton's method, each step by conjugate gradients; also whether the loss only falls towards infinity."""
        self.look_at(sample)
        longest = [0.0]

        def step_at(_: Floats, state: tuple[float, Floats]) -> Found:
            length = float(np.linalg.norm(state[1]))
            if length <= SMALL_GRADIENT:
                return np.zeros(theta.shape), True
            step = self.solved(state[1], max(min(0.1, length) * length, 0.3 * SMALL_GRADIENT))
            longest.append(np.abs(step).max())
            return step, False

        return descended(self.evaluate, theta, step_at), longest[-1] > LONG_STEP

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

        def work(rows: slice, z: Floats, share: Floats) -> Sums:
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

        def work(rows: slice, z: Floats, share: Floats) -> Sums:
            likely = self.likely[:, rows]
            change = self.moved(direction, z)
            change -= np.einsum("ij,ij->j", likely, change)
            change *= likely
            change *= share
            return (self.gathered(change, z),)

        return np.asarray(self.summed(work)[0] + (self.penalty + FLAT) * direction)

    def solved(self, gradient: Floats, small: float) -> Floats:
        """The Hessian's solution of a gradient, until the rest is small."""
        near = self._diagonal_inverse() if self.diagonal else self._product_inverse()
        size, shape = gradient.size, gradient.shape

        def operator(of: Map) -> Any:
            return sparse.linalg.LinearOperator((size, size), lambda flat: of(flat.reshape(shape)))

        steps = {"rtol": 0.0, "atol": small, "maxiter": MOST_PRODUCTS, "M": operator(near)}
        found, _ = sparse.linalg.cg(operator(self.product), gradient.ravel(), **steps)
        step: Floats = found.reshape(shape)
        return step if step.any() and np.isfinite(step).all() else gradient

    def _diagonal_inverse(self) -> Map:
        """A function that nearly solves with the Hessian."""

        def work(rows: slice, z: Floats, share: Floats) -> Sums:
            likely = self.likely[:, rows]
            return (self.gathered(likely * (1.0 - likely) * share, z * z),)

        own = self.summed(work)[0] + self.penalty
        inverse = 1.0 / np.maximum(own, 1e-12 * max(own.max(), 1e-288))
        return lambda gradient: inverse * gradient

    def _product_inverse(self) -> Map:
        """A sum over rows of (diag p - p p') x (f f') taken for a product of two sums.

        With the features' sum weighted by the trace of diag p - p p' it has the Hessian's trace. In the bases in which
        both sums are diagonal the penalty is one more diagonal.
        """

        def work(rows: slice, z: Floats, share: Floats) -> Sums:
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


def fitted_power(sample: Sample, start: Floats) -> Found:
    """The power b of least mean log loss of P_k = p_k^b / sum_j p_j^b; also whether there is none."""
    nothing = np.zeros((0, 2))  # no coefficients beside the power
    data = SoftmaxFit(nothing, nothing)
    data.look_at(sample)
    own = data.z[data.outcome, np.arange(sample.rows)]

    def evaluate(power: Floats) -> State:
        def work(rows: slice, z: Floats, share: Floats) -> Sums:
            likely, log_sum = softmax(power[0] * z, 0)
            likely *= z
            mean = likely.sum(axis=0)
            spread = np.einsum("ij,ij->j", likely, z) - mean * mean
            loss = log_sum - power[0] * own[rows]
            return share @ loss, share @ (mean - own[rows]), share @ spread

        loss, slope, curvature = data.summed(work)
        return loss, np.array([slope]), np.array([[curvature]])

    return minimise(evaluate, start, 1.0)


class TemperatureScaling(Recalibrator):
    """Temperature scaling: divide the logarithms of the probabilities by a temperature (Guo et al. 2017).

    P_k = p_k^b / sum_j p_j^b with b = 1 / temperature, minimising the sum of log losses; p is held at 1e-12 or more
    (and binary p at 1 - 1e-12 or less). Keeps the ranking: of binary probabilities, and of the classes within each row.

    b lies in [exp(-10), exp(10)]. Where certainty (every row's most probable class is right) or no use of the score at
    all fits best, it is stopped where the loss is flat or at an end, with a warning.

    Attributes
    ----------
    temperature_ : float
        Above 1: the model was too sure of itself.

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> TemperatureScaling().fit(y_prob, y)
    TemperatureScaling() fitted on 8 rows: temperature 1.26
    """

    always_rises = True
    candidate_for = 3, math.inf

    inverse_temperature_: float = state("float", low=1e-300)

    @property
    def temperature_(self) -> float:
        """1 / b."""
        return 1.0 / self.inverse_temperature_

    def _fit(self, sample: Sample) -> None:
        (power,), without_end = warmed(sample, fitted_power, np.ones(1))
        self.inverse_temperature_ = float(np.clip(power, LOWEST, HIGHEST))
        if without_end or power != self.inverse_temperature_:
            warn(f"the best temperature lies beyond every bound; it was stopped at {self.temperature_:.3g}")

    def _map(self, probability: Floats) -> Floats:
        return powered(probability, self.inverse_temperature_)

    def _formula(self) -> Formula:
        return powers(self.n_classes_, self.inverse_temperature_)

    def _summary(self) -> str:
        return f"temperature {self.temperature_:.3g}"


class _Softmax(Recalibrator):
    """A softmax of a linear map of the logarithms.

    `_parts` of those below gives slopes (K,) or (K, K), shifts (K,), and the power by which logarithms are made to sum
    to 1, or None.
    """

    def _map(self, probability: Floats) -> Floats:
        return softmax_map(probability, *self._parts())

    def _formula(self) -> Formula:
        slopes, shifts, power = self._parts()
        return softmax_of(np.diag(slopes) if slopes.ndim == 1 else slopes, shifts, power)


class VectorScaling(_Softmax):
    """Vector scaling: scale and shift the logarithm of each class's probability (Guo et al. 2017).

    P_k is proportional to exp(w_k ln p_k + b_k), minimising the sum of log losses; p is held at 1e-12 or more. The last
    class has b = 0, because only differences count. Does not keep the ranking. A class that does not occur among
    the rows to fit on, and classes that are separated perfectly, have no finite optimum: the fit stops where the
    loss is flat, with a warning.

    Attributes
    ----------
    slopes_, shifts_ : (K,)

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.dirichlet(np.ones(3), 2000)
    >>> y = (y_prob.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    >>> VectorScaling().fit(y_prob, y).slopes_.round(1)
    array([1. , 0.9, 1.1])
    """

    candidate_for = 3, math.inf

    slopes_: Floats = state("float", "classes")
    shifts_: Floats = state("float", "classes")

    def _fit(self, sample: Sample) -> None:
        seen = sample.class_weights + 0.5
        nothing = np.zeros((sample.n_classes, 2))
        start = nothing.copy()
        start[:, 1] = np.log(seen / seen[-1])
        theta, separated = warmed(sample, SoftmaxFit(nothing, nothing).fitted, start)
        if separated:
            warn(SEPARATED.replace("Pass l2=1 to fit", "DirichletCalibration has"))
        slopes, shifts = theta.T
        self.slopes_, self.shifts_ = slopes, shifts - shifts[-1]

    def _parts(self) -> Parts:
        return self.slopes_, self.shifts_, None


class StructuredScaling(_Softmax):
    """Vector or matrix scaling with ridge penalties that shrink it towards temperature scaling (Berta et al. 2026).

    P = softmax((I + diag(v) + M) z + b), z the logarithms of the probabilities after `TemperatureScaling` (they sum to
    1; p is held at 1e-12 or more), as its authors' package has it. The temperature is found first; then v, b and, with
    ``structure="matrix"``, M (0 on its diagonal) minimise

        sum of log losses + strength (K (sum v² + sum b²) + K (K - 1) sum M²)

    with K classes: the more coefficients there are, the more each is shrunk, and the more rows, the less that matters.
    Few rows give temperature scaling, many give vector or matrix scaling, and there is always one finite optimum:
    a class that does not occur keeps its scale, its shift falls. Binary probabilities are taken as two classes. Does
    not keep the ranking.

    Parameters
    ----------
    structure : {"vector", "matrix"}
        Whether a class's score may depend on the other classes' probabilities.
    strength : float
        Of the penalties.

    Attributes
    ----------
    temperature_ : float
    coefficients_ : (1, K) or (K, K)
        The factors of ln p, less ln(sum p^(1/temperature)) temperature, the temperature included: the diagonal only, or
        the whole matrix.
    intercepts_ : (K,) b

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.dirichlet(np.ones(3), 2000)
    >>> y = (y_prob.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    >>> StructuredScaling().fit(y_prob, y)
    StructuredScaling() fitted on 2,000 rows: temperature 1.01
    """

    structure: str = parameter(one_of, ("vector", "matrix"), default="vector")
    strength: float = parameter(number, 0.0, above=True, default=1.0)
    temperature_: float = state("float", low=1e-300)
    coefficients_: Floats = state("float", "any", "classes")
    intercepts_: Floats = state("float", "classes")

    def check_state(self) -> None:
        """Refuse coefficients of the other structure."""
        if len(self.coefficients_) != (self.n_classes_ if self.structure == "matrix" else 1):
            raise ValueError("the coefficients do not belong to the structure")

    def _fit(self, sample: Sample) -> None:
        heat = TemperatureScaling()
        heat._fit(sample)  # noqa: SLF001  # the sample is checked already
        classes, power = sample.n_classes, heat.inverse_temperature_
        # Without its intercepts the target is temperature scaling: W = I of z = ln(p) / temperature.
        target = np.eye(classes, classes + 1)
        own = 2.0 * self.strength * classes / sample.total
        penalty = np.where(target > 0, own, own * (classes - 1))
        if self.structure == "vector":
            target = np.tile([1.0, 0.0], (classes, 1))
            penalty = np.full(target.shape, own)
        penalty[:, -1] = own
        found, _ = warmed(sample, SoftmaxFit(penalty, target, power).fitted, target)
        self.temperature_ = heat.temperature_
        slopes = found[:, :-1]
        self.coefficients_ = power * (slopes.T if self.structure == "vector" else slopes)
        self.intercepts_ = found[:, -1]

    def _parts(self) -> Parts:
        slopes = self.coefficients_[0] if self.structure == "vector" else self.coefficients_
        return slopes, self.intercepts_, 1.0 / self.temperature_

    @classmethod
    def _candidates(cls, sample: Sample) -> dict[str, Recalibrator]:
        if sample.n_classes == 2:
            return {}
        return {f"{cls.__name__}({structure})": cls(structure) for structure in ("vector", "matrix")}

    def _summary(self) -> str:
        return f"temperature {self.temperature_:.3g}"


class DirichletCalibration(_Softmax):
    """Dirichlet calibration: a full matrix on the logarithms of the probabilities (Kull et al. 2019).

    P = softmax(W ln p + b), p held at 1e-12 or more, minimising the mean log loss + l2 sum W² + intercept_l2 sum b², as
    its authors' code has it: with `reference`, the last class's row of (W, b) is subtracted from all rows first, so
    that it is 0 and the penalty falls on the differences. Binary probabilities are taken as two classes. Does not
    keep the ranking.

    Parameters
    ----------
    l2 : float
        Penalty on W (relative to the *mean* loss, unlike the other recalibrators').
    intercept_l2 : float or None
        Penalty on b; None: that of `l2`.
    reference : bool
    towards : {"zero", "identity"}
        What the penalties draw W to: zeros, as its authors have it, or the identity, which leaves all as it is.

    Attributes
    ----------
    coefficients_ : (K, K) W
    intercepts_ : (K,) b

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.dirichlet(np.ones(3), 2000)
    >>> y = (y_prob.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    >>> DirichletCalibration(l2=1e-4).fit(y_prob, y).predict_proba([[0.2, 0.3, 0.5]]).round(2)
    array([[0.21, 0.3 , 0.49]])
    """

    candidate_for = 3, MOST_CLASSES

    l2: float = parameter(number, 0.0, default=1e-3)
    intercept_l2: float | None = parameter(number, 0.0, default=None)
    reference: bool = parameter(truth, default=True)
    towards: str = parameter(one_of, ("zero", "identity"), default="zero")
    coefficients_: Floats = state("float", "classes", "classes")
    intercepts_: Floats = state("float", "classes")

    def _fit(self, sample: Sample) -> None:
        classes = sample.n_classes
        whole = np.eye(classes, classes + 1)
        as_is = whole[:-1] - whole[-1] if self.reference else whole
        start, target = 0.5 * as_is, as_is * (self.towards == "identity")
        penalty = np.full(start.shape, 2.0 * self.l2)
        if self.intercept_l2 is not None:
            penalty[:, -1] = 2.0 * self.intercept_l2
        theta, separated = warmed(sample, SoftmaxFit(penalty, target).fitted, start)
        if separated:
            warn(SEPARATED.replace("l2=1", "l2=1e-3"))
        full = np.zeros(whole.shape)
        full[: len(theta)] = theta
        self.coefficients_ = full[:, :-1].copy()
        self.intercepts_ = full[:, -1]

    def _parts(self) -> Parts:
        return self.coefficients_, self.intercepts_, None

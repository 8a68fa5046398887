"""Recalibrators of all classes together: temperature, vector, structured and Dirichlet scaling."""

import math
from typing import TypeAlias

import numpy as np

from miscal.data.arrays import Floats
from miscal.data.checks import number, one_of, truth
from miscal.data.errors import warn
from miscal.export.formula import Formula, softmax_of
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.logistic_fit import SEPARATED_CLASSES
from miscal.recalibrate.parameters import parameter, state
from miscal.recalibrate.softmax_fit import (
    MAX_POWER,
    MIN_POWER,
    SoftmaxFit,
    fit_power,
    power_formula,
    power_scaled,
    softmax_map,
)
from miscal.recalibrate.training_sample import TrainingSample, warm_started

#: Slopes, shifts and power of `softmax_map`.
LinearMap: TypeAlias = tuple[Floats, Floats, float | None]

#: Classes up to which `choose` tries K² coefficients: more want more rows than there mostly are, and seconds per fold.
MAX_DIRICHLET_CLASSES = 30


class TemperatureScaling(Recalibrator):
    """Temperature scaling: divide the logarithms of the probabilities by a temperature (Guo et al. 2017).

    P_k = p_k^b / sum_j p_j^b with b = 1 / temperature, minimising the sum of log losses; p is clipped to at least 1e-12
    (and binary p to at most 1 - 1e-12). Keeps the ranking: of binary probabilities, and of the classes within each row.

    b lies in [exp(-10), exp(10)]. Where certainty (every row's most probable class is right) or no use of the score at
    all fits best, it is stopped where the loss is flat or at an end, with a warning.

    Attributes
    ----------
    inverse_temperature_ : float
        b.
    temperature_ : float
        Above 1: the model was overconfident.

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> TemperatureScaling().fit(y_prob, y)
    TemperatureScaling() fitted on 8 rows: temperature 1.26
    """

    always_keeps_ranking = True
    candidate_classes = 3, math.inf

    inverse_temperature_: float = state("float", low=1e-300)

    @property
    def temperature_(self) -> float:
        """1 / b."""
        return 1.0 / self.inverse_temperature_

    def _fit(self, sample: TrainingSample) -> None:
        (power,), diverges = warm_started(sample, fit_power, np.ones(1))
        self.inverse_temperature_ = float(np.clip(power, MIN_POWER, MAX_POWER))
        if diverges or power != self.inverse_temperature_:
            warn(f"the best temperature lies beyond every bound; it was stopped at {self.temperature_:.3g}")

    def _map(self, probability: Floats) -> Floats:
        return power_scaled(probability, self.inverse_temperature_)

    def _formula(self) -> Formula:
        return power_formula(self.n_classes_, self.inverse_temperature_)

    def _summary(self) -> str:
        return f"temperature {self.temperature_:.3g}"


class _Softmax(Recalibrator):
    """Base class of softmaxes of a linear map of the logarithms; a subclass gives it by `_linear_map`."""

    def _linear_map(self) -> LinearMap:
        """Slopes (K,) or (K, K), shifts (K,), and the power by which logarithms are normalised, or None."""
        raise NotImplementedError

    def _map(self, probability: Floats) -> Floats:
        return softmax_map(probability, *self._linear_map())

    def _formula(self) -> Formula:
        slopes, shifts, power = self._linear_map()
        return softmax_of(np.diag(slopes) if slopes.ndim == 1 else slopes, shifts, power)


class VectorScaling(_Softmax):
    """Vector scaling: scale and shift the logarithm of each class's probability (Guo et al. 2017).

    P_k is proportional to exp(w_k ln p_k + b_k), minimising the sum of log losses; p is clipped to at least 1e-12. The
    last class has b = 0, because only differences count. Does not keep the ranking. A class that does not occur among
    the rows to fit on, and classes that are separated perfectly, have no finite optimum: the fit stops where the
    loss is flat, with a warning.

    Attributes
    ----------
    slopes_ : (K,) array
        w.
    shifts_ : (K,) array
        b.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.dirichlet(np.ones(3), 2000)
    >>> y = (y_prob.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    >>> VectorScaling().fit(y_prob, y).slopes_.round(1)
    array([1. , 0.9, 1.1])
    """

    candidate_classes = 3, math.inf

    slopes_: Floats = state("float", "classes")
    shifts_: Floats = state("float", "classes")

    def _fit(self, sample: TrainingSample) -> None:
        class_weights = sample.class_weights + 0.5
        no_penalty = np.zeros((sample.n_classes, 2))
        start = no_penalty.copy()
        start[:, 1] = np.log(class_weights / class_weights[-1])
        theta, diverges = warm_started(sample, SoftmaxFit(no_penalty, no_penalty).fit, start)
        if diverges:
            warn(SEPARATED_CLASSES.replace("Pass l2=1 to fit", "DirichletCalibration has"))
        slopes, shifts = theta.T
        self.slopes_, self.shifts_ = slopes, shifts - shifts[-1]

    def _linear_map(self) -> LinearMap:
        return self.slopes_, self.shifts_, None


class StructuredScaling(_Softmax):
    """Vector or matrix scaling with ridge penalties that shrink it towards temperature scaling (Berta et al. 2026).

    P = softmax((I + diag(v) + M) z + b), z the logarithms of the probabilities after `TemperatureScaling` (they sum to
    1; p is clipped to at least 1e-12), as its authors' package has it. The temperature is fitted first; then v, b and,
    with ``structure="matrix"``, M (0 on its diagonal) minimise

        sum of log losses + strength (K (sum v² + sum b²) + K (K - 1) sum M²)

    with K classes: the more coefficients there are, the more each is shrunk, and the more rows, the less that matters.
    Few rows give temperature scaling, many give vector or matrix scaling, and there is always one finite optimum:
    a class that does not occur keeps its scale, its shift falls. Binary probabilities are taken as two classes. Does
    not keep the ranking.

    Parameters
    ----------
    structure : {"vector", "matrix"}, default="vector"
        Whether a class's score may depend on the other classes' probabilities.
    strength : float, default=1.0
        Of the penalties.

    Attributes
    ----------
    temperature_ : float
        Fitted first.
    coefficients_ : (1, K) or (K, K) array
        The factors of ln p, less ln(sum p^(1/temperature)) temperature, the temperature included: the diagonal only, or
        the whole matrix.
    intercepts_ : (K,) array
        b.

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
        """Reject coefficients of the other structure."""
        if len(self.coefficients_) != (self.n_classes_ if self.structure == "matrix" else 1):
            raise ValueError("the coefficients do not belong to the structure")

    def _fit(self, sample: TrainingSample) -> None:
        temperature = TemperatureScaling()
        temperature._fit(sample)  # noqa: SLF001  # the sample is checked already
        classes, power = sample.n_classes, temperature.inverse_temperature_
        # At the target, without intercepts, the map is temperature scaling: W = I of z = ln(p) / temperature.
        target = np.eye(classes, classes + 1)
        diagonal_penalty = 2.0 * self.strength * classes / sample.total
        penalty = np.where(target > 0, diagonal_penalty, diagonal_penalty * (classes - 1))
        if self.structure == "vector":
            target = np.tile([1.0, 0.0], (classes, 1))
            penalty = np.full(target.shape, diagonal_penalty)
        penalty[:, -1] = diagonal_penalty
        theta, _ = warm_started(sample, SoftmaxFit(penalty, target, power).fit, target)
        self.temperature_ = temperature.temperature_
        slopes = theta[:, :-1]
        self.coefficients_ = power * (slopes.T if self.structure == "vector" else slopes)
        self.intercepts_ = theta[:, -1]

    def _linear_map(self) -> LinearMap:
        slopes = self.coefficients_[0] if self.structure == "vector" else self.coefficients_
        return slopes, self.intercepts_, 1.0 / self.temperature_

    @classmethod
    def _candidates(cls, sample: TrainingSample) -> dict[str, Recalibrator]:
        if sample.n_classes == 2:
            return {}
        return {f"{cls.__name__}({structure})": cls(structure) for structure in ("vector", "matrix")}

    def _summary(self) -> str:
        return f"temperature {self.temperature_:.3g}"


class DirichletCalibration(_Softmax):
    """Dirichlet calibration: a full matrix on the logarithms of the probabilities (Kull et al. 2019).

    P = softmax(W ln p + b), p clipped to at least 1e-12, minimising the mean log loss + l2 sum W² + intercept_l2 sum
    b², as its authors' code has it: with `reference`, the last class's row of (W, b) is subtracted from all rows first,
    so that it is 0 and the penalty falls on the differences. Binary probabilities are taken as two classes. Does not
    keep the ranking.

    Parameters
    ----------
    l2 : float, default=1e-3
        Penalty on W (relative to the *mean* loss, unlike the other recalibrators').
    intercept_l2 : float, optional
        Penalty on b; `l2` by default.
    reference : bool, default=True
        Whether the last class is the reference.
    towards : {"zero", "identity"}, default="zero"
        What the penalties shrink W to: zeros, as its authors have it, or the identity, which leaves all as it is.

    Attributes
    ----------
    coefficients_ : (K, K) array
        W.
    intercepts_ : (K,) array
        b.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.dirichlet(np.ones(3), 2000)
    >>> y = (y_prob.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    >>> DirichletCalibration(l2=1e-4).fit(y_prob, y).predict_proba([[0.2, 0.3, 0.5]]).round(2)
    array([[0.21, 0.3 , 0.49]])
    """

    candidate_classes = 3, MAX_DIRICHLET_CLASSES

    l2: float = parameter(number, 0.0, default=1e-3)
    intercept_l2: float | None = parameter(number, 0.0, default=None)
    reference: bool = parameter(truth, default=True)
    towards: str = parameter(one_of, ("zero", "identity"), default="zero")
    coefficients_: Floats = state("float", "classes", "classes")
    intercepts_: Floats = state("float", "classes")

    def _fit(self, sample: TrainingSample) -> None:
        classes = sample.n_classes
        full_identity = np.eye(classes, classes + 1)
        identity = full_identity[:-1] - full_identity[-1] if self.reference else full_identity
        start, target = 0.5 * identity, identity * (self.towards == "identity")
        penalty = np.full(start.shape, 2.0 * self.l2)
        if self.intercept_l2 is not None:
            penalty[:, -1] = 2.0 * self.intercept_l2
        theta, diverges = warm_started(sample, SoftmaxFit(penalty, target).fit, start)
        if diverges:
            warn(SEPARATED_CLASSES.replace("l2=1", "l2=1e-3"))
        full_theta = np.zeros(full_identity.shape)
        full_theta[: len(theta)] = theta
        self.coefficients_ = full_theta[:, :-1].copy()
        self.intercepts_ = full_theta[:, -1]

    def _linear_map(self) -> LinearMap:
        return self.coefficients_, self.intercepts_, None

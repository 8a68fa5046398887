"""Maps of all classes together: vector, structured and Dirichlet scaling of the logarithms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from miscal.data.checks import number, one_of
from miscal.data.columns import Column
from miscal.data.errors import warn
from miscal.recalibrate.base import Floats, Recalibrator
from miscal.recalibrate.curves import TemperatureScaling
from miscal.recalibrate.export.formula import Formula, softmax_of
from miscal.recalibrate.logistic import SEPARATED
from miscal.recalibrate.parameters import parameter, truth
from miscal.recalibrate.sample import Sample
from miscal.recalibrate.softmax import fitted, moments, softmax_map
from miscal.recalibrate.state import state

MOST_CLASSES = 30  # beyond it K² coefficients want more rows than there mostly are, and seconds a fold


class _Softmax(Recalibrator):
    """A softmax of a linear map of the logarithms."""

    def _parts(self) -> tuple[Floats, Floats, float | None]:
        """Slopes (K,) or (K, K), shifts (K,), and the power by which logarithms are made to sum to 1."""
        raise NotImplementedError

    def _map(self, probability: Floats) -> Floats:
        return softmax_map(probability, *self._parts())

    def _formula(self) -> Formula:
        slopes, shifts, power = self._parts()
        return softmax_of(np.diag(slopes) if slopes.ndim == 1 else slopes, shifts, power)


class VectorScaling(_Softmax):
    """Scale and shift the logarithm of each class's probability (Guo et al. 2017).

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

    candidate_for: ClassVar[tuple[float, float]] = (3, math.inf)

    slopes_: Floats = state("float", "classes")
    shifts_: Floats = state("float", "classes")

    def _fit(self, sample: Sample) -> None:
        centre, scale = moments(sample)
        share = (sample.class_weights() + 0.5) / (sample.total + 0.5 * sample.n_classes)
        start = np.stack([np.zeros(sample.n_classes), np.log(share / share[-1])], axis=1)
        nothing = np.zeros(start.shape)
        theta, separated = fitted(sample, start, nothing, nothing, centre, scale)
        if separated:
            warn(SEPARATED.replace(" Pass l2=1 to fit a finite optimum", " DirichletCalibration has a finite optimum"))
        self.slopes_ = theta[:, 0] * scale
        shifts = theta[:, 1] - self.slopes_ * centre
        self.shifts_ = shifts - shifts[-1]

    def _parts(self) -> tuple[Floats, Floats, float | None]:
        return self.slopes_, self.shifts_, None

    def _summary(self) -> str:
        return f"slopes {self.slopes_.min():.3g} to {self.slopes_.max():.3g}"


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
    StructuredScaling() fitted on 2,000 rows: temperature 1.01, slopes 0.901 to 1.12
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
        own = 2.0 * float(self.strength) * classes / sample.total
        penalty = np.where(target > 0, own, own * (classes - 1))
        if self.structure == "vector":
            target, penalty = np.tile([1.0, 0.0], (classes, 1)), np.full((classes, 2), own)
        penalty[:, -1] = own
        found, _ = fitted(sample, target, penalty, target, scale=power, normal=True)
        self.temperature_ = heat.temperature_
        self.coefficients_ = power * (found[:, :-1].T if self.structure == "vector" else found[:, :-1])
        self.intercepts_ = found[:, -1].copy()

    def _parts(self) -> tuple[Floats, Floats, float | None]:
        slopes = self.coefficients_[0] if self.structure == "vector" else self.coefficients_
        return slopes, self.intercepts_, 1.0 / self.temperature_

    @classmethod
    def _candidates(cls, n_classes: int, columns: Mapping[str, Column], response: str) -> dict[str, Recalibrator]:  # noqa: ARG003
        if n_classes == 2:
            return {}
        return {f"{cls.__name__}({structure})": cls(structure) for structure in ("vector", "matrix")}

    def _summary(self) -> str:
        own = self.coefficients_[0] if self.structure == "vector" else np.diag(self.coefficients_)
        return f"temperature {self.temperature_:.3g}, slopes {own.min():.3g} to {own.max():.3g}"


class DirichletCalibration(_Softmax):
    """Fit a full matrix on the logarithms of the probabilities (Kull et al. 2019).

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

    candidate_for: ClassVar[tuple[float, float]] = (3, MOST_CLASSES)

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
        penalty = np.full(start.shape, 2.0 * float(self.l2))
        penalty[:, -1] = 2.0 * float(self.l2 if self.intercept_l2 is None else self.intercept_l2)
        theta, separated = fitted(sample, start, penalty, target)
        if separated:
            warn(SEPARATED.replace("l2=1", "l2=1e-3"))
        full = np.zeros((classes, classes + 1))
        full[: len(theta)] = theta
        self.coefficients_ = full[:, :-1].copy()
        self.intercepts_ = full[:, -1].copy()

    def _parts(self) -> tuple[Floats, Floats, float | None]:
        return self.coefficients_, self.intercepts_, None

    def _summary(self) -> str:
        return f"{self.coefficients_.size + self.intercepts_.size} parameters"

"""Structured scaling: vector or matrix scaling, shrunk towards temperature scaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from miscal.data.columns import Column
from miscal.recalibrate.base import Floats, Recalibrator, Sample, pairs
from miscal.recalibrate.classes.softmax import BLOCK, Rows, logs_of, softmax, summed, thinned
from miscal.recalibrate.export.formula import Formula, softmax_of
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.score.temperature import TemperatureScaling
from miscal.recalibrate.state import Field

MOST_STEPS = 2000
SMALL = 1e-10  # slope of the mean loss, in scaled coordinates, at which a fit ends


class StructuredScaling(Recalibrator):
    """Vector or matrix scaling with ridge penalties that shrink it towards temperature scaling (Berta et al. 2026).

    P = softmax((I + diag(v) + M) z + b), z = ln(p) / temperature, p held at 1e-12 or more. The temperature is that of
    `TemperatureScaling`; then v, b and, with ``structure="matrix"``, M (0 on its diagonal) minimise

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
        The factors of ln p, the temperature included: the diagonal only, or the whole matrix.
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

    fields: ClassVar[dict[str, Field]] = {
        "temperature_": Field("float", (), 1e-300),
        "coefficients_": Field("float", ("any", "classes")),
        "intercepts_": Field("float", ("classes",)),
    }

    temperature_: float
    coefficients_: Floats
    intercepts_: Floats

    def __init__(self, structure: str = "vector", strength: float = 1.0) -> None:
        self.structure = structure
        self.strength = strength

    def check_parameters(self) -> None:
        """Refuse wrong parameters."""
        parameters.one_of("structure", self.structure, ("vector", "matrix"))
        parameters.number("strength", self.strength, 0.0, above=True)

    def check_state(self) -> None:
        """Refuse coefficients of the other structure."""
        if len(self.coefficients_) != (self.n_classes_ if self.structure == "matrix" else 1):
            raise ValueError("the coefficients do not belong to the structure")

    def _fit(self, sample: Sample) -> None:
        heat = TemperatureScaling()
        heat._fit(sample)  # noqa: SLF001  # the sample is checked already
        classes, matrix = sample.n_classes, self.structure == "matrix"
        power, start = heat.inverse_temperature_, None
        thin = thinned(sample)
        if thin is not None:
            start = _solved(Rows(thin), power, self._penalty(classes), None)
        found = _solved(Rows(sample), power, self._penalty(classes), start)
        self.temperature_ = heat.temperature_
        self.coefficients_ = power * (np.eye(classes) + found[:, :-1] if matrix else 1.0 + found[:, :-1].T)
        self.intercepts_ = found[:, -1].copy()

    def _penalty(self, classes: int) -> Floats:
        """Of half the square of each coefficient; one row a class, the intercept's last."""
        own, other = 2.0 * float(self.strength) * classes, 2.0 * float(self.strength) * classes * (classes - 1)
        if self.structure == "vector":
            return np.full((classes, 2), own)
        made = np.full((classes, classes + 1), other)
        made[np.arange(classes), np.arange(classes)] = own
        made[:, -1] = own
        return made

    def _map(self, probability: Floats) -> Floats:
        matrix = pairs(probability) if probability.ndim == 1 else probability
        out = np.empty(matrix.shape)
        for start in range(0, len(matrix), BLOCK):
            part = slice(start, start + BLOCK)
            logs = logs_of(matrix[part])
            moved = logs * self.coefficients_[0] if self.structure == "vector" else logs @ self.coefficients_.T
            out[part] = softmax(moved + self.intercepts_)[0]
        return out

    def _formula(self) -> Formula:
        full = np.diag(self.coefficients_[0]) if self.structure == "vector" else self.coefficients_
        return softmax_of(full, self.intercepts_)

    @classmethod
    def _candidates(cls, n_classes: int, columns: Mapping[str, Column]) -> dict[str, Recalibrator]:  # noqa: ARG003
        if n_classes == 2:
            return {}
        return {f"{cls.__name__}({structure})": cls(structure) for structure in ("vector", "matrix")}

    def _summary(self) -> str:
        own = self.coefficients_[0] if self.structure == "vector" else np.diag(self.coefficients_)
        return f"temperature {self.temperature_:.3g}, slopes {own.min():.3g} to {own.max():.3g}"


def _solved(rows: Rows, power: float, penalty: Floats, start: Floats | None) -> Floats:
    """The least penalised loss, by L-BFGS in coordinates in which every curvature at the start is about 1."""
    from scipy.optimize import minimize

    scale = 1.0 / np.sqrt(penalty + _pass(rows, power, np.zeros(penalty.shape), curved=True)[2])

    def evaluate(point: Floats) -> tuple[float, Floats]:
        theta = point.reshape(penalty.shape) * scale
        loss, gradient, _ = _pass(rows, power, theta)
        loss += 0.5 * float((penalty * theta * theta).sum())
        return loss / rows.total, ((gradient + penalty * theta) * scale).reshape(-1) / rows.total

    first = np.zeros(penalty.size) if start is None else (start / scale).reshape(-1)
    options = {"maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS, "maxcor": 20, "ftol": 0.0, "gtol": SMALL}
    found = minimize(evaluate, first, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x.reshape(penalty.shape) * scale)


def _pass(rows: Rows, power: float, theta: Floats, *, curved: bool = False) -> tuple[float, Floats, Floats]:
    """Sum of log losses at the change theta, its gradient, and (if asked) the diagonal of its Hessian."""
    whole = theta.shape[1] > 2

    def work(start: int, stop: int) -> tuple[float, Floats, Floats]:
        logs, happened, weight = rows.block(start, stop)
        logs *= power
        moved = logs @ theta[:, :-1].T if whole else logs * theta[:, 0]
        scores = logs + moved + theta[:, -1]
        likely, log_sum = softmax(scores)
        loss = float(weight @ (log_sum - (scores * happened).sum(axis=1)))
        off = (likely - happened) * weight[:, None]
        bend = likely * (1.0 - likely) * weight[:, None] if curved else off[:0]
        squares = logs * logs if curved else logs[:0]
        return loss, _gathered(off, logs, whole), _gathered(bend, squares, whole)

    loss, gradient, diagonal = summed(rows.size, work)
    return float(loss), gradient, diagonal


def _gathered(off: Floats, logs: Floats, whole: bool) -> Floats:
    """Sums of off times each feature: (K, K + 1), or (K, 2) where a class has its own feature only."""
    first = off.T @ logs if whole else (off * logs).sum(axis=0)[:, None]
    return np.concatenate([first, off.sum(axis=0)[:, None]], axis=1)

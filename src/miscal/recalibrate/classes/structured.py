"""Structured scaling: vector or matrix scaling, shrunk towards temperature scaling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from miscal.data.columns import Column
from miscal.recalibrate.base import Floats, Recalibrator, Sample
from miscal.recalibrate.classes.softmax import fitted, softmax_map
from miscal.recalibrate.export.formula import Formula, softmax_of
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.score.temperature import TemperatureScaling
from miscal.recalibrate.state import Field


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
        classes, power = sample.n_classes, heat.inverse_temperature_
        # Without its intercepts the target is temperature scaling: W = I of z = ln(p) / temperature.
        target = np.eye(classes, classes + 1)
        own = 2.0 * float(self.strength) * classes / sample.total
        penalty = np.where(target > 0, own, own * (classes - 1))
        if self.structure == "vector":
            target, penalty = np.tile([1.0, 0.0], (classes, 1)), np.full((classes, 2), own)
        penalty[:, -1] = own
        found, _ = fitted(sample, target, penalty, target, scale=power)
        self.temperature_ = heat.temperature_
        self.coefficients_ = power * (found[:, :-1].T if self.structure == "vector" else found[:, :-1])
        self.intercepts_ = found[:, -1].copy()

    def _map(self, probability: Floats) -> Floats:
        slopes = self.coefficients_[0] if self.structure == "vector" else self.coefficients_
        return softmax_map(probability, slopes, self.intercepts_)

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

"""Dirichlet calibration: every class's probability may speak for every class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from miscal.data.columns import Column
from miscal.data.errors import warn
from miscal.recalibrate.base import Floats, Recalibrator, Sample
from miscal.recalibrate.classes.softmax import fitted, softmax_map
from miscal.recalibrate.export.formula import Formula, softmax_of
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.fitting.logistic import SEPARATED
from miscal.recalibrate.state import Field

MOST_CLASSES = 30  # beyond it K² coefficients want more rows than there mostly are, and seconds a fold


class DirichletCalibration(Recalibrator):
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

    fields: ClassVar[dict[str, Field]] = {
        "coefficients_": Field("float", ("classes", "classes")),
        "intercepts_": Field("float", ("classes",)),
    }

    coefficients_: Floats
    intercepts_: Floats

    def __init__(self, l2: float = 1e-3, intercept_l2: float | None = None, reference: bool = True) -> None:
        self.l2 = l2
        self.intercept_l2 = intercept_l2
        self.reference = reference

    def check_parameters(self) -> None:
        """Refuse wrong parameters."""
        parameters.number("l2", self.l2, 0.0)
        if self.intercept_l2 is not None:
            parameters.number("intercept_l2", self.intercept_l2, 0.0)
        parameters.truth("reference", self.reference)

    def _fit(self, sample: Sample) -> None:
        classes = sample.n_classes
        whole = np.eye(classes, classes + 1)
        start = 0.5 * (whole[:-1] - whole[-1] if self.reference else whole)  # half way to leaving all as it is
        penalty = np.full(start.shape, 2.0 * float(self.l2))
        penalty[:, -1] = 2.0 * float(self.l2 if self.intercept_l2 is None else self.intercept_l2)
        theta, separated = fitted(sample, start, penalty, np.zeros(start.shape))
        if separated:
            warn(SEPARATED.replace("l2=1", "l2=1e-3"))
        full = np.zeros((classes, classes + 1))
        full[: len(theta)] = theta
        self.coefficients_ = full[:, :-1].copy()
        self.intercepts_ = full[:, -1].copy()

    def _map(self, probability: Floats) -> Floats:
        return softmax_map(probability, self.coefficients_, self.intercepts_)

    def _formula(self) -> Formula:
        return softmax_of(self.coefficients_, self.intercepts_)

    @classmethod
    def _candidates(cls, n_classes: int, columns: Mapping[str, Column]) -> dict[str, Recalibrator]:  # noqa: ARG003
        return {cls.__name__: cls()} if 2 < n_classes <= MOST_CLASSES else {}

    def _summary(self) -> str:
        return f"{self.coefficients_.size + self.intercepts_.size} parameters"

"""Platt scaling: a logistic curve of the score."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from miscal.recalibrate.base import Floats
from miscal.recalibrate.export.formula import Sigmoid, curve
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.fitting.logistic import Binary, Features, fit_curve
from miscal.recalibrate.score.one_vs_rest import OneVsRest
from miscal.recalibrate.state import Field


class _Curve(OneVsRest):
    """A logistic regression on features of the score."""

    fields: ClassVar[dict[str, Field]] = OneVsRest.fields | {
        "coefficients_": Field("float", ("maps", "any")),
        "intercepts_": Field("float", ("maps",)),
    }

    coefficients_: Floats
    intercepts_: Floats

    def _features(self) -> Features:
        raise NotImplementedError

    def _unlearned(self) -> tuple[Any, ...]:
        return np.ones(self._features().count), 0.0

    def _map_one(self, score: Floats, which: int) -> Floats:
        return self._features().map(score, self.coefficients_[which], float(self.intercepts_[which]))[:, 1]

    def _map_pairs(self, probability: Floats) -> Floats:
        return self._features().map(probability, self.coefficients_[0], float(self.intercepts_[0]))

    def _formula_of(self, which: int) -> Sigmoid:
        return curve(self._features(), self.coefficients_[which].tolist(), float(self.intercepts_[which]))

    def check_state(self) -> None:
        """Refuse coefficients that do not belong to the features."""
        if self.coefficients_.shape[1] != self._features().count:
            raise ValueError("'coefficients_' has the wrong width")


class PlattScaling(_Curve):
    """Fit a logistic curve of the score (Platt 1999).

    P = 1 / (1 + exp(-(slope x + intercept))), x = ln(p / (1 - p)) with p held within [1e-12, 1 - 1e-12], or x = p,
    minimising the sum of log losses + l2/2 slope². Several classes: each against the rest, rows divided by their sums.

    Keeps the ranking of binary probabilities when the fitted slope is not negative. When all scores are equal the slope
    is 1 on the logit and 0 on the probability (0 with a penalty), and the intercept meets the observed rate.
    Classes that the score separates perfectly have no finite optimum without a penalty: the fit stops where the
    loss is flat, with a warning.

    Parameters
    ----------
    on : {"logit", "probability"}
        What the curve is a function of. Paper 000's Platt scaling is ``on="probability", l2=1``.
    l2 : float
        Penalty; scikit-learn's C is 1 / l2.

    Attributes
    ----------
    coefficients_ : (maps, 1) slopes
    intercepts_ : (maps,)

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> PlattScaling().fit(y_prob, y)
    PlattScaling() fitted on 8 rows: slope 0.792, intercept -0.0518
    """

    candidate_for_two: ClassVar[bool] = True

    def __init__(self, on: str = "logit", l2: float = 0.0) -> None:
        self.on = on
        self.l2 = l2

    def check_parameters(self) -> None:
        """Refuse wrong parameters."""
        parameters.one_of("on", self.on, ("logit", "probability"))
        parameters.number("l2", self.l2, 0.0)

    def _features(self) -> Features:
        return Features(self.on)

    def _fit_one(self, rows: Binary) -> tuple[Any, ...]:
        return fit_curve(rows, self._features(), float(self.l2))

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and self.n_classes_ == 2 and bool(self.coefficients_[0, 0] >= 0)

    def _summary(self) -> str:
        if self.n_classes_ > 2:
            return f"{self.n_classes_} curves, one a class"
        return f"slope {self.coefficients_[0, 0]:.3g}, intercept {self.intercepts_[0]:.3g}"

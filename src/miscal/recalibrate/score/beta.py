"""Beta calibration: a curve that can bend either way at either end."""

from __future__ import annotations

from typing import Any, ClassVar

from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.fitting.logistic import Binary, Features, fit_curve
from miscal.recalibrate.score.platt import _Curve


class BetaCalibration(_Curve):
    """Fit the beta family of curves (Kull, Silva Filho and Flach 2017).

    P = 1 / (1 + exp(-(a ln p - b ln(1 - p) + c))), minimising the sum of log losses + l2/2 (a² + b²). Several classes:
    each against the rest, rows divided by their sums. ``constraint="positive"`` finds the optimum with a, b >= 0 (not
    the usual refit without the negative coefficient, which can miss it) and so keeps the ranking of binary
    probabilities; ``"none"`` keeps it when both come out positive. (Exactly 0 and 1 take their place at `clip` and
    1 - `clip`, wherever the others are.)

    With equal scores a = b = 1 (0 with a penalty) and c meets the observed rate. With two distinct scores one of the
    three parameters is free: the smallest is taken. Classes that the score separates perfectly have no finite
    optimum without a penalty: the fit stops where the loss is flat, with a warning.

    Parameters
    ----------
    constraint : {"positive", "none"}
    l2 : float
        Penalty; scikit-learn's C is 1 / l2. Paper 000's beta calibration is ``constraint="none", l2=1``.
    clip : float
        By how much probabilities of exactly 0 and 1 are moved inwards; no others are moved.

    Attributes
    ----------
    coefficients_ : (maps, 2) a and b
    intercepts_ : (maps,) c

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> BetaCalibration(l2=1).fit(y_prob, y)
    BetaCalibration(l2=1) fitted on 8 rows: a 0.329, b 0.659, c -0.364
    """

    candidate_for_two: ClassVar[bool] = True

    def __init__(self, constraint: str = "positive", l2: float = 0.0, clip: float = 1e-4) -> None:
        self.constraint = constraint
        self.l2 = l2
        self.clip = clip

    def check_parameters(self) -> None:
        """Refuse wrong parameters."""
        parameters.one_of("constraint", self.constraint, ("positive", "none"))
        parameters.number("l2", self.l2, 0.0)
        parameters.number("clip", self.clip, 0.0, 0.5, above=True)

    def _features(self) -> Features:
        return Features("beta", float(self.clip))

    def _fit_one(self, rows: Binary) -> tuple[Any, ...]:
        return fit_curve(rows, self._features(), float(self.l2), positive=self.constraint == "positive")

    def _keeps_ranking(self) -> bool:
        if not self.is_fitted():
            return self.constraint == "positive"
        return self.n_classes_ == 2 and bool((self.coefficients_ >= 0).all())

    def _summary(self) -> str:
        if self.n_classes_ > 2:
            return f"{self.n_classes_} curves, one a class"
        (a, b), c = self.coefficients_[0], self.intercepts_[0]
        return f"a {a:.3g}, b {b:.3g}, c {c:.3g}"

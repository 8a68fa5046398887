"""Logistic curves of the score: Platt scaling and beta calibration."""

import numpy as np

from miscal.data.arrays import Floats
from miscal.data.checks import number, one_of
from miscal.export import formula as nodes
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.logistic_fit import LOGIT_CLIP, ScoreFeatures, fit_logistic
from miscal.recalibrate.parameters import parameter, state
from miscal.recalibrate.training_sample import TrainingSample


class LogisticCurve(Recalibrator):
    """Base class of logistic regressions on features of the score.

    A subclass has a parameter `on` or `clip`, which says what the features are (see `ScoreFeatures`), and may have
    `l2`, `constraint` and `towards`.

    Attributes
    ----------
    coefficients_ : (1, features) array
        Of the features.
    intercepts_ : (1,) array
        Where the features are 0.
    """

    one_vs_rest = True
    # Of subclasses without such a parameter.
    l2, constraint, towards = 0.0, "none", "zero"

    coefficients_: Floats = state("float", 1, "any")
    intercepts_: Floats = state("float", 1)

    def _fit(self, sample: TrainingSample) -> None:
        coefficients, intercept = fit_logistic(sample, self)
        self.coefficients_ = coefficients[None, :]
        self.intercepts_ = np.array([intercept])

    def _map(self, probability: Floats) -> Floats:
        features = ScoreFeatures.for_recalibrator(self)
        return features.map(probability, self.coefficients_[0], self.intercepts_[0])

    def _formula(self) -> nodes.Node:
        features = ScoreFeatures.for_recalibrator(self)
        return nodes.curve(features, self.coefficients_[0].tolist(), float(self.intercepts_[0]))

    def _keeps_ranking(self) -> bool:
        return self.constraint == "positive" or (self.is_fitted() and self.coefficients_.min() >= 0)

    def _summary(self) -> str:
        slopes = [f"{coefficient:.3g}" for coefficient in self.coefficients_[0]]
        noun = "slope" if len(slopes) == 1 else "slopes"
        return f"{noun} {', '.join(slopes)}, intercept {self.intercepts_[0]:.3g}"

    def check_state(self) -> None:
        """Reject coefficients that do not belong to the features."""
        if self.coefficients_.shape[1] != ScoreFeatures.for_recalibrator(self).count:
            raise ValueError("'coefficients_' has the wrong width")


class PlattScaling(LogisticCurve):
    """Fit a logistic curve of the score (Platt 1999).

    P = 1 / (1 + exp(-(slope x + intercept))), x = ln(p / (1 - p)) with p clipped to [1e-12, 1 - 1e-12], or x = p,
    minimising the sum of log losses + l2/2 slope². Several classes: each against the rest, rows divided by their sums.

    Keeps the ranking of binary probabilities when the fitted slope is not negative. When all scores are equal the slope
    is 1 on the logit and 0 on the probability (0 with a penalty), and the intercept meets the observed rate.
    Classes that the score separates perfectly have no finite optimum without a penalty: the fit stops where the
    loss is flat, with a warning.

    Parameters
    ----------
    on : {"logit", "probability"}, default="logit"
        What the curve is a function of. Paper 000's Platt scaling is ``on="probability", l2=1``.
    l2 : float, default=0.0
        Penalty; scikit-learn's C is 1 / l2.

    Attributes
    ----------
    coefficients_ : (1, 1) array
        The slope.
    intercepts_ : (1,) array
        The intercept.
    per_class_ : list of PlattScaling
        Of several classes: one fitted recalibrator per class.

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> PlattScaling().fit(y_prob, y)
    PlattScaling() fitted on 8 rows: slope 0.792, intercept -0.0518
    """

    candidate_classes = 2, 2

    on: str = parameter(one_of, ("logit", "probability"), default="logit")
    l2: float = parameter(number, 0.0, default=0.0)


class BetaCalibration(LogisticCurve):
    """Fit the beta family of curves (Kull, Silva Filho and Flach 2017).

    P = 1 / (1 + exp(-(a ln p - b ln(1 - p) + c))), minimising the sum of log losses + l2/2 (a² + b²). Several classes:
    each against the rest, rows divided by their sums. ``constraint="positive"`` finds the optimum with a, b >= 0 (not
    the usual refit without the negative coefficient, which can miss it) and so keeps the ranking of binary
    probabilities; ``"none"`` keeps it when both come out positive.

    With equal scores a = b = 1 (0 with a penalty) and c meets the observed rate. With two distinct scores one of the
    three parameters is free: the smallest is taken. Classes that the score separates perfectly have no finite
    optimum without a penalty: the fit stops where the loss is flat, with a warning.

    Parameters
    ----------
    constraint : {"positive", "none"}, default="positive"
        Whether a and b must not be negative.
    l2 : float, default=0.0
        Penalty; scikit-learn's C is 1 / l2. Paper 000's beta calibration is ``constraint="none", l2=1``.
    clip : float, default=1e-12
        Probabilities are clipped to [clip, 1 - clip].
    towards : {"zero", "identity"}, default="zero"
        What the penalty shrinks to: no use of the score, or the score as it is, l2/2 ((a - 1)² + (b - 1)² + c²).

    Attributes
    ----------
    coefficients_ : (1, 2) array
        a and b.
    intercepts_ : (1,) array
        c.
    per_class_ : list of BetaCalibration
        Of several classes: one fitted recalibrator per class.

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> BetaCalibration(l2=1).fit(y_prob, y)
    BetaCalibration(l2=1) fitted on 8 rows: slopes 0.329, 0.659, intercept -0.364
    """

    candidate_classes = 2, 2

    constraint: str = parameter(one_of, ("positive", "none"), default="positive")
    l2: float = parameter(number, 0.0, default=0.0)
    clip: float = parameter(number, 0.0, 0.5, above=True, default=LOGIT_CLIP)
    towards: str = parameter(one_of, ("zero", "identity"), default="zero")

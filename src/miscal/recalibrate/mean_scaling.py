"""Recalibration of means that are not probabilities: a factor, a shift, or a line."""

import numpy as np

from miscal.codes.data import Response
from miscal.data.arrays import Floats
from miscal.data.checks import number, one_of
from miscal.data.errors import refusal
from miscal.export import formula as nodes
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.certain_scores import HALF_EVENT
from miscal.recalibrate.newton import Derivatives, newton_minimise
from miscal.recalibrate.outcome_families import clipped_exp
from miscal.recalibrate.parameters import parameter, state
from miscal.recalibrate.training_sample import TrainingSample, weight_of_one_row

MEAN_FORMS = ("auto", "factor", "shift", "linear", "power")
#: Largest absolute power of a mean.
MAX_MEAN_POWER = 20.0


class MeanScaling(Recalibrator):
    """Multiply predicted means by a factor, add a shift, or draw a line through them (or through their logarithms).

    "factor": mean = c m with c = observed / predicted, both summed (actual / expected). "shift": m + a. "linear":
    a + b m by least squares. "power": exp(a + b ln m), by Poisson's likelihood, m clipped to the least positive one of
    fit: whether high predictions are too high and low ones too low. Counts and rates take a factor or a power, which
    stay above 0; "auto" is a factor where no prediction is below 0 (and not all are 0), else a shift. Keeps the ranking
    where the slope is not negative. Counts of which none was observed are given half an event.

    Only for `response` "real" and "count": probabilities have `PlattScaling`.

    Parameters
    ----------
    form : {"auto", "factor", "shift", "linear", "power"}, default="auto"
        The curve.
    prior : float, default=0.0
        Of a factor and a shift: how many expected events (of real numbers: how many rows) say that predictions are
        right.

    Attributes
    ----------
    slope_ : float
        Of the line through the means (or, "power", through their logarithms).
    intercept_ : float
        Of the same line.
    low_ : float
        What predictions are clipped to before their logarithm.

    Examples
    --------
    >>> fitted = MeanScaling().fit([0.1, 0.2, 0.3], [0, 1, 2], response="count", exposure=[1, 2, 2])
    >>> fitted
    MeanScaling() fitted on 3 rows: factor 2.73
    >>> fitted.predict([0.1]).round(3)
    array([0.273])
    """

    responses = (Response.REAL, Response.COUNT)

    form: str = parameter(one_of, MEAN_FORMS, default="auto")
    prior: float = parameter(number, 0.0, default=0.0)
    slope_: float = state("float")
    intercept_: float = state("float")
    low_: float = state("float", low=0.0)

    def _fit(self, sample: TrainingSample) -> None:
        positive = sample.probability[sample.probability > 0]
        self.low_ = float(positive.min()) if positive.size else 1.0
        fits = {"factor": self._factor, "shift": self._shift, "linear": self._linear, "power": self._power}
        self.intercept_, self.slope_ = map(float, fits[self._checked_form(sample)](sample))

    def _checked_form(self, sample: TrainingSample) -> str:
        """The form for these rows; rejects one that the outcome rules out."""
        mean, form, is_count = sample.probability, self.form, sample.response == Response.COUNT
        if form == "auto":
            form = "factor" if mean.min() >= 0 and (mean.max() > 0 or is_count) else "shift"
        if is_count and form in ("shift", "linear"):
            got, hint = f"'form' is {form!r}", "use 'factor' or 'power'"
            raise refusal("must stay above 0", "the mean of a count", got=got, hint=hint)
        if form in ("factor", "power") and (mean.min() < 0 or (form == "power" and sample.outcome.min() < 0)):
            requirement, where = f"must be at least 0 for a {form}", "predictions and outcomes"
            raise refusal(requirement, where, got="some are below 0", hint="use 'shift' or 'linear'")
        return form

    def _factor(self, sample: TrainingSample) -> tuple[float, float]:
        """Intercept and slope of a factor: observed over predicted, `prior` added to both."""
        observed = float(sample.weights @ sample.outcome)
        predicted = float(sample.weights @ sample.probability)
        if predicted <= 0.0:
            return 0.0, 1.0
        prior = self.prior
        if sample.response == Response.COUNT:
            observed = max(observed, HALF_EVENT)
        else:
            prior *= predicted / _effective_rows(sample)
        return 0.0, (observed + prior) / (predicted + prior)

    def _shift(self, sample: TrainingSample) -> tuple[float, float]:
        """Intercept and slope of a shift, shrunk by `prior` rows."""
        residual = np.average(sample.outcome - sample.probability, weights=sample.weight)
        rows = _effective_rows(sample)
        return residual * rows / (rows + self.prior), 1.0

    def _linear(self, sample: TrainingSample) -> tuple[float, float]:
        """Intercept and slope by least squares; with equal predictions a shift."""
        mean, outcome = sample.probability, sample.outcome
        (variance, covariance), _ = np.cov(mean, outcome, bias=True, aweights=sample.weight)
        slope = covariance / variance if variance > 0.0 else 1.0
        return np.average(outcome - slope * mean, weights=sample.weight), slope

    def _power(self, sample: TrainingSample) -> tuple[float, float]:
        """By Newton's method from a factor alone; where one prediction has all the weight the factor stays."""
        factor, clipped = self._factor(sample)[1], np.maximum(sample.probability, self.low_)
        log, weighted_outcome = np.log(clipped), sample.weights * sample.outcome
        centre = np.average(log, weights=sample.weights * clipped)
        features = np.stack([np.ones(sample.rows), log - centre])

        def evaluate(line: Floats) -> Derivatives:
            expected = sample.weights * clipped_exp(line @ features)
            loss = expected.sum() - weighted_outcome @ (line @ features)
            return loss, features @ (expected - weighted_outcome), (features * expected) @ features.T

        start = np.array([np.log(max(factor, 1e-300)) + centre, 1.0])
        line, _ = newton_minimise(evaluate, start, factor * sample.total)
        slope = np.clip(line[1], -MAX_MEAN_POWER, MAX_MEAN_POWER)
        return line[0] - slope * centre, slope

    def _map(self, probability: Floats) -> Floats:
        if self.form != "power":
            return self.intercept_ + self.slope_ * probability
        log = np.log(np.maximum(probability, self.low_))
        return clipped_exp(self.intercept_ + self.slope_ * log)

    def _formula(self) -> nodes.Formula:
        if self.form != "power":
            return nodes.Linear(((self.slope_, nodes.PROBABILITY),), self.intercept_)
        return nodes.exp(nodes.Linear(((self.slope_, nodes.log_above(self.low_)),), self.intercept_))

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and self.slope_ >= 0.0

    @classmethod
    def _candidates(cls, sample: TrainingSample) -> dict[str, Recalibrator]:
        forms = ("power",) if sample.response == Response.COUNT else ("linear", "power")
        return {cls.__name__: cls(), **{f"{cls.__name__}({form})": cls(form) for form in forms}}

    def _summary(self) -> str:
        if self.form == "power":
            return f"exp({self.intercept_:.3g} + {self.slope_:.3g} ln m)"
        if self.intercept_ == 0.0:
            return f"factor {self.slope_:.3g}"
        if self.slope_ == 1.0:
            return f"shift {self.intercept_:.3g}"
        return f"{self.intercept_:.3g} + {self.slope_:.3g} m"


def _effective_rows(sample: TrainingSample) -> float:
    """How many rows, one of weight 2 counting as two."""
    return sample.total / weight_of_one_row(sample.total, sample.rows)

"""Curves of the score: the identity, Platt, beta, temperature and kernel calibration; of means a factor or a line."""

import numpy as np

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
MAX_MEAN_POWER = 20.0  # |power| of a mean at most


class MeanScaling(Recalibrator):
    """Multiply predicted means by a factor, add a shift, or draw a line through them (or through their logarithms).

    "factor": mean = c m with c = observed / predicted, both summed (actual / expected). "shift": m + a. "linear":
    a + b m by least squares. "power": exp(a + b ln m), by Poisson's likelihood, m held at the least positive one seen:
    whether high predictions are too high and low ones too low. Counts and rates take a factor or a power, which stay
    above 0; "auto" is a factor where no prediction is below 0 (and not all are 0), else a shift. Keeps the ranking
    where the slope is not negative. Counts of which none was observed are given half an event.

    Only for `response` "real" and "count": probabilities have `PlattScaling`.

    Parameters
    ----------
    form : {"auto", "factor", "shift", "linear", "power"}
    prior : float
        Of a factor and a shift: how many expected events (of real numbers: how many rows) say that nothing is wrong.

    Attributes
    ----------
    slope_, intercept_ : floats, of the line through the means (or, "power", through their logarithms)
    low_ : float, what predictions are held at before their logarithm

    Examples
    --------
    >>> fitted = MeanScaling().fit([0.1, 0.2, 0.3], [0, 1, 2], response="count", exposure=[1, 2, 2])
    >>> fitted
    MeanScaling() fitted on 3 rows: factor 2.73
    >>> fitted.predict([0.1]).round(3)
    array([0.273])
    """

    responses = ("real", "count")

    form: str = parameter(one_of, MEAN_FORMS, default="auto")
    prior: float = parameter(number, 0.0, default=0.0)
    slope_: float = state("float")
    intercept_: float = state("float")
    low_: float = state("float", low=0.0)

    def _fit(self, sample: TrainingSample) -> None:
        mean, outcome = sample.probability, sample.outcome
        above = mean[mean > 0]
        self.low_ = float(above.min()) if above.size else 1.0
        form = self.form
        if form == "auto":
            form = "factor" if mean.min() >= 0 and (mean.max() > 0 or sample.response == "count") else "shift"
        if sample.response == "count" and form in ("shift", "linear"):
            got, hint = f"'form' is {form!r}", "use 'factor' or 'power'"
            raise refusal("must stay above 0", "the mean of a count", got=got, hint=hint)
        if form in ("factor", "power") and (mean.min() < 0 or (form == "power" and outcome.min() < 0)):
            what, where = f"must be at least 0 for a {form}", "predictions and outcomes"
            raise refusal(what, where, got="some are below 0", hint="use 'shift' or 'linear'")
        self.intercept_, self.slope_ = map(float, getattr(self, f"_{form}")(sample))

    def _factor(self, sample: TrainingSample) -> tuple[float, float]:
        """Observed over predicted, with as much of both added as `prior` says."""
        observed, expected = (float(sample.weights @ each) for each in (sample.outcome, sample.probability))
        if expected <= 0.0:
            return 0.0, 1.0
        more = self.prior
        if sample.response == "count":
            observed = max(observed, HALF_EVENT)
        else:
            more *= expected / _effective_rows(sample)
        return 0.0, (observed + more) / (expected + more)

    def _shift(self, sample: TrainingSample) -> tuple[float, float]:
        off = np.average(sample.outcome - sample.probability, weights=sample.weight)
        return off * _effective_rows(sample) / (_effective_rows(sample) + self.prior), 1.0

    def _linear(self, sample: TrainingSample) -> tuple[float, float]:
        """Least squares; with equal predictions a shift."""
        mean, outcome = sample.probability, sample.outcome
        (spread, both), _ = np.cov(mean, outcome, bias=True, aweights=sample.weight)
        slope = both / spread if spread > 0.0 else 1.0
        return np.average(outcome - slope * mean, weights=sample.weight), slope

    def _power(self, sample: TrainingSample) -> tuple[float, float]:
        """By Newton's method from a factor alone; where one prediction has all the weight the factor stays."""
        factor, held = self._factor(sample)[1], np.maximum(sample.probability, self.low_)
        log, happened = np.log(held), sample.weights * sample.outcome
        centre = np.average(log, weights=sample.weights * held)
        features = np.stack([np.ones(sample.rows), log - centre])

        def evaluate(line: Floats) -> Derivatives:
            expected = sample.weights * clipped_exp(line @ features)
            loss = expected.sum() - happened @ (line @ features)
            return loss, features @ (expected - happened), (features * expected) @ features.T

        start = np.array([np.log(max(factor, 1e-300)) + centre, 1.0])
        line, _ = newton_minimise(evaluate, start, factor * sample.total)
        slope = np.clip(line[1], -MAX_MEAN_POWER, MAX_MEAN_POWER)
        return line[0] - slope * centre, slope

    def _map(self, probability: Floats) -> Floats:
        if self.form != "power":
            return self.intercept_ + self.slope_ * probability
        held = np.log(np.maximum(probability, self.low_))
        return clipped_exp(self.intercept_ + self.slope_ * held)

    def _formula(self) -> nodes.Formula:
        if self.form != "power":
            return nodes.Linear(((self.slope_, nodes.PROBABILITY),), self.intercept_)
        return nodes.exp(nodes.Linear(((self.slope_, nodes.log_above(self.low_)),), self.intercept_))

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and self.slope_ >= 0.0

    @classmethod
    def _candidates(cls, sample: TrainingSample) -> dict[str, Recalibrator]:
        forms = ("power",) if sample.response == "count" else ("linear", "power")
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
    """How many rows, one of weight 2 being two."""
    return sample.total / weight_of_one_row(sample.total, sample.rows)

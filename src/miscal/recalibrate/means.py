"""One factor, one shift, or a line, for predicted means that are not probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from miscal.data.checks import number, one_of
from miscal.data.columns import Column
from miscal.data.errors import refusal
from miscal.recalibrate.base import Floats, Recalibrator, pairs
from miscal.recalibrate.certain import HALF, unit_of
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.families import exp_held
from miscal.recalibrate.parameters import parameter
from miscal.recalibrate.sample import Sample
from miscal.recalibrate.state import state

FORMS = ("auto", "factor", "shift", "linear", "power")
STEEPEST = 20.0  # |power| at most


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

    responses: ClassVar[tuple[str, ...]] = ("real", "count")

    form: str = parameter(one_of, FORMS, default="auto")
    prior: float = parameter(number, 0.0, default=0.0)
    slope_: float = state("float")
    intercept_: float = state("float")
    low_: float = state("float", low=0.0)

    def _fit(self, sample: Sample) -> None:
        mean, outcome, weight = sample.probability, sample.outcome, sample.weights
        self.low_ = float(mean[mean > 0].min(initial=np.inf)) if (mean > 0).any() else 1.0
        form = self.form
        if form == "auto":
            form = "factor" if mean.min() >= 0 and (mean.max() > 0 or sample.response == "count") else "shift"
        if sample.response == "count" and form in ("shift", "linear"):
            got, hint = f"'form' is {form!r}", "use 'factor' or 'power'"
            raise refusal("must stay above 0", where="the mean of a count", got=got, hint=hint)
        if form in ("factor", "power") and (mean.min() < 0 or (form == "power" and outcome.min() < 0)):
            got, hint = "some are below 0", "use 'shift' or 'linear'"
            raise refusal(f"must be at least 0 for a {form}", where="predictions and outcomes", got=got, hint=hint)
        fit = {"factor": self._factor, "shift": self._shift, "linear": _line, "power": self._power}[form]
        self.intercept_, self.slope_ = fit(mean, outcome, weight, sample)

    def _factor(self, mean: Floats, outcome: Floats, weight: Floats, sample: Sample) -> tuple[float, float]:
        """Observed over predicted, with as much of both added as `prior` says."""
        observed, expected = float(weight @ outcome), float(weight @ mean)
        if expected <= 0.0:
            return 0.0, 1.0
        if sample.response == "count":
            observed, more = max(observed, HALF), float(self.prior)
        else:
            more = float(self.prior) * expected / _rows(sample)
        return 0.0, (observed + more) / (expected + more)

    def _shift(self, mean: Floats, outcome: Floats, weight: Floats, sample: Sample) -> tuple[float, float]:
        share = _rows(sample) / (_rows(sample) + float(self.prior))
        return share * float(weight @ (outcome - mean)) / sample.total, 1.0

    def _power(self, mean: Floats, outcome: Floats, weight: Floats, sample: Sample) -> tuple[float, float]:
        """By Newton's method from a factor alone; where one prediction has all the weight the factor stays."""
        factor = self._factor(mean, outcome, weight, sample)[1]
        log = np.log(np.maximum(mean, self.low_))
        centre = float(np.average(log, weights=weight * np.maximum(mean, self.low_)))
        off, line = log - centre, np.array([np.log(max(factor, 1e-300)) + centre, 1.0])
        for _ in range(50):
            expected = weight * exp_held(line[0] + line[1] * off)
            slope = np.array([np.sum(weight * outcome - expected), off @ (weight * outcome - expected)])
            bend = np.array([[expected.sum(), off @ expected], [off @ expected, (off * off) @ expected]])
            if np.linalg.det(bend) <= 1e-12 * bend[0, 0] ** 2:
                break
            step = np.linalg.solve(bend, slope)
            line += step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-300))
            line[1] = np.clip(line[1], -STEEPEST, STEEPEST)
            if np.abs(step).max() < 1e-12:
                break
        return float(line[0] - line[1] * centre), float(line[1])

    def _map(self, probability: Floats) -> Floats:
        if self.form != "power":
            return pairs(self.intercept_ + self.slope_ * probability)
        held = np.log(np.maximum(probability, self.low_))
        return pairs(exp_held(self.intercept_ + self.slope_ * held))

    def _formula(self) -> nodes.Formula:
        if self.form != "power":
            return nodes.Linear(((self.slope_, nodes.Probability()),), self.intercept_)
        held = nodes.Log(nodes.Held(nodes.Probability(), self.low_, nodes.LARGEST))
        return nodes.Exp(nodes.Linear(((self.slope_, held),), self.intercept_))

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and self.slope_ >= 0.0

    @classmethod
    def _mean_candidates(cls, response: str, columns: Mapping[str, Column]) -> dict[str, Recalibrator]:  # noqa: ARG003
        forms = ("auto", "power") if response == "count" else ("auto", "linear", "power")
        return {cls.__name__ if form == "auto" else f"{cls.__name__}({form})": cls(form) for form in forms}

    def _summary(self) -> str:
        if self.form == "power":
            return f"exp({self.intercept_:.3g} + {self.slope_:.3g} ln m)"
        if self.intercept_ == 0.0:
            return f"factor {self.slope_:.3g}"
        return f"shift {self.intercept_:.3g}" if self.slope_ == 1.0 else f"{self.intercept_:.3g} + {self.slope_:.3g} m"


def _rows(sample: Sample) -> float:
    """How many rows, one of weight 2 being two."""
    return sample.total / unit_of(sample.total, sample.rows)


def _line(mean: Floats, outcome: Floats, weight: Floats, sample: Sample) -> tuple[float, float]:
    """Least squares; with equal predictions a shift."""
    centre, level = float(weight @ mean) / sample.total, float(weight @ outcome) / sample.total
    off = mean - centre
    spread = float(weight @ (off * off))
    slope = float(weight @ (off * (outcome - level))) / spread if spread > 0.0 else 1.0
    return level - slope * centre, slope

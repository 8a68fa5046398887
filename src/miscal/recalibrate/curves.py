"""Curves of the score: the identity, Platt, beta, temperature and kernel calibration; of means a factor or a line."""

import numpy as np

from miscal.data.arrays import Floats
from miscal.data.checks import number, one_of
from miscal.data.errors import refusal
from miscal.data.libraries import optimize
from miscal.data.responses import RESPONSES
from miscal.export import formula as nodes
from miscal.kernels.neighbours import laplacian_energy
from miscal.recalibrate.base import Recalibrator, as_rows, pairs
from miscal.recalibrate.logistic import LOGIT_CLIP, Features, State, fit_curve, minimise
from miscal.recalibrate.parameters import parameter, state
from miscal.recalibrate.sample import HALF, Sample, exp_held, unit_of, warmed
from miscal.recalibrate.softmax import HIGHEST, LOWEST, fitted_power, powered, powers

BANDWIDTH = 0.2  # of the kernel, as in Kumar, Sarawagi and Jain
FORMS = ("auto", "factor", "shift", "linear", "power")
STEEPEST_POWER = 20.0  # |power| of a mean at most
# Of the slope, against the mean loss: classes that are separated get a finite curve to start from.
RIDGE = 2e-9
SIMPLEX = {"xatol": 1e-6, "fatol": 1e-10, "maxiter": 400}


class Identity(Recalibrator):
    """Leave probabilities as they are (keeps the ranking).

    Rows of several classes that do not sum to 1 (they may be off by 1e-4) are divided by their sum.

    Examples
    --------
    >>> Identity().fit([0.2, 0.7], [0, 1]).predict_proba([0.25])
    array([[0.75, 0.25]])
    """

    always_rises = True
    pulls_in = False
    responses = RESPONSES

    def _map(self, probability: Floats) -> Floats:
        return as_rows(probability)

    def _formula(self) -> nodes.Formula:
        return nodes.untouched(self.n_classes_)


class SamplingCorrection(Recalibrator):
    """Correct probabilities of a model trained with a known share of the negatives (He et al. 2014).

    P = p / (p + (1 - p) / rate): nothing is learned from the rows, so apply it before anything that is. Keeps the
    ranking. Two classes only.

    Parameters
    ----------
    rate : share of the negatives that was kept, in (0, 1]

    Examples
    --------
    >>> SamplingCorrection(rate=0.1).fit([0.5, 0.2], [1, 0]).predict_proba([0.5])[:, 1].round(6)
    array([0.090909])
    """

    always_rises = True
    two_classes_only = True
    pulls_in = False

    rate: float = parameter(number, 0.0, 1.0, above=True, default=1.0)

    def _map(self, probability: Floats) -> Floats:
        # Divided through by p where p is large, so that p = 1 stays 1 and p = 0 stays 0 exactly.
        return probability / (probability + (1.0 - probability) / self.rate)

    def _formula(self) -> nodes.Formula:
        each = 1.0 / self.rate  # 1 - each is exact, and so is what 0 and 1 become
        return nodes.BinaryOp(nodes.PROBABILITY, "/", nodes.Linear(((1.0 - each, nodes.PROBABILITY),), each))


class Curve(Recalibrator):
    """A logistic regression on features of the score."""

    against_rest = True
    l2, constraint, towards = 0.0, "none", "zero"  # of those without such a parameter

    coefficients_: Floats = state("float", 1, "any")
    intercepts_: Floats = state("float", 1)

    def _fit(self, sample: Sample) -> None:
        coefficients, intercept = fit_curve(sample, self)
        self.coefficients_ = coefficients[None, :]
        self.intercepts_ = np.array([intercept])

    def _map(self, probability: Floats) -> Floats:
        return Features.of(self).map(probability, self.coefficients_[0], self.intercepts_[0])

    def _formula(self) -> nodes.Node:
        return nodes.curve(Features.of(self), self.coefficients_[0].tolist(), float(self.intercepts_[0]))

    def _keeps_ranking(self) -> bool:
        return self.constraint == "positive" or (self.is_fitted() and self.coefficients_.min() >= 0)

    def _summary(self) -> str:
        found = [f"{each:.3g}" for each in self.coefficients_[0]]
        what = "slope" if len(found) == 1 else "slopes"
        return f"{what} {', '.join(found)}, intercept {self.intercepts_[0]:.3g}"

    def check_state(self) -> None:
        """Refuse coefficients that do not belong to the features."""
        if self.coefficients_.shape[1] != Features.of(self).count:
            raise ValueError("'coefficients_' has the wrong width")


class PlattScaling(Curve):
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
    coefficients_, intercepts_ : (1, 1) slope and (1,)
    each_ : of several classes, list of fitted recalibrators, one a class

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> PlattScaling().fit(y_prob, y)
    PlattScaling() fitted on 8 rows: slope 0.792, intercept -0.0518
    """

    candidate_for = 2, 2

    on: str = parameter(one_of, ("logit", "probability"), default="logit")
    l2: float = parameter(number, 0.0, default=0.0)


class BetaCalibration(Curve):
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
    constraint : {"positive", "none"}
    l2 : float
        Penalty; scikit-learn's C is 1 / l2. Paper 000's beta calibration is ``constraint="none", l2=1``.
    clip : float
        Probabilities are held within [clip, 1 - clip], 1e-12 unless said: one nearer to 0 or 1 counts as that.
    towards : {"zero", "identity"}
        What the penalty draws to: no use of the score, or the score as it is: l2/2 ((a - 1)² + (b - 1)² + c²).

    Attributes
    ----------
    coefficients_, intercepts_ : (1, 2) a and b, and (1,) c
    each_ : of several classes, list of fitted recalibrators, one a class

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> BetaCalibration(l2=1).fit(y_prob, y)
    BetaCalibration(l2=1) fitted on 8 rows: slopes 0.329, 0.659, intercept -0.364
    """

    candidate_for = 2, 2

    constraint: str = parameter(one_of, ("positive", "none"), default="positive")
    l2: float = parameter(number, 0.0, default=0.0)
    clip: float = parameter(number, 0.0, 0.5, above=True, default=LOGIT_CLIP)
    towards: str = parameter(one_of, ("zero", "identity"), default="zero")


class KernelCalibration(Recalibrator):
    r"""Scale the score so that log loss plus a multiple of the kernel calibration error is least (MMCE).

    .. math:: \frac1W \sum_i w_i \ell_i + \lambda \Big(\frac1{W^2} \sum_{i,j} w_i w_j (r_i - c_i)(r_j - c_j)\,
        e^{-|r_i - r_j|/0.2}\Big)^{1/2}

    with r the confidence after scaling and c whether it was right (Kumar, Sarawagi and Jain 2018). The double sum costs
    one sort and one sweep. "temperature": one temperature (several classes: of the most probable one). "platt": slope
    and intercept of the logit, several classes each against the rest; r is then P(class) and c whether it happened.

    Keeps the ranking with a temperature, and with "platt" when binary and the slope is not negative.

    Parameters
    ----------
    base : {"temperature", "platt"}
    weight : float, at least 0
        Of the kernel error; 0 is the log loss alone.

    Attributes
    ----------
    coefficients_ : (1, 2) slope (1 / temperature) and intercept
    each_ : of several classes and "platt", list of fitted recalibrators, one a class

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> KernelCalibration().fit(y_prob, y).predict_proba([0.9])[:, 1].round(2)
    array([0.82])
    """

    base: str = parameter(one_of, ("temperature", "platt"), default="temperature")
    weight: float = parameter(number, 0.0, default=1.0)
    coefficients_: Floats = state("float", 1, 2)

    @property
    def against_rest(self) -> bool:  # type: ignore[override]
        """Whether each class has a map of its own."""
        return self.base == "platt"

    def _fit(self, sample: Sample) -> None:
        """From the log loss's own optimum on, without derivatives (the error is a root)."""
        p, weight = sample.probability, sample.weights
        if self.against_rest:
            found = np.append(*fit_curve(sample, PlattScaling(l2=RIDGE * sample.total)))
            bounds = [(-1e6, 1e6)] * 2
            label = np.ones(sample.rows, np.intp)
        else:
            bounds = [(LOWEST, HIGHEST)]
            found = np.clip(warmed(sample, fitted_power, np.ones(1))[0], *bounds[0])
            label = pairs(p).argmax(axis=1)  # the most probable class
        observed = sample.outcome == label

        def objective(theta: Floats) -> float:
            scaled = powered(p, *theta.tolist())
            loss = weight @ sample.losses(scaled) / sample.total
            score = scaled[np.arange(sample.rows), label]
            energy = laplacian_energy(score, weight * (score - observed), BANDWIDTH)
            return float(loss + self.weight * (np.sqrt(max(energy, 0.0)) / sample.total))

        if self.weight:
            found = optimize.minimize(
                objective, found, method="Nelder-Mead", bounds=bounds, options=SIMPLEX
            ).x
        self.coefficients_ = np.array([[*found, 0.0][:2]])

    def _map(self, probability: Floats) -> Floats:
        return powered(probability, *self.coefficients_[0].tolist())

    def _keeps_ranking(self) -> bool:
        return not self.against_rest or (self.is_fitted() and self.coefficients_[0, 0] >= 0)

    def _formula(self) -> nodes.Formula:
        return powers(self.n_classes_, *self.coefficients_[0].tolist())


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

    form: str = parameter(one_of, FORMS, default="auto")
    prior: float = parameter(number, 0.0, default=0.0)
    slope_: float = state("float")
    intercept_: float = state("float")
    low_: float = state("float", low=0.0)

    def _fit(self, sample: Sample) -> None:
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

    def _factor(self, sample: Sample) -> tuple[float, float]:
        """Observed over predicted, with as much of both added as `prior` says."""
        observed, expected = (float(sample.weights @ each) for each in (sample.outcome, sample.probability))
        if expected <= 0.0:
            return 0.0, 1.0
        more = self.prior
        if sample.response == "count":
            observed = max(observed, HALF)
        else:
            more *= expected / _rows(sample)
        return 0.0, (observed + more) / (expected + more)

    def _shift(self, sample: Sample) -> tuple[float, float]:
        off = np.average(sample.outcome - sample.probability, weights=sample.weight)
        return off * _rows(sample) / (_rows(sample) + self.prior), 1.0

    def _linear(self, sample: Sample) -> tuple[float, float]:
        """Least squares; with equal predictions a shift."""
        mean, outcome = sample.probability, sample.outcome
        (spread, both), _ = np.cov(mean, outcome, bias=True, aweights=sample.weight)
        slope = both / spread if spread > 0.0 else 1.0
        return np.average(outcome - slope * mean, weights=sample.weight), slope

    def _power(self, sample: Sample) -> tuple[float, float]:
        """By Newton's method from a factor alone; where one prediction has all the weight the factor stays."""
        factor, held = self._factor(sample)[1], np.maximum(sample.probability, self.low_)
        log, happened = np.log(held), sample.weights * sample.outcome
        centre = np.average(log, weights=sample.weights * held)
        features = np.stack([np.ones(sample.rows), log - centre])

        def evaluate(line: Floats) -> State:
            expected = sample.weights * exp_held(line @ features)
            loss = expected.sum() - happened @ (line @ features)
            return loss, features @ (expected - happened), (features * expected) @ features.T

        start = np.array([np.log(max(factor, 1e-300)) + centre, 1.0])
        line, _ = minimise(evaluate, start, factor * sample.total)
        slope = np.clip(line[1], -STEEPEST_POWER, STEEPEST_POWER)
        return line[0] - slope * centre, slope

    def _map(self, probability: Floats) -> Floats:
        if self.form != "power":
            return self.intercept_ + self.slope_ * probability
        held = np.log(np.maximum(probability, self.low_))
        return exp_held(self.intercept_ + self.slope_ * held)

    def _formula(self) -> nodes.Formula:
        if self.form != "power":
            return nodes.Linear(((self.slope_, nodes.PROBABILITY),), self.intercept_)
        return nodes.exp(nodes.Linear(((self.slope_, nodes.log_above(self.low_)),), self.intercept_))

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and self.slope_ >= 0.0

    @classmethod
    def _candidates(cls, sample: Sample) -> dict[str, Recalibrator]:
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


def _rows(sample: Sample) -> float:
    """How many rows, one of weight 2 being two."""
    return sample.total / unit_of(sample.total, sample.rows)

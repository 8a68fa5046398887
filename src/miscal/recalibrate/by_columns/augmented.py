"""The score among other columns: logistic and beta calibration (paper 000, appendix C), any classifier (paper 004).

Columns enter a regression as powers of numbers and indicators of levels and of missing values. Features are made in
blocks of rows, one feature a row of the block, used and forgotten.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # scikit-learn needs it too

from miscal.cells.coding import Encoding
from miscal.data.arrays import Array, Floats, Plain, sigmoid
from miscal.data.checks import number, one_of, truth, whole
from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.data.responses import RESPONSES
from miscal.export import formula as nodes
from miscal.kernels.threads import over_blocks
from miscal.recalibrate.base import ByColumns, Recalibrator, as_rows, normalised
from miscal.recalibrate.logistic import LOGIT_CLIP, Features, LogisticFit, State, residuals
from miscal.recalibrate.parameters import check_chosen, chosen_columns, parameter, state, such
from miscal.recalibrate.sample import Sample

CELLS = 1 << 18  # numbers in a block
MOST_FEATURES = 2000
threads_of_blas = cache(ThreadpoolController)  # looking for libraries takes milliseconds
MOST_LEVELS = 50  # of a category that a candidate has coefficients for


@dataclass(frozen=True)
class Design:
    """What each column contributes; all levels but the commonest have an indicator, missing among them."""

    encodings: list[Encoding]
    degree: int

    @classmethod
    def learned(cls, sample: Sample, chosen: Any, degree: int, *, raw: bool) -> "Design":
        """Look at the columns of the rows to fit on; unless `raw`, powers are those of standardised numbers."""
        made = []
        for column in chosen_columns(sample.columns, chosen):
            each = Encoding.learned(column, sample.weight, standard=not raw)
            known = len(each.levels) - each.missing
            if known > 0:
                mass = np.bincount(each.read(sample.columns), sample.weight)
                del each.levels[np.argmax(mass[:known])]  # the commonest
            made.append(each)
        return cls(made, degree)

    @property
    def widths(self) -> list[int]:
        """How many features each column gives."""
        return [len(each.levels) if each.nominal else self.degree + each.missing for each in self.encodings]

    @property
    def width(self) -> int:
        """How many features all columns give."""
        return sum(self.widths)

    @property
    def most(self) -> float:
        """What numbers are held at: their powers, the products of these and sums stay finite."""
        return float(10.0 ** (99.0 / self.degree))

    @property
    def block(self) -> int:
        """Rows in a block."""
        return max(256, min(8192, CELLS // (self.width + 3)))

    def ready(self, columns: Columns) -> list[Array]:
        """Each column as numbers (NaN missing) or as places among its levels (-1 commonest or unseen)."""
        return [each.read(columns) for each in self.encodings]

    def rows(self, ready: list[Array], start: int, stop: int) -> Floats:
        """Features of some rows, (width, rows)."""
        out = np.zeros((self.width, stop - start))
        for each, column, into in zip(self.encodings, ready, self.split(out), strict=True):
            part = column[start:stop]
            if each.nominal:
                marked = np.flatnonzero(part >= 0)
                into[part[marked], marked] = 1.0
                continue
            scaled, absent = each.scaled(part)
            np.clip(scaled, -self.most, self.most, out=into[0])
            for power in range(1, self.degree):
                np.multiply(into[power - 1], into[0], out=into[power])
            if each.missing:
                into[-1] = absent
        return out

    def split(self, features: Floats) -> list[Floats]:
        """The part of each column in what has an entry a feature."""
        return np.split(features, np.cumsum(self.widths)[:-1])


class DesignFit(LogisticFit):
    """One logistic regression on features of a score and of columns, all centred and scaled."""

    def __init__(self, rows: Sample, how: "_Augmented", design: Design) -> None:
        super().__init__(rows, how)
        self.design = design
        self.ready = design.ready(rows.columns)
        own = self.features.count
        self.warm = False  # the columns are those of all rows
        self.centre = np.append(self.centre, design.rows(self.ready, 0, 1)[:, 0])
        scale = np.zeros(own) if self.constant else self.scale
        self.scale = np.append(scale, np.ones(design.width))
        # With all coefficients 0 each row counts for a quarter of its weight in the Hessian: it holds the moments.
        moments = 4.0 * self.evaluate(rows, np.zeros(len(self.centre) + 1))[2] / rows.total
        mean = moments[0, own + 1 :]
        centre = self.centre[own:]
        centre += mean
        variance = np.diag(moments)[own + 1 :] - mean * mean
        moving = variance > 1e-24 * (1.0 + centre**2)
        self.scale[own:] = moving / np.sqrt(np.where(moving, variance, 1.0))

    def evaluate(self, rows: Sample, theta: Floats) -> State:
        """Sum of log losses, its gradient and Hessian."""
        weights = rows.weights

        def work(start: int, stop: int) -> State:
            score = self.features.rows(rows.probability[start:stop])
            beside = self.design.rows(self.ready, start, stop)
            whole = np.concatenate([np.ones((1, stop - start)), score, beside])
            whole[1:] -= self.centre[:, None]
            whole[1:] *= self.scale[:, None]
            weight = weights[start:stop]
            loss, off, bend = residuals(theta @ whole, rows.outcome[start:stop], weight)
            return float(weight @ loss), whole @ off, (whole * bend) @ whole.T

        loss, gradient, hessian = zip(*over_blocks(rows.rows, work, self.design.block), strict=True)
        return sum(loss), np.sum(gradient, axis=0), np.sum(hessian, axis=0)


class _Augmented(ByColumns):
    """A logistic regression on features of the score and on columns."""

    against_rest = True
    tried: ClassVar[Plain]  # with what parameters it is a candidate
    l2, constraint, towards = 0.0, "none", "zero"  # of those without such a parameter

    columns: Any = parameter(check_chosen, default=None)
    degree: int = parameter(whole, 1, 10, default=1)
    nominal_: Array = state("bool", "any")
    means_: Floats = state("float", "any", low=-np.inf, high=np.inf)
    spreads_: Floats = state("float", "any", low=1e-300, high=np.inf)
    missing_: Array = state("bool", "any")
    centres_: Floats = state("float", "any")
    coefficients_: Floats = state("float", 1, "any")
    intercepts_: Floats = state("float", 1)

    def check_state(self) -> None:
        """Refuse parts that do not belong together."""
        super().check_state()
        width = self._design().width
        if len(self.centres_) != width or self.coefficients_.shape[1] != width + Features.of(self).count:
            raise ValueError("the coefficients do not belong to the columns")

    def _fit(self, sample: Sample) -> None:
        design = Design.learned(sample, self.columns, self.degree, raw=self.l2 > 0)
        if design.width > MOST_FEATURES:
            hint, got = "use VariableTree or GroupWise for columns of many levels", f"{design.width:,}"
            raise refusal(f"must give at most {MOST_FEATURES:,} features", "'X'", got=got, hint=hint)
        self._remember(design.encodings)
        fit = DesignFit(sample, self, design)
        # A fit of 50 columns takes a tenth of the time.
        with threads_of_blas().limit(limits=1, user_api="blas"):
            coefficients, intercept = fit.best()
        self.centres_ = fit.centre[fit.features.count :]
        self.coefficients_ = coefficients[None, :]
        self.intercepts_ = np.array([intercept])

    def _design(self) -> Design:
        return Design(self._encodings(standard=not self.l2), self.degree)

    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        design, features = self._design(), Features.of(self)
        own, beta = np.split(self.coefficients_[0], [features.count])
        ready = design.ready(columns)
        out = np.empty(len(probability))
        for start in range(0, len(probability), design.block):
            stop = min(start + design.block, len(out))
            beside = design.rows(ready, start, stop) - self.centres_[:, None]
            score = features.rows(probability[start:stop])
            out[start:stop] = sigmoid(beta @ beside + self.intercepts_[0] + own @ score)
        return out

    def _formula(self) -> nodes.Formula:
        design, features = self._design(), Features.of(self)
        own, beta = np.split(self.coefficients_[0], [features.count])
        parts: list[nodes.Node] = []
        for each, part in zip(design.encodings, map(np.ndarray.tolist, design.split(beta)), strict=True):
            if each.nominal:
                parts.append(nodes.level_of(each, dict(enumerate(part)), 0.0))
                continue
            number: nodes.Node = nodes.Number(each.name, -design.most, design.most, each.mean)
            if each.standard:
                number = nodes.scaled(each, each.mean, design.most)
            parts.append(nodes.polynomial(number, part[: design.degree]))
            if each.missing:
                parts.append(nodes.Number(each.name, 0.0, 0.0, part[-1]))
        intercept = float(self.intercepts_[0] - beta @ self.centres_)
        return nodes.curve(features, own.tolist(), intercept, parts)

    @classmethod
    def _candidates(cls, sample: Sample) -> dict[str, Recalibrator]:
        """Numbers, and categories of few levels; more are for what pools small levels.

        With a penalty, because a rare level without events would else be given a certainty that one unseen row refutes.
        """
        names = sample.numbers() + sample.categories(MOST_LEVELS)
        return {cls.__name__: cls(columns=names, **cls.tried)} if names else {}


class AugmentedLogistic(_Augmented):
    """Logistic calibration on the score and on variables (Kelly and Smyth 2023, appendix C).

    P = 1 / (1 + exp(-(a s + sum_j b_j v_j + c))), s the logit of p (held within [1e-12, 1 - 1e-12]) or p itself,
    minimising the sum of log losses + l2/2 (a² + sum_j b_j²), the penalty on columns in their own units. Several
    classes: each against the rest, rows divided by their sums. Does not keep the ranking.

    A numeric column enters with its powers up to `degree`; a missing number takes the column's mean, with an indicator
    of its own where fit had missing ones. A category enters as one indicator a level but the commonest, missing being a
    level; levels not seen in fit, and missing values where fit had none, count as the commonest. Constant columns get
    coefficient 0. Separated classes stop where the loss is flat, with a warning.

    Parameters
    ----------
    columns : names or positions, optional
        Which columns of X; None: all.
    degree : int
        Highest power of numeric columns.
    on : {"logit", "probability"}
    l2 : float
        Penalty; scikit-learn's C is 1 / l2.

    Attributes
    ----------
    coefficients_ : (1, score features + column features)
    means_, spreads_ : (columns,)
        Powers are those of (number - mean) / spread; with a penalty, of the number itself.
    centres_ : (column features,) what is subtracted from each column feature
    intercepts_ : (1,) for column features at their centres
    each_ : of several classes, list of fitted recalibrators, one a class

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> age, y_prob = rng.uniform(-1, 1, 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-np.log(y_prob / (1 - y_prob)) - 2 * age))
    >>> AugmentedLogistic(l2=0.01).fit(y_prob, y, {"age": age}).coefficients_.round(1)
    array([[1., 2.]])
    """

    tried: ClassVar[Plain] = {"l2": 1.0}

    on: str = parameter(one_of, ("logit", "probability"), default="logit")
    l2: float = parameter(number, 0.0, default=0.0)


class AugmentedBeta(_Augmented):
    """Beta calibration on the score and on variables (Kelly and Smyth 2023, appendix C).

    P = 1 / (1 + exp(-(a ln p - b ln(1 - p) + sum_j d_j v_j + c))), minimising the sum of log losses + l2/2 (a² + b² +
    sum_j d_j²), the penalty on columns in their own units. ``constraint="positive"`` finds the optimum with a, b >= 0.
    Columns enter as in `AugmentedLogistic`, with the same rules for missing values and unseen levels. Several classes:
    each against the rest, rows divided by their sums. Does not keep the ranking.

    Parameters
    ----------
    columns : names or positions, optional
        Which columns of X; None: all.
    degree : int
        Highest power of numeric columns. Paper 000's augmented beta calibration is ``degree=2, l2=1``.
    constraint : {"none", "positive"}
    l2 : float
        Penalty; scikit-learn's C is 1 / l2.
    clip : float
        Probabilities are held within [clip, 1 - clip], 1e-12 unless said: one nearer to 0 or 1 counts as that.

    Attributes
    ----------
    coefficients_ : (1, 2 + column features)
    means_, spreads_ : (columns,)
        Powers are those of (number - mean) / spread; with a penalty, of the number itself.
    centres_ : (column features,) what is subtracted from each column feature
    intercepts_ : (1,) for column features at their centres
    each_ : of several classes, list of fitted recalibrators, one a class

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> age, y_prob = rng.uniform(-1, 1, 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-np.log(y_prob / (1 - y_prob)) - 2 * age))
    >>> AugmentedBeta(l2=0.01).fit(y_prob, y, {"age": age}).coefficients_.round(1)
    array([[1. , 0.9, 2. ]])
    """

    tried: ClassVar[Plain] = {"degree": 2, "l2": 10.0}

    constraint: str = parameter(one_of, ("positive", "none"), default="none")
    l2: float = parameter(number, 0.0, default=0.0)
    clip: float = parameter(number, 0.0, 0.5, above=True, default=LOGIT_CLIP)


class Augmentation(Recalibrator):
    """Fit any model on the columns and the current scores, and repeat with the new scores (paper 004, appendix E).

    The rows of `fit` are the paper's other half: those that the model was not trained on. Numbers enter as they are, a
    missing one as the mean with an indicator of its own; a category as one indicator a level but the commonest. Does
    not keep the ranking. Since the estimator may be anything, there is no JSON form; pickle it.

    Means (`response` "real" or "count") need a regressor, fitted on the outcome itself; with exposure on the rate per
    unit of it, with exposure as the weight. Counts: predictions below 0 become 0.

    Parameters
    ----------
    estimator : scikit-learn classifier with predict_proba; of means, a regressor
        The paper has a decision tree of depth 4 among others.
    rounds : int
    fresh : bool
        False: the same rows each round, as in the paper. True: each round has its own share of the rows.

    Attributes
    ----------
    estimators_ : list of fitted estimators, one a round

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    >>> rng = np.random.default_rng(0)
    >>> age, y_prob = rng.integers(20, 80, 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < np.where(age < 50, y_prob**2, y_prob)
    >>> fixed = Augmentation(DecisionTreeClassifier(max_depth=4)).fit(y_prob, y, {"age": age})
    >>> fixed.predict_proba([0.5, 0.5], {"age": [30, 70]})[:, 1].round(1)
    array([0.3, 0.5])

    Of claims:

    >>> claims = rng.poisson(np.where(age < 50, 2.0, 1.0) * y_prob)
    >>> fixed = Augmentation(DecisionTreeRegressor(max_depth=4))
    >>> fixed = fixed.fit(y_prob, claims, {"age": age}, response="count")
    >>> fixed.predict([0.5, 0.5], {"age": [30, 70]}).round(1)
    array([0.9, 0.5])
    """

    uses_columns = True
    responses = RESPONSES
    estimator: Any = parameter(
        such,
        lambda one: hasattr(one, "predict_proba") or regresses(one),
        "must be a classifier with predict_proba, or a regressor",
    )
    rounds: int = parameter(whole, 1, 1000, default=3)
    fresh: bool = parameter(truth, default=False)

    def _fit(self, sample: Sample) -> None:
        self._check_estimator(sample.response)
        self.design_ = Design.learned(sample, None, 1, raw=True)
        beside, current = self._beside(sample.columns), sample.probability
        self.estimators_ = []
        for done in range(self.rounds):
            rows = np.arange(done, sample.rows, self.rounds)
            if not self.fresh or np.unique(sample.outcome[rows]).size < 2:
                rows = np.arange(sample.rows)
            features = augmented(beside, current)
            fitted, options = clone(self.estimator), {}
            if sample.weight is not None and has_fit_parameter(fitted, "sample_weight"):
                options["sample_weight"] = sample.weight[rows]
            fitted.fit(features[rows], sample.outcome[rows], **options)
            self.estimators_.append(fitted)
            current = self._predicted(fitted, features, sample.response, sample.n_classes)

    def _check_estimator(self, response: str) -> None:
        """Refuse a regressor of classes, and a classifier of means."""
        suited, what = hasattr(self.estimator, "predict_proba"), "must be a classifier with predict_proba"
        if response != "binary":
            suited, what = regresses(self.estimator), "must be a regressor"
        if not suited:
            got = f"got {self.estimator!r}"
            raise refusal(f"{what} where 'response' is {response!r}", "'estimator'", got=got)

    def _beside(self, columns: Columns) -> Floats:
        ready = self.design_.ready(columns)
        return np.ascontiguousarray(self.design_.rows(ready, 0, len(ready[0])).T)

    def _predicted(self, fitted: Any, features: Floats, response: str, classes: int) -> Floats:
        """What one round makes of its features: means (n,), or probabilities (n, K)."""
        if response == "binary":
            return aligned(fitted, features, np.arange(classes))
        mean = np.asarray(fitted.predict(features), np.float64).reshape(-1)
        return np.maximum(mean, 0.0) if response == "count" else mean

    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        response: str = getattr(self, "response_", "binary")
        if not len(probability):  # which an estimator of another library may refuse
            return as_rows(probability) if response == "binary" else probability
        current, beside = probability, self._beside(columns)
        for fitted in self.estimators_:
            current = self._predicted(fitted, augmented(beside, current), response, self.n_classes_)
        return normalised(current, current) if response == "binary" else current


def regresses(estimator: Any) -> bool:
    """Whether it is an estimator of scikit-learn's kind that predicts numbers."""
    return hasattr(estimator, "get_params") and is_regressor(estimator)


def augmented(beside: Floats, current: Floats) -> Floats:
    """Columns and the current scores, (n, columns + scores); of two classes the second's score is enough."""
    scores = current.reshape(len(current), -1)
    return np.hstack([beside, scores if current.ndim == 1 else scores[:, 1:]])


def aligned(fitted: Any, features: Any, classes: Array) -> Floats:
    """Probabilities with one column for every class; classes that a classifier has not seen have probability 0."""
    if not np.isin(fitted.classes_, classes).all():
        got = f"it has {list(classes)}, the classifier {list(fitted.classes_)}"
        raise refusal("must hold every class that the classifier knows", "'y'", got=got)
    probability = np.asarray(fitted.predict_proba(features), dtype=np.float64)
    made = np.zeros((probability.shape[0], len(classes)))
    made[:, np.searchsorted(classes, fitted.classes_)] = probability
    return made

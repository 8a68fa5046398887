"""The score among other columns: logistic and beta calibration (paper 000, appendix C), any classifier (paper 004).

Columns enter a regression as powers of numbers and indicators of levels and of missing values. Features are made in
blocks of rows, one feature a row of the block, used and forgotten.
"""

from functools import cache
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # scikit-learn needs it too

from miscal.data.arrays import Array, Floats, Plain, sigmoid
from miscal.data.checks import number, one_of, whole
from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.export import formula as nodes
from miscal.kernels.threads import over_blocks
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.by_columns.base import ColumnRecalibrator
from miscal.recalibrate.by_columns.design_matrix import DesignMatrix
from miscal.recalibrate.logistic_fit import LOGIT_CLIP, LogisticFit, ScoreFeatures, loss_derivatives
from miscal.recalibrate.newton import Derivatives
from miscal.recalibrate.parameters import check_column_choice, parameter, state
from miscal.recalibrate.training_sample import TrainingSample

MAX_FEATURES = 2000
blas_threads = cache(ThreadpoolController)  # looking for libraries takes milliseconds
MAX_CANDIDATE_LEVELS = 50  # of a category that a candidate has coefficients for


class DesignFit(LogisticFit):
    """One logistic regression on features of a score and of columns, all centred and scaled."""

    def __init__(self, rows: TrainingSample, how: "_AugmentedCurve", design: DesignMatrix) -> None:
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

    def evaluate(self, rows: TrainingSample, theta: Floats) -> Derivatives:
        """Sum of log losses, its gradient and Hessian."""
        weights = rows.weights

        def work(start: int, stop: int) -> Derivatives:
            score = self.features.rows(rows.probability[start:stop])
            beside = self.design.rows(self.ready, start, stop)
            whole = np.concatenate([np.ones((1, stop - start)), score, beside])
            whole[1:] -= self.centre[:, None]
            whole[1:] *= self.scale[:, None]
            weight = weights[start:stop]
            loss, off, bend = loss_derivatives(theta @ whole, rows.outcome[start:stop], weight)
            return float(weight @ loss), whole @ off, (whole * bend) @ whole.T

        loss, gradient, hessian = zip(*over_blocks(rows.rows, work, self.design.block), strict=True)
        return sum(loss), np.sum(gradient, axis=0), np.sum(hessian, axis=0)


class _AugmentedCurve(ColumnRecalibrator):
    """A logistic regression on features of the score and on columns."""

    one_vs_rest = True
    tried: ClassVar[Plain]  # with what parameters it is a candidate
    l2, constraint, towards = 0.0, "none", "zero"  # of those without such a parameter

    columns: Any = parameter(check_column_choice, default=None)
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
        if (
            len(self.centres_) != width
            or self.coefficients_.shape[1] != width + ScoreFeatures.for_recalibrator(self).count
        ):
            raise ValueError("the coefficients do not belong to the columns")

    def _fit(self, sample: TrainingSample) -> None:
        design = DesignMatrix.learned(sample, self.columns, self.degree, raw=self.l2 > 0)
        if design.width > MAX_FEATURES:
            hint, got = "use VariableTree or GroupWise for columns of many levels", f"{design.width:,}"
            raise refusal(f"must give at most {MAX_FEATURES:,} features", "'X'", got=got, hint=hint)
        self._store_encodings(design.encodings)
        fit = DesignFit(sample, self, design)
        # A fit of 50 columns takes a tenth of the time.
        with blas_threads().limit(limits=1, user_api="blas"):
            coefficients, intercept = fit.best()
        self.centres_ = fit.centre[fit.features.count :]
        self.coefficients_ = coefficients[None, :]
        self.intercepts_ = np.array([intercept])

    def _design(self) -> DesignMatrix:
        return DesignMatrix(self._column_encodings(standard=not self.l2), self.degree)

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        design, features = self._design(), ScoreFeatures.for_recalibrator(self)
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
        design, features = self._design(), ScoreFeatures.for_recalibrator(self)
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
    def _candidates(cls, sample: TrainingSample) -> dict[str, Recalibrator]:
        """Numbers, and categories of few levels; more are for what pools small levels.

        With a penalty, because a rare level without events would else be given a certainty that one unseen row refutes.
        """
        names = sample.numeric_names() + sample.category_names(MAX_CANDIDATE_LEVELS)
        return {cls.__name__: cls(columns=names, **cls.tried)} if names else {}


class AugmentedLogistic(_AugmentedCurve):
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
    per_class_ : of several classes, list of fitted recalibrators, one a class

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


class AugmentedBeta(_AugmentedCurve):
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
    per_class_ : of several classes, list of fitted recalibrators, one a class

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

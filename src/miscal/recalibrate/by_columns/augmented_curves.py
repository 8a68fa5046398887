"""Logistic and beta calibration on the score and on columns (paper 000, appendix C)."""

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
#: Levels up to which a categorical column is used by the candidates of `choose`.
MAX_CANDIDATE_LEVELS = 50
#: Column features whose variance is smaller, relative to their mean square, are constant.
MIN_RELATIVE_VARIANCE = 1e-24
#: Finding the libraries takes milliseconds, so it is done once.
blas_threads = cache(ThreadpoolController)


class DesignFit(LogisticFit):
    """One logistic regression on features of a score and of columns, all centred and scaled.

    Parameters
    ----------
    rows : TrainingSample
        Two classes.
    recalibrator : Recalibrator
        Its parameters say what is fitted, as in `LogisticFit`.
    design : DesignMatrix
        Features of the columns.
    """

    starts_warm = False  # the columns were read for all rows

    def __init__(self, rows: TrainingSample, recalibrator: "_AugmentedCurve", design: DesignMatrix) -> None:
        super().__init__(rows, recalibrator)
        self.design = design
        self.column_values = design.read(rows.columns)
        n_score = self.features.count
        self.centre = np.append(self.centre, design.features(self.column_values, 0, 1)[:, 0])
        score_scale = np.zeros(n_score) if self.constant else self.scale
        self.scale = np.append(score_scale, np.ones(design.width))
        # With all coefficients 0 each row counts for a quarter of its weight in the Hessian: it holds the moments.
        moments = 4.0 * self.evaluate(rows, np.zeros(len(self.centre) + 1))[2] / rows.total
        mean = moments[0, n_score + 1 :]
        centre = self.centre[n_score:]
        centre += mean
        variance = np.diag(moments)[n_score + 1 :] - mean * mean
        varies = variance > MIN_RELATIVE_VARIANCE * (1.0 + centre**2)
        self.scale[n_score:] = varies / np.sqrt(np.where(varies, variance, 1.0))

    def evaluate(self, rows: TrainingSample, theta: Floats) -> Derivatives:
        """Sum of log losses, its gradient and Hessian."""
        weights = rows.weights

        def block_sums(start: int, stop: int) -> Derivatives:
            score = self.features.rows(rows.probability[start:stop])
            columns = self.design.features(self.column_values, start, stop)
            features = np.concatenate([np.ones((1, stop - start)), score, columns])
            features[1:] -= self.centre[:, None]
            features[1:] *= self.scale[:, None]
            weight = weights[start:stop]
            loss, residual, curvature = loss_derivatives(theta @ features, rows.outcome[start:stop], weight)
            return float(weight @ loss), features @ residual, (features * curvature) @ features.T

        blocks = over_blocks(rows.rows, block_sums, self.design.block_rows)
        loss, gradient, hessian = zip(*blocks, strict=True)
        return sum(loss), np.sum(gradient, axis=0), np.sum(hessian, axis=0)


class _AugmentedCurve(ColumnRecalibrator):
    """Base class of logistic regressions on features of the score and on columns."""

    one_vs_rest = True
    #: Parameters with which it is a candidate of `choose`.
    candidate_parameters: ClassVar[Plain]
    # Of subclasses without such a parameter.
    l2, constraint, towards = 0.0, "none", "zero"

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
        """Reject parts that do not belong together."""
        super().check_state()
        width = self._design().width
        n_score = ScoreFeatures.for_recalibrator(self).count
        if len(self.centres_) != width or self.coefficients_.shape[1] != width + n_score:
            raise ValueError("the coefficients do not belong to the columns")

    def _fit(self, sample: TrainingSample) -> None:
        design = DesignMatrix.learned(sample, self.columns, self.degree, raw=self.l2 > 0)
        if design.width > MAX_FEATURES:
            hint, got = "use VariableTree or GroupWise for columns of many levels", f"{design.width:,}"
            raise refusal(f"must give at most {MAX_FEATURES:,} features", "'X'", got=got, hint=hint)
        self._store_encodings(design.encodings)
        fit = DesignFit(sample, self, design)
        # On one thread a fit of 50 columns takes a tenth of the time: products are small.
        with blas_threads().limit(limits=1, user_api="blas"):
            coefficients, intercept = fit.best()
        self.centres_ = fit.centre[fit.features.count :]
        self.coefficients_ = coefficients[None, :]
        self.intercepts_ = np.array([intercept])

    def _design(self) -> DesignMatrix:
        return DesignMatrix(self._column_encodings(standard=not self.l2), self.degree)

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        design, score_features = self._design(), ScoreFeatures.for_recalibrator(self)
        score_coefficients, column_coefficients = np.split(self.coefficients_[0], [score_features.count])
        values = design.read(columns)
        out = np.empty(len(probability))
        for start in range(0, len(probability), design.block_rows):
            stop = min(start + design.block_rows, len(out))
            features = design.features(values, start, stop) - self.centres_[:, None]
            score = score_features.rows(probability[start:stop])
            log_odds = column_coefficients @ features + self.intercepts_[0] + score_coefficients @ score
            out[start:stop] = sigmoid(log_odds)
        return out

    def _formula(self) -> nodes.Formula:
        design, score_features = self._design(), ScoreFeatures.for_recalibrator(self)
        score_coefficients, column_coefficients = np.split(self.coefficients_[0], [score_features.count])
        terms: list[nodes.Node] = []
        for encoding, part in zip(design.encodings, design.split(column_coefficients), strict=True):
            coefficients = part.tolist()
            if encoding.nominal:
                terms.append(nodes.level_of(encoding, dict(enumerate(coefficients)), 0.0))
                continue
            value: nodes.Node = nodes.Number(
                encoding.name, -design.max_number, design.max_number, encoding.mean
            )
            if encoding.standard:
                value = nodes.scaled(encoding, encoding.mean, design.max_number)
            terms.append(nodes.polynomial(value, coefficients[: design.degree]))
            if encoding.missing:
                terms.append(nodes.Number(encoding.name, 0.0, 0.0, coefficients[-1]))
        intercept = float(self.intercepts_[0] - column_coefficients @ self.centres_)
        return nodes.curve(score_features, score_coefficients.tolist(), intercept, terms)

    @classmethod
    def _candidates(cls, sample: TrainingSample) -> dict[str, Recalibrator]:
        """Numbers, and categories of few levels; more are for what pools small levels.

        With a penalty, because a rare level without events would otherwise be given a probability of 0 that one unseen
        row refutes.
        """
        names = sample.numeric_names() + sample.category_names(MAX_CANDIDATE_LEVELS)
        return {cls.__name__: cls(columns=names, **cls.candidate_parameters)} if names else {}


class AugmentedLogistic(_AugmentedCurve):
    """Logistic calibration on the score and on variables (Kelly and Smyth 2023, appendix C).

    P = 1 / (1 + exp(-(a s + sum_j b_j v_j + c))), s the logit of p (clipped to [1e-12, 1 - 1e-12]) or p itself,
    minimising the sum of log losses + l2/2 (a² + sum_j b_j²), the penalty on columns in their own units. Several
    classes: each against the rest, rows divided by their sums. Does not keep the ranking.

    A numeric column enters with its powers up to `degree`; a missing number takes the column's mean, with an indicator
    where fit had missing ones. A category enters as one indicator per level except the most frequent, missing being a
    level; levels not seen in fit, and missing values where fit had none, count as the most frequent. Constant columns
    get coefficient 0. Separated classes stop where the loss is flat, with a warning.

    Parameters
    ----------
    columns : str, int, or list of these, optional
        Names or positions of columns of X; all by default.
    degree : int, default=1
        Highest power of numeric columns.
    on : {"logit", "probability"}, default="logit"
        How the score enters.
    l2 : float, default=0.0
        Penalty; scikit-learn's C is 1 / l2.

    Attributes
    ----------
    coefficients_ : (1, score features + column features) array
        Of all features.
    means_ : (columns,) array
        Powers are those of (number - mean) / spread; with a penalty, of the number itself.
    spreads_ : (columns,) array
        See `means_`.
    centres_ : (column features,) array
        What is subtracted from each column feature.
    intercepts_ : (1,) array
        For column features at their centres.
    per_class_ : list of AugmentedLogistic
        Of several classes: one fitted recalibrator per class.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> age, y_prob = rng.uniform(-1, 1, 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-np.log(y_prob / (1 - y_prob)) - 2 * age))
    >>> AugmentedLogistic(l2=0.01).fit(y_prob, y, {"age": age}).coefficients_.round(1)
    array([[1., 2.]])
    """

    candidate_parameters: ClassVar[Plain] = {"l2": 1.0}

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
    columns : str, int, or list of these, optional
        Names or positions of columns of X; all by default.
    degree : int, default=1
        Highest power of numeric columns. Paper 000's augmented beta calibration is ``degree=2, l2=1``.
    constraint : {"none", "positive"}, default="none"
        Whether a and b must not be negative.
    l2 : float, default=0.0
        Penalty; scikit-learn's C is 1 / l2.
    clip : float, default=1e-12
        Probabilities are clipped to [clip, 1 - clip].

    Attributes
    ----------
    coefficients_ : (1, 2 + column features) array
        Of all features.
    means_ : (columns,) array
        Powers are those of (number - mean) / spread; with a penalty, of the number itself.
    spreads_ : (columns,) array
        See `means_`.
    centres_ : (column features,) array
        What is subtracted from each column feature.
    intercepts_ : (1,) array
        For column features at their centres.
    per_class_ : list of AugmentedBeta
        Of several classes: one fitted recalibrator per class.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> age, y_prob = rng.uniform(-1, 1, 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < 1 / (1 + np.exp(-np.log(y_prob / (1 - y_prob)) - 2 * age))
    >>> AugmentedBeta(l2=0.01).fit(y_prob, y, {"age": age}).coefficients_.round(1)
    array([[1. , 0.9, 2. ]])
    """

    candidate_parameters: ClassVar[Plain] = {"degree": 2, "l2": 10.0}

    constraint: str = parameter(one_of, ("positive", "none"), default="none")
    l2: float = parameter(number, 0.0, default=0.0)
    clip: float = parameter(number, 0.0, 0.5, above=True, default=LOGIT_CLIP)

"""Augmentation: any model of scikit-learn's kind on the columns and the current scores (paper 004, appendix E)."""

from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils.validation import has_fit_parameter

from miscal.codes.data import Response
from miscal.data.arrays import Array, Floats
from miscal.data.checks import truth, whole
from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.data.responses import RESPONSES
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.by_columns.design_matrix import DesignMatrix
from miscal.recalibrate.parameters import check_that, parameter
from miscal.recalibrate.probability_arrays import normalise_rows, normalised_matrix
from miscal.recalibrate.training_sample import TrainingSample


def _predicts(estimator: Any) -> bool:
    return hasattr(estimator, "predict_proba") or is_regression_estimator(estimator)


class Augmentation(Recalibrator):
    """Fit any model on the columns and the current scores, and repeat with the new scores (paper 004, appendix E).

    The rows of `fit` are the paper's other half: those that the model was not trained on. Numbers enter as they are, a
    missing one as the mean with an indicator; a category as one indicator per level except the most frequent. Does
    not keep the ranking. Since the estimator may be anything, there is no JSON form; pickle it.

    Means (`response` "real" or "count") need a regressor, fitted on the outcome itself; with exposure on the rate per
    unit of it, with exposure as the weight. Counts: predictions below 0 become 0.

    Parameters
    ----------
    estimator : estimator
        A scikit-learn classifier with `predict_proba`; of means, a regressor. The paper has a decision tree of depth 4
        among others.
    rounds : int, default=3
        How many models are fitted.
    fresh : bool, default=False
        False: the same rows in each round, as in the paper. True: each round has its share of the rows.

    Attributes
    ----------
    estimators_ : list of estimator
        Fitted, one per round.
    design_ : DesignMatrix
        How columns become features.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    >>> rng = np.random.default_rng(0)
    >>> age, y_prob = rng.integers(20, 80, 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < np.where(age < 50, y_prob**2, y_prob)
    >>> model = Augmentation(DecisionTreeClassifier(max_depth=4)).fit(y_prob, y, {"age": age})
    >>> model.predict_proba([0.5, 0.5], {"age": [30, 70]})[:, 1].round(1)
    array([0.3, 0.5])

    Of claims:

    >>> claims = rng.poisson(np.where(age < 50, 2.0, 1.0) * y_prob)
    >>> model = Augmentation(DecisionTreeRegressor(max_depth=4))
    >>> model = model.fit(y_prob, claims, {"age": age}, response="count")
    >>> model.predict([0.5, 0.5], {"age": [30, 70]}).round(1)
    array([0.9, 0.5])
    """

    uses_columns = True
    responses = RESPONSES
    estimator: Any = parameter(
        check_that, _predicts, "must be a classifier with predict_proba, or a regressor"
    )
    rounds: int = parameter(whole, 1, 1000, default=3)
    fresh: bool = parameter(truth, default=False)

    def _fit(self, sample: TrainingSample) -> None:
        self._check_estimator(sample.response)
        self.design_ = DesignMatrix.learned(sample, None, 1, raw=True)
        column_features, score = self._column_features(sample.columns), sample.probability
        self.estimators_ = []
        for fitted_rounds in range(self.rounds):
            rows = np.arange(fitted_rounds, sample.rows, self.rounds)
            if not self.fresh or np.unique(sample.outcome[rows]).size < 2:
                rows = np.arange(sample.rows)
            features = with_scores(column_features, score)
            estimator, options = clone(self.estimator), {}
            if sample.weight is not None and has_fit_parameter(estimator, "sample_weight"):
                options["sample_weight"] = sample.weight[rows]
            estimator.fit(features[rows], sample.outcome[rows], **options)
            self.estimators_.append(estimator)
            score = self._predicted(estimator, features, sample.response, sample.n_classes)

    def _check_estimator(self, response: str) -> None:
        """Reject a regressor of classes, and a classifier of means."""
        suited = hasattr(self.estimator, "predict_proba")
        requirement = "must be a classifier with predict_proba"
        if response != Response.BINARY:
            suited, requirement = is_regression_estimator(self.estimator), "must be a regressor"
        if not suited:
            got = f"got {self.estimator!r}"
            raise refusal(f"{requirement} where 'response' is {str(response)!r}", "'estimator'", got=got)

    def _column_features(self, columns: Columns) -> Floats:
        """Features of the columns, (n, width)."""
        values = self.design_.read(columns)
        return np.ascontiguousarray(self.design_.features(values, 0, len(values[0])).T)

    def _predicted(self, estimator: Any, features: Floats, response: str, classes: int) -> Floats:
        """The scores of one round: means (n,), or probabilities (n, K)."""
        if response == Response.BINARY:
            return class_probabilities(estimator, features, np.arange(classes))
        mean = np.asarray(estimator.predict(features), np.float64).reshape(-1)
        return np.maximum(mean, 0.0) if response == Response.COUNT else mean

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        response: str = getattr(self, "response_", Response.BINARY)
        if not len(probability):  # which an estimator of another library may reject
            return normalised_matrix(probability) if response == Response.BINARY else probability
        score, column_features = probability, self._column_features(columns)
        for estimator in self.estimators_:
            features = with_scores(column_features, score)
            score = self._predicted(estimator, features, response, self.n_classes_)
        return normalise_rows(score, score) if response == Response.BINARY else score


def is_regression_estimator(estimator: Any) -> bool:
    """Whether it is an estimator of scikit-learn's kind that predicts numbers."""
    return hasattr(estimator, "get_params") and is_regressor(estimator)


def with_scores(column_features: Floats, score: Floats) -> Floats:
    """Features of columns and the current scores; of two classes the second's score is enough.

    Parameters
    ----------
    column_features : (n, width) array
        Of the columns.
    score : (n,) or (n, K) array
        Current predictions.

    Returns
    -------
    (n, width + scores) array
    """
    scores = score.reshape(len(score), -1)
    return np.hstack([column_features, scores if score.ndim == 1 else scores[:, 1:]])


def class_probabilities(classifier: Any, features: Any, classes: Array) -> Floats:
    """Probabilities with one column for every class; classes that a classifier has not seen have probability 0.

    Parameters
    ----------
    classifier : estimator
        Fitted.
    features : (n, d) array or frame
        Of the rows.
    classes : (K,) array
        All classes, sorted.

    Returns
    -------
    (n, K) array
    """
    if not np.isin(classifier.classes_, classes).all():
        got = f"it has {list(classes)}, the classifier {list(classifier.classes_)}"
        raise refusal("must hold every class that the classifier knows", "'y'", got=got)
    known = np.asarray(classifier.predict_proba(features), dtype=np.float64)
    probability = np.zeros((known.shape[0], len(classes)))
    probability[:, np.searchsorted(classes, classifier.classes_)] = known
    return probability

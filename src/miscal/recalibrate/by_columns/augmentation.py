"""TODO by_columns.augmentation."""

from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils.validation import has_fit_parameter

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
        check_that,
        lambda one: hasattr(one, "predict_proba") or is_regression_estimator(one),
        "must be a classifier with predict_proba, or a regressor",
    )
    rounds: int = parameter(whole, 1, 1000, default=3)
    fresh: bool = parameter(truth, default=False)

    def _fit(self, sample: TrainingSample) -> None:
        self._check_estimator(sample.response)
        self.design_ = DesignMatrix.learned(sample, None, 1, raw=True)
        beside, current = self._beside(sample.columns), sample.probability
        self.estimators_ = []
        for done in range(self.rounds):
            rows = np.arange(done, sample.rows, self.rounds)
            if not self.fresh or np.unique(sample.outcome[rows]).size < 2:
                rows = np.arange(sample.rows)
            features = with_scores(beside, current)
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
            suited, what = is_regression_estimator(self.estimator), "must be a regressor"
        if not suited:
            got = f"got {self.estimator!r}"
            raise refusal(f"{what} where 'response' is {response!r}", "'estimator'", got=got)

    def _beside(self, columns: Columns) -> Floats:
        ready = self.design_.ready(columns)
        return np.ascontiguousarray(self.design_.rows(ready, 0, len(ready[0])).T)

    def _predicted(self, fitted: Any, features: Floats, response: str, classes: int) -> Floats:
        """What one round makes of its features: means (n,), or probabilities (n, K)."""
        if response == "binary":
            return class_probabilities(fitted, features, np.arange(classes))
        mean = np.asarray(fitted.predict(features), np.float64).reshape(-1)
        return np.maximum(mean, 0.0) if response == "count" else mean

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:
        response: str = getattr(self, "response_", "binary")
        if not len(probability):  # which an estimator of another library may refuse
            return normalised_matrix(probability) if response == "binary" else probability
        current, beside = probability, self._beside(columns)
        for fitted in self.estimators_:
            current = self._predicted(fitted, with_scores(beside, current), response, self.n_classes_)
        return normalise_rows(current, current) if response == "binary" else current


def is_regression_estimator(estimator: Any) -> bool:
    """Whether it is an estimator of scikit-learn's kind that predicts numbers."""
    return hasattr(estimator, "get_params") and is_regressor(estimator)


def with_scores(beside: Floats, current: Floats) -> Floats:
    """Columns and the current scores, (n, columns + scores); of two classes the second's score is enough."""
    scores = current.reshape(len(current), -1)
    return np.hstack([beside, scores if current.ndim == 1 else scores[:, 1:]])


def class_probabilities(fitted: Any, features: Any, classes: Array) -> Floats:
    """Probabilities with one column for every class; classes that a classifier has not seen have probability 0."""
    if not np.isin(fitted.classes_, classes).all():
        got = f"it has {list(classes)}, the classifier {list(fitted.classes_)}"
        raise refusal("must hold every class that the classifier knows", "'y'", got=got)
    probability = np.asarray(fitted.predict_proba(features), dtype=np.float64)
    made = np.zeros((probability.shape[0], len(classes)))
    made[:, np.searchsorted(classes, fitted.classes_)] = probability
    return made

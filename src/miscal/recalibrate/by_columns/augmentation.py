"""Augmentation: a classifier fitted again on the covariates and its own scores (paper 004, appendix E)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.recalibrate.base import Floats, Recalibrator, Sample, as_rows, normalised
from miscal.recalibrate.export.formula import Formula, no_formula
from miscal.recalibrate.fitting.design import Design
from miscal.recalibrate.fitting.parameters import parameter, truth, whole
from miscal.recalibrate.fitting.tables import chosen_names


def _check_classifier(name: str, given: Any) -> None:
    if not (hasattr(given, "fit") and hasattr(given, "predict_proba")):
        hint = "such as DecisionTreeClassifier(max_depth=4)"
        raise refusal("must be a classifier with predict_proba", where=f"'{name}'", got=f"got {given!r}", hint=hint)


class Augmentation(Recalibrator):
    """Fit any classifier on the columns and the current scores, and repeat with the new scores (paper 004, appendix E).

    The rows of `fit` are the paper's other half: those that the model was not trained on. Numbers enter as they are, a
    missing one as the mean with an indicator of its own; a category as one indicator a level but the commonest. Does
    not keep the ranking. Since the classifier may be anything, there is no JSON form; pickle it.

    Parameters
    ----------
    estimator : scikit-learn classifier with predict_proba
        None: a decision tree of depth 4, as in the paper.
    rounds : int
    fresh : bool
        False: the same rows each round, as in the paper. True: each round has its own share of the rows.

    Attributes
    ----------
    estimators_ : list of fitted classifiers, one a round

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> age, y_prob = rng.integers(20, 80, 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < np.where(age < 50, y_prob**2, y_prob)
    >>> fixed = Augmentation(DecisionTreeClassifier(max_depth=4)).fit(y_prob, y, {"age": age})
    >>> fixed.predict_proba([0.5, 0.5], {"age": [30, 70]})[:, 1].round(1)
    array([0.3, 0.5])
    """

    uses_columns: ClassVar[bool] = True
    broken_laws: ClassVar[Mapping[str, str]] = {
        "repetition": "a classifier of another library may count rows",
        "order": "a classifier of another library may look at places",
        "json": "it holds a classifier",
        "calibrated": "trees of the score are coarse",
    }

    estimator: Any = parameter(_check_classifier, default=None)
    rounds: int = parameter(whole, 1, 1000, default=3)
    fresh: bool = parameter(truth, default=False)

    def _fit(self, sample: Sample) -> None:
        self.design_ = Design.learned(sample, chosen_names(sample.columns, None), 1, raw=True)
        beside = self._beside(sample.columns)
        current = sample.matrix()
        share = np.arange(sample.rows) % self.rounds if self.fresh else None
        self.estimators_ = []
        for done in range(self.rounds):
            rows = np.arange(sample.rows) if share is None else np.flatnonzero(share == done)
            if np.unique(sample.outcome[rows]).size < 2:
                rows = np.arange(sample.rows)
            features = _features(beside, current)
            fitted = self._made()
            options: dict[str, Any] = {}
            if sample.weight is not None and "sample_weight" in inspect.signature(fitted.fit).parameters:
                options = {"sample_weight": sample.weight[rows]}
            fitted.fit(features[rows], sample.outcome[rows], **options)
            self.estimators_.append(fitted)
            current = _scores(fitted, features, current)

    def _made(self) -> Any:
        if self.estimator is not None:
            return clone(self.estimator)
        from sklearn.tree import DecisionTreeClassifier

        return DecisionTreeClassifier(max_depth=4, random_state=0)

    def _beside(self, columns: Columns) -> Floats:
        ready = self.design_.ready(columns)
        return np.ascontiguousarray(self.design_.rows(ready, 0, len(ready[0])).T)

    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        if not len(probability):  # which a classifier of another library may refuse
            return as_rows(probability)
        current = probability if probability.ndim == 2 else np.stack([1.0 - probability, probability], axis=1)
        beside = self._beside(columns)
        for fitted in self.estimators_:
            current = _scores(fitted, _features(beside, current), current)
        return normalised(current.copy(), current)

    def to_json(self) -> str:
        """Refuse: a classifier may be anything."""
        hint = "use pickle, or MulticalibrationBoost"
        raise refusal("cannot be written as JSON", where="Augmentation", got="it holds a classifier", hint=hint)

    def _formula(self) -> Formula:
        instead = "export those, or fit MulticalibrationBoost, which is kept as plain trees"
        raise no_formula("Augmentation", "holds classifiers of another library", instead)

    def _summary(self) -> str:
        return f"{len(self.estimators_)} rounds of {type(self.estimators_[0]).__name__}"


def _features(beside: Floats, current: Floats) -> Floats:
    """Columns and the current scores; of two classes the second's is enough."""
    return np.hstack([beside, current[:, 1:]])


def _scores(fitted: Any, features: Floats, current: Floats) -> Floats:
    """The new scores; a class that the classifier has not seen gets 0."""
    found = np.asarray(fitted.predict_proba(features), dtype=np.float64)
    made = np.zeros_like(current)
    made[:, np.asarray(fitted.classes_, dtype=np.int64)] = found
    return made

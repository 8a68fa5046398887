"""The recalibrated classifier among scikit-learn's: its checks, pipelines, searches, frames, weights."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from miscal.data.errors import MiscalError
from miscal.recalibrate import (
    BetaCalibration,
    IsotonicCalibration,
    PlattScaling,
    RecalibratedClassifier,
    TemperatureScaling,
    VariableTree,
)

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")


@parametrize_with_checks([RecalibratedClassifier(LogisticRegression(), cv=3)])
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    return make_classification(1200, n_features=6, n_informative=3, random_state=0)


def test_the_recalibrator_learns_from_held_out_probabilities(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    folds = StratifiedKFold(4)
    model = RecalibratedClassifier(GaussianNB(), BetaCalibration(), cv=folds).fit(X, y)
    held_out = cross_val_predict(GaussianNB(), X, y, cv=folds, method="predict_proba")
    expected = BetaCalibration().fit(held_out, y).predict_proba(GaussianNB().fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    assert log_loss(y, model.predict_proba(X)) < log_loss(y, GaussianNB().fit(X, y).predict_proba(X))


@pytest.mark.parametrize("wrap", [lambda model: (model, "prefit"), lambda model: (FrozenEstimator(model), 5)])
def test_a_fitted_classifier_is_taken_as_it_is(data: tuple[np.ndarray, np.ndarray], wrap: Any) -> None:
    X, y = data
    fitted = GaussianNB().fit(X[:600], y[:600])
    estimator, cv = wrap(fitted)
    model = RecalibratedClassifier(estimator, IsotonicCalibration(), cv=cv).fit(X[600:], y[600:])
    probability = fitted.predict_proba(X[600:])
    expected = IsotonicCalibration().fit(probability, y[600:]).predict_proba(probability)
    np.testing.assert_array_equal(model.predict_proba(X[600:]), expected)


def test_it_works_in_pipelines_searches_and_copies(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    pipeline = make_pipeline(StandardScaler(), RecalibratedClassifier(LogisticRegression(), PlattScaling(), cv=2))
    grid = {
        "recalibratedclassifier__recalibrator": [PlattScaling(), IsotonicCalibration()],
        "recalibratedclassifier__estimator__C": [0.1, 1.0],
    }
    search = GridSearchCV(pipeline, grid, cv=2, scoring="neg_brier_score").fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    model = search.best_estimator_
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert not hasattr(clone(model)[-1], "classes_")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_and_columns_by_name_or_position(data: tuple[np.ndarray, np.ndarray], frame: Any) -> None:
    X, y = data
    names = [f"x{k}" for k in range(6)]
    table = frame(dict(zip(names, X.T, strict=True)))
    options: dict[str, Any] = {"estimator": LogisticRegression(), "recalibrator": VariableTree(), "cv": 2}
    by_name = RecalibratedClassifier(**options, by=["x2"]).fit(table, y)
    by_place = RecalibratedClassifier(**options, by=[2]).fit(table, y)
    np.testing.assert_array_equal(by_name.predict_proba(table), by_place.predict_proba(table))
    assert by_name.feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="feature names"):
        by_name.predict_proba(table[names[::-1]])
    with pytest.raises(MiscalError, match="did you mean 'x2'"):
        RecalibratedClassifier(**options, by=["x22"]).fit(table, y)


def test_string_labels_and_several_classes(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = data
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = RecalibratedClassifier(GaussianNB(), TemperatureScaling(), cv=3).fit(X, y)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert model.predict_proba(X).shape == (1200, 3)
    assert set(model.predict(X)) == {"high", "low", "middle"}


def test_weights_reach_both_parts(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    weight = np.where(np.arange(1200) % 2, 3.0, 1.0)
    folds = [(np.arange(0, 600), np.arange(600, 1200)), (np.arange(600, 1200), np.arange(0, 600))]
    model = RecalibratedClassifier(GaussianNB(), BetaCalibration(), cv=folds).fit(X, y, sample_weight=weight)
    plain = RecalibratedClassifier(GaussianNB(), BetaCalibration(), cv=folds).fit(X, y)
    assert not np.array_equal(model.predict_proba(X), plain.predict_proba(X))
    same = RecalibratedClassifier(GaussianNB(), BetaCalibration(), cv=folds).fit(X, y, sample_weight=np.ones(1200))
    np.testing.assert_allclose(same.predict_proba(X), plain.predict_proba(X), rtol=0, atol=1e-9)


def test_a_classifier_without_probabilities_is_refused(data: tuple[np.ndarray, np.ndarray]) -> None:
    from sklearn.linear_model import Perceptron

    with pytest.raises(MiscalError, match="predict_proba"):
        RecalibratedClassifier(Perceptron(), cv=2).fit(*data)
    with pytest.raises(MiscalError, match="no test part"):
        RecalibratedClassifier(GaussianNB(), cv=[(np.arange(600), np.arange(600, 1200))]).fit(*data)

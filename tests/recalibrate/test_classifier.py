"""The recalibrated classifier among scikit-learn's: its checks, pipelines, searches, frames, weights."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from miscal.data.errors import MiscalError
from miscal.recalibrate import (
    BetaCalibration,
    GroupWise,
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


def test_by_names_of_a_pipeline_with_set_output(data: tuple[np.ndarray, np.ndarray]) -> None:
    """Transformers that give frames keep the names that `by` uses."""
    X, y = data
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(6)])
    for kind in ("pandas", "polars"):
        model = RecalibratedClassifier(LogisticRegression(), VariableTree(), by=["x2"], cv=2)
        pipeline = make_pipeline(StandardScaler(), model).set_output(transform=kind)
        found = pipeline.fit(frame, y).predict_proba(frame)
        assert pipeline[-1].feature_names_in_.tolist() == list(frame.columns)
        place = RecalibratedClassifier(LogisticRegression(), VariableTree(), by=[2], cv=2)
        plain = make_pipeline(StandardScaler(), place).fit(X, y)
        np.testing.assert_allclose(found, plain.predict_proba(X), rtol=0, atol=1e-9)


class _Noted(LogisticRegression):
    """Keeps what `fit` was given."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, note: Any = None) -> Any:
        self.noted_ = None if note is None else np.asarray(note)
        self.weights_ = None if sample_weight is None else np.asarray(sample_weight)
        return super().fit(X, y, sample_weight)


def test_metadata_go_where_they_are_asked_for(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    note, weight, groups = np.arange(1200), np.linspace(1, 2, 1200), np.arange(1200) % 7
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = _Noted().set_fit_request(sample_weight=True, note=True)
        folds = GroupKFold(3).set_split_request(groups=True)
        model = RecalibratedClassifier(estimator, BetaCalibration(), cv=folds).set_fit_request(sample_weight=True)
        model.fit(X, y, sample_weight=weight, note=note, groups=groups)
        np.testing.assert_array_equal(model.estimator_.noted_, note)
        np.testing.assert_array_equal(model.estimator_.weights_, weight)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model)
        found = pipeline.fit(X, y, sample_weight=weight, note=note, groups=groups)[-1]
        np.testing.assert_array_equal(found.estimator_.noted_, note)
        shy = RecalibratedClassifier(_Noted(), BetaCalibration(), cv=2).set_fit_request(sample_weight=True)
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError):
            shy.fit(X, y, sample_weight=weight)
        modest = RecalibratedClassifier(_Noted().set_fit_request(sample_weight=False), cv=2)
        assert modest.fit(X, y, sample_weight=weight).estimator_.weights_ is None
        model.set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"estimator__C": [0.1, 1.0]}, cv=GroupKFold(2), refit=True)
        search.fit(X, y, sample_weight=weight, note=note, groups=groups)
        np.testing.assert_array_equal(search.best_estimator_.estimator_.noted_, note)


def test_groups_and_parameters_without_routing(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    groups = np.arange(1200) % 7
    model = RecalibratedClassifier(_Noted(), BetaCalibration(), cv=GroupKFold(3))
    model.fit(X, y, note=np.arange(1200), groups=groups)
    np.testing.assert_array_equal(model.estimator_.noted_, np.arange(1200))
    held_out = cross_val_predict(_Noted(), X, y, cv=GroupKFold(3), groups=groups, method="predict_proba")
    expected = BetaCalibration().fit(held_out, y).coefficients_
    np.testing.assert_array_equal(model.recalibrator_.coefficients_, expected)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_at_predict_time_are_checked(data: tuple[np.ndarray, np.ndarray], frame: Any) -> None:
    X, y = data
    names = [f"x{k}" for k in range(6)]
    table = frame(dict(zip(names, X.T, strict=True)))
    model = RecalibratedClassifier(LogisticRegression(), VariableTree(), by=["x1", "x4"], cv=2).fit(table, y)
    for wrong in (names[::-1], names[:5], [*names[:5], "x7"]):
        other = frame(dict(zip(wrong, X.T, strict=False)))
        with pytest.raises(ValueError, match="feature"):
            model.predict_proba(other)
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(
            RecalibratedClassifier(LogisticRegression(), cv=2).fit(table, y).predict_proba(X).shape, (1200, 2)
        )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_words_for_the_recalibrator_alone(data: tuple[np.ndarray, np.ndarray], frame: Any) -> None:
    """The classifier sees the numbers, the recalibrator a column of words; clone and pickle keep both."""
    X, y = data
    rng = np.random.default_rng(0)
    table = frame({"a": X[:, 0], "b": X[:, 1], "state": rng.choice(["x", "y", "z"], 1200)})
    numbers = make_column_transformer(("passthrough", ["a", "b"]))
    inner = make_pipeline(numbers, LogisticRegression())
    model = RecalibratedClassifier(inner, GroupWise(PlattScaling()), by="state", cv=3).fit(table, y)
    assert model.recalibrator_.names_.tolist() == ["state"]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    np.testing.assert_array_equal(clone(model).fit(table, y).predict(table), model.predict(table))


@pytest.mark.parametrize("shift", [0, 5])
def test_labels_that_a_fitted_classifier_does_not_know_are_refused(shift):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(0, 3, 300)
    fitted = LogisticRegression().fit(X, y)
    with pytest.raises(MiscalError, match="every class that the classifier knows"):
        RecalibratedClassifier(fitted, TemperatureScaling(), cv="prefit").fit(X, np.minimum(y, 1) + shift)
    with pytest.raises(MiscalError, match="predict_proba"):
        RecalibratedClassifier(None, TemperatureScaling()).fit(X, y)

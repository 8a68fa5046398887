"""`Choose` as an estimator, weights that are dropped aloud, and the top label's error."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from miscal.codes.recalibration import ChoiceReason
from miscal.data.errors import MiscalError, MiscalWarning
from miscal.data.predictions import Predictions
from miscal.metrics import expected_calibration_error
from miscal.recalibrate import (
    AugmentedLogistic,
    BetaCalibration,
    Choose,
    PlattScaling,
    RecalibratedClassifier,
    Recalibrator,
    TemperatureScaling,
    VectorScaling,
    choose,
)
from miscal.recalibrate.choosing import candidates_for
from miscal.recalibrate.training_sample import TrainingSample

FEW = [PlattScaling(), BetaCalibration()]


def test_choose_is_an_estimator() -> None:
    X, y = make_classification(800, random_state=0)
    made = RecalibratedClassifier(GaussianNB(), Choose(candidates=FEW)).fit(X, y)
    assert made.recalibrator_.name in ("PlattScaling", "BetaCalibration")
    assert made.recalibrator_.choice.loss == "log loss"
    again = clone(made)
    assert not again.recalibrator.is_fitted()
    grid = GridSearchCV(again, {"recalibrator__cv": [2, 3]}, cv=2, scoring="neg_log_loss").fit(X, y)
    assert grid.best_params_["recalibrator__cv"] in (2, 3)
    beside = RecalibratedClassifier(GaussianNB(), Choose(candidates=[AugmentedLogistic()]), by=[0, 1]).fit(X, y)
    assert beside.predict_proba(X[:3]).shape == (3, 2)


def test_what_was_chosen_is_what_choose_chooses_and_is_read_again(rng: np.random.Generator) -> None:
    p, X = rng.beta(2, 3, 3000), {"v": rng.normal(size=3000)}
    y = (rng.random(3000) < p ** np.where(X["v"] > 0, 2.0, 1.0)).astype(int)
    made = Choose(candidates=[PlattScaling(), AugmentedLogistic()], allowed=["v"]).fit(p, y, X)
    one = choose(p, y, X, candidates=[PlattScaling(), AugmentedLogistic()], allowed=["v"])
    assert made.name == one.name == "AugmentedLogistic"
    np.testing.assert_array_equal(made.predict_proba(p, X), one.predict_proba(p, X))
    again = Recalibrator.from_json(made.to_json())
    np.testing.assert_array_equal(again.predict_proba(p, X), made.predict_proba(p, X))
    assert made.to_sql() == one.to_sql()
    with pytest.raises(MiscalError, match="top_error"):
        Choose(top_error=-1.0).fit(p, y)


def test_weights_that_a_classifier_does_not_take_are_dropped_aloud() -> None:
    X, y = make_classification(200, random_state=0)
    weight = np.linspace(0.5, 2.0, 200)
    with pytest.warns(MiscalWarning, match="KNeighborsClassifier does not take sample_weight"):
        RecalibratedClassifier(KNeighborsClassifier()).fit(X, y, sample_weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RecalibratedClassifier(LogisticRegression()).fit(X, y, sample_weight=weight)


def test_vector_scaling_is_a_candidate_for_several_classes() -> None:
    for classes, is_one in ((4, True), (2, False)):
        rows = Predictions(np.arange(classes), np.eye(classes))
        assert ("VectorScaling" in candidates_for(TrainingSample.from_predictions(rows, rows.columns))) == is_one


def confused(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Six classes: the confidence of the top label is right, its rivals are far too sure; one temperature for all."""
    rng = np.random.default_rng(5)
    top = rng.uniform(0.55, 0.9, rows)
    share = rng.dirichlet(np.full(5, 0.15), rows)
    p = np.column_stack([top, (1 - top)[:, None] * share])
    flat = np.column_stack([top, np.repeat((1 - top)[:, None] / 5, 5, axis=1)])
    y = (flat.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(0, 5)
    return p, y


def test_a_growing_error_of_the_top_label_is_said_and_can_be_ruled_out() -> None:
    p, y = confused(4000)
    p = np.maximum(p, 1e-6)
    p /= p.sum(axis=1, keepdims=True)
    heat = {"heat": TemperatureScaling()}
    found = choose(p, y, candidates=heat)
    assert found.name == "heat"
    assert expected_calibration_error(y, found.predict_proba(p)) > 0.05 > expected_calibration_error(y, p)
    growth = found.choice.top_label_error
    assert growth.after > 0.05 > growth.before
    bound = choose(p, y, candidates=heat, top_error=0.0)
    assert bound.name == "Identity"
    assert bound.choice.reason == ChoiceReason.TOP_LABEL_LIMIT
    both = choose(p, y, candidates={**heat, "vector": VectorScaling()}, top_error=1.0)
    assert both.name != "Identity"

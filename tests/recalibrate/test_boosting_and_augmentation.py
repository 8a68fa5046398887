"""Repairs of subpopulations: they repair, leave the calibrated alone, and survive JSON, pickle and odd columns."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from miscal import MiscalError
from miscal.metrics import log_loss, multicalibration_error
from miscal.recalibrate import Augmentation, MeanScaling, MulticalibrationBoost, Recalibrator, choose


def table(rng, n):
    age = np.where(rng.random(n) < 0.1, np.nan, rng.integers(20, 80, n))
    return {"age": age, "state": rng.choice(["CA", "NV", "TX", "NY"], n), "member": rng.random(n) < 0.5}


def planted(rng, n):
    columns = table(rng, n)
    score = rng.beta(1.2, 1.8, n)
    inside = (columns["state"] == "NV") & (np.nan_to_num(columns["age"], nan=99) < 50)
    truth = np.where(inside, score**2.5, score)
    return columns, score, (rng.random(n) < truth).astype(int)


REPAIRS = [
    MulticalibrationBoost(engine="lightgbm"),
    MulticalibrationBoost(rounds=2, engine="sklearn"),
    Augmentation(DecisionTreeClassifier(max_depth=5, min_samples_leaf=50, random_state=0)),
]


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda r: f"{type(r).__name__}-{getattr(r, 'engine', '')}")
def test_a_planted_error_is_repaired_on_unseen_rows(rng, repair):
    columns, score, y = planted(rng, 8000)
    unseen, before, outcome = planted(rng, 8000)
    fitted = clone(repair).fit(score, y, columns)
    after = fitted.predict_proba(before, unseen)
    np.testing.assert_allclose(after.sum(axis=1), 1.0, atol=1e-12)
    mask = [(unseen["state"] == "NV") & (np.nan_to_num(unseen["age"], nan=99) < 50)]
    first = multicalibration_error(outcome, before, subpopulations=mask)
    second = multicalibration_error(outcome, after[:, 1], subpopulations=mask)
    assert second < 0.6 * first
    assert not fitted.keeps_ranking


@pytest.mark.parametrize("seed", range(3))
def test_boosting_leaves_a_calibrated_model_alone(seed):
    """Held-out loss must improve by more than a standard error: by chance 16% of fits, then harmless."""
    rng = np.random.default_rng(seed)
    columns, score = table(rng, 4000), rng.random(4000)
    fitted = MulticalibrationBoost().fit(score, rng.random(4000) < score, columns)
    changed = np.abs(fitted.predict_proba(score, columns)[:, 1] - score).mean()
    assert fitted.rounds_ == 0 or changed < 0.03
    assert fitted.rounds_ > 0 or (changed == 0 and fitted.keeps_ranking)


def test_most_calibrated_models_are_left_alone():
    left = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 5])
        columns, score = table(rng, 800), rng.random(800)
        left += MulticalibrationBoost().fit(score, rng.random(800) < score, columns).rounds_ == 0
    assert left >= 8  # at 84% a piece, fewer than 8 of 12 has a chance of 3%; with 800 rows noise costs more than that


@pytest.mark.parametrize("repair", [MulticalibrationBoost(rounds=2), MulticalibrationBoost(rounds=0)])
def test_json_gives_back_the_same_predictions(rng, repair):
    columns, score, y = planted(rng, 2000)
    fitted = clone(repair).fit(score, y, columns)
    again = Recalibrator.from_json(fitted.to_json())
    np.testing.assert_array_equal(again.predict_proba(score, columns), fitted.predict_proba(score, columns))
    assert pickle.loads(pickle.dumps(fitted)).to_json() == fitted.to_json()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("nodes_", {(1, 0): 0}),  # a node is its own child
        ("nodes_", {(1, 0): 2, (2, 0): 2}),  # a child twice
        ("nodes_", {(2, 0): 10**9}),
        ("nodes_", {(0, 0): 99}),
        ("nodes_", [[0, -1, -1]]),
        ("cuts_", {(1, 0): 1e200}),
        ("cuts_", [[0.0], [0.0]]),
        ("ends_", [5, 3]),
        ("ends_", [1, 2]),
        ("each_", [None]),
    ],
)
def test_hostile_json_is_refused(rng, name, change):
    columns, score, y = planted(rng, 800)
    document = json.loads(MulticalibrationBoost(rounds=2).fit(score, y, columns).to_json())
    if isinstance(change, dict):
        for (row, place), value in change.items():
            document["state"][name][row][place] = value
    else:
        document["state"][name] = change
    with pytest.raises(MiscalError):
        MulticalibrationBoost.from_json(json.dumps(document))


def test_several_classes(rng):
    n = 3000
    probability = rng.dirichlet([1, 2, 3], n)
    columns = table(rng, n)
    truth = probability.copy()
    truth[columns["member"]] = truth[columns["member"]][:, [1, 0, 2]]
    y = np.array([rng.choice(3, p=row) for row in truth])
    for repair in (MulticalibrationBoost(rounds=2), Augmentation(LogisticRegression(max_iter=1000, C=10))):
        after = clone(repair).fit(probability, y, columns).predict_proba(probability, columns)
        assert after.shape == (n, 3)
        np.testing.assert_allclose(after.sum(axis=1), 1.0, atol=1e-12)
        assert log_loss(y, after) < log_loss(y, probability)
    fitted = MulticalibrationBoost(rounds=1).fit(probability, y, columns)
    again = MulticalibrationBoost.from_json(fitted.to_json())
    np.testing.assert_array_equal(again.predict_proba(probability, columns), fitted.predict_proba(probability, columns))


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda r: f"{type(r).__name__}-{getattr(r, 'engine', '')}")
def test_unseen_levels_missing_values_and_weights(rng, repair):
    columns, score, y = planted(rng, 3000)
    fitted = clone(repair).fit(score, y, columns, sample_weight=rng.integers(0, 3, 3000))
    new = {
        "age": np.array([np.nan, 30.0, 1e9]),
        "state": np.array(["CA", "ZZ", None], dtype=object),
        "member": np.array([True, False, True]),
    }
    after = fitted.predict_proba([0.0, 0.5, 1.0], new)
    assert np.isfinite(after).all()
    assert (after >= 0).all()
    assert (after <= 1).all()


def test_augmentation_on_fresh_rows_and_its_refusals(rng):
    columns, score, y = planted(rng, 3000)
    fitted = Augmentation(DecisionTreeClassifier(max_depth=4), fresh=True).fit(score, y, columns)
    assert len(fitted.estimators_) == 3
    with pytest.raises(MiscalError, match="cannot be written as JSON"):
        fitted.to_json()
    with pytest.raises(MiscalError, match="predict_proba"):
        Augmentation(estimator=3).fit(score, y, columns)


def test_augmentation_is_the_papers(rng):
    """Covariates and the current score, the same rows each round."""
    n = 500
    x, score = rng.random((n, 2)), rng.random(n)
    y = (rng.random(n) < score).astype(int)
    ours = Augmentation(DecisionTreeClassifier(max_depth=3, random_state=0), rounds=3).fit(score, y, x)
    current = score
    for _ in range(3):
        features = np.column_stack([x, current])
        current = DecisionTreeClassifier(max_depth=3, random_state=0).fit(features, y).predict_proba(features)[:, 1]
    np.testing.assert_array_equal(ours.predict_proba(score, x)[:, 1], current)


@pytest.mark.parametrize("response", ["real", "count"])
@pytest.mark.parametrize("exposed", [False, True])
def test_augmentation_of_means_is_the_papers(rng, response, exposed):
    """Appendix E of a regression: covariates and the current prediction, the same rows each round."""
    n = 500
    x, mean = rng.random((n, 2)), rng.gamma(2.0, 1.0, n)
    exposure = rng.uniform(0.5, 2.0, n) if exposed else np.ones(n)
    y = rng.poisson(mean * exposure) if response == "count" else mean * exposure + rng.normal(size=n)
    options = {"exposure": exposure} if exposed else {}
    # A line can fall below 0, which a count cannot.
    for regressor in (DecisionTreeRegressor(max_depth=3, random_state=0), LinearRegression()):
        ours = Augmentation(regressor, rounds=3).fit(mean, y, x, response=response, **options)
        current = mean
        for _ in range(3):
            features = np.column_stack([x, current])
            fitted = clone(regressor).fit(features, y / exposure, sample_weight=exposure if exposed else None)
            current = fitted.predict(features)
            if response == "count":
                current = np.maximum(current, 0.0)
        np.testing.assert_allclose(ours.predict(mean, x), current, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(ours.apply_one(float(mean[0]), {"0": x[0, 0], "1": x[0, 1]}), [current[0]])


def test_augmentation_of_means_repairs_a_planted_error_on_unseen_rows(rng):
    def drawn(n):
        columns, mean = table(rng, n), rng.gamma(2.0, 1.0, n)
        inside = (columns["state"] == "NV") & columns["member"]
        return columns, mean, np.where(inside, 2.0, 1.0) * mean + rng.normal(size=n), inside

    columns, mean, y, _ = drawn(6000)
    unseen, before, outcome, inside = drawn(6000)
    regressor = DecisionTreeRegressor(max_depth=8, min_samples_leaf=50, random_state=0)
    fitted = Augmentation(regressor).fit(mean, y, columns, response="real")
    after = fitted.predict(before, unseen)
    asked = {"subpopulations": [inside], "response": "real"}
    assert multicalibration_error(outcome, after, **asked) < 0.4 * multicalibration_error(outcome, before, **asked)
    assert not fitted.keeps_ranking
    assert fitted.predict([], {name: values[:0] for name, values in unseen.items()}).size == 0


@pytest.mark.parametrize("response", ["real", "count"])
def test_choose_tries_an_augmentation_of_means(rng, response):
    n = 4000
    columns, mean = table(rng, n), rng.gamma(2.0, 1.0, n)
    truth = np.where(columns["member"], 2.0, 1.0) * mean
    y = rng.poisson(truth) if response == "count" else truth + rng.normal(size=n)
    regressor = DecisionTreeRegressor(max_depth=6, min_samples_leaf=100, random_state=0)
    chosen = choose(mean, y, columns, response=response, candidates=[MeanScaling(), Augmentation(regressor)])
    assert chosen.name == "Augmentation"


@pytest.mark.parametrize(
    ("estimator", "response", "words"),
    [
        (DecisionTreeRegressor(), "binary", "must be a classifier"),
        (DecisionTreeClassifier(), "real", "must be a regressor"),
        (DecisionTreeClassifier(), "count", "must be a regressor"),
        ("tree", "real", "must be a classifier with predict_proba, or a regressor"),
    ],
)
def test_augmentation_needs_the_estimator_that_suits_the_response(rng, estimator, response, words):
    y = np.arange(50) % 2
    with pytest.raises(MiscalError, match=words):
        Augmentation(estimator).fit(rng.random(50), y, rng.random((50, 2)), response=response)


@pytest.mark.parametrize(
    "repair",
    [
        MulticalibrationBoost(rounds=-1),
        MulticalibrationBoost(engine="x"),
        Augmentation(DecisionTreeClassifier(), rounds=0),
    ],
)
def test_wrong_parameters(repair):
    with pytest.raises(MiscalError):
        repair.fit([0.2, 0.8], [0, 1], {"a": [1, 2]})

"""Blends: weights on the simplex of least loss on unseen rows, and members that can be shipped together."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from sklearn.base import clone

from miscal.data.errors import MiscalError
from miscal.metrics import log_loss
from miscal.recalibrate import (
    AugmentedLogistic,
    BetaCalibration,
    Blend,
    GroupWise,
    HistogramBinning,
    Identity,
    MulticalibrationBoost,
    PlattScaling,
    Recalibrator,
    StructuredScaling,
    TemperatureScaling,
    VariableTree,
)
from miscal.recalibrate.combined import blend_weights
from miscal.stats.isotonic import assign_folds

MEMBERS = [
    Identity(),
    BetaCalibration(),
    AugmentedLogistic(l2=1.0),
    VariableTree(columns=["age"]),
    GroupWise(PlattScaling(), columns=["sex"]),
    MulticalibrationBoost(rounds=1),
]


@pytest.fixture
def rows(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    n = 3000
    p, age, sex = rng.beta(2, 3, n), rng.integers(20, 80, n).astype(float), rng.choice(["f", "m"], n)
    truth = np.where(age < 40, p**1.5, p) * np.where(sex == "f", 0.8, 1.0)
    return p, (rng.random(n) < truth).astype(int), {"age": age, "sex": sex}


@pytest.mark.parametrize("classes", [2, 4])
def test_no_point_of_the_simplex_has_less_loss(rng: np.random.Generator, classes: int) -> None:
    n = 500
    truth = rng.dirichlet(np.ones(classes), n)
    y = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    weight = rng.integers(1, 4, n).astype(float)
    noisy = [truth ** rng.uniform(0.5, 2) * rng.lognormal(0, 0.8, (n, classes)) for _ in range(3)]
    logs = np.log(np.stack([q / q.sum(axis=1, keepdims=True) for q in noisy]))

    def loss(weights: np.ndarray) -> float:
        mixed = np.exp(sum(w * each for w, each in zip(weights, logs, strict=True)))
        return float(np.average(-np.log(mixed[np.arange(n), y] / mixed.sum(axis=1)), weights=weight))

    found = blend_weights(logs, y, weight)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert ((found == 0) | (found > 0.04)).all()
    steps = np.arange(0, 21) / 20
    grid = [np.array([a, b, 1 - a - b]) for a, b in itertools.product(steps, steps) if a + b <= 1]
    assert loss(found) <= min(loss(point) for point in grid if (point == 0).sum() >= (found == 0).sum()) + 1e-7


def test_weights_are_those_of_cross_fitted_rows(rows: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]) -> None:
    p, y, _ = rows
    members = [Identity(), BetaCalibration(), HistogramBinning(bins=5)]
    made = Blend(members, cv=3, random_state=4).fit(p, y)
    folds = assign_folds(len(y), 3, random_state=4)
    seen = np.empty((3, len(y), 2))
    for i, fold in itertools.product(range(3), range(3)):
        train = folds != fold
        seen[i, ~train] = clone(members[i]).fit(p[train], y[train]).predict_proba(p[~train])
    weights = blend_weights(np.log(seen), y, np.ones(len(y)))
    np.testing.assert_array_equal(made.weights_, weights[weights > 0])
    logits = [np.diff(np.log(each.predict_proba(p)), axis=1)[:, 0] for each in made.members_ if each is not None]
    mixed = 1 / (1 + np.exp(-(made.weights_ @ np.array(logits))))
    np.testing.assert_allclose(made.predict_proba(p)[:, 1], mixed, atol=1e-12)


def test_a_blend_is_as_good_as_its_members_on_unseen_rows(
    rows: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]],
) -> None:
    p, y, X = rows
    some, rest = np.arange(len(y)) < 1500, np.arange(len(y)) >= 1500
    pick = lambda keep: {name: values[keep] for name, values in X.items()}
    made = Blend(MEMBERS).fit(p[some], y[some], pick(some))
    assert 2 <= len(made.members_) <= len(MEMBERS)
    assert not made.keeps_ranking
    own = log_loss(y[rest], made.predict_proba(p[rest], pick(rest))[:, 1])
    alone = []
    for each in MEMBERS:
        single = clone(each).fit(p[some], y[some], pick(some))
        alone.append(log_loss(y[rest], single.predict_proba(p[rest], pick(rest))[:, 1]))
    assert own <= min(alone) + 0.003


def test_json_one_row_and_refusals(rows: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]) -> None:
    p, y, X = rows
    made = Blend(MEMBERS).fit(p, y, X)
    again = Recalibrator.from_json(made.to_json())
    expected = made.predict_proba(p, X)
    np.testing.assert_array_equal(again.predict_proba(p, X), expected)
    assert again.to_json() == made.to_json()
    for i in range(0, 3000, 300):
        row = {"age": float(X["age"][i]), "sex": str(X["sex"][i])}
        np.testing.assert_allclose(made.apply_one(float(p[i]), row), expected[i], rtol=1e-12)
    for name, value in (("weights_", [2.0]), ("weights_", []), ("members_", [None])):
        document = json.loads(made.to_json())
        document["state"][name] = value
        with pytest.raises(MiscalError):
            Recalibrator.from_json(json.dumps(document))
    document = json.loads(made.to_json())
    document["params"]["recalibrators"] = [json.loads(Identity().to_json()) | {"class": "os.system"}]
    with pytest.raises(MiscalError):
        Recalibrator.from_json(json.dumps(document))
    for wrong in (None, [], [3], PlattScaling()):
        with pytest.raises(MiscalError, match="list of recalibrators"):
            Blend(wrong).fit(p, y)
    with pytest.raises(MiscalError, match="'X'"):
        Blend([Identity(), AugmentedLogistic()]).fit(p, y)


def test_several_classes_and_keeping_the_ranking(rng: np.random.Generator) -> None:
    p = rng.dirichlet(np.ones(5), 1500)
    sharp = p**1.5 / (p**1.5).sum(axis=1, keepdims=True)
    y = (sharp.cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1)
    made = Blend([TemperatureScaling(), StructuredScaling(), StructuredScaling("matrix")]).fit(p, y)
    after = made.predict_proba(p)
    np.testing.assert_allclose(after.sum(axis=1), 1.0, atol=1e-12)
    assert log_loss(y, after) < log_loss(y, p)
    score = Blend([Identity(), BetaCalibration()]).fit(p[:, 1], y == 1)
    assert score.keeps_ranking
    assert not score.uses_columns
    assert (np.diff(score.predict_proba(np.linspace(0, 1, 200))[:, 1]) >= 0).all()


def test_given_weights_are_taken_or_refused(rows: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]) -> None:
    p, y, _ = rows
    made = Blend([Identity(), BetaCalibration()], weights=[0.25, 0.75]).fit(p, y)
    assert made.weights_.tolist() == [0.25, 0.75]
    again = Blend.from_json(made.to_json())
    np.testing.assert_array_equal(again.predict_proba(p), made.predict_proba(p))
    for wrong in ([1.0], [0.5, 0.6], [-0.5, 1.5], 1.0):
        with pytest.raises(MiscalError, match="'weights'"):
            Blend([Identity(), BetaCalibration()], weights=wrong).fit(p, y)

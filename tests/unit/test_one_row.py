"""One row with its columns: the formula's functions give what a table of one row gives, and are taken."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from miscal import recalibrate
from miscal.data.errors import MiscalError
from miscal.export.formula import formula_of
from miscal.recalibrate import Recalibrator

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    p = rng.beta(1, 3, 3000)
    return p, (rng.random(3000) < p**1.5).astype(int)


BESIDE = {
    "tree": recalibrate.VariableTree(min_leaf=0.05),
    "tree of words": recalibrate.VariableTree(columns=["state"]),
    "augmented": recalibrate.AugmentedLogistic(degree=2),
    "augmented on probability": recalibrate.AugmentedLogistic(on="probability", l2=1.0),
    "augmented beta": recalibrate.AugmentedBeta(degree=2),
    "boosting": recalibrate.MulticalibrationBoost(rounds=2),
    "groups": recalibrate.GroupWise(recalibrate.PlattScaling(), columns=["state"]),
    "groups in groups": recalibrate.GroupWise(recalibrate.BetaCalibration(), columns=["state", "floor"], min_rows=30),
    "groups, global": recalibrate.GroupWise(
        recalibrate.PlattScaling(), columns=["state", "floor"], handle_unknown="global"
    ),
    "local": recalibrate.LocalRecalibration(),
    "local, standard, gaussian": recalibrate.LocalRecalibration(kernel="gaussian", scale="standard", bandwidth=0.5),
    "local, components": recalibrate.LocalRecalibration(reduce="pca", scale="standard", dimensions=3),
    "local, all alike": recalibrate.LocalRecalibration(bandwidth=1e300),
    "local, nearest": recalibrate.LocalRecalibration(bandwidth=1e-9, scale="standard"),
    "local, groups": recalibrate.LocalRecalibration(kernel="group", columns=["state", "floor", "member"]),
    "local, top": recalibrate.LocalRecalibration(target="top", bins=[0.0, 0.4, 0.7, 1.0]),
    "chain": recalibrate.Chain([recalibrate.SamplingCorrection(rate=0.5), recalibrate.VariableTree()]),
    "augmentation": recalibrate.Augmentation(DecisionTreeClassifier(max_depth=4, random_state=0)),
    "groups, identity": recalibrate.GroupWise(recalibrate.PlattScaling(), columns=["state"], handle_unknown="identity"),
    "blend in a blend": recalibrate.Blend(
        [recalibrate.Blend([recalibrate.BetaCalibration(), recalibrate.VariableTree()]), recalibrate.HistogramBinning()]
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_one_row_with_its_columns(name: str, rows: tuple[np.ndarray, np.ndarray]) -> None:
    """Missing, unseen and extreme values too: the quick way gives what the table's way gives."""
    from sklearn.base import clone

    p, y = rows
    rng = np.random.default_rng(7)
    state = [
        None if u < 0.05 else s for s, u in zip(rng.choice(["a", "b", "c"], p.size), rng.random(p.size), strict=True)
    ]
    age = np.where(rng.random(p.size) < 0.05, np.nan, rng.uniform(20, 80, p.size))
    X = {"age": age, "state": state, "floor": rng.integers(0, 4, p.size), "member": rng.random(p.size) < 0.4}
    made = clone(BESIDE[name]).fit(p, y, X)
    # The quick way is there, but for those that have no formula.
    assert (formula_of(made) is None) == isinstance(made, (recalibrate.LocalRecalibration, recalibrate.Augmentation))
    for own in (made,) if name == "augmentation" else (made, Recalibrator.from_json(made.to_json())):
        for i, state_ in enumerate(("a", "b", "never seen", None)):
            for j, age_ in enumerate((25.5, -1e6, 1e6, math.nan, None)):
                score = (0.0, 1.0, 0.2, 0.77)[(i + j) % 4]  # every pair of score, state and age
                row = {"age": age_, "state": state_, "floor": int(10 * score) % 5, "member": score > 0.5}
                expected = own.predict_proba([score], {key: [value] for key, value in row.items()})[0]
                np.testing.assert_allclose(own.apply_one(score, row), expected, rtol=0, atol=1e-12)
    numpy_row = {"age": np.float64(30.0), "state": "a", "floor": np.int64(1), "member": np.True_}  # the general way
    plain = {"age": 30.0, "state": "a", "floor": 1, "member": True}
    np.testing.assert_allclose(made.apply_one(0.3, numpy_row), made.apply_one(0.3, plain), rtol=0, atol=1e-12)
    with pytest.raises(MiscalError):
        made.apply_one(0.3, {"floors": 1})
    with pytest.raises(MiscalError):
        made.apply_one(0.3)


@pytest.mark.parametrize("classes", [2, 3])
def test_one_row_through_a_network(classes: int) -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.ones(classes), 800)
    y = (p.cumsum(axis=1) < rng.random((800, 1))).sum(axis=1)
    X: dict[str, Any] = {"age": np.where(rng.random(800) < 0.1, np.nan, rng.uniform(20, 80, 800))}
    X |= {"state": rng.choice(["a", "b", "c"], 800), "floor": rng.integers(0, 3, 800)}
    made = recalibrate.NeuralCalibration(hidden=(8, 8), epochs=2, nominal=["floor"], progress=False).fit(p, y, X)
    assert (formula_of(made) is not None) == (classes == 2)
    for score in (p[0].tolist(), [0.0] * (classes - 1) + [1.0]):
        for row in ({"age": 30, "state": "a", "floor": 1}, {"age": None, "state": "new", "floor": 9}):
            expected = made.predict_proba([score], {key: [value] for key, value in row.items()})[0]
            np.testing.assert_allclose(made.apply_one(score, row), expected, rtol=0, atol=1e-12)
    missing = {"age": 1e9, "state": None, "floor": None}
    expected = made.predict_proba([p[0]], {"age": [1e9], "state": [None], "floor": [None]})[0]
    np.testing.assert_allclose(made.apply_one(p[0], missing), expected, rtol=0, atol=1e-12)


SEVERAL = {
    "tree": recalibrate.VariableTree(leaf=recalibrate.TemperatureScaling()),
    "augmented": recalibrate.AugmentedLogistic(degree=2),
    "augmented beta": recalibrate.AugmentedBeta(),
    "boosting": recalibrate.MulticalibrationBoost(rounds=1),
    "groups": recalibrate.GroupWise(recalibrate.TemperatureScaling(), columns=["state", "floor"], min_rows=30),
    "local": recalibrate.LocalRecalibration(),
    "augmentation": recalibrate.Augmentation(DecisionTreeClassifier(max_depth=4, random_state=0)),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_one_row_of_several_classes(name: str) -> None:
    from sklearn.base import clone

    rng = np.random.default_rng(5)
    p = rng.dirichlet(np.ones(4), 1500)
    y = (p.cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1)
    X: dict[str, Any] = {"age": np.where(rng.random(1500) < 0.1, np.nan, rng.uniform(20, 80, 1500))}
    X |= {"state": rng.choice(["a", "b", "c"], 1500), "floor": rng.integers(0, 3, 1500)}
    made = clone(SEVERAL[name]).fit(p, y, X)
    for score in ([0.1, 0.2, 0.3, 0.4], [1.0, 0.0, 0.0, 0.0], p[3].tolist(), np.float32(p[4])):
        for row in ({"age": 30, "state": "a", "floor": 1}, {"age": None, "state": "unseen", "floor": 9}):
            expected = made.predict_proba([list(score)], {key: [value] for key, value in row.items()})[0]
            np.testing.assert_allclose(made.apply_one(score, row), expected, rtol=0, atol=1e-12)
    with pytest.raises(MiscalError, match="classes"):
        made.apply_one([0.5, 0.5], row)
    with pytest.raises(MiscalError):
        made.apply_one([0.5, 0.5, 0.5, 0.5], row)


def test_two_classes_given_as_two_probabilities(rows: tuple[np.ndarray, np.ndarray]) -> None:
    made = recalibrate.PlattScaling().fit(*rows)
    assert made.apply_one([0.75, 0.25]) == made.apply_one(0.25)


def test_an_unseen_level_is_refused_in_words_where_the_policy_says_so(rows: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = rows
    state = np.random.default_rng(1).choice(["a", "b"], p.size)
    made = recalibrate.GroupWise(recalibrate.PlattScaling(), handle_unknown="error").fit(p, y, {"state": state})
    expected = made.predict_proba([0.3], {"state": ["a"]})[0]
    np.testing.assert_allclose(made.apply_one(0.3, {"state": "a"}), expected, rtol=0, atol=1e-12)
    with pytest.raises(MiscalError, match="levels that fit had"):
        made.apply_one(0.3, {"state": "c"})


def test_the_function_of_an_earlier_fit_is_not_used(rows: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = rows
    made = recalibrate.BetaCalibration().fit(p, y)
    made.apply_one(0.3)
    with pytest.raises(MiscalError):
        made.fit(p, np.full(p.size, 7))
    with pytest.raises(MiscalError, match="not fitted"):
        made.apply_one(0.3)

"""Maps that look at columns, and of several classes, in SQL (DuckDB) and ONNX: equal to our own predictions."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from miscal import recalibrate
from miscal.data.errors import MiscalError
from miscal.recalibrate import GroupWise, PlattScaling, Recalibrator, SamplingCorrection

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")

STATE = "state it's"
BESIDE = {
    "tree": recalibrate.VariableTree(min_leaf=0.03, max_depth=4),
    "tree of words": recalibrate.VariableTree(columns=[STATE, "member"], leaf=recalibrate.IsotonicCalibration()),
    "augmented": recalibrate.AugmentedLogistic(degree=3),
    "augmented on probability": recalibrate.AugmentedLogistic(on="probability", l2=1.0),
    "augmented beta": recalibrate.AugmentedBeta(degree=2),
    "boosting": recalibrate.MulticalibrationBoost(rounds=3),
    "boosting, no round": recalibrate.MulticalibrationBoost(rounds=0),
    "groups": GroupWise(PlattScaling(), columns=[STATE]),
    "groups of truth values": GroupWise(PlattScaling(), columns=["member"], pooling=False),
    "groups in groups": GroupWise(recalibrate.BetaCalibration(), columns=[STATE, "floor", "member"], min_rows=30),
    "groups of maps of columns": GroupWise(
        GroupWise(recalibrate.AugmentedLogistic(columns=["age"], l2=1.0), columns=["member"]), columns=[STATE]
    ),
    "groups, global": GroupWise(PlattScaling(), columns=[STATE, "floor"], handle_unknown="global"),
    "groups, identity": GroupWise(PlattScaling(), columns=[STATE, "floor"], handle_unknown="identity", min_rows=150),
    "groups, error": GroupWise(recalibrate.HistogramBinning(), columns=[STATE, "floor"], handle_unknown="error"),
    "chain": recalibrate.Chain(
        [SamplingCorrection(rate=0.4), recalibrate.MulticalibrationBoost(rounds=1), recalibrate.BetaCalibration()]
    ),
    "one class": recalibrate.VariableTree(),
}


def table(size: int, seed: int, states: list[Any], floors: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "age": np.where(rng.random(size) < 0.07, np.nan, rng.uniform(20, 80, size).round(1)),
        STATE: rng.choice(np.array(states, dtype=object), size),
        "floor": rng.integers(0, floors, size).astype(np.float64),
        "member": rng.random(size) < 0.4,
    }


@pytest.fixture(params=BESIDE)
def fitted(request: pytest.FixtureRequest) -> Recalibrator:
    return fitted_once(request.param)


@cache
def fitted_once(name: str) -> Recalibrator:
    rng = np.random.default_rng(3)
    p = rng.beta(1, 3, 3000)
    X = table(3000, 1, ["a", "it's", "c", None], 4)
    X["floor"][rng.random(3000) < 0.05] = np.nan
    y = (rng.random(3000) < np.where(X["member"], p**1.5, p)).astype(int)
    return clone(BESIDE[name]).fit(p, np.ones(3000, int) if name == "one class" else y, X)


@pytest.fixture(scope="module")
def asked() -> tuple[np.ndarray, dict[str, Any]]:
    """Missing, unseen and extreme values, certain scores."""
    rng = np.random.default_rng(5)
    X = table(600, 2, ["a", "it's", "c", "never seen", None], 6)
    X["age"][:6] = [-1e9, 1e9, 20.0, 80.0, np.nan, 50.0]
    X["floor"][rng.random(600) < 0.1] = np.nan
    return np.concatenate([[0.0, 1.0, 0.5, 1e-13, 1e-9], rng.random(595)]), X


def refused(fitted: Recalibrator, X: dict[str, Any]) -> np.ndarray:
    """Rows that the policy "error" refuses."""
    if getattr(fitted, "handle_unknown", "") != "error":
        return np.zeros(len(X[STATE]), bool)
    return np.array([state == "never seen" for state in X[STATE]]) | (X["floor"] > 3)


def test_sql(fitted: Recalibrator, asked: tuple[np.ndarray, dict[str, Any]], database: tuple[str, Any]) -> None:
    """NULL and NaN, unseen levels, quotes in names and levels."""
    p, X = asked
    dialect, run = database
    found, out = run({**X, "p": p}, [fitted.to_sql("p", dialect=dialect)])[:, 0], refused(fitted, X)
    assert np.isnan(found[out]).all()
    expected = fitted.predict_proba(p[~out], {name: values[~out] for name, values in X.items()})[:, 1]
    np.testing.assert_allclose(found[~out], expected, rtol=0, atol=1e-12)


def test_onnx(fitted: Recalibrator, asked: tuple[np.ndarray, dict[str, Any]]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    p, X = asked
    session = runtime.InferenceSession(fitted.to_onnx(), providers=["CPUExecutionProvider"])
    words = np.array(["" if state is None else state for state in X[STATE]], dtype=object)
    given = {"probability": p} | X | {STATE: words}
    (found,) = session.run(None, {one.name: given[one.name] for one in session.get_inputs()})
    out = refused(fitted, X)
    assert np.isnan(found[out]).all()
    expected = fitted.predict_proba(p[~out], {name: values[~out] for name, values in X.items()})
    np.testing.assert_allclose(found[~out], expected, rtol=0, atol=1e-12)


def test_a_network_in_onnx(asked: tuple[np.ndarray, dict[str, Any]]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    q = rng.beta(1, 3, 1000)
    X = table(1000, 1, ["a", "it's", "c", None], 4)
    made = recalibrate.NeuralCalibration(hidden=(8,), epochs=2, nominal=["floor"], progress=False)
    made.fit(q, (rng.random(1000) < q).astype(int), X)
    p, Z = asked
    session = runtime.InferenceSession(made.to_onnx(), providers=["CPUExecutionProvider"])
    given = {"probability": p} | Z | {STATE: np.array([s or "" for s in Z[STATE]], dtype=object)}
    (found,) = session.run(None, {one.name: given[one.name] for one in session.get_inputs()})
    np.testing.assert_allclose(found, made.predict_proba(p, Z), rtol=0, atol=1e-6)


def test_a_blend(asked: tuple[np.ndarray, dict[str, Any]], database: tuple[str, Any]) -> None:
    """To 1e-12 for scores away from 0 and 1; at them 1 - p has few digits, and so has the mean of logits."""
    rng = np.random.default_rng(3)
    p, X = rng.beta(1, 3, 3000), table(3000, 1, ["a", "it's", "c", None], 4)
    y = (rng.random(3000) < np.where(X["member"], p**1.5, p)).astype(int)
    members = [PlattScaling(), recalibrate.MulticalibrationBoost(rounds=1), recalibrate.AugmentedBeta(l2=1.0)]
    made = recalibrate.Blend(members).fit(p, y, {name: X[name] for name in ("age", STATE, "member")})
    assert len(made.members_) > 1
    p, X = asked
    dialect, run = database
    answer = run({**X, "p": p}, [made.to_sql("p", dialect=dialect)])[:, 0]
    expected = made.predict_proba(p, X)[:, 1]
    inside = (p > 1e-4) & (p < 1.0 - 1e-4)
    np.testing.assert_allclose(answer[inside], expected[inside], rtol=0, atol=1e-12)
    np.testing.assert_allclose(answer, expected, rtol=0, atol=1e-5)
    assert len(made.to_onnx()) > 1000


CLASSES = [
    recalibrate.Identity(),
    recalibrate.TemperatureScaling(),
    recalibrate.VectorScaling(),
    recalibrate.DirichletCalibration(),
    recalibrate.StructuredScaling(),
    recalibrate.StructuredScaling("matrix"),
    recalibrate.KernelCalibration(),
    recalibrate.KernelCalibration(base="platt"),
    PlattScaling(),
    recalibrate.BetaCalibration(),
    recalibrate.HistogramBinning(bins=5),
    recalibrate.ScalingBinning(bins=4, renormalise=False),
    recalibrate.IsotonicCalibration(),
    recalibrate.IsotonicLinePlotScaling(knots=10),
]


@pytest.mark.parametrize("made", CLASSES, ids=repr)
def test_several_classes(made: Recalibrator, database: tuple[str, Any]) -> None:
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 1000)
    y = (p.cumsum(axis=1) < rng.random((1000, 1))).sum(axis=1) % 3  # the last class never happens
    fitted = clone(made).fit(p, y)
    asked = np.concatenate([np.eye(4), p[:300] ** 4 / (p[:300] ** 4).sum(axis=1, keepdims=True)])
    expected = fitted.predict_proba(asked)
    names = [f"class {k}" for k in range(4)]
    dialect, run = database
    wrong = [[None, 0.5, 0.5, 0.0], [math.nan, 0.5, 0.5, 0.0], [0.5, 0.5, 0.5, 0.5], [-0.1, 0.5, 0.6, 0.0]]
    given = dict(zip(names, np.concatenate([asked, np.array(wrong, object)]).T, strict=True))
    found = run(given, fitted.to_sql(names, dialect=dialect))
    assert np.isnan(found[-4:]).all()
    np.testing.assert_allclose(found[:-4], expected, rtol=0, atol=1e-12)
    session = runtime.InferenceSession(fitted.to_onnx(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"probability": asked})[0], expected, rtol=0, atol=1e-12)
    assert np.isnan(session.run(None, {"probability": np.array(wrong, float)})[0]).all()


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    rng = np.random.default_rng(0)
    p = rng.random(600)
    return (
        p,
        (rng.random(600) < p).astype(int),
        {"age": rng.uniform(20, 80, 600), STATE: rng.choice(["a", ""], 600)},
    )


@pytest.mark.parametrize("write", ["to_sql", "to_onnx"])
def test_what_cannot_be_written_says_why(write: str, rows: tuple[Any, ...]) -> None:
    p, y, X = rows
    for made in (recalibrate.LocalRecalibration(), recalibrate.Augmentation(DecisionTreeClassifier(max_depth=4))):
        with pytest.raises(MiscalError, match=f"{type(made).__name__} learns has no formula") as error:
            getattr(made.fit(p, y, X), write)()
        assert "apply_one" in str(error.value)
    with pytest.raises(MiscalError, match="not fitted"):
        getattr(PlattScaling(), write)()


def test_names_and_levels_that_do_not_fit(rows: tuple[Any, ...]) -> None:
    p, y, X = rows
    with pytest.raises(MiscalError, match="empty string"):
        GroupWise(PlattScaling(), columns=[STATE]).fit(p, y, X).to_onnx()
    with pytest.raises(MiscalError, match="rename"):
        recalibrate.VariableTree().fit(p, y, {"probability": X["age"]}).to_onnx()
    several = np.stack([p / 2, 1 - p, p / 2], axis=1)
    scaled = recalibrate.TemperatureScaling().fit(several, (y * 2) % 3)
    for wrong in ("p", ["a", "b"], ["a", "b", 3]):
        with pytest.raises(MiscalError, match="'column'"):
            scaled.to_sql(wrong)
    with pytest.raises(MiscalError, match="one name"):
        PlattScaling().fit(p, y).to_sql(["a", "b"])
    tree = recalibrate.VariableTree().fit(several, (y * 2) % 3, X)
    with pytest.raises(MiscalError, match="two classes, or of the score"):
        tree.to_sql(["a", "b", "c"])


def test_a_blend_within_a_blend_keeps_its_own_names() -> None:
    rng = np.random.default_rng(3)
    p, X = rng.beta(1, 3, 3000), {"age": rng.uniform(20, 80, 3000), "member": rng.random(3000) < 0.4}
    y = rng.random(3000) < np.where(X["member"], p**1.5, p)
    tree, groups = recalibrate.VariableTree(columns=["age"]), GroupWise(PlattScaling(), columns=["member"])
    inner = recalibrate.Blend([tree, recalibrate.BetaCalibration()], weights=[0.5, 0.5])
    outer = recalibrate.Blend([inner, groups], weights=[0.5, 0.5]).fit(p, y, X)
    expected = outer.predict_proba(p[:50], {name: values[:50] for name, values in X.items()})[:, 1]
    connection = duckdb.connect()
    connection.register(
        "t", pa.table({"probability": p[:50], "row": np.arange(50), **{n: v[:50] for n, v in X.items()}})
    )
    found = connection.execute(f'SELECT {outer.to_sql()} AS q FROM t ORDER BY "row"').fetchnumpy()["q"]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(outer.to_onnx())
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(bool)": np.bool_}
    values = {"probability": p[:50], **{name: column[:50] for name, column in X.items()}}
    given = {each.name: values[each.name].astype(kinds[each.type]) for each in session.get_inputs()}
    np.testing.assert_allclose(session.run(None, given)[0][:, 1], expected, rtol=1e-5)

"""Columns of another type, numbers that floats merge, and names: right, or refused at export."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from miscal.data.errors import MiscalError
from miscal.recalibrate import (
    AugmentedBeta,
    BetaCalibration,
    Blend,
    Chain,
    GroupWise,
    HistogramBinning,
    PlattScaling,
    Recalibrator,
    VariableTree,
)
from tests.databases import Run, in_duckdb, in_sqlite

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")


def rows(size: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return rng.beta(2, 2, size), np.zeros(0), rng


def outcome(p: np.ndarray, odd: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows that are odd happen far less often than their scores say."""
    return (rng.random(p.size) < np.where(odd, p**4, p**0.3)).astype(int)


def by_group(p: np.ndarray, y: np.ndarray, X: dict[str, Any]) -> Recalibrator:
    return GroupWise(PlattScaling(), columns=list(X), pooling=False, min_rows=20).fit(p, y, X)


def in_onnx(model: Recalibrator, given: dict[str, Any]) -> np.ndarray:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.to_onnx(), providers=["CPUExecutionProvider"])
    return session.run(None, {one.name: given[one.name] for one in session.get_inputs()})[0][:, 1]


TYPES: dict[str, Any] = {
    "numbers": np.array([1, 2, 3]), "text": np.array(["1", "2", "3"]), "truth": np.array([True, False, True]),
}  # fmt: skip


@pytest.mark.parametrize("learned", TYPES)
@pytest.mark.parametrize("applied", TYPES)
def test_groups_of_a_column_of_another_type_are_refused(learned: str, applied: str) -> None:
    p, _, rng = rows()
    code = rng.integers(0, 3, p.size)
    model = by_group(p, outcome(p, code == 1, rng), {"group": TYPES[learned][code]})
    if learned == applied:
        assert np.ptp(model.predict_proba([0.5, 0.5], {"group": TYPES[applied][:2]})[:, 1]) > 0.2
        return
    with pytest.raises(MiscalError, match=r"as it (was|did) in fit"):
        model.predict_proba([0.5], {"group": TYPES[applied][:1]})
    with pytest.raises(MiscalError, match=r"as it (was|did) in fit"):
        model.apply_one(0.5, {"group": TYPES[applied][0].item()})


@pytest.mark.parametrize("missing", [True, False])
def test_nan_in_a_numeric_group_column(missing: bool, database: tuple[str, Any]) -> None:
    """Whether or not fit had missing values, and where only they have a map of their own."""
    p, _, rng = rows(3000)
    level = rng.integers(0, 3, p.size).astype(float)
    few = rng.integers(0, 3000, p.size).astype(float)  # too few rows a level: only missing has a map
    hole = rng.random(p.size) < 0.3
    X = {"level": np.where(hole & missing, np.nan, level), "few": np.where(hole, np.nan, few)}
    for names in (["level"], ["few"], ["level", "few"]):
        part = {name: X[name] for name in names}
        for model in (by_group(p, outcome(p, hole, rng), part), VariableTree().fit(p, outcome(p, hole, rng), part)):
            asked = {name: np.where(rng.random(p.size) < 0.3, np.nan, values) for name, values in part.items()}
            expected = model.predict_proba(p, asked)[:, 1]
            dialect, run = database
            found = run({"p": p, **asked}, [model.to_sql("p", dialect=dialect)])[:, 0]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
            if dialect == "duckdb":
                np.testing.assert_allclose(in_onnx(model, {"probability": p, **asked}), expected, rtol=0, atol=1e-12)


def test_whole_numbers_that_floats_merge(database: tuple[str, Any]) -> None:
    p, _, rng = rows()
    numbers = 2**53 + rng.integers(0, 6, p.size)
    model = by_group(p, outcome(p, numbers % 2 == 1, rng), {"number": numbers})
    asked = {"number": 2**53 + rng.integers(0, 8, p.size)}  # some were never seen
    expected = model.predict_proba(p, asked)[:, 1]
    dialect, run = database
    found = run({"p": p, **asked}, [model.to_sql("p", dialect=dialect)])[:, 0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    one = [model.apply_one(float(p[i]), {"number": int(asked["number"][i])})[1] for i in range(50)]
    np.testing.assert_allclose(one, expected[:50], rtol=0, atol=1e-12)
    np.testing.assert_allclose(in_onnx(model, {"probability": p, **asked}), expected, rtol=0, atol=1e-12)


def test_constants_that_the_runtime_takes_for_nothing() -> None:
    """onnxruntime drops a factor of 1 + 1e-7 and a summand of 1e-9."""
    p = np.linspace(0.0, 1.0, 101)
    model = PlattScaling().fit(p, (p > 0.5).astype(int), sample_weight=np.where(p > 0.5, 1.0, 2.0))
    for slope, intercept in ((1.0 + 1e-6, 0.0), (1.0, 1e-8), (1.0 - 1e-9, -3e-9), (1.0, 0.0)):
        model.coefficients_[:], model.intercepts_[:] = slope, intercept
        np.testing.assert_allclose(in_onnx(model, {"probability": p}), model.predict_proba(p)[:, 1], rtol=0, atol=1e-13)


def test_the_inputs_of_a_model_have_the_types_of_its_columns() -> None:
    runtime = pytest.importorskip("onnxruntime")
    p, _, rng = rows()
    X = {
        "small": rng.integers(0, 3, p.size), "large": 2**60 + rng.integers(0, 3, p.size),
        "word": rng.choice(["a"], p.size), "truth": rng.random(p.size) < 0.5, "never": np.full(p.size, np.nan),
    }  # fmt: skip
    model = by_group(p, outcome(p, X["truth"], rng), X)
    found = {one.name: one.type for one in runtime.InferenceSession(model.to_onnx()).get_inputs()}
    assert found == {
        "probability": "tensor(double)", "small": "tensor(double)", "large": "tensor(int64)", "word": "tensor(string)",
        "truth": "tensor(bool)", "never": "tensor(double)",
    }  # fmt: skip
    beyond = by_group(p, outcome(p, X["truth"], rng), {"id": 2**63 + rng.integers(0, 3, p.size).astype(np.uint64)})
    with pytest.raises(MiscalError, match="64-bit"):
        beyond.to_onnx()
    with pytest.raises(MiscalError, match="cannot be written in SQL"):
        beyond.to_sql(dialect="sqlite")
    assert str(2**63) in beyond.to_sql(dialect="duckdb")


NAMES = [
    "miscal.c0",
    "miscal.v1",
    "miscal_step",
    "MISCAL_STEP",
    "miscal_value",
    "miscal_parent_1",
    'a "b" `c` \\d',
    "é",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_ours_or_odd(name: str, database: tuple[str, Any]) -> None:
    p, _, rng = rows()
    X = {name: rng.choice(["a'b", "c\\d", "e"], p.size)}
    groups = GroupWise(PlattScaling(), columns=[name], min_rows=20)
    model = Chain([HistogramBinning(bins=5), groups, PlattScaling()]).fit(p, outcome(p, X[name] == "e", rng), X)
    expected = model.predict_proba(p, X)[:, 1]
    dialect, run = database
    found = run({"p": p, **X}, [model.to_sql("p", dialect=dialect)])[:, 0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    words = {"probability": p, name: X[name].astype(object)}
    np.testing.assert_allclose(in_onnx(model, words), expected, rtol=0, atol=1e-12)


def test_names_that_no_database_tells_apart() -> None:
    p, _, rng = rows()
    X = {"age": rng.choice(["a", "b"], p.size), "Age": rng.choice(["a", "b"], p.size)}
    model = by_group(p, outcome(p, X["age"] == "a", rng), X)
    for dialect in ("duckdb", "sqlite", "spark", "bigquery"):
        with pytest.raises(MiscalError, match="another case"):
            model.to_sql(dialect=dialect)
    assert '"Age"' in model.to_sql(dialect="postgres")
    with pytest.raises(MiscalError, match="another case"):
        by_group(p, outcome(p, X["age"] == "a", rng), {"age": X["age"]}).to_sql("AGE")


@pytest.mark.parametrize("name", ["", "a\x00b"])
def test_names_that_are_none(name: str) -> None:
    p, _, rng = rows()
    X = {name: rng.choice(["a", "b"], p.size)}
    model = by_group(p, outcome(p, X[name] == "a", rng), X)
    with pytest.raises(MiscalError, match="name of a column"):
        model.to_sql()
    if not name:
        with pytest.raises(MiscalError, match="rename"):
            model.to_onnx()


def test_scores_as_the_database_has_them() -> None:
    """Single precision, decimals and whole numbers: as doubles, which is what `predict_proba` makes of them."""
    import duckdb

    p, _, rng = rows()
    single = p.astype(np.float32)
    model = HistogramBinning(bins=200).fit(single, outcome(p, p > 2, rng))
    edges = np.float32(model.edges_[1:-1])
    (found,) = zip(
        *duckdb.execute(
            f"SELECT {model.to_sql('p')} FROM (SELECT UNNEST($1)::FLOAT AS p)", [edges.tolist()]
        ).fetchall(),
        strict=True,
    )
    np.testing.assert_allclose(found, model.predict_proba(edges)[:, 1], rtol=0, atol=1e-12)
    whole = PlattScaling(on="probability").fit(p, outcome(p, p > 2, rng))
    (zero,), (one,) = duckdb.execute(f"SELECT {whole.to_sql('p')} FROM (VALUES (0), (1)) AS t(p)").fetchall()
    np.testing.assert_allclose([zero, one], whole.predict_proba([0.0, 1.0])[:, 1], rtol=0, atol=1e-12)
    assert not math.isnan(zero)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "sqlite", "spark", "bigquery", "snowflake"])
def test_every_dialect_is_read_by_a_parser_of_it(dialect: str) -> None:
    sqlglot = pytest.importorskip("sqlglot", reason="sqlglot is not installed: pip install sqlglot")
    p, _, rng = rows(600)
    X = {"it's `a` \\": rng.choice(["x'y\\", "z"], 600), "n": rng.integers(0, 3, 600)}
    inner = GroupWise(PlattScaling(), min_rows=10)
    for model in (Chain([HistogramBinning(bins=3), inner, PlattScaling()]), VariableTree()):
        text = model.fit(p, outcome(p, X["n"] == 1, rng), X).to_sql("p", dialect=dialect)
        assert sqlglot.parse_one(f"SELECT {text} FROM t", dialect=dialect).find(sqlglot.exp.Case)


@pytest.mark.parametrize("keep_certain", [False, True])
@pytest.mark.parametrize("clip", [1e-12, 1e-4])
@pytest.mark.parametrize("kind", [BetaCalibration, AugmentedBeta])
def test_maps_do_not_jump_where_scores_are_held(
    kind: type[Recalibrator], clip: float, keep_certain: bool, database: tuple[str, Any]
) -> None:
    p, _, rng = rows()
    x = rng.normal(size=p.size)
    options: dict[str, Any] = {} if clip == 1e-12 else {"clip": clip}  # which is the default
    beside = {"x": x} if kind is AugmentedBeta else None
    model = kind(keep_certain=keep_certain, **options).fit(p, outcome(p, x > 0, rng), beside)
    assert model.get_params()["clip"] == clip
    low = clip * np.array([0.0, 1e-300, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9])
    score = np.concatenate([low, 1.0 - low])
    given = {"x": np.full(score.size, 0.5)} if beside else {}
    found = model.predict_proba(score, given or None)[:, 1]
    for end in (found[: low.size], found[low.size :]):
        assert np.ptp(end[:-1]) == 0.0, "held: one value up to the border"
        assert abs(end[-1] - end[0]) < 1e-6 * min(end[0], 1 - end[0]) + 1e-15, "and no jump beyond it"
    dialect, run = database
    assert run({**given, "p": score}, [model.to_sql("p", dialect=dialect)])[:, 0] == pytest.approx(found, abs=1e-12)
    assert in_onnx(model, {**given, "probability": score}) == pytest.approx(found, abs=1e-12)
    one = [model.apply_one(float(s), {"x": 0.5} if beside else None) for s in score]
    assert [value[1] if np.ndim(value) else value for value in one] == pytest.approx(found, abs=1e-15)


def refusing() -> Recalibrator:
    return GroupWise(PlattScaling(), columns=["group"], handle_unknown="error")


@pytest.mark.parametrize(
    "model",
    [
        Chain([refusing(), PlattScaling()]),
        Chain([refusing(), HistogramBinning()]),
        Chain([PlattScaling(), refusing(), BetaCalibration()]),
        Blend([refusing(), PlattScaling()]),
        Chain([Blend([refusing(), PlattScaling()]), VariableTree(columns=["group"])]),
    ],
    ids=["then a line", "then steps", "between", "mixed", "mixed, then a tree"],
)
@pytest.mark.parametrize("run", [in_duckdb, in_sqlite])
def test_a_group_that_is_refused_is_refused_through_every_later_step(model: Recalibrator, run: Run) -> None:
    """Databases pass over NULL in GREATEST and in comparisons: an unseen group had 1e-12, or .93, a step later."""
    p, _, rng = rows(300)
    group = rng.choice(["a", "b", "c"], p.size)
    fitted = clone(model).fit(p, outcome(p, group == "a", rng), {"group": group})
    dialect = run.__name__.removeprefix("in_")
    given = {"probability": [0.3, 0.4, 0.5], "group": ["a", "unseen", None]}
    found = run(given, [fitted.to_sql(dialect=dialect)])[:, 0]
    known = fitted.predict_proba([0.3], {"group": np.array(["a"])})[0, 1]
    assert found[0] == pytest.approx(known, abs=1e-12)
    assert np.isnan(found[1:]).all()
    with pytest.raises(MiscalError, match="the levels that fit had"):
        fitted.apply_one(0.4, {"group": "unseen"})

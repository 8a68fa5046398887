"""Fitted maps outside the library: one row, SQL in DuckDB, ONNX; each equal to our own predictions."""

from __future__ import annotations

import sqlite3

import duckdb
import numpy as np
import pytest

from miscal import recalibrate
from miscal.data.errors import MiscalError
from miscal.recalibrate import Recalibrator, SamplingCorrection

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")

MAPS = {
    "identity": recalibrate.Identity(),
    "platt": recalibrate.PlattScaling(),
    "platt on probability": recalibrate.PlattScaling(on="probability", l2=1.0),
    "temperature": recalibrate.TemperatureScaling(),
    "beta": recalibrate.BetaCalibration(),
    "histogram": recalibrate.HistogramBinning(),
    "histogram with empty bins": recalibrate.HistogramBinning(bins=200),
    "scaling-binning": recalibrate.ScalingBinning(),
    "isotonic": recalibrate.IsotonicCalibration(),
    "line plot": recalibrate.IsotonicLinePlotScaling(knots=20),
    "line plot, clamped": recalibrate.IsotonicLinePlotScaling(knots=20, outside="clamp"),
    "sampling": SamplingCorrection(rate=0.05),
    "vector": recalibrate.VectorScaling(),
    "blend": recalibrate.Blend([recalibrate.TemperatureScaling(), recalibrate.HistogramBinning(smooth=0)]),
    "structured": recalibrate.StructuredScaling(),
    "structured, matrix": recalibrate.StructuredScaling("matrix", strength=0.01),
    "dirichlet": recalibrate.DirichletCalibration(),
    "kernel": recalibrate.KernelCalibration(base="platt"),
    "chain": recalibrate.Chain([SamplingCorrection(rate=0.3), recalibrate.BetaCalibration()]),
    "chain of three": recalibrate.Chain(
        [recalibrate.PlattScaling(), recalibrate.HistogramBinning(bins=9), recalibrate.TemperatureScaling()]
    ),
}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    p = rng.beta(1, 3, 3000)
    return p, (rng.random(3000) < p**1.5).astype(int)


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    """Scores that maps find hard: certain ones, bin edges, knots' neighbours, tiny ones."""
    rng = np.random.default_rng(4)
    edges = np.arange(16) / 15
    awkward = [0.0, 1.0, 0.5, 1e-300, 1e-13, 1e-9, 1 - 1e-9, np.nextafter(1, 0), *edges, *np.nextafter(edges[:-1], 1)]
    return np.concatenate([np.array(awkward), rng.beta(0.5, 0.5, 300)])


@pytest.fixture(params=MAPS)
def fitted(request: pytest.FixtureRequest, rows: tuple[np.ndarray, np.ndarray]) -> Recalibrator:
    from sklearn.base import clone

    return clone(MAPS[request.param]).fit(*rows)


def test_one_row_at_a_time(fitted: Recalibrator, scores: np.ndarray) -> None:
    expected = fitted.predict_proba(scores)
    found = np.array([fitted.apply_one(float(p)) for p in scores])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_sql_in_duckdb(fitted: Recalibrator, scores: np.ndarray) -> None:
    expression = fitted.to_sql('my "odd" column')
    table = {'my "odd" column': scores, "row": np.arange(scores.size)}
    connection = duckdb.connect()
    connection.register("t", __import__("pyarrow").table(table))
    found = connection.execute(f'SELECT {expression} AS q FROM t ORDER BY "row"').fetchnumpy()["q"]
    np.testing.assert_allclose(found.astype(float), fitted.predict_proba(scores)[:, 1], rtol=0, atol=1e-12)


def test_sql_in_sqlite(fitted: Recalibrator, scores: np.ndarray) -> None:
    expression = fitted.to_sql("p", dialect="sqlite")
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (place INTEGER, p REAL)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(scores.tolist())))
    try:
        found = [row[0] for row in connection.execute(f"SELECT {expression} FROM t ORDER BY place")]
    except sqlite3.OperationalError as error:
        pytest.skip(f"this SQLite has no mathematical functions: {error}")
    np.testing.assert_allclose(found, fitted.predict_proba(scores)[:, 1], rtol=0, atol=1e-12)


def test_dialects(rows: tuple[np.ndarray, np.ndarray]) -> None:
    made = recalibrate.PlattScaling().fit(*rows)
    assert made.to_sql(dialect="postgres") == made.to_sql()
    assert "LEAST" in made.to_sql()
    assert "LEAST" not in made.to_sql(dialect="sqlite")
    for wrong in ("oracle", None, 3):
        with pytest.raises(MiscalError, match="'dialect'"):
            made.to_sql(dialect=wrong)


def test_far_scores_neither_overflow_nor_underflow() -> None:
    """Some databases refuse EXP(800): what is exponentiated is held within 700."""
    made = recalibrate.PlattScaling().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    made.coefficients_[:], made.intercepts_[:] = 1e4, -3.0
    found = duckdb.sql(f"SELECT {made.to_sql()} FROM (VALUES (0.01::DOUBLE), (0.99)) AS t(probability)").fetchall()
    np.testing.assert_allclose([row[0] for row in found], made.predict_proba([0.01, 0.99])[:, 1], rtol=0, atol=1e-12)


def test_onnx(fitted: Recalibrator, scores: np.ndarray) -> None:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(fitted.to_onnx(), providers=["CPUExecutionProvider"])
    single = scores.astype(np.float32)
    (found,) = session.run(None, {"probability": single})
    expected = fitted.predict_proba(single.astype(np.float64))
    assert found.shape == (scores.size, 2)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_refitting_forgets_the_old_function(rows: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = rows
    made = recalibrate.PlattScaling().fit(p, y)
    before = made.apply_one(0.3)
    made.fit(p, 1 - y)
    assert made.apply_one(0.3) != before


def test_columns_and_classes(rows: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = rows
    age = np.arange(p.size) % 70
    tree = recalibrate.VariableTree().fit(p, y, {"age": age})
    expected = tree.predict_proba(p[:1], {"age": age[:1]})[0]
    assert tree.apply_one(float(p[0]), {"age": int(age[0])}) == pytest.approx(tuple(expected), abs=1e-12)
    several = np.stack([p / 2, 1 - p, p / 2], axis=1)
    scaled = recalibrate.TemperatureScaling().fit(several, (y * 2) % 3)
    assert scaled.apply_one(several[0]) == tuple(scaled.predict_proba(several[:1])[0])


@pytest.mark.parametrize("structure", ["vector", "matrix"])
def test_certainties_are_held_alike_in_a_table_one_row_and_sql(structure: str) -> None:
    rng = np.random.default_rng(0)
    p = (rng.random(200) < 0.4).astype(float)
    fitted = recalibrate.StructuredScaling(structure).fit(p, rng.random(200) < 0.3)
    expected = fitted.predict_proba([0.0, 1.0])[:, 1]
    sql = duckdb.sql(f"SELECT {fitted.to_sql()} FROM (VALUES (0.0::DOUBLE), (1.0)) AS t(probability)").fetchall()
    np.testing.assert_allclose([fitted.apply_one(c)[1] for c in (0.0, 1.0)], expected, rtol=1e-13)
    np.testing.assert_allclose([row[0] for row in sql], expected, rtol=1e-13)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_a_row_outside_the_unit_interval_is_refused(wrong: float, rows: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(MiscalError, match="y_prob"):
        recalibrate.PlattScaling().fit(*rows).apply_one(wrong)


def test_sampling_correction_undoes_down_sampling() -> None:
    """A calibrated model of a sample with 1 in 20 negatives becomes calibrated on all rows."""
    rng = np.random.default_rng(0)
    true = rng.beta(1, 30, 400_000)
    y = rng.random(400_000) < true
    sampled = true / (true + (1 - true) * 0.05)
    corrected = SamplingCorrection(rate=0.05).fit(sampled, y).predict_proba(sampled)[:, 1]
    np.testing.assert_allclose(corrected, true, rtol=1e-12)
    again = SamplingCorrection.from_json(SamplingCorrection(rate=0.05).fit(sampled, y).to_json())
    np.testing.assert_array_equal(again.predict_proba(sampled)[:, 1], corrected)
    for wrong in (0.0, 1.5, float("nan"), "half"):
        with pytest.raises(MiscalError, match="rate"):
            SamplingCorrection(rate=wrong).fit(sampled, y)

"""Fitted maps outside the library: one row, SQL in DuckDB, ONNX; each equal to our own predictions."""

from __future__ import annotations

import math
from typing import Any

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
    awkward = [
        0.0,
        1.0,
        0.5,
        5e-324,
        1e-310,
        2e-308,
        1e-300,
        1e-13,
        1e-9,
        1 - 1e-9,
        np.nextafter(1, 0),
        *edges,
        *np.nextafter(edges[:-1], 1),
    ]
    return np.concatenate([np.array(awkward), rng.beta(0.5, 0.5, 300)])


@pytest.fixture(params=MAPS)
def fitted(request: pytest.FixtureRequest, rows: tuple[np.ndarray, np.ndarray]) -> Recalibrator:
    from sklearn.base import clone

    return clone(MAPS[request.param]).fit(*rows)


def test_one_row_at_a_time(fitted: Recalibrator, scores: np.ndarray) -> None:
    expected = fitted.predict_proba(scores)
    found = np.array([fitted.apply_one(float(p)) for p in scores])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_sql(fitted: Recalibrator, scores: np.ndarray, database: tuple[str, Any]) -> None:
    dialect, run = database
    expression = fitted.to_sql('my "odd" column', dialect=dialect)
    found = run({'my "odd" column': scores}, [expression])[:, 0]
    np.testing.assert_allclose(found, fitted.predict_proba(scores)[:, 1], rtol=0, atol=1e-12)


def test_a_score_that_is_none_gives_null_and_nan(fitted: Recalibrator, database: tuple[str, Any]) -> None:
    """What `predict_proba` refuses: NULL, NaN, outside [0, 1]."""
    dialect, run = database
    found = run({"p": np.array([None, math.nan, -0.1, 1.1, 0.5], object)}, [fitted.to_sql("p", dialect=dialect)])[:, 0]
    assert np.isnan(found).tolist() == [True, True, True, True, False]


def test_the_scale_has_no_jump_at_its_ends(fitted: Recalibrator, rows: tuple[np.ndarray, np.ndarray]) -> None:
    """Scores that no double of a database tells from 0 get what 0 gets; so do those just off 1."""
    ends = fitted.predict_proba([0.0, 5e-324, 1e-310, 2e-308, 1e-300, 1e-290])[:, 1]
    assert np.ptp(ends) <= 1e-12
    near = fitted.predict_proba([1.0, np.nextafter(1.0, 0.0), 1 - 1e-15])[:, 1]
    assert np.ptp(near) <= 1e-3 or isinstance(fitted, recalibrate.HistogramBinning)


def test_dialects(rows: tuple[np.ndarray, np.ndarray]) -> None:
    made = recalibrate.PlattScaling().fit(*rows)
    assert "LEAST" in made.to_sql()
    assert "LEAST" not in made.to_sql(dialect="sqlite")
    for wrong in ("oracle", None, 3):
        with pytest.raises(MiscalError, match=r"'dialect'.*'snowflake'"):
            made.to_sql(dialect=wrong)


def test_far_scores_neither_overflow_nor_underflow() -> None:
    """Some databases refuse EXP(800): what is exponentiated is held within 700."""
    made = recalibrate.PlattScaling().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    made.coefficients_[:], made.intercepts_[:] = 1e4, -3.0
    found = duckdb.sql(f"SELECT {made.to_sql()} FROM (VALUES (0.01::DOUBLE), (0.99)) AS t(probability)").fetchall()
    np.testing.assert_allclose([row[0] for row in found], made.predict_proba([0.01, 0.99])[:, 1], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "within"), [("float64", 1e-12), ("float32", 1e-6)])
def test_onnx(fitted: Recalibrator, scores: np.ndarray, dtype: str, within: float) -> None:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(fitted.to_onnx(dtype=dtype), providers=["CPUExecutionProvider"])
    given = np.append(scores, [math.nan, -0.1, 1.1]).astype(dtype)
    (found,) = session.run(None, {"probability": given})
    expected = fitted.predict_proba(given[:-3].astype(np.float64))
    assert found.shape == (scores.size + 3, 2)
    assert found.dtype == dtype
    np.testing.assert_allclose(found[:-3], expected, rtol=0, atol=within)
    assert np.isnan(found[-3:]).all()


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

"""Laws that hold for every recalibrator of means that are not probabilities, on any data."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from miscal.data.errors import MiscalError
from miscal.recalibrate import GroupWise, MeanScaling, Recalibrator, VariableTree
from tests import databases
from tests.laws.recalibrators import every, keeping

COUNTS = [*every("count"), MeanScaling("power"), MeanScaling(prior=5)]
REALS = [*every("real"), MeanScaling("shift"), MeanScaling("linear"), GroupWise(MeanScaling("shift"), min_rows=5)]


def suited(made):
    """A map within groups needs one for means inside."""
    wrong = isinstance(made, GroupWise) and "count" not in made.recalibrator.responses
    return clone(made).set_params(recalibrator=MeanScaling()) if wrong else made


BOTH = [("count", suited(made)) for made in COUNTS] + [("real", suited(made)) for made in REALS]


def each(pairs):
    return pytest.mark.parametrize(("response", "made"), pairs, ids=repr)


def keeping_law(law):
    return each([(response, made) for response, made in BOTH if keeping(law, [made])])


@st.composite
def samples(draw, response):
    """Predictions (often rounded and tied), outcomes, two columns, exposures that add exactly, whole weights."""
    seed, size = draw(st.integers(0, 2**32 - 1)), draw(st.integers(30, 120))
    rng = np.random.default_rng(seed)
    exposure = rng.choice([0.25, 0.5, 1.0, 2.0], size)
    X = {"v": rng.integers(0, 9, size).astype(float), "level": rng.choice(["a", "b"], size)}
    if response == "count":
        m = rng.gamma(2.0, 0.5, size).round(draw(st.sampled_from([1, 2, 15])))
        y = rng.poisson(m * exposure * np.where(X["level"] == "a", 1.5, 1.0) * rng.gamma(2.0, 0.5, size))
    else:
        m = rng.normal(size=size).round(draw(st.sampled_from([1, 2, 15])))
        y = m + rng.normal(size=size)
        if draw(st.booleans()):
            m, y = abs(m) + 0.1, abs(y)
    return m, y, X, exposure, rng


def drawn(data, response):
    return data.draw(samples(response))


def fit(made, response, m, y, X, exposure=None, weight=None):
    return clone(made).fit(m, y, X, sample_weight=weight, response=response, exposure=exposure)


def fitted_or_skipped(made, response, m, y, X, exposure=None):
    try:
        return fit(made, response, m, y, X, exposure)
    except MiscalError as error:
        if "at least 0" in str(error):  # a factor or a power of predictions below 0
            return None
        raise


def picked(X, rows):
    return {name: values[rows] for name, values in X.items()}


@keeping_law("repetition")
@settings(max_examples=10)
@given(st.data())
def test_a_whole_weight_is_repetition(response, made, data):
    m, y, X, _, rng = drawn(data, response)
    weight = rng.integers(1, 4, len(y))
    again = np.repeat(np.arange(len(y)), weight)
    if fitted_or_skipped(made, response, m, y, X) is None:
        return
    one = fit(made, response, m, y, X, weight=weight.astype(float))
    two = fit(made, response, m[again], y[again], picked(X, again))
    np.testing.assert_allclose(one.predict(m, X), two.predict(m, X), atol=1e-7)


@each(BOTH)
@settings(max_examples=10)
@given(st.data())
def test_rows_are_mapped_one_by_one_and_survive_json(response, made, data):
    m, y, X, exposure, rng = drawn(data, response)
    fitted = fitted_or_skipped(made, response, m, y, X, exposure)
    if fitted is None:
        return
    out, some = fitted.predict(m, X), rng.permutation(len(y))[:7]
    assert out.shape == m.shape
    assert np.isfinite(out).all()
    assert response == "real" or (out >= 0).all()
    np.testing.assert_allclose(out[some], fitted.predict(m[some], picked(X, some)), rtol=1e-13, atol=1e-14)
    again = Recalibrator.from_json(fitted.to_json()) if keeping("json", [made]) else pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(m, X), out)
    row = {name: values[0].item() for name, values in X.items()}
    np.testing.assert_allclose(fitted.apply_one(m[0].item(), row), [out[0]], rtol=1e-12)


@keeping_law("order")
@settings(max_examples=10)
@given(st.data())
def test_the_order_of_rows_does_not_matter(response, made, data):
    m, y, X, exposure, rng = drawn(data, response)
    one, order = fitted_or_skipped(made, response, m, y, X, exposure), rng.permutation(len(y))
    if one is not None:
        two = fit(made, response, m[order], y[order], picked(X, order), exposure[order])
        np.testing.assert_allclose(one.predict(m, X), two.predict(m, X), rtol=1e-7)


@each(BOTH)
@settings(max_examples=10)
@given(st.data())
def test_another_unit_changes_the_unit_alone(response, made, data):
    """Exposure in quarters of what it was gives rates four times as high; amounts in another currency those amounts."""
    m, y, X, exposure, _ = drawn(data, response)
    one = fitted_or_skipped(made, response, m, y, X, exposure)
    if one is None:
        return
    if response == "count":
        two = fit(made, response, 4.0 * m, y, X, exposure / 4.0)
    else:
        two = fit(made, response, 4.0 * m, 4.0 * y, X, exposure)
    np.testing.assert_allclose(two.predict(4.0 * m, X), 4.0 * one.predict(m, X), rtol=1e-6, atol=1e-9)


@keeping_law("repetition")  # what counts rows counts halves
@settings(max_examples=10)
@given(st.data())
def test_a_row_in_two_halves_of_its_exposure_is_the_same_row(response, made, data):
    m, y, X, exposure, _ = drawn(data, response)
    one = fitted_or_skipped(made, response, m, y, X, exposure)
    if one is None or (response == "real" and isinstance(made, VariableTree)):  # what holds its leaves back counts rows
        return
    part = np.array([0.25, 0.75])
    halves = (exposure[:, None] * part).ravel()
    outcome = (y[:, None] * part).ravel() if response == "real" else np.stack([y // 2, y - y // 2], axis=1).ravel()
    two = fit(made, response, np.repeat(m, 2), outcome, {k: np.repeat(v, 2) for k, v in X.items()}, halves)
    np.testing.assert_allclose(two.predict(m, X), one.predict(m, X), rtol=1e-7)


@each(BOTH)
@settings(max_examples=5)
@given(st.data())
def test_a_kept_ranking_is_kept(response, made, data):
    m, y, X, _, _ = drawn(data, response)
    fitted = fitted_or_skipped(made, response, m, y, X)
    if fitted is not None and fitted.keeps_ranking:
        grid = np.sort(m)
        assert (np.diff(fitted.predict(grid, {k: np.repeat(v[:1], len(m)) for k, v in X.items()})) >= -1e-12).all()


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
@keeping_law("json")  # what has no JSON has no formula
def test_sql_gives_what_predict_gives(response, made, dialect):
    rng = np.random.default_rng(4)
    size = 1500
    X = {"v": rng.integers(0, 9, size).astype(float), "level": rng.choice(["a", "it's"], size)}
    m = rng.gamma(2.0, 0.5, size) if response == "count" or "shift" not in repr(made) else rng.normal(size=size)
    y = rng.poisson(m * np.where(X["v"] > 5, 2.0, 1.0)) if response == "count" else m * 2 + rng.normal(size=size)
    fitted = fit(made, response, m, abs(y) if made.get_params().get("form") == "power" else y, X)
    asked = {"v": np.append(rng.uniform(-3, 12, 200), [np.nan, 1.0]), "level": rng.choice(["a", "it's", "new"], 202)}
    given_means = np.append(rng.choice(m, 200), [0.0, 1e6])
    run = databases.in_duckdb if dialect == "duckdb" else databases.in_sqlite
    if dialect == "sqlite":
        asked["v"][200] = 0.0  # it has no NaN
    found = run({"expected": given_means, **asked}, [fitted.to_sql("expected", dialect=dialect)])[:, 0]
    np.testing.assert_allclose(found, fitted.predict(given_means, asked), rtol=1e-9, atol=1e-12)
    worst = np.array([-1.0, np.nan, np.inf])
    refused = databases.in_duckdb({"expected": worst, **picked(asked, np.arange(3))}, [fitted.to_sql("expected")])[:, 0]
    assert np.isnan(refused).tolist() == [response == "count", True, True]


@keeping_law("calibrated")
def test_calibrated_means_are_left_alone_within_noise(response, made):
    rng = np.random.default_rng(7)
    m = rng.gamma(4.0, 0.25, 20_000)
    X = {"v": rng.normal(size=20_000), "level": rng.choice(["a", "b"], 20_000)}
    y = rng.poisson(m) if response == "count" else m + rng.normal(size=20_000)
    form = made.get_params().get("form")
    fitted = fit(made, response, m, abs(y) if form == "power" and response == "real" else y, X)
    out = fitted.predict(m, X)
    assert np.abs(out - m).mean() < (0.08 if type(made).__name__ == "IsotonicCalibration" else 0.04)
    assert abs(out.mean() - m.mean()) < 0.03


@keeping_law("json")
def test_json_that_was_tampered_with_is_refused(response, made):
    rng = np.random.default_rng(1)
    m = rng.gamma(2.0, 0.5, 60)
    X = {"v": rng.normal(size=60), "level": rng.choice(["a", "b"], 60)}
    document = json.loads(fit(made, response, m, rng.poisson(m), X).to_json())
    for wrong in ("binary", 3, None, ["count"]):
        document["state"]["response_"] = wrong
        with pytest.raises(MiscalError, match="is not a model written by"):
            Recalibrator.from_json(json.dumps(document))

"""Laws of any mean: the response is one more axis of every metric and every word that takes it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import miscal
from miscal.metrics import METRICS
from tests.laws.test_metric_laws import CASES, agree, numbers, table, takes

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")

MEANS = [name for name, line in METRICS.items() if line.means is not None]
CONSTANTS = (8.0, 2.0**-30, 37.3)  # a power of two changes no digit
WORDS = {
    "score": lambda p: miscal.by_score(p, bins=5),
    "variable": lambda p: miscal.by_variable(p, "age", curve=False),
    "field": lambda p: miscal.by_field(p, "region"),
    "neighbourhood": lambda p: miscal.by_neighbourhood(p, ["age"], simulations=99, bins=[-1e9, 1e9]),
    "subpopulation": lambda p: miscal.by_subpopulation(p, subpopulations=20, simulations=99),
}


def call(name: str, rows: dict[str, np.ndarray], scale: float = 1.0, **options: Any) -> np.ndarray:
    line = METRICS[name]
    moved = {**rows, "y_true": scale * rows["y_true"], "y_prob": scale * rows["y_prob"]}
    asked = {**line.options, **(line.means or {}), **options}
    if "bins" in asked:
        asked["bins"] = (scale * np.asarray(asked["bins"])).tolist()
    return numbers(getattr(miscal.metrics, name)(*(moved[part] for part in takes(name)), **asked))


def test_every_metric_that_takes_a_response_is_bound():
    taking = {name for name in METRICS if "response" in inspect.signature(getattr(miscal.metrics, name)).parameters}
    through = {"maximum_calibration_error", "maximum_local_calibration_error", "average_local_calibration_error"}
    assert taking | through == set(MEANS)


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_events_given_as_numbers_have_the_same_error(name, kind, seed):
    rows = table(kind, seed)
    for weight in ({}, {"sample_weight": rows["weight"]}):
        events = call(name, rows, **weight)
        for response in ("real", "count"):
            agree(events, call(name, rows, response=response, **weight), exact=False)


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_constant_scales_the_error(name, constant):
    rows = table("plain", 1)
    rng = np.random.default_rng(5)
    rows["y_true"] = rng.gamma(2.0, rows["y_prob"])
    one, two = (call(name, rows, scale, response="real") for scale in (1.0, constant))
    if np.log2(constant) % 1 == 0:
        np.testing.assert_array_equal(one * constant ** METRICS[name].degree, two)
    else:
        np.testing.assert_allclose(one * constant ** METRICS[name].degree, two, rtol=1e-9)


def claims(scale: float = 1.0, *, split: bool = False, seed: int = 0, response: str = "real") -> miscal.Predictions:
    """Amounts with exposure, each policy a cluster; `split` halves exposure and amount of every third row."""
    rng = np.random.default_rng(seed)
    rows = 400
    columns = {"age": rng.integers(18, 80, rows), "region": rng.choice(list("abcd"), rows)}
    exposure, rate = rng.uniform(0.1, 1.0, rows), rng.lognormal(0.0, 0.4, rows)
    y = 2 * rng.poisson(0.5 * rate * exposure)  # even, so that half of it is whole
    order = np.sort(np.concatenate([np.arange(rows), np.arange(0, rows, 3)])) if split else np.arange(rows)
    half = np.where(np.bincount(order)[order] > 1, 0.5, 1.0)
    return miscal.Predictions(
        scale * (y[order] * half), scale * rate[order], response=response, exposure=exposure[order] * half,
        cluster=order, columns={name: values[order] for name, values in columns.items()},
    )  # fmt: skip


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_constant_scales_a_result_and_leaves_its_p_values(word, constant):
    one, two = WORDS[word](claims()), WORDS[word](claims(constant))
    for name in ("value", "noise_floor"):
        assert getattr(two, name) == pytest.approx(constant * getattr(one, name), rel=1e-9)
    assert two.interval == pytest.approx([constant * end for end in one.interval], rel=1e-9)
    assert two.p_value == one.p_value
    for name in ("gap", "gap_low", "gap_high", "predicted", "observed", "events_off"):
        if name in one.table:
            np.testing.assert_allclose(two.table[name], constant * one.table[name], rtol=1e-9, atol=1e-12 * constant)
    for name in ("p_value", "p_adjusted", "ratio"):
        if name in one.table:
            np.testing.assert_allclose(two.table[name], one.table[name], rtol=1e-9)


@pytest.mark.parametrize("response", ["real", "count"])
def test_splitting_the_exposure_of_rows_changes_nothing_but_their_count(response):
    whole, split = claims(response=response), claims(split=True, response=response)
    assert split.rows > whole.rows
    for word in (WORDS["field"], lambda p: miscal.by_variable(p, "age", bins=[18, 30, 50, 80], curve=False)):
        one, two = word(whole), word(split)
        assert two.value == pytest.approx(one.value, rel=1e-12)
        assert two.p_value == pytest.approx(one.p_value, abs=0.02)
        for name in ("weight", "predicted", "observed", "gap", "events_off", "p_value"):
            np.testing.assert_allclose(two.table[name], one.table[name], rtol=1e-9)
        assert two.table["rows"].sum() > one.table["rows"].sum()


@pytest.mark.parametrize("word", WORDS)
def test_events_given_as_numbers_have_the_same_result(word):
    rng = np.random.default_rng(3)
    p = rng.beta(2, 3, 600)
    columns = {"age": rng.integers(18, 80, 600), "region": rng.choice(list("abcd"), 600)}
    y = (rng.random(600) < p).astype(int)
    events = WORDS[word](miscal.Predictions(y, p, columns=columns))
    means = WORDS[word](miscal.Predictions(y, p, response="count", columns=columns))
    if word != "subpopulation":  # scaled by what is usual there, by p(1 - p) here
        assert means.value == pytest.approx(events.value, rel=1e-12)
    assert events.table["predicted"].size > 0
    if word in ("score", "variable", "field"):
        for name in ("predicted", "observed", "gap", "events_off", "ratio"):
            np.testing.assert_allclose(means.table[name], events.table[name], rtol=1e-9, atol=1e-12)


def test_nothing_of_events_is_said_of_means():
    result = miscal.by_score(claims())
    assert not {"slope", "intercept", "brier", "log_loss", "auc", "smooth", "certain", "in_the_large"} & set(
        result.extra
    )
    assert result.extra["ratio"]["value"] > 0

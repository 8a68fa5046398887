"""by_variation: what the result holds, its noise, and its displays."""

from __future__ import annotations

import json
import pickle

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import miscal
from miscal.datasets import calibrated_classes
from miscal.plots import VariationDisplay


@pytest.fixture(scope="module")
def predictions() -> miscal.Predictions:
    data = calibrated_classes(4000, n_classes=4)
    return miscal.Predictions(data.y_true, data.y_prob)


def test_the_result_holds_the_error_and_its_bins(predictions):
    result = miscal.by_variation(predictions)
    table = result.table
    y, p = predictions.outcome, predictions.probability
    assert result.value == miscal.metrics.variation_calibration_error(y, p)
    assert result.extra["uncertainty_error"] == miscal.metrics.uncertainty_calibration_error(y, p)
    assert table["rows"].sum() == 4000
    filled = table["rows"] > 0
    np.testing.assert_allclose(table["gap"][filled], (table["predicted"] - table["observed"])[filled], atol=1e-15)
    for name in ("predicted_ranks", "observed_ranks"):
        ranks = np.stack(list(table[name]))[filled]
        assert ranks.shape == (filled.sum(), 4)
        np.testing.assert_allclose(ranks.sum(axis=1), 1.0, atol=1e-12)
    ranks = np.stack(list(table["predicted_ranks"]))[filled]
    assert (np.diff(ranks, axis=1) <= 0).all()
    assert np.isnan(result.interval).all()
    assert "no interval" in result.method
    assert result.p_value > 0.01
    assert result.extra["predicted_ranks"].sum() == pytest.approx(1.0)


def test_the_noise_floor_is_the_mean_of_calibrated_data(predictions):
    """20 calibrated data sets: their mean error is the floor, which is conservative."""
    values, floors = [], []
    for seed in range(20):
        data = calibrated_classes(2000, n_classes=3, random_state=seed)
        result = miscal.by_variation(miscal.Predictions(data.y_true, data.y_prob))
        values.append(result.value)
        floors.append(result.noise_floor)
    error = np.std(values) / np.sqrt(20)
    assert np.mean(values) - 4 * error <= np.mean(floors) <= np.mean(values) * 1.25 + 4 * error


def test_a_planted_error_is_found(predictions):
    sharper = predictions.probability**1.5
    sharper /= sharper.sum(axis=1, keepdims=True)
    result = miscal.by_variation(predictions.with_probability(sharper))
    assert result.p_value == 0.001
    assert (result.table["gap"][result.table["p_adjusted"] < 0.05] < 0).all()  # too sure: variation is under-predicted


def test_seeds_specs_and_copies(predictions):
    one = miscal.by_variation(predictions, variation="qualitative_variation", strategy="quantile", random_state=3)
    spec = miscal.Variation(variation="qualitative_variation", strategy="quantile", random_state=3)
    two = miscal.measure(predictions, spec)[0]
    assert json.dumps(one.to_dict()) == json.dumps(two.to_dict())
    assert json.dumps(pickle.loads(pickle.dumps(one)).to_dict()) == json.dumps(one.to_dict())
    assert "uncertainty" not in one.extra


def test_clusters_widen_the_noise():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(3), 400)
    y = (np.cumsum(p, axis=1)[:, :-1] <= rng.random((400, 1))).sum(axis=1)
    y, p, cluster = np.repeat(y, 5), np.repeat(p, 5, axis=0), np.repeat(np.arange(400), 5)
    alone = miscal.by_variation(miscal.Predictions(y, p))
    together = miscal.by_variation(miscal.Predictions(y, p, cluster=cluster))
    assert together.settings["null"] == "residual"
    # Five copies of each row: noise of sqrt(5) times the size.
    assert together.noise_floor / alone.noise_floor == pytest.approx(np.sqrt(5), rel=0.25)


@pytest.mark.parametrize("variation", ["entropy", "confidence", "variation_ratio", "qualitative_variation"])
def test_the_residual_null_agrees_with_the_multinomial(predictions, variation):
    one = miscal.by_variation(predictions, variation=variation)
    two = miscal.by_variation(predictions, variation=variation, null="residual")
    assert two.noise_floor / one.noise_floor == pytest.approx(1.0, rel=0.3)


def test_the_residual_null_of_a_callable_is_that_of_the_name(predictions):
    squares = lambda ranked: 4 / 3 * (1 - (ranked**2).sum(axis=1))
    one = miscal.by_variation(predictions, variation=squares, range=(0, 1), null="residual")
    two = miscal.by_variation(predictions, variation="qualitative_variation", null="residual")
    assert one.noise_floor == pytest.approx(two.noise_floor, rel=1e-4)


def test_a_target_is_refused(predictions):
    with pytest.raises(miscal.MiscalError, match="target"):
        miscal.by_variation(predictions, target="top")


def test_aggregated_rows_are_rows():
    events, trials, p = [3, 1, 0], [4, 5, 2], [0.6, 0.3, 0.1]
    one = miscal.by_variation(miscal.Predictions(events, p, count=trials))
    y = np.concatenate([np.arange(n) < k for k, n in zip(events, trials, strict=True)]).astype(int)
    two = miscal.by_variation(miscal.Predictions(y, np.repeat(p, trials)))
    assert one.value == two.value
    assert one.noise_floor == two.noise_floor
    assert one.table["rows"].sum() == 11


def test_displays_draw_what_they_hold(predictions):
    import matplotlib.pyplot as plt

    result = miscal.by_variation(predictions)
    for display in [VariationDisplay(result, kind) for kind in ("variation", "uncertainty", "ranks")]:
        drawn = display.plot()
        assert drawn.ax_.get_xlabel()
        plt.close(drawn.figure_)
    x, y = result.plot().ax_.lines[-1].get_data()
    filled = result.table["rows"] > 0
    np.testing.assert_array_equal(x, result.table["predicted"][filled])
    np.testing.assert_array_equal(y, result.table["observed"][filled])
    bars = VariationDisplay(result, "ranks").plot(cell=6).ax_.patches
    assert [bar.get_height() for bar in bars[:4]] == list(result.table["predicted_ranks"][6])
    plt.close("all")
    with pytest.raises(miscal.MiscalError, match="entropy"):
        VariationDisplay(miscal.by_variation(predictions, variation="confidence"), "uncertainty").plot()


def test_false_alarms_are_as_rare_as_said():
    """100 calibrated data sets at 5%: at most 13, the 99.9% point of the binomial."""
    alarms = 0
    for seed in range(100):
        data = calibrated_classes(600, n_classes=5, concentration="skewed", random_state=seed)
        result = miscal.by_variation(miscal.Predictions(data.y_true, data.y_prob), random_state=seed)
        alarms += result.p_value <= 0.05
    assert alarms <= 13

"""Displays by neighbourhood: they draw what their frame holds, and the frame is what was measured."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import miscal
from miscal import MiscalError
from miscal.metrics import (
    abstention_reward,
    average_local_calibration_error,
    maximum_calibration_error,
    maximum_local_calibration_error,
)
from miscal.plots import BandwidthDisplay, RewardDisplay
from studies.wave import local_wave

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra plot")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def result() -> miscal.Result:
    data = local_wave(1500)
    p = miscal.Predictions(data.y_true, data.y_prob, columns=data.columns)
    return miscal.by_neighbourhood(p, ["x1", "x2"], bandwidth=0.4, bins=10, simulations=19)


def test_the_map_shows_the_best_and_the_worst_bin(result: miscal.Result) -> None:
    display = result.plot()
    assert (type(display), display.kind) == (miscal.plots.NeighbourhoodDisplay, "map")
    frame, local = display.frame(), result.extra["map"]
    gaps = {cell: abs(local.residual[local.cells == cell].mean()) for cell in np.unique(local.cells)}
    assert display.view.worst == max(gaps, key=lambda cell: gaps[cell])
    assert display.view.best == min(gaps, key=lambda cell: gaps[cell])
    assert (frame["gap"] == local.gap[frame["row"]]).all()
    assert len(display.figure_.axes) == 5
    drawn = display.figure_.axes[0].collections[0]
    assert sorted(drawn.get_array().tolist()) == sorted(frame["gap"][frame["bin"] == "best"].tolist())
    assert display.figure_.axes[0].get_xlabel() == "x1"
    plt.close("all")


def test_the_worst_are_listed_in_words(result: miscal.Result) -> None:
    display = miscal.plots.NeighbourhoodDisplay(result, "worst").plot()
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert len(labels) == result.table.rows
    assert f"{result.table['effective_rows'][0]:,.0f} rows" in labels[0]
    plt.close("all")


def test_one_feature_has_no_map() -> None:
    data = local_wave(300, dimensions=1)
    found = miscal.by_neighbourhood(
        miscal.Predictions(data.y_true, data.y_prob, columns=data.columns), "x1", simulations=9
    )
    assert found.plot().kind == "worst"
    with pytest.raises(MiscalError, match="two features"):
        miscal.plots.NeighbourhoodDisplay(found, "map")


def test_the_error_against_the_bandwidth_ends_at_its_limits() -> None:
    data = local_wave(400)
    x = np.column_stack(list(data.columns.values()))
    display = BandwidthDisplay.from_predictions(
        data.y_true,
        {"original": data.y_prob, "LoRe": data.truth},
        {"raw": x, "wide": x * 3},
        bandwidths=[1e-6, 0.2, 1e12],
        mark={"raw": 0.2},
    )
    frame = display.frame()
    first = (frame["features"] == "raw") & (frame["recalibration"] == "original")
    assert frame["error"][first][0] == pytest.approx(np.abs(data.y_prob - data.y_true).max())
    assert frame["error"][first][1] == maximum_local_calibration_error(data.y_true, data.y_prob, x)
    assert frame["error"][first][2] == pytest.approx(maximum_calibration_error(data.y_true, data.y_prob, target="top"))
    assert len(display.axes_) == len(display.figure_.axes) == 2
    line = display.ax_.lines[0]
    assert line.get_ydata().tolist() == frame["error"][first].tolist()
    assert line.get_xdata().tolist() == [1e-6, 0.2, 1e12]
    assert display.ax_.lines[-1].get_xdata() == [0.2, 0.2]
    assert [text.get_text() for text in display.figure_.legends[0].get_texts()] == ["original", "LoRe"]


def test_the_average_error_is_weighted_as_the_metric_is() -> None:
    data = local_wave(200)
    x = np.column_stack(list(data.columns.values()))
    weight = np.random.default_rng(0).integers(0, 3, 200)
    for weights in (None, weight):
        options = {"bins": 5, "target": "positive", "sample_weight": weights}
        display = BandwidthDisplay.from_predictions(
            data.y_true, data.y_prob, x, bandwidths=[0.1, 1.0], statistic="average", **options
        )
        expected = average_local_calibration_error(data.y_true, data.y_prob, x, bandwidth=[0.1, 1.0], **options)
        assert display.frame()["error"].tolist() == pytest.approx(expected.tolist(), abs=1e-14)
        assert display.figure_.get_supylabel() == "Average local calibration error"


def test_curves_measured_before_are_drawn_with_their_spread() -> None:
    curves = {"PCA": {"before": [0.9, 0.2], "after": [0.8, 0.1]}}
    spread = {"PCA": {"after": [0.05, 0.02]}}
    display = BandwidthDisplay(curves, [0.1, 1.0], spread=spread).plot()
    assert len(display.ax_.collections) == 1
    heights = display.ax_.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((0.08, 0.85))
    with pytest.raises(MiscalError, match="statistic"):
        BandwidthDisplay(curves, [0.1, 1.0], "median")
    with pytest.raises(MiscalError, match="2 numbers"):
        BandwidthDisplay({"PCA": {"before": [0.9]}}, [0.1, 1.0])
    with pytest.raises(MiscalError, match="one per feature space"):
        display.plot([display.ax_, display.ax_])
    for empty in ({}, {"PCA": {}}):
        with pytest.raises(MiscalError, match="at least one"):
            BandwidthDisplay(empty, [0.1, 1.0])


def test_the_reward_is_less_that_before_recalibration() -> None:
    data = local_wave(200)
    probabilities = {"original": data.y_prob, "truth": data.truth}
    display = RewardDisplay.from_predictions(data.y_true, probabilities, ratios=[2.0, 5.0])
    frame = display.frame()
    rewards = [
        abstention_reward(data.y_true, q, error_cost=c) / 200 for q in (data.y_prob, data.truth) for c in (2.0, 5.0)
    ]
    assert frame["reward"].tolist() == pytest.approx(rewards)
    assert frame["improvement"].tolist() == pytest.approx([0, 0, rewards[2] - rewards[0], rewards[3] - rewards[1]])
    lines = display.ax_.lines
    assert [line.get_label() for line in lines] == ["original", "truth"]
    assert lines[1].get_ydata().tolist() == frame["improvement"][2:].tolist()
    other = RewardDisplay(display.rewards, [2.0, 5.0], "truth").frame()
    assert other["improvement"].tolist() == pytest.approx([rewards[0] - rewards[2], rewards[1] - rewards[3], 0, 0])
    with pytest.raises(MiscalError, match="baseline"):
        RewardDisplay(display.rewards, [2.0, 5.0], "untruth")


def test_weights_of_the_reward_are_repetition() -> None:
    data = local_wave(150)
    weight = np.random.default_rng(1).integers(0, 4, 150)
    weighted = RewardDisplay.from_predictions(data.y_true, data.y_prob, ratios=[3.0], sample_weight=weight)
    repeated = RewardDisplay.from_predictions(
        np.repeat(data.y_true, weight), np.repeat(data.y_prob, weight), ratios=[3.0]
    )
    assert weighted.frame()["reward"] == pytest.approx(repeated.frame()["reward"])


def test_fitted_classifiers_are_compared() -> None:
    data = local_wave(300)
    x = np.column_stack(list(data.columns.values()))
    models = {
        "shallow": DecisionTreeClassifier(max_depth=1, random_state=0).fit(x, data.y_true),
        "deep": DecisionTreeClassifier(max_depth=6, random_state=0).fit(x, data.y_true),
    }
    given = {name: model.predict_proba(x) for name, model in models.items()}
    for display, same in (
        (
            BandwidthDisplay.from_estimators(models, x, data.y_true, bandwidths=[0.3]),
            BandwidthDisplay.from_predictions(data.y_true, given, x, bandwidths=[0.3]),
        ),
        (
            RewardDisplay.from_estimators(models, x, data.y_true),
            RewardDisplay.from_predictions(data.y_true, given),
        ),
    ):
        assert {name: values.tolist() for name, values in display.frame().items()} == {
            name: values.tolist() for name, values in same.frame().items()
        }
        with pytest.raises(MiscalError, match="'estimators'"):
            type(display).from_estimators({"none": None}, x, data.y_true)


def test_a_display_draws_on_axes_that_are_given() -> None:
    _, (left, right) = plt.subplots(1, 2)
    BandwidthDisplay({"PCA": {"before": [0.9, 0.2]}}, [0.1, 1.0]).plot(left)
    display = RewardDisplay({"before": [-0.5, -0.9]}, [2.0, 10.0]).plot(right, linewidth=3)
    assert (len(left.lines), len(right.lines)) == (1, 1)
    assert left.get_ylabel() == "Maximum local calibration error"
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["before"]
    assert display.figure_ is left.figure
    assert right.lines[0].get_linewidth() == 3


@pytest.mark.parametrize(("spaces", "grid"), [(1, (1, 1)), (3, (1, 3)), (4, (2, 2)), (5, (3, 2))])
def test_panels_of_many_feature_spaces_stand_in_two_columns(spaces: int, grid: tuple[int, int]) -> None:
    curves = {str(k): {"before": [0.9, 0.2]} for k in range(spaces)}
    display = BandwidthDisplay(curves, [0.1, 1.0]).plot()
    assert [panel.get_title(loc="left") for panel in display.axes_] == list(curves)
    assert display.ax_.get_gridspec().get_geometry() == grid
    assert sum(panel.get_visible() for panel in display.figure_.axes) == spaces

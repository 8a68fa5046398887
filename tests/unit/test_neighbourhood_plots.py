"""Displays by neighbourhood: they draw what their frame holds, and the frame is what was measured."""

from __future__ import annotations

import numpy as np
import pytest

import miscal
from miscal import MiscalError, datasets
from miscal.metrics import abstention_reward, maximum_calibration_error, maximum_local_calibration_error
from studies.figures_local_displays import BandwidthDisplay, RewardDisplay

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra plot")
matplotlib.use("Agg")


@pytest.fixture(scope="module")
def result() -> miscal.Result:
    data = datasets.local_wave(1500)
    p = miscal.Predictions(data.y_true, data.y_prob, columns=data.columns)
    return miscal.by_neighbourhood(p, ["x1", "x2"], bandwidth=0.4, bins=10, simulations=19)


def test_the_map_shows_the_best_and_the_worst_bin(result: miscal.Result) -> None:
    from matplotlib import pyplot as plt

    display = result.plot()
    assert isinstance(display, miscal.plots.LocalMapDisplay)
    frame, local = display.frame(), result.extra["map"]
    gaps = {cell: abs(local.residual[local.cells == cell].mean()) for cell in np.unique(local.cells)}
    assert display.worst == max(gaps, key=lambda cell: gaps[cell])
    assert display.best == min(gaps, key=lambda cell: gaps[cell])
    assert (frame["gap"] == local.gap[frame["row"]]).all()
    assert len(display.figure_.axes) == 5
    drawn = display.figure_.axes[0].collections[0]
    assert sorted(drawn.get_array().tolist()) == sorted(frame["gap"][frame["bin"] == "best"].tolist())
    assert display.figure_.axes[0].get_xlabel() == "x1"
    plt.close("all")


def test_the_worst_are_listed_in_words(result: miscal.Result) -> None:
    from matplotlib import pyplot as plt

    display = miscal.plots.WorstNeighbourhoodsDisplay(result).plot()
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert len(labels) == result.table.rows
    assert f"{result.table['effective_rows'][0]:,.0f} rows" in labels[0]
    plt.close("all")


def test_one_feature_has_no_map() -> None:
    data = datasets.local_wave(300, dimensions=1)
    found = miscal.by_neighbourhood(
        miscal.Predictions(data.y_true, data.y_prob, columns=data.columns), "x1", simulations=9
    )
    assert isinstance(found.plot(), miscal.plots.WorstNeighbourhoodsDisplay)
    with pytest.raises(MiscalError, match="two features"):
        miscal.plots.LocalMapDisplay(found)


def test_the_error_against_the_bandwidth_ends_at_its_limits() -> None:
    from matplotlib import pyplot as plt

    data = datasets.local_wave(400)
    x = np.column_stack(list(data.columns.values()))
    display = BandwidthDisplay.from_predictions(
        data.y_true, {"original": data.y_prob, "LoRe": data.truth}, {"raw": x, "wide": x * 3}, [1e-6, 0.2, 1e12]
    ).plot()
    frame = display.frame()
    first = (frame["features"] == "raw") & (frame["recalibration"] == "original")
    assert frame["error"][first][0] == pytest.approx(np.abs(data.y_prob - data.y_true).max())
    assert frame["error"][first][1] == maximum_local_calibration_error(data.y_true, data.y_prob, x)
    assert frame["error"][first][2] == pytest.approx(maximum_calibration_error(data.y_true, data.y_prob, target="top"))
    assert len(display.figure_.axes) == 2
    line = display.figure_.axes[0].lines[0]
    assert line.get_ydata().tolist() == frame["error"][first].tolist()
    with pytest.raises(MiscalError):
        BandwidthDisplay.from_predictions(data.y_true, {}, {}, statistic="median")
    plt.close("all")


def test_the_reward_is_over_the_originals() -> None:
    from matplotlib import pyplot as plt

    data = datasets.local_wave(200)
    display = RewardDisplay.from_predictions(
        data.y_true, {"original": data.y_prob, "truth": data.truth}, [2.0, 5.0]
    ).plot()
    frame = display.frame()
    rewards = [
        abstention_reward(data.y_true, q, error_cost=c) / 200 for q in (data.truth, data.y_prob) for c in (2.0, 5.0)
    ]
    assert frame["improvement"].tolist() == pytest.approx([0, 0, rewards[0] - rewards[2], rewards[1] - rewards[3]])
    plt.close("all")

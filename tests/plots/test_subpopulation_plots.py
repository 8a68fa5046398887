"""Displays of subpopulations draw what their frames say."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt

import miscal
from miscal.plots import SubpopulationDisplay
from studies.displays import RepairedSubpopulationsDisplay


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(3)
    score, age = rng.random(1500), rng.integers(20, 80, 1500)
    columns = {"age": age, "$ held": rng.choice(["$5", "$9"], 1500)}
    truth = np.where(age < 40, score**2, score)
    p = miscal.Predictions(rng.random(1500) < truth, score, columns=columns)
    return miscal.by_subpopulation(p, subpopulations=40, simulations=49)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_curves_span_the_kuiper_errors(result):
    frame = SubpopulationDisplay(result).frame()
    table = result.table
    for label in dict.fromkeys(frame["label"]):
        y = frame["y"][frame["label"] == label]
        row = int(np.flatnonzero(table["label"] == label)[0])
        assert abs((max(y.max(), 0) - min(y.min(), 0)) - table["kuiper"][row]) < 1e-12
        assert abs(y[-1] - table["gap"][row]) < 1e-12


def test_panels_are_drawn(result):
    display = result.plot()
    assert display.view.axes_.size == len(result.extra["cumulative"])
    display.figure_.canvas.draw()
    lines = display.view.axes_[0, 0].lines
    np.testing.assert_array_equal(lines[1].get_ydata(), result.extra["cumulative"][0]["y"])


def test_curves_on_given_axes(result):
    _, ax = plt.subplots()
    display = SubpopulationDisplay(result).plot(ax)
    assert display.ax_ is ax
    assert len(ax.get_legend().get_texts()) == len(result.extra["cumulative"])


def test_the_worst_in_rank(result):
    display = SubpopulationDisplay(result, "worst", most=5).plot()
    display.figure_.canvas.draw()
    points = display.ax_.collections[-1].get_offsets()
    np.testing.assert_allclose(points[:, 0], result.table["deviations"][:5])


def test_before_and_after(result):
    display = RepairedSubpopulationsDisplay({"before": result, "after": result}).plot()
    display.figure_.canvas.draw()
    assert [bar.get_width() for bar in display.ax_.patches] == [result.value, result.value]

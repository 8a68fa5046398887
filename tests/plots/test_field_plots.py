"""Figures by field hold what they draw, draw hostile names, and are chosen by the result."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

import miscal
from miscal.plots import FieldDisplay

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    mpl.pyplot.close("all")


@pytest.fixture
def data(rng):
    rows = 4000
    field = rng.integers(0, 40, rows)
    names = np.array(["$x_1$ <b> " + "long " * 9, "北京", *[f"level {k}" for k in range(38)]])[field]
    p = rng.beta(2, 8, rows)
    y = rng.random(rows) < np.where(field == 3, np.minimum(2.2 * p, 1), p)
    return miscal.Predictions(y, p, columns={"f": names, "sex": rng.choice(["f", "m"], rows), "day": field % 5})


def test_funnel_holds_every_level(data):
    display = FieldDisplay(miscal.by_field(data, "f"), "funnel").plot()
    drawn = display.frame()
    assert drawn.rows == 40
    assert drawn["label"][drawn["real"]].tolist() == ["level 1"]
    # With sizes at the mean rate, the limits are those of each level's own noise.
    tally = display.result.extra["tally"]
    error = np.sqrt(tally.variance) / tally.weight
    np.testing.assert_allclose(np.sqrt(display.view._unit() / drawn["size"]), error)
    display.figure_.canvas.draw()


def test_the_title_says_what_noise_alone_shows_and_takes_nothing_off(data):
    result = miscal.by_field(data, "f")
    title = FieldDisplay.from_result(result, kind="funnel").ax_.get_title(loc="left")
    assert f"error {result.value:.2%}, expected by chance {result.noise_floor:.2%}" in title


def test_caterpillar_orders_by_the_shrunken_gap(data):
    display = FieldDisplay(miscal.by_field(data, "f"), "caterpillar", most=7).plot()
    drawn = display.frame()
    assert drawn.rows == 7
    assert (np.diff(np.abs(drawn["shrunken"])) <= 0).all()
    assert drawn["label"][0] == "level 1"
    assert display.ax_.get_yticklabels()[0].get_text().startswith("level 1")
    display.figure_.canvas.draw()


def test_map_of_two_fields(data):
    result = miscal.by_field(data, ["day", "sex"])
    display = result.plot()
    assert (type(display), display.kind) == (FieldDisplay, "map")
    assert display.frame().rows == 10
    assert [t.get_text() for t in display.ax_.get_yticklabels()] == ["0", "1", "2", "3", "4"]
    few = FieldDisplay(result, "map", most=3).plot()
    assert "4 combinations" in few.ax_.get_title(loc="left")
    with pytest.raises(miscal.MiscalError, match="two crossed"):
        FieldDisplay(miscal.by_field(data, "sex"), "map")


def test_the_result_chooses_its_figure(data):
    assert miscal.by_field(data, "sex").plot().kind == "caterpillar"
    assert miscal.by_field(data, "f").plot().kind == "funnel"
    assert miscal.by_field(data, "f").plot(kind="caterpillar").kind == "caterpillar"
    with pytest.raises(miscal.MiscalError, match="funnel"):
        miscal.by_field(data, "sex").plot(kind="pie")

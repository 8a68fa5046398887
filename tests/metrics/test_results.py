"""Results and tables: what they hold, how they print, how they travel."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import miscal
from miscal.data.errors import MiscalError
from miscal.results import Table


@pytest.fixture
def result(rng: np.random.Generator) -> miscal.Result:
    p = rng.beta(2, 3, 2000)
    return miscal.by_score(miscal.Predictions(rng.random(2000) < p, p))


def test_a_table_converts_to_every_library() -> None:
    table = Table({"level": ["a", "b"], "gap": [0.1, -0.2], "rows": [3, 4]})
    assert pandas.DataFrame(table)["gap"].tolist() == [0.1, -0.2]
    assert table.to_pandas().equals(pandas.DataFrame(table))
    assert pyarrow.table(table).column("level").to_pylist() == ["a", "b"]
    assert polars.DataFrame(table)["level"].to_list() == ["a", "b"]
    assert pyarrow.table(table).column("rows").to_pylist() == [3, 4]
    assert table.to_dict() == {"level": ["a", "b"], "gap": [0.1, -0.2], "rows": [3, 4]}


def test_a_table_refuses_unequal_columns_and_unknown_names() -> None:
    with pytest.raises(MiscalError, match="equal lengths"):
        Table({"a": [1], "b": [1, 2]})
    with pytest.raises(MiscalError, match="did you mean 'gap'"):
        Table({"gap": [1.0]})["gapp"]


def test_a_tables_html_escapes_what_users_named() -> None:
    shown = Table({"<b>": ["</script><script>alert(1)</script>"]})._repr_html_()
    assert "<script>" not in shown
    assert "&lt;b&gt;" in shown
    assert Table({"a": range(30)})._repr_html_().startswith("<table><caption>10 more rows</caption><tr><th>a</th></tr>")


def test_a_result_says_what_it_found(result: miscal.Result) -> None:
    text = repr(result)
    assert text.startswith("Calibration by score: ")
    assert "where calibrated predictions would show" in text
    assert "band_low" in text
    assert "<p>Calibration by score" in result._repr_html_()


def test_a_result_survives_pickle_and_json(result: miscal.Result) -> None:
    again = pickle.loads(pickle.dumps(result))
    assert again.value == result.value
    assert dict(again.settings) == dict(result.settings)
    document = json.loads(json.dumps(result.to_dict()))
    assert document["value"] == result.value
    assert document["table"]["gap"] == result.table["gap"].tolist()
    assert "tally" not in document["extra"]


def test_a_result_cannot_be_changed(result: miscal.Result) -> None:
    with pytest.raises(AttributeError):
        result.value = 0.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        result.settings["bins"] = 3  # type: ignore[index]


def test_displays_draw_and_hand_back_their_data(result: miscal.Result) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawn = result.plot(name="model A")
    assert drawn.frame()["observed"].tolist() == result.table["observed"].tolist()
    labels = [text.get_text() for text in drawn.ax_.get_legend().get_texts()]
    assert labels == ["Perfectly calibrated", "95% noise band", "model A"]
    walk = miscal.plots.ScoreDisplay(result, "cumulative").plot()
    top, bottom = max(0.0, walk.frame()["y"].max()), min(0.0, walk.frame()["y"].min())
    assert abs((top - bottom) - result.extra["kuiper"]) <= 1e-3  # the curve shows 400 of 2,000 points
    plt.close("all")


def test_measure_runs_specs_like_their_functions(rng: np.random.Generator) -> None:
    score = rng.random(500)
    columns = {"age": rng.integers(0, 90, 500), "state": rng.choice(["a", "b"], 500)}
    p = miscal.Predictions(rng.random(500) < score, score, columns=columns)
    one, two, three = miscal.measure(p, miscal.Score(bins=5), miscal.Variable("age"), miscal.Field("state"))
    assert one.value == miscal.by_score(p, bins=5).value
    assert two.p_value == miscal.by_variable(p, "age").p_value
    assert three.table["gap"].tolist() == miscal.by_field(p, "state").table["gap"].tolist()
    with pytest.raises(MiscalError, match="specs"):
        miscal.measure(p, "state")  # type: ignore[arg-type]

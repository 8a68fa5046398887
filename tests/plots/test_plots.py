"""Six displays, made three ways; and whatever an audit measured can be drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

import miscal
from miscal import MiscalError, plots

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra plot")
matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402

QUICK = {"neighbourhood": {"simulations": 9}, "subpopulation": {"subpopulations": 10, "simulations": 9}}
BY = {"variable": ["age"], "field": ["state"], "neighbourhood": ["age", "income"], "subpopulation": ["age", "income"]}
DISPLAYS = {cls.word: cls for cls in (getattr(plots, name) for name in plots.__all__) if hasattr(cls, "word")}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    age, income = rng.normal(50.0, 12.0, 400), rng.normal(0.0, 1.0, 400)
    chance = 1 / (1 + np.exp(-(age - 50) / 10 - income))
    state = rng.choice([3, 5, 8], 400)
    return pd.DataFrame({"age": age, "income": income, "state": state, "y": (rng.random(400) < chance).astype(int)})


def test_there_is_one_display_a_word():
    assert set(DISPLAYS) == {"score", "variable", "field", "variation", "neighbourhood", "subpopulation"}
    assert [f"{word.capitalize()}Display" for word in DISPLAYS] == [cls.__name__ for cls in DISPLAYS.values()]


@pytest.mark.parametrize("word", DISPLAYS)
def test_results_predictions_and_estimators_are_drawn_alike(table, word):
    features = table[["age", "income", "state"]]
    for y in (table["y"], np.where(table["y"] == 1, "yes", "no")):
        model = LogisticRegression().fit(features, y)
        names, options = BY.get(word, []), QUICK.get(word, {})
        p = model.predict_proba(features)
        columns = {name: table[name] for name in names}
        held = miscal.Predictions(table["y"], p[:, 1], columns=columns)
        pooled = [names[0] if len(names) == 1 else names] if names else []
        result = getattr(miscal, f"by_{word}")(held, *pooled, **options)
        by = (names[0] if len(names) == 1 else names) if names else None
        made = [
            DISPLAYS[word].from_result(result),
            DISPLAYS[word].from_predictions(table["y"], p[:, 1], columns or None, **options),
            DISPLAYS[word].from_estimator(model, features, y, by, **options),
            result.plot(),
        ]
        for display in made:
            assert type(display) is DISPLAYS[word]
            assert display.figure_ is display.ax_.figure
            assert display.result.value == result.value
            assert {name: values.tolist() for name, values in display.frame().items()} == {
                name: values.tolist() for name, values in made[0].frame().items()
            }
        for kind in DISPLAYS[word].views:
            if word != "field" or kind != "map":
                assert DISPLAYS[word].from_result(result, kind=kind).kind == kind


def test_values_arrays_and_frames_say_what_rows_are_pooled_by(table):
    y, p = table["y"], np.full(400, 0.5)
    values = table["age"].to_numpy()
    for by in (
        values,
        values.tolist(),
        table["age"],
        {"age": values},
        pl.DataFrame({"age": values}),
        pl.Series(values),
        pa.array(values),
    ):
        assert plots.VariableDisplay.from_predictions(y, p, by).frame().rows == 100
    named = plots.VariableDisplay.from_predictions(y, p, table["age"])
    assert named.ax_.get_xlabel() == "age"
    array = table[["age", "income"]].to_numpy()
    model = LogisticRegression().fit(array, y)
    assert plots.VariableDisplay.from_estimator(model, array, y, "x1").ax_.get_xlabel() == "x1"
    assert plots.FieldDisplay.from_estimator(model, array, y, table["state"]).ax_.get_xlabel()
    axes = plt.subplots()[1]
    assert plots.ScoreDisplay.from_estimator(model, array, y, ax=axes, bins=5).ax_ is axes


def test_what_cannot_be_drawn_is_refused(table):
    y, p = table["y"], np.linspace(0.1, 0.9, 400)
    result = miscal.by_score(miscal.Predictions(y, p))
    with pytest.raises(MiscalError, match="must be of by_field; its kind is score"):
        plots.FieldDisplay(result)
    with pytest.raises(MiscalError, match="'kind' must be 'reliability' or 'cumulative'; got 'pie'"):
        plots.ScoreDisplay(result, "pie")
    with pytest.raises(MiscalError, match="VariableDisplay needs the columns that rows are pooled by"):
        plots.VariableDisplay.from_predictions(y, p)
    with pytest.raises(MiscalError, match="ScoreDisplay takes no columns"):
        plots.ScoreDisplay.from_predictions(y, p, table["age"])
    with pytest.raises(MiscalError, match="must be a fitted classifier with predict_proba"):
        plots.ScoreDisplay.from_estimator(object(), table[["age"]], y)
    model = LogisticRegression().fit(table[["age"]], y)
    with pytest.raises(MiscalError, match="'X' has no column 'agee'"):
        plots.VariableDisplay.from_estimator(model, table[["age"]], y, "agee")


def test_several_classes_are_drawn_from_an_estimator(table):
    model = LogisticRegression().fit(table[["age", "income"]], table["state"])
    made = plots.VariationDisplay.from_estimator(model, table[["age", "income"]], table["state"])
    held = miscal.Predictions(table["state"], model.predict_proba(table[["age", "income"]]), classes=[3, 5, 8])
    assert made.result.value == miscal.by_variation(held).value


@pytest.mark.parametrize("memory", [None, "600MB"])
def test_every_result_of_an_audit_is_drawn(tmp_path, rng, memory):
    p = rng.random(600).round(3)
    frame = pd.DataFrame(
        {
            "y": (rng.random(600) < p).astype(int), "p": p, "state": rng.choice(["CA", "NY $"], 600),
            "age": rng.normal(40, 9, 600), "few": rng.integers(0, 3, 600), "zeros": np.where(p < 0.8, 0.0, p),
            "missing": np.where(p < 0.2, np.nan, rng.random(600)),
            "day": pd.date_range("2024-01-01", periods=600, freq="6h").astype(str).str[:10],
        }
    )  # fmt: skip
    frame.to_parquet(tmp_path / "t.parquet")
    found = miscal.audit(tmp_path / "t.parquet", outcome="y", probability="p", time="day", memory=memory)
    assert {"score", "field", "variable", "period", "subpopulation"} <= {result.kind for result in found.results}
    for result in found.results:
        drawn = result.plot()
        drawn.figure_.canvas.draw()
        assert drawn.frame().rows > 0
        plt.close("all")


def _seen(display) -> list:
    """The artists that were given the style."""
    return [each for each in display.figure_.findobj() if each.get_gid() == "seen"]


def test_style_goes_to_what_shows_what_was_observed(table):
    y, p = table["y"], np.linspace(0.1, 0.9, 400)
    columns = {name: table[name] for name in ("age", "income", "state")}
    three = miscal.datasets.calibrated_classes(400, n_classes=3)
    held, classes = miscal.Predictions(y, p, columns=columns), miscal.Predictions(three.y_true, three.y_prob)
    results = [
        miscal.by_score(held),
        miscal.by_variable(held, "age"),
        miscal.by_field(held, ["state", "age"]),
        miscal.by_variation(classes, variation="entropy"),
        miscal.by_neighbourhood(held, ["age", "income"], simulations=9),
        miscal.by_subpopulation(held, subpopulations=10, simulations=9),
    ]
    style = {"gid": "seen", "alpha": 0.25, "zorder": 7}
    for result in results:
        for kind in DISPLAYS[result.kind].views:
            for ax in (None, plt.subplots()[1]):
                seen = _seen(result.plot(kind=kind, ax=ax, **style))
                assert seen, (result.kind, kind)
                assert {(each.get_alpha(), each.get_zorder()) for each in seen} == {(0.25, 7)}
                plt.close("all")
    look = {"gid": "seen", "color": "black", "label": "mine", "linewidth": 3, "marker": "s", "linestyle": ":"}
    for result, kind in [
        (results[0], None),
        (results[1], None),
        (results[3], "variation"),
        (results[3], "uncertainty"),
    ]:
        display = result.plot(kind=kind, **look)
        (line,) = _seen(display)
        frame = display.frame()
        assert line.get_ydata().tolist() == frame["error" if kind == "uncertainty" else "observed"].tolist()
        assert (line.get_color(), line.get_label(), line.get_linewidth()) == ("black", "mine", 3)
        assert (line.get_marker(), line.get_linestyle()) == ("s", ":")
    ranks = results[3].plot(kind="ranks", gid="seen", color="black", width=0.1, label="mine")
    assert [bar.get_height() for bar in _seen(ranks)] == ranks.frame()["observed"].tolist()


def test_style_goes_to_classes_and_periods(tmp_path):
    three = miscal.datasets.calibrated_classes(900, n_classes=3)
    classes = miscal.by_class(miscal.Predictions(three.y_true, three.y_prob))
    data = miscal.datasets.calibrated(600)
    day = np.arange("2024-01-01", "2024-05-30", dtype="datetime64[D]")[:150].repeat(4)
    frame = pd.DataFrame({"y": data.y_true, "p": data.y_prob, "day": day.astype(str)})
    frame.to_parquet(tmp_path / "t.parquet")
    audit = miscal.audit(tmp_path / "t.parquet", outcome="y", probability="p", time="day", effort="quick")
    periods = next(result for result in audit.results if result.kind == "period")
    for result in (classes, periods):
        (dots,) = _seen(result.plot(gid="seen", marker="s", s=50, color="black", label="mine"))
        assert (dots.get_sizes().tolist(), dots.get_label()) == ([50.0], "mine")
        assert dots.get_facecolor().tolist() == [[0.0, 0.0, 0.0, 1.0]]


def _two_models(table) -> dict[str, np.ndarray]:
    """A model that sees the age, and one that does not."""
    models = {}
    for name, columns in (("with age", ["age", "income"]), ("without age", ["income"])):
        models[name] = LogisticRegression().fit(table[columns], table["y"]).predict_proba(table[columns])
    return models


@pytest.mark.parametrize("target", ["positive", "top"])
def test_gaps_of_several_predictions_are_compared_along_a_variable(table, target):
    models = _two_models(table)
    results = {}
    for name, p in models.items():
        held = miscal.Predictions(table["y"], p[:, 1], columns={"age": table["age"]})
        results[name] = miscal.by_variable(held, "age", target=target)
    cls = plots.VariableComparisonDisplay
    axes = plt.subplots()[1]
    made = [
        cls(results).plot(),
        cls.from_results(results),
        cls.from_predictions(table["y"], models, table["age"], target=target, ax=axes),
    ]
    assert made[2].ax_ is axes
    for display in made:
        assert display.figure_ is display.ax_.figure
        drawn = display.frame()
        lines = [line for line in display.ax_.lines if line.get_label() in results]
        assert [line.get_label() for line in lines] == list(results)
        for line, (name, result) in zip(lines, results.items(), strict=True):
            curve = result.extra["curve"]
            sign = -1 if target == "top" else 1  # of the errors, which are one minus the rates
            rows = drawn["model"] == name
            np.testing.assert_allclose(drawn["gap"][rows], sign * (curve["predicted"] - curve["observed"]), atol=1e-12)
            assert line.get_ydata().tolist() == drawn["gap"][rows].tolist()
            assert line.get_xdata().tolist() == curve["value"].tolist()
            assert (drawn["gap_low"][rows] < drawn["gap"][rows]).all()
            assert (drawn["gap"][rows] < drawn["gap_high"][rows]).all()
        error = " error" if target == "top" else ""
        assert display.ax_.get_ylabel() == f"Predicted minus observed{error}"
        assert display.ax_.get_xlabel() == "age"
        assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == list(results)
    # What the comparison is for: the gap is larger without the variable.
    drawn = made[0].frame()
    with_age = drawn["model"] == "with age"
    assert np.abs(drawn["gap"][with_age]).mean() < 0.5 * np.abs(drawn["gap"][~with_age]).mean()


def test_reliability_stands_beside_the_curve_along_a_variable(table):
    models, by = _two_models(table), {"age": table["age"]}
    cls = plots.ScoreAndVariableDisplay
    made = cls.from_predictions(table["y"], models, by, score={"bins": 5}, target="top", bins=4)
    pairs = made.results
    for name, (score, variable) in pairs.items():
        held = miscal.Predictions(table["y"], models[name][:, 1], columns=by)
        assert score.value == miscal.by_score(held, bins=5, target="top").value
        assert variable.value == miscal.by_variable(held, "age", bins=4, target="top").value
    axes = plt.subplots(2, 2)[1]
    for display in (made, cls(pairs).plot(), cls.from_results(pairs, axes=axes, gid="seen")):
        assert display.axes_.shape == (2, 2)
        assert display.ax_ is display.axes_[0, 0]
        drawn = display.frame()
        for row, name in zip(display.axes_, pairs, strict=True):
            assert [ax.get_title(loc="left") for ax in row] == [name, name]
            for ax, panel, label in zip(row, ("score", "variable"), ("Observed", "Observed error"), strict=True):
                (line,) = (line for line in ax.lines if line.get_label() == label)
                points = drawn.take((drawn["model"] == name) & (drawn["panel"] == panel))
                assert line.get_xdata().tolist() == points["value"].tolist()
                assert line.get_ydata().tolist() == points["observed"].tolist()
        assert display.axes_[0, 1].get_ylim() == display.axes_[1, 1].get_ylim()
    assert len(_seen(display)) == 4


def test_comparisons_of_what_cannot_be_compared_are_refused(table):
    held = miscal.Predictions(
        table["y"], np.linspace(0.1, 0.9, 400), columns={"age": table["age"], "income": table["income"]}
    )
    age, income = miscal.by_variable(held, "age"), miscal.by_variable(held, "income")
    score = miscal.by_score(held)
    for display in (plots.VariableComparisonDisplay, plots.ScoreAndVariableDisplay):
        with pytest.raises(MiscalError, match="'results' must have at least one entry; it is empty"):
            display({})
        with pytest.raises(MiscalError, match="'y_probs' must have at least one entry; it is empty"):
            display.from_predictions(table["y"], {}, table["age"])
    with pytest.raises(MiscalError, match=r"one column and one target; column age, .*; column income"):
        plots.VariableComparisonDisplay({"a": age, "b": income})
    with pytest.raises(MiscalError, match="must be of by_variable; its kind is score"):
        plots.VariableComparisonDisplay({"a": score})
    with pytest.raises(MiscalError, match="must have a curve"):
        plots.VariableComparisonDisplay({"a": miscal.by_variable(held, "age", curve=False)})
    with pytest.raises(MiscalError, match="must have a result of by_score first; its kind is variable"):
        plots.ScoreAndVariableDisplay({"a": (age, age)})
    with pytest.raises(MiscalError, match="must have one target in each pair; they are positive and top"):
        plots.ScoreAndVariableDisplay({"a": (score, miscal.by_variable(held, "age", target="top"))})
    with pytest.raises(MiscalError, match="must be 1 x 2 axes, two for each prediction; got 3"):
        plots.ScoreAndVariableDisplay({"a": (score, age)}).plot(plt.subplots(1, 3)[1])

"""Figures: well formed, described, with the data behind them, for ordinary and for degenerate results."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from miscal import Predictions, by_score
from miscal.report.codec import plain
from miscal.report.findings import Finding
from miscal.report.html import column_figures as columns
from miscal.report.html import gap_figures as gaps
from miscal.report.html.column_figures import cumulative, deviation_reach
from miscal.report.html.marks import Figure
from miscal.report.result_tables import Cells, CumulativeDifferences, ResultView

SAMPLE = json.loads((Path(__file__).parents[1] / "data" / "audit_sample.json").read_text(encoding="utf-8"))
SCORE = SAMPLE["sections"]["score"][0]
VARIABLE = SAMPLE["sections"]["variable"][0]
FIELD = SAMPLE["sections"]["field"][2]
PERIODS: dict[str, Any] = {
    "settings": {"column": "when"},
    "extra": {"column": "when", "every": "month"},
    "table": {
        "label": ["2024-01", "2024-02", "2024-04", "(missing)"],
        "rows": [100, 120, 90, 4],
        "predicted": [0.2, 0.21, 0.22, 0.1],
        "observed": [0.2, 0.4, 0.2, 0.0],
        "gap": [0.0, -0.19, 0.02, 0.1],
        "gap_low": [-0.1, -0.3, -0.08, -0.4],
        "gap_high": [0.1, -0.08, 0.12, 0.6],
        "band_low": [0.12, 0.13, 0.13, 0.0],
        "band_high": [0.28, 0.29, 0.31, 0.5],
        "p_adjusted": [1.0, 0.001, 1.0, 1.0],
        "change": [None, -0.19, 0.21, None],
        "verdict": ["first", "worse", "better", "no date"],
        "words": ["a", "b", "c", "d"],
    },
}


def of_entry(draw: Callable[..., Figure]) -> Callable[[dict[str, Any]], Figure]:
    """Draw a result as it stands in the document."""
    return lambda result: draw(ResultView.from_dict(result))


def cells(result: dict[str, Any]) -> Cells:
    return ResultView.from_dict(result).cells


def walk_of(curve: dict[str, Any]) -> CumulativeDifferences:
    (walk,) = ResultView.from_dict({"extra": {"cumulative": curve}}).walks
    return walk


reliability, variable = of_entry(gaps.reliability), of_entry(columns.variable)
field_levels, field_funnel = of_entry(columns.field_levels), of_entry(columns.field_funnel)


def period_rates(result: dict[str, Any]) -> Figure:
    return columns.periods(ResultView.from_dict(result))[0]


def period_gaps(result: dict[str, Any]) -> Figure:
    return columns.periods(ResultView.from_dict(result))[1]


def gap_card(finding: dict[str, Any]) -> Figure:
    return gaps.gap_card(Finding.from_dict(finding))


FIGURES: dict[str, tuple[Callable[..., Figure], dict[str, Any]]] = {
    "reliability": (reliability, SCORE),
    "cumulative": (lambda result: cumulative(walk_of(result["extra"]["cumulative"])), SCORE),
    "variable": (variable, VARIABLE),
    "field": (field_levels, FIELD),
    "funnel": (field_funnel, FIELD),
    "gap": (gap_card, SAMPLE["findings"][0]),
    "periods": (period_gaps, PERIODS),
}


def width(text: str, size: float = 11.5) -> float:
    """How wide a text is at most, in pixels: capitals and digits are wider than letters, some letters are narrow."""
    ems = [0.36 if c in "iIjltfr.,:;'|!()[] -" else 0.6 if c.islower() or c.isdigit() else 0.8 for c in text]
    return size * sum(ems)


def parsed(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(figure.svg)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_well_formed_described_and_within_its_frame(name: str) -> None:
    draw, result = FIGURES[name]
    figure = draw(result)
    root = parsed(figure)
    assert root.attrib["role"] == "img"
    assert root.findtext("title") == figure.title
    assert root.findtext("desc") == figure.description
    assert not [e for e in root.iter() if "style" in e.attrib], "a style attribute would be refused by the policy"
    _, _, width, height = (float(v) for v in root.attrib["viewBox"].split())
    for dot in root.iter("circle"):
        assert -1 <= float(dot.attrib["cx"]) <= width + 1
        assert -1 <= float(dot.attrib["cy"]) <= height + 1
    assert "nan" not in figure.svg
    assert figure.table or name in ("gap", "funnel")  # whose numbers stand beside them
    assert len({len(column) for column in figure.table.values()}) <= 1


@pytest.mark.parametrize("name", sorted(FIGURES.keys() - {"cumulative"}))
@pytest.mark.parametrize("empty", [{}, {"table": {}}, {"table": {"predicted": [], "observed": []}}, {"table": None}])
def test_a_figure_of_nothing_says_so_and_does_not_fail(name: str, empty: dict[str, Any]) -> None:
    figure = FIGURES[name][0](empty)
    assert figure.title
    assert figure.svg == "" or parsed(figure) is not None


@pytest.mark.parametrize(
    "draw",
    [reliability, variable, field_levels, field_funnel, period_gaps, period_rates],
)
@pytest.mark.parametrize(
    "table",
    [
        {"predicted": [0.2], "observed": [0.2], "rows": [1]},
        {"predicted": [0.0, 0.0], "observed": [0.0, 0.0], "rows": [0, 0], "low": [0, 0], "high": [0, 0]},
        {"predicted": [None, 0.5], "observed": [0.1, None], "rows": [None, 3]},
        {
            "predicted": [1.0],
            "observed": [0.0],
            "rows": [5],
            "gap_low": [-1.0],
            "gap_high": [1.0],
            "label": ["x" * 900],
        },
        {"predicted": [1e-6, 2e-6], "observed": [0.0, 1e-5], "rows": [1e9, 1e9], "low": [0, 1e-6], "high": [1e-6, 1]},
    ],
)
def test_degenerate_tables_are_drawn(draw: Callable[..., Figure], table: dict[str, Any]) -> None:
    figure = draw({"table": table, "name": "x"})
    assert "nan" not in figure.svg
    assert not figure.svg or parsed(figure) is not None


def test_points_beyond_noise_are_coloured_by_their_direction() -> None:
    table = {"predicted": [0.1, 0.5, 0.9], "observed": [0.3, 0.5, 0.6], "rows": [9, 9, 9], "p_value": [0.01, 0.9, 0.01]}
    dots = list(parsed(reliability({"table": table})).iter("circle"))
    assert [dot.attrib["class"].split()[-1] for dot in dots] == ["under", "noise", "over"]


def test_the_adjusted_p_value_decides_over_the_raw_one() -> None:
    table = {"predicted": [0.1], "observed": [0.3], "p_value": [0.01], "p_adjusted": [0.2]}
    assert not cells({"table": table}).beyond[0]


def test_the_kuiper_range_is_visible() -> None:
    walk = {"x": [0.0, 0.5, 1.0], "y": [0.0, 0.03, 0.01], "band": [0.0, 0.002, 0.003]}
    figure = cumulative(walk_of(walk))
    assert "3.00 pp" in figure.svg
    assert "Their range, 3.00 pp, is the Kuiper statistic" in figure.description
    brackets = [e for e in parsed(figure).iter("line") if e.attrib["class"] == "bracket"]
    y = [float(brackets[0].attrib[key]) for key in ("y1", "y2")]
    heights = [float(pair.split(",")[1]) for pair in next(parsed(figure).iter("polyline")).attrib["points"].split()]
    assert {round(v, 1) for v in y} == {min(heights), max(heights)}


def test_axes_are_logit_when_scores_crowd_near_zero() -> None:
    rare = {
        "table": {"predicted": [0.001, 0.004, 0.02, 0.3], "observed": [0.0, 0.005, 0.02, 0.2], "rows": [9, 9, 9, 1]}
    }
    p = np.linspace(0.001, 0.04, 200)
    for y_prob, axis in ((p, "logit"), (p + 0.4, "linear")):
        measured = by_score(Predictions(np.arange(200) % 2, y_prob))
        assert f"{axis} axes" in reliability(plain(measured.to_dict())).description
    assert "logit axes" in reliability(rare | {"extra": {"axis": "logit"}}).description
    assert "linear axes" in reliability(rare | {"extra": {"axis": "linear"}}).description
    ticks = [e.text for e in parsed(reliability(rare | {"extra": {"axis": "logit"}})).iter("text")]
    assert {"0.1%", "1%", "10%"} <= set(ticks)


def test_a_bar_of_the_histogram_has_the_area_of_its_rows() -> None:
    table = {
        "predicted": [0.1, 0.9],
        "observed": [0.1, 0.9],
        "rows": [100, 50],
        "low": [0.0, 0.25],
        "high": [0.25, 1.0],
    }
    bars = list(parsed(reliability({"table": table})).iter("rect"))
    areas = [(float(b.attrib["width"]) + 1.0) * float(b.attrib["height"]) for b in bars]
    assert math.isclose(areas[0] / areas[1], 2.0, rel_tol=0.02)  # coordinates have one decimal


def test_levels_shown_are_the_strongest_and_say_how_many_there_are() -> None:
    many = 40
    gap = np.where(np.arange(many) == 17, 0.2, 0.001)
    table = {
        "level": [f"level {i}" for i in range(many)],
        "rows": [1000] * many,
        "predicted": (0.3 + gap).tolist(),
        "observed": [0.3] * many,
        "gap_low": (gap - 0.05).tolist(),
        "gap_high": (gap + 0.05).tolist(),
    }
    figure = field_levels({"table": table, "settings": {"field": "f"}})
    assert "level 17" in figure.svg
    assert figure.note.startswith("10 of 40 categories")
    assert figure.description == "40 categories, 1 with a significant gap."
    assert len(figure.table["label"]) == many


def test_ranges_are_named_in_words() -> None:
    def labels(table: dict[str, Any], **extra: object) -> list[str]:
        return cells({"table": table, "extra": extra}).label

    edges = {"low": [0.0, 3.0, None], "high": [3.0, 8.0, None]}
    assert labels(edges) == ["0 to 3", "3 to 8", "missing"]
    assert labels(edges, integer=True) == ["0 to 3", "4 to 8", "missing"]
    assert labels({"low": [7, 7, 8], "high": [7, 8, 9]}, integer=True) == ["7", "8", "9"]
    assert labels({"low": [-5e-324, 0.0], "high": [0.0, 1.5]}) == ["0", "0 to 1.5"]
    assert labels({"low": [15887.0], "high": [15905.0]}, column_kind="date") == ["2013-07-01 to 2013-07-19"]
    assert labels({"label": ["(1, 2]", "(2, 3]"], "low": [1, 2], "high": [2, 3]}) == ["1 to 2", "2 to 3"]


def test_a_range_whose_edges_are_equal_in_print_has_one_number_under_the_axis() -> None:
    table = {
        "predicted": [0.1, 0.2],
        "observed": [0.1, 0.2],
        "rows": [9, 9],
        "low": [-5e-324, 0.0],
        "high": [0.0, 1.21],
    }
    ticks = [e.text for e in parsed(variable({"table": table})).iter("text") if e.attrib["y"] == "220"]
    assert sorted(ticks) == ["0", "0 to 1.21"]


def test_ten_thousand_levels_stay_small() -> None:
    rng = np.random.default_rng(0)
    table = {
        "level": [f"v{i}" for i in range(10_000)],
        "rows": rng.integers(1, 1000, 10_000),
        "predicted": rng.random(10_000),
    }
    table["observed"] = rng.random(10_000)
    figure = field_funnel({"table": table, "name": "f"})
    assert len(figure.svg) < 150_000
    assert "600 of 10,000 categories" in figure.note


def test_a_funnel_names_those_beyond_noise_that_are_furthest_out() -> None:
    table = {"level": list("abcd"), "rows": [10, 10**2, 10**3, 10**4], "gap": [0.2, -0.1, 0.05, 0.1]}
    table["p_adjusted"] = [0.5, 0.01, 0.5, 0.01]
    named = [e.text for e in parsed(field_funnel({"table": table, "name": "f"})).iter("text")]
    assert set("abcd") <= set(named)
    together = table | {"rows": [10**3] * 4, "gap": [0.101, 0.1, 0.099, 0.098]}
    figure = parsed(field_funnel({"table": together, "name": "f"}))
    assert [e.text for e in figure.iter("text") if e.text in "abcd"] == ["b"]


def test_a_gap_within_noise_has_no_signal_colour() -> None:
    finding = {"where": "x", "predicted": 0.2, "observed": 0.1}
    inside = parsed(gap_card(finding | {"interval": [-0.05, 0.25]}))
    beyond = parsed(gap_card(finding | {"interval": [0.05, 0.15]}))
    assert [dot.attrib["class"].split()[-1] for dot in inside.iter("circle")] == ["ring", "noise"]
    assert [dot.attrib["class"].split()[-1] for dot in beyond.iter("circle")] == ["ring", "over"]


def test_a_walk_without_a_band_is_drawn_and_the_exact_range_is_written() -> None:
    extra = {"cumulative": {"x": [0.0, 1.0], "y": [0.0, 0.02]}, "kuiper": 0.0213}
    figure = cumulative(ResultView.from_dict({"extra": extra}).walks[0])
    assert "2.13 pp" in figure.svg
    assert "band" not in figure.svg
    assert set(figure.table) == {"share_of_rows", "running_total"}


def test_periods_name_the_steps_that_changed_and_leave_out_rows_without_a_date() -> None:
    gaps = parsed(period_gaps(PERIODS))
    assert len(list(gaps.iter("circle"))) == 3
    assert sorted(e.text or "" for e in gaps.iter("text") if e.attrib["y"] == "33") == ["better", "worse"]
    ticks = [e.text for e in gaps.iter("text") if e.attrib.get("class") == "tick"]
    assert {"January 2024", "April 2024"} <= set(ticks)
    assert period_gaps(PERIODS).table["words"] == ["a", "b", "c", "d"]
    rates = parsed(period_rates(PERIODS))
    assert len(list(rates.iter("circle"))) == 3


def test_running_totals_share_one_scale_in_deviations() -> None:
    walks = [
        {"x": [0.0, 0.5, 1.0], "y": [0.0, 0.05, 0.1], "band": [0.0, 0.01, 0.0196]},  # ends 10 deviations up
        {"x": [0.0, 0.5, 1.0], "y": [0.0, -0.05, -0.1], "band": [0.0, 0.1, 0.196]},  # and 1 down, on its own noise
    ]
    reach = deviation_reach([walk_of(walk) for walk in walks])
    assert reach == (-2.5, 10.0)
    ends = []
    for walk in walks:
        figure = cumulative(walk_of(walk), reach)
        assert "standard errors" in figure.svg
        assert figure.table["running_total"] == walk["y"]  # the data stay shares of the rows
        points = next(e for e in parsed(figure).iter("polyline") if "differences" in e.attrib["class"]).attrib["points"]
        first, last = (float(points.split()[k].split(",")[1]) for k in (0, -1))
        ends.append(first - last)
    assert ends[0] == pytest.approx(-10 * ends[1], abs=2.0)
    unknown = cumulative(walk_of({"x": [0.0, 1.0], "y": [0.0, 0.1]}), reach)
    assert "observed (pp)" in unknown.svg  # without a band there is no standard error


@pytest.mark.parametrize("name", ["AIRBUS INDUSTRIE OF EUROPE", "w" * 60, "short", "MMMMMMMMMMMMMMMMMM"])
def test_a_name_beside_the_levels_stays_in_its_room(name: str) -> None:
    table = {"level": [name], "rows": [10], "predicted": [0.3], "observed": [0.2]}
    text = next(e for e in parsed(field_levels({"table": table})).iter("text") if e.attrib.get("text-anchor") == "end")
    assert width(text.text or "", 12.0) <= float(text.attrib["x"])


def test_hundreds_of_periods_are_lines_and_small_ones_are_counted_not_drawn() -> None:
    rng = np.random.default_rng(0)
    many = 300
    labels = [str(np.datetime64("1990-01") + np.timedelta64(k, "M")) for k in range(many)]
    rows = np.where(np.arange(many) < 20, 3, 1000)
    predicted, observed = rng.uniform(0.1, 0.2, many), rng.uniform(0.1, 0.2, many)
    table = {
        "label": labels, "rows": rows.tolist(), "predicted": predicted.tolist(), "observed": observed.tolist(),
        "p_adjusted": [0.001 if k == 150 else 1.0 for k in range(many)],
        "verdict": ["first"] + ["same"] * 149 + ["worse"] + ["same"] * 149, "change": [None, *[0.1] * 299],
    }  # fmt: skip
    result = {"table": table, "extra": {"column": "when", "every": "month"}}
    gaps, rates = period_gaps(result), period_rates(result)
    for figure in (gaps, rates):  # the one beyond noise is a dot as well
        assert [dot.attrib["class"].split()[-1] != "noise" for dot in parsed(figure).iter("circle")] == [True]
    assert [e.text for e in parsed(gaps).iter("text") if e.attrib["y"] == "33"] == ["worse"]
    assert gaps.note == rates.note == "20 months of few rows are in the table, not drawn."
    assert len(gaps.svg.encode()) < 60_000
    assert len(gaps.table["label"]) == many

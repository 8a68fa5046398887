"""The sections of an audit's page: subpopulations, curves, cards that belong together, clusters, suppression."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import miscal
from miscal.datasets import flights, planted
from miscal.report.codec import plain, report_from
from miscal.report.findings import Finding
from miscal.report.html.page import to_html
from miscal.report.html.sections.findings import _families, findings
from miscal.report.html.sections.score import verdict


@pytest.fixture(scope="module")
def found() -> Any:
    data = planted(8000, place="subpopulation", gap=0.12, random_state=3)
    return miscal.audit(data.predictions(), random_state=3)


def test_the_page_says_m_with_its_p_value_and_draws_the_whole_and_the_worst(found: Any) -> None:
    section = found.document["sections"]["subpopulation"][0]
    page = to_html(plain(found.document))
    block = page.split('id="subpopulations"')[1].split("</section>")[0]
    deviations = section["table"]["deviations"][0]
    assert f"M = {deviations:.1f}" in block or f"M = {deviations:.2f}" in block
    assert "p ≤ 0.001" in block
    labels = [curve["label"] for curve in section["extra"]["cumulative"]]
    assert labels[0] == "full population"
    assert 2 <= len(labels) <= 4
    assert block.count("<svg") == len(labels)
    assert "<bdi>full population</bdi>" in block


def test_the_worst_subpopulations_drawn_are_not_the_same_rows(found: Any) -> None:
    section = found.document["sections"]["subpopulation"][0]
    table = section["table"]
    rows = {label: (n, p) for label, n, p in zip(table["label"], table["rows"], table["predicted"], strict=True)}
    drawn = [rows[curve["label"]] for curve in section["extra"]["cumulative"]]
    assert len(set(drawn)) == len(drawn)


def test_a_saved_audit_shows_the_same_page(found: Any, tmp_path: Path) -> None:
    found.save(tmp_path / "audit.miscal")
    again = miscal.Audit.load(tmp_path / "audit.miscal")
    assert to_html(plain(again.document)) == to_html(plain(found.document))


def test_variables_have_a_curve_with_a_band_that_the_figure_draws(found: Any) -> None:
    age = next(r for r in found.document["sections"]["variable"] if r["settings"]["column"] == "age")
    curve = {name: np.asarray(values, float) for name, values in dict(age["extra"]["curve"]).items()}
    assert (curve["observed_low"] < curve["observed"]).all()
    assert (curve["observed"] < curve["observed_high"]).all()
    page = to_html(plain(found.document))
    drawn = sum("curve" in result["extra"] for result in found.document["sections"]["variable"])
    assert page.count('class="line smooth"') == drawn >= 3


def test_findings_of_the_same_columns_share_a_card() -> None:
    heads = [{"columns": ["a"], "where": "a 1"}, {"columns": ["b"], "where": "b"}, {"columns": ["a"], "where": "a 2"}]
    families = _families([Finding.from_dict(head) for head in heads])
    assert [[f.where for f in family] for family in families] == [["a 1", "a 2"], ["b"]]
    every = [
        {"columns": ["a"], "where": f"a {k}", "real": True, "rows": 10, "weight": 10.0, "predicted": 0.5,
         "observed": 0.2, "gap": 0.3, "interval": [0.1, 0.5], "events_off": 3.0, "p_value": 0.01, "code": "MC201"}
        for k in range(11)
    ]  # fmt: skip
    made = findings(report_from({"schema": "miscal.audit/1", "findings": every, "unlisted": 3}))
    assert made.count("<h3") == 1
    assert "10 more segments of the same column" in made
    assert "and 2 more, in the CSV and the JSON" in made
    assert "3 smaller or overlapping segments" in made


def test_clusters_give_one_general_finding_and_no_note_on_days() -> None:
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(60), 50)
    score = rng.uniform(0.1, 0.9, day.size)
    truth = np.clip(score - 0.25 * (score > 0.5) + rng.normal(0, 0.08, 60)[day], 0, 1)
    table = {
        "y": rng.random(day.size) < truth, "p": score, "when": np.datetime64("2024-01-01") + day,
        "field": rng.choice(["a", "b", "c"], day.size), "x": score + rng.normal(0, 0.05, day.size),
    }  # fmt: skip
    plain_one = miscal.audit(table, outcome="y", probability="p")
    assert len(plain_one.document["notes"]) == 1
    assert "give --cluster when" in plain_one.document["notes"][0]
    clustered = miscal.audit(table, outcome="y", probability="p", cluster="when")
    heads = [f for f in clustered.findings if f.real and not f.parent]
    assert clustered.document["notes"] == []
    assert [f.kind for f in heads] == ["score"]


def test_days_that_are_independent_get_no_note() -> None:
    rng = np.random.default_rng(1)
    score = rng.uniform(0.1, 0.9, 3000)
    when = np.datetime64("2024-01-01") + rng.integers(0, 60, 3000)
    table = {"y": rng.random(3000) < score, "p": score, "when": when}
    assert miscal.audit(table, outcome="y", probability="p", effort="quick").document["notes"] == []


def test_suppression_keeps_no_running_total_and_no_small_subpopulation(tmp_path: Path) -> None:
    table = flights()
    few = {name: table[name][:4000] for name in ("late", "probability", "carrier", "hour", "origin")}
    below = 100
    miscal.audit(few, outcome="late", probability="probability").suppressed(below).to_json(tmp_path / "a.json")
    sections = json.loads((tmp_path / "a.json").read_text())["sections"]
    assert "cumulative" not in sections["score"][0]["extra"]
    for result in sections["subpopulation"]:
        assert "cumulative" not in result["extra"]
        assert all(item["rows"] >= below for item in result["extra"].get("worst", []))


@pytest.mark.parametrize(
    ("gap", "expected", "slope", "opening"),
    [
        (0.002, 0.012, (1.1, 1.2), "The scores are too moderate"),
        (0.002, 0.012, (0.6, 0.7), "The scores are too extreme"),
        (0.010, 0.012, (1.1, 1.2), "Predictions are too high"),
    ],
)
def test_the_verdict_says_first_what_is_most_wrong(
    gap: float, expected: float, slope: tuple[float, float], opening: str
) -> None:
    score = {
        "predicted": 0.2 + gap, "observed": 0.2, "gap": {"value": gap, "p_value": 0.001},
        "expected": {"value": expected, "p_value": 0.001}, "slope": {"value": sum(slope) / 2, "interval": list(slope)},
    }  # fmt: skip
    assert verdict(report_from({"schema": "miscal.audit/1", "score": score})).sentence.startswith(opening)

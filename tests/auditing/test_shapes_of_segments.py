"""Places that are right on average and wrong along the score: found and named by their form."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import miscal
from miscal.auditing.audit import Audit, audit
from miscal.report.findings import Finding, flat
from miscal.report.html.page import to_html
from miscal.report.markdown import to_markdown
from miscal.stats.score_shape import miscalibration_form, shape_test

pytestmark = pytest.mark.usefixtures("without_smooth_noise")


def table(n: int = 12_000, seed: int = 0, slope: float = 0.35, where: str = "d", shift: float = 0.0) -> dict[str, Any]:
    """Calibrated but for one region (or all of them), in which the logit has another slope."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 2, n)
    region = rng.choice(list("abcdef"), n)
    wrong = np.ones(n, bool) if where == "everywhere" else region == where
    logit = np.log(p / (1 - p))
    truth = np.where(wrong, 1 / (1 + np.exp(-(slope * logit + shift))), p)
    return {"y": (rng.random(n) < truth).astype(int), "p": p, "region": region, "age": rng.integers(18, 90, n),
            "income": rng.lognormal(10, 1, n)}  # fmt: skip


def audited(**options: Any) -> Audit:
    return audit(table(**options), outcome="y", probability="p")


@pytest.fixture(scope="module")
def extreme() -> Audit:
    return audited()


def test_a_level_that_is_too_extreme_but_right_on_average_is_the_finding(extreme: Audit) -> None:
    (found,) = extreme.findings
    assert (found.where, found.form, found.specific) == ("region d", "too extreme", True)
    assert abs(found.gap) < 0.03
    upper, lower = found.score_ranges
    assert upper.low == lower.high == pytest.approx(0.5, abs=0.1)
    assert upper.events_off > 50
    assert lower.events_off < -50
    assert upper.rows + lower.rows == found.rows
    assert upper.events_off + lower.events_off == pytest.approx(found.events_off)
    assert (upper.predicted - upper.observed) * upper.rows == pytest.approx(upper.events_off)
    assert found.explained
    assert all(place.parent == "region d" for place in found.explained)
    assert "region" not in {entry["where"] for entry in extreme.clean}


@pytest.mark.parametrize(("slope", "shift", "form"), [(2.2, 0.0, "too moderate"), (1.0, 0.8, "too low"),
                                                       (1.0, -0.8, "too high")])  # fmt: skip
def test_other_forms(slope: float, shift: float, form: str) -> None:
    (found,) = audited(slope=slope, shift=shift).findings
    assert (found.where, found.form) == ("region d", form)
    assert len(found.score_ranges) == (2 if form == "too moderate" else 0)


def test_the_middle_against_both_ends_is_uneven() -> None:
    off = np.array([20.0, 20.0, -20.0, -20.0, -20.0, -20.0, 20.0, 20.0])
    form, (middle, outer) = miscalibration_form(off, np.full(8, 30.0), average=False, shape=True)
    assert (form, middle, outer) == ("uneven", (2, 5), (0, 1))
    assert shape_test(off, np.full(8, 30.0)).p_value < 1e-4


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_two_ranges_that_err_the_same_way_are_uneven_and_none_is_too_extreme(sign: float) -> None:
    off = sign * np.array([1.0, 1.0, 1.0, 45.0])
    form, ranges = miscalibration_form(off, np.full(4, 100.0), average=False, shape=True)
    assert (form, ranges) == ("uneven", ((3, 3), (0, 2)))


def test_a_model_too_extreme_everywhere_is_one_general_finding() -> None:
    (found,) = audited(where="everywhere", slope=0.6).findings
    assert (found.where, found.form, found.specific) == ("the whole table", "too extreme", False)
    assert len(found.score_ranges) == 2


def test_what_is_right_in_a_model_that_is_too_extreme_elsewhere_is_no_finding() -> None:
    """Once the score was put right it is too moderate; as predicted it is right."""
    rng = np.random.default_rng(0)
    p, x = rng.beta(2, 2, 60_000), rng.uniform(size=60_000)
    truth = np.where(x > 0.75, p, 1.0 / (1.0 + ((1.0 - p) / p) ** 0.6))
    found = audit({"y": (rng.random(p.size) < truth).astype(int), "p": p, "x": x}, outcome="y", probability="p")
    assert {place.form for place in found.findings} == {"too extreme"}
    assert not any(place.where.startswith("x above 0.7") for place in flat(found.findings))


def test_a_shift_everywhere_is_one_finding_and_no_place_is_the_whole_table() -> None:
    (found,) = audited(where="everywhere", slope=1.0, shift=-0.4).findings
    assert (found.where, found.form) == ("the whole table", "too high")
    assert all(place.rows < 0.98 * found.rows for place in found.explained)
    assert not any("any value" in place.where or place.where == "age 18 to 89" for place in found.explained)


def test_the_form_is_said_everywhere(extreme: Audit) -> None:
    (found,) = extreme.findings
    assert str(found).startswith("Region d: Too extreme: scores above 0.")
    assert "more than observed, scores up to 0." in str(found)
    assert "too extreme" in to_markdown(extreme.document).lower()
    page = to_html(extreme.document)
    assert "two ranges of scores" in page
    assert "their own slope" in page
    document = json.loads(json.dumps(miscal.report.codec.plain(extreme.document)))
    assert [Finding.from_dict(item) for item in document["findings"]] == extreme.findings
    assert {"form", "score_ranges", "explained"} <= set(document["findings"][0])


def test_ranges_within_a_place_are_kept_back_where_small_cells_are(extreme: Audit) -> None:
    hidden = extreme.suppressed(5).findings[0]
    assert hidden.where == extreme.findings[0].where
    assert hidden.form == extreme.findings[0].form
    assert extreme.findings[0].score_ranges
    assert not hidden.score_ranges


def test_each_place_is_listed_once() -> None:
    for found in (audited(where="everywhere", slope=0.6), audited(shift=0.6)):
        places = [place.where for place in flat(found.findings)]
        assert len(places) == len(set(places))


def test_beyond_memory_the_same_place_has_the_same_form(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import pandas as pd

    pd.DataFrame(table(60_000, slope=0.5)).to_parquet(tmp_path / "t.parquet")
    common: Any = {"outcome": "y", "probability": "p"}
    whole = audit(tmp_path / "t.parquet", **common)
    monkeypatch.setattr("miscal.auditing.audit.rows_that_fit", lambda *_: 20_000)
    sampled = audit(tmp_path / "t.parquet", **common)
    assert sampled.document["settings"]["sample"]["rows"] < 30_000
    one, two = whole.findings[0], sampled.findings[0]
    assert (one.where, one.form, one.rows) == (two.where, two.form, two.rows) == ("region d", "too extreme", one.rows)
    assert sum(part.rows for part in two.score_ranges) == two.rows
    assert two.score_ranges[0].events_off == pytest.approx(one.score_ranges[0].events_off, rel=0.1)


def test_clusters_widen_the_noise_along_the_score_too() -> None:
    rng = np.random.default_rng(3)
    patients, visits = 600, 10
    effect = np.repeat(rng.normal(0, 1.2, patients), visits)
    p = np.repeat(rng.beta(2, 2, patients), visits)
    truth = 1 / (1 + np.exp(-(np.log(p / (1 - p)) + effect)))
    frame = {"y": (rng.random(p.size) < truth).astype(int), "p": p, "patient": np.repeat(np.arange(patients), visits),
             "ward": np.repeat(rng.choice(list("abcdefgh"), patients), visits)}  # fmt: skip
    found = audit(frame, outcome="y", probability="p", cluster="patient")
    assert not [finding for finding in found.findings if finding.kind != "score"]


def test_clusters_that_are_off_everywhere_are_one_finding_about_the_whole_table() -> None:
    rng = np.random.default_rng(0)
    patients = np.arange(2400) % 60
    p = rng.beta(2, 3, 2400)
    odds = np.log(p / (1 - p)) - 0.9 + 0.3 * rng.normal(size=60)[patients]
    frame = {"y": (rng.random(2400) < 1 / (1 + np.exp(-odds))).astype(int), "p": p, "patient": patients,
             **{f"column {k}": rng.choice(list("abcdefghij"), 2400) for k in range(12)}}  # fmt: skip
    (found,) = audit(frame, outcome="y", probability="p", cluster="patient", effort="quick").findings
    assert (found.where, found.form) == ("the whole table", "too high")

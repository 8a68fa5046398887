"""Rows said to be certain, and the lowest and highest scores, are judged exactly before anything is called clean."""

import json
import math

import numpy as np
import pytest

import miscal
from miscal.cli import main
from miscal.report.codec import report_from
from miscal.report.html.sections.score import verdict


def _table(said: float = 0.0, events: int = 5, rows: int = 300, seed: int = 0, n: int = 10_000) -> dict:
    """Calibrated rows, and some that were said to be certain or nearly so."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 3, n)
    y = (rng.random(n) < p).astype(int)
    own = np.zeros(rows, int)
    own[:events] = 1
    column = rng.choice(list("abc"), n + rows)
    return {"y": np.append(y, own), "p": np.append(p, np.full(rows, said)), "g": column}


def _audit(table: dict, **options) -> miscal.Audit:
    return miscal.audit(table, outcome="y", probability="p", effort="quick", **options)


@pytest.mark.parametrize("said", [0.0, 1e-7, 1e-13])
def test_rows_said_never_to_happen_that_happened_are_a_finding(said):
    found = _audit(_table(said))
    heads = [f for f in found.findings if f.real and not f.parent]
    assert len(heads) == 1
    assert (heads[0].kind, heads[0].code, heads[0].rows) == ("score", "MC102", 300)
    assert heads[0].observed == pytest.approx(5 / 300)
    assert heads[0].interval[1] < 0
    sentence = verdict(report_from(found.document)).sentence
    assert "No significant miscal" not in sentence
    assert "300 rows" in sentence
    assert "5 events observed" in sentence


def test_the_other_end_of_the_scale_is_judged_too():
    table = _table()
    table = {"y": 1 - table["y"], "p": 1.0 - table["p"], "g": table["g"]}
    heads = [f for f in _audit(table).findings if f.real]
    assert [f.where for f in heads] == ["rows said 100%"]
    assert heads[0].events_off == pytest.approx(5)


def test_its_rows_can_be_picked_again():
    table = _table(1e-7)
    found = _audit(table)
    head = next(f for f in found.findings if f.real)
    assert np.array_equal(found.rows_of(head, table), table["p"] == 1e-7)
    read = miscal.read(table, outcome="y", probability="p")
    assert np.array_equal(found.rows_of(head, read), table["p"] == 1e-7)


def test_one_event_in_clusters_contradicts_certainty_as_well():
    table = _table(0.0, events=1) | {"game": np.arange(10_300) // 5}
    assert [f.where for f in _audit(table, cluster="game").findings if f.real] == ["rows said 0%"]


@pytest.mark.usefixtures("without_smooth_noise")
def test_calibrated_tables_raise_no_alarm():
    """40 tables of scores near 0 and 1, half of them in clusters: alarms in at most 5%."""
    alarms = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = 1 / (1 + np.exp(-rng.normal(-5, 4, 3000)))
        y = (rng.random(3000) < p).astype(int)
        alarms += any(f.real for f in _audit({"y": y, "p": p}).findings)
        together = {"y": np.repeat(y, 3), "p": np.repeat(p, 3), "c": np.repeat(np.arange(3000), 3)}
        alarms += any(f.code == "MC102" and f.real for f in _audit(together, cluster="c").findings)
    assert alarms <= 2


def test_rounded_scores_may_be_off_by_half_a_step():
    rng = np.random.default_rng(3)
    p = 1 / (1 + np.exp(-rng.normal(-4, 1.5, 20_000)))
    y = (rng.random(20_000) < p).astype(int)
    said = np.round(p, 2)
    wrong = int(y[said == 0].sum())
    assert wrong > 5
    found = _audit({"y": y, "p": said})
    assert not [f.where for f in found.findings if f.code == "MC102" and f.real]
    assert any(
        f"{wrong} events occurred in rows with predicted probability 0" in note and "rounded to 0.01" in note
        for note in found.document["notes"]
    )


def test_slope_is_not_made_by_certain_rows():
    rng = np.random.default_rng(1)
    p = 1 / (1 + np.exp(-rng.normal(0, 2.5, 20_000)))
    y = rng.random(20_000) < 1 / (1 + np.exp(-1.12 * np.log(p / (1 - p))))
    said = np.round(p, 2)
    inside = (said > 0) & (said < 1)
    fit = miscal.metrics.calibration_slope_intercept(y, said)
    assert fit.slope == miscal.metrics.calibration_slope_intercept(y[inside], said[inside]).slope
    assert fit.slope.low < 1.12 < fit.slope.high
    note = next(
        note for note in _audit({"y": y, "p": said}).document["notes"] if note.startswith("Slope and intercept")
    )
    assert f"{np.count_nonzero(~inside):,} rows" in note


def test_slope_of_certain_rows_alone_is_unknown():
    fit = miscal.metrics.calibration_slope_intercept([0, 1, 1, 0], [0.0, 1.0, 0.0, 1.0])
    assert math.isnan(fit.slope.value)
    assert math.isnan(fit.in_the_large.value)


def test_infinite_log_loss_is_shown_with_its_rows(tmp_path):
    found = _audit(_table())
    found.to_json(tmp_path / "a.json")
    written = json.loads((tmp_path / "a.json").read_text())
    assert written["score"]["log_loss"] is None
    assert written["score"]["details"]["log_loss"]["infinite"] is True
    assert written["score"]["details"]["log_loss"]["rows"] == 5
    again = miscal.auditing.record.Audit.load(tmp_path / "a.json")
    for each in (found, again):
        text = each.to_markdown()
        assert "| Log loss | infinite |" in text
        assert "The log loss is infinite: 5 events occurred in rows with predicted probability 0." in text


def test_sums_of_all_rows_show_the_same(tmp_path):
    table = _table()
    path = tmp_path / "t.csv"
    np.savetxt(path, np.stack([table["y"], table["p"]], 1), delimiter=",", header="y,p", comments="")
    from click.testing import CliRunner

    run = CliRunner().invoke(
        main, ["summarize", str(path), "--outcome", "y", "--probability", "p", "--out", str(tmp_path / "t.tally")]
    )
    assert run.exit_code == 0, run.output
    kept = miscal.audit(tmp_path / "t.tally")
    heads = [f for f in kept.findings if f.real]
    assert [(f.where, f.rows, f.events_off) for f in heads] == [("rows said 0%", 300, -5.0)]


def test_suppression_keeps_few_certain_rows_to_itself():
    found = _audit(_table(), suppress_below=20)
    assert "5 rows" not in found.to_markdown()
    assert "rows" not in found.document["score"]["details"]["log_loss"]


def test_a_table_beyond_memory_shows_the_same(tmp_path):
    """60,000 rows under a ceiling that holds 50,000; the score is stored as percentages."""
    table = _table(n=60_000, rows=600, events=9)
    order = np.random.default_rng(0).permutation(60_600)
    lines = [f"{y},{100 * p:.6f}%" for y, p in zip(table["y"][order], table["p"][order], strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["y,p", *lines]) + "\n")
    found = miscal.audit(tmp_path / "t.csv", memory="610MB", effort="quick")
    assert found.document["settings"]["sample"]["of"] == 60_600
    ends = [f for f in found.findings if f.real and f.code == "MC102"]
    assert [(f.where, f.rows, f.events_off) for f in ends] == [("rows said 0%", 600, -9.0)]


@pytest.mark.parametrize("score", [1e-300, 1e-17, 1.0 - 1e-16])
def test_scores_that_all_lie_at_one_end_have_no_other(score):
    """The other end held every row, and its words asked for the logarithm of 0."""
    y = np.r_[np.ones(5, int), np.zeros(295, int)]
    for outcome in (y, 1 - y):
        found = miscal.audit(miscal.Predictions(outcome, np.full(300, score)))
        ends = [f.where for f in found.findings if f.code == "MC102"]
        assert ends == [f"rows said {'0.00000001% or less' if score < 0.5 else '99.99999999% or more'}"]

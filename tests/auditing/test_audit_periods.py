"""The audit along time: false alarms, a planted change, words, suppression, merging, streams, the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import miscal
from miscal.auditing.periods import by_period, level_days
from miscal.cli import main
from miscal.data.columns import column
from miscal.data.errors import MiscalError
from miscal.data.target import TargetData
from miscal.report.html.page import to_html
from studies.period_changes import CLAIMS, ROWS, judged, lasting, limit, named, planted, shocked, wanted
from tests.trials import too_often


def table_of(rows: int, seed: int, *, days: int = 180, shift: dict[str, float] | None = None) -> pd.DataFrame:
    """Predictions on dates of a half-year; `shift` moves the true rate of some months."""
    rng = np.random.default_rng(seed)
    date = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, days, rows), unit="D")
    p = rng.beta(2, 6, rows)
    moved = np.array([(shift or {}).get(month, 0.0) for month in date.strftime("%Y-%m")])
    y = (rng.random(rows) < np.clip(p + moved, 0, 1)).astype(int)
    return pd.DataFrame({"y": y, "p": p, "when": date, "g": rng.choice(list("abc"), rows)})


def audit(frame: pd.DataFrame, **options: Any) -> Any:
    return miscal.audit(frame, **({"outcome": "y", "probability": "p", "time": "when", "effort": "quick"} | options))


def table(found: Any) -> dict[str, Any]:
    made: dict[str, Any] = found.document["sections"]["period"][0]["table"]
    return made


@pytest.mark.parametrize("kind", ROWS)
def test_calibrated_tables_rarely_claim_a_change(kind: str) -> None:
    shocks = kind.startswith("days with lasting")  # by rows alone most of those claim a step
    tables = 40 if shocks else 30 if kind.endswith("in clusters") else 60  # clusters are slow to draw
    asked = ("claims a change", "a period is off")
    # More than the limit would happen once in a thousand at 5%.
    assert not too_often(lambda seed: dict(zip(asked, judged(seed, kind), strict=True)), tables, limit(tables))


def test_a_change_of_six_deviations_is_named_where_it_is() -> None:
    """From March to April the true rate moves so that the step is expected 6 standard errors off, and only there."""
    tables = [planted(seed, 6.0) for seed in range(40)]
    verdicts = [dict(zip(made["label"], made["verdict"], strict=True)) for made in tables]
    assert sum(verdict["2024-04"] == "worse" for verdict in verdicts) >= 38
    assert sum(named(made) for made in tables) >= 40 - limit(40)
    assert sum(any(v in CLAIMS for month, v in verdict.items() if month != "2024-04") for verdict in verdicts) <= limit(
        40
    )


def test_the_sentence_says_which_months_and_how() -> None:
    found = audit(table_of(12_000, 3, shift={"2024-04": 0.15}))
    made = table(found)
    assert made["label"] == [f"2024-0{k}" for k in range(1, 7)]
    words = dict(zip(made["label"], made["words"], strict=True))
    assert words["2024-04"].startswith("From March to April 2024 the model got worse: ")
    assert words["2024-05"].startswith("From April to May 2024 the model got better: ")
    assert words["2024-03"].startswith("From February to March 2024: no significant change")
    for text in (to_html(found.document), found.to_markdown()):
        assert "From March to April 2024 the model got worse" in text
        assert "1 got worse, 1 got better" in text
    for k in range(1, 6):  # a twin of every number that the table claims
        frame = table_of(12_000, 3, shift={"2024-04": 0.15})
        now, before = (frame[frame["when"].dt.strftime("%Y-%m") == made["label"][i]] for i in (k, k - 1))
        gaps = [float((part["p"] - part["y"]).mean()) for part in (now, before)]
        assert made["gap"][k] == pytest.approx(gaps[0])
        assert made["change"][k] == pytest.approx(gaps[0] - gaps[1])
        assert made["rows"][k] == len(now)
    assert made["noise"][2] == pytest.approx(1.96 * np.sqrt(0.167 / made["rows"][2]), rel=0.15)


@pytest.mark.parametrize(("days", "every", "first"), [(40, "week", "2024-01-01"), (200, "month", "2024-01")])
def test_week_or_month_is_chosen_by_the_span(days: int, every: str, first: str) -> None:
    made = audit(table_of(1500, 0, days=days)).document["sections"]["period"][0]
    assert made["settings"]["every"] == every
    assert made["table"]["label"][0] == first
    other = "month" if every == "week" else "week"
    assert audit(table_of(1500, 0, days=days), every=other).document["sections"]["period"][0]["extra"]["every"] == other


def test_rows_without_a_date_are_kept_apart_and_text_is_read() -> None:
    frame = table_of(2000, 1)
    plain = table(audit(frame))
    frame["when"] = frame["when"].dt.strftime("%Y-%m-%d")
    assert table(audit(frame))["words"] == plain["words"]
    frame.loc[::10, "when"] = None
    made = table(audit(frame))
    assert made["label"][-1] == "(missing)"
    assert made["verdict"][-1] == "no date"
    assert made["rows"][-1] == 200
    assert np.isnan(made["change"][-1])


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"time": "wen"}, "has no column 'wen'"),
        ({"time": "p2"}, "must be dates or times"),
        ({"time": "g"}, "it holds 'a'"),
        ({"every": "day"}, "must be one of 'week', 'month', 'quarter', 'year'"),
        ({"time": None, "every": "week"}, "needs the column of the time"),
    ],
)
def test_what_is_no_time_is_refused(options: dict[str, Any], word: str) -> None:
    frame = table_of(200, 0).assign(p2=0.5)
    with pytest.raises(miscal.MiscalError, match=word):
        audit(frame, **options)


def test_days_that_err_together_are_said() -> None:
    frame = table_of(6000, 2)
    bad = frame["when"].dt.day % 3 == 0
    frame.loc[bad, "y"] = (np.random.default_rng(0).random(int(bad.sum())) < 0.9).astype(int)
    found = audit(frame, ignore=["when"])
    note = found.document["sections"]["period"][0]["extra"]["note"]
    assert "err together" in note
    assert note.split(":")[0] in to_html(found.document)
    clustered = audit(frame, cluster="when")
    assert "note" not in clustered.document["sections"]["period"][0]["extra"]
    assert "clusters" in clustered.document["sections"]["period"][0]["method"]


def test_a_suppressed_period_says_nothing_and_neither_does_the_one_after() -> None:
    frame = table_of(3000, 4)
    kept = (frame["when"].dt.month != 3) | (np.arange(3000) % 60 == 0)
    frame = frame[kept].reset_index(drop=True)
    plain = table(audit(frame))
    small = plain["rows"][2]
    assert small < 20
    made = table(audit(frame, suppress_below=20))
    hidden = [i for i, rows in enumerate(made["rows"]) if rows is None]
    assert 2 in hidden
    assert len(hidden) >= 2  # another one, so that subtraction does not give it away
    for i in hidden:
        assert {made[name][i] for name in made if name != "label"} == {None}
        if i + 1 < len(made["rows"]):
            assert {made[name][i + 1] for name in ("change", "change_low", "before", "verdict", "words")} == {None}
    page = to_html(audit(frame, suppress_below=20).document)
    assert plain["words"][2] not in page
    assert plain["words"][3] not in page


def test_saved_and_read_in_parts_the_periods_are_the_same(tmp_path: Path) -> None:
    frame = table_of(4000, 6, shift={"2024-05": -0.1})
    found = audit(frame)
    found.save(tmp_path / "a.miscal")
    assert table(miscal.Audit.load(tmp_path / "a.miscal"))["words"] == table(found)["words"]
    frame.to_parquet(tmp_path / "t.parquet")
    streamed = miscal.audit(
        tmp_path / "t.parquet", outcome="y", probability="p", time="when", effort="quick", memory="600MB"
    )
    for name in ("label", "rows", "gap", "words", "verdict"):
        assert table(streamed)[name] == table(found)[name]
    options = {"outcome": "y", "probability": "p", "time": "when", "ignore": ["when"], "effort": "quick"}
    alone = miscal.audit(tmp_path / "t.parquet", memory="600MB", **options)
    assert table(alone)["words"] == table(found)["words"]


def test_the_command_prints_and_writes_the_periods(tmp_path: Path) -> None:
    table_of(12_000, 3, shift={"2024-04": 0.15}).to_csv(tmp_path / "t.csv", index=False)
    options = ["--outcome", "y", "--probability", "p", "--effort", "quick", "--out", str(tmp_path / "r.html")]
    done = CliRunner().invoke(
        main, ["audit", str(tmp_path / "t.csv"), *options, "--time", "when", "--json", str(tmp_path / "r.json")]
    )
    assert done.exit_code == 0, done.output
    assert "of 6 months" in done.output
    assert "From March to April 2024 the model got worse" in " ".join(done.output.split())
    assert json.loads((tmp_path / "r.json").read_text())["sections"]["period"][0]["table"]["verdict"][3] == "worse"
    refused = CliRunner().invoke(main, ["audit", str(tmp_path / "t.csv"), *options, "--every", "week"])
    assert refused.exit_code == 2
    assert refused.output.startswith("miscal: --every needs the column of the time")


def test_the_result_draws_itself() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    found = audit(table_of(12_000, 3, shift={"2024-04": 0.15}))
    result = found.results[-1]
    drawn = result.plot()
    assert drawn.frame()["gap"].tolist() == result.table["gap"].tolist()
    assert [text.get_text().strip() for text in drawn.ax_.texts] == ["worse", "better"]
    drawn.figure_.canvas.draw()


@pytest.mark.parametrize("odd", ["2024010", "now", "31", "2024-02-31", "2024-Q5"])
def test_text_that_is_no_date_is_refused(odd: str) -> None:
    with pytest.raises(MiscalError, match="must be dates or times"):
        level_days(("2024-01-05", odd), "when")


def test_blank_text_is_missing_and_the_zone_does_not_move_a_day() -> None:
    days = level_days(("", "1970-01-02", "1970-01-31T20:00:00-08:00", "1970-01-31 23:59Z"), "when")
    assert np.isnan(days[0])
    assert days[1:].tolist() == [1.0, 30.0, 30.0]


def test_a_step_is_seen_through_the_noise_of_days() -> None:
    rng = np.random.default_rng([3, 6])
    days = np.repeat(np.arange(360), 100)
    p = rng.beta(2, 6, days.size)
    rate = shocked(p, lasting(rng, 360)[days] + 4.0 * (days >= 182))  # from July on
    y = (rng.random(days.size) < rate).astype(np.uint8)
    made = by_period(TargetData(p, y), column("when", (np.datetime64("2024-01-01") + days).astype("M8[D]")), wanted())
    assert "judged by that noise" in made.extra["note"]
    assert dict(zip(made.table["label"], made.table["verdict"], strict=True))["2024-07"] in CLAIMS


def test_years_quarters_and_whole_numbers_are_periods() -> None:
    frame = table_of(1500, 4)
    frame["year"] = np.random.default_rng(1).integers(2019, 2024, len(frame))
    made = audit(frame, time="year", ignore=["when"])
    assert table(made)["label"] == ["2019", "2020", "2021", "2022", "2023"]
    frame["quarter"] = frame["year"].astype(str) + "-Q" + (frame["when"].dt.month % 4 + 1).astype(str)
    assert table(audit(frame, time="quarter", ignore=["when", "year"]))["label"][:2] == ["2019-Q1", "2019-Q2"]
    assert table(audit(frame, every="quarter", ignore=["year", "quarter"]))["label"] == ["2024-Q1", "2024-Q2"]
    with pytest.raises(MiscalError, match="numbers that are not years"):
        audit(frame.assign(number=0.5), time="number")

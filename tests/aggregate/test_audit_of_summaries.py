"""An audit of summary files finds what an audit of the rows finds, each segment once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import miscal
from miscal.cli import main
from miscal.report.findings import flat


def table(n: int = 40_000) -> pd.DataFrame:
    """A month and a carrier miscalibrated in opposite directions; probabilities are too low overall."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"p": rng.beta(2, 3, n), "month": rng.integers(1, 13, n)})
    frame["carrier"], frame["day"] = rng.choice(list("abcdef"), n), rng.choice(["day 1", "day 2", "day 3"], n)
    logit = np.log(frame.p / (1 - frame.p)) + 0.1 + 0.5 * (frame.month == 9) - 0.5 * (frame.carrier == "c")
    logit += 0.4 * (frame.day == "day 3")
    frame["y"] = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)
    return frame


def summarize(frame: pd.DataFrame, path: Path, *options: str) -> str:
    """Write a summary file of a table; its path."""
    frame.to_parquet(path.with_suffix(".parquet"), index=False)
    arguments = [
        "summarize",
        str(path.with_suffix(".parquet")),
        "--outcome",
        "y",
        "--probability",
        "p",
        "--out",
        str(path),
        *options,
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return str(path)


def test_a_summary_lists_each_segment_once_as_the_rows_do(tmp_path: Path) -> None:
    frame = table()
    summed = miscal.audit(summarize(frame, tmp_path / "a.tally"))
    rows = miscal.audit(frame, outcome="y", probability="p", effort="quick")
    common = {finding.where: finding for finding in rows.findings}
    assert {"month 9", "carrier c", "day day 3"} <= {finding.where for finding in summed.findings} & set(common)
    segments = [finding.where for finding in flat(summed.findings)]
    assert len(segments) == len(set(segments))
    for finding in summed.findings:
        from_rows = common.get(finding.where, finding)
        assert (finding.rows, finding.form) == (from_rows.rows, from_rows.form)
        assert finding.events_off == pytest.approx(from_rows.events_off)
        assert "the whole table" not in {explained.where for explained in finding.explained}


DAYS = {
    "text": (["day 1", "day 2", "day 3"], "day day 3", "field"),
    "dates": (np.array(["2026-01-30", "2026-01-31", "2026-02-01"], "M8[s]"), "day 2026-02-01", "variable"),
    "moments": (
        pd.to_datetime(["2026-01-30 01:00", "2026-01-31 02:00", "2026-02-01 03:30"]),
        "day 2026-02-01",
        "variable",
    ),
    "whole numbers": (np.array([9, 10, 11]), "day 11", "variable"),
    "numbers": (np.array([0.1, 0.25, 10.5]), "day above 0.25", "variable"),
}


@pytest.mark.parametrize("kind", DAYS)
def test_days_that_are_constant_in_their_own_tally_are_seen_in_the_month(kind: str, tmp_path: Path) -> None:
    days, where, section = DAYS[kind]
    frame = table()
    frame["day"] = pd.Series(days).iloc[frame.day.str[-1].astype(int) - 1].to_numpy()
    names: list[str] = []
    for place, (_, part) in enumerate(frame.groupby("day")):
        like = ["--like", names[0]] if names else []
        names.append(summarize(part, tmp_path / f"{place}.tally", *like))
    assert {entry["where"]: entry["reason"] for entry in miscal.audit(names[0]).too_small}["day"] == "constant"
    found = CliRunner().invoke(main, ["merge", *names, "--out", str(tmp_path / "month.tally")])
    assert found.exit_code == 0, found.output
    month = miscal.audit(tmp_path / "month.tally")
    assert where in {finding.where for finding in month.findings}
    assert "day" in {result.settings["column"] for result in month.results if result.kind == section}


def test_missing_values_of_a_tally_have_no_curve(tmp_path: Path) -> None:
    # One row stands in for the rows that a tally does not have; its values are missing too.
    frame = table(4_000)
    frame.loc[:800, "month"] = np.nan
    frame.loc[:800, "y"] = 1
    audit = miscal.audit(summarize(frame, tmp_path / "a.tally"))
    assert "month missing" in [finding.where for finding in audit.findings]
    assert audit.document["along_score"] == []

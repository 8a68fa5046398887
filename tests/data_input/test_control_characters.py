"""Names and levels of the data act on no terminal, no log and no workflow: controls are spelt wherever text leaves."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

import miscal
from miscal.cli import main
from miscal.data.errors import MiscalError, MiscalWarning, refusal, visible, warn

ACTING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
LEVEL = "bad\n::error file=x::owned\x1b[31m\r\x07\u202e\x9b"
COLUMN = "where\n::warning::too\x1b]0;title\x07"
OURS = "::error file="


def table() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    rows = 3000
    p = rng.uniform(0.2, 0.8, rows)
    level = rng.choice(np.array([LEVEL, "good", "fine\ttoo"], dtype=object), rows)
    y = rng.random(rows) < np.clip(p + 0.2 * (level == LEVEL) - 0.1 * (level == "good"), 0, 1)
    return {"y": y.astype(int), "p": p, COLUMN: level, "x": rng.normal(size=rows)}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table as CSV, in a folder and under a name that are hostile too."""
    path = tmp_path_factory.mktemp("data") / "table\x1b[31m.csv"
    made = table()
    with path.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(made)
        writer.writerows(zip(*made.values(), strict=True))
    return path


def harmless(text: str, *, annotated: bool = False) -> None:
    assert not ACTING.search(text), repr(text)
    commands = [line for line in text.splitlines() if line.strip().startswith("::")]
    assert all(line.startswith(OURS) and "owned" not in line.split("::")[1] for line in commands)
    assert bool(commands) == annotated


COMMANDS = [
    ["audit", "--out", "page.html", "--json", "audit.json"],
    ["check", "--max-findings", "0"],
    ["check", "--max-field", f"{COLUMN}=0.001", "--junit", "junit.xml", "--annotations"],
    ["audit", "--by", "none\x1b[31m\n::error::such"],
    ["audit", "--ignore", "none\n::error::such"],
    ["recalibrate", "--score-only", "--out", "repaired\x07.parquet"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_nothing_that_a_command_prints_acts(
    words: list[str], file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke(main, [words[0], str(file), "--outcome", "y", "--probability", "p", *words[1:]])
    assert run.exit_code in (0, 1, 2), run.output
    harmless(run.output, annotated="--annotations" in words)
    if "--junit" in words:
        (failure,) = ElementTree.parse(tmp_path / "junit.xml").getroot().iter("failure")
        assert "::warning::too\\x1b]0;title\\x07" in failure.attrib["message"]
    if words[0] == "audit" and run.exit_code == 0:
        again = CliRunner().invoke(main, ["report", "audit.json", "--out", "again.html"])
        harmless(again.output)


def test_a_column_that_is_a_workflow_command_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = table()
    named = {"y": made["y"], "p": made["p"], "::error file=x::owned": made[COLUMN]}
    with Path("t.csv").open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([list(named), *zip(*named.values(), strict=True)])
    run = CliRunner().invoke(main, ["audit", "t.csv", "--outcome", "y", "--probability", "p"])
    assert "\\x3a:error file=x\\x3a:owned" in run.output
    harmless(run.output)


def test_nothing_that_python_prints_acts() -> None:
    made = table()
    found = miscal.audit(made, outcome="y", probability="p", effort="quick")
    predictions = miscal.Predictions(made["y"], made["p"], columns={COLUMN: made[COLUMN]})
    shown = [
        repr(found), repr(found.findings), *map(str, found.findings), found.to_markdown(), found.to_model_card(),
        repr(found.compare(found)), repr(miscal.by_field(predictions, COLUMN)), repr(predictions),
        repr(predictions.columns), *found.notes,
    ]  # fmt: skip
    for text in shown:
        harmless(text)
    assert any("\\x1b" in finding.where for finding in found.findings)


def test_a_saved_finding_picks_its_rows_again(tmp_path: Path) -> None:
    made = table()
    found = miscal.audit(made, outcome="y", probability="p", effort="quick")
    found.save(tmp_path / "saved.miscal")
    again = miscal.Audit.load(tmp_path / "saved.miscal")
    place = next(finding for finding in again.findings if finding.condition and finding.columns == (COLUMN,))
    assert again.rows_of(place, made).sum() == place.rows
    assert [finding.where for finding in again.findings] == [finding.where for finding in found.findings]


def test_refusals_and_warnings_are_spelt() -> None:
    error = refusal(f"has no {LEVEL}", where=COLUMN, got=LEVEL, hint=LEVEL)
    assert str(error).count("\n") == 1  # before the hint
    harmless(str(error))
    assert not ACTING.search(str(MiscalError(LEVEL)))
    with pytest.warns(MiscalWarning) as caught:
        warn(LEVEL)
    harmless(str(caught[0].message))
    assert visible("größe 🦊\u200d \u00a0x") == "größe 🦊\u200d \u00a0x"  # what acts on nothing stays

"""The gates of `miscal check`: exit status, one line a failure, TOML, JUnit and annotations."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from miscal.auditing.gates import Gates, Outcome, judge, junit, read_gates
from miscal.cli import main
from miscal.data.errors import MiscalError


@pytest.fixture
def table(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CSV in a folder of its own, which is also where the command runs."""
    p = rng.random(1500).round(4)
    state = rng.choice(["CA", "NY", "TX"], 1500)
    happened = rng.random(1500) < np.where(state == "NY", p / 3, p)
    path = tmp_path / "predictions.csv"
    pd.DataFrame({"y": happened.astype(int), "p": p, "state": state}).to_csv(path, index=False)
    monkeypatch.chdir(tmp_path)
    return path


def check(table: Path, *arguments: object) -> Result:
    fixed = ["check", table, "--outcome", "y", "--probability", "p", "--effort", "quick"]
    return CliRunner().invoke(main, [str(argument) for argument in [*fixed, *arguments]])


def test_flags_pass_and_fail(table: Path) -> None:
    passed = check(table, "--max-expected", "0.5", "--max-field", "state=0.9")
    assert passed.exit_code == 0, passed.output
    assert "passed: 2 of 2 gates" in passed.output
    failed = check(table, "--max-expected", "0.001", "--max-field", "state=0.01", "--max-gap", "0.9")
    assert failed.exit_code == 1
    lines = failed.stdout.strip().splitlines()
    assert [line.split(":")[0] for line in lines] == ["failed max-expected", "failed max-field state"]


def test_a_gate_reads_what_it_asks_for_and_says_what_the_whole_audit_says(table: Path) -> None:
    limits = ["--max-expected", "0", "--max-kuiper", "0", "--max-gap", "0", "--max-field", "state=0"]
    alone, beside = check(table, *limits), check(table, *limits, "--max-findings", "99")
    assert alone.exit_code == beside.exit_code == 1
    assert alone.output == beside.output
    for column in ("p", "stat"):
        assert f"'{column}'" in check(table, "--max-field", f"{column}=0.1").output


def test_gates_come_from_a_file_and_flags_win(table: Path, tmp_path: Path) -> None:
    (tmp_path / "miscal.toml").write_text("max-expected = 0.001\n[max-field]\nstate = 0.9\n")
    assert check(table).exit_code == 1
    assert check(table, "--max-expected", "0.9").exit_code == 0
    (tmp_path / "miscal.toml").unlink()
    (tmp_path / "pyproject.toml").write_text("[tool.miscal]\nmax_findings = 0\nignore = ['state NY', 'MC101']\n")
    assert check(table).exit_code == 0
    (tmp_path / "pyproject.toml").write_text("[tool.miscal]\nmax_findings = 0\n")
    assert check(table).exit_code == 1


def test_new_findings_fail_and_known_ones_do_not(table: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    fixed = ["audit", str(table), "--outcome", "y", "--probability", "p", "--effort", "quick"]
    assert CliRunner().invoke(main, [*fixed, "--json", str(known)]).exit_code == 0
    assert check(table, "--no-new-findings", known).exit_code == 0
    frame = pd.read_csv(table)
    frame.loc[frame["state"] == "CA", "y"] = 1
    frame.to_csv(table, index=False)
    failed = check(table, "--no-new-findings", known)
    assert failed.exit_code == 1
    assert "new MC301: State CA: " in failed.output


def test_junit_and_annotations(table: Path, tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    failed = check(table, "--max-expected", "0.001", "--max-gap", "0.9", "--junit", report, "--annotations")
    assert failed.exit_code == 1
    assert "::error file=" in failed.output
    suite = ElementTree.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert len(suite.findall("testcase/failure")) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no gate"),
        (["--max-field", "state"], "column=0.02"),
        (["--max-field", "stat=0.1"], "did you mean 'state'"),
        (["--config", "absent.toml"], "absent.toml"),
        (["--no-new-findings", "absent.json", "--max-gap", "1"], "absent.json"),
    ],
)
def test_wrong_use_is_status_2_and_one_line(table: Path, arguments: list[str], message: str) -> None:
    done = check(table, *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "text", ["max-expektet = 1", "max-expected = 'x'", "max-expected = -1", "max-field = 3", "ignore = 'MC301'", "]["]
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "miscal.toml"
    path.write_text(text)
    with pytest.raises(MiscalError, match=r"miscal\.toml"):
        read_gates(path)


def test_hostile_names_stay_text_in_xml() -> None:
    made = junit([Outcome("max-field </failure>\x00", False, "]]> & \ud800 <b>")])
    root = ElementTree.fromstring(made)
    assert root.find("testcase/failure").get("message") == r"]]> & \ud800 <b>"  # type: ignore[union-attr]


def test_the_multicalibration_gate_reads_the_worst_subpopulation() -> None:
    table = {"label": ["a and b"], "deviations": [6.1]}
    document = {
        "schema": "miscal.audit/1",
        "score": {},
        "findings": [],
        "sections": {"subpopulation": [{"table": table}]},
    }
    passed, failed = (judge(document, Gates(max_multicalibration_sigma=limit))[0] for limit in (7.0, 5.0))
    assert passed.passed
    assert not failed.passed
    assert "a and b" in failed.line
    document["sections"] = {}
    assert "--effort" in judge(document, Gates(max_multicalibration_sigma=5.0))[0].line

"""The command as people use it: files in, a page out, one clear line when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from miscal.auditing.audit import audit
from miscal.cli import COMMANDS, main
from miscal.cli.commands import METHODS, OPTIONS, TABLE
from miscal.data.errors import MiscalError
from tests.commands import run


@pytest.fixture
def table(tmp_path: Path, rng: np.random.Generator) -> Path:
    p = rng.random(800).round(4)
    state = rng.choice(["CA", "NY", "TX"], 800)
    frame = pd.DataFrame(
        {"y": (rng.random(800) < np.where(state == "NY", p / 4, p)).astype(int), "p": p, "state": state}
    )
    path = tmp_path / "predictions.csv"
    frame.to_csv(path, index=False)
    return path


def test_audit_writes_a_page_and_json(table: Path, tmp_path: Path) -> None:
    page, numbers = tmp_path / "out" / "page.html", tmp_path / "numbers.json"
    done = run("audit", table, "--outcome", "y", "--probability", "p", "--out", page, "--json", numbers)
    assert done.exit_code == 0, done.output
    assert "state NY" in done.output
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")
    document = json.loads(numbers.read_text())
    assert document["schema"] == "miscal.audit/1"
    assert document["data"]["rows"] == 800
    assert any(f["where"] == "state NY" and f["real"] and f["gap"] > 0 for f in document["findings"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["numbers.json", "out", "predictions.csv"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--outcome", "yy"], "did you mean 'y'"),
        (["--probability", "prob"], "prob"),
        (["--by", "sttate"], "did you mean 'state'"),
        (["--weight", "state"], "state"),
    ],
)
def test_wrong_columns_end_in_one_line_and_status_2(table: Path, change: list[str], message: str) -> None:
    options = {"--outcome": "y", "--probability": "p", **dict([change])}
    done = run("audit", table, *[part for pair in options.items() for part in pair])
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert "Traceback" not in done.output


def test_a_missing_or_broken_file_ends_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 this is not parquet")
    for path in (tmp_path / "absent.csv", broken, tmp_path):
        done = run("audit", path, "--outcome", "y", "--probability", "p")
        assert done.exit_code == 2, path
        assert len(done.output.strip().splitlines()) == 1


def test_an_unwritable_page_is_one_line_and_leaves_nothing(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "page.html"
    folder.mkdir()
    done = run("audit", table, "--outcome", "y", "--probability", "p", "--out", folder)
    assert done.exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "predictions.csv"]


def test_help_names_the_commands() -> None:
    done = run("--help")
    assert done.exit_code == 0
    for command in ("audit", "demo"):
        assert command in done.output
    assert "..." not in done.output.partition("Commands:")[2]  # no sentence is cut off


def test_hints_speak_of_options(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("y,p\nyes,0.5\nno,0.4\n")
    done = run("audit", path, "--outcome", "y", "--probability", "p")
    assert done.exit_code == 2
    assert "--positive LABEL" in done.output


def test_a_table_without_named_roles_lists_its_columns(tmp_path):
    (tmp_path / "t.csv").write_text("late,pay,age\n0,10,3\n1,80,4\n")
    done = CliRunner().invoke(main, ["audit", str(tmp_path / "t.csv")])
    assert done.exit_code == 2
    assert done.output.strip() == (
        "miscal: audit needs the names of the outcome and probability columns; "
        "no column could be the probability, of 'late', 'pay', 'age'. "
        "Hint: say --outcome NAME and --probability NAME; "
        "unnamed, an outcome must be 0 and 1 and a probability lie in [0, 1]"
    )


@pytest.mark.parametrize("memory", [(), ("--memory", "600MB")])
def test_a_field_of_too_many_levels_is_set_aside_with_the_reason(
    table: Path, tmp_path: Path, memory: tuple[str, ...]
) -> None:
    named = ("audit", table, "--outcome", "y", "--probability", "p", *memory, "--effort", "quick")
    written = ("--out", tmp_path / "page.html", "--json", tmp_path / "a.json")
    for most, aside in ((2, True), (3, False)):
        assert run(*named, *written, "--max-levels", most).exit_code == 0
        document = json.loads((tmp_path / "a.json").read_text())
        reasons = {place["where"]: place["reason"] for place in document["too_small"]}
        assert ("more than 2 levels" in reasons.get("state", "")) is aside
    assert run(*named, *written, "--max-levels", 0).exit_code == 2


def test_max_levels_is_a_whole_number(table: Path) -> None:
    with pytest.raises(MiscalError, match="'max_levels' must be a whole number of at least 1"):
        audit(table, outcome="y", probability="p", memory="600MB", max_levels=0)


def test_every_option_of_the_table_belongs_to_a_command() -> None:
    taken = {name: OPTIONS[name]["options"].replace("TABLE", TABLE).replace("!", "").split() for name in COMMANDS}
    assert OPTIONS.keys() == {"all", *COMMANDS}
    assert OPTIONS["all"].keys() <= {option for options in taken.values() for option in options}
    for name, options in taken.items():
        assert OPTIONS[name].keys() <= {"options", *options}
    assert OPTIONS["fit"]["method"]["type"] == list(METHODS)


def test_a_gate_leaves_out_the_columns_that_are_to_be_ignored(table: Path, tmp_path: Path) -> None:
    numbers = tmp_path / "a.json"
    named = ("check", table, "--outcome", "y", "--probability", "p", "--effort", "quick", "--max-findings", 9)
    for ignored, fields in (((), 1), (("--ignore", "state"), 0)):
        assert run(*named, *ignored, "--json", numbers).exit_code == 0
        assert len(json.loads(numbers.read_text())["sections"]["field"]) == fields


def test_earlier_names_of_commands_and_options_work_and_are_not_shown(table: Path, tmp_path: Path) -> None:
    roles = ("--outcome", "y", "--probability", "p")
    for earlier, now in (("tally", "summarize"), ("page", "report")):
        texts = {}
        for name in (earlier, now):
            out = tmp_path / "out"
            source = (table, *roles) if now == "summarize" else (tmp_path / "saved.json",)
            if now == "report" and not source[0].exists():
                assert run("audit", table, *roles, "--out", out, "--json", source[0]).exit_code == 0
            done = run(name, *source, "--out", out)
            assert done.exit_code == 0, done.output
            texts[name] = done.output, done.stderr, out.read_bytes()
        assert texts[earlier] == texts[now]
        assert not texts[earlier][1]
    assert "--report" in run("recalibrate", "--help").output
    assert "--page" not in run("recalibrate", "--help").output
    for name in ("tally", "page"):
        assert f"  {name} " not in run("--help").output

"""Mistakes that people make at the command: none may write over a table, pass a gate for good, or go unsaid."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import miscal
from miscal.auditing.audit import Audit, audit
from miscal.data.errors import MiscalError, MiscalWarning
from tests.commands import run

pytestmark = pytest.mark.usefixtures("without_smooth_noise")
ROLES = ("--outcome", "y", "--probability", "p")


@pytest.fixture
def table(tmp_path: Path, rng: np.random.Generator) -> Path:
    p = rng.random(400).round(3)
    state = np.where(np.arange(400) < 6, "WY", rng.choice(["CA", "NY"], 400))
    frame = pd.DataFrame(
        {"y": (rng.random(400) < np.where(state == "NY", p / 4, p)).astype(int), "p": p, "state": state}
    )
    path = tmp_path / "predictions.csv"
    frame.to_csv(path, index=False)
    return path


def refused(*arguments: object, saying: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert saying in " ".join(done.output.split())
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    "command",
    [
        ("audit", "TABLE", *ROLES, "--out", "TABLE"),
        ("audit", "TABLE", *ROLES, "--out", "page.html", "--json", "TABLE"),
        ("check", "TABLE", *ROLES, "--max-gap", "1", "--junit", "TABLE"),
        ("recalibrate", "TABLE", *ROLES, "--out", "r.csv", "--page", "r.html", "--model", "TABLE"),
        ("summarize", "TABLE", *ROLES, "--out", "TABLE"),
        ("fit", "TABLE", *ROLES, "--method", "platt", "--out", "TABLE"),
    ],
)
def test_no_command_writes_over_the_table_it_reads(
    table: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(table.parent)
    before = table.read_bytes()
    refused(*(table if word == "TABLE" else word for word in command), saying="would write over what is read")
    assert table.read_bytes() == before
    assert [path.name for path in table.parent.iterdir()] == [table.name]


def test_no_command_writes_over_a_tally_a_model_or_a_table_that_it_adds_to(table: Path, tmp_path: Path) -> None:
    one, model, page = tmp_path / "one.tally", tmp_path / "model.json", tmp_path / "page.html"
    assert run("summarize", table, *ROLES, "--out", one).exit_code == 0
    assert run("fit", table, *ROLES, "--method", "platt", "--out", model).exit_code == 0
    assert (
        run("audit", table, *ROLES, "--effort", "quick", "--out", page, "--save", tmp_path / "a.miscal").exit_code == 0
    )
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for command in (
        ("merge", one, "--out", one),
        ("apply", model, table, "--probability", "p", "--out", table),
        ("summarize", table, *ROLES, "--like", one, "--out", one),
        ("report", tmp_path / "a.miscal", "--out", tmp_path / "a.miscal"),
        ("audit", one, "--out", one),
    ):
        refused(*command, saying="would write over what is read")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_two_outputs_in_one_file_are_refused(table: Path, tmp_path: Path) -> None:
    one = tmp_path / "one"
    refused("audit", table, *ROLES, "--out", one, "--json", one, saying="--json needs a file of its own; --out is")


def test_a_folder_that_cannot_be_made_is_one_line(table: Path, tmp_path: Path) -> None:
    refused("audit", table, *ROLES, "--out", table / "page.html", saying="cannot be made")
    refused("audit", table, *ROLES, "--out", tmp_path, saying="it is a folder. Hint: name a file in it")


def test_a_name_that_no_system_takes_is_one_line(table: Path, tmp_path: Path) -> None:
    long = tmp_path / ("a" * 300)
    for option in ("--out", "--json", "--save"):
        refused("audit", table, *ROLES, option, long, saying=f"'{long}' cannot be written; File name too long.")
    refused("check", table, *ROLES, "--max-gap", 1, "--junit", long, saying="File name too long")
    refused("summarize", table, *ROLES, "--out", long, saying="File name too long")


def test_a_demo_that_cannot_be_written_says_nothing_else(table: Path) -> None:
    done = run("demo", "--out", table)
    assert done.exit_code == 2
    assert done.output.startswith("miscal: ")
    assert done.output.count("\n") == 1


def test_a_negative_seed_is_one_line(table: Path) -> None:
    refused("audit", table, *ROLES, "--seed", "-1", saying="--seed")


@pytest.mark.parametrize("gate", ["--max-expected", "--max-kuiper", "--max-gap"])
def test_a_gate_in_percent_would_never_fail_and_is_refused(table: Path, gate: str) -> None:
    refused("check", table, *ROLES, gate, "2", saying=f"{gate} must be at most 1, or nothing could fail it; it is 2.")
    refused("check", table, *ROLES, gate, "-0.1", saying="not negative")


def test_gates_of_fields_and_files_are_limits_too(table: Path, tmp_path: Path) -> None:
    refused("check", table, *ROLES, "--max-field", "state=3", saying="Hint: percent? 3% is 0.03")
    config = tmp_path / "gates.toml"
    config.write_text("max-expected = 5\n")
    refused("check", table, *ROLES, "--config", config, saying="5% is 0.05")
    config.write_text("max-expectd = 0.5\n")
    refused("check", table, *ROLES, "--config", config, saying="did you mean 'max-expected'?")


def test_a_tally_refuses_what_it_cannot_follow_any_more(table: Path, tmp_path: Path) -> None:
    kept, page = tmp_path / "day.tally", tmp_path / "page.html"
    assert run("summarize", table, *ROLES, "--out", kept).exit_code == 0
    refused("audit", kept, "--cluster", "state", "--out", page, saying="--cluster is fixed when a summary file is made")
    refused("audit", kept, "--by", "state", "--out", page, saying="--by is fixed")
    refused("audit", kept, "--outcome", "z", "--out", page, saying="--outcome is 'y' in 'day.tally'; 'z' was asked for")
    done = run("audit", kept, *ROLES, "--out", page)
    assert done.exit_code == 0, done.output


def test_a_tally_is_not_added_to_itself(table: Path, tmp_path: Path) -> None:
    one, two, both = (tmp_path / f"{name}.tally" for name in ("one", "two", "both"))
    assert run("summarize", table, *ROLES, "--out", one).exit_code == 0
    two.write_bytes(one.read_bytes())
    refused("merge", one, two, "--out", both, saying="Its rows would count twice")
    done = run("merge", one, "--out", both)
    assert "of 1 table." in done.output


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line_without_a_place_in_the_code(table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table).assign(y=0)
    frame.to_csv(table, index=False)
    done = run("audit", table, *ROLES, "--effort", "quick", "--out", tmp_path / "page.html")
    assert "miscal: note: column 'y' has a single class: all 400 rows are 0" in done.output
    assert "MiscalWarning" not in done.output
    assert ".py" not in done.output


def test_hints_name_what_the_command_has(table: Path) -> None:
    pd.read_csv(table).assign(p=lambda f: 100 * f.p).to_csv(table, index=False)
    done = run("audit", table, *ROLES)
    assert "use --logit" in done.output
    assert "clip" not in done.output


def test_small_cells_stay_out_of_a_comparison_and_the_saved_audit_can_be_compared(table: Path, tmp_path: Path) -> None:
    saved, page, numbers = (tmp_path / name for name in ("june.miscal", "page.html", "page.json"))
    hide = ("--suppress-below", "20", "--effort", "quick", "--out", page)
    done = run("audit", table, *ROLES, *hide, "--save", saved)
    assert "do not share it" in done.output
    for command in (("audit", table, *ROLES, *hide), ("report", saved, "--suppress-below", 20, "--out", page)):
        done = run(*command, "--baseline", saved, "--json", numbers)
        assert done.exit_code == 0, done.output
        compared = json.loads(numbers.read_text())["comparison"]["table"]
        assert "rows" not in compared
        assert len(compared["where"]) > 2
        # WY has 6 rows, and the next smallest level is hidden in its section so that nobody can subtract
        assert len([where for where in compared["where"] if where.startswith("state")]) == 1
        assert "state WY" not in compared["where"]


def test_pages_of_a_saved_audit_hide_what_the_audit_hid(table: Path, tmp_path: Path) -> None:
    saved, again, page, numbers = (tmp_path / name for name in ("june.miscal", "again.miscal", "p.html", "p.json"))
    run("audit", table, *ROLES, "--suppress-below", 20, "--effort", "quick", "--out", page, "--save", saved)
    for source, options in ((saved, ("--save", again)), (again, ()), (saved, ("--suppress-below", 1))):
        done = run("report", source, "--out", page, "--json", numbers, *options)
        assert done.exit_code == 0, done.output
        tables = [field["table"] for field in json.loads(numbers.read_text())["sections"]["field"]]
        rows = next(dict(zip(t["label"], t["rows"], strict=True))["WY"] for t in tables if "WY" in t["label"])
        assert rows == (6 if options[:1] == ("--suppress-below",) else None)


def test_what_one_audit_hides_stays_hidden_beside_others(table: Path, tmp_path: Path) -> None:
    """As a baseline, and written from Python."""
    hidden, plain, page, numbers = (tmp_path / name for name in ("hidden.miscal", "plain.miscal", "p.html", "p.json"))
    whole = ("audit", table, *ROLES, "--effort", "quick", "--out", page)
    run(*whole, "--suppress-below", 20, "--save", hidden)
    pd.read_csv(table).iloc[:-1].to_csv(table, index=False)
    run(*whole, "--save", plain)
    for command in (("report", plain, "--out", page), whole):
        run(*command, "--baseline", hidden, "--json", numbers)
        assert "state WY" not in json.loads(numbers.read_text())["comparison"]["table"]["where"]
    Audit.load(hidden).to_json(numbers)
    for field in json.loads(numbers.read_text())["sections"]["field"]:
        rows = dict(zip(field["table"]["label"], field["table"]["rows"], strict=True))
        assert rows.get("WY") is None
    refused("report", hidden, "--suppress-below", -3, saying="-3")


def test_a_gate_does_not_write_over_its_baseline(table: Path, tmp_path: Path) -> None:
    numbers = tmp_path / "r.json"
    run("audit", table, *ROLES, "--effort", "quick", "--out", tmp_path / "p.html", "--json", numbers)
    refused("check", table, *ROLES, "--no-new-findings", numbers, "--json", numbers, saying="is the baseline")


def test_a_suppressed_audit_says_why_it_cannot_be_compared(table: Path) -> None:
    found = audit(table, outcome="y", probability="p", effort="quick", suppress_below=20)
    with pytest.raises(MiscalError, match="save and compare first, suppress then"):
        found.compare(found)


def test_a_page_suggests_commands_that_run_as_they_stand(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.parent)
    frame = pd.read_csv(table)
    frame = frame.assign(y=np.where(frame.y == 1, "came back", "no"), p=np.log(frame.p + 0.01), extra=frame.p)
    frame.to_csv(table, index=False)
    options = (*ROLES, "--positive", "came back", "--logit", "--ignore", "extra", "--effort", "quick")
    assert run("audit", table.name, *options, "--json", "report.json").exit_code == 0
    lines = re.findall(r"miscal (check [^<]*)", html.unescape(Path("report.html").read_text()))
    assert len(lines) == 1
    done = run(*shlex.split(lines[0]))
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("off", [True, False])
def test_the_next_command_finds_the_table_from_where_it_is_printed(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, off: bool
) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "a folder"
    elsewhere.mkdir()
    folder.mkdir()
    frame = pd.read_csv(table)
    right = frame.assign(y=(rng.random(len(frame)) < frame.p).astype(int))
    (frame if off else right).to_csv(folder / "t.csv", index=False)
    monkeypatch.chdir(elsewhere)
    done = run("audit", "../a folder/t.csv", *ROLES, "--effort", "quick")
    following = next(line for line in done.output.splitlines() if line.startswith("Next: "))
    assert ("recalibrate" if off else "check") in following
    done = run(*shlex.split(following.removeprefix("Next: miscal ")))
    assert done.exit_code == 0, done.output
    assert "a folder" not in Path("report.html").read_text()  # pages are passed on


@pytest.mark.parametrize("named", ["p, calibrated", "it's p", "p --logit", '"p"'])
def test_a_suggested_command_names_an_odd_column_as_one(
    table: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.chdir(table.parent)
    pd.read_csv(table).rename(columns={"p": named}).to_csv(table, index=False)
    roles = ("--outcome", "y", "--probability", named, "--effort", "quick")
    assert run("audit", table.name, *roles, "--json", "report.json").exit_code == 0
    lines = re.findall(r"miscal ((?:check|recalibrate) [^<]*)", html.unescape(Path("report.html").read_text()))
    for words in map(shlex.split, lines):
        assert [words[i + 1] for i, word in enumerate(words) if word == "--probability"] == [named]
    assert len(lines) >= 2
    done = run(*shlex.split(next(line for line in lines if line.startswith("check"))))
    assert done.exit_code == 0, done.output
    assert run("summarize", table.name, *roles[:4], "--out", "day.tally").exit_code == 0
    assert run("audit", "day.tally", "--out", "day.html").exit_code == 0
    assert shlex.quote(named) in html.unescape(Path("day.html").read_text())


def test_several_probabilities_are_several_options(tmp_path: Path, rng: np.random.Generator, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    p = rng.dirichlet(np.ones(3), 300)
    frame = pd.DataFrame({"y": rng.integers(0, 3, 300), "p, 0": p[:, 0], "p1": p[:, 1], "p2": p[:, 2]})
    frame.to_csv("t.csv", index=False)
    names = [word for name in ("p, 0", "p1", "p2") for word in ("--probability", name)]
    assert run("audit", "t.csv", "--outcome", "y", *names, "--effort", "quick").exit_code == 0
    assert shlex.join(names) in html.unescape(Path("report.html").read_text())


def test_a_repair_says_how_it_is_applied_to_an_odd_column(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.parent)
    pd.read_csv(table).rename(columns={"p": "p, calibrated"}).to_csv(table, index=False)
    roles = ("--outcome", "y", "--probability", "p, calibrated", "--effort", "quick", "--score-only")
    done = run("recalibrate", table.name, *roles)
    assert done.exit_code == 0, done.output
    said = re.search(r"Apply to new data: miscal (.*)", done.output)
    assert said is not None
    again = run(*shlex.split(said[1].replace("FILE", table.name)))
    assert again.exit_code == 0, again.output


def test_a_gate_judges_every_cell_and_then_hides_the_small_ones(tmp_path: Path, rng: np.random.Generator) -> None:
    p = rng.uniform(0.2, 0.8, 4000)
    state = np.where(np.arange(4000) < 60, "WY", rng.choice(["CA", "NY"], 4000))
    y = np.where(state == "WY", 0, rng.random(4000) < np.where(state == "NY", p / 3, p)).astype(int)
    table, numbers, suite = (tmp_path / name for name in ("t.csv", "n.json", "junit.xml"))
    pd.DataFrame({"y": y, "p": p, "state": state}).to_csv(table, index=False)
    fixed = ("check", table, *ROLES, "--effort", "quick", "--max-findings", 0, "--json", numbers, "--junit", suite)
    said = []
    for hide in ((), ("--suppress-below", 100)):
        done = run(*fixed, *hide)
        assert done.exit_code == 1
        said.append(done.output)
        places = {finding["where"] for finding in json.loads(numbers.read_text())["findings"]}
        assert ("state WY" in places) == (not hide)
    assert said[0] == said[1]
    known = json.loads(numbers.read_text())
    known["findings"], known["settings"] = (
        [],
        {key: v for key, v in known["settings"].items() if key != "suppress_below"},
    )
    baseline = tmp_path / "known.json"
    baseline.write_text(json.dumps(known))
    done = run(*fixed, "--suppress-below", 100, "--no-new-findings", baseline)
    assert "a segment of fewer than 100 rows" in done.output
    assert "WY" not in done.output + suite.read_text() + numbers.read_text().replace('"WY"', "")


def test_one_baseline_serves_audit_page_and_check(table: Path, tmp_path: Path) -> None:
    saved, numbers, page, made = (tmp_path / name for name in ("june.miscal", "june.json", "p.html", "made.json"))
    common = ("audit", table, *ROLES, "--effort", "quick", "--out", page)
    assert run(*common, "--save", saved, "--json", numbers).exit_code == 0
    for baseline in (saved, numbers):
        for option in ("--baseline", "--no-new-findings"):
            done = run("check", table, *ROLES, "--effort", "quick", option, baseline)
            assert done.exit_code == 0, done.output
        for command in (common, ("report", saved, "--out", page)):
            done = run(*command, "--baseline", baseline, "--json", made)
            assert done.exit_code == 0, done.output
            compared = json.loads(made.read_text())["comparison"]
            assert (len(compared["table"]["where"]) > 0) == (baseline == saved)
            assert compared["new"] == compared["gone"] == []
            assert ("0 new, 0 resolved" in done.output) == (baseline == numbers)
            assert ("by findings alone" in page.read_text()) == (baseline == numbers)
    frame = pd.read_csv(table)
    frame.loc[frame.state == "CA", "y"] = 1
    frame.to_csv(table, index=False)
    for baseline in (saved, numbers):
        assert run("check", table, *ROLES, "--effort", "quick", "--baseline", baseline).exit_code == 1
        done = run(*common, "--baseline", baseline, "--json", made)
        assert "state CA" in json.loads(made.read_text())["comparison"]["new"]


@pytest.mark.parametrize("part", ["findings", "data", "settings"])
def test_a_baseline_that_lacks_a_part_is_refused(table: Path, tmp_path: Path, part: str) -> None:
    numbers = tmp_path / "june.json"
    assert (
        run("audit", table, *ROLES, "--effort", "quick", "--out", tmp_path / "p.html", "--json", numbers).exit_code == 0
    )
    document = json.loads(numbers.read_text())
    del document[part]
    numbers.write_text(json.dumps(document, sort_keys=True))
    refused("check", table, *ROLES, "--baseline", numbers, saying=f"is damaged; it has no '{part}'")
    refused("audit", table, *ROLES, "--baseline", numbers, saying=f"is damaged; it has no '{part}'")


def test_a_handful_of_rows_is_not_called_clean(tmp_path: Path) -> None:
    frame = {"y": [0, 0, 1, 0, 0], "p": [0.2, 0.3, 0.25, 0.2, 0.3], "age": [1.0, 2, 3, 4, 5], "sex": list("fmfmf")}
    found = audit(frame, outcome="y", probability="p", effort="quick")
    assert found.clean == []
    assert {"age", "sex"} <= {entry["where"] for entry in found.too_small}
    path = tmp_path / "few.csv"
    pd.DataFrame(frame).to_csv(path, index=False)
    done = run("audit", path, *ROLES, "--effort", "quick", "--out", tmp_path / "page.html")
    assert "The rows are too few to be conclusive" in done.output


def test_scores_of_the_other_class_are_noted(table: Path, tmp_path: Path) -> None:
    pd.read_csv(table).assign(p=lambda f: 1 - f.p).to_csv(table, index=False)
    done = run("audit", table, *ROLES, "--effort", "quick", "--out", tmp_path / "page.html")
    assert "Note: The higher the score, the fewer events" in done.output


def test_probabilities_that_are_called_logits_are_noted(table: Path) -> None:
    with pytest.warns(MiscalWarning, match="lies in .0, 1.: probabilities already"):
        miscal.read(table, outcome="y", probability="p", logit=True)


@pytest.mark.parametrize("seed", [-1, "a", 1.5, True, None])
def test_a_wrong_seed_is_refused(table: Path, seed: object) -> None:
    with pytest.raises(MiscalError, match="'random_state' must be a whole number of at least 0"):
        audit(table, outcome="y", probability="p", random_state=seed)


def test_certain_predictions_that_were_wrong_have_a_size(rng: np.random.Generator) -> None:
    frame = {"y": (rng.random(300) < 0.3).astype(int), "p": np.zeros(300), "g": rng.choice(["a", "b"], 300)}
    found = audit(frame, outcome="y", probability="p", effort="quick")
    real = [finding for finding in found.findings if finding.real]
    assert real
    assert all(finding.shrunken == finding.gap for finding in real if finding.specific)
    assert not any(np.isnan(finding.shrunken) for finding in real)


@pytest.mark.parametrize(
    ("options", "saying"),
    [
        (("--by", "p"), "--by names one of the other columns; column 'p' is 'probability' already"),
        (("--ignore", "y"), "--ignore names one of the other columns; column 'y' is 'outcome' already"),
        (("--time", "p"), "--time names one of the other columns"),
        (("--by", "state", "--ignore", "state"), "--ignore leaves out what 'by' asks for; both name column 'state'"),
    ],
)
def test_columns_that_cannot_be_looked_at_are_named_as_what_they_are(
    table: Path, tmp_path: Path, options: tuple[str, ...], saying: str
) -> None:
    refused("audit", table, *ROLES, *options, "--out", tmp_path / "page.html", saying=saying)


def test_a_saved_audit_in_place_of_its_json_is_told_apart(table: Path, tmp_path: Path) -> None:
    refused("check", table, *ROLES, "--no-new-findings", table, saying="`miscal audit TABLE --json FILE`")


def test_labels_that_are_words_get_a_hint_that_can_be_followed() -> None:
    words, p = np.array(["cat", "ant", "bee"] * 20), np.tile([[0.2, 0.3, 0.5]], (60, 1))
    with pytest.raises(MiscalError, match=r"numpy\.searchsorted") as caught:
        miscal.metrics.expected_calibration_error(words, p)
    assert "Predictions(..., classes=[...])" in str(caught.value)
    numbers = np.searchsorted(["ant", "bee", "cat"], words)
    named = miscal.Predictions(words, p, classes=["ant", "bee", "cat"])
    value = miscal.metrics.expected_calibration_error(numbers, p)
    assert np.array_equal(named.outcome, numbers)
    assert value == pytest.approx(0.5 - 1 / 3)


def test_a_result_without_an_interval_prints_none(rng: np.random.Generator) -> None:
    p = rng.dirichlet(np.ones(3), 200)
    found = miscal.by_variation(miscal.Predictions(rng.integers(0, 3, 200), p))
    assert "nan to nan" not in repr(found)
    assert "There is no interval" in " ".join(repr(found).split())


def test_one_name_alone_is_a_list_of_it(table: Path) -> None:
    one, listed = (audit(table, outcome="y", probability="p", by=by, effort="quick") for by in ("state", ["state"]))
    assert one.document["findings"] == listed.document["findings"]
    assert (
        audit(table, outcome="y", probability="p", ignore="state", effort="quick").document["sections"]["field"] == []
    )


@pytest.mark.parametrize("values", [(1.0, 10.0), ("kept", "sampled")])
def test_a_column_that_gives_the_outcome_away_is_noted(
    table: Path, tmp_path: Path, values: tuple[object, object]
) -> None:
    frame = pd.read_csv(table)
    frame["drawn"] = np.where(frame.y == 1, np.array(values[0], dtype=object), np.array(values[1], dtype=object))
    frame.to_csv(table, index=False)
    run_quick = ("audit", table, *ROLES, "--effort", "quick", "--out", tmp_path / "page.html")
    output = " ".join(run(*run_quick).output.split())
    assert "Excluded: drawn (a copy of the outcome" in output
    assert ("if it is a sampling weight, say so" in output) == isinstance(values[0], float)
    assert "gives the outcome away" not in run(*run_quick, "--ignore", "drawn").output


def test_a_repair_does_not_offer_what_it_refuses(table: Path) -> None:
    assert "--suppress-below" not in run("recalibrate", "--help").output
    assert "--suppress-below" in run("audit", "--help").output
    refused("recalibrate", table, *ROLES, "--suppress-below", 20, saying="No such option")


def test_a_pattern_stands_for_its_columns_in_gates_too(tmp_path: Path, rng: np.random.Generator) -> None:
    p = rng.dirichlet(np.ones(3), 300)
    y = (p.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)
    path = tmp_path / "classes.csv"
    pd.DataFrame({"y": y} | {f"p_{k}": p[:, k] for k in range(3)}).to_csv(path, index=False)
    given = ("--outcome", "y", "--probability", "p_*")
    refused("check", path, *given, "--max-field", "p_0=0.5", saying="no column 'p_0'")
    refused("audit", path, *given, "--probability", "p_1", saying="must be one pattern, or the names of the columns")

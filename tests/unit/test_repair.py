"""Before and after a repair: verdicts, files, and the command as people use it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyarrow import csv

from miscal.auditing.repair import _verdict, repair, repair_table
from miscal.data.errors import MiscalError
from miscal.data.outputs import write_together
from miscal.data.predictions import Predictions
from miscal.recalibrate import GroupWise, Identity, PlattScaling, Recalibrator, TemperatureScaling
from miscal.report.codec import report_from
from miscal.report.html.gap_figures import gap_pairs
from miscal.report.html.page import to_html
from tests.commands import run

FEW = {"platt": PlattScaling(), "groups": GroupWise(PlattScaling(), columns=["state"])}


def table_of(rows: int, seed: int = 0) -> pa.Table:
    """States of the same scores; in NY half of what is predicted happens."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 3, rows).round(6)
    state = rng.choice(["CA", "NY", "TX"], rows)
    y = (rng.random(rows) < np.where(state == "NY", p / 2, p)).astype(int)
    return pa.table({"y": y, "p": p, "state": state, "age": rng.integers(20, 70, rows)})


@pytest.fixture(scope="module")
def predictions() -> Predictions:
    table = table_of(6000, 1)
    return Predictions(table["y"], table["p"], columns={"state": table["state"], "age": table["age"]})


@pytest.fixture(scope="module")
def grouped() -> Recalibrator:
    table = table_of(6000, 2)
    return GroupWise(PlattScaling(), columns=["state"]).fit(table["p"], table["y"], {"state": table["state"]})


def test_a_repair_of_the_cause_makes_its_findings_go(predictions: Predictions, grouped: Recalibrator) -> None:
    record = repair(predictions, grouped, effort="quick")
    assert "state NY" in record.where("gone")
    assert not record.where("larger")
    place = next(place for place in record.places if place["where"] == "state NY")
    inside = np.array(predictions.columns["state"].values) == predictions.columns["state"].levels.index("NY")
    after = grouped.predict_proba(predictions.probability, predictions.columns)[:, 1]
    happened = predictions.outcome[inside].mean()
    assert place["before"]["gap"] == pytest.approx(predictions.probability[inside].mean() - happened, abs=1e-12)
    assert place["after"]["gap"] == pytest.approx(after[inside].mean() - happened, abs=1e-12)
    assert place["after"]["interval"][0] < place["after"]["gap"] < place["after"]["interval"][1]
    assert record.about["score"]["log_loss"][1] < record.about["score"]["log_loss"][0]
    assert record.about["log_loss_change"]["interval"][1] < 0


def test_doing_nothing_leaves_everything(predictions: Predictions) -> None:
    record = repair(predictions, Identity().fit(predictions.probability, predictions.outcome), effort="quick")
    assert record.places
    assert {place["verdict"] for place in record.places} == {"remaining"}
    for place in record.places:
        assert place["after"]["gap"] == pytest.approx(place["before"]["gap"], abs=1e-12)


def test_a_repair_that_harms_shows_new_places(predictions: Predictions) -> None:
    """It was fitted where TX, and not NY, has half of what is predicted."""
    table = table_of(6000, 2)
    p, state = table["p"].to_numpy(), np.array(table["state"])
    y = (np.random.default_rng(3).random(6000) < np.where(state == "TX", p / 2, p)).astype(int)
    harmful = GroupWise(PlattScaling(), columns=["state"]).fit(p, y, {"state": state})
    record = repair(predictions, harmful, effort="quick")
    assert any(where.startswith("state TX") for where in record.where("new"))
    assert "state NY" not in record.where("gone")


@pytest.mark.parametrize(
    ("before", "after", "within", "expected"),
    [
        (0.1, 0.01, True, "gone"),
        (0.1, 0.06, True, "smaller"),  # within noise but hardly moved: not called gone
        (0.1, 0.01, False, "smaller"),
        (0.1, -0.095, False, "remaining"),
        (-0.1, 0.12, False, "larger"),
    ],
)
def test_verdicts(before: float, after: float, within: bool, expected: str) -> None:
    assert _verdict(before, after, significant=not within, still_found=False, whole=False) == expected


def test_the_halves_do_not_overlap_and_all_rows_are_repaired() -> None:
    table = table_of(3000)
    done = repair_table(table, outcome="y", probability="p", candidates=FEW, effort="quick")
    assert done.model.name == "groups"
    parts = np.array(done.table["recalibrated_part"])
    assert (parts == "fit").sum() == 1500
    assert done.record.about["fitted_rows"] == 1500
    assert done.record.about["shipped_rows"] == done.model.n_rows_ == 3000  # fitted again once it was judged
    assert done.record.about["rows"] == 1500
    X = {"state": table["state"]}
    np.testing.assert_array_equal(done.table["recalibrated"], done.model.predict_proba(table["p"], X)[:, 1])
    unseen = table.filter(pa.array(parts == "test"))
    assert done.record.predictions.outcome.tolist() == unseen["y"].to_pylist()


def test_rows_of_no_weight_are_repaired_too() -> None:
    table = table_of(3000).append_column("w", pa.array(np.where(np.arange(3000) < 10, 0.0, 1.0)))
    done = repair_table(table, outcome="y", probability="p", weight="w", candidates=FEW, effort="quick")
    judged = np.array(done.table["recalibrated_part"])[10:] == "test"
    assert done.record.about["rows"] == judged.sum()
    assert done.table.num_rows == 3000
    assert done.model.n_rows_ == 2990
    assert np.isfinite(done.table["recalibrated"]).all()


def test_columns_and_model_carry_the_names_of_several_classes() -> None:
    rng = np.random.default_rng(0)
    right = rng.dirichlet([2, 2, 2], 900)
    names = np.array(["cat", "dog", "emu"])
    happened = names[(rng.random((900, 1)) > right.cumsum(axis=1)).sum(axis=1)]
    sharp = right**2 / (right**2).sum(axis=1, keepdims=True)
    parts = [f"p_{name}" for name in names]
    table = pa.table({"animal": happened, "x": rng.normal(size=900), **dict(zip(parts, sharp.T, strict=True))})
    done = repair_table(
        table, outcome="animal", probability=parts, effort="quick", candidates={"heat": TemperatureScaling()}
    )
    assert done.model.classes_.tolist() == names.tolist()
    again = Recalibrator.from_json(done.model.to_json())
    for k, name in enumerate(names):
        np.testing.assert_array_equal(done.table[f"recalibrated_{name}"], again.predict_proba(sharp)[:, k])


def test_clusters_are_not_split() -> None:
    table = table_of(2000).append_column("who", pa.array(np.arange(2000) // 5))
    done = repair_table(table, outcome="y", probability="p", cluster="who", candidates=FEW, effort="quick")
    parts = np.array(done.table["recalibrated_part"]).reshape(-1, 5)
    assert (parts == parts[:, :1]).all()


def test_only_allowed_columns_are_used() -> None:
    done = repair_table(
        table_of(2000), outcome="y", probability="p", allowed=[], by=["state"], effort="quick",
        candidates={"platt": PlattScaling()},
    )  # fmt: skip
    assert done.model.name == "platt"
    assert not done.model.uses_columns
    assert "by state" in done.model.table
    with pytest.raises(MiscalError, match="did you mean 'state'"):
        repair_table(table_of(2000), outcome="y", probability="p", allowed=["stat"])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("repair")
    pq.write_table(table_of(1500), folder / "in.parquet")
    done = run(
        "recalibrate", folder / "in.parquet", "--outcome", "y", "--probability", "p", "--by", "state", "--effort",
        "quick", "--out", folder / "out" / "repaired.parquet", "--model", folder / "model.json", "--page",
        folder / "page.html", "--json", folder / "page.json",
    )  # fmt: skip
    return folder, done


def test_the_command_writes_table_model_page_and_json(written: tuple[Path, Result]) -> None:
    folder, done = written
    assert done.exit_code == 0, done.output
    assert "gone" in done.output
    document = json.loads((folder / "page.json").read_text())
    assert document["schema"] == "miscal.audit/1"
    assert document["repaired_by"]["rows"] == 750
    assert {"where", "before", "after", "verdict"} <= set(document["repair"][0])
    page = (folder / "page.html").read_text()
    assert "Before and after recalibration" in page
    assert "Recalibration report" in page  # and not an audit: the headline is of recalibrated probabilities
    assert "After recalibration, " in page
    assert " before recalibration)" in page
    assert page == to_html(document)  # the page holds nothing that the JSON does not
    assert sorted(path.name for path in folder.iterdir()) == [
        "in.parquet",
        "model.json",
        "out",
        "page.html",
        "page.json",
    ]


def test_the_model_repairs_new_data_as_the_command_did(written: tuple[Path, Result]) -> None:
    folder, _ = written
    again = folder / "again.parquet"
    done = run("apply", folder / "model.json", folder / "in.parquet", "--probability", "p", "--out", again)
    assert done.exit_code == 0, done.output
    one, two = pq.read_table(folder / "out" / "repaired.parquet"), pq.read_table(again)
    again.unlink()
    np.testing.assert_array_equal(one["recalibrated"], two["recalibrated"])


def test_what_is_left_comes_first() -> None:
    gaps = {"before": {"gap": 0.1}, "after": {"gap": 0.05, "interval": [0.0, 0.1]}}
    verdicts = ("gone", "new", "gone", "remaining", "smaller", "larger")
    places = [{"where": "here", "verdict": word, **gaps} for word in verdicts]
    document = report_from({"schema": "miscal.audit/1", "repaired_by": {}, "repair": places})
    found = re.findall(r"here: (\w+)", str(gap_pairs(document.repaired.places).marks))
    assert found == ["new", "worsened", "unchanged", "improved", "resolved", "resolved"]


def test_files_have_names_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    csv.write_csv(table_of(400), "in.csv")
    done = run("recalibrate", "in.csv", "--outcome", "y", "--probability", "p", "--effort", "quick", "--score-only")
    assert done.exit_code == 0, done.output
    assert "miscal apply in-repair.json FILE --probability p" in done.output
    names = ["in-repair.html", "in-repair.json", "in-repaired.csv", "in.csv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    done = run("apply", "in-repair.json", "in.csv", "--probability", "p")
    assert done.exit_code == 0, done.output
    assert csv.read_csv("in-recalibrated.csv")["recalibrated"] == csv.read_csv(names[2])["recalibrated"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recalibrate", "in.csv"], "needs the names of the outcome and probability columns; the columns are '"),
        (["recalibrate", "in.csv", "--outcome", "yy", "--probability", "p"], "--outcome: the table has no column 'yy'"),
        (["apply", "in.csv", "in.csv", "--probability", "p"], "not a model written by `miscal recalibrate`"),
        (["apply", "none.json", "in.csv", "--probability", "p"], "'none.json' cannot be read; No such file"),
    ],
)
def test_the_command_line_does_not_speak_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    csv.write_csv(table_of(300), "in.csv")
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--allowed", "stat"], "did you mean 'state'"),
        (["--out", "repaired.xlsx"], ".parquet or .csv"),
        (["--allowed", "state", "--score-only"], "--score-only"),
    ],
)
def test_wrong_use_is_one_line_and_leaves_nothing(tmp_path: Path, change: list[str], message: str) -> None:
    pq.write_table(table_of(300), tmp_path / "in.parquet")
    arguments = ["--outcome", "y", "--probability", "p", "--effort", "quick", "--out", tmp_path / "o.csv", *change]
    done = run("recalibrate", tmp_path / "in.parquet", *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_files_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    with pytest.raises(MiscalError, match="does not exist"):
        write_together({tmp_path / "old": b"new", tmp_path / "absent" / "file": b"x"})
    assert (tmp_path / "old").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_trials_count_in_the_change_of_log_loss(rng: np.random.Generator) -> None:
    """A row of several trials weighs as much as those trials row by row."""
    count, score = rng.integers(1, 5, 300), rng.random(300)
    events = rng.binomial(count, score)
    fitted = PlattScaling().fit(rng.random(200), rng.integers(0, 2, 200))
    each = np.concatenate([np.arange(k) < e for k, e in zip(count, events, strict=True)]).astype(int)
    tables = Predictions(events, score, count=count), Predictions(each, np.repeat(score, count))
    one, two = (repair(table, fitted, effort="quick").about["log_loss_change"]["value"] for table in tables)
    assert one == pytest.approx(two, rel=1e-12)

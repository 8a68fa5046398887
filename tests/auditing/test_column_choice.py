"""The table is looked at first: what is the outcome, what the probability, what no column of its own, what a key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import miscal
from miscal.auditing.column_choice import suggested
from miscal.data.target import select_target
from tests.commands import run

ROWS = 2000


def _table(rows: int = ROWS, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 3, rows).round(4)
    y = (rng.random(rows) < p).astype(int)
    return {"late": y, "p": p, "carrier": rng.choice(["UA", "AA", "DL"], rows), "hour": rng.integers(0, 24, rows)}


def _csv(table: dict[str, Any], path: Path) -> Path:
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def _notes(found: miscal.Audit) -> str:
    return "\n".join(found.document["notes"])


def test_outcome_and_probability_are_guessed_where_one_choice_is_left(tmp_path: Path) -> None:
    table = _table()
    path = _csv({**table, "y_pred": (table["p"] > 0.5).astype(int)}, tmp_path / "t.csv")
    done = run("audit", path, "--effort", "quick", "--out", tmp_path / "r.html", "--json", tmp_path / "r.json")
    assert done.exit_code == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "Taken as outcome: late; as probability: p." in text
    assert "--outcome late --probability p" in text
    named = miscal.audit(path, outcome="late", probability="p", effort="quick")
    guessed = miscal.audit(path, effort="quick")
    assert guessed.document["findings"] == named.document["findings"]
    assert guessed.document["data"]["outcome"] == "late"


def test_one_given_name_leaves_the_other_to_guess() -> None:
    assert miscal.audit(_table(), outcome="late", effort="quick").document["data"]["probability"] == "p"
    assert miscal.audit(_table(), probability="p", effort="quick").document["data"]["outcome"] == "late"


def test_several_choices_are_listed_and_none_is_taken() -> None:
    table = _table()
    rng = np.random.default_rng(1)
    with pytest.raises(miscal.MiscalError, match="could be the outcome: 'late', 'weekend'"):
        miscal.audit({**table, "weekend": rng.integers(0, 2, ROWS)})
    with pytest.raises(miscal.MiscalError, match="could be the probability: 'u', 'v'"):
        miscal.audit({"late": table["late"], "u": table["p"], "v": rng.random(ROWS)})
    with pytest.raises(miscal.MiscalError, match="no column could be the outcome"):
        miscal.audit({"p": table["p"]})


def test_a_name_settles_it() -> None:
    table = _table()
    found = miscal.audit({**table, "share": np.random.default_rng(1).random(ROWS)}, effort="quick")
    assert found.document["data"]["probability"] == "p"


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (lambda t: (t["p"] > 0.3).astype(int), "the score, thresholded"),
        (lambda t: np.where(t["p"] >= 0.5, "yes", "no"), "the score, thresholded"),
        (lambda t: t["late"].astype(bool), "a copy of the outcome"),
        (lambda t: np.where(t["late"] == 1, "no", "yes"), "a copy of the outcome"),
        (lambda t: 1.0 - t["p"], "a copy of the score"),
        (lambda t: np.log(t["p"] / (1 - t["p"])), "a copy of the score"),
        (lambda t: (100 * t["p"]).astype(np.float32), "a copy of the score"),
    ],
)
def test_copies_are_set_aside_with_the_reason(column: Any, reason: str) -> None:
    table = _table()
    found = miscal.audit({**table, "x": column(table)}, outcome="late", probability="p", effort="quick")
    aside = {entry["where"]: entry["reason"] for entry in found.too_small}
    assert reason in aside["x"]
    asked = miscal.audit({**table, "x": column(table)}, outcome="late", probability="p", by=["x"], effort="quick")
    assert "x" not in {entry["where"] for entry in asked.too_small}


def test_columns_beside_the_score_stay() -> None:
    """Ranges and a noisy copy of the score, and a column of two levels that goes with it, are no copies."""
    table = _table()
    rng = np.random.default_rng(1)
    others = {
        "band": np.digitize(table["p"], [0.2, 0.4, 0.6]),
        "near": table["p"] + rng.normal(0, 0.01, ROWS),
        "mostly": np.where(rng.random(ROWS) < 0.01, 1, (table["p"] > 0.5).astype(int)),
    }
    found = miscal.audit({**table, **others}, outcome="late", probability="p", effort="quick")
    assert not set(others) & {entry["where"] for entry in found.too_small}


@pytest.mark.parametrize("name", ["Unnamed: 0", "__index_level_0__", "level_1"])
def test_the_index_of_pandas_is_set_aside(name: str) -> None:
    index = np.tile(np.arange(ROWS // 2), 2)  # two frames one after the other: values repeat
    found = miscal.audit({name: index, **_table()}, outcome="late", probability="p", effort="quick")
    assert {entry["where"]: entry["reason"] for entry in found.too_small}[name] == "an index that pandas wrote"


def test_the_terminal_names_what_is_set_aside(tmp_path: Path) -> None:
    table = _table()
    path = _csv({**table, "y_pred": (table["p"] > 0.5).astype(int)}, tmp_path / "t.csv")
    done = run("audit", path, "--outcome", "late", "--probability", "p", "--out", tmp_path / "r.html")
    assert "Excluded: y_pred (the score, thresholded" in " ".join(done.stdout.split())


def _games(kind: str, seed: int = 0) -> dict[str, Any]:
    """500 games of 4 rows: one outcome a game, one winner a game, errors that games share, or independent rows."""
    rng = np.random.default_rng(seed)
    game = np.repeat(np.arange(500), 4)
    p = rng.beta(3, 3, 2000)
    y = rng.random(2000) < p
    if kind == "outcome":
        p = np.repeat(rng.beta(3, 3, 500), 4)
        y = np.repeat(rng.random(500) < p[::4], 4)
    elif kind == "winner":
        p = rng.dirichlet(np.ones(4), 500).ravel()
        y = np.concatenate([rng.permutation(4) == 0 for _ in range(500)])
    elif kind == "shared":
        odds = np.log(p / (1 - p)) + np.repeat(rng.normal(0, 1.5, 500), 4)
        y = rng.random(2000) < 1 / (1 + np.exp(-odds))
    return {
        "won": y.astype(int),
        "p": p,
        "game": np.char.add("g", game.astype(str)),
        "minute": rng.integers(0, 90, 2000),
    }


@pytest.mark.parametrize("kind", ["outcome", "winner", "shared"])
def test_a_key_whose_rows_are_not_independent_is_suggested_as_the_cluster(kind: str, tmp_path: Path) -> None:
    table = _games(kind)
    found = miscal.audit(table, outcome="won", probability="p", effort="quick")
    assert "give --cluster game" in _notes(found)
    with_it = miscal.audit(table, outcome="won", probability="p", cluster="game", effort="quick")
    assert "--cluster" not in _notes(with_it)
    path = _csv(table, tmp_path / "t.csv")
    done = run("audit", path, "--outcome", "won", "--probability", "p", "--out", tmp_path / "r.html")
    assert done.stdout.splitlines()[-1] == f"Next: miscal audit {path} --outcome won --probability p --cluster game"


def test_no_key_is_suggested_where_rows_are_independent() -> None:
    """200 tables of independent rows, each with a key in words, one of numbers, and a variable that is wrong."""
    said = 0
    for seed in range(200):
        table = _games("none", seed)
        rng = np.random.default_rng(seed)
        table["won"] = (rng.random(2000) < np.clip(table["p"] + 0.003 * (table["minute"] - 45), 0, 1)).astype(int)
        table["number"] = np.repeat(np.arange(500), 4)[rng.permutation(2000)]
        read = miscal.read(table, outcome="won", probability="p")
        said += suggested(select_target(read), list(read.columns.values())) is not None
    assert said <= 1


def _classes(labels: list[Any], name: str = "prob") -> dict[str, Any]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(len(labels)), 900)
    y = [labels[rng.choice(len(labels), p=row)] for row in p]
    return {"species": y, **{f"{name}_{label}": p[:, k] for k, label in enumerate(labels)}}


@pytest.mark.parametrize("labels", [["cat", "dog", "eel"], [0, 1, 2], list(range(12))])
def test_columns_of_several_classes_need_not_be_typed(labels: list[Any], tmp_path: Path) -> None:
    table = _classes(labels)
    path = _csv(table, tmp_path / "t.csv")
    listed = [f"prob_{label}" for label in labels]
    typed = miscal.audit(path, outcome="species", probability=listed, effort="quick")
    for probability in ("prob", "prob_*", None):
        found = miscal.audit(path, outcome="species", probability=probability, effort="quick")
        assert found.document["data"]["probability_columns"] == listed
        assert found.document["score"] == typed.document["score"]
    assert miscal.audit(path, effort="quick").document["score"] == typed.document["score"]
    read = miscal.read(path, outcome="species", probability="prob")
    assert [str(each) for each in read.classes] == [str(label) for label in labels]


def test_two_columns_of_predict_proba_are_one_probability() -> None:
    table = _table()
    both = {"late": table["late"], "proba_0": 1 - table["p"], "proba_1": table["p"]}
    found = miscal.audit(both, effort="quick")
    assert found.document["data"]["probability"] == "proba_1"
    assert found.score["predicted"] == pytest.approx(table["p"].mean())


def test_percentages_and_decimal_commas_are_read(tmp_path: Path) -> None:
    table = _table()
    plain = miscal.audit(table, outcome="late", probability="p", effort="quick")
    percent = {**table, "p": [f"{100 * p:.2f} %" for p in table["p"]], "fee": [f"{h / 2:.1f}%" for h in table["hour"]]}
    comma = {**table, "p": [f"{p:.4f}".replace(".", ",") for p in table["p"]]}
    for changed in (percent, comma):
        found = miscal.audit(changed, outcome="late", probability="p", effort="quick")
        assert found.score["expected"] == pytest.approx(plain.score["expected"])
        assert "p is read as" in _notes(found)
    lines = ["late;p;hour", *(f"{y};{p};{h}" for y, p, h in zip(comma["late"], comma["p"], comma["hour"], strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    found = miscal.audit(tmp_path / "t.csv", effort="quick")
    assert found.score["expected"] == pytest.approx(plain.score["expected"])
    entry = miscal.audit(percent, outcome="late", probability="p", effort="quick").document["sections"]["variable"]
    assert {each["settings"]["column"] for each in entry} == {"fee", "hour"}


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y"])
def test_dates_stored_as_text_are_dates(form: str) -> None:
    table = _table()
    start = datetime(2024, 1, 1, tzinfo=UTC)
    table["when"] = [(start + timedelta(hours=5 * i)).strftime(form) for i in range(ROWS)]
    found = miscal.audit(table, outcome="late", probability="p", time="when", effort="quick")
    entry = next(e for e in found.document["sections"]["variable"] if e["settings"]["column"] == "when")
    assert entry["extra"]["column_kind"] == "date"
    assert len(found.document["sections"]["period"][0]["table"]["label"]) >= 13
    assert "when is read as dates" in _notes(found)


def test_text_that_is_no_date_stays_text() -> None:
    table = _table()
    table["code"] = ["2024-13-45"] * 1000 + ["2024-01-01"] * 1000
    table["size"] = [f"{h},{h}" for h in table["hour"] % 5]
    table["day"] = ["03/04/2024", "05/06/2024"] * 1000  # day or month first: nobody can tell
    found = miscal.audit(table, outcome="late", probability="p", effort="quick")
    fields = {entry["settings"]["column"] for entry in found.document["sections"]["field"]}
    assert {"code", "day"} <= fields


def test_labels_that_are_text_are_found_in_a_frame_as_in_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 2000)
    labels = np.array(list("abc"))[(p.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)]
    frame = pd.DataFrame({"label": labels} | {f"p_{name}": p[:, k] for k, name in enumerate("abc")})
    frame.to_parquet(tmp_path / "t.parquet")
    notes = [miscal.audit(data, effort="quick").notes[0] for data in (frame, tmp_path / "t.parquet")]
    assert notes == ["Taken as outcome: label; as probability: p_a, p_b, p_c. Name others if they are meant."] * 2

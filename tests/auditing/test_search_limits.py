"""What a search leaves out: large fields are crossed too, and whatever is not tested is named."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import miscal
from miscal.cli import main
from miscal.report.model import NotTested

pytestmark = pytest.mark.usefixtures("without_smooth_noise")
ROWS = 240_000
ASKED = {"outcome": "y", "probability": "p"}


def _planted(levels: int) -> pa.Table:
    """One level of many, not among the largest where there are many, off in one of two groups."""
    rng = np.random.default_rng(levels)
    p = rng.beta(2, 10, ROWS)
    chances = 1.0 / (np.arange(levels) + 50.0)
    level = rng.choice(levels, ROWS, p=chances / chances.sum())
    group = rng.integers(0, 2, ROWS)
    bad = (level == min(levels // 2, 300)) & (group == 1)
    # 16 standard deviations of the rows of the place
    rise = min(16.0 * np.sqrt((p * (1 - p))[bad].sum()) / bad.sum(), 0.8)
    y = rng.random(ROWS) < np.where(bad, np.minimum(p + rise, 1.0), p)
    names = np.array([f"s{i:04}" for i in range(levels)], object)
    return pa.table(
        {"y": y.astype(np.int8), "p": p, "f": names[level], "g": np.array(["a", "b"], object)[group],
         "x": rng.normal(size=ROWS)}
    )  # fmt: skip


@pytest.mark.parametrize(("levels", "held"), [(150, None), (200, 120_000), (1_000, None), (5_000, 120_000)])
def test_a_planted_pair_of_a_large_field_is_found(levels, held, tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pq.write_table(_planted(levels), path, row_group_size=50_000)
    if held:
        monkeypatch.setattr("miscal.auditing.audit.rows_that_fit", lambda *_: held)
    found = miscal.audit(path, **ASKED)
    first = next(finding for finding in found.findings if finding.specific)
    assert first.where == f"f s{min(levels // 2, 300):04} and g b"
    assert first.form == "too low"
    left = [entry for entry in found.left_out if entry["what"] == "levels"]
    assert len(left) == (levels > 150)
    if left:
        assert left[0]["where"][0].startswith("f (")
        if not held:  # a sample may lack some of them
            assert f"of {levels:,} levels" in left[0]["where"][0]


def _calm(columns: int, rows: int = 4_000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    p = rng.beta(2, 5, rows)
    named = {f"c{i}": np.array(["a", "b", "c"], object)[rng.integers(0, 3, rows)] for i in range(columns)}
    return {"y": (rng.random(rows) < p).astype(int), "p": p, **named}


def _places(found, what):
    return [place for entry in found.left_out if entry["what"] == what for place in entry["where"]]


def test_every_pair_is_tested_or_named():
    found = miscal.audit(_calm(7), **ASKED)
    unseen = _places(found, "pairs")
    every = [f"{one} and {two}" for one, two in combinations([f"c{i}" for i in range(7)], 2)]
    assert 0 < len(unseen) < len(every)
    assert set(unseen) < set(every)
    entry = next(one for one in found.left_out if one["what"] == "pairs")
    assert entry["count"] == len(entry["where"])
    assert "alone" in entry["reason"]
    assert "--by" in entry["ask"]


def test_naming_columns_asks_for_their_pair():
    table = _calm(7)
    unseen = _places(miscal.audit(table, **ASKED), "pairs")[0]
    assert not _places(miscal.audit(table, by=unseen.split(" and "), **ASKED), "pairs")


def test_a_quick_audit_says_that_it_crossed_nothing():
    found = miscal.audit(_calm(4), effort="quick", **ASKED)
    kinds = {entry["what"]: entry for entry in found.left_out}
    assert kinds["pairs"]["count"] == 6
    assert kinds["pairs"]["ask"] == "--effort normal"
    assert kinds["subpopulations"]["where"] == ["up to three columns"]


def test_columns_left_out_of_the_search_of_subpopulations_are_named():
    found = miscal.audit(_calm(11), **ASKED)
    unseen = _places(found, "subpopulations")
    assert len(unseen) == 3  # of eleven columns eight are combined
    assert set(unseen) < {f"c{i}" for i in range(11)}


def test_columns_set_aside_say_how_to_ask_for_them():
    table = _calm(2) | {"constant": np.ones(4_000)}
    found = miscal.audit(table, **ASKED)
    entry = next(one for one in found.left_out if one["what"] == "columns")
    assert entry["where"] == ["constant"]
    assert entry["reason"] == "constant"


def test_beyond_memory_it_says_what_was_tested_on_its_average_only(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(_calm(4, 20_000)), path)
    monkeypatch.setattr("miscal.auditing.audit.rows_that_fit", lambda *_: 5_000)
    found = miscal.audit(path, **ASKED)
    entry = next(one for one in found.left_out if one["what"] == "tests along the score")
    assert "three columns" in entry["where"][0]
    assert "--memory" in entry["ask"]


def test_page_text_terminal_and_json_tell_what_was_left_out(tmp_path):
    path, page, document = (tmp_path / name for name in ("t.parquet", "t.html", "t.json"))
    pq.write_table(pa.table(_calm(7)), path)
    said = CliRunner().invoke(
        main, ["audit", str(path), "--outcome", "y", "--probability", "p", "--out", str(page), "--json", str(document)]
    )
    assert said.exit_code == 0
    made = json.loads(document.read_text())
    entry = next(one for one in made["left_out"] if one["what"] == "pairs")
    plain = " ".join(said.output.split())
    assert f"Not tested: {entry['count']} pairs" in plain
    assert entry["reason"] in plain
    html = page.read_text()
    assert 'id="left-out"' in html
    assert entry["where"][0] in html
    assert f'data-label="Count" data-key="{entry["count"]}"' in html  # of columns, of pairs: whatever is named
    text = miscal.Audit.load(document).to_markdown()
    assert "Not tested" in text
    assert entry["reason"] in text


def test_hiding_small_cells_keeps_what_was_left_out():
    found = miscal.audit(_calm(7), suppress_below=20, effort="quick", **ASKED)
    assert _places(found, "pairs")


def _rare_levels(rows: int = 400_000) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A day on which far more happens, and eighty rare levels that are off before it; few of their rows are late."""
    rng = np.random.default_rng(2)
    p, day = rng.beta(1, 8, rows), rng.integers(0, 40, rows)
    level = np.where(rng.random(rows) < 0.012, rng.integers(1, 81, rows), 0)
    level = np.where((day >= 35) & (level > 0) & (rng.random(rows) < 0.2), 0, level)
    late = day >= 30
    y = rng.random(rows) < np.clip(p + 0.5 * (late | (level > 0)), 0, 1)
    names = np.array([f"s{i:02}" for i in range(81)], object)
    dates = (day + 19_000).astype("M8[D]")
    return {"y": y.astype(np.int8), "p": p, "f": names[level], "day": dates}, late


def test_no_place_is_explained_on_a_sample_too_small_to_see_it(tmp_path, monkeypatch):
    table, _ = _rare_levels()
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(table), path)
    monkeypatch.setattr("miscal.auditing.audit.rows_that_fit", lambda *_: 15_000)
    found = miscal.audit(path, effort="quick", **ASKED)
    columns = {name: table[name] for name in ("f", "day", "p")}
    explained = 0
    for head in found.findings:
        inside = found.rows_of(head, columns)
        for place in head.explained:
            own = found.rows_of(place, columns)
            explained += 1
            assert (own & inside).sum() >= 0.5 * own.sum(), (head.where, place.where)
    assert explained


def test_how_many_levels_were_not_crossed_is_one_range():
    rng = np.random.default_rng(3)
    table = _calm(2, 6_000)
    for name, levels in (("small", 30), ("middle", 100), ("large", 400)):
        table[name] = np.array([f"{name}{i}" for i in range(levels)], object)[rng.integers(0, levels, 6_000)]
    left = _places(miscal.audit(table, by=["c0", "small", "middle", "large"], **ASKED), "levels")
    assert left
    assert all(place.count(" to ") <= 1 for place in left), left


def test_one_pair_is_a_pair():
    left = NotTested("pairs", 1, "neither is suspect", "--by", ["a and b"])
    assert left.words.startswith("1 pair, because")

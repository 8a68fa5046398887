"""A table of more rows than may be held: searched on a sample, added up and tested on all rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import miscal
from miscal.auditing.search import judge as judging
from tests.trials import too_often

ROWS = 60_000
HELD = 15_000
SUMS = ("label", "rows", "weight", "predicted", "observed", "events_off")


def _table() -> pa.Table:
    """An error where two columns meet, one in a level that is rare, and none along the score."""
    rng = np.random.default_rng(3)
    p = rng.beta(1, 4, ROWS)
    age, x = rng.integers(20, 80, ROWS), rng.normal(size=ROWS)
    x[rng.random(ROWS) < 0.02] = np.nan
    level = np.array([f"s{i}" for i in range(9)], object)[np.minimum(rng.geometric(0.3, ROWS) - 1, 8)]
    day = rng.integers(19_000, 19_120, ROWS).astype("M8[D]")
    truth = np.clip(p * np.where((age >= 60) & (level == "s1"), 2.2, np.where(level == "s6", 1.6, 1.0)), 0, 1)
    weight = rng.integers(0, 4, ROWS).astype(float)
    return pa.table(
        {
            "y": (rng.random(ROWS) < truth).astype(np.int8),
            "p": p,
            "age": age,
            "x": x,
            "f": level,
            "day": day,
            "w": weight,
        }
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("beyond") / "t.parquet"
    pq.write_table(_table(), made, row_group_size=7_000)
    return made


def _held(monkeypatch: pytest.MonkeyPatch, rows: int = HELD) -> None:
    monkeypatch.setattr("miscal.auditing.audit.rows_that_fit", lambda *_: rows)


@pytest.mark.parametrize("weight", [None, "w"])
def test_cells_are_those_of_all_rows(weight, path, monkeypatch):
    options = {"outcome": "y", "probability": "p", "weight": weight, "effort": "quick", "time": "day"}
    whole = miscal.read(path, outcome="y", probability="p", weight=weight)
    _held(monkeypatch)
    found = miscal.audit(path, **options)
    sample = found.document["settings"]["sample"]
    assert sample["of"] == ROWS
    assert 0.9 * HELD < sample["rows"] / (0.75 if weight else 1) < 1.1 * HELD
    assert sample["passes"] == 2
    results = {str(result.settings.get("column", result.kind)): result for result in found.results}
    assert found.document["data"]["rows"] == whole.rows
    for column in ("age", "x", "f"):
        one = results[column]
        edges = getattr(one.extra["tally"].cells, "edges", None)
        two = miscal.by_field(whole, column) if edges is None else miscal.by_variable(whole, column, bins=edges)
        for name in SUMS:
            assert np.array_equal(one.table[name], two.table[name]), (column, name)
    score = miscal.by_score(whole).extra
    assert found.score["brier"] == pytest.approx(score["brier"]["score"], abs=1e-6)
    assert found.score["kuiper"] == pytest.approx(score["kuiper"], abs=2e-4)
    periods = next(result for result in found.results if result.kind == "period")
    monkeypatch.undo()
    loaded = next(result for result in miscal.audit(path, **options).results if result.kind == "period")
    for name in SUMS:
        assert np.array_equal(periods.table[name], loaded.table[name]), name


def test_what_is_found_on_a_sample_is_tested_on_all_rows(path, monkeypatch):
    options = {"outcome": "y", "probability": "p", "ignore": ["w"]}
    loaded = miscal.audit(path, **options)
    _held(monkeypatch)
    found = miscal.audit(path, **options)
    for audit in (loaded, found):
        heads = [f for f in audit.findings if f.specific and f.parent is None]
        assert {frozenset(f.columns) for f in heads[:2]} == {frozenset(("age", "f")), frozenset(("f",))}
        assert all(audit.rows_of(f, pq.read_table(path)).sum() == f.rows for f in heads)
    assert any("sample of" in result.method for result in found.results if result.kind == "subpopulation")


def test_calibrated_rows_beyond_memory_are_quiet(tmp_path, monkeypatch):
    _held(monkeypatch, 3_000)

    def alarms(seed):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, 4, 12_000)
        columns = {"age": rng.integers(20, 80, p.size), "x": rng.normal(size=p.size), "f": rng.integers(0, 6, p.size)}
        made = pa.table({"y": (rng.random(p.size) < p).astype(np.int8), "p": p, **columns})
        pq.write_table(made, tmp_path / "t.parquet")
        found = miscal.audit(tmp_path / "t.parquet", outcome="y", probability="p")
        return {"real": any(finding.real for finding in found.findings)}

    assert not too_often(alarms, 8, 2)  # P(more than 2 of 8 at 5%) is 0.6%


def test_amounts_beyond_memory_of_which_one_is_far_out(tmp_path, monkeypatch):
    """Predictions that are nearly the same beside one outcome of a million still have fifteen ranges."""
    rng = np.random.default_rng(5)
    p = rng.uniform(100.0, 102.0, 20_000)
    y = rng.gamma(2.0, 0.5 * np.where(p > 101.0, 2.0 * p, p))
    y[17] = 1e6
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"y": y, "p": p, "x": rng.normal(size=p.size)}), path, row_group_size=3_000)
    options = {"outcome": "y", "probability": "p", "response": "real"}
    whole = miscal.by_score(miscal.read(path, **options))
    _held(monkeypatch, 5_000)
    found = next(result for result in miscal.audit(path, effort="quick", **options).results if result.kind == "score")
    assert found.table["rows"].size == whole.table["rows"].size == 15
    assert found.table["rows"].sum() == p.size
    assert found.extra["kuiper"] == pytest.approx(whole.extra["kuiper"], rel=0.01)
    assert np.all(np.asarray(found.extra["tests"]["p_value"]) <= 0.2)  # signs of sums, not of rows: larger than 0.001


def test_the_sample_does_not_depend_on_how_the_table_is_stored(path, tmp_path, monkeypatch):
    _held(monkeypatch)
    options = {"outcome": "y", "probability": "p", "weight": "w"}
    table = pq.read_table(path)
    pq.write_table(table, tmp_path / "other.parquet", row_group_size=60_000)
    one, two = (miscal.audit(where, **options).document for where in (path, tmp_path / "other.parquet"))
    for document in (one, two):
        document["data"].pop("source")
    assert repr(one) == repr(two)


def test_rows_of_the_sample_lie_in_the_cells_of_all_rows(path, monkeypatch):
    seen = []
    judge = judging.judge
    monkeypatch.setattr(
        "miscal.auditing.audit.judge", lambda searches, level: seen.extend(searches) or judge(searches, level)
    )
    _held(monkeypatch)
    miscal.audit(path, outcome="y", probability="p", ignore=["w", "day"], effort="quick")
    grid = next(grid for grid in seen[0].columns if grid.column.name == "x")
    coded, missing = grid.coded_columns[0], np.isnan(grid.column.values)
    assert coded.cells.missing
    assert missing.any()
    assert np.array_equal(coded.codes == coded.n_known, missing)
    share = grid.raw.rows / grid.raw.rows.sum()
    assert np.abs(np.bincount(coded.codes, minlength=coded.n_cells) / coded.codes.size - share).max() < 0.01


def test_of_many_levels_some_are_walked_but_the_whole_table_has_all_rows(tmp_path, monkeypatch):
    """A field whose levels are not all added along the score stood for the whole table, which was put right wrongly."""
    rng = np.random.default_rng(3)
    n = 60_000
    p, age = rng.beta(1.2, 12.0, n), rng.normal(45.0, 14.0, n)
    truth = np.where((age > 60) & (age < 65), np.minimum(3.0 * p, 1.0), p)
    level = (600 * rng.random(n) ** 1.5).astype(int).astype(str)
    table = pa.table({"y": (rng.random(n) < truth).astype(np.uint8), "p": p, "who": level, "age": age, "pay": age**2})
    path = tmp_path / "table.parquet"
    pq.write_table(table, path)
    seen = []
    monkeypatch.setattr("miscal.auditing.all_rows.MAX_PROFILE_SUMS", 2048)  # 64 levels of the 600
    judge = judging.judge
    monkeypatch.setattr("miscal.auditing.audit.judge", lambda *given: seen.extend(judge(*given)) or list(seen))
    _held(monkeypatch, 30_000)
    found = miscal.audit(path, outcome="y", probability="p", effort="quick")
    (target,) = seen
    assert target.whole.profile.raw.rows.sum() == n
    assert target.whole.profile.raw.off.sum() == pytest.approx(target.whole.error, rel=1e-9)
    assert found.findings[0].where.split()[0] in {"age", "pay"}  # the same column twice, in other units


def test_a_level_that_is_not_walked_is_found_by_its_average(tmp_path, monkeypatch):
    """Levels beyond those that are added along the score were taken for levels without any error."""
    rng = np.random.default_rng(4)
    n = 40_000
    p, level = rng.beta(2.0, 12.0, n), (600 * rng.random(n) ** 1.5).astype(int)
    truth = np.where(level == 560, 0.9, p)  # among the smaller ones, a tenth of the rows of the first
    table = pa.table({"y": (rng.random(n) < truth).astype(np.uint8), "p": p, "who": level.astype(str)})
    pq.write_table(table, tmp_path / "table.parquet")
    monkeypatch.setattr("miscal.auditing.all_rows.MAX_PROFILE_SUMS", 2048)  # 64 levels of the 600
    _held(monkeypatch, 20_000)
    found = miscal.audit(tmp_path / "table.parquet", outcome="y", probability="p", effort="quick")
    assert [one.where for one in found.findings if one.real][:1] == ["who 560"]


# Dates and whole numbers said where their one range ends, which is nowhere.
@pytest.mark.parametrize(("known", "kind"), [(0, "float64"), (3, "float64"), (3, "int64"), (3, "M8[D]")])
def test_a_column_that_is_missing_in_all_of_the_sample_can_be_asked_for(known, kind, tmp_path, monkeypatch):
    rng = np.random.default_rng(5)
    p = rng.random(40_000)
    rare = pa.array(np.ones(p.size, np.int64).astype(kind), mask=np.arange(p.size) >= known)
    columns = {"y": rng.random(p.size) < p, "p": p, "g": rng.choice(["a", "b"], p.size), "rare": rare}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=10_000)
    _held(monkeypatch, 5_000)
    found = miscal.audit(tmp_path / "t.parquet", outcome="y", probability="p", by=["g", "rare"])
    assert found.document["settings"]["sample"]["of"] == p.size
    assert not found.findings


@pytest.mark.parametrize("held", [1_000, 10**6])
def test_a_column_of_one_value_that_is_asked_for_is_one_range(held, tmp_path, monkeypatch):
    """Its edges, made one with others, were a single edge: no cell, but a code for every row, beyond all arrays."""
    rng = np.random.default_rng(6)
    p = rng.random(4_000)
    count = rng.integers(1, 4, p.size)
    same = pa.array(np.full(p.size, 3.5), mask=rng.random(p.size) < 0.1)
    columns = {"e": rng.binomial(count, p), "k": count, "p": p, "all": np.full(p.size, 3.5), "some": same}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    _held(monkeypatch, held)
    options = {"outcome": "e", "probability": "p", "count": "k", "by": ["all", "some"]}
    found = miscal.audit(tmp_path / "t.parquet", **options)
    missing = int(count[np.array(same.is_null())].sum())
    wanted = {"all": [count.sum()], "some": [count.sum() - missing, missing]}
    for name, rows in wanted.items():
        cells = found.carriers[f"variable:{name}"]
        assert cells.rows.tolist() == cells.fine.rows.tolist() == rows
        assert cells.edges.tolist() == cells.fine.edges.tolist() == [3.5, 3.5]


@pytest.mark.parametrize(("response", "happened"), [("real", 0.0), ("count", 0.0), ("real", 1e-9)])
def test_amounts_beyond_memory_of_which_next_to_none_happened(response, happened, tmp_path, monkeypatch):
    """The ratio was divided by nothing, or the end of its interval was no number any more."""
    rng = np.random.default_rng(7)
    columns = {
        "y": np.where(np.arange(3_000) < 2, happened, 0.0),
        "m": rng.gamma(2.0, 10.0, 3_000),
        "a": rng.normal(size=3_000),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    options = {"outcome": "y", "prediction": "m", "response": response, "effort": "quick"}
    whole = miscal.audit(tmp_path / "t.parquet", **options).score
    _held(monkeypatch, 800)
    found = miscal.audit(tmp_path / "t.parquet", **options).score
    if happened:
        assert found["ratio"] == pytest.approx(whole["ratio"], rel=1e-4)
        assert found["details"]["ratio"]["interval"] == [0.0, np.inf]
    else:
        assert found["ratio"] == whole["ratio"] == np.inf
        assert np.isnan(found["details"]["ratio"]["interval"]).all()
    assert found["predicted"] == pytest.approx(whole["predicted"], rel=1e-9)

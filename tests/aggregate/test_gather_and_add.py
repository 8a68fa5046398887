"""Rows gathered from any source are the same; what is added up over any source is what memory gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import miscal
from miscal import MiscalError
from miscal.aggregate.column_roles import ColumnRoles
from miscal.aggregate.in_memory import tally
from miscal.aggregate.requests import SCORE, ConditionCells, CrossedCells, LevelCells, RangeCells
from miscal.aggregate.sample import gather, rows_that_fit
from miscal.aggregate.source import Source, memory_bytes, open_source
from miscal.aggregate.streaming import Recalibration, add_up
from miscal.aggregate.summary import weight_sums
from miscal.aggregate.tally import Tally
from miscal.cells.condition import Condition, Conjunction
from miscal.cells.partitions import LevelPooling, Levels
from miscal.data.target import select_target
from miscal.stats.null_model import weights_depend_on_outcome
from tests.aggregate import tables

ROWS = 30_000
KEPT = ["skewed", "whole", "tied", "state", "flag", "real_weight", "day"]
WEIGHTS = [{}, {"weight": "whole_weight"}, {"weight": "real_weight"}, {"count": "trials"}]


@pytest.fixture(scope="module")
def made() -> pa.Table:
    found = tables.table(ROWS, 3)
    days = np.arange(ROWS) // 3 + np.datetime64("2021-05-01")
    return found.append_column("day", pa.array(days.astype("M8[s]"))).append_column(
        "events", pa.array(np.random.default_rng(1).binomial(found["trials"].to_numpy(), 0.2))
    )


@pytest.fixture(scope="module")
def folder(made: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made_in = tmp_path_factory.mktemp("tables")
    pq.write_table(made, made_in / "one.parquet", row_group_size=4_000)
    pyarrow.csv.write_csv(made, made_in / "one.csv")
    for form in ("parquet", "csv"):
        (made_in / form).mkdir()
        for part in range(5):
            piece, path = made.slice(part * ROWS // 5, ROWS // 5), made_in / form / f"{part}.{form}"
            pq.write_table(piece, path) if form == "parquet" else pyarrow.csv.write_csv(piece, path)
    return made_in


def sources(made: pa.Table, folder: Path) -> dict[str, Any]:
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    return {
        "one file": folder / "one.parquet",
        "pattern": str(folder / "parquet" / "*.parquet"),
        "folder": folder / "parquet",
        "csv": folder / "one.csv",
        "five csv": folder / "csv",
        "arrow": made,
        "pandas": made.to_pandas(),
        "polars": polars.from_arrow(made),
        "lazy": polars.from_arrow(made).lazy(),
        "duckdb": duckdb.from_arrow(made),
    }


def content(found: Any) -> list[Any]:
    """Everything that may differ."""
    p = found.predictions
    columns = [
        (name, one.kind, one.values.tobytes(), one.values.dtype, one.levels, one.integer)
        for name, one in p.columns.items()
    ]
    fields = [None if part is None else (part.tobytes(), part.dtype) for part in (p.weight, p.count, p.cluster)]
    return [p._fingerprint(), p.ignored, fields, columns, found.rows, found.ignored, found.complete]


@pytest.mark.parametrize("limit", [None, ROWS, 4_000])
@pytest.mark.parametrize(
    "roles", [ColumnRoles("y", "p", weight="whole_weight"), ColumnRoles("events", "p", count="trials")]
)
def test_every_source_gives_the_same_rows(made: pa.Table, folder: Path, limit: int | None, roles: ColumnRoles) -> None:
    found = {name: gather(open_source(data), roles, KEPT, limit=limit) for name, data in sources(made, folder).items()}
    small = open_source(folder / "parquet")
    small.batch_rows, small.threads = 777, 1
    found["small batches"] = gather(small, roles, KEPT, limit=limit)
    first = content(found["one file"])
    for name, one in found.items():
        assert content(one) == first, name
    assert found["csv"].complete == (limit != 4_000)
    if limit == 4_000:
        assert 3_700 < found["csv"].predictions.rows + 4_000 * found["csv"].ignored / ROWS < 8_000


def test_clusters_and_ids_come_with_all_rows(made: pa.Table, folder: Path) -> None:
    roles = ColumnRoles("y", "p", cluster="tied", id="day")
    expected = miscal.read(made, outcome="y", probability="p", cluster="tied", id="day")
    for data in (made, folder / "csv", folder / "one.parquet"):
        found = gather(open_source(data), roles).predictions
        assert np.array_equal(found.cluster, expected.cluster)
        assert found._fingerprint() == expected._fingerprint()
        assert [str(one)[:10] for one in found.id[:3]] == [str(one)[:10] for one in expected.id[:3]]


def test_the_sample_does_not_know_weights_of_zero(made: pa.Table) -> None:
    plain = gather(open_source(made), ColumnRoles("y", "p"), limit=4_000).predictions
    weighed = gather(
        open_source(made), ColumnRoles("y", "p", weight="whole_weight"), ["whole"], limit=4_000
    ).predictions
    kept = np.flatnonzero(plain.columns["whole_weight"].values)
    assert np.array_equal(plain.probability[kept], weighed.probability)


def test_types_of_csv_files_are_settled_over_all_rows(tmp_path: Path) -> None:
    rows = 60_000
    late = ["" if i < 50_000 else f"{i / 7:.4f}" for i in range(rows)]
    words = ["" if i < 50_000 else f"w{i % 3}" for i in range(rows)]
    lines = [f"{i % 2},0.{i % 9 + 1},{late[i]},{words[i]},{i},{'' if i % 2 else '2024-01-02'}" for i in range(rows)]
    head = "y,p,late,word,whole,day"
    (tmp_path / "one.csv").write_text("\n".join([head, *lines]) + "\n")
    (tmp_path / "many").mkdir()
    for part in range(6):
        piece = lines[part * 10_000 : (part + 1) * 10_000]
        (tmp_path / "many" / f"{part}.csv").write_text("\n".join([head, *piece]) + "\n")
    one, many = (gather(open_source(tmp_path / name), ColumnRoles("y", "p")) for name in ("one.csv", "many"))
    assert content(one) == content(many)
    kinds = {name: column.kind for name, column in one.predictions.columns.items()}
    assert kinds == {"late": "numeric", "word": "category", "whole": "numeric", "day": "date"}
    read = miscal.read(tmp_path / "one.csv", outcome="y", probability="p")
    assert {name: column.kind for name, column in read.columns.items()} == kinds


def test_integers_here_and_fractions_or_text_there(tmp_path: Path) -> None:
    for part, (number, text, flag) in enumerate([("1", "7", "2"), ("2.5", "x", "2024-01-01")]):
        (tmp_path / f"{part}.csv").write_text(f"y,p,number,text,flag\n0,0.5,{number},{text},{flag}\n1,0.5,3,4,5\n")
    found = gather(open_source(tmp_path), ColumnRoles("y", "p")).predictions.columns
    assert found["number"].values.tolist() == [1.0, 3.0, 2.5, 3.0]
    assert found["text"].levels == ("4", "7", "x")
    assert found["flag"].kind == "category"


def test_a_late_word_starts_the_pass_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("miscal.data.files.BLOCK", 1 << 12)
    lines = [f"{i % 2},0.{i % 9 + 1},{'late' if i == 3_999 else i}" for i in range(4_000)]
    (tmp_path / "t.csv").write_text("\n".join(["y,p,x", *lines]) + "\n")
    source = open_source(tmp_path / "t.csv")
    assert source.kinds["x"] == "integer"
    found = gather(source, ColumnRoles("y", "p"), limit=500)
    assert found.predictions.columns["x"].kind == "category"
    assert source.kinds["x"] == "category"
    assert found.rows == 4_000


def test_a_column_that_is_not_in_every_file(tmp_path: Path) -> None:
    for part, extra in enumerate(["a", "b"]):
        (tmp_path / f"{part}.csv").write_text(f"y,p,{extra}\n0,0.5,1\n1,0.5,3\n")
    source = open_source(tmp_path)
    assert [name for name, _ in source.excluded] == ["a", "b"]
    assert list(gather(source, ColumnRoles("y", "p")).predictions.columns) == []
    with pytest.raises(MiscalError, match=r"1\.csv' has no column 'a'"):
        gather(source, ColumnRoles("y", "a"))


@pytest.mark.parametrize("limit", [None, 100])
def test_a_refusal_names_file_group_and_row(tmp_path: Path, limit: int | None) -> None:
    rows = 5_000
    p = np.full(rows, 0.5)
    p[4_321] = 1.5
    broken = pa.table({"y": np.arange(rows) % 2, "p": p})
    pq.write_table(broken, tmp_path / "b.parquet", row_group_size=1_000)
    with pytest.raises(MiscalError, match=r"b\.parquet', row group 4.*row 321 has 1\.5"):
        gather(open_source(tmp_path), ColumnRoles("y", "p"), limit=limit)


def test_memory_is_read_as_people_write_it() -> None:
    assert memory_bytes("1G") == memory_bytes("1GB") == memory_bytes("1000 mb") == 10**9
    assert memory_bytes("1GiB") == 1 << 30
    with pytest.raises(MiscalError, match="400MB"):
        memory_bytes("399MB")
    assert (
        rows_that_fit("1GB", {"a": "numeric"}, {})
        > rows_that_fit("1GB", {"a": "numeric", "b": "category"}, {})
        > 1_000_000
    )


def same(one: Tally, two: Tally, exact: bool) -> None:
    assert one.cells.describe() == two.cells.describe()
    assert np.array_equal(one.counts, two.counts)
    for name in one.columns:
        if exact:
            assert np.array_equal(one.column(name), two.column(name)), name
        else:
            np.testing.assert_allclose(one.column(name), two.column(name), rtol=1e-12, atol=1e-12)
    if exact and one.columns == two.columns:
        assert one == two


def expected(found: Any, compared: Any, own: Any, request: Any) -> Tally | list[Tally]:
    """What memory gives for a request; `own` holds the scores that are added."""
    columns = found.predictions.columns
    if isinstance(request, ConditionCells):
        inside = [np.where(one.rows(columns), 0, 1) for one in request.conjunctions]
        return [tally(own, LevelPooling(codes, Levels(("in", "out")))) for codes in inside]
    return tally(own, tables.pooling(columns, compared, request))


@pytest.mark.parametrize("options", WEIGHTS, ids=str)
@pytest.mark.parametrize("data", ["one.parquet", "csv", "table"])
def test_sums_are_those_of_memory(made: pa.Table, folder: Path, options: dict[str, str], data: str) -> None:
    roles = ColumnRoles("events" if "count" in options else "y", "p", **options)
    found = gather(open_source(made), roles)
    compared = select_target(found.predictions, "auto")
    rng = np.random.default_rng(5)
    fine = np.unique(rng.choice(made["skewed"].drop_null().to_numpy(), 3_000))
    fine = fine[~np.isnan(fine)]
    states = tuple(found.predictions.columns["state"].levels)
    conditions = [
        Conjunction((Condition("whole", low=3.0, high=17.0),)),
        Conjunction((Condition("whole", low=3.0), Condition("state", "category", levels=states[3:40]))),
        Conjunction((Condition("skewed", high=0.0, missing=True), Condition("state", "category", excluded=states[:2]))),
        Conjunction((Condition("flag", "boolean", levels=("True",)), Condition("day", "date", low=18_900.0))),
        Conjunction((Condition("whole", levels=(3.0, 5.0)),)),
        Conjunction((Condition("skewed", levels=(), missing=True),)),
    ]
    requests = (
        RangeCells(SCORE, np.linspace(0, 1, 5_001)),
        RangeCells("skewed", fine),
        RangeCells("tied", np.array([-9.0, -1.0, 0.0, 0.5, 9.0])),
        RangeCells("day", np.array([18_000.0, 18_900.5, 30_000.0])),
        LevelCells("state"),
        LevelCells("flag"),
        LevelCells("whole"),
        CrossedCells((RangeCells("skewed", np.array([-1.0, 0.0, 1.0])), LevelCells("state", levels=states))),
        ConditionCells(tuple(conditions)),
    )
    borders = np.sort(rng.random(500))
    recalibration = Recalibration(borders, np.sort(rng.random(501)))
    where = made if data == "table" else folder / data
    added = add_up(open_source(where), roles, "auto", requests, recalibration)
    mapped = recalibration.values[np.searchsorted(borders, compared.predicted, side="left")]
    after = select_target(found.predictions.with_probability(mapped), "auto")
    exact = options.get("weight") != "real_weight"
    for request in requests:
        for result, own in ((added.tallies[request], compared), (added.recalibrated[request], after)):
            memory = expected(found, compared, own, request)
            if isinstance(memory, Tally):
                same(result, memory, exact)
                continue
            for place, one in enumerate(memory):
                assert result.counts[place] == one.counts[0]
                for name in result.columns:
                    two = one.column(name)[0]
                    assert result.column(name)[place] == (two if exact else pytest.approx(two, rel=1e-12))
    assert added.rows == ROWS
    assert added.ignored == found.ignored
    rows = compared.rows if compared.count is None else compared.count.sum()
    assert added.tallies[requests[0]].counts.sum() == rows
    assert added.weights.any() == ("weight" in options)
    assert not weights_depend_on_outcome(added.weights)


def test_sums_do_not_depend_on_batches_or_threads(made: pa.Table, folder: Path) -> None:
    requests = (
        RangeCells("whole", np.array([-9.0, 0.0, 70.0])),
        LevelCells("state"),
        LevelCells("state", max_levels=50),
    )
    found = []
    for rows, threads in ((500, 1), (1 << 20, 1), (700, 2), (1 << 20, 3)):
        source: Source = open_source(folder / "one.parquet")
        source.batch_rows, source.threads = rows, threads
        found.append(add_up(source, ColumnRoles("y", "p"), "auto", requests))
    for one in found[1:]:
        assert one.tallies == found[0].tallies
    whole, states, _ = requests  # the last allows fewer levels than there are
    assert all(one.tallies.keys() == {whole, states} for one in found)
    assert found[0].excluded == (("state", "it has more than 50 levels"),)


def test_weights_that_depend_on_the_outcome(made: pa.Table) -> None:
    y = made["y"].to_numpy()
    weighed = made.append_column("w", pa.array(np.where(y == 1, 2.0, 5.0)))
    every_score = RangeCells(SCORE, np.array([0.0, 1.0]))
    added = add_up(open_source(weighed), ColumnRoles("y", "p", weight="w"), "auto", [every_score])
    assert weights_depend_on_outcome(added.weights)
    memory = weight_sums(np.where(y == 1, 2.0, 5.0), y, made["p"].to_numpy())
    np.testing.assert_allclose(added.weights, memory, rtol=1e-12)
    assert added.tallies[every_score].counts.sum() == ROWS

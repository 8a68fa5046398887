"""A table in parts gives what memory gives: the same bits for counts, unweighted and whole-number-weighted sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest

import miscal
from miscal.aggregate.column_roles import ColumnRoles
from miscal.aggregate.requests import RangeCells
from miscal.aggregate.sample import gather
from miscal.aggregate.source import memory_bytes, open_source
from miscal.aggregate.streaming import add_up
from miscal.data.errors import MiscalError
from tests.aggregate import tables

ROWS = 30_000
ROLES = {"outcome": "y", "probability": "p"}


@pytest.fixture(scope="module")
def made() -> pa.Table:
    return tables.table(ROWS)


def source_of(data: Any, batch: int = 1 << 20, threads: int | None = None) -> Any:
    source = open_source(data)
    source.batch_rows, source.threads = batch, threads or source.threads
    return source


def differences(made: pa.Table, source: Any, weight: str | None = None) -> set[float]:
    return set(tables.differences(made, source, weight))


@pytest.mark.parametrize("weight", [None, "whole_weight", "real_weight"])
@pytest.mark.parametrize(("group", "batch", "threads"), [(1 << 20, 1 << 20, 1), (4096, 1 << 20, 2), (9000, 1000, 3)])
def test_sums_in_parts_equal_memory(made, tmp_path, weight, group, batch, threads):
    source = source_of(tables.write(made, tmp_path / "t.parquet", group), batch, threads)
    off = differences(made, source, weight)
    assert max(off) < 1e-12 if weight == "real_weight" else off == {0.0}
    assert source.passes == 1


def test_files_of_a_folder_and_a_pattern_are_one_table(made, tmp_path):
    for place in range(3):
        tables.write(made.slice(place * 10_000, 10_000), tmp_path / f"part-{place}.parquet", 4000)
    (tmp_path / "_SUCCESS").touch()
    for source in (tmp_path, str(tmp_path / "part-*.parquet")):
        assert differences(made, open_source(source)) == {0.0}


def test_csv_equals_memory_though_its_types_widen_late(tmp_path, monkeypatch):
    monkeypatch.setattr("miscal.data.files.BLOCK", 20_000)
    small = tables.table(4000, seed=3)
    late = np.array(small["whole"], dtype=float)
    late[-1] = 0.5  # whole numbers until the last row
    small = small.set_column(3, "whole", pa.array(late))
    pyarrow.csv.write_csv(small, tmp_path / "t.csv")
    text = (tmp_path / "t.csv").read_text().replace(".0,", ",")
    (tmp_path / "t.csv").write_text(text)
    assert differences(small, open_source(tmp_path / "t.csv")) == {0.0}


LIBRARIES = ["polars", "duckdb", "dask", "pyarrow"]


def lazy(library: str, path: Path) -> Any:
    """A frame of a library that computes when it is asked."""
    if library == "polars":
        return pytest.importorskip("polars").scan_parquet(path)
    if library == "duckdb":
        return pytest.importorskip("duckdb").connect().read_parquet(str(path))
    if library == "dask":
        return pytest.importorskip("dask.dataframe").read_parquet(path, split_row_groups=True)
    return pyarrow.dataset.dataset(path)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask against the newest pandas
@pytest.mark.parametrize("library", LIBRARIES)
def test_lazy_frames_take_the_same_route(made, tmp_path, library):
    path = tables.write(made, tmp_path / "t.parquet", 5000)
    assert differences(made, source_of(lazy(library, path), 7000)) == {0.0}


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask against the newest pandas
@pytest.mark.parametrize("library", LIBRARIES)
def test_measures_and_recalibrators_take_lazy_frames_too(made, tmp_path, library):
    from miscal.recalibrate import IsotonicCalibration
    from miscal.recalibrate.out_of_core import fit_to

    path = tables.write(made, tmp_path / "t.parquet", 5000)
    asked = ["whole < 30", "state in {s0, s3} and tied >= 0.2"]
    spec = miscal.Subpopulation(["whole", "state", "tied"], subpopulations=asked, simulations=0)
    one, two = (miscal.measure(data, spec, **ROLES)[0] for data in (lazy(library, path), path))
    assert one.value == two.value
    assert one.table["rows"].tolist() == two.table["rows"].tolist()
    models = [fit_to(IsotonicCalibration(), data, **ROLES).to_json() for data in (lazy(library, path), path)]
    assert models[0] == models[1]


def few_rows(monkeypatch, rows: int) -> None:
    """A ceiling under which only so many rows fit."""
    monkeypatch.setattr("miscal.aggregate.sample.rows_that_fit", lambda *_: rows)


def test_what_is_measured_beyond_memory_is_that_of_all_rows_or_says_that_it_is_not(made, tmp_path, monkeypatch):
    path = tables.write(made, tmp_path / "t.parquet", 4000)
    specs = [
        miscal.Score(), miscal.Variable("whole"), miscal.Variable("skewed"), miscal.Field("state"),
        miscal.Subpopulation(["whole", "flag"], subpopulations=["whole < 30", "flag = True"], simulations=99),
        miscal.Neighbourhood(["tied"], simulations=99),
    ]  # fmt: skip
    memory = miscal.measure(made, *specs, **ROLES)
    few_rows(monkeypatch, 5_000)
    found = miscal.measure(path, *specs, **ROLES, memory="500MB")
    for one in found[:4]:
        assert one.table["rows"].sum() == ROWS
        assert "sample" not in one.method
    assert found[3].value == pytest.approx(memory[3].value, rel=1e-12)
    assert found[3].table["label"].tolist() == memory[3].table["label"].tolist()
    assert found[0].extra["kuiper"] == pytest.approx(memory[0].extra["kuiper"], rel=0.02)
    for one in found[4:]:
        assert "sample of " in one.method
        assert one.settings["table_rows"] == ROWS
        assert 4_700 < one.settings["sample_rows"] < 5_300
    assert found[4].table["rows"].max() == found[4].settings["sample_rows"]


def bad(made: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    values = made[name].to_pylist()
    values[row] = value
    return made.set_column(made.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("p", 1.2, "must lie in [0, 1]"),
        ("y", 2, "0 or 1"),
        ("p", None, "is missing"),
        ("skewed", np.inf, "finite"),
    ],
)
@pytest.mark.parametrize(("batch", "limit"), [(1 << 20, None), (1000, 500)])
def test_a_bad_value_is_refused_with_file_row_group_and_row(made, tmp_path, name, value, words, batch, limit):
    path = tables.write(bad(made.slice(0, 9000), name, 7777, value), tmp_path / "t.parquet", 4000)
    with pytest.raises(MiscalError) as caught:
        gather(source_of(path, batch), ColumnRoles("y", "p"), limit=limit)
    text = str(caught.value)
    assert words in text
    assert "t.parquet', row group 1" in text
    assert "row 3777 " in text


def test_a_corrupt_row_group_is_refused_by_name(made, tmp_path):
    path = tables.write(made, tmp_path / "t.parquet", 5000)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4000] = b"\xff" * 4000
    path.write_bytes(bytes(content))
    with pytest.raises(MiscalError, match=r"t.parquet', row group \d"):
        tables.added(open_source(path))


def test_files_that_differ_are_refused_before_anything_is_read(made, tmp_path):
    tables.write(made, tmp_path / "a.parquet")
    tables.write(made.drop_columns(["whole"]), tmp_path / "b.parquet")
    with pytest.raises(MiscalError, match=r"b.parquet' has no column 'whole'"):
        tables.added(open_source(tmp_path))
    text = pa.array([str(value) for value in made["whole"].to_pylist()])
    tables.write(made.set_column(3, "whole", text), tmp_path / "b.parquet")
    with pytest.raises(MiscalError, match=r"column 'whole' of file .*b.parquet' must hold integer values"):
        tables.added(open_source(tmp_path))
    with pytest.raises(MiscalError, match=r"b.parquet' must hold integer values"):
        miscal.measure(tmp_path, miscal.Subpopulation(["whole"]), **ROLES)


@pytest.mark.parametrize("limit", [None, 10])
def test_an_empty_file_and_an_empty_table_are_refused(made, tmp_path, limit):
    (tmp_path / "t.parquet").touch()
    with pytest.raises(MiscalError, match="0 bytes"):
        open_source(tmp_path / "t.parquet")
    tables.write(made.slice(0, 0), tmp_path / "t.parquet")
    with pytest.raises(MiscalError, match="at least one row"):
        gather(open_source(tmp_path / "t.parquet"), ColumnRoles("y", "p"), limit=limit)


def test_a_third_label_is_refused_though_no_batch_has_three(tmp_path):
    rng = np.random.default_rng(0)
    label = np.where(rng.random(4000) < 0.2, "late", "ok").astype(object)
    label[2000:][label[2000:] == "ok"] = "fine"
    path = tables.write(pa.table({"y": pa.array(label), "p": np.full(4000, 0.2)}), tmp_path / "t.parquet", 1000)
    roles = ColumnRoles("y", "p", positive="late")
    with pytest.raises(MiscalError, match="must have 2 labels; it has 3"):
        add_up(open_source(path), roles, "auto", [RangeCells("p", np.array([0.0, 1.0]))])
    with pytest.raises(MiscalError, match="must have 2 labels; it has 3"):
        gather(open_source(path), roles, limit=100)


def test_a_ceiling_is_a_size():
    assert memory_bytes("1GB") == 10**9
    assert memory_bytes("0.5 gib") == 1 << 29
    for wrong in ("many", "1XB", "-3GB", "10MB", "nan"):
        with pytest.raises(MiscalError, match="'memory'"):
            memory_bytes(wrong)


def test_every_row_is_equally_likely(made, tmp_path: Path):
    numbered = made.append_column("number", pa.array(np.arange(ROWS)))
    path = tables.write(numbered, tmp_path / "t.parquet", 3000)
    rows = gather(open_source(path), ColumnRoles("y", "p"), ["number"], limit=6000).predictions.columns["number"].values
    assert 5_750 < rows.size < 6_250
    assert np.unique(rows).size == rows.size
    tenths = np.bincount((rows * 10 // ROWS).astype(int), minlength=10)
    assert np.sum((tenths - 600) ** 2 / 600) < 28  # chi squared with 9 degrees of freedom: one in a thousand


def test_a_table_that_changes_between_passes_is_refused(made, tmp_path):
    path = tables.write(made, tmp_path / "t.parquet", 5000)
    source = open_source(path)
    gather(source, ColumnRoles("y", "p"), ["whole"], limit=1000)
    source._parts, source.part_rows = source._parts[:-1], source.part_rows[:-1]
    with pytest.raises(MiscalError, match="changed between two passes"):
        add_up(source, ColumnRoles("y", "p"), "auto", [RangeCells("whole", np.array([0.0, 1.0]))])


@pytest.mark.parametrize("target", [2, "eel", "top"])
def test_a_class_is_measured_on_all_rows(tmp_path, target):
    rng = np.random.default_rng(3)
    shares = rng.dirichlet([2.0, 1.0, 1.0], 60_000)
    drawn = (shares.cumsum(axis=1) < rng.random((60_000, 1))).sum(axis=1)
    columns = {f"p_{name}": shares[:, place] for place, name in enumerate(("cat", "dog", "eel"))}
    table = {"animal": np.array(["cat", "dog", "eel"])[drawn], "state": rng.choice(["CA", "NY"], 60_000), **columns}
    path = tmp_path / "animals.parquet"
    pyarrow.parquet.write_table(pa.table(table), path)
    roles = {"outcome": "animal", "probability": list(columns)}
    whole = miscal.measure(path, miscal.Field("state", target=target), **roles)[0]
    parts = miscal.measure(path, miscal.Field("state", target=target), memory="400MB", **roles)[0]
    assert parts.table["observed"].tolist() == whole.table["observed"].tolist()
    assert parts.table["predicted"].tolist() == whole.table["predicted"].tolist()
    assert parts.settings["target"] == whole.settings["target"]

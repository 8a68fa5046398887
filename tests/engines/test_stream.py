"""A stream gives what memory gives: the same bits for counts, unweighted and whole-number-weighted sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pytest
from miscal.engines.batches import batches_of
from miscal.engines.scan import scan
from miscal.engines.stream import Stream

from miscal.data.errors import MiscalError
from tests.engines import tables

ROWS = 30_000


@pytest.fixture(scope="module")
def made() -> pa.Table:
    return tables.table(ROWS)


def scanned(source: Any, weight: str | None = None, **options: Any) -> Any:
    threads = options.pop("threads", None)
    batch = options.pop("batch", 1 << 20)
    stream = Stream(batches_of(source, batch), threads)
    return scan(
        stream,
        tables.door(weight),
        variables=tables.VARIABLES,
        fields=tables.FIELDS,
        requests=tables.requests,
        **options,
    )


@pytest.mark.parametrize("weight", [None, "whole_weight", "real_weight"])
@pytest.mark.parametrize(("group", "batch", "threads"), [(1 << 20, 1 << 20, 1), (4096, 1 << 20, 2), (9000, 1000, 3)])
def test_a_stream_equals_memory(made, tmp_path, weight, group, batch, threads):
    found = scanned(tables.write(made, tmp_path / "t.parquet", group), weight, batch=batch, threads=threads)
    off = tables.differences(tables.in_memory(made, weight), tables.of_scan(found))
    if weight == "real_weight":
        assert max(off.values()) < 1e-12
    else:
        assert set(off.values()) == {0.0}
    assert found.passes == 2


def test_files_of_a_folder_and_a_pattern_are_one_table(made, tmp_path):
    for place in range(3):
        tables.write(made.slice(place * 10_000, 10_000), tmp_path / f"part-{place}.parquet", 4000)
    (tmp_path / "_SUCCESS").touch()
    whole = tables.in_memory(made, None)
    for source in (tmp_path, str(tmp_path / "part-*.parquet")):
        assert set(tables.differences(whole, tables.of_scan(scanned(source))).values()) == {0.0}


def test_csv_equals_memory_though_its_types_widen_late(tmp_path):
    small = tables.table(4000, seed=3)
    late = np.array(small["whole"], dtype=float)
    late[-1] = 0.5  # whole numbers until the last row
    small = small.set_column(3, "whole", pa.array(late))
    pyarrow.csv.write_csv(small, tmp_path / "t.csv")
    text = (tmp_path / "t.csv").read_text().replace(".0,", ",")
    (tmp_path / "t.csv").write_text(text)
    batches = batches_of(tmp_path / "t.csv")
    batches.block = 20_000
    stream = Stream(batches)
    found = scan(stream, tables.door(), variables=tables.VARIABLES, fields=tables.FIELDS, requests=tables.requests)
    off = tables.differences(tables.in_memory(small, None), tables.of_scan(found) | {})
    assert {name: value for name, value in off.items() if value} == {}


def test_heavy_buckets_are_cut_again(made, tmp_path):
    """A budget of few rows forces refinement; the answer does not change."""
    path = tables.write(made, tmp_path / "t.parquet", 5000)
    found = scanned(path, budget=150, buckets=64)
    assert found.passes > 2
    assert set(tables.differences(tables.in_memory(made, None), tables.of_scan(found)).values()) == {0.0}
    assert max(each.pulled for each in (found.score, *found.variables.values())) <= 150


def test_aggregated_rows_are_unfolded(tmp_path):
    rng = np.random.default_rng(1)
    trials = rng.integers(0, 6, 5000)
    p = rng.beta(2, 5, 5000)
    made = pa.table({"k": rng.binomial(trials, p), "p": p, "n": trials, "x": rng.normal(size=5000)})
    path = tables.write(made, tmp_path / "t.parquet", 700)
    from miscal.engines.rows import Door

    from miscal import Predictions
    from miscal.engines.memory import tally
    from miscal.metrics.score.binned import score_bins
    from miscal.pairs import pair
    from miscal.pooling.columns import range_pooling

    found = scan(
        Stream(batches_of(path)), Door("k", "p", count="n"), variables=["x"], fields=[], requests=tables.requests
    )
    predictions = Predictions(made["k"], made["p"], count=made["n"], columns={"x": made["x"]})
    compared = pair(predictions, "auto")
    assert tally(compared, score_bins(compared, 15, "quantile")) == found.score.tallies["bins"]
    pooling = range_pooling(predictions.columns["x"], 10, count=compared.count)
    assert tally(compared, pooling) == found.variables["x"].tallies["bins"]


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
    found = scanned(lazy(library, path), batch=7000)
    assert set(tables.differences(tables.in_memory(made, None), tables.of_scan(found)).values()) == {0.0}


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask against the newest pandas
@pytest.mark.parametrize("library", LIBRARIES)
def test_subpopulations_and_recalibrators_take_lazy_frames_too(made, tmp_path, library):
    from miscal.metrics.subpopulation.streamed import subpopulations_in_parts

    from miscal.recalibrate import IsotonicCalibration
    from miscal.recalibrate.in_parts.fit import fit_to

    path = tables.write(made, tmp_path / "t.parquet", 5000)
    roles = {"outcome": "y", "probability": "p", "memory": "500MB"}
    asked = ["whole < 30", "state in {s0, s3} and tied >= 0.2"]
    one, two = (
        subpopulations_in_parts(source, ["whole", "state", "tied"], subpopulations=asked, simulations=0, **roles)
        for source in (lazy(library, path), path)
    )
    assert one.value == pytest.approx(two.value, rel=1e-12)
    assert one.table["rows"].tolist() == two.table["rows"].tolist()
    models = [fit_to(IsotonicCalibration(), source, **roles).to_json() for source in (lazy(library, path), path)]
    assert models[0] == models[1]


def bad(made: pa.Table, name: str, row: int, value: Any) -> pa.Table:
    values = made[name].to_pylist()
    values[row] = value
    return made.set_column(made.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("p", 1.2, "must lie in [0, 1]"),
        ("y", 2, "0 or 1"),
        ("p", None, "must not be missing"),
        ("skewed", np.inf, "finite"),
    ],
)
@pytest.mark.parametrize("batch", [1 << 20, 1000])
def test_a_bad_value_is_refused_with_file_row_group_and_row(made, tmp_path, name, value, words, batch):
    path = tables.write(bad(made.slice(0, 9000), name, 7777, value), tmp_path / "t.parquet", 4000)
    with pytest.raises(MiscalError) as caught:
        scanned(path, batch=batch)
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
        scanned(path)


def test_files_that_differ_are_refused_before_anything_is_read(made, tmp_path):
    tables.write(made, tmp_path / "a.parquet")
    tables.write(made.drop_columns(["whole"]), tmp_path / "b.parquet")
    with pytest.raises(MiscalError, match=r"b.parquet' lacks column 'whole'"):
        scanned(tmp_path)
    text = pa.array([str(value) for value in made["whole"].to_pylist()])
    tables.write(made.set_column(3, "whole", text), tmp_path / "b.parquet")
    with pytest.raises(MiscalError, match=r"column 'whole' of file .*b.parquet' must hold integer values"):
        scanned(tmp_path)


def test_an_empty_file_and_an_empty_table_are_refused(made, tmp_path):
    (tmp_path / "t.parquet").touch()
    with pytest.raises(MiscalError, match="0 bytes"):
        scanned(tmp_path / "t.parquet")
    tables.write(made.slice(0, 0), tmp_path / "t.parquet")
    with pytest.raises(MiscalError, match="at least one row"):
        scanned(tmp_path / "t.parquet")


def test_too_many_levels_are_refused(made, tmp_path):
    path = tables.write(made, tmp_path / "t.parquet", 5000)
    with pytest.raises(MiscalError, match=r"column 'state' must have at most 100 levels"):
        scanned(path, most_levels=100)
    with pytest.raises(MiscalError, match=r"column 'state' must have at most 100 levels"):
        scanned(path, most_levels=100, threads=3)


def test_a_third_label_is_refused_though_no_batch_has_three(tmp_path):
    rng = np.random.default_rng(0)
    label = np.where(rng.random(4000) < 0.2, "late", "ok").astype(object)
    label[2000:][label[2000:] == "ok"] = "fine"
    made = pa.table({"y": pa.array(label), "p": np.full(4000, 0.2)})
    path = tables.write(made, tmp_path / "t.parquet", 1000)
    from miscal.engines.rows import Door

    with pytest.raises(MiscalError, match="must have 2 labels; it has 3"):
        scan(
            Stream(batches_of(path)), Door("y", "p", positive="late"), variables=[], fields=[], requests=tables.requests
        )


def test_the_sample_is_spread_over_all_rows(made, tmp_path: Path):
    found = scanned(tables.write(made, tmp_path / "t.parquet", 3000), sample=1000)
    assert 900 <= found.sample["predicted"].size <= 1100
    levels = found.fields["state"].tally.cells.labels()
    kept = {(p, s) for p, s in zip(made["p"].to_pylist(), made["state"].to_pylist(), strict=True)}
    for p, code in zip(found.sample["predicted"][:50], found.sample["f:state"][:50], strict=True):
        level = levels[code]
        assert (p, None if level == "(missing)" else level) in kept


def test_a_table_that_changes_between_passes_is_refused(made, tmp_path):
    path = tables.write(made, tmp_path / "t.parquet", 5000)

    class Shrinking(Stream):
        def run(self, job):
            found = super().run(job)
            self.batches._parts = self.batches._parts[:-1]
            return found

    with pytest.raises(MiscalError, match="changed between two passes"):
        scan(Shrinking(batches_of(path)), tables.door(), variables=["whole"], fields=[], requests=tables.requests)

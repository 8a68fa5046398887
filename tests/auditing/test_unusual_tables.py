"""Tables that once took minutes or gigabytes, or waited for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import miscal
from miscal.aggregate.sample import levels_that_fit
from miscal.data.errors import MiscalError
from miscal.data.outputs import load_arrays

ROWS = 300


def frame(**columns: object) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, ROWS)
    return pd.DataFrame({"y": (rng.random(ROWS) < p).astype(int), "p": p, **columns})


def audit(table: object, **options: object) -> miscal.Audit:
    return miscal.audit(table, outcome="y", probability="p", effort="quick", **options)


def dates() -> np.ndarray:
    rng = np.random.default_rng(1)
    days = (np.datetime64("2024-01-01", "s") + rng.integers(0, 200, ROWS) * np.timedelta64(86_400, "s")).astype("M8[s]")
    days[3] = np.datetime64("9999-12-31", "s")
    return days


@pytest.mark.parametrize("every", ["week", "month"])
def test_a_date_of_9999_makes_few_cells_and_a_note(every: str) -> None:
    found = audit(frame(when=dates()), time="when", every=every)
    tables = [r["table"] for kind in ("variable", "period") for r in found.document["sections"][kind]]
    assert all(len(table["rows"]) < 40 for table in tables)
    assert any("9999-12-31" in note and "stands for no date" in note for note in found.document["notes"])
    months = next(r["table"] for r in found.document["sections"]["variable"])
    assert sum(rows > 0 for rows in months["rows"]) == 8, "the months of 2024 stay apart"


def test_one_heavy_weight_is_no_overflow() -> None:
    weight = np.ones(ROWS)
    weight[5] = 1e5
    found = audit(frame(w=weight, g=np.resize(["a", "b"], ROWS)), weight="w")
    assert np.isfinite(found.score["expected"])


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes")
def test_a_pipe_without_a_writer_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet", "t.tally", "a.miscal"):
        os.mkfifo(tmp_path / name)
    code = "import miscal, sys\ntry: miscal.audit(sys.argv[1], outcome='y', probability='p')\n"
    code += "except miscal.MiscalError as e: print(e)"
    for name in ("t.csv", "t.parquet", "t.tally"):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / name)], capture_output=True, text=True, timeout=60, check=False
        )
        assert "it is a pipe" in done.stdout, done.stdout + done.stderr
        assert time.monotonic() - began < 50
    with pytest.raises(MiscalError, match="it is a pipe"):
        miscal.Audit.load(tmp_path / "a.miscal")
    with pytest.raises(MiscalError, match="it is a pipe"):
        load_arrays(tmp_path / "t.tally", "x")


PEAK = """
import sys, miscal
from pathlib import Path
found = miscal.audit(sys.argv[1], outcome="y", probability="p", memory="600MB", effort="quick")
print([entry["reason"] for entry in found.document["too_small"] if entry["where"] == "t"])
if sys.argv[1].endswith("parquet"):
    from miscal.recalibrate import PlattScaling
    from miscal.recalibrate.out_of_core import fit_to, apply_to
    model = fit_to(PlattScaling(), sys.argv[1], outcome="y", probability="p", memory="600MB")
    print(apply_to(model, sys.argv[1], ["p"], sys.argv[1] + ".out.parquet", memory="600MB"))
print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are counted otherwise elsewhere")
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_texts_of_20_kilobytes_stay_below_the_ceiling(suffix: str, tmp_path: Path) -> None:
    path, rng, text = tmp_path / f"t.{suffix}", np.random.default_rng(0), "some long text " * 1400
    tables: list[pa.Table] = []
    for part in range(6):
        p = rng.uniform(0.05, 0.95, 5_000)
        columns = {"y": (rng.random(5_000) < p).astype(int), "p": p, "t": [f"{part}-{i}{text}" for i in range(5_000)]}
        table = pa.table({**columns, "g": rng.integers(0, 4, 5_000)})
        if suffix == "csv":
            with path.open("ab") as file:
                csv.write_csv(table, file, csv.WriteOptions(include_header=part == 0))
            continue
        tables.append(table)
    if suffix == "parquet":
        pq.write_table(pa.concat_tables(tables), path, row_group_size=5_000)
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    said, *rows, peak = done.stdout.split("\n")[:-1]
    assert "['its texts have 21,0" in said
    assert rows == (["30000"] if suffix == "parquet" else [])
    assert float(peak) * 1024 < 600e6
    with pytest.raises(MiscalError, match=r"column 't' .* must hold texts of at most 500 bytes on average"):
        audit(path, by=["t"])


def test_levels_beyond_the_ceiling_are_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    p = miscal.Predictions([0, 1], [0.2, 0.7], columns={"g": ["a", "b"]})
    assert levels_that_fit("600MB", p) < 40_000 < 100_000 < levels_that_fit("1GB", p)
    monkeypatch.setattr("miscal.aggregate.sample.MANY_LEVELS", 20)
    monkeypatch.setattr("miscal.aggregate.sample.BYTES_BEFORE_LEVELS", 10**9)
    frame(g=np.resize([f"level {i}" for i in range(40)], ROWS), few=np.resize(["a", "b"], ROWS)).to_parquet(
        tmp_path / "t.parquet"
    )
    found = audit(tmp_path / "t.parquet", memory="600MB")
    assert {e["where"]: e["reason"] for e in found.document["too_small"]} == {"g": "it has more than 20 levels"}


def test_a_column_of_lists_is_set_aside_and_not_refused(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({**frame(), "l": [[1, 2]] * ROWS, "g": np.resize(["a", "b"], ROWS)}), tmp_path / "t.parquet"
    )
    found = audit(tmp_path / "t.parquet")
    assert [e["reason"] for e in found.document["too_small"] if e["where"] == "l"] == ["it holds no plain values"]

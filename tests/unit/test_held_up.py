"""Tables that once took minutes or gigabytes, or waited for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import miscal
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

"""Folders whose files do not have the same columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import miscal
from miscal.cli import main
from miscal.data.errors import MiscalError


@pytest.fixture(params=["csv", "parquet"])
def folders(request: pytest.FixtureRequest, tmp_path: Path) -> list[Path]:
    """Two folders: a column absent from the first file, and from the second."""
    rng = np.random.default_rng(0)
    p = rng.random(400)
    one = pd.DataFrame({"y": (rng.random(400) < p).astype(int), "p": p, "g": rng.choice(["a", "b"], 400)})
    two = one.assign(extra=rng.choice(["x", "z"], 400))
    made = []
    for name, frames in (("first", (one, two)), ("later", (two, one))):
        folder = tmp_path / name
        folder.mkdir()
        for place, frame in enumerate(frames):
            path = folder / f"{place}.{request.param}"
            frame.to_csv(path, index=False) if request.param == "csv" else frame.to_parquet(path)
        made.append(folder)
    return made


def test_a_column_that_some_files_lack_is_said(folders: list[Path], tmp_path: Path) -> None:
    for folder in folders:
        for memory in (None, "600MB"):
            found = miscal.audit(folder, outcome="y", probability="p", effort="quick", memory=memory)
            assert [r["settings"]["column"] for r in found.document["sections"]["field"]] == ["g"]
            assert {entry["where"]: entry["reason"] for entry in found.too_small}["extra"] == "it is not in every file"
        roles = ["--outcome", "y", "--probability", "p", "--out", str(tmp_path / "t.tally")]
        done = CliRunner().invoke(main, ["summarize", str(folder), *roles])
        assert done.exit_code == 0, done.output
        assert "Excluded: extra (it is not in every file)." in done.output
        assert miscal.audit(tmp_path / "t.tally").too_small[0]["where"] == "extra"


def test_a_column_that_some_files_lack_is_refused_where_it_is_asked_for(folders: list[Path]) -> None:
    for folder in folders:
        for asked in ({"by": ["extra"]}, {"weight": "extra"}, {"cluster": "extra"}):
            with pytest.raises(MiscalError, match=r"file .* has no column 'extra'"):
                miscal.audit(folder, outcome="y", probability="p", effort="quick", **asked)
        found = miscal.audit(folder, outcome="y", probability="p", effort="quick", ignore=["extra"])
        assert "extra" not in {entry["where"] for entry in found.too_small}


@pytest.mark.parametrize("packed", ["gz", "bz2", "zst", "lz4"])
def test_a_folder_is_searched_for_every_packing_that_a_file_may_have(packed: str, tmp_path: Path) -> None:
    kind = {"gz": "gzip", "zst": "zstd"}.get(packed, packed)
    with pa.output_stream(tmp_path / f"rows.csv.{packed}", compression=kind) as stream:
        stream.write(b"y,p\n" + b"0,.3\n1,.6\n" * 50)
    assert miscal.audit(tmp_path, outcome="y", probability="p", effort="quick").document["data"]["rows"] == 100

"""Parquet files that were damaged: our own have checksums, and no flip within a page of such a file is read wrongly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from miscal.data.errors import MiscalError
from miscal.data.files import TableFile
from miscal.recalibrate import IsotonicCalibration
from miscal.recalibrate.out_of_core import apply_to
from studies.damaged_parquet import count


def test_no_flip_is_read_wrongly_where_pages_have_checksums(tmp_path: Path) -> None:
    found = count(60, True, tmp_path)
    assert found["read wrongly"] <= 3, "only names and descriptions in the footer have no checksum"
    assert found["refused"] > 40


def test_tables_that_we_write_have_checksums(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({"p": rng.random(500)}), tmp_path / "t.parquet")
    model = IsotonicCalibration().fit(rng.random(100), rng.integers(0, 2, 100))
    apply_to(model, tmp_path / "t.parquet", ["p"], tmp_path / "o.parquet")
    content = bytearray((tmp_path / "o.parquet").read_bytes())
    content[120] ^= 1  # within the first page
    (tmp_path / "o.parquet").write_bytes(content)
    with pytest.raises(MiscalError, match="cannot be read"):
        TableFile(tmp_path / "o.parquet").load()

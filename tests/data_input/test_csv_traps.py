"""What a CSV file may hide: ids of many digits, leading zeros, stray quotes, an end cut off."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import miscal
from miscal.aggregate.source import open_source
from miscal.data.errors import MiscalError, MiscalWarning
from miscal.data.files import TypesChanged

ROWS = 2000


def frame(**columns: object) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    p = rng.random(ROWS)
    return pd.DataFrame({"y": (rng.random(ROWS) < p).astype(int), "p": p.round(6), **columns})


def levels(path: Path, column: str) -> set[str]:
    """The levels of a column, in memory and in a stream, which must agree."""
    found = miscal.read(path, outcome="y", probability="p").columns[column]
    assert found.kind == "category"
    source = open_source(path, "500MB")
    while True:
        try:
            streamed = {v for chunk in source.batches([column]) for v in chunk.table[column].to_pylist()}
            break
        except TypesChanged:
            continue
    assert streamed == set(found.levels)
    return set(found.levels)


def test_ids_of_twenty_digits_stay_apart(tmp_path: Path) -> None:
    ids = [f"{12345678901234567000 + i}" for i in range(ROWS)]
    frame(id=ids).to_csv(tmp_path / "t.csv", index=False)
    assert levels(tmp_path / "t.csv", "id") == set(ids)
    some = ["7"] * (ROWS - 2) + ids[:2]  # narrow ones first
    frame(id=some).to_csv(tmp_path / "t.csv", index=False)
    assert levels(tmp_path / "t.csv", "id") == set(some)
    found = miscal.read(tmp_path / "t.csv", outcome="y", probability="p", cluster="id")
    assert len(np.unique(found.cluster)) == 3


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_leading_zeros_stay(tmp_path: Path, ending: str) -> None:
    codes = np.resize(["01", "1", "001", "10"], ROWS)
    text = frame(code=codes).to_csv(index=False).encode()
    path = tmp_path / f"t{ending}"
    path.write_bytes(gzip.compress(text) if ending.endswith("gz") else text)
    assert levels(path, "code") == {"01", "1", "001", "10"}
    found = miscal.read(path, outcome="y", probability="p")
    assert found.columns["code"].kind == "category"


def test_numbers_that_only_look_so_stay_numbers(tmp_path: Path) -> None:
    """A decimal with two zeros, a clock, and a number of 20 digits among decimals."""
    half = ROWS // 2
    table = frame(a=["00.5", "0.25"] * half, b=["01:30:00"] * ROWS, c=["12345678901234567890", "0.5"] * half)
    table.to_csv(tmp_path / "t.csv", index=False)
    columns = miscal.read(tmp_path / "t.csv", outcome="y", probability="p").columns
    assert columns["a"].kind == columns["c"].kind == "numeric"


def test_stray_quotes_that_swallow_rows_are_refused(tmp_path: Path) -> None:
    lines = frame(note="x").to_csv(index=False).splitlines(keepends=True)
    for line, place in ((600, 0), (1400, -2)):
        lines[line] = lines[line].replace(",x", ',"x' if place == 0 else ',x"')
    (tmp_path / "t.csv").write_text("".join(lines))
    with pytest.raises(MiscalError, match=r"within a quoted field.*799 lines that look like rows"):
        miscal.read(tmp_path / "t.csv", outcome="y", probability="p")
    with pytest.raises(MiscalError, match="quoted field"):
        list(open_source(tmp_path / "t.csv", "500MB").batches(["y", "p"]))


def test_texts_of_several_lines_are_read(tmp_path: Path) -> None:
    table = frame(note=["one\ntwo, three\n\nfour"] * ROWS)
    table.to_csv(tmp_path / "t.csv", index=False)
    assert miscal.read(tmp_path / "t.csv", outcome="y", probability="p").rows == ROWS


def test_a_file_that_ends_within_a_field_is_refused_or_said(tmp_path: Path) -> None:
    text = frame(note='said "so"').to_csv(index=False)
    path = tmp_path / "t.csv"
    path.write_text(text[: text.rindex('"so""') + 3])
    with pytest.raises(MiscalError, match="ends within a quoted field"):
        miscal.read(path, outcome="y", probability="p")
    table = frame()[["y", "p"]]
    path.write_text(table.to_csv(index=False)[:-4])
    with pytest.warns(MiscalWarning, match="ends without a line end"):
        miscal.read(path, outcome="y", probability="p")

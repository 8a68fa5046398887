"""`read`: files and tables by the names of their columns."""

from __future__ import annotations

import gzip
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from miscal.data.errors import MiscalError
from miscal.data.predictions import Predictions
from miscal.data.sources import read

TABLE = {
    "y": [0, 1, 1, 0],
    "p": [0.25, 0.5, 0.75, 1.0],
    "w": [1.0, 2.0, 3.0, 4.0],
    "state": ["NY", "CA", "NA", "NY"],
    "age": [31, 45, 27, 60],
}


def _sources(folder):
    table = pa.table(TABLE)
    pyarrow.parquet.write_table(table, folder / "t.parquet")
    pyarrow.parquet.write_table(table, folder / "t.dat")  # told by its first bytes
    pyarrow.feather.write_feather(table, str(folder / "t.feather"))
    with pa.OSFile(str(folder / "t.arrows.ipc"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    pd.DataFrame(TABLE).to_csv(folder / "t.csv", index=False)
    pd.DataFrame(TABLE).to_csv(folder / "t.tsv", index=False, sep="\t")
    pd.DataFrame(TABLE).to_csv(folder / "semicolon.csv", index=False, sep=";")
    (folder / "t.csv.gz").write_bytes(gzip.compress((folder / "t.csv").read_bytes()))
    (folder / "bom.csv").write_bytes(b"\xef\xbb\xbf" + (folder / "t.csv").read_bytes())
    structured = np.array(
        list(zip(*TABLE.values(), strict=True)),
        dtype=[("y", int), ("p", float), ("w", float), ("state", "U2"), ("age", int)],
    )
    files = {path.name: path for path in folder.iterdir()}
    return files | {
        "path as text": str(folder / "t.csv"),
        "dict": TABLE,
        "pandas": pd.DataFrame(TABLE),
        "polars": pl.DataFrame(TABLE),
        "polars lazy": pl.LazyFrame(TABLE),
        "pyarrow": table,
        "pyarrow in chunks": pa.concat_tables([table[:1], table[1:]]),
        "duckdb": duckdb.from_arrow(table),
        "structured": structured,
    }


def test_every_source_gives_the_same(tmp_path):
    reference = read(TABLE, outcome="y", probability="p", weight="w")
    sources = _sources(tmp_path)
    assert len(sources) == 18
    for name, source in sources.items():
        made = read(source, outcome="y", probability="p", weight="w")
        assert made._fingerprint() == reference._fingerprint(), name
        assert list(made.columns) == ["state", "age"], name
        assert made.columns["state"].levels == ("CA", "NA", "NY"), name
        assert made.columns["age"].values.tolist() == TABLE["age"], name
        assert made.columns["age"].integer, name


def test_chosen_columns_alone_are_kept(tmp_path):
    for name, source in _sources(tmp_path).items():
        assert list(read(source, outcome="y", probability="p", columns=["age"]).columns) == ["age"], name
        assert list(read(source, outcome="y", probability="p", columns=[]).columns) == [], name


def test_a_file_is_closed_and_may_be_replaced(tmp_path):
    _sources(tmp_path)
    made = read(tmp_path / "t.parquet", outcome="y", probability="p")
    (tmp_path / "t.parquet").unlink()
    assert made.columns["state"].levels == ("CA", "NA", "NY")


def test_a_file_rewritten_later_does_not_change_what_was_read(tmp_path):
    path = tmp_path / "t.feather"
    pyarrow.feather.write_feather(pa.table(TABLE), str(path), compression="uncompressed")
    made = read(path, outcome="y", probability="p")
    path.write_bytes(b"")
    assert made.probability.tolist() == TABLE["p"]
    assert made.columns["age"].values.tolist() == TABLE["age"]


def test_arrays_are_not_copied():
    p, y = np.array(TABLE["p"]), np.array(TABLE["y"])
    made = read({"y": y, "p": p}, outcome="y", probability="p")
    assert np.shares_memory(made.probability, p)
    assert np.shares_memory(made.outcome, y)


def test_logits_become_probabilities():
    logits = [-800.0, -1.5, 0.0, 800.0]
    made = read({"y": [0, 1, 1, 0], "z": logits}, outcome="y", probability="z", logit=True)
    assert made.probability.tolist() == pytest.approx([0.0, 1 / (1 + math.exp(1.5)), 0.5, 1.0], abs=1e-16)


def test_several_logits_become_probabilities_by_softmax():
    logits = np.array([[1.0, 2.0, 3.0], [1000.0, 0.0, -1000.0], [0.0, 0.0, 0.0]])
    table = {"y": [0, 1, 2], **{f"z{k}": logits[:, k].copy() for k in range(3)}}
    made = read(table, outcome="y", probability=["z0", "z1", "z2"], logit=True)
    e = [math.exp(k) for k in (1, 2, 3)]
    assert made.probability[0].tolist() == pytest.approx([v / sum(e) for v in e], abs=1e-15)
    assert made.probability[1].tolist() == [1.0, 0.0, 0.0]
    assert table["z0"].tolist() == logits[:, 0].tolist()  # the user's own columns stay


def test_clip_moves_what_lies_outside_by_the_tolerance_at_most():
    table = {"y": [0, 1, 1], "p": np.array([-1e-7, 0.5, 1 + 1e-7])}
    made = read(table, outcome="y", probability="p", clip=1e-6)
    assert made.probability.tolist() == [0.0, 0.5, 1.0]
    assert table["p"][0] == -1e-7
    with pytest.raises(MiscalError, match=r"column 'p' must lie in \[0, 1\].*; row 0 has -1e-07 \(2 such rows"):
        read(table, outcome="y", probability="p", clip=1e-8)


def test_a_class_stated_with_its_column_is_the_event():
    table = {"y": ["no", "yes", "no"], "p": [0.1, 0.9, 0.2]}
    made = read(table, outcome="y", probability={"yes": "p"})
    assert made.outcome.tolist() == [0, 1, 0]
    assert made.classes == ("no", "yes")


def test_classes_in_any_order():
    matrix = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.0, 0.25, 0.75]])
    words = ["eel", "cat", "dog"]
    table = {"y": words, **{f"p_{k}": matrix[:, i] for i, k in enumerate(["dog", "cat", "eel"])}}
    by_prefix = read(table, outcome="y", probability=["p_dog", "p_cat", "p_eel"])
    stated = read(table, outcome="y", probability={"cat": "p_cat", "eel": "p_eel", "dog": "p_dog"})
    assert by_prefix.classes == ("dog", "cat", "eel")
    assert by_prefix.outcome.tolist() == [2, 1, 0]
    assert stated.classes == ("cat", "eel", "dog")
    assert stated.outcome.tolist() == [1, 0, 2]
    assert np.array_equal(stated.probability, matrix[:, [1, 2, 0]])
    numbered = read(table | {"y": [3, 1, 2]}, outcome="y", probability={1: "p_dog", 2: "p_cat", 3: "p_eel"})
    assert numbered.outcome.tolist() == [2, 0, 1]


def test_two_columns_with_a_stated_event():
    table = {"y": ["a", "b", "a"], "a": [0.75, 0.5, 1.0], "b": [0.25, 0.5, 0.0]}
    assert read(table, outcome="y", probability=["a", "b"]).probability.tolist() == table["b"]
    flipped = read(table, outcome="y", probability=["a", "b"], positive="a")
    assert flipped.probability.tolist() == table["a"]
    assert flipped.outcome.tolist() == [1, 0, 1]
    other = read(table | {"y": ["no", "yes", "no"]}, outcome="y", probability=["a", "b"], positive="yes")
    assert other.probability.tolist() == table["b"]


def test_counts_and_clusters_from_columns():
    table = {"clicks": [3, 0], "views": [10, 5], "p": [0.25, 0.125], "site": ["b", "a"]}
    made = read(table, outcome="clicks", probability="p", count="views", cluster="site", id="site")
    assert made.outcome.tolist() == [1, 0, 0]
    assert made.count.tolist() == [3, 7, 5]
    assert made.cluster.tolist() == [1, 1, 0]
    assert made.id.to_pylist() == ["b", "b", "a"]
    assert list(made.columns) == []


# ---------------------------------------------------------------------------------------------------------- CSV
def test_missing_cells_of_csv(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("y,p,age,country,when\n0,0.5,NA,NA,2024-01-01\n1,0.5,,,\n1,0.25,7,FR,2024-01-03\n")
    made = read(path, outcome="y", probability="p")
    assert made.columns["age"].missing.tolist() == [True, True, False]
    assert made.columns["country"].levels == ("FR", "NA")  # Namibia is a country
    assert made.columns["country"].values.tolist() == [1, -1, 0]
    assert made.columns["when"].kind == "date"
    assert made.columns["when"].missing.tolist() == [False, True, False]


def test_quoted_cells_of_csv(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('y,p,"a, b"\n0,0.5,"two\nlines"\n1,0.5,"he said ""no"""\n')
    made = read(path, outcome="y", probability="p")
    assert made.columns["a, b"].levels == ('he said "no"', "two\nlines")


def test_types_that_change_far_down_a_csv(tmp_path):
    # More than one block of the reader (1 MB), so that the types guessed from the first block are wrong.
    rows = 200_000
    path = tmp_path / "t.csv"
    body = [f"{i % 2},0.5,{i},,{i}" for i in range(rows)]
    body[-1] = "1,0.25,0.5,late,word"
    path.write_text("y,p,number,empty,text\n" + "\n".join(body) + "\n")
    made = read(path, outcome="y", probability="p")
    assert made.columns["number"].values[-1] == 0.5
    assert made.columns["empty"].levels == ("late",)
    assert made.columns["text"].values.size == rows
    body[-1] = "1,high,0.5,late,word"
    path.write_text("y,p,number,empty,text\n" + "\n".join(body) + "\n")
    with pytest.raises(MiscalError, match=f"column 'p'.*row {rows - 1} has 'high'"):
        read(path, outcome="y", probability="p")
    body[-1] = "1,0.5,1"
    path.write_text("y,p,number,empty,text\n" + "\n".join(body) + "\n")
    with pytest.raises(MiscalError, match=f"Row #{rows + 1}: Expected 5 columns, got 3"):
        read(path, outcome="y", probability="p")


def test_latin_text_is_refused_only_where_it_is_used(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("y,p,town\n0,0.5,Orléans\n1,0.5,Paris\n".encode("latin-1"))
    made = read(path, outcome="y", probability="p")
    with pytest.raises(MiscalError, match=r"column 'town'.*UTF-8"):
        made.columns["town"]


def test_a_folder_named_like_a_column_adds_no_column(tmp_path):
    folder = tmp_path / "year=2024"
    folder.mkdir()
    pyarrow.parquet.write_table(pa.table(TABLE), folder / "t.parquet")
    assert "year" not in read(folder / "t.parquet", outcome="y", probability="p").columns


def test_read_of_random_damage_never_ends_in_another_exception(tmp_path):
    # Every answer to a damaged file is a refusal or validated predictions.
    rng = np.random.default_rng(5)
    _sources(tmp_path)
    refused = 0
    for name in ("t.parquet", "t.feather", "t.arrows.ipc", "t.csv", "t.csv.gz"):
        content = (tmp_path / name).read_bytes()
        for round_ in range(40):
            damaged = bytearray(content)
            for place in rng.integers(0, len(content), size=1 + round_ % 8):
                damaged[place] = rng.integers(0, 256)
            (tmp_path / name).write_bytes(damaged)
            try:
                made = read(tmp_path / name, outcome="y", probability="p", weight="w")
                assert isinstance(made, Predictions)
                for column in made.columns:
                    made.columns[column]
            except MiscalError:
                refused += 1
    assert refused > 100

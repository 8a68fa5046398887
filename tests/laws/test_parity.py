"""One table, one answer: the whole document of an audit, wherever the rows come from and however they are read.

Nothing is exempt but the names of sources and engines: every number, word, finding, section and note must be the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import miscal

ROWS = 6_000
LEVELS = (
    "O'Hare", "Yahoo!", "New  York", "x and", "18 to 25", 'say "no"', "`tick`", "\u202bright to left", "a, b", "{c}",
    "missing", "not in", "é", "1",
)  # fmt: skip


def table(rows: int = ROWS) -> pa.Table:
    """Odd levels, missing values, ids, dates, a column empty at first, weights with zeros, trials, clusters."""
    rng = np.random.default_rng(11)
    p = rng.beta(1.5, 4, rows).round(6)
    place = np.array(LEVELS, object)[rng.integers(0, len(LEVELS), rows)]
    age = rng.integers(18, 80, rows)
    truth = np.clip(np.where(place == "O'Hare", 1.8 * p, np.where(age > 65, 0.6 * p, p)), 0, 1)
    late = rng.normal(size=rows).round(4)
    late[: rows // 2] = np.nan
    place[rng.random(rows) < 0.05] = None
    trials = rng.integers(1, 4, rows)
    return pa.table(
        {
            "y": (rng.random(rows) < truth).astype(np.int64),
            "p": p,
            "place": pa.array(place, pa.string()),
            "age": age,
            "late": pa.array(late, from_pandas=True),
            "flag": pa.array(rng.random(rows) < 0.4),
            "day": pa.array(rng.integers(19_000, 19_200, rows).astype("M8[D]")),
            "customer": np.arange(rows) + 10**6,
            "w": np.where(rng.random(rows) < 0.1, 0.0, rng.exponential(size=rows).round(3)),
            "trials": trials,
            "events": rng.binomial(trials, truth),
            "patient": rng.integers(0, 400, rows),
        }
    )


@pytest.fixture(scope="module")
def whole() -> pa.Table:
    return table()


Opened = tuple[Any, dict[str, Any]]  # what the audit is given, and options that must not matter


def _files(whole: pa.Table, folder: Path, ending: str, number: int) -> Path:
    folder.mkdir(exist_ok=True)
    cuts = np.linspace(0, whole.num_rows, number + 1).astype(int)
    for i, (start, stop) in enumerate(pairwise(cuts)):
        part = whole.slice(start, stop - start)
        if ending == "csv":
            pa.csv.write_csv(part, folder / f"{i}.csv")
        else:
            pq.write_table(part, folder / f"{i}.parquet", row_group_size=700)
    return folder if number > 1 else folder / f"0.{ending}"


SOURCES: dict[str, Callable[[pa.Table, Path], Opened]] = {
    "pandas": lambda t, _: (t.to_pandas(), {}),
    "polars": lambda t, _: (pl.from_arrow(t), {}),
    "polars lazy": lambda t, _: (pl.from_arrow(t).lazy(), {}),
    "polars lazy in parts": lambda t, _: (pl.from_arrow(t).lazy(), {"memory": "1GB"}),
    "duckdb": lambda t, _: (duckdb.from_arrow(t), {}),
    "duckdb in parts": lambda t, _: (duckdb.from_arrow(t), {"memory": "1GB"}),
    "parquet": lambda t, f: (_files(t, f, "parquet", 1), {}),
    "parquet in parts": lambda t, f: (_files(t, f, "parquet", 1), {"memory": "600MB"}),
    "parquet, relative path": lambda t, f: (
        Path("..") / f.parent.name / _files(t, f, "parquet", 1).relative_to(f.parent), {"memory": "1GB"}
    ),
    "five parquet files": lambda t, f: (_files(t, f, "parquet", 5), {}),
    "five parquet files, pattern": lambda t, f: (str(_files(t, f, "parquet", 5) / "*.parquet"), {"memory": "1GB"}),
    "csv": lambda t, f: (_files(t, f, "csv", 1), {}),
    "csv in parts": lambda t, f: (_files(t, f, "csv", 1), {"memory": "1GB"}),
    "five csv files": lambda t, f: (_files(t, f, "csv", 5), {}),
}  # fmt: skip
NAMES = {"outcome": "y", "probability": "p"}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {**NAMES, "ignore": ["w", "trials", "events", "patient"]},
    "weighted": {**NAMES, "weight": "w", "ignore": ["trials", "events", "patient"]},
    "count": {"outcome": "events", "probability": "p", "count": "trials", "ignore": ["y", "w", "patient"]},
    "clusters": {**NAMES, "cluster": "patient", "ignore": ["w", "trials", "events"]},
    "time": {**NAMES, "time": "day", "every": "month", "ignore": ["w", "trials", "events", "patient"]},
}
MAY_DIFFER = {("data", "source"), ("settings", "memory"), ("settings", "read")}


def document(source: Any, **options: Any) -> dict[str, Any]:
    """Everything that an audit says, as JSON would hold it, less the names of the source and of who read it."""
    found = miscal.audit(source, **options).document
    made = json.loads(json.dumps(found, default=str))  # NaN stays NaN, and is compared as text below
    for part, name in MAY_DIFFER:
        made[part].pop(name, None)
    return made


def differences(one: Any, two: Any, where: str = "") -> list[str]:
    """Where two documents differ."""
    if isinstance(one, dict) and isinstance(two, dict):
        found = [f"{where}: only one has {key}" for key in one.keys() ^ two.keys()]
        return found + [d for key in one.keys() & two.keys() for d in differences(one[key], two[key], f"{where}/{key}")]
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        return [d for i, (a, b) in enumerate(zip(one, two, strict=True)) for d in differences(a, b, f"{where}[{i}]")]
    return [] if one == two or (one != one and two != two) else [f"{where}: {one!r:.80} and {two!r:.80}"]


@pytest.fixture(scope="module")
def expected(whole: pa.Table) -> Callable[[str, str], dict[str, Any]]:
    """The document of the loaded Arrow table, made once for each set of options."""
    kept: dict[tuple[str, str], dict[str, Any]] = {}

    def made(options: str, effort: str) -> dict[str, Any]:
        if (options, effort) not in kept:
            kept[options, effort] = document(whole, effort=effort, **OPTIONS[options])
        return kept[options, effort]

    return made


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_document(name, whole, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source, options = SOURCES[name](whole, tmp_path / "files")
    found = document(source, effort="quick", **OPTIONS["plain"], **options)
    assert differences(expected("plain", "quick"), found) == []


EFFORT = {"plain": "normal", "weighted": "quick", "count": "quick", "clusters": "quick", "time": "quick"}


# In parts with every option; from sources that give columns of other types, with those options that read such columns.
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("parquet in parts", options) for options in EFFORT),
        *(("five csv files", options) for options in ("count", "time")),
        *(("duckdb in parts", options) for options in ("weighted", "time")),
    ],
)
def test_every_option_gives_the_same_document(name, options, whole, expected, tmp_path):
    effort = EFFORT[options]
    source, more = SOURCES[name](whole, tmp_path / "files")
    found = document(source, effort=effort, **OPTIONS[options], **more)
    assert differences(expected(options, effort), found) == []


@pytest.mark.slow
def test_a_deep_audit_in_parts_is_that_of_memory(tmp_path):
    fewer = table(2_500)
    source, more = SOURCES["five parquet files, pattern"](fewer, tmp_path / "files")
    options = {"effort": "deep", **OPTIONS["weighted"]}
    assert differences(document(fewer, **options), document(source, **options, **more)) == []


@pytest.mark.parametrize(("options", "threads"), [("plain", "1"), ("weighted", "3")])
def test_threads_do_not_matter(options, threads, expected, whole, tmp_path, monkeypatch):
    monkeypatch.setenv("MISCAL_THREADS", threads)
    source, more = SOURCES["parquet in parts"](whole, tmp_path / "files")
    assert differences(expected(options, "quick"), document(source, effort="quick", **OPTIONS[options], **more)) == []


def test_a_csv_column_that_is_empty_for_its_first_rows_is_numeric(tmp_path):
    rng = np.random.default_rng(0)
    rows = 70_000
    p = rng.random(rows).round(4)
    late = np.where(np.arange(rows) < 50_000, np.nan, rng.normal(size=rows).round(3))
    made = pd.DataFrame({"y": (rng.random(rows) < p).astype(int), "p": p, "late": late})
    made.to_csv(tmp_path / "t.csv", index=False)
    expected = document(made, effort="quick", **NAMES)
    assert expected["sections"]["variable"]
    for options in ({}, {"memory": "1GB"}):
        assert differences(expected, document(tmp_path / "t.csv", effort="quick", **NAMES, **options)) == []


def test_findings_name_odd_levels_and_their_rows_are_found_again(whole):
    audit = miscal.audit(whole, **OPTIONS["plain"])
    found = next(f for f in audit.findings if f.levels == ("O'Hare",))
    inside = audit.rows_of(found, whole)
    assert inside.sum() == found.rows
    assert set(whole.filter(pa.array(inside))["place"].to_pylist()) == {"O'Hare"}


@pytest.mark.parametrize("memory", [None, "1GB"])
def test_every_result_of_every_audit_can_be_drawn(memory, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    source = _files(table(2_500), tmp_path / "files", "parquet", 1)
    audit = miscal.audit(source, memory=memory, effort="deep", **OPTIONS["time"])
    assert {result.kind for result in audit.results} >= {"score", "variable", "field", "subpopulation", "period"}
    for result in audit.results:
        result.plot()
        plt.close("all")

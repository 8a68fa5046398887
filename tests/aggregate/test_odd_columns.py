"""Columns of odd values: one answer from memory, from files and beyond memory, and each place is its own."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import miscal
from miscal.cells.subpopulations import Conjunctions
from miscal.data.columns import column
from miscal.report.codec import plain
from tests.laws.test_parity import differences, document
from tests.unit.test_json_schema import SCHEMA, faults

NAMES: dict[str, Any] = {"outcome": "y", "probability": "p"}


def table(rows: int = 2_000, **columns: Any) -> pa.Table:
    """Calibrated predictions with columns beside them, made of random numbers and the number of rows."""
    rng = np.random.default_rng(3)
    p = rng.random(rows)
    return pa.table({"y": (rng.random(rows) < p).astype(int), "p": p, **{k: make(rng) for k, make in columns.items()}})


def written(made: pa.Table, path: Path, **options: Any) -> Path:
    """A file of a table, CSV or Parquet."""
    if path.suffix == ".csv":
        pa.csv.write_csv(made, path)
    else:
        pq.write_table(made, path, **options)
    return path


def test_a_decimal_is_the_number_that_its_text_is():
    texts = [f"{number / 100:.2f}" for number in range(-5_000, 5_000, 7)]
    made = column("x", pa.array(map(Decimal, texts), pa.decimal128(10, 2)))
    assert made.values.tolist() == [float(text) for text in texts]


def test_decimals_are_the_same_in_parquet_and_csv(tmp_path):
    made = table(x=lambda rng: pa.array([Decimal(n).scaleb(-2) for n in rng.integers(-9999, 9999, 2_000).tolist()]))
    one, two = (document(written(made, tmp_path / name), effort="quick", **NAMES) for name in ("t.parquet", "t.csv"))
    assert differences(one, two) == []


@pytest.mark.parametrize("beside", ["01:30:00", "x"])
def test_whole_numbers_of_nineteen_digits_do_not_become_text_for_what_stands_beside_them(beside, tmp_path):
    wide = lambda rng: np.where(rng.random(2_000) < 0.01, 2**60 + 1, rng.integers(0, 30, 2_000))
    made = table(n=wide, beside=lambda _: [beside] * 2_000)
    known = column("n", made["n"]).levels
    found = miscal.read(written(made, tmp_path / "t.csv"), **NAMES).columns["n"]
    assert found.levels == known
    assert known[-1] == 2**60 + 1


@pytest.mark.parametrize("effort", ["quick", "normal"])
def test_beyond_memory_few_numbers_above_2_53_make_levels_of_all(effort, tmp_path, monkeypatch):
    def few(rng: np.random.Generator) -> np.ndarray:
        values = rng.integers(0, 30, 20_000)
        values[[7, 11_111]] = 2**60 + 1, 2**60 + 3
        return values

    made = table(20_000, n=few, g=lambda rng: rng.choice(["a", "b"], 20_000))
    path = written(made, tmp_path / "t.parquet", row_group_size=2_500)
    monkeypatch.setattr("miscal.auditing.audit.rows_that_fit", lambda *_: 3_000)
    found = miscal.audit(path, effort=effort, **NAMES)
    assert found.document["settings"]["sample"]["of"] == 20_000
    result = next(one for one in found.results if one.settings.get("column") == "n")
    whole = miscal.by_field(miscal.read(path, **NAMES), "n")
    for name in ("label", "rows", "predicted", "observed"):
        assert np.array_equal(result.table[name], whole.table[name]), name


def _called_missing() -> pa.Table:
    def field(rng: np.random.Generator) -> pa.Array:
        words = rng.choice(["(missing)", '"(missing)"', "a", "b"], 4_000).tolist()
        return pa.array([None if gone else word for gone, word in zip(rng.random(4_000) < 0.2, words, strict=True)])

    made = table(4_000, f=field)
    gone = np.array(made["f"].is_null())
    return made.set_column(0, "y", pa.array(np.where(gone, 1, made["y"])))


def test_a_level_called_missing_is_not_what_is_missing():
    made = _called_missing()
    audit = miscal.audit(made, effort="quick", **NAMES)
    labels = audit.carriers["field:f"].label
    assert len(set(labels)) == len(labels) == 5
    compared = audit.compare(audit)
    assert compared.better == compared.worse == []
    assert len(set(compared.table["where"])) == compared.table.rows
    head = next(one for one in audit.findings if one.columns == ("f",))
    assert (head.rows, audit.rows_of(head, made).sum()) == (made["f"].null_count, made["f"].null_count)
    page = audit._repr_html_()
    assert "this segment" in page  # the row of the missing ones, among their neighbours


def test_small_levels_called_missing_are_hidden_beside_what_is_missing():
    made = _called_missing()
    rare = [word if word != "(missing)" or row < 40 else "a" for row, word in enumerate(made["f"].to_pylist())]
    made = made.set_column(made.schema.get_field_index("f"), "f", pa.array(rare))
    small = rare.count("(missing)")
    shown = miscal.audit(made, effort="quick", suppress_below=small + 5, **NAMES).document
    cells = shown["sections"]["field"][0]["table"]
    hidden = [label for label, rows in zip(cells["label"], cells["rows"], strict=True) if rows is None]
    assert '"(missing)"' in hidden
    assert "(missing)" not in hidden
    assert "f missing" in [one["where"] for one in shown["findings"]]


def test_subpopulations_have_names_of_their_own():
    plt = pytest.importorskip("matplotlib.pyplot")
    near = table(x=lambda rng: 1 + 1e-6 * rng.integers(0, 3, 2_000))
    read = miscal.read(near, **NAMES)
    result = miscal.by_subpopulation(read, subpopulations=Conjunctions(1, 4), simulations=19)
    labels = result.table["label"].tolist()
    assert len(set(labels)) == len(labels) == 4
    assert [curve["label"] for curve in result.extra["cumulative"]][1:] == [one for one in labels if "x" in one][:3]
    _, ax = plt.subplots()
    result.plot(ax=ax)
    drawn = {line.get_label() for line in ax.lines if not line.get_label().startswith("_")}
    plt.close("all")
    assert drawn == set(labels)


@pytest.mark.parametrize("text", ["{}%", "{},5", "{:02d}.03.2020"])
def test_rows_of_text_that_stands_for_numbers_are_found(text):
    days = np.random.default_rng(4).integers(1, 29, 4_000)
    made = table(4_000, x=lambda _: [text.format(day) for day in days])
    made = made.set_column(0, "y", pa.array(np.where(days > 20, 1, made["y"])))
    audit = miscal.audit(made, effort="quick", **NAMES)
    head = next(one for one in audit.findings if one.columns == ("x",))
    assert audit.rows_of(head, made).sum() == head.rows < made.num_rows


def test_amounts_below_nothing_have_no_ratio_and_fit_the_schema():
    rng = np.random.default_rng(5)
    made = pa.table({"y": rng.normal(size=500), "p": rng.normal(size=500)})
    found = plain(miscal.audit(made, effort="quick", response="real", **NAMES).document)
    assert found["score"]["ratio"] is None
    assert faults(found, SCHEMA) == []


@pytest.mark.parametrize("values", [[[1, 2]] * 2_000, [{"a": 1}] * 2_000])
def test_columns_of_no_plain_values_are_set_aside_in_memory_as_in_files(values, tmp_path):
    made = table(odd=lambda _: values, g=lambda rng: rng.choice(["a", "b"], 2_000))
    expected = document(written(made, tmp_path / "t.parquet"), effort="quick", **NAMES)
    assert ("odd", "it holds no plain values") in [(one["where"], one["reason"]) for one in expected["too_small"]]
    for source in (made, made.to_pandas(), duckdb.from_arrow(made)):
        assert differences(expected, document(source, effort="quick", **NAMES)) == []
    with pytest.raises(miscal.MiscalError, match="one plain value a row"):
        miscal.audit(made, by=["odd"], **NAMES)


def test_spans_of_the_calendar_are_set_aside():
    made = duckdb.from_arrow(table()).project("*, INTERVAL 3 DAY AS span")
    for memory in (None, "1GB"):
        found = miscal.audit(made, effort="quick", memory=memory, **NAMES)
        assert [(one["where"], one["reason"]) for one in found.too_small] == [("span", "it holds no plain values")]


def test_a_batch_of_trials_without_any_weight_adds_nothing(tmp_path, monkeypatch):
    rng = np.random.default_rng(6)
    p, trials = rng.random(4_000), rng.integers(1, 4, 4_000)
    weight = np.where(np.arange(4_000) < 1_000, 0.0, rng.integers(1, 3, 4_000))
    made = pa.table({"y": rng.binomial(trials, p), "p": p, "k": trials, "w": weight, "x": rng.normal(size=4_000)})
    path = written(made, tmp_path / "t.parquet", row_group_size=500)
    monkeypatch.setattr("miscal.auditing.audit.rows_that_fit", lambda *_: 1_000)
    found = miscal.audit(path, count="k", weight="w", effort="quick", **NAMES)
    assert found.document["data"]["rows"] == trials[1_000:].sum()


def test_rows_without_weight_do_not_change_the_units_of_amounts(tmp_path):
    rng = np.random.default_rng(7)
    p = rng.random(2_000)
    y, weight = rng.poisson(p).astype(float), np.ones(2_000)
    y[0], weight[0] = 1e6, 0.0
    made = pa.table({"y": y, "p": p, "w": weight, "x": rng.normal(size=2_000)})
    path = written(made, tmp_path / "t.parquet", row_group_size=300)
    named = {"outcome": "y", "prediction": "p", "response": "real", "weight": "w", "effort": "quick"}
    assert differences(document(made, **named), document(path, memory="1GB", **named)) == []
    assert miscal.read(made, outcome="y", prediction="p", response="real", weight="w").units.scale < 1e6


def test_bars_of_the_score_are_the_same_in_any_order_of_weighted_rows(tmp_path, monkeypatch):
    rng = np.random.default_rng(8)
    p = rng.integers(0, 41, 4_000) / 40.0  # many lie on the edges of bars
    made = pa.table({"y": (rng.random(4_000) < p).astype(int), "p": p, "w": rng.lognormal(size=4_000)})
    monkeypatch.setattr("miscal.auditing.audit.rows_that_fit", lambda *_: 2_000)
    found = []
    for order in (np.arange(4_000), rng.permutation(4_000)):
        path = written(made.take(order), tmp_path / f"{len(found)}.parquet", row_group_size=700)
        bars = miscal.audit(path, weight="w", effort="quick", **NAMES).results[0].extra["histogram"]["rows"]
        found.append(np.array(bars) / sum(bars))
    assert found[0] == pytest.approx(found[1], abs=1e-12)


def test_two_groups_stand_in_one_order_whatever_that_of_the_weighted_rows():
    told = set()
    for seed in range(6):
        rng = np.random.default_rng(seed)
        p, group, weight = rng.random(1_000), rng.choice(["a", "b"], 1_000), rng.lognormal(size=1_000)
        made = pa.table({"y": (rng.random(1_000) < p).astype(int), "p": p, "g": group, "w": weight})
        for _ in range(6):
            found = miscal.audit(made.take(rng.permutation(1_000)), weight="w", effort="quick", **NAMES)
            (field,) = found.document["sections"]["field"]
            told.add((seed, *field["extra"]["differences"]["level"]))
    assert len(told) == 6

"""A new type of column is one class in `data/column_types.py`: reading, cutting, words and SQL follow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import miscal
from miscal.cells.condition import Condition
from miscal.codes.data import ColumnKind
from miscal.data.column_types import COLUMN_TYPES, ColumnType, Numeric, column_type, joined_kind, kind_of
from miscal.data.columns import column
from miscal.export.predicate import where_clause
from miscal.metrics.neighbourhood_errors import feature_matrix


class Money(ColumnType):
    """Amounts of decimal type, in thousands: an imagined type of column."""

    kind = column_kind = "money"  # type: ignore[assignment]

    def stores(self, arrow_type: pa.DataType) -> bool:
        return pa.types.is_decimal(arrow_type)

    def edge_text(self, value: float) -> str:
        return super().edge_text(value) + "k"

    def shown_bins(self, values: np.ndarray, n_ranges: int) -> np.ndarray:
        return np.array([0.0, 1.0, 1000.0])


def test_each_kind_has_a_type_and_each_arrow_type_a_kind() -> None:
    assert set(COLUMN_TYPES) == set(ColumnKind)
    expected = {
        pa.int64(): "integer", pa.float32(): "numeric", pa.decimal128(9, 2): "numeric", pa.time32("s"): "numeric",
        pa.duration("s"): "numeric", pa.date32(): "date", pa.timestamp("ns", "UTC"): "date", pa.bool_(): "boolean",
        pa.string(): "category", pa.binary(): "category", pa.dictionary(pa.int8(), pa.int64()): "category",
        pa.list_(pa.int8()): "", pa.month_day_nano_interval(): "", pa.null(): "numeric",
    }  # fmt: skip
    assert {arrow: kind_of(arrow) for arrow in expected} == expected


def test_kinds_of_several_files() -> None:
    assert joined_kind(["integer", "numeric", "integer"]) == "numeric"
    assert joined_kind(["date"]) == "date"
    assert joined_kind(["date", "numeric"]) is None
    assert joined_kind(["", "category"]) is None


def test_dates_are_cut_by_the_calendar_and_numbers_by_rank() -> None:
    days = np.append(np.arange(400.0), np.nan)
    date, number = column_type("date"), column_type("numeric")
    assert number.search_bins(days, 30) == 30
    assert np.ceil(date.search_bins(days, 30)[:3]).tolist() == [-3.0, 4.0, 11.0]  # Mondays
    assert np.ceil(date.shown_bins(days, 30)[:3]).tolist() == [0.0, 31.0, 59.0]  # months
    assert date.shown_bins(days[:20], 30) == 30
    assert date.shown_bins(np.array([np.nan]), 30) == date.search_bins(np.array([np.nan]), 30) == 30


def test_the_words_and_the_sql_of_an_edge_follow_its_type() -> None:
    dated, number = Condition("d", ColumnKind.DATE, high=31.0), Condition("d", high=31.0)
    assert (dated.words(), number.words()) == ("d <= 1970-02-01", "d <= 31")
    assert "\"d\" <= TIMESTAMP '1970-02-01'" in where_clause(dated)
    assert '"d" <= 31e0' in where_clause(number)
    assert where_clause(Condition("b", ColumnKind.BOOLEAN, levels=("True",))).endswith('"b" IN (TRUE))')


def test_a_new_type_needs_no_other_module(monkeypatch: pytest.MonkeyPatch) -> None:
    types = {"money": Money(), **COLUMN_TYPES}
    monkeypatch.setattr("miscal.data.column_types.COLUMN_TYPES", types)
    amounts = pa.array([1, 2, None], pa.int64()).cast(pa.decimal128(20, 0))
    assert kind_of(amounts.type) == "money"
    assert Condition("price", "money", high=3.0).words() == "price <= 3k"  # type: ignore[arg-type]
    assert '"price" <= 3ke0' in where_clause(Condition("price", "money", high=3.0))  # type: ignore[arg-type]


def test_a_kind_of_another_version_is_read_as_numbers() -> None:
    assert isinstance(column_type("colour"), Numeric)
    assert Condition.from_dict({"column": "a", "kind": "colour", "high": 1.0}) == Condition("a", high=1.0)


def test_a_column_knows_its_type() -> None:
    assert column("when", np.array(["2024-01-01"], "M8[D]")).type.calendar
    assert column("flag", [True, False]).type.levels == (False, True)
    with pytest.raises(miscal.MiscalError, match="one-hot encode it"):
        feature_matrix(pa.table({"a": ["x", "y"]}))

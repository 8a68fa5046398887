"""A new dialect is one class in `export/dialects.py`: findings, recalibrators and messages follow."""

from __future__ import annotations

import pytest

import miscal
from miscal.export.dialects import DIALECTS, Dialect, DuckDB, Feature, dialect_named
from miscal.export.predicate import titles_by_key
from miscal.recalibrate import HistogramBinning
from miscal.report.findings import Finding

CONDITION = [{"column": "age", "low": 18.0, "high": 31.0}, {"column": "when", "kind": "date", "low": 1.0}]


class Brackets(DuckDB):
    """A dialect unlike all others: brackets around names, days as numbers, no named values."""

    name, title, json_key = "brackets", "Brackets", "sql_brackets"
    unsupported = frozenset({Feature.NETWORKS, Feature.NAMED_VALUES})
    double_type = "FLOAT"

    def quote_name(self, name: str) -> str:
        return f"[{name}]"

    def moment(self, days: float) -> str:
        return f"DAYS({self.number(days)})"


@pytest.fixture
def brackets(monkeypatch: pytest.MonkeyPatch) -> Dialect:
    monkeypatch.setitem(DIALECTS, "brackets", Brackets())
    return DIALECTS["brackets"]


def test_findings_are_written_in_a_new_dialect(brackets: Dialect) -> None:
    finding = Finding.from_dict({"condition": CONDITION, "columns": ["age", "when"]})
    clause = finding.to_sql("brackets")
    assert "[age] > 18e0" in clause
    assert "[when] > DAYS(1.0e0)" in clause
    assert finding.to_dict()["sql_brackets"] == clause
    assert titles_by_key()["sql_brackets"] == ["Brackets"]


def test_recalibrators_are_written_in_a_new_dialect(brackets: Dialect) -> None:
    model = HistogramBinning(bins=2).fit([0.1, 0.3, 0.8], [0, 1, 1])
    assert "CAST([p] AS FLOAT)" in str(model.to_sql("p", dialect="brackets"))


def test_what_a_dialect_does_not_support_is_an_error_that_names_those_that_do() -> None:
    lacking = [name for name, dialect in DIALECTS.items() if not dialect.supports(Feature.PREDICATES)]
    assert lacking == ["spark", "bigquery", "snowflake"]
    for name in lacking:
        with pytest.raises(miscal.MiscalError, match="'dialect' must be one of 'duckdb', 'postgres', 'sqlite'"):
            dialect_named(name, Feature.PREDICATES)
    assert not any(dialect.supports(Feature.NETWORKS) for dialect in DIALECTS.values())

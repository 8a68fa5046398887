"""The examples of ARCHITECTURE.md are what a newcomer would write: each is run and does what the page says."""

from __future__ import annotations

import re
import sqlite3
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import miscal
from miscal import metrics
from miscal.cells.condition import Condition
from miscal.data import column_types
from miscal.export import dialects
from miscal.export import formula as nodes
from miscal.export.predicate import where_clause
from miscal.metrics import score_errors
from miscal.metrics.inputs import MetricInput
from miscal.recalibrate import Recalibrator
from miscal.recalibrate.parameters import state
from miscal.report.html import page
from miscal.report.html.markup import tag
from miscal.report.html.sections import closing
from miscal.report.html.sections.blocks import section
from tests.laws import test_metric_laws as laws

TEXT = (Path(__file__).resolve().parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8")


def run(heading: str, **names: Any) -> dict[str, Any]:
    """Run the example under a heading, with the names that the files it belongs to have."""
    example = re.search(rf"^### {heading}$.*?^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    assert example is not None, heading
    exec(example.group(1), names)
    return names


def test_a_metric_keeps_the_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "METRICS", dict(metrics.METRICS))
    names = run("A metric", np=np, MetricInput=MetricInput, METRICS=metrics.METRICS, Metric=metrics.Metric)
    monkeypatch.setattr(score_errors, "squared_total_gap", names["squared_total_gap"], raising=False)
    monkeypatch.setattr(laws, "METRICS", metrics.METRICS)
    for kind, seed in laws.CASES[:2]:
        for law in (
            laws.test_row_order_does_not_matter,
            laws.test_whole_weights_are_repetition,
            laws.test_the_scale_of_weights_does_not_matter,
            laws.test_rows_of_weight_zero_are_ignored,
            laws.test_perfect_predictions_give_what_the_line_says,
        ):
            law("squared_total_gap", kind, seed)


def test_a_recalibrator_has_json_and_sql() -> None:
    module = ModuleType("worked_example")
    sys.modules["worked_example"] = module
    names = run("A recalibrator", np=np, nodes=nodes, Recalibrator=Recalibrator, state=state, __name__="worked_example")
    module.Shrinkage = names["Shrinkage"]  # type: ignore[attr-defined]
    p, y = np.array([0.2, 0.4, 0.9, 0.7]), np.array([0, 1, 1, 0])
    fitted = names["Shrinkage"]().fit(p, y)
    assert fitted.predict_proba(p)[:, 1] == pytest.approx(0.5 * p + 0.25)
    again = names["Shrinkage"].from_json(fitted.to_json())
    assert np.array_equal(again.predict_proba(p), fitted.predict_proba(p))
    sql = fitted.to_sql("p", dialect="sqlite")
    with sqlite3.connect(":memory:") as database:
        assert database.execute(f"SELECT {sql} FROM (SELECT 0.2e0 AS p)").fetchone()[0] == pytest.approx(0.35)


def test_a_type_of_column_is_cut_and_worded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_types, "COLUMN_TYPES", dict(column_types.COLUMN_TYPES))
    run("A type of column", np=np, ColumnType=column_types.ColumnType, COLUMN_TYPES=column_types.COLUMN_TYPES)
    assert column_types.column_type("percentage").shown_bins(np.arange(5.0), 10).size == 11
    assert Condition("discount", "percentage", high=30.0).words() == "discount <= 30%"  # type: ignore[arg-type]


def test_a_dialect_writes_filters_and_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "DIALECTS", dict(dialects.DIALECTS))
    run("A dialect", Dialect=dialects.Dialect, DIALECTS=dialects.DIALECTS)
    assert "`it``s` <= 31e0" in where_clause(Condition("it`s", high=31.0), "mysql")
    fitted = miscal.recalibrate.PlattScaling().fit([0.2, 0.4, 0.9, 0.7], [0, 1, 1, 0])
    assert "`p`" in fitted.to_sql("p", dialect="mysql")


def test_a_section_stands_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "SECTIONS", dict(page.SECTIONS))
    prose = page.prose
    monkeypatch.setattr(page, "prose", lambda name: {**prose(name), "versions": "Versions"})
    monkeypatch.setattr(closing, "versions", None, raising=False)
    names = run("A section of the report", tag=tag, section=section, SECTIONS=page.SECTIONS, closing=closing)
    page.SECTIONS["versions"] = names["versions"]
    table = {"y": [0, 1] * 100, "p": [0.4, 0.6] * 100, "g": ["a", "b"] * 100}
    audit = miscal.audit(table, outcome="y", probability="p", effort="quick")
    assert "<h2" in page.to_html(audit.document)
    assert f"numpy {np.__version__}" in page.to_html(audit.document)

"""Groups, worst by their bound first; comparisons, all rows first and numeric columns among them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from miscal.auditing.audit import Audit, audit
from miscal.report.html.page import to_html


def audited(n: int = 9_000, seed: int = 0, shift: float = 0.0, cheap: float = 0.0) -> Audit:
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 2, n)
    age, region = (
        rng.integers(18, 30, n),
        rng.choice(["north", "south", "east", "tiny"], n, p=[0.4, 0.35, 0.249, 0.001]),
    )
    logit = np.log(p / (1 - p)) + shift + cheap * (age >= 25) + 0.5 * (region == "south")
    data = {"y": (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int), "p": p, "age": age, "region": region}
    return audit(data, outcome="y", probability="p", effort="quick")


def test_the_worst_group_is_the_worst_by_its_bound_and_small_ones_are_marked() -> None:
    found = audited(cheap=0.6)
    table: Any = found.document["sections"]["field"][0]["extra"]["differences"]
    assert table["level"][0] == "south"
    notes = dict(zip(table["level"], table["note"], strict=True))
    assert notes["south"] == "beyond noise"
    assert notes["tiny"] == "too small to judge"
    least = [max(low, -high) for low, high in zip(table["low"], table["high"], strict=True)]
    assert least == sorted(least, reverse=True)
    for low, high, note in zip(table["low"], table["high"], table["note"], strict=True):
        assert (note == "beyond noise") == (low > 0 or high < 0) or note == "too small to judge"
    ranges: Any = found.document["sections"]["variable"][0]["extra"]["differences"]
    assert sum(ranges["rows"]) == 9_000
    assert "beyond noise" in ranges["note"]
    assert "too small to judge" in to_html(found.document)


def test_a_comparison_starts_with_all_rows_and_has_numeric_columns() -> None:
    before, after = audited(seed=1), audited(seed=2, shift=0.3)
    compared = before.compare(after)
    assert compared.table["where"][0] == "the whole table"
    assert compared.table["verdict"][0] == "worse"
    assert any(str(where).startswith("age ") for where in compared.table["where"])
    assert repr(compared).splitlines()[1].startswith("  overall: expected calibration error")
    for many, said in ((0, "0 segments"), (1, "1 segment"), (2, "2 segments")):
        assert f"{said} significantly better" in repr(replace(compared, better=["somewhere"] * many))
    ages = [str(where).startswith("age ") for where in compared.table["where"]]
    assert compared.table["rows"][ages].sum() == 9_000
    assert compared.table["rows_before"][ages].sum() == 9_000

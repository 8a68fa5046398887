"""Two periods of columns of numbers, cut at the quantiles of each: compared all the same, or named as left out."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from miscal.auditing.audit import Audit, audit
from miscal.auditing.compare import SUM_NAMES
from miscal.cells.ranges import shared_edges
from miscal.report.html.page import to_html

LIMIT = 4  # of 20 comparisons at 5%: more has a chance of 3 in 1,000


def period(seed: int, n: int = 6_000, worse: float = 0.0) -> dict[str, Any]:
    """Calibrated but where the income is above 3; the later period earns a little more."""
    rng = np.random.default_rng(seed)
    p, income, height = rng.beta(2, 3, n), rng.lognormal(0.5 + 0.001 * seed, 0.8, n), rng.normal(170.0, 9.0, n)
    height[rng.random(n) < 0.05] = np.nan
    logit = np.log(p / (1 - p)) + worse * (income > 3.0)
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)
    return {"y": y, "p": p, "income": income, "height": height}


def audited(data: Any, **more: Any) -> Audit:
    return audit(data, outcome="y", probability="p", effort="quick", **more)


def named(places: list[str], column: str) -> list[str]:
    return [place for place in places if place.startswith(f"{column} ")]


def found_the_change(compared: Any) -> None:
    table = compared.table
    assert named(compared.worse, "income") == ["income 3.1 to 4.4", "income above 4.4"]
    assert not named(compared.better, "income")
    for column in ("income", "height"):
        chosen = np.array([str(where).startswith(f"{column} ") for where in table["where"]])
        assert 5 <= chosen.sum() <= 12
        assert table["rows"][chosen].min() >= 30
        assert table["rows"][chosen].sum() == table["rows_before"][chosen].sum() == 6_000
    assert not compared.left_out


def test_a_change_above_a_value_is_named(tmp_path: Path) -> None:
    before, after = audited(period(1)), audited(period(2, worse=0.8))
    assert before.carriers["variable:income"].edges.tolist() != after.carriers["variable:income"].edges.tolist()
    found_the_change(before.compare(after))
    for name, each in (("before", before), ("after", after)):
        each.save(tmp_path / f"{name}.miscal")
    loaded = [Audit.load(tmp_path / f"{name}.miscal") for name in ("before", "after")]
    found_the_change(loaded[0].compare(loaded[1]))
    assert loaded[0].compare(loaded[1]).to_dict() == before.compare(after).to_dict()


def test_a_change_is_named_beyond_memory_and_across(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = audited(period(1))
    pq.write_table(pa.table(period(2, worse=0.8)), tmp_path / "t.parquet", row_group_size=1_000)
    whole = audited(tmp_path / "t.parquet")
    monkeypatch.setattr("miscal.auditing.audit.rows_that_fit", lambda *_: 2_000)
    after = audited(tmp_path / "t.parquet")
    assert after.document["settings"]["sample"]["of"] == 6_000
    found_the_change(before.compare(after))
    found_the_change(before.compare(whole))


def test_the_fine_sums_add_up_to_those_shown() -> None:
    rng = np.random.default_rng(3)
    data = {**period(1), "w": rng.integers(0, 3, 6_000).astype(float)}
    cells = audited(data, weight="w").carriers["variable:height"]
    for name in SUM_NAMES:
        assert sum(getattr(cells.fine, name)) == pytest.approx(sum(getattr(cells, name)), rel=1e-9)


@pytest.mark.usefixtures("without_smooth_noise")
def test_unchanged_periods_seldom_differ() -> None:
    compared = [one.compare(two) for one, two in pairwise(audited(period(seed, n=1_500)) for seed in range(21))]
    assert len(compared) == 20
    assert all(named(list(each.table["where"]), "income") for each in compared)
    assert sum(bool(each.better or each.worse) for each in compared) <= LIMIT


def test_a_column_that_cannot_be_compared_is_named() -> None:
    before, later = period(1, n=900), period(2, n=900)
    later["income"] = later["income"] + 1e6
    compared = audited(before).compare(audited(later))
    assert "income" in compared.left_out
    assert "height" not in compared.left_out
    assert "Not compared" in repr(compared)
    assert "income" in repr(compared).splitlines()[-1]
    assert compared.to_dict()["left_out"] == compared.left_out
    assert "Not compared" in to_html(audited(later).with_comparison(audited(before)).document)


def test_edges_nest_whatever_the_table() -> None:
    rng = np.random.default_rng(0)
    for size in (1e-9, 0.37, 1.0, 42.0, 1e6, 3e15):
        for factor in (1.0, 1.7, 4.0):
            one = shared_edges(np.quantile(size * rng.normal(1, 1, 500), np.linspace(0, 1, 11)))
            two = shared_edges(np.quantile(size * factor * rng.normal(1, 1, 500), np.linspace(0, 1, 11)))
            assert len(one) <= 80
            assert np.intersect1d(one, two).size >= 4, (size, factor)
    assert shared_edges(np.array([0.0, 1.0, 2.0, 3.0])).tolist() == [1.0, 2.0]
    assert shared_edges(np.array([4.0, np.nextafter(4.0, 5.0)])).size == 0

"""Pairs of columns and subpopulations of a streamed audit: tallies of all rows, the findings of memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import miscal
from miscal.engines.batches import batches_of
from miscal.engines.crossing import Crossed, Crossings
from miscal.engines.memory import tally
from miscal.engines.scan import scan
from miscal.engines.stream import Stream
from miscal.pairs import pair
from miscal.pooling.cells import Levels
from miscal.pooling.poolings import LevelPooling
from tests.engines import tables

ROWS = 202_000  # just above what is simulated row by row


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    """An error where two columns meet, in a level of one and a range of the other, and none along either alone."""
    rng = np.random.default_rng(3)
    p = rng.beta(1, 6, ROWS)
    age, x = rng.integers(20, 80, ROWS), rng.normal(size=ROWS)
    level = np.array([f"s{i}" for i in range(8)], object)[rng.integers(0, 8, ROWS)]
    truth = np.clip(p * np.where((age >= 65) & (level == "s5"), 2.5, 1.0), 0, 1)
    y = (rng.random(ROWS) < truth).astype(np.int8)
    made = pa.table({"y": y, "p": p, "age": age, "x": x, "f": pa.array(level)})
    path = tmp_path_factory.mktemp("crossed") / "t.parquet"
    pq.write_table(made, path, row_group_size=30_000)
    return path


@pytest.fixture(scope="module")
def found(planted):
    return miscal.audit(planted, outcome="y", probability="p", memory="500MB")


def test_the_pair_that_errs_is_found_in_at_most_three_passes(found):
    first = next(f for f in found.findings if f.specific and f.parent is None)
    assert first.kind == "subpopulation"
    assert set(first.columns) == {"age", "f"}
    assert "s5" in first.levels
    stream = found.document["settings"]["stream"]
    assert stream["passes"] <= 3
    assert stream["pairs_crossed"] >= 1
    assert stream["subpopulations"] > 20
    assert stream["chosen_on_rows"] > 10_000


def test_the_page_has_the_section_and_says_how_it_was_made(found, tmp_path):
    found.to_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert 'id="subpopulations"' in text
    assert "generated from a sample of" in text
    result = next(result for result in found.results if result.kind == "subpopulation")
    assert result.settings["exact"]
    assert found.document["sections"]["subpopulation"]


def test_conjunctions_have_the_numbers_of_memory(found, planted):
    made = pq.read_table(planted)
    stream = next(result for result in found.results if result.kind == "subpopulation")
    p = miscal.Predictions(made["y"], made["p"], columns=made.select(["age", "x", "f"]))
    named = dict(zip(stream.extra["names"], stream.extra["expressions"], strict=True))
    memory = miscal.by_subpopulation(p, subpopulations=named, simulations=999)
    assert stream.value == pytest.approx(memory.value, rel=1e-12)
    assert stream.p_value == pytest.approx(memory.p_value, rel=1e-9)
    one, two = (dict(zip(r.table["label"], r.table["rows"], strict=True)) for r in (stream, memory))
    assert one == two


@pytest.mark.parametrize("weight", [None, "whole_weight", "real_weight"])
def test_crossed_cells_are_those_of_memory(tmp_path, weight):
    made = tables.table(12_000)
    path = tables.write(made, tmp_path / "t.parquet", 2500)
    edges = np.array([-np.inf, 10.0, 30.0, np.inf])
    names = ("s0", "s1", "s2", "s5")
    parts = (Crossed("whole", edges), Crossed("state", None, names), Crossed("skewed", np.array([-9.0, 0.0, 9.0])))
    crossings = Crossings(parts, ((0, 1), (2, 0)))
    found = scan(
        Stream(batches_of(path), 2), tables.door(weight), variables=["whole"], fields=[], requests=tables.requests,
        extra=crossings,
    )  # fmt: skip
    p = miscal.Predictions(made["y"], made["p"], weight=None if weight is None else made[weight], columns=made)
    compared = pair(p, "auto")
    whole = np.digitize(p.columns["whole"].values, edges[1:-1], right=True)
    state_codes = np.array([{n: i for i, n in enumerate(names)}.get(level, 5) for level in p.columns["state"].levels])
    codes = np.append(state_codes, 4)[p.columns["state"].values]
    inside = np.flatnonzero(codes < 5)
    pooling = LevelPooling((whole * 5 + codes)[inside].astype(np.int32), Levels(("",) * 20))
    memory = tally(compared.take(inside), pooling)
    stream = found.extra[0][0].tally(Levels(("",) * 20), weighted=weight is not None)
    assert np.array_equal(stream.counts, memory.counts)
    for name in ("weight", "predicted", "observed", "variance", "residual2"):
        one, two = getattr(stream, name), getattr(memory, name)
        if weight == "real_weight":
            assert np.max(np.abs(one - two) / np.maximum(1.0, np.abs(two))) < 1e-12
        else:
            assert np.array_equal(one, two), name
    skewed = p.columns["skewed"].values
    missing = found.extra[1][0].tally(Levels(("",) * 12), weighted=weight is not None).counts.reshape(3, 4)[2]
    assert missing.sum() == np.isnan(skewed).sum()


def test_a_quick_audit_crosses_nothing(planted):
    quick = miscal.audit(planted, outcome="y", probability="p", memory="500MB", effort="quick")
    assert quick.document["settings"]["stream"]["passes"] == 2
    assert "subpopulations" in quick.document["settings"]["stream"]["left_out"]
    assert not quick.document["sections"].get("subpopulation")


def test_a_deep_audit_searches_the_neighbourhoods_of_a_stated_sample(tmp_path):
    rng = np.random.default_rng(5)
    rows = 40_000
    x, z = rng.normal(size=rows), rng.normal(size=rows)
    p = rng.beta(2, 6, rows)
    truth = np.clip(p + 0.35 * ((np.abs(x - 0.8) < 0.4) & (np.abs(z + 0.5) < 0.4)), 0, 1)
    made = pa.table({"y": (rng.random(rows) < truth).astype(np.int8), "p": p, "x": x, "z": z})
    path = tables.write(made, tmp_path / "t.parquet", 5000)
    found = miscal.audit(path, outcome="y", probability="p", memory="500MB", effort="deep")
    assert found.document["settings"]["effort"] == "deep"
    assert found.document["settings"]["stream"]["neighbourhoods_of_rows"] == 20_000
    result = next(result for result in found.results if result.kind == "neighbourhood")
    assert "Neighbourhoods of a sample of 20,000 of 40,000 rows" in result.method
    assert any(f.kind == "neighbourhood" and "in a sample of 20,000 rows" in f.where for f in found.findings)

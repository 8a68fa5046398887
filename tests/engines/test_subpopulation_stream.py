"""Multi-calibration of a stream is that of memory, exact where the budget allows and within its bounds where not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from miscal.engines.batches import CsvBatches, batches_of
from miscal.engines.buckets import KeyMap
from miscal.engines.crowd import CrowdPass
from miscal.engines.stream import Stream
from miscal.pooling.slots import compiled

import miscal
from miscal.data.errors import MiscalError
from miscal.engines import members
from miscal.metrics import multicalibration_error
from miscal.metrics.subpopulation import streamed
from miscal.pooling.expressions import rows_where
from miscal.pooling.subpopulations import Conjunctions
from miscal.recalibrate import GroupWise, IsotonicCalibration
from miscal.recalibrate.in_parts.fit import fit_to
from tests.engines import tables

NAMES = ["skewed", "whole", "tied", "state", "flag"]
GIVEN = [
    "whole < 30",
    "state in {s0, s3} and tied >= 0.2",
    "flag = True and (skewed < 1.5 or missing)",
    "10 <= whole < 20 and state != s1",
    "skewed is missing",
    "whole < 100",  # everyone
    "whole <= 29",  # the first once more
]
NUMBERS = ("kuiper", "deviation", "scaled", "predicted", "observed", "events_off", "interval_off", "information")


@pytest.fixture(scope="module")
def made() -> pa.Table:
    return tables.table(20_000)


@pytest.fixture(scope="module")
def path(made, tmp_path_factory):
    return tables.write(made, tmp_path_factory.mktemp("crowd") / "t.parquet", 3000)


@pytest.fixture
def carriers_only(monkeypatch):
    """Small tables are loaded and simulated; here they are not."""
    monkeypatch.setattr(streamed, "LIMIT", 0)


def in_parts(source, *, weight=None, subpopulations=GIVEN, **options):
    common = {"outcome": "y", "probability": "p", "weight": weight, "memory": "500MB"}
    return streamed.subpopulations_in_parts(source, NAMES, subpopulations=subpopulations, **common, **options)


def in_memory(made, expressions, weight=None, **options):
    weights = None if weight is None else made[weight]
    p = miscal.Predictions(made["y"], made["p"], weight=weights, columns=made.select(NAMES))
    return miscal.by_subpopulation(p, NAMES, subpopulations=expressions, simulations=0, **options)


def by_label(result):
    order = np.argsort([str(label) for label in result.table["label"]], kind="stable")
    return {name: np.asarray(column)[order] for name, column in result.table.items()}


def assert_equal(stream, memory, *, whole):
    one, two = by_label(stream), by_label(memory)
    assert stream.settings["exact"]
    assert not stream.table["short_by"].any()
    for name in ("rows", "score_low", "score_high", *(("weight",) if whole else ())):
        assert np.array_equal(one[name], two[name]), name
    for name in ("weight", *NUMBERS):
        assert np.max(np.abs(one[name] - two[name]) / np.maximum(1.0, np.abs(two[name]))) < 1e-12, name
    assert stream.value == pytest.approx(memory.value, rel=1e-12)
    assert len(stream.extra["too_small"]["label"]) == len(memory.extra["too_small"]["label"])


@pytest.mark.usefixtures("carriers_only")
@pytest.mark.parametrize("weight", [None, "whole_weight", "real_weight"])
@pytest.mark.parametrize("asked", [GIVEN, 60, Conjunctions(2, 3)], ids=["given", "paths", "conjunctions"])
def test_subpopulations_of_a_stream_are_those_of_memory(made, path, weight, asked):
    found = in_parts(path, weight=weight, subpopulations=asked)
    memory = in_memory(made, dict(zip(_names(found), found.extra["expressions"], strict=True)), weight)
    assert_equal(found, memory, whole=weight != "real_weight")
    assert found.settings["passes"] == 2
    if asked is GIVEN:
        assert found.table.rows + found.settings["too_small"] == 6  # two equal others and are merged


def _names(found):
    return [str(name) for name in found.extra["names"]]


@pytest.mark.usefixtures("carriers_only")
def test_the_value_is_the_metric(made, path):
    found = in_parts(path, min_information=0.0, simulations=0)
    exact = multicalibration_error(made["y"], made["p"], made.select(NAMES), subpopulations=GIVEN)
    assert found.value == pytest.approx(exact, rel=1e-12)


@pytest.mark.usefixtures("carriers_only")
def test_threads_groups_and_folders_change_no_bit(made, path, tmp_path, monkeypatch):
    first = in_parts(path, subpopulations=40)
    for place in range(3):
        tables.write(made.slice(place * 7000, 7000), tmp_path / f"part-{place}.parquet", 1000)
    monkeypatch.setattr("miscal.engines.runners.thread_count", lambda: 3)
    for source in (tmp_path, str(tmp_path / "part-*.parquet")):
        other = in_parts(source, subpopulations=dict(zip(_names(first), first.extra["expressions"], strict=True)))
        one, two = by_label(first), by_label(other)
        assert all(np.array_equal(one[name], two[name]) for name in (*NUMBERS, "score_low", "score_high"))


@pytest.mark.usefixtures("carriers_only")
def test_lists_and_atoms_are_two_ways_to_the_same_sums(path, monkeypatch):
    atoms = in_parts(path)
    monkeypatch.setattr(members.Members, "by_atoms", False)
    lists = in_parts(path)
    one, two = by_label(atoms), by_label(lists)
    assert all(np.array_equal(one[name], two[name]) for name in (*NUMBERS, "rows", "score_low", "score_high"))


@pytest.mark.usefixtures("carriers_only")
def test_where_the_budget_is_exceeded_the_bounds_hold(made, path, monkeypatch):
    monkeypatch.setattr("miscal.engines.crowd_search.LEAST_BUCKETS", 64)
    monkeypatch.setattr(streamed, "sums_bytes", lambda runner, memory: 0)
    memory = in_memory(made, GIVEN)
    bounded = in_parts(path, row_budget=0)
    assert not bounded.settings["exact"]
    assert "bounds from below" in bounded.method
    one, two = by_label(bounded), by_label(memory)
    assert np.all(one["scaled"] <= two["scaled"] * (1 + 1e-12))
    assert np.all(two["scaled"] <= (one["scaled"] + one["short_by"]) * (1 + 1e-12))
    assert bounded.value <= memory.value <= bounded.extra["at_most"]
    assert bounded.p_value >= in_parts(path).p_value


@pytest.mark.usefixtures("carriers_only")
def test_contenders_get_finer_buckets_in_a_further_pass(made, tmp_path, monkeypatch):
    """An error in one subpopulation leaves few that can be the worst, and these are looked at more closely."""
    monkeypatch.setattr("miscal.engines.crowd_search.LEAST_BUCKETS", 16)
    monkeypatch.setattr(streamed, "sums_bytes", lambda runner, memory: 32 * 16 * 60)
    worse = np.where(made["flag"].to_numpy(zero_copy_only=False), np.minimum(made["p"].to_numpy() * 1.6, 1), made["p"])
    planted = made.set_column(1, "p", pa.array(worse))
    found = in_parts(tables.write(planted, tmp_path / "t.parquet", 3000), row_budget=300)
    assert found.settings["passes"] > 2
    assert found.settings["exact"]
    assert found.table["label"][0] == GIVEN[2]
    assert found.value == pytest.approx(in_memory(planted, GIVEN).value, rel=1e-12)


def test_a_small_table_is_loaded_and_simulated(made, path):
    found = in_parts(path, subpopulations=50, simulations=99)
    p = miscal.Predictions(made["y"], made["p"], columns=made.select(NAMES))
    memory = miscal.by_subpopulation(p, NAMES, subpopulations=50, simulations=99)
    assert (found.value, found.p_value, found.interval) == (memory.value, memory.p_value, memory.interval)
    assert found.table["label"].tolist() == memory.table["label"].tolist()


def test_measure_takes_a_path_and_a_ceiling(made, path):
    spec = miscal.Subpopulation(NAMES, subpopulations=GIVEN, simulations=0)
    options = {"outcome": "y", "probability": "p", "memory": "500MB"}
    assert miscal.measure(path, spec, **options)[0].value == in_memory(made, GIVEN).value
    with pytest.raises(MiscalError, match="Score is not measured by itself"):
        miscal.measure(path, miscal.Score(), **options)


@pytest.mark.usefixtures("carriers_only")
def test_outcome_dependent_weights_call_for_the_spread_of_the_residuals(made, tmp_path):
    weight = np.where(made["y"].to_numpy() == 1, 1.0, 3.0)
    other = tables.write(made.append_column("w", pa.array(weight)), tmp_path / "w.parquet", 3000)
    found = in_parts(other, weight="w")
    assert found.settings["null"] == "residual"
    assert "Sign-flip null" in found.method


@pytest.mark.usefixtures("carriers_only")
def test_a_csv_whose_types_widen_late_gives_the_same(made, tmp_path, monkeypatch):
    small = made.slice(0, 4000)
    late = np.array(small["whole"], dtype=float)
    late[-1] = 0.5  # whole numbers until the last row
    small = small.set_column(3, "whole", pa.array(late))
    pa.csv.write_csv(small, tmp_path / "t.csv")
    text = (tmp_path / "t.csv").read_text().replace(".0,", ",")
    (tmp_path / "t.csv").write_text(text)
    original = CsvBatches.__init__

    def narrow(self, *arguments):
        original(self, *arguments)
        self.block = 20_000

    monkeypatch.setattr(CsvBatches, "__init__", narrow)
    found = in_parts(tmp_path / "t.csv", subpopulations=GIVEN[:4])
    assert found.value == pytest.approx(in_memory(small, GIVEN[:4]).value, rel=1e-12)
    model = fit_to(IsotonicCalibration(), tmp_path / "t.csv", outcome="y", probability="p")
    assert model.to_json() == IsotonicCalibration().fit(small["p"], small["y"]).to_json()


@pytest.mark.usefixtures("carriers_only")
def test_files_that_differ_are_refused_before_anything_is_read(made, tmp_path):
    tables.write(made, tmp_path / "a.parquet")
    tables.write(made.drop_columns(["whole"]), tmp_path / "b.parquet")
    with pytest.raises(MiscalError, match=r"b.parquet' lacks column 'whole'"):
        in_parts(tmp_path)
    with pytest.raises(MiscalError, match=r"b.parquet' lacks column 'whole'"):
        in_parts(tmp_path, subpopulations=20)
    with pytest.raises(MiscalError, match=r"b.parquet' lacks column 'whole'"):
        fit_to(GroupWise(IsotonicCalibration(), columns="whole"), tmp_path, outcome="y", probability="p")


@pytest.mark.usefixtures("carriers_only")
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["state = nowhere"], "no row has 'nowhere'"),
        (["height < 3"], "column 'height' is not among the columns"),
        (["whole <"], "cannot be understood"),
        ([np.array([True, False])], "must be expressions"),
    ],
)
def test_bad_subpopulations_are_refused(path, asked, words):
    with pytest.raises(MiscalError, match=words):
        in_parts(path, subpopulations=asked)


def test_compiled_expressions_hold_where_the_expressions_do(made, path):
    texts = [*GIVEN, "-1 < tied <= 0.3 and whole in {3, 4, 59}", "flag != True", "state not in {s0, s1} and tied > 0"]
    kinds = batches_of(path).kinds
    rules = compiled(texts, kinds)
    p = miscal.Predictions(made["y"], made["p"], columns=made.select(NAMES))
    expected = np.array([rows_where(text, p.columns).sum() for text in texts])
    stream = Stream(batches_of(path))
    state = stream.run(CrowdPass(tables.door(), members.Members(rules), KeyMap.fitted(np.array([0.0, 1.0]), 64)))
    counted = [int(state.totals[members.Members(rules).union(k + 1), 0].sum()) for k in range(len(texts))]
    assert counted == expected.tolist()

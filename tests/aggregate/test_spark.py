"""Spark gives what memory gives, on a cluster of two executors, also when one of them is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import miscal
from miscal.aggregate.column_roles import ColumnRoles
from miscal.aggregate.sample import gather
from miscal.aggregate.spark import SparkSource
from miscal.data.errors import MiscalError
from miscal.recalibrate import HistogramBinning
from tests.aggregate import spark_session, tables

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROWS = 24_000


@pytest.fixture(scope="module")
def spark(java):
    pytest.importorskip("pyspark")
    with spark_session.started() as session:
        yield session


def executors(session: Any) -> int:
    """Executors that are alive, the driver not counted."""
    return len(session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1


def wait_for(session: Any, number: int) -> None:
    for _ in range(600):
        if executors(session) >= number:
            return
        time.sleep(0.1)
    raise AssertionError(f"{executors(session)} executors after a minute")


@pytest.fixture(scope="module")
def made():
    return tables.table(ROWS)


@pytest.fixture(scope="module")
def path(made, tmp_path_factory):
    return tables.write(made, tmp_path_factory.mktemp("spark") / "t.parquet", 3000)


def differences(made: Any, frame: Any, weight: str | None = None) -> set[float]:
    return set(tables.differences(made, SparkSource(frame), weight))


@pytest.mark.parametrize(("weight", "partitions"), [(None, 12), ("whole_weight", 3), ("real_weight", 3)])
def test_a_cluster_equals_memory(spark, made, path, weight, partitions):
    wait_for(spark, 2)
    off = differences(made, spark.read.parquet(str(path)).repartition(partitions), weight)
    assert max(off) < 1e-12 if weight == "real_weight" else off == {0.0}


def test_a_sample_of_a_frame_is_spread_over_its_partitions(spark, path):
    frame = spark.read.parquet(str(path)).repartition(5)
    found = gather(SparkSource(frame), ColumnRoles("y", "p"), ["whole"], limit=4_000)
    assert not found.complete
    assert found.rows == ROWS
    assert 3_800 < found.predictions.rows < 4_200


def test_a_bad_row_is_refused_with_its_partition(spark, made):
    from pyspark.sql import functions

    frame = spark.range(1000).select(
        functions.lit(0).alias("y"), functions.when(functions.col("id") == 700, 1.5).otherwise(0.5).alias("p")
    )
    with pytest.raises(MiscalError, match=r"the Spark frame.*: column 'p' must lie in \[0, 1\]"):
        miscal.audit(frame, outcome="y", probability="p")


def slowly(batches):
    """Rows as they are, but slowly, so that an executor can be killed while it works."""
    for batch in batches:
        time.sleep(0.4)
        yield batch


def test_an_executor_killed_mid_run_changes_nothing(spark, made, path):
    wait_for(spark, 2)
    source = spark.read.parquet(str(path)).repartition(6)
    frame = source.mapInArrow(slowly, source.schema)
    seen: list[int] = []
    killed: list[int] = []
    done = threading.Event()

    def kill() -> None:
        time.sleep(3.0)
        killed.append(_one_executor())
        os.kill(killed[0], signal.SIGKILL)
        while not done.is_set():
            seen.append(executors(spark))
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        off = differences(made, frame)
    finally:
        done.set()
        killer.join()
    assert killed
    assert min(seen) < 2, "no executor was lost"
    assert off == {0.0}


def _one_executor() -> int:
    """The process of one executor of this test."""
    mine = "--driver-url"
    for entry in sorted(Path("/proc").iterdir(), key=lambda item: item.name):
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "CoarseGrainedExecutorBackend" in command and mine in command and _descends(int(entry.name), os.getpid()):
            return int(entry.name)
    raise AssertionError("no executor found")


def _descends(process: int, ancestor: int) -> bool:
    while process > 1:
        if process == ancestor:
            return True
        try:
            process = int((Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def test_a_recalibrator_is_a_column(spark, made, path):
    from miscal.recalibrate.on_spark import recalibrated

    model = HistogramBinning(bins=7).fit(made["p"], made["y"])
    frame = recalibrated(spark.read.parquet(str(path)), model, "p")
    rows = frame.select("p", "recalibrated").toArrow()
    assert rows.num_rows == ROWS
    assert np.array_equal(rows["recalibrated"].to_numpy(), model.predict_proba(rows["p"])[:, 1])


def test_an_audit_of_a_frame_finds_what_a_stream_finds(spark, path):
    options = {"outcome": "y", "probability": "p", "ignore": ["whole_weight", "real_weight", "trials"]}
    cluster = miscal.audit(spark.read.parquet(str(path)).repartition(3), **options)
    stream = miscal.audit(path, memory="1GB", **options)
    assert cluster.score["kuiper"] == stream.score["kuiper"]
    one, two = ({r.name: (r.value, r.p_value) for r in found.results} for found in (cluster, stream))
    assert one.keys() == two.keys()
    for name, (value, p_value) in one.items():  # rows in another order: draws and ties may fall otherwise
        assert value == pytest.approx(two[name][0], rel=1e-9), name
        assert p_value == pytest.approx(two[name][1], abs=0.05, nan_ok=True), name


SUBPOPULATIONS = ["whole < 30", "state in {s0, s3} and tied >= 0.2", "flag = True and (skewed < 1.5 or missing)"]


def test_counts_with_exposure_of_a_frame_are_those_of_a_stream(spark, tmp_path, monkeypatch):
    """Units are found on all partitions; what is beyond memory is added up by tasks."""
    from miscal.auditing import audit as auditing

    rng = np.random.default_rng(1)
    region, years, rate = rng.choice(list("abcd"), 9_000), rng.uniform(0.1, 1, 9_000), rng.lognormal(-1, 0.4, 9_000)
    claims = rng.poisson(rate * years * np.where(region == "c", 1.8, 1.0))
    made = pa.table({"claims": claims, "rate": rate, "years": years, "region": region})
    path = tables.write(made, tmp_path / "claims.parquet", 1000)
    options = {"outcome": "claims", "prediction": "rate", "response": "count", "exposure": "years", "effort": "quick"}
    monkeypatch.setattr(auditing, "rows_that_fit", lambda *_: 4_000)
    cluster = miscal.audit(spark.read.parquet(str(path)), **options)
    stream = miscal.audit(path, memory="1GB", **options)
    assert cluster.findings[0].where == stream.findings[0].where == "region c"
    for name in ("predicted", "observed", "gap", "events_off"):
        assert getattr(cluster.findings[0], name) == pytest.approx(getattr(stream.findings[0], name), rel=1e-9)
    assert cluster.findings[0].observed == pytest.approx(claims[region == "c"].sum() / years[region == "c"].sum())


@pytest.mark.parametrize("asked", [SUBPOPULATIONS, 40], ids=["given", "paths"])
def test_subpopulations_of_a_frame_are_those_of_memory(spark, made, path, asked):
    names = ["skewed", "whole", "tied", "state", "flag"]
    frame = spark.read.parquet(str(path)).repartition(10)
    spec = miscal.Subpopulation(names, subpopulations=asked)
    found = miscal.measure(frame, spec, outcome="y", probability="p", weight="whole_weight")[0]
    p = miscal.Predictions(made["y"], made["p"], weight=made["whole_weight"], columns=made.select(names))
    memory = miscal.by_subpopulation(p, names, subpopulations=asked)
    one, two = (
        {label: row for label, *row in zip(*(r.table[c] for c in ("label", "rows", "weight", "kuiper")), strict=True)}
        for r in (found, memory)
    )
    assert one.keys() == two.keys()
    for label, (rows, weight, kuiper) in one.items():
        assert (rows, weight) == tuple(two[label][:2])
        assert kuiper == pytest.approx(two[label][2], rel=1e-12, abs=1e-14)


def test_a_recalibrator_within_groups_is_fitted_to_a_frame_and_applied_as_a_column(spark, made, path):
    from miscal.recalibrate import GroupWise, IsotonicCalibration
    from miscal.recalibrate.on_spark import recalibrated
    from miscal.recalibrate.out_of_core import fit_to

    frame = spark.read.parquet(str(path)).repartition(4)
    asked = GroupWise(IsotonicCalibration(), columns=["flag"], pooling=False)
    model = fit_to(asked, frame, outcome="y", probability="p")
    memory = GroupWise(IsotonicCalibration(), columns=["flag"], pooling=False)
    memory.fit(made["p"], made["y"], made.select(["flag"]))
    assert model.to_json() == memory.to_json()
    rows = recalibrated(frame, model, "p").select("p", "flag", "recalibrated").toArrow()
    assert np.array_equal(rows["recalibrated"].to_numpy(), memory.predict_proba(rows["p"], rows.select(["flag"]))[:, 1])


@pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")
def test_maps_in_spark_sql(spark, made):
    """NULL and NaN, unseen levels, quotes and backslashes in names and levels, values under names."""
    from miscal import recalibrate

    rng = np.random.default_rng(0)
    p, odd = rng.beta(2, 2, 1500), "the `state` it's"
    X = {odd: rng.choice(["a'b", "c\\d", "e\n"], 1500), "floor": rng.integers(0, 3, 1500).astype(float)}
    y = (rng.random(1500) < np.where(X[odd] == "a'b", p**3, p)).astype(int)
    groups = recalibrate.GroupWise(recalibrate.PlattScaling(), columns=[odd, "floor"], min_rows=20)
    models = [
        recalibrate.BetaCalibration(), recalibrate.IsotonicCalibration(), recalibrate.VariableTree(),
        recalibrate.Chain([recalibrate.HistogramBinning(bins=9), groups, recalibrate.TemperatureScaling()]),
        recalibrate.MulticalibrationBoost(rounds=2), recalibrate.AugmentedBeta(),
    ]  # fmt: skip
    expressions = [model.fit(p, y, X).to_sql("p", dialect="spark") for model in models]
    asked = [0.0, 1.0, 1e-310, 0.3, 0.7, None, float("nan"), 1.5]
    levels = ["a'b", "c\\d", "e\n", None, "new", "a'b", "a'b", "a'b"]
    floors = [0.0, 1.0, np.nan, 2.0, 9.0, 0.0, 0.0, 0.0]
    schema = f"row int, p double, `{odd.replace('`', '``')}` string, floor double"
    frame = spark.createDataFrame(list(zip(range(8), asked, levels, floors, strict=True)), schema)
    listed = [f"{text} AS q{i}" for i, text in enumerate(expressions)]
    rows = frame.selectExpr("row", *listed).orderBy("row").collect()
    found = np.array([[np.nan if cell is None else cell for cell in row[1:]] for row in rows])
    assert np.isnan(found[5:]).all()
    for i, model in enumerate(models):
        expected = model.predict_proba(asked[:5], {odd: levels[:5], "floor": floors[:5]})[:, 1]
        np.testing.assert_allclose(found[:5, i], expected, rtol=0, atol=1e-12)

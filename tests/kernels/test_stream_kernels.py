"""The kernels of a stream against what they stand for, one row at a time."""

from __future__ import annotations

import math
import threading
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import isotonic_regression
from scipy.special import ndtr
from scipy.stats import binom

from miscal.aggregate.exact_sums import ExactCellSums
from miscal.aggregate.requests import LevelCells, LevelCoder
from miscal.cells.ranges import EdgeIndex
from miscal.data.columns import column
from miscal.data.errors import MiscalError
from miscal.data.target import TargetData
from miscal.kernels.order import add_stretches
from miscal.kernels.threads import one_of_many, over_blocks
from miscal.metrics.losses import isotonic_rates
from miscal.stats.binomial import matched_trials
from miscal.stats.cell_sums import CellSums, CellTestSettings
from miscal.stats.kuiper import RANGE_QUANTILE, brownian_range_isf
from miscal.stats.metric_null import PooledError
from miscal.stats.null_draws import cell_draws
from miscal.stats.score_shape import kuiper_bridge_p, shape_test

SURE = 2.0**-46
EDGES = [0.0, 5e-324, 1e-300, SURE / 2, SURE, np.nextafter(SURE, 1.0), 1e-9, 0.5, 1.0 - 1e-9, 1.0 - 2.0**-46, 1.0]


def test_packed_sums_are_those_of_the_rows_one_by_one():
    rng = np.random.default_rng(3)
    p = np.concatenate([EDGES, EDGES, rng.beta(1.0, 3.0, 9000)])
    y = np.concatenate([np.zeros(len(EDGES)), np.ones(len(EDGES)), rng.random(9000) < 0.3]).astype(np.uint8)
    codes = rng.integers(0, 3, (2, p.size)).astype(np.int32)
    codes[1, :9000] = 1  # more rows in one cell than it holds before it is emptied
    recalibrated = rng.random(p.size)
    packed, naive = (ExactCellSums([3, 3], recalibrated=True) for _ in range(2))
    for start in range(0, p.size, 2500):
        part = slice(start, start + 2500)
        packed.add(np.ascontiguousarray(codes[:, part]), TargetData(p[part], y[part]), recalibrated[part])
    naive.add(codes, TargetData(p, y, weight=np.ones(p.size)), recalibrated)
    packed.settle()
    for name in ("rows", "limbs", "recalibrated_limbs"):
        assert np.array_equal(getattr(packed, name), getattr(naive, name)), name


@pytest.mark.parametrize("edges", [0, 1, 2, 23, 3000])
def test_edges_are_found_as_by_a_plain_search(edges):
    rng = np.random.default_rng(9)
    cuts = np.unique(np.concatenate([rng.lognormal(0, 4, edges // 2), -rng.lognormal(0, 4, edges - edges // 2)]))
    near = np.concatenate([cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf)])
    values = np.concatenate([rng.lognormal(0, 4, 2000), -rng.lognormal(0, 4, 2000), near, [0.0, -0.0, 1e300, np.nan]])
    found = np.empty(values.size, np.int32)
    EdgeIndex(cuts).codes(values, found)
    expected = np.where(np.isnan(values), cuts.size + 1, np.searchsorted(cuts, values, side="left"))
    assert np.array_equal(found, expected)


def _mixed(seed, counter):
    """Splitmix64, in whole numbers."""
    z = (int(seed) + (counter + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def _searched(sums, draws):
    """Draws of matched binomials by looking through all of their distribution."""
    found = np.empty((draws, sums.rows.size))
    swapped = sums.predicted > 0.5 * sums.rows
    rare = np.where(swapped, sums.rows - sums.predicted, sums.predicted)
    trials_of = np.maximum(matched_trials(rare, sums.variance, sums.rows), 1.0)
    for cell, (mean, trials) in enumerate(zip(rare, trials_of, strict=True)):
        under, over = math.floor(trials), math.ceil(trials)
        share = 0.0
        if under < over and mean <= under:
            share = (1.0 / trials - 1.0 / over) / (1.0 / under - 1.0 / over)
        numbers = np.arange(over + 1)
        below = (1.0 - share) * binom.cdf(numbers, over, min(mean / over, 1.0))
        below += share * binom.cdf(numbers, under, mean / under) if share else 0.0
        own = _mixed(CellTestSettings().seed, cell)
        levels = [(_mixed(own, draw) >> 11) / 2**53 for draw in range(draws)]
        number = np.searchsorted(below, levels, side="right")
        found[:, cell] = sums.rows[cell] - number if swapped[cell] else number
    return np.clip(found, 0.0, sums.rows)


def _cells(count):
    rng = np.random.default_rng(4)
    rows = rng.integers(1, 900, count).astype(float)
    predicted = rows * rng.random(count)
    variance = predicted * (1.0 - predicted / rows) * rng.uniform(0.5, 1.0, count)
    observed = np.floor(predicted)
    return CellSums(rows, rows, rows, predicted, observed, variance, variance)


def test_guided_draws_are_those_of_a_plain_search():
    sums = _cells(40)
    assert np.array_equal(cell_draws(sums, CellTestSettings()).block(0, 150), _searched(sums, 150))


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_an_error_of_more_draws_than_a_block(monkeypatch, norm):
    import miscal.stats.metric_null as module

    sums = _cells(500)
    plain = np.abs(sums.predicted - sums.observed) / sums.weight
    monkeypatch.setattr(module, "BLOCK_VALUES", 500 * 7)
    monkeypatch.setattr(module, "CACHED_VALUES", 500 * 3)
    found = module.aggregate_null(sums, PooledError(norm, sums.weight), CellTestSettings(), draws=50)
    share = sums.weight / sums.weight.sum()
    value = plain.max() if math.isinf(norm) else (share @ plain**norm) ** (1.0 / norm)
    assert found.value == pytest.approx(value, rel=1e-13)
    drawn = cell_draws(sums, CellTestSettings(), draws=50).block(0, 50)
    assert module.summary_of_draws(
        found.value, PooledError(norm, sums.weight)(drawn - sums.predicted), method=found.method
    ) == (found)


def test_the_quantile_of_the_range_is_the_solver_s():
    assert brownian_range_isf(0.05) == pytest.approx(RANGE_QUANTILE, abs=1e-12)


def test_isotonic_rates_are_scipy_s():
    rng = np.random.default_rng(5)
    for size in (1, 2, 50, 2000):
        weight = rng.integers(1, 40, size).astype(float)
        events = np.floor(weight * rng.random(size))
        fitted = isotonic_regression(events / weight, weights=weight).x
        assert isotonic_rates(weight, events) == pytest.approx(fitted, abs=1e-13)
        assert np.all(np.diff(isotonic_rates(weight, events)) >= 0.0)


@pytest.mark.parametrize("rows", [10, 40_000])
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_infinite_value_is_refused_with_its_row(rows, value):
    values = np.zeros(rows)
    values[2] = math.nan
    assert column("age", values).values.size == rows
    values[rows - 3] = value
    with pytest.raises(MiscalError, match=f"row {rows - 3} has {value}"):
        column("age", values)


def test_one_thread_is_one(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    from miscal.aggregate.source import open_source

    pq.write_table(pa.table({"y": [0, 1], "p": [0.1, 0.9]}), tmp_path / "table.parquet")
    used = set()

    class State:
        columns = ("y",)

        def add(self, chunk):
            assert chunk.table.num_rows == 2

    for threads, expected in (("1", threading.current_thread().name), ("2", "miscal-reader_0")):
        monkeypatch.setenv("MISCAL_THREADS", threads)
        source = open_source(tmp_path / "table.parquet")
        read = source.part_tables

        def watched(*arguments, read=read):
            used.add(threading.current_thread().name)
            return read(*arguments)

        monkeypatch.setattr(source, "part_tables", watched)
        source.run(State)
        assert used == {expected}
        used.clear()


def test_levels_whose_dictionaries_repeat_or_change_are_counted_by_name():
    dictionaries = [["a", "b"], ["a", "b"], ["b", "a"], ["a", "b", "c"], ["a", "b", "c"], ["a", None], [], ["c"]]
    rng = np.random.default_rng(6)
    coder, counted, sums = LevelCoder(LevelCells("level", 10)), Counter(), Counter()
    for names in dictionaries:
        codes = rng.integers(-1, len(names), 50).astype(np.int32)
        expected = ["missing" if code < 0 or names[code] is None else names[code] for code in codes.tolist()]
        counted.update(expected)
        held = codes, pa.array(names, pa.string()), np.unique(codes[codes >= 0])
        cells = np.empty(50, np.int32)
        coder.put(SimpleNamespace(levels=lambda _, held=held: held), cells)
        found = [["missing", *coder.names.to_pylist()][cell] for cell in cells.tolist()]
        assert found == expected
        sums.update(found)
    assert sums == counted


def test_a_thread_among_many_works_alone(monkeypatch):
    monkeypatch.setenv("MISCAL_THREADS", "2")
    own = threading.get_ident()

    def work(start, stop):
        return threading.get_ident(), stop - start

    assert {thread for thread, _ in over_blocks(10, work, 3)} != {own}
    with one_of_many():
        with pytest.raises(ZeroDivisionError), one_of_many():
            over_blocks(10, lambda i, j: 1 // 0, 3)
        assert over_blocks(10, work, 3) == [(own, 3), (own, 3), (own, 3), (own, 1)]
    assert {thread for thread, _ in over_blocks(10, work, 3)} != {own}


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 4, 2), (2, 10, 32), (1, 7, 1)])
def test_stretches_are_added_from_their_first_cell_on(shape):
    values = np.random.default_rng(3).normal(size=shape)
    first, last = np.triu_indices(shape[1])
    out = np.empty((shape[0], first.size, shape[2]))
    add_stretches(values, out)
    plain = [np.cumsum(values[:, low : high + 1], axis=1)[:, -1] for low, high in zip(first, last, strict=True)]
    assert np.array_equal(out, np.stack(plain, axis=1))


@pytest.mark.parametrize("cells", [1, 2, 7, 32])
def test_walks_along_the_score_step_by_step(cells):
    rng = np.random.default_rng(cells)
    offs, noises = rng.normal(size=(60, cells)), rng.gamma(1.0, size=(60, cells)) * (rng.random((60, cells)) < 0.8)
    noises[0], noises[1] = 0.0, np.eye(cells)[0]  # certain rows, and all in one cell: nothing to walk along
    found = shape_test(offs, noises)
    for off, noise, p_value, moment in zip(offs, noises, found.p_value, found.moment, strict=True):
        total = noise.sum()
        passed = walked = highest = lowest = tilt = spread = share = 0.0
        for step, variance in zip(off, noise, strict=True):
            lever = (passed + 0.5 * variance) / max(total, 1e-300) - 0.5
            passed, walked = passed + variance, walked + step
            height = walked - off.sum() * passed / max(total, 1e-300)
            highest, lowest = max(highest, height), min(lowest, height)
            tilt, spread = tilt + step * lever, spread + variance * lever**2
            share += (variance / max(total, 1e-300)) ** 2
        if not spread > total / 1200.0:
            assert np.isnan(p_value)
            assert moment == 0.0
            continue
        size = (highest - lowest) / np.sqrt(total) + np.sqrt(share)
        tails = 2.0 * ndtr(-abs(tilt) / np.sqrt(spread)), float(kuiper_bridge_p(np.array(size)))
        assert moment == pytest.approx(tilt / np.sqrt(spread), rel=1e-9)
        assert p_value == pytest.approx(min(1.0, 2.0 * min(tails)), rel=1e-9)
    assert np.isfinite(found.p_value).any() == (cells > 1)

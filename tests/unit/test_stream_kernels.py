"""The kernels of a stream against what they stand for, one row at a time."""

from __future__ import annotations

import math
import threading
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from miscal.engines.buckets import KeyMap
from miscal.engines.cells import FieldSums
from miscal.engines.names import Names, text_of
from miscal.engines.packed import PackedSums, TwinSums, lines
from miscal.kernels.lines import add_line
from scipy.optimize import isotonic_regression

from miscal.data.columns import column
from miscal.data.errors import MiscalError
from miscal.inference.aggregates import PooledError
from miscal.inference.nulls import cell_draws
from miscal.inference.sums import Sums
from miscal.inference.walks import RANGE_QUANTILE, brownian_range_isf
from miscal.kernels.jit import kernel
from miscal.kernels.packed import bucket_segments, segments_of, sketch_cells
from miscal.kernels.simulate import cumulative_masses, mixed, uniform
from miscal.kernels.sums import SURE, loss, losses
from miscal.kernels.threads import one_of_many, over_blocks
from miscal.metrics.score.losses import isotonic_rates
from miscal.pairs import Pair

EDGES = [0.0, 5e-324, 1e-300, SURE / 2, SURE, np.nextafter(SURE, 1.0), 1e-9, 0.5, 1.0 - 1e-9, 1.0 - 2.0**-46, 1.0]


@kernel
def _loss_of(predicted, observed):
    return loss(predicted, observed)


def test_losses_of_many_rows_have_the_bits_of_one():
    rng = np.random.default_rng(1)
    p = np.concatenate([EDGES, rng.beta(1.0, 12.0, 3000), 1.0 - np.exp(-40.0 * rng.random(3000))])
    for outcome in (0, 1):
        costs = np.empty(p.size)
        losses(p, np.full(p.size, outcome, np.uint8), costs)
        for value, cost in zip(p.tolist(), costs.tolist(), strict=True):
            x = value if outcome else 1.0 - value
            one = _loss_of(value, float(outcome))
            assert one == cost if x > SURE else cost == -1.0
            truth = -math.log(x) if x > 0.0 else math.inf
            assert one == truth or abs(one - truth) <= 2.0**-51 * max(truth, 1.0)


@kernel
def _add_all(cells, codes, terms):
    first = np.zeros(codes.size, np.uint64)
    for i in range(codes.size):
        first[i] = add_line(cells, np.uint64(codes[i]), terms, np.uint64(i))
    return first


def test_a_line_is_added_as_eight_words():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 7, 500)
    terms = rng.integers(0, 2**63, (500, 8), dtype=np.uint64)
    cells, plain = lines(7), np.zeros((7, 8), np.uint64)
    first = _add_all(cells, codes, terms)
    for i, code in enumerate(codes.tolist()):
        plain[code] += terms[i]
        assert first[i] == plain[code, 0]
    assert np.array_equal(cells, plain)


@pytest.mark.parametrize("count", [1, 5, 4096, 100_003])
def test_lines_are_cache_lines(count):
    made = lines(count)
    assert made.shape == (count, 8)
    assert made.ctypes.data % 64 == 0
    assert not made.any()


def test_packed_sums_are_those_of_the_rows_one_by_one():
    rng = np.random.default_rng(3)
    p = np.concatenate([EDGES, EDGES, rng.beta(1.0, 3.0, 9000)])
    y = np.concatenate([np.zeros(len(EDGES)), np.ones(len(EDGES)), rng.random(9000) < 0.3]).astype(np.uint8)
    codes = rng.integers(0, 3, (2, p.size)).astype(np.int32)
    codes[1, :9000] = 1  # more rows in one cell than it holds before it is emptied
    mended = rng.random(4)
    columns = [TwinSums(3), TwinSums(3)]
    packed = PackedSums(columns)
    for start in range(0, p.size, 2500):
        part = slice(start, start + 2500)
        packed.add(Pair(p[part], y[part]), np.ascontiguousarray(codes[:, part]), mended)
    for sums, own in zip(columns, codes, strict=True):
        one = TwinSums(3)
        one.add(own, Pair(p, y), Pair(mended[codes[0]], y))
        (raw, after), (naive, naive_after) = sums.both(), one.both()
        assert np.array_equal(raw.plain, naive.plain)
        assert np.array_equal(after.plain[:, :9], naive_after.plain[:, :9])


def _searched(sums, draws):
    """Draws of matched binomials by looking through all masses."""
    stream = cell_draws(sums, weighted=False)
    found = np.empty((draws, sums.rows.size))
    for cell in range(sums.rows.size):
        own = np.uint64(mixed(stream.seed, np.uint64(cell)))
        low, table = cumulative_masses(stream.mean[cell], math.sqrt(stream.variance[cell]), stream.trials[cell])
        for draw in range(draws):
            level = uniform(own, np.uint64(draw)) * table[-1]
            number = low + min(int(np.searchsorted(table, level, side="right")), table.size - 1)
            found[draw, cell] = stream.limit[cell] - number if stream.swapped[cell] else number
    return stream, found


def _cells(count):
    rng = np.random.default_rng(4)
    rows = rng.integers(1, 900, count).astype(float)
    predicted = rows * rng.random(count)
    variance = predicted * (1.0 - predicted / rows) * rng.uniform(0.5, 1.0, count)
    observed = np.floor(predicted)
    return Sums(rows, rows, rows, predicted, observed, variance, variance)


def test_guided_draws_are_those_of_a_plain_search():
    stream, naive = _searched(_cells(40), 150)
    assert np.array_equal(stream.block(0, 150), np.clip(naive, 0.0, stream.limit))


def test_some_cells_are_drawn_as_all_of_them():
    stream = cell_draws(_cells(50), weighted=False)
    whole = stream.block(3, 20)
    parts = [stream.block(3, 20, slice(start, start + 17)) for start in range(0, 50, 17)]
    assert np.array_equal(np.concatenate(parts, axis=1), whole)


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_an_error_of_more_cells_than_a_chunk(monkeypatch, norm):
    import miscal.inference.aggregates as module

    sums = _cells(500)
    plain = np.abs(sums.predicted - sums.observed) / sums.weight
    monkeypatch.setattr(module, "CHUNK", 37)
    found = module.aggregate_null(sums, PooledError(norm), weighted=False, draws=50)
    share = sums.weight / sums.weight.sum()
    value = plain.max() if math.isinf(norm) else (share @ plain**norm) ** (1.0 / norm)
    assert found.value == pytest.approx(value, rel=1e-13)
    drawn = cell_draws(sums, weighted=False, draws=50).block(0, 50)
    assert module.summary_of_draws(found.value, PooledError(norm)(sums.predicted, drawn, sums.weight), method="") == (
        replace(found, method="")
    )


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


def test_names_beyond_ascii_keep_their_bytes():
    names = ["", "a", "Zürich", "東京", "a\0b"]
    assert text_of(names).to_pylist() == names
    assert text_of(["x", "yz"]).to_pylist() == ["x", "yz"]
    assert text_of([]).to_pylist() == []
    known = Names(names)
    assert known.find(text_of(["東京", "b", "a"])).tolist() == [3, -1, 1]


def test_one_thread_is_one(tmp_path, monkeypatch):
    import pyarrow.parquet as pq
    from miscal.engines.batches import batches_of

    from miscal.engines import stream as module

    pq.write_table(pa.table({"y": [0, 1], "p": [0.1, 0.9]}), tmp_path / "table.parquet")
    used = set()

    class Job:
        columns = ("y",)

        class door:
            @staticmethod
            def open(chunk):
                return chunk

        @staticmethod
        def start():
            class State:
                def add(self, batch):
                    assert batch.table.num_rows == 2

            return State()

    batches = batches_of(tmp_path / "table.parquet")
    read = batches.read

    def watched(*arguments):
        used.add(threading.current_thread().name)
        return read(*arguments)

    monkeypatch.setattr(batches, "read", watched)
    module.Stream(batches, threads=1).run(Job())
    assert used == {threading.current_thread().name}
    used.clear()
    module.Stream(batches, threads=2).run(Job())
    assert used == {"miscal-reader"}


def test_levels_whose_dictionaries_repeat_or_change_are_counted_by_name():
    dictionaries = [["a", "b"], ["a", "b"], ["b", "a"], ["a", "b", "c"], ["a", "b", "c"], ["a", None], [], ["c"]]
    rng = np.random.default_rng(6)
    sums, counted = FieldSums("level", 10), Counter()
    for names in dictionaries:
        codes = rng.integers(-1, len(names), 50).astype(np.int32)
        counted.update("missing" if code < 0 or names[code] is None else names[code] for code in codes.tolist())
        made = text_of([name or "" for name in names])
        if None in names:
            made = pa.array(names, pa.string())
        levels = (codes, made)
        batch = SimpleNamespace(levels=lambda _, levels=levels: levels, pair=Pair(np.full(50, 0.5), np.zeros(50)))
        sums.count(batch)
        cells = sums.codes(batch, grow=False)
        assert [(["missing", *sums.names])[cell] for cell in cells.tolist()] == [
            "missing" if code < 0 or names[code] is None else names[code] for code in codes.tolist()
        ]
    found = dict(zip(["missing", *sums.names], sums.sums.plain[:, 0].tolist(), strict=False))
    assert found == dict(counted)


@pytest.mark.parametrize("rows", [1, 4096, 10_000])
def test_segments_and_cells_of_the_sketch_are_read_off_the_buckets(rows):
    rng = np.random.default_rng(7)
    values = rng.beta(1.2, 12.0, rows)
    made = KeyMap.fitted(rng.beta(1.2, 12.0, 5000), 1 << 10)
    table = rng.integers(0, 5, made.count + 1).astype(np.int32)
    buckets = made.codes(values)
    arguments, codes, picked = (
        (made.low, made.high, *made.arguments),
        np.empty(rows, np.int32),
        np.empty(rows, np.int32),
    )
    found = bucket_segments(values, *arguments, table, 4, codes, picked)
    assert np.array_equal(codes, table[buckets])
    assert np.array_equal(picked[:found], np.flatnonzero(codes == 4))
    again = buckets.copy()
    assert segments_of(again, table, 4, picked) == found
    assert np.array_equal(again, codes)
    sketch_cells(buckets, 2)
    assert np.array_equal(buckets, made.codes(values) >> 2)


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

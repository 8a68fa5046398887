"""Carriers add: any partition, any order of rows, any number of threads, the same bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miscal.aggregate.in_memory import CumulativeRange, cumulative_range, mean_tally, tally
from miscal.aggregate.tally import ALL_COLUMNS, Tally
from miscal.cells.partitions import BinPooling, LevelPooling, Levels, Ranges
from miscal.cells.ranges import uniform_edges
from miscal.data.errors import MiscalError
from miscal.data.outputs import load_arrays, save_arrays
from miscal.data.target import TargetData
from tests.laws.batches import Batch, batches

EDGES = uniform_edges(7, 0.0, 1.0)
GRID = Fraction(1, 2**52)


def tally_of(batch: Batch, *, weighted: bool = True) -> Tally:
    return tally(batch.pair(weighted=weighted), BinPooling(batch.p, Ranges(EDGES)))


def on_grid(value: float) -> Fraction:
    """The value as the sums see it: rounded half up, where adding the half may itself round (0.49999999999999994)."""
    return int(value * 2.0**52 + 0.5) * GRID


def same_range(one: CumulativeRange, two: CumulativeRange) -> bool:
    """Equal in every field, NaN equal to NaN."""
    return repr(one) == repr(two)


@given(batches(), batches())
def test_adding_tallies_is_concatenating_rows(one: Batch, two: Batch) -> None:
    assert tally_of(one) + tally_of(two) == tally_of(one + two)


@given(batches(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_bit(batch: Batch, random: object) -> None:
    order = np.arange(batch.y.size)
    random.shuffle(order)  # type: ignore[attr-defined]
    assert tally_of(batch) == tally_of(batch.take(order))
    assert same_range(cumulative_range(batch.pair()), cumulative_range(batch.take(order).pair()))


@given(batches())
def test_sums_are_exact_fractions(batch: Batch) -> None:
    """Every column equals the sum of grid values in exact arithmetic, rounded once."""
    counted = tally_of(batch)
    cell = np.clip(np.searchsorted(EDGES, batch.p, side="left") - 1, 0, EDGES.size - 2)
    for c in range(EDGES.size - 1):
        rows = [(float(batch.p[i]), int(batch.y[i]), int(batch.w[i])) for i in np.flatnonzero(cell == c)]
        expected = {
            "weight": sum((Fraction(w) for _, _, w in rows), Fraction(0)),
            "weight2": sum((Fraction(w * w) for _, _, w in rows), Fraction(0)),
            "predicted": sum((w * on_grid(p) for p, _, w in rows), Fraction(0)),
            "observed": sum((Fraction(w * y) for _, y, w in rows), Fraction(0)),
            "variance": sum((w * w * on_grid(p * (1 - p)) for p, _, w in rows), Fraction(0)),
            "residual2": sum((w * w * on_grid((y - p) * (y - p)) for p, y, w in rows), Fraction(0)),
        }
        for name, value in expected.items():
            high, low = counted.limbs[c, ALL_COLUMNS.index(name)]
            assert Fraction(int(high), 2**20) + Fraction(int(low), 2**52) == value, name


@given(batches())
def test_whole_weights_are_repetition_in_first_moments(batch: Batch) -> None:
    weighted, repeated = tally_of(batch), tally_of(batch.repeated())
    for name in ("weight", "predicted", "observed"):
        assert np.array_equal(weighted.column(name), repeated.column(name)), name
    assert cumulative_range(batch.pair()).range == cumulative_range(batch.repeated().pair()).range


def test_weights_are_not_repetition_in_second_moments() -> None:
    """They are sampling weights: a row of weight 2 is noisier than two rows."""
    batch = Batch(np.array([1], np.uint8), np.array([0.5]), np.array([2.0]))
    assert tally_of(batch).variance.sum() == 1.0
    assert tally_of(batch.repeated()).variance.sum() == 0.5


@given(batches())
def test_count_is_repetition_in_every_column(batch: Batch) -> None:
    counted = TargetData(batch.p, batch.y, None, batch.w.astype(np.int64))
    pooling = BinPooling(batch.p, Ranges(EDGES))
    assert tally(counted, pooling) == tally_of(batch.repeated(), weighted=False)


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_threads_change_no_bit(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    p = rng.beta(0.8, 1.6, 700_000)
    y = (rng.random(p.size) < p).astype(np.uint8)
    weight = rng.lognormal(size=p.size)
    pooling = BinPooling(p, Ranges(EDGES), (0.0, 1.0))
    monkeypatch.setenv("MISCAL_THREADS", "3")
    expected = [
        tally(TargetData(p, y), pooling),
        tally(TargetData(p, y, weight), pooling),
        mean_tally(TargetData(p, y), pooling),
    ]
    ranges = [cumulative_range(TargetData(p, y)), cumulative_range(TargetData(p, y, weight))]
    monkeypatch.setenv("MISCAL_THREADS", threads)
    assert [
        tally(TargetData(p, y), pooling),
        tally(TargetData(p, y, weight), pooling),
        mean_tally(TargetData(p, y), pooling),
    ] == expected
    assert repr([cumulative_range(TargetData(p, y)), cumulative_range(TargetData(p, y, weight))]) == repr(ranges)


@given(batches())
def test_the_quick_tally_equals_the_full_one(batch: Batch) -> None:
    pair = batch.pair(weighted=False)
    full = tally(pair, BinPooling(batch.p, Ranges(EDGES)))
    for width in (None, (0.0, 1.0)):
        quick = mean_tally(pair, BinPooling(batch.p, Ranges(EDGES), width))
        for name in quick.columns:
            assert np.array_equal(quick.column(name), full.column(name))


@given(batches())
def test_coarsening_equals_tallying_coarsely(batch: Batch) -> None:
    coarse = Ranges(EDGES[[0, 3, 7]])
    merged = tally_of(batch).coarsen([0, 0, 0, 1, 1, 1, 1], coarse)
    assert merged == tally(batch.pair(), BinPooling(batch.p, coarse))


def test_a_tally_survives_its_file(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(500)
    for weight in (None, rng.random(500)):
        saved = tally(TargetData(p, (p > 0.5).astype(np.uint8), weight), BinPooling(p, Ranges(EDGES, name="score")))
        path = tmp_path / "score.tally"  # type: ignore[operator]
        save_arrays(path, "a tally", saved.describe(), saved.arrays(""))
        assert Tally.rebuild(*load_arrays(path, "a tally"), "") == saved
        assert [file.name for file in path.parent.iterdir()] == ["score.tally"]


def test_levels_merge_by_name_and_ranges_refuse() -> None:
    p, y = np.array([0.1, 0.9]), np.array([0, 1], np.uint8)
    one = tally(TargetData(p, y), LevelPooling(np.array([0, 1]), Levels(("a", "b"), name="state")))
    two = tally(TargetData(p, y), LevelPooling(np.array([0, -1]), Levels(("c",), missing=True, name="state")))
    both = one + two
    assert both.cells.labels() == ["a", "b", "c", "(missing)"]
    assert both.counts.tolist() == [1, 1, 1, 1]
    with pytest.raises(MiscalError, match="cannot be added"):
        tally(TargetData(p, y), BinPooling(p, Ranges(EDGES))) + tally(
            TargetData(p, y), BinPooling(p, Ranges(EDGES[::2]))
        )

"""Laws of the errors by field: order, names and splitting of levels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miscal.aggregate.in_memory import mean_tally, mean_tally_of, tally
from miscal.cells.coding import field_pooling
from miscal.cells.partitions import LevelPooling, Levels, Numbered
from miscal.data.target import TargetData
from miscal.kernels.sums import coded_means, unpacked_means
from miscal.metrics.field import field_calibration_error, field_relative_calibration_error
from tests.laws.batches import Batch, batches

# Small batches often hold one class only, which is allowed and said.
pytestmark = pytest.mark.filterwarnings("ignore:.*single class")

SEEDS = st.integers(0, 2**32 - 1)


def levels_of(batch: Batch, seed: int, number: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, number, batch.y.size)


@given(batches(least=2), SEEDS)
def test_order_and_names_of_levels_change_no_bit(batch, seed):
    rng = np.random.default_rng(seed)
    z = levels_of(batch, seed)
    order = rng.permutation(batch.y.size)
    names = np.array([f"level {k}" for k in rng.permutation(5)])[z]
    for metric in (field_calibration_error, field_relative_calibration_error):
        value = metric(batch.y, batch.p, z, target="positive")
        assert metric(batch.y[order], batch.p[order], z[order], target="positive") == value
        np.testing.assert_allclose(metric(batch.y, batch.p, names, target="positive"), value, rtol=1e-14)


@given(batches(least=2), SEEDS)
def test_joining_levels_never_raises_the_error(batch, seed):
    z = levels_of(batch, seed)
    fine = field_calibration_error(batch.y, batch.p, z)
    coarse = field_calibration_error(batch.y, batch.p, z // 2)
    assert coarse <= fine + 1e-15
    for norm in ("l2", 3):
        assert field_calibration_error(batch.y, batch.p, z // 2, norm=norm) <= (
            field_calibration_error(batch.y, batch.p, z, norm=norm) + 1e-12
        )


@given(batches(), SEEDS)
def test_whole_weights_are_repetition(batch, seed):
    z = levels_of(batch, seed)
    many = batch.repeated()
    again = np.repeat(z, batch.w.astype(int))
    for metric in (field_calibration_error, field_relative_calibration_error):
        assert metric(batch.y, batch.p, z, sample_weight=batch.w) == metric(many.y, many.p, again)


@given(batches(), SEEDS)
def test_packed_sums_are_exact(batch, seed):
    z = levels_of(batch, seed)
    packed, result = np.zeros(2 * 5, np.uint64), np.zeros((5, 4), np.int64)
    # Start close to the end of the word, so that sums carry over.
    packed[::2] = np.uint64(2**64 - 2**51)
    coded_means(z, batch.p, batch.y, packed)
    unpacked_means(packed, result)
    for level in range(5):
        here = z == level
        exact = sum(int(Fraction(p) * 2**52 + Fraction(1, 2)) for p in batch.p[here])
        assert result[level, 0] == here.sum()
        assert result[level, 1] == batch.y[here].sum()
        assert int(result[level, 2]) * 2**32 + int(result[level, 3]) == exact + 2**64 - 2**51


@given(batches(), SEEDS, st.sampled_from([5, 32773]))
def test_sums_of_few_and_many_levels_are_exact(batch, seed, cells):
    z = levels_of(batch, seed) * (cells // 5)
    packed, sums = np.zeros(2 * cells, np.uint64), np.zeros((cells, 4), np.int64)
    packed[::2] = np.uint64(2**64 - 2**51)
    many = 40
    coded_means(np.tile(z, many), np.tile(batch.p, many), np.tile(batch.y, many), packed)
    for _ in range(2):  # two parts of a table
        unpacked_means(packed, sums)
    made = mean_tally_of(sums, Levels(tuple(map(str, range(cells)))))
    counts, limbs = made.counts, made.limbs
    assert limbs is not None
    for level in range(0, cells, cells // 5):
        here = z == level
        exact = many * sum(int(Fraction(p) * 2**52 + Fraction(1, 2)) for p in batch.p[here])
        assert counts[level] == 2 * many * here.sum()
        assert [int(high) * 2**32 + int(low) for high, low in limbs[level]] == [
            2 * many * int(here.sum()) << 52,
            2 * (exact + 2**64 - 2**51),
            2 * many * int(batch.y[here].sum()) << 52,
        ]
    assert ((limbs[..., 1] >= 0) & (limbs[..., 1] < 2**32)).all()


@given(batches(), SEEDS)
def test_quick_sums_equal_the_full_tally(batch, seed):
    z = levels_of(batch, seed)
    quick = mean_tally(TargetData(batch.p, batch.y), LevelPooling(z, Numbered(5)))
    full = tally(TargetData(batch.p, batch.y), LevelPooling(z, Levels(tuple("abcde"))))
    for name in ("weight", "predicted", "observed"):
        assert np.array_equal(quick.column(name), full.column(name)), name
    assert np.array_equal(quick.counts, full.counts)


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=30))
def test_levels_are_told_apart_exactly(values):
    codes = field_pooling(values).codes(0, len(values))
    for one, a in zip(values, codes, strict=True):
        for two, b in zip(values, codes, strict=True):
            assert (one == two) == (a == b)


def test_a_code_may_be_as_large_as_its_type_holds(tmp_path):
    code = 2**30 + 3
    path = tmp_path / "words"
    try:
        packed = np.memmap(path, np.uint64, "w+", shape=2 * code + 2)  # a file of nothing but a hole
        path.unlink()
    except OSError:
        pytest.skip("no file of 17 GB may be opened here")
    coded_means(np.array([code, 0, code], np.int32), np.array([0.5, 0.25, 0.25]), np.array([1, 0, 1], np.uint8), packed)
    sums = np.zeros((1, 4), np.int64)
    unpacked_means(packed[-2:], sums)
    assert sums.tolist() == [[2, 2, 3 << 18, 0]]

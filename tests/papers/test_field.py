"""Paper 003's metrics against naive twins written from its equations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from miscal import MiscalError, MiscalWarning, metrics


def log_loss_twin(y, p):  # (1)
    return sum(-math.log(b) if a else -math.log(1 - b) for a, b in zip(y, p, strict=True)) / len(y)


def brier_twin(y, p):  # (2)
    return sum((a - b) ** 2 for a, b in zip(y, p, strict=True)) / len(y)


def probability_twin(y, p, bins):  # (3), with p = 1 kept
    total = 0.0
    for k in range(bins):
        low, high = k / bins, (k + 1) / bins
        total += abs(sum(a - b for a, b in zip(y, p, strict=True) if low <= b < high or (b == 1 and k == bins - 1)))
    return total / len(y)


def field_twin(y, p, z):  # (4)
    return sum(abs(sum(a - b for a, b, c in zip(y, p, z, strict=True) if c == level)) for level in set(z)) / len(y)


def relative_twin(y, p, z, epsilon=0.01):  # (5)
    total = 0.0
    for level in set(z):
        rows = [(a, b) for a, b, c in zip(y, p, z, strict=True) if c == level]
        total += len(rows) * abs(sum(a - b for a, b in rows)) / sum(a + epsilon for a, _ in rows)
    return total / len(y)


def relative_dropping_twin(y, p, z):
    kept = [level for level in set(z) if any(a for a, c in zip(y, z, strict=True) if c == level)]
    rows = [(a, b, c) for a, b, c in zip(y, p, z, strict=True) if c in kept]
    return relative_twin(*zip(*rows, strict=True), epsilon=0.0) if rows else math.nan


def auc_twin(y, p):
    pairs = [
        (b > c) + 0.5 * (b == c) for a, b in zip(y, p, strict=True) if a for d, c in zip(y, p, strict=True) if not d
    ]
    return sum(pairs) / len(pairs)


@pytest.fixture
def rows(rng):
    p = np.round(rng.beta(0.6, 2.0, 400), 2).clip(0.01, 0.99)
    y = (rng.random(400) < p).astype(int)
    z = rng.choice(["AL", "ak", "Ωmega", "", "x" * 50], 400, p=[0.5, 0.3, 0.1, 0.08, 0.02])
    return y, p, z


def test_equations_1_to_5(rows):
    y, p, z = rows
    assert metrics.field_calibration_error(y, p, z) == pytest.approx(field_twin(y, p, z), abs=1e-13)
    assert metrics.field_relative_calibration_error(y, p, z) == pytest.approx(relative_twin(y, p, z), rel=1e-12)
    dropped = metrics.field_relative_calibration_error(y, p, z, zero="drop")
    assert dropped == pytest.approx(relative_dropping_twin(y, p, z), rel=1e-12)
    assert metrics.probability_calibration_error(y, p, bins=10) == pytest.approx(probability_twin(y, p, 10), abs=1e-13)
    rejected = metrics.prediction_rejection_ratio(y, p, target="positive")
    assert 0.5 + 0.5 * rejected == pytest.approx(auc_twin(y, p), rel=1e-12)
    assert metrics.log_loss(y, p) == pytest.approx(log_loss_twin(y, p), rel=1e-12)
    assert metrics.brier_score(y, p) == pytest.approx(brier_twin(y, p), rel=1e-12)
    ratio = metrics.calibration_slope_intercept(y, p).ratio.value
    assert ratio == pytest.approx(sum(p) / sum(y), rel=1e-12)


def test_probability_bins_are_left_closed_and_keep_one():
    y, p = np.array([0, 1, 1]), np.array([0.1, 0.5, 1.0])
    # 0.5 belongs to the upper bin: |0 - .1| + |2 - 1.5| over 3 rows.
    assert metrics.probability_calibration_error(y, p, bins=2) == pytest.approx(0.6 / 3, abs=1e-15)
    # Right-closed, 0.5 belongs to the lower bin: |1 - .6| + |1 - 1|.
    assert metrics.expected_calibration_error(y, p, bins=2) == pytest.approx(0.4 / 3, abs=1e-15)


def test_the_two_zero_rules_can_differ_by_an_order_of_magnitude():
    """The toy of the notes: levels without events dominate the paper's rule."""
    z = np.repeat(np.arange(50), 4)
    y = np.zeros(200, int)
    y[:4] = [1, 0, 0, 0]
    p = np.full(200, 0.22)
    paper = metrics.field_relative_calibration_error(y, p, z)
    assert paper == pytest.approx(relative_twin(y, p, z), rel=1e-12)
    assert metrics.field_relative_calibration_error(y, p, z, zero="drop") == pytest.approx(0.12, rel=1e-9)
    assert paper > 20


def test_a_list_of_scalars_is_one_field_and_a_list_of_arrays_is_crossed(rows):
    y, p, z = rows
    other = np.arange(y.size) % 3
    crossed = [f"{a}|{b}" for a, b in zip(z, other, strict=True)]
    error = metrics.field_calibration_error
    assert error(y, p, list(z)) == error(y, p, z)
    assert error(y, p, [z, other]) == error(y, p, crossed)
    assert error(y, p, [list(z), other.tolist()]) == error(y, p, crossed)
    assert error(y, p, (z,)) == error(y, p, z)


def test_every_container_and_kind_of_level_gives_the_same_number(rows):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    y, p, z = rows
    error = metrics.field_calibration_error
    expected = field_twin(y, p, z)
    codes = np.unique(z, return_inverse=True)[1]
    kinds = [z.astype(object), pd.Series(z), pd.Categorical(z), pl.Series(z.tolist()), pa.array(z.tolist())]
    kinds += [pl.Series(z.tolist(), dtype=pl.Categorical), codes, codes.astype(np.uint8), codes.astype(np.int32)]
    kinds += [codes - 2, codes.astype(float) * 0.37, codes * 10**14, pa.array(codes), codes.astype(np.uint64)]
    for field in kinds:
        assert error(y, p, field) == pytest.approx(expected, abs=1e-13), type(field)
    both = pd.DataFrame({"z": z, "w": codes % 2})
    assert error(y, p, both) == error(y, p, [z, codes % 2])


def test_missing_is_a_level():
    y, p = [1, 0, 1, 0], [0.5, 0.5, 0.9, 0.9]
    for field in (["a", "a", None, None], [1.0, 1.0, np.nan, np.nan]):
        assert metrics.field_calibration_error(y, p, field) == pytest.approx(0.2)
    one = metrics.field_calibration_error(y, p, [["a", "a", None, None], [1, 1, 1, 2]])
    assert one == pytest.approx((0.0 + 0.1 + 0.9) / 4)


def test_numbers_are_cut_into_ranges(rows):
    y, p, _ = rows
    age = np.random.default_rng(1).normal(50, 10, y.size)
    cut = np.searchsorted([40.0, 60.0], age)
    assert metrics.field_calibration_error(y, p, age, bins=[0, 40, 60, 100]) == pytest.approx(field_twin(y, p, cut))


def test_crossing_fields_of_very_many_levels_keeps_to_what_occurs(rng):
    n = 3000
    p = rng.uniform(0.1, 0.9, n)
    y = (rng.random(n) < p).astype(int)
    a, b, c = (rng.integers(0, 3000, n) * 7919 for _ in range(3))
    expected = field_twin(y, p, list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)))
    assert metrics.field_calibration_error(y, p, [a, b, c]) == pytest.approx(expected, rel=1e-12)


def test_extremes_of_one_level_and_one_level_a_row(rows):
    y, p, _ = rows
    whole = metrics.field_calibration_error(y, p, ["all"] * y.size)
    assert whole == pytest.approx(abs((y - p).mean()), abs=1e-13)
    single = metrics.field_calibration_error(y, p, [f"row {i}" for i in range(y.size)])
    assert single == pytest.approx(np.abs(y - p).mean(), abs=1e-13)
    with pytest.warns(MiscalWarning, match="single class"):
        assert metrics.field_calibration_error(np.zeros(4), np.full(4, 0.25), list("aabb")) == 0.25


@pytest.mark.filterwarnings("ignore:.*single class")
def test_no_events_at_all():
    y, p, z = np.zeros(4, int), np.full(4, 0.25), list("aabb")
    assert metrics.field_relative_calibration_error(y, p, z) == pytest.approx(25.0)
    with pytest.warns(MiscalWarning, match="drop"):
        assert math.isnan(metrics.field_relative_calibration_error(y, p, z, zero="drop"))


def test_mixed_types_are_taken_as_text_and_said():
    with pytest.warns(MiscalWarning, match="taken as text"):
        found = metrics.field_calibration_error([0, 1, 1], [0.2, 0.7, 0.9], np.array([1, "1", "b"], dtype=object))
    assert found == pytest.approx((0.1 + 0.1) / 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0}, "above 0"),
        ({"epsilon": float("nan")}, "above 0"),
        ({"epsilon": "much"}, "above 0"),
        ({"zero": "skip"}, "'epsilon' or 'drop'"),
        ({"norm": "l0"}, "norm"),
        ({"target": 7}, "class"),
        ({"bins": [3, 2]}, "increasing"),
        ({"field": ["a"]}, "field"),
        ({"field": [["a", "b"], ["a"]]}, "rows"),
        ({"field": [["a", "b"], 3]}, "one value a row"),
        ({"field": None}, "field"),
        ({"field": [1.0, np.inf]}, "finite"),
    ],
)
def test_wrong_input_is_refused_by_name(options, words):
    field = options.pop("field", [1.0, 2.0])
    with pytest.raises(MiscalError, match=words):
        metrics.field_relative_calibration_error([0, 1], [0.2, 0.7], field, **options)


def test_sampling_weights_and_rows_of_weight_zero(rows):
    y, p, z = rows
    w = np.arange(y.size) % 3
    repeated = np.repeat(np.arange(y.size), w)
    expected = field_twin(y[repeated], p[repeated], z[repeated])
    assert metrics.field_calibration_error(y, p, z, sample_weight=w) == pytest.approx(expected, rel=1e-12)
    half = metrics.field_relative_calibration_error(y, p, z, sample_weight=w * 0.37)
    assert half == pytest.approx(relative_twin(y[repeated], p[repeated], z[repeated]), rel=1e-12)


def test_several_classes_by_target(rng):
    probability = rng.dirichlet([1, 1, 1], 200)
    outcome = rng.integers(0, 3, 200)
    z = rng.integers(0, 4, 200)
    top = probability.max(axis=1), (probability.argmax(axis=1) == outcome).astype(int)
    assert metrics.field_calibration_error(outcome, probability, z) == pytest.approx(field_twin(top[1], top[0], z))
    one = metrics.field_calibration_error(outcome, probability, z, target=2)
    assert one == pytest.approx(field_twin((outcome == 2).astype(int), probability[:, 2], z))

"""P-values of cells: bounds, symmetry, degenerate cells, false alarms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from miscal.data.target import TargetData
from miscal.stats.binomial import cell_p_values
from miscal.stats.cell_sums import CellSums, CellTestSettings, rows_of_cells
from tests.reference_sums import sums_of_rows

probabilities = st.lists(st.integers(0, 64).map(lambda k: k / 64), min_size=1, max_size=40)


def cell(p, y, weight=None, cluster=None):
    p = np.asarray(p, dtype=float)
    return rows_of_cells(
        np.zeros(p.size, dtype=np.int64), 1, TargetData(p, np.asarray(y, dtype=float), weight=weight, cluster=cluster)
    )


def counted(mean, variance, size, events):
    array = np.atleast_1d
    return CellSums(array(size), array(size), array(size), array(mean), array(events), array(variance), array(variance))


def alarms_allowed(trials, level):
    """The largest count that a valid test reaches with probability above 1e-6."""
    return binom.isf(1e-6, trials, level)


@given(probabilities, st.data())
@settings(deadline=None, max_examples=150)
def test_p_values_are_symmetric_under_swapping_outcomes(p, data):
    p = np.array(p)
    y = np.array(data.draw(st.lists(st.integers(0, 1), min_size=p.size, max_size=p.size)), dtype=float)
    rows, swapped = cell(p, y), cell(1 - p, 1 - y)
    one = cell_p_values(sums_of_rows(rows), CellTestSettings(rows=rows)).p_value[0]
    other = cell_p_values(sums_of_rows(swapped), CellTestSettings(rows=swapped)).p_value[0]
    assert one == pytest.approx(other, rel=1e-12, abs=1e-300)
    assert 0 <= one <= 1
    if p.sum() != p.size / 2:  # at exactly half there is no rarer side to match on
        one = cell_p_values(sums_of_rows(rows), CellTestSettings()).p_value[0]
        other = cell_p_values(sums_of_rows(swapped), CellTestSettings()).p_value[0]
        assert one == pytest.approx(other, rel=1e-9, abs=1e-300)
        assert 0 <= one <= 1


@given(probabilities)
@settings(deadline=None, max_examples=100)
def test_p_values_fall_as_the_gap_grows(p):
    p = np.array(p)
    sums = sums_of_rows(cell(p, np.zeros(p.size)))
    count = np.arange(p.size + 1.0)
    full = np.ones(count.size)
    many = CellSums(*(getattr(sums, name)[0] * full for name in ("rows", "weight", "weight2", "predicted")), count,
                sums.variance[0] * full, full)  # fmt: skip
    found = cell_p_values(many, CellTestSettings()).p_value
    above = found[count >= p.sum()]
    below = found[count <= p.sum()]
    assert (np.diff(above) <= 1e-12).all()
    assert (np.diff(below) >= -1e-12).all()


@pytest.mark.parametrize("size", [450, 3000, 10**6, 10**9])
def test_p_values_fall_across_the_border_of_the_normal(size):
    mean, variance = 0.49 * size, 0.2 * size
    count = np.unique(np.round(mean + np.linspace(-5, 5, 2001) * math.sqrt(variance)))
    full = np.ones(count.size)
    found = cell_p_values(counted(mean * full, variance * full, size * full, count), CellTestSettings())
    assert {"normal", "matched binomial"} == set(found.method.tolist())
    assert (np.diff(found.p_value[count >= mean]) <= 0).all()
    assert (np.diff(found.p_value[count <= mean]) >= 0).all()


def test_certain_predictions_are_right_or_wrong():
    for rows_given in (False, True):
        for p, y, expected in (([0, 0, 1], [0, 0, 1], 1.0), ([0, 0, 1], [0, 1, 1], 0.0), ([0, 0], [0, 1], 0.0)):
            rows = cell(p, y)
            found = cell_p_values(sums_of_rows(rows), CellTestSettings(rows=rows if rows_given else None))
            assert found.p_value.tolist() == [expected]
            assert found.method.tolist() == ["certain predictions"]


def test_poisson_limit():
    from scipy.stats import poisson

    # A hundred billion rows of probability 1e-11 or so: Σp² is lost beside Σp.
    for count in (0, 1, 5, 12):
        found = cell_p_values(counted(1.0, 1.0, 1e11, float(count)), CellTestSettings()).p_value[0]
        expected = min(1, 2 * min(poisson.cdf(count, 1), poisson.sf(count - 1, 1)))
        assert found == pytest.approx(expected, rel=1e-9)


def test_more_events_than_matched_trials_are_rare_but_possible():
    # One likely row and nine hopeless ones: N is near 1, yet four events can happen.
    p = np.array([0.9] + [0.01] * 9)
    rows = cell(p, np.arange(10) < 4)
    exact = cell_p_values(sums_of_rows(rows), CellTestSettings(rows=rows)).p_value[0]
    matched = cell_p_values(sums_of_rows(rows), CellTestSettings()).p_value[0]
    assert 0 < exact <= matched < 0.05


def test_empty_cells_have_no_p_value():
    rows = rows_of_cells(np.array([0, 2]), 4, TargetData(np.array([0.5, 0.5]), np.array([0.0, 1.0])))
    found = cell_p_values(sums_of_rows(rows), CellTestSettings())
    assert np.isnan(found.p_value).tolist() == [False, True, False, True]
    assert found.method.tolist()[1] == "empty"


def test_aggregated_rows_are_their_trials():
    p, y = np.array([0.2, 0.2, 0.4]), np.array([1.0, 0.0, 0.0])
    count = np.array([3, 5, 4])
    folded = rows_of_cells(np.zeros(3, dtype=np.int64), 1, TargetData(p, y, count=count))
    unfolded = cell(np.repeat(p, count), np.repeat(y, count))
    for null in ("bernoulli", "residual"):
        one = cell_p_values(sums_of_rows(folded), CellTestSettings(rows=folded, null=null)).p_value
        other = cell_p_values(sums_of_rows(unfolded), CellTestSettings(rows=unfolded, null=null)).p_value
        assert np.array_equal(one, other, equal_nan=True)


@given(probabilities, st.floats(0.01, 100))
@settings(deadline=None, max_examples=50)
def test_equal_weights_are_no_weights(p, weight):
    p = np.array(p)
    y = (np.arange(p.size) % 3 == 0).astype(float)
    assume(abs(p.sum() - p.size / 2) > 1e-6 * p.size)  # at half, rounding chooses the side that is matched
    plain = cell(p, y)
    scaled = cell(p, y, weight=np.full(p.size, weight))
    one = cell_p_values(sums_of_rows(plain), CellTestSettings())
    other = cell_p_values(sums_of_rows(scaled), CellTestSettings(weighted=True))
    assert one.p_value[0] == pytest.approx(other.p_value[0], rel=1e-6, abs=1e-12)


def test_small_weighted_cells_are_simulated_or_not_judged():
    generator = np.random.default_rng(0)
    p = np.full(60, 0.1)
    w = generator.lognormal(0, 1, 60)
    rows = cell(p, np.arange(60) < 8, weight=w)
    sums = sums_of_rows(rows)
    bare = cell_p_values(sums, CellTestSettings(weighted=True))
    assert np.isnan(bare.p_value[0])
    assert bare.method.tolist() == ["too small to judge"]
    found = cell_p_values(sums, CellTestSettings(weighted=True, rows=rows), draws=9999)
    assert found.method.tolist() == ["simulation"]
    draws = (generator.random((20000, 60)) < p) @ w
    truth = 2 * min(np.mean(draws <= sums.observed[0]), np.mean(draws >= sums.observed[0]))
    # Early stopping leaves at least 20 draws in the smaller tail: a relative error of 1/√20, four times over.
    assert found.p_value[0] == pytest.approx(truth, rel=0.9)
    assert found.p_value[0] == cell_p_values(sums, CellTestSettings(weighted=True, rows=rows), draws=9999).p_value[0]


@pytest.mark.parametrize("kind", ["exact", "matched", "weighted", "simulated"])
def test_false_alarms_of_calibrated_cells(kind):
    generator = np.random.default_rng(17)
    cells, size = 4000, {"exact": 40, "matched": 60, "weighted": 400, "simulated": 30}[kind]
    p = generator.beta(1, 8, cells * size)
    y = (generator.random(p.size) < p).astype(float)
    weight = generator.lognormal(0, 0.3, p.size) if kind in {"weighted", "simulated"} else None
    rows = rows_of_cells(np.repeat(np.arange(cells), size), cells, TargetData(p, y, weight=weight))
    given_rows = rows if kind in {"exact", "simulated"} else None
    found = cell_p_values(
        sums_of_rows(rows), CellTestSettings(weighted=weight is not None, rows=given_rows), draws=999
    ).p_value
    assert np.isnan(found).mean() < 0.2
    tested = found[~np.isnan(found)]
    for level in (0.05, 0.01):
        # The normal of a weighted sum with 25 events is a little off in its tails: a quarter more is tolerated there.
        allowed = alarms_allowed(tested.size, level * (1.25 if kind == "weighted" else 1.0))
        assert np.count_nonzero(tested <= level) <= allowed
    # And it is not idle: at least a third of what continuous p-values would give.
    assert np.count_nonzero(tested <= 0.05) >= binom.ppf(1e-6, tested.size, 0.05 / 3)


def test_false_alarms_with_clusters():
    generator = np.random.default_rng(23)
    cells, clusters, inside = 1500, 60, 5
    size = clusters * inside
    p = np.repeat(generator.beta(3, 7, cells * clusters), inside)
    # All rows of a cluster share one outcome: the variance of a cell's sum is five times the Bernoulli one.
    y = np.repeat(generator.random(cells * clusters) < p[::inside], inside).astype(float)
    cluster = np.repeat(np.arange(cells * clusters), inside)
    rows = rows_of_cells(np.repeat(np.arange(cells), size), cells, TargetData(p, y, cluster=cluster))
    sums = sums_of_rows(rows)
    naive = cell_p_values(sums, CellTestSettings()).p_value
    found = cell_p_values(sums, CellTestSettings(null="residual", rows=rows)).p_value
    assert np.count_nonzero(naive <= 0.05) > 0.3 * cells
    assert np.count_nonzero(found <= 0.05) <= alarms_allowed(cells, 0.055)
    assert np.count_nonzero(found <= 0.05) >= binom.ppf(1e-6, cells, 0.04)


def test_false_alarms_when_negatives_were_down_sampled():
    generator = np.random.default_rng(29)
    cells, size = 1500, 4000
    p = generator.beta(1, 40, cells * size)
    y = (generator.random(p.size) < p).astype(float)
    kept = (y == 1) | (generator.random(p.size) < 0.1)
    codes = np.repeat(np.arange(cells), size)[kept]
    weight = np.where(y == 1, 1.0, 10.0)[kept]
    rows = rows_of_cells(codes, cells, TargetData(p[kept], y[kept], weight=weight))
    sums = sums_of_rows(rows)
    sums = replace(sums, variance=sums.residual2)  # not that of the outcomes
    found = cell_p_values(
        sums, CellTestSettings(weighted=True, null="residual", rows=rows, outcome_weights=True)
    ).p_value
    assert not np.isnan(found).any()
    assert np.count_nonzero(found <= 0.05) <= alarms_allowed(cells, 0.06)
    assert np.count_nonzero(found <= 0.05) >= binom.ppf(1e-6, cells, 0.04)


def test_sign_flips_never_pass_their_own_scale():
    rows = cell(np.zeros(6), np.ones(6))
    found = cell_p_values(sums_of_rows(rows), CellTestSettings(null="residual", rows=rows, binary=False))
    assert found.method.tolist() == ["sign flips"]
    assert found.p_value[0] >= 2**-5
    rare = cell(np.full(50, 0.005), np.zeros(50))
    assert cell_p_values(sums_of_rows(rare), CellTestSettings(null="residual", rows=rare)).method.tolist() == [
        "too small to judge"
    ]

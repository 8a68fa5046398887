"""Aggregates, walks, maxima, intervals and weights: laws, false alarms and coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from miscal.aggregate.in_memory import CumulativeRange
from miscal.codes.inference import Method
from miscal.data.target import TargetData
from miscal.stats.binomial import cell_p_values
from miscal.stats.cell_sums import CellSums, CellTestSettings, rows_of_cells
from miscal.stats.intervals import agree_with_tests, cell_gap_intervals
from miscal.stats.isotonic import assign_folds, cross_fitted_score
from miscal.stats.kuiper import RANGE_MEAN, brownian_range_isf, brownian_range_p, kuiper_p_value
from miscal.stats.metric_null import PooledError, aggregate_null, max_statistic_p, seminorm_interval, summary_of_draws
from miscal.stats.multiplicity import adjusted_z, holm, minimum_detectable_gap
from miscal.stats.null_model import has_outcome_weights
from tests.reference_sums import sums_of_rows


def span(rows):
    walk = np.cumsum(rows.residuals())[rows.offsets[1:] - 1]
    total = rows.rows if rows.weight is None else rows.weight.sum()
    return (max(walk.max(), 0.0) - min(walk.min(), 0.0)) / total


def walk_of(value, *, weight, variance, distinct):
    total = value * weight
    return CumulativeRange(total / weight, weight, variance, events=0.0, n_distinct=distinct)


def unweighted(size, mean, variance, events):
    size, mean, variance, events = (np.atleast_1d(np.asarray(a, dtype=float)) for a in (size, mean, variance, events))
    return CellSums(size, size, size, mean, events, variance, variance)


# ------------------------------------------------------------------------------------------------- adjustment
@given(st.lists(st.one_of(st.floats(0, 1), st.just(math.nan)), max_size=30))
def test_holm_lies_between_the_p_value_and_bonferroni(p):
    p = np.array(p)
    found = holm(p)
    tested = ~np.isnan(p)
    assert np.array_equal(np.isnan(found), ~tested)
    assert (found[tested] >= p[tested]).all()
    assert (found[tested] <= np.minimum(1, p[tested] * tested.sum())).all()
    assert np.array_equal(holm(p[::-1]), found[::-1], equal_nan=True)


def test_a_minimum_detectable_gap_is_found_four_times_in_five():
    generator = np.random.default_rng(1)
    se, tests = 0.01, 200
    gap = minimum_detectable_gap(np.array([se]), tests)[0]
    found = np.abs(gap + se * generator.normal(size=20_000)) / se > adjusted_z(tests)
    assert found.mean() == pytest.approx(0.8, abs=6 * math.sqrt(0.16 / 20_000) + 0.001)


# ------------------------------------------------------------------------------------------------- aggregates
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("null", ["bernoulli", "residual"])
def test_false_alarms_of_the_expected_error(weighted, null):
    generator = np.random.default_rng(31)
    sets, cells, size, alarms = 300, 15, 1200, 0
    for _ in range(sets):
        p = generator.beta(2, 10, size)
        codes = np.minimum((p * 30).astype(np.int64), cells - 1)
        weight = generator.gamma(3, 1, size) if weighted else None
        y = (generator.random(size) < p).astype(float)
        rows = rows_of_cells(codes, cells, TargetData(p, y, weight=weight))
        given_rows = rows if null == "residual" else None
        sums, how = sums_of_rows(rows), CellTestSettings(weighted=weighted, null=null, rows=given_rows)
        found = aggregate_null(sums, PooledError(2.0, sums.weight), how, draws=99)
        alarms += found.p_value <= 0.05
    assert alarms <= binom.isf(1e-6, sets, 0.05)
    assert alarms >= binom.ppf(1e-6, sets, 0.04)


def test_blocks_of_draws_change_nothing(monkeypatch):
    import miscal.stats.metric_null as module

    sums = unweighted(np.full(40, 50.0), np.full(40, 3.0), np.full(40, 2.7), np.arange(40) % 7)
    whole = aggregate_null(sums, PooledError(1.0, sums.weight), CellTestSettings())
    monkeypatch.setattr(module, "BLOCK_VALUES", 90)
    assert aggregate_null(sums, PooledError(1.0, sums.weight), CellTestSettings()) == whole
    assert aggregate_null(sums, PooledError(1.0, sums.weight), CellTestSettings(random_state=1)) != whole


def test_words_at_the_end_of_the_scale():
    assert summary_of_draws(9.0, np.arange(9.0), method=Method.SIMULATION).p_value == 0.1
    assert summary_of_draws(8.0, np.arange(9.0), method=Method.SIMULATION).p_value == 0.2
    assert math.isnan(summary_of_draws(math.nan, np.arange(9.0), method=Method.SIMULATION).p_value)


def test_perfect_certain_predictions_have_value_and_floor_zero():
    sums = unweighted([10, 10, 0], [0, 10, 0], [0, 0, 0], [0, 10, 0])
    found = aggregate_null(sums, PooledError(1.0, sums.weight), CellTestSettings(), draws=99)
    assert (found.value, found.noise_floor, found.p_value) == (0.0, 0.0, 1.0)


def test_interval_of_a_seminorm_covers():
    generator = np.random.default_rng(37)
    covered, sets = 0, 200
    for _ in range(sets):
        p = generator.uniform(0.05, 0.6, 800)
        truth = np.clip(p + np.where(p < 0.3, 0.05, -0.04), 0, 1)
        codes = (p * 10).astype(np.int64)
        rows = rows_of_cells(codes, 6, TargetData(p, (generator.random(800) < truth).astype(float)))
        real = np.abs(np.bincount(codes, p - truth, 6)).sum() / 800
        sums = sums_of_rows(rows)
        low, high = aggregate_null(sums, PooledError(1.0, sums.weight), CellTestSettings(), draws=199).interval
        covered += low <= real <= high
    assert covered >= binom.ppf(1e-6, sets, 0.95)


def test_an_interval_that_leaves_out_0_is_an_error_beyond_its_noise():
    """Where few events happened, the noise of what happened is too small: no cell of none is known to be quiet."""
    generator = np.random.default_rng(38)
    rows, cells, rate = 400, 15, 0.002
    expected = np.full(cells, rows * rate)
    for _ in range(200):
        events = generator.binomial(rows, rate, cells)
        sums = unweighted(np.full(cells, rows), expected, expected * (1.0 - rate), events)
        found = aggregate_null(sums, PooledError(1.0, sums.weight), CellTestSettings(), draws=199)
        assert found.interval[0] == 0.0 or found.value > found.quantile


# ------------------------------------------------------------------------------------------------------ walks
def test_brownian_range_is_used_where_it_may_be():
    sd = math.sqrt(100.0) / 1000
    found = kuiper_p_value(walk_of(0.03, weight=1000, variance=100, distinct=200), CellTestSettings(), events=25)
    assert found.method == "Brownian range"
    assert found.p_value == brownian_range_p(0.03 / sd)
    assert found.noise_floor == pytest.approx(RANGE_MEAN * sd)
    assert found.quantile == pytest.approx(brownian_range_isf(0.05) * sd)
    few = kuiper_p_value(walk_of(0.03, weight=1000, variance=100, distinct=500), CellTestSettings(), events=24)
    assert math.isnan(few.p_value)
    assert few.method == "too small to judge"
    tied = kuiper_p_value(walk_of(0.03, weight=1000, variance=100, distinct=20), CellTestSettings(), events=200)
    assert tied.method == "Brownian range, conservative with ties"
    assert (
        kuiper_p_value(walk_of(0.0, weight=5, variance=0, distinct=500), CellTestSettings(), events=99).p_value == 1.0
    )


@pytest.mark.parametrize("kind", ["rows", "ties", "weights", "flips", "clusters"])
def test_false_alarms_of_the_kuiper_walk(kind):
    generator = np.random.default_rng(41)
    sets, size, alarms = 300, 500, 0
    for _ in range(sets):
        p = np.round(generator.beta(2, 8, size), 2)
        y = (generator.random(size) < p).astype(float)
        cluster = weight = None
        if kind == "clusters":
            p = np.repeat(p[::5], 5)
            y, cluster = np.repeat(y[::5], 5), np.repeat(np.arange(100), 5)
            y = np.repeat(generator.random(100) < p[::5], 5).astype(float)
        if kind == "weights":
            weight = generator.gamma(2, 1, size)
        codes = np.unique(p, return_inverse=True)[1]
        rows = rows_of_cells(codes, codes.max() + 1, TargetData(p, y, weight=weight, cluster=cluster))
        ties = sums_of_rows(rows) if kind == "ties" else None
        null = "residual" if kind in {"flips", "clusters"} else "bernoulli"
        given_rows = None if kind == "ties" else rows
        walk = walk_of(span(rows), weight=1.0, variance=1.0, distinct=rows.cells)
        found = kuiper_p_value(walk, CellTestSettings(null=null, rows=given_rows), events=p.sum(), ties=ties, draws=99)
        alarms += found.p_value <= 0.05
    assert alarms <= binom.isf(1e-6, sets, 0.05)
    assert alarms >= binom.ppf(1e-6, sets, 0.035)


# ----------------------------------------------------------------------------------------------------- maxima
def test_early_stopping_saves_draws_and_keeps_small_p_values():
    values = np.random.default_rng(0).normal(size=999)
    asked = []

    def block(first, count):
        asked.append(count)
        return values[first : first + count]

    full = max_statistic_p(-1.0, block, at_least=999)
    assert sum(asked) == 999
    asked.clear()
    early = max_statistic_p(-1.0, block)
    assert sum(asked) == 200
    assert early.p_value == (1 + np.count_nonzero(values[:200] >= -1)) / 201
    assert early.p_value == pytest.approx(full.p_value, abs=0.1)
    assert max_statistic_p(2.5, block) == max_statistic_p(2.5, block, at_least=999)


# -------------------------------------------------------------------------------------------------- intervals
@pytest.mark.parametrize("events", [0, 1, 5, 30, 60, 99, 100])
def test_equal_probabilities_give_clopper_and_pearson(events):
    from scipy.stats import binomtest

    low, high = cell_gap_intervals(unweighted(100, 30, 21, events), CellTestSettings(), tests=1)
    exact = binomtest(events, 100).proportion_ci(0.95, "exact")
    assert low[0] == pytest.approx(0.3 - exact.high, abs=1e-8)
    assert high[0] == pytest.approx(0.3 - exact.low, abs=1e-8)


@given(st.integers(5, 3000), st.floats(0.002, 0.998), st.floats(0.3, 1), st.data())
@settings(deadline=None, max_examples=100)
def test_an_interval_holds_zero_exactly_when_its_test_does_not_reject(size, rate, ratio, data):
    events = data.draw(st.integers(0, size))
    mean = size * rate
    sums = unweighted(size, mean, ratio * mean * (1 - rate), events)
    p = cell_p_values(sums, CellTestSettings()).p_value[0]
    low, high = (bound[0] for bound in cell_gap_intervals(sums, CellTestSettings(), tests=1))
    gap = (mean - events) / size
    assert low <= gap <= high
    if abs(p - 0.05) > 0.01:  # around the level, Wilson's formula and the skewness term may differ
        assert (low > 0 or high < 0) == (p < 0.05)


@pytest.mark.parametrize("weighted", [False, True])
def test_simultaneous_intervals_cover_all_cells(weighted):
    generator = np.random.default_rng(43)
    sets, cells, size, missed = 150, 20, 300, 0
    for _ in range(sets):
        p = generator.beta(1, 15, cells * size)
        truth = np.clip(1.4 * p, 0, 1)
        weight = generator.lognormal(0, 0.5, p.size) if weighted else None
        codes = np.repeat(np.arange(cells), size)
        rows = rows_of_cells(
            codes, cells, TargetData(p, (generator.random(p.size) < truth).astype(float), weight=weight)
        )
        sums = sums_of_rows(rows)
        low, high = cell_gap_intervals(sums, CellTestSettings(weighted=weighted), cells)
        real = np.bincount(codes, (p - truth) * (1 if weight is None else weight), cells) / sums.weight
        missed += ((real < low) | (real > high)).any()
    assert missed <= binom.isf(1e-6, sets, 0.05)


@pytest.mark.parametrize("clusters", [30, 200])
def test_an_interval_with_clusters_is_its_test_read_the_other_way(clusters):
    rng = np.random.default_rng(clusters)
    seen = set()
    for _ in range(300):
        p = np.clip(rng.beta(2, 5, 400), 0.05, 0.95)
        y = (rng.random(400) < p + rng.uniform(-0.2, 0.2)).astype(float)
        rows = rows_of_cells(np.zeros(400, dtype=np.int64), 1, TargetData(p, y, cluster=np.arange(400) % clusters))
        sums = sums_of_rows(rows)
        test = cell_p_values(sums, CellTestSettings(null="residual", rows=rows)).p_value[0]
        low, high = cell_gap_intervals(sums, CellTestSettings(null="residual", rows=rows, model_variance=True), tests=1)
        assert (low[0] > 0 or high[0] < 0) == (test < 0.05)
        seen.add(bool(test < 0.05))
    assert seen == {True, False}


def test_two_clusters_exclude_nothing():
    p, y = np.full(4, 0.5), np.array([1.0, 1.0, 0.0, 1.0])
    rows = rows_of_cells(np.zeros(4, dtype=np.int64), 1, TargetData(p, y, cluster=np.array([0, 0, 1, 1])))
    low, high = cell_gap_intervals(sums_of_rows(rows), CellTestSettings(null="residual", rows=rows), tests=1)
    assert (low[0], high[0]) == (-0.5, 0.5)


def test_intervals_exclude_0_exactly_where_the_adjusted_test_rejects():
    """Holm rejects more than Bonferroni's intervals, and a cell that was not judged excludes nothing."""
    low, high = np.array([0.1, -0.01, 0.02, -0.3, 0.1]), np.array([0.3, 0.2, 0.2, 0.1, 0.4])
    gap, adjusted = np.array([0.2, 0.1, 0.1, -0.1, 0.2]), np.array([0.01, 0.04, 0.06, 0.05, np.nan])
    low, high = agree_with_tests(low, high, gap, adjusted, 0.05)
    assert ((low > 0) | (high < 0)).tolist() == [True, True, False, True, False]
    assert (low <= gap).all()
    assert (gap <= high).all()


# ---------------------------------------------------------------------------------------------------- weights
def weights_depend_on_outcome(weight, outcome, score=None):
    outcome = np.asarray(outcome).astype(np.uint8)
    score = np.full(outcome.size, 0.5) if score is None else score
    return has_outcome_weights(TargetData(score, outcome, None if weight is None else np.asarray(weight, float)), None)


def test_weights_that_tell_the_outcome_are_detected():
    y = np.array([0, 1, 0, 1, 0])
    assert weights_depend_on_outcome(np.where(y == 1, 1.0, 10.0), y)
    assert weights_depend_on_outcome(np.where(y == 1, 1.0, 10.0) * (np.arange(5) > 0), y)  # a row of weight 0
    assert not weights_depend_on_outcome(None, y)
    assert not weights_depend_on_outcome(np.ones(5), y)
    assert not weights_depend_on_outcome([1, 2, 1, 2, 3], y)
    assert not weights_depend_on_outcome([1, 2, 1], [0, 1, 0])  # one event only: nothing to be constant
    rare = np.zeros(100_000)
    rare[[5, 77_777]] = 1
    assert weights_depend_on_outcome(np.where(rare == 1, 1.0, 50.0), rare)


@pytest.mark.parametrize("uneven", ["stratum", "jitter", "lognormal", "score"])
def test_uneven_weights_that_know_the_outcome_are_detected_and_others_are_not(uneven):
    rng = np.random.default_rng(16)
    alarms = 0
    for _ in range(50):
        p = rng.beta(2.0, 5.0, 3000)
        y = rng.random(3000) < p
        factor = {
            "stratum": np.where(rng.random(3000) < 0.5, 1.3, 1.0),
            "jitter": rng.uniform(0.95, 1.05, 3000),
            "lognormal": np.exp(rng.normal(size=3000)),
            "score": 1.0 / (0.05 + p),
        }[uneven]
        alarms += weights_depend_on_outcome(factor, y, p)
        assert weights_depend_on_outcome(factor * np.where(y, 10.0, 1.0), y, p)
        assert weights_depend_on_outcome(factor * np.where(y, 1.0, 10.0), y, p)
    assert alarms <= 1  # 50 tests at one in a thousand


# --------------------------------------------------------------------------------------------- beyond the score
def test_beyond_score_removes_a_global_error_and_keeps_a_local_one():
    generator = np.random.default_rng(47)
    size = 40_000
    p = generator.beta(2, 6, size)
    group = generator.random(size) < 0.1
    truth = np.clip(p**1.5 + 0.1 * group, 0, 1)
    y = (generator.random(size) < truth).astype(float)
    left = cross_fitted_score(TargetData(p, y))
    elsewhere = ~group & (p < 0.5)
    assert abs((left - y)[group].mean()) > 0.07
    assert abs((p - y)[elsewhere].mean()) > 0.05
    assert abs((left - y)[elsewhere].mean()) < 0.02
    assert np.array_equal(left, cross_fitted_score(TargetData(p, y)))
    assert not np.array_equal(left, cross_fitted_score(TargetData(p, y), random_state=1))


def test_folds_are_even_and_never_split_a_cluster():
    fold = assign_folds(103, 5)
    assert sorted(np.bincount(fold).tolist()) == [20, 20, 21, 21, 21]
    cluster = np.random.default_rng(0).integers(0, 12, 103)
    fold = assign_folds(103, 5, cluster=cluster)
    assert all(np.unique(fold[cluster == name]).size == 1 for name in range(12))


def test_beyond_score_takes_edge_cases():
    assert cross_fitted_score(TargetData(np.array([0.3]), np.array([1.0]))).tolist() == [0.3]  # nothing to learn from
    weightless = TargetData(np.full(6, 0.3), np.tile([1.0, 0.0], 3), np.zeros(6))
    assert np.isfinite(cross_fitted_score(weightless)).all()


def test_an_interval_of_an_error_does_not_begin_below_nothing():
    assert seminorm_interval(0.03, 0.04) == (0.0, 0.03 + 0.04)
    assert seminorm_interval(0.05, 0.04) == (0.05 - 0.04, 0.05 + 0.04)
    found = summary_of_draws(0.01, np.linspace(0.0, 0.05, 99), method=Method.SIMULATION)
    assert found.interval[0] == 0.0

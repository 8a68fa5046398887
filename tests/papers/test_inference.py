"""Naive twins of the rules of inference: written from the formulas, in fractions and plain loops."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from miscal.data.target import TargetData
from miscal.stats import metric_null
from miscal.stats.binomial import cell_p_values
from miscal.stats.cell_sums import CellTestSettings, rows_of_cells
from miscal.stats.isotonic import assign_folds, cross_fitted_score
from miscal.stats.kuiper import brownian_range_isf, brownian_range_p, cumulative_ranges, simulated_kuiper
from miscal.stats.metric_null import PooledError, aggregate_null
from miscal.stats.multiplicity import holm
from miscal.stats.null_draws import cell_draws
from tests.reference_sums import sums_of_rows


def enumerated_two_sided(probabilities, count):
    """Poisson-binomial by enumerating every outcome, in exact fractions."""
    exact = [Fraction(p) for p in probabilities]
    lower = upper = Fraction(0)
    for outcome in product((0, 1), repeat=len(exact)):
        mass = math.prod((p if y else 1 - p for p, y in zip(exact, outcome, strict=True)), start=Fraction(1))
        lower += mass if sum(outcome) <= count else 0
        upper += mass if sum(outcome) >= count else 0
    return float(min(Fraction(1), 2 * min(lower, upper)))


def convolved_two_sided(probabilities, count):
    """Poisson-binomial by convolution in exact fractions."""
    mass = [Fraction(1)]
    for p in map(Fraction, probabilities):
        mass = [
            (mass[k] * (1 - p) if k < len(mass) else 0) + (mass[k - 1] * p if k else 0) for k in range(len(mass) + 1)
        ]
    return float(min(Fraction(1), 2 * min(sum(mass[: count + 1]), sum(mass[count:]))))


def one_cell(probabilities, outcomes, weight=None):
    p = np.asarray(probabilities, dtype=float)
    return rows_of_cells(
        np.zeros(p.size, dtype=np.int64), 1, TargetData(p, np.asarray(outcomes, dtype=float), weight=weight)
    )


@pytest.mark.parametrize("seed", range(12))
def test_exact_p_value_is_that_of_enumeration(seed):
    generator = np.random.default_rng(seed)
    p = np.append(generator.beta(0.5, 2, 6), [0.0, 1.0, 0.5])
    count = int(generator.integers(0, 10))
    y = np.zeros(9)
    y[:count] = 1
    rows = one_cell(p, y)
    found = cell_p_values(sums_of_rows(rows), CellTestSettings(rows=rows))
    assert found.method[0] == "exact"
    assert found.p_value[0] == pytest.approx(enumerated_two_sided(p, count), rel=1e-13, abs=0)


@pytest.mark.parametrize(("rate", "count"), [(0.005, 4), (0.3, 0), (0.3, 60), (0.9, 20), (0.02, 60)])
def test_exact_p_value_keeps_its_precision_in_far_tails(rate, count):
    p = np.linspace(0.5 * rate, min(1.5 * rate, 0.999), 60)
    rows = one_cell(p, np.arange(60) < count)
    found = cell_p_values(sums_of_rows(rows), CellTestSettings(rows=rows)).p_value[0]
    assert found == pytest.approx(convolved_two_sided(p, count), rel=1e-12, abs=0)


def test_matched_binomial_is_the_binomial_when_probabilities_are_equal():
    for count in (0, 1, 7, 30):
        sums = sums_of_rows(one_cell(np.full(30, 0.125), np.arange(30) < count))
        found = cell_p_values(sums, CellTestSettings())
        assert found.method[0] == "matched binomial"
        assert found.p_value[0] == pytest.approx(convolved_two_sided([0.125] * 30, count), rel=1e-9)


@pytest.mark.parametrize("size", [300, 1500])
def test_large_cells_are_near_convolution(size):
    # 1,500 rows have more than 200 events on both sides: the normal with its skewness term and, three deviations out,
    # the matched binomial. What is not matched is the third cumulant: it moves a tail by exp(|Δγ z³|/6).
    p = np.linspace(0.1, 0.7, size)
    mean, variance = p.sum(), (p * (1 - p)).sum()
    unmatched = abs((p * (1 - p) * (1 - 2 * p)).sum() / variance**1.5 - (2 * variance / mean - 1) / math.sqrt(variance))
    mass = np.ones(1)
    for value in p:
        mass = np.convolve(mass, [1 - value, value])
    for z in (-4, -2.5, -1, 0, 1, 2.9, 3.1, 4):
        count = round(mean + z * math.sqrt(variance))
        truth = min(1.0, 2 * min(mass[: count + 1].sum(), mass[count:].sum()))
        found = cell_p_values(sums_of_rows(one_cell(p, np.arange(size) < count)), CellTestSettings()).p_value[0]
        assert abs(math.log(found / truth)) <= 1.2 * unmatched * max(abs(z), 1) ** 3 / 6 + 0.01


def test_many_rare_events_keep_their_skewness():
    from scipy.stats import binom

    # 210 events expected of 4,200: a plain normal test at 5e-7 raises false alarms at 7.1e-7. The skewness term leaves
    # what is of second order, γ²z⁴/24 with γ = .064 (twice that is allowed), and the binomial beyond it is exact.
    count = np.arange(130, 300)
    lower, upper = binom.cdf(count, 4200, 0.05), binom.sf(count - 1, 4200, 0.05)
    truth = np.minimum(1, 2 * np.minimum(lower, upper))
    cells = np.repeat(np.arange(count.size), 4200)
    y = (np.arange(4200)[None, :] < count[:, None]).astype(float).ravel()
    found = cell_p_values(
        sums_of_rows(rows_of_cells(cells, count.size, TargetData(np.full(y.size, 0.05), y))), CellTestSettings()
    )
    normal = found.method == "normal"
    assert set(found.method.tolist()) == {"normal", "matched binomial"}
    assert np.abs(np.log(found.p_value / truth))[normal].max() < 0.064**2 * 3**4 / 24 * 2
    assert np.abs(np.log(found.p_value / truth))[~normal].max() < 1e-9


def test_holm_is_the_literal_loop():
    generator = np.random.default_rng(3)
    p = np.round(generator.random(40) ** 4, 3)
    p[[3, 17]] = np.nan
    tested = [i for i in range(40) if not math.isnan(p[i])]
    expected, running = [math.nan] * 40, 0.0
    for step, index in enumerate(sorted(tested, key=lambda i: p[i])):
        running = max(running, min(1.0, (len(tested) - step) * p[index]))
        expected[index] = running
    assert np.array_equal(holm(p), expected, equal_nan=True)


# ------------------------------------------------------------------------------------------------ Brownian range
def test_brownian_range_series_agree_with_each_other_and_with_the_density():
    from scipy.integrate import quad
    from scipy.stats import norm

    def density(r):  # Feller (1951): 8 Σ (-1)^(k-1) k² φ(kr)
        return 8 * sum((-1) ** (k - 1) * k * k * norm.pdf(k * r) for k in range(1, 60))

    for x in (0.7, 1.2, 1.9999, 2.0001, 3.5):
        assert brownian_range_p(x) == pytest.approx(quad(density, x, 12, epsabs=1e-14, epsrel=1e-13)[0], abs=1e-12)
        assert brownian_range_p(x) + brownian_range_p(x, upper=False) == pytest.approx(1, abs=1e-15)
    assert brownian_range_p(np.nextafter(2, 0)) == pytest.approx(brownian_range_p(2.0), rel=1e-13)


def test_brownian_range_has_its_known_moments_and_percentage_points():
    x = np.linspace(0, 14, 280_001)
    survival = brownian_range_p(x)
    assert np.trapezoid(survival, x) == pytest.approx(2 * math.sqrt(2 / math.pi), abs=1e-9)
    # Feller: the second moment is 4 ln 2.
    assert np.trapezoid(2 * x * survival, x) == pytest.approx(4 * math.log(2), abs=1e-8)
    # The critical value of one test in 1,001 by Bonferroni at 5% (rules of inference): 4.37.
    assert brownian_range_isf(0.05 / 1001) == pytest.approx(4.37, abs=0.005)
    for level in (1e-12, 1e-3, 0.2, 0.5, 0.95, 1 - 1e-6):
        assert brownian_range_p(brownian_range_isf(level)) == pytest.approx(level, rel=1e-11)


def test_brownian_range_far_tails_keep_relative_precision():
    from scipy.special import ndtr

    # The first term of either series is all that is left in its tail.
    assert brownian_range_p(20.0) == pytest.approx(8 * ndtr(-20.0), rel=1e-12)
    small = 0.3
    first = 8 * (1 / small**2 + 1 / math.pi**2) * math.exp(-(math.pi**2) / (2 * small**2))
    assert brownian_range_p(small, upper=False) == pytest.approx(first, rel=1e-12)


def test_brownian_range_is_the_limit_of_simulated_walks():
    generator = np.random.default_rng(11)
    steps, walks = 2500, 4000
    total = np.cumsum(generator.choice([-1.0, 1.0], size=(walks, steps)), axis=1)
    span = (np.maximum(total.max(1), 0) - np.minimum(total.min(1), 0)) / math.sqrt(steps)
    for x in (1.0, 1.6, 2.5, 3.0):
        p = brownian_range_p(x)
        # Six standard errors, plus what a range observed at 2,500 steps falls short: 2·0.5826/√steps (Chernoff).
        short = 2 * 0.5826 / math.sqrt(steps)
        slack = 6 * math.sqrt(p * (1 - p) / walks)
        assert brownian_range_p(x + short) - slack <= np.mean(span >= x - 1e-9) <= p + slack


# ---------------------------------------------------------------------------------------------------- draws
def bernoulli_metric_draws(codes, cells, p, weight, draws, generator):
    values = []
    total = np.bincount(codes, weight, cells)
    predicted = np.bincount(codes, weight * p, cells)
    for _ in range(draws):
        y = generator.random(p.size) < p
        gap = np.abs(np.bincount(codes, weight * y, cells) - predicted)
        values.append(gap.sum() / total.sum())
    return np.array(values)


@pytest.mark.parametrize("weighted", [False, True])
def test_noise_floor_is_that_of_brute_force(weighted):
    generator = np.random.default_rng(5)
    p = generator.beta(1, 12, 3000)
    codes = generator.integers(0, 25, p.size)
    weight = generator.lognormal(0, 0.5, p.size) if weighted else np.ones(p.size)
    y = (generator.random(p.size) < p).astype(float)
    rows = rows_of_cells(codes, 25, TargetData(p, y, weight=weight if weighted else None))
    brute = bernoulli_metric_draws(codes, 25, p, weight, 2000, generator)
    for given in (None, rows):
        sums, how = sums_of_rows(rows), CellTestSettings(weighted=weighted, rows=given)
        found = aggregate_null(sums, PooledError(1.0, sums.weight), how, draws=1999)
        # Two means of about 2,000 draws each: five standard errors, and 1% for the matched shape.
        slack = 5 * brute.std() * math.sqrt(2 / 2000) + 0.01 * brute.mean()
        assert found.noise_floor == pytest.approx(brute.mean(), abs=slack)
        assert found.quantile == pytest.approx(np.quantile(brute, 0.95), rel=0.05)
        # The interval's noise is that of what happened: on calibrated rows the same, but for 199 draws of it.
        low, high = found.interval
        assert low == max(0.0, 2 * found.value - high)
        assert high - found.value == pytest.approx(found.quantile, rel=0.12)


@pytest.mark.parametrize("shape", [(0.5, 99.5, 50), (9, 1, 7), (1, 1, 3), (2, 3, 4000), (30, 1, 400)])
@pytest.mark.parametrize("weighted", [False, True])
def test_draws_have_the_mean_and_variance_of_the_rows(shape, weighted):
    generator = np.random.default_rng(8)
    a, b, size = shape
    cells, draws = 30, 4000
    p = generator.beta(a, b, cells * size)
    weight = generator.gamma(4, 1, p.size) if weighted else None
    rows = rows_of_cells(np.repeat(np.arange(cells), size), cells, TargetData(p, np.zeros(p.size), weight=weight))
    sums = sums_of_rows(rows)
    stream = cell_draws(sums, CellTestSettings(weighted=weighted))
    found = stream.block(0, draws)
    assert np.array_equal(stream.block(100, 7), found[100:107])
    assert found.min() >= 0
    assert (found <= sums.weight * (1 + 1e-12)).all()
    z = (found - sums.predicted) / np.sqrt(sums.variance)
    # 120,000 numbers: the mean within five standard errors of 0 and the variance of 1; keeping sums within [0, Σw]
    # moves them by a few percent in cells of three rows.
    slack = 0.04 if size < 10 else 0.01
    assert abs(z.mean()) < 5 / math.sqrt(z.size) + slack
    kurtosis = (z**4).mean()
    assert abs((z**2).mean() - 1) < 5 * math.sqrt(kurtosis / z.size) + slack


def test_sign_flips_are_all_sign_vectors():
    residual = np.array([0.3, -0.8, 0.5, 0.9])
    rows = rows_of_cells(np.array([0, 0, 1, 1]), 2, TargetData(np.zeros(4), residual))
    found = cell_draws(sums_of_rows(rows), CellTestSettings(null="residual", rows=rows)).block(0, 4000)
    expected = {
        tuple(np.round([s[0] * 0.3 - s[1] * 0.8, s[2] * 0.5 + s[3] * 0.9], 9)) for s in product((-1, 1), repeat=4)
    }
    assert {tuple(pair) for pair in np.round(found, 9)} == expected


def test_one_sign_a_cluster_moves_its_rows_together():
    rows = rows_of_cells(np.array([0, 1]), 2, TargetData(np.zeros(2), np.array([1.0, 1.0]), cluster=np.array([7, 7])))
    found = cell_draws(sums_of_rows(rows), CellTestSettings(null="residual", rows=rows)).block(0, 200)
    assert np.array_equal(found[:, 0], found[:, 1])
    assert set(found[:, 0]) == {-1.0, 1.0}


# ---------------------------------------------------------------------------------------------------- walks
def test_simulated_walk_is_brute_force_with_ties_and_weights(monkeypatch):
    generator = np.random.default_rng(2)
    p = np.round(generator.beta(1, 6, 400), 1)
    y = (generator.random(400) < p).astype(float)
    w = generator.integers(1, 4, 400).astype(float)
    order = np.argsort(p, kind="stable")
    last = np.append(np.flatnonzero(np.diff(p[order])), 399)

    def span(outcome):
        walk = np.cumsum((w * (outcome - p))[order])[last]
        return (max(walk.max(), 0) - min(walk.min(), 0)) / w.sum()

    brute = np.array([span(generator.random(400) < p) for _ in range(3000)])
    keys, codes = np.unique(p, return_inverse=True)
    rows = rows_of_cells(codes, keys.size, TargetData(p, y, weight=w))
    monkeypatch.setattr(metric_null, "ENOUGH_EXCEEDANCES", 3000)  # all draws are made
    found = simulated_kuiper(span(y), rows, CellTestSettings(), draws=2999)
    truth = np.mean(brute >= span(y) - 1e-12)
    assert found.p_value == pytest.approx(truth, abs=6 * math.sqrt(max(truth * (1 - truth), 0.01) / 1500))
    assert found.noise_floor == pytest.approx(brute.mean(), abs=6 * brute.std() / math.sqrt(1500))


def test_walk_range_of_cells_is_the_walk_over_tied_rows():
    predicted, observed = np.array([1.0, 2.0, 0.5]), np.array([[3.0, 0.0, 1.0], [1.0, 2.0, 0.5]])
    assert cumulative_ranges(observed - predicted).tolist() == [2.0, 0.0]


# --------------------------------------------------------------------------------------------- beyond the score
def test_beyond_score_is_isotonic_regression_of_the_other_folds():
    from sklearn.isotonic import IsotonicRegression

    generator = np.random.default_rng(4)
    score = np.round(generator.random(600), 2)
    y = (generator.random(600) < score**2).astype(float)
    w = generator.integers(1, 5, 600).astype(float)
    fold = assign_folds(600, 5, random_state=9)
    expected = np.empty(600)
    for index in range(5):
        model = IsotonicRegression(out_of_bounds="clip").fit(score[fold != index], y[fold != index], w[fold != index])
        expected[fold == index] = model.predict(score[fold == index])
    assert np.allclose(cross_fitted_score(TargetData(score, y, w), random_state=9), expected, atol=1e-12, rtol=0)

"""Any mean against naive twins: rates with exposure row by row, the usual noise of residuals, Student's test of it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import miscal
from miscal import metrics
from miscal.data.target import select_target
from miscal.stats.null_model import MIN_ROWS_PER_BIN, VARIANCE_BINS, ResidualVariance


def world(rows=900, seed=2):
    rng = np.random.default_rng(seed)
    exposure, rate = rng.uniform(0.1, 1.0, rows), rng.lognormal(-1.5, 0.6, rows)
    claims = rng.poisson(rate * exposure * rng.gamma(0.8, 1.25, rows))
    return claims, rate, exposure, rng.choice(list("abcde"), rows), rng.integers(18, 80, rows)


def predictions(claims, rate, exposure, region, age):
    columns = {"region": region, "age": age}
    return miscal.Predictions(claims, rate, response="count", exposure=exposure, columns=columns)


def test_levels_with_exposure_are_totals_over_totals():
    claims, rate, exposure, region, age = world()
    table = miscal.by_field(predictions(claims, rate, exposure, region, age), "region").table
    error = 0.0
    for place, level in enumerate(table["label"]):
        years = events = expected = 0.0
        for k in range(len(claims)):
            if region[k] == level:
                years, events, expected = years + exposure[k], events + claims[k], expected + rate[k] * exposure[k]
        assert table["weight"][place] == pytest.approx(years)
        assert table["observed"][place] == pytest.approx(events / years)
        assert table["predicted"][place] == pytest.approx(expected / years)
        assert table["events_off"][place] == pytest.approx(expected - events, abs=1e-9)
        assert table["ratio"][place] == pytest.approx(expected / events)
        error += abs(expected - events)
    value = miscal.by_field(predictions(claims, rate, exposure, region, age), "region").value
    assert value == pytest.approx(error / exposure.sum())
    weighted = metrics.field_calibration_error(claims / exposure, rate, region, sample_weight=exposure, response="real")
    assert weighted == pytest.approx(value)


def usual_twin(claims, rate, exposure):
    """Mean squared residual a unit of exposure, in bins of equally many rows by prediction."""
    bins = min(max(len(claims) // MIN_ROWS_PER_BIN, 1), VARIANCE_BINS)
    borders = sorted(set(np.quantile(rate, [k / bins for k in range(1, bins)])))
    squares, years = [0.0] * (len(borders) + 1), [0.0] * (len(borders) + 1)
    for y, p, e in zip(claims, rate, exposure, strict=True):
        place = sum(border < p for border in borders)
        squares[place] += (y - p * e) ** 2
        years[place] += e
    return borders, [s / e for s, e in zip(squares, years, strict=True)]


def test_the_usual_noise_is_that_of_rows_predicted_alike():
    claims, rate, exposure, region, age = world()
    p = predictions(claims, rate, exposure, region, age)
    spread = ResidualVariance.of(select_target(p))
    borders, values = usual_twin(claims, rate, exposure)
    np.testing.assert_allclose(p.units.back(spread.borders), borders)
    np.testing.assert_allclose(spread.values * p.units.scale**2, values, rtol=1e-9)


def test_a_level_is_judged_by_the_larger_of_its_own_noise_and_the_usual_one():
    claims, rate, exposure, region, age = world()
    table = miscal.by_field(predictions(claims, rate, exposure, region, age), "region").table
    borders, values = usual_twin(claims, rate, exposure)

    def usual(mean):
        return values[sum(border < mean for border in borders)]

    mean = sum(rate * exposure) / sum(exposure)
    every = sum((claims - rate * exposure) ** 2) / (usual(mean) * sum(exposure))
    for place, level in enumerate(table["label"]):
        inside = region == level
        y, p, e = claims[inside], rate[inside], exposure[inside]
        own, off, n = sum((y - p * e) ** 2), abs(sum(y - p * e)), inside.sum()
        floor = usual(sum(p * e) / sum(e)) * sum(e) * max(1.0, every)
        z = off / math.sqrt(max(own, floor))
        t = z * math.sqrt((n - 1) / (n - z * z))
        assert table["p_value"][place] == pytest.approx(2 * stats.t.sf(t, n - 1), rel=1e-9)


def test_expected_and_kuiper_errors_of_amounts():
    rng = np.random.default_rng(4)
    p = rng.lognormal(5.0, 0.7, 300)
    y = p * rng.lognormal(-0.5, 1.0, 300)
    edges = [0.0, 100.0, 200.0, 1000.0, 5000.0]
    expected = sum(
        abs(sum(b - a for a, b in zip(y, p, strict=True) if low < b <= high)) for low, high in pairwise(edges)
    ) / len(y)
    assert metrics.expected_calibration_error(y, p, bins=edges, response="real") == pytest.approx(expected)
    walk = [0.0]
    for k in np.argsort(p):
        walk.append(walk[-1] + (y[k] - p[k]) / len(y))
    assert metrics.kuiper_calibration_error(y, p, response="real") == pytest.approx(max(walk) - min(walk))


def test_bins_of_equal_width_reach_from_the_smallest_to_the_largest_prediction():
    y, p = np.array([0.0, 6.0, 9.0, 30.0]), np.array([2.0, 4.0, 11.0, 22.0])
    assert metrics.expected_calibration_error(y, p, bins=2, response="real") == pytest.approx((2.0 + 8.0) / 4)
    assert metrics.expected_calibration_error(-y, -p, bins=2, response="real") == pytest.approx((2.0 + 8.0) / 4)


def test_local_errors_of_numbers():
    rng = np.random.default_rng(6)
    p, x = rng.normal(3.0, 2.0, 60), rng.normal(size=(60, 1))
    y = p + rng.normal(size=60)
    found = metrics.local_calibration_error(y, p, x, bins=[-9.0, 3.0, 12.0], response="real", signed=True)
    for i in range(60):
        alike = (p <= 3.0) == (p[i] <= 3.0)
        k = np.exp(-np.abs(x[:, 0] - x[i, 0]) / 0.2) * alike
        assert found[i] == pytest.approx(sum(k * (p - y)) / sum(k), rel=1e-9, abs=1e-12)

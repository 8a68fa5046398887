"""by_field: every level listed, drawn towards its parent, and told apart from the others."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit

import miscal
from miscal.data.target import select_target
from miscal.metrics.field import shifted
from miscal.metrics.losses import in_the_large
from miscal.stats.cell_sums import CellSums
from miscal.stats.shrinkage import _between_level_variance, shrink_level_gaps


def predictions(rng, rows=6000, shift=None, levels=8, **columns):
    field = rng.integers(0, levels, rows)
    p = rng.beta(2, 6, rows)
    truth = expit(logit(p) + (0.0 if shift is None else shift[field]))
    y = rng.random(rows) < truth
    return miscal.Predictions(y, p, columns={"level": field.astype(str), "number": field, **columns})


def test_table_has_every_level_and_what_is_said_of_it(rng):
    p = predictions(rng)
    result = miscal.by_field(p, "level")
    table = result.table
    assert table["label"].tolist() == [str(k) for k in range(8)]
    for k in range(8):
        here = p.columns["number"].values == k
        assert table["rows"][k] == here.sum()
        assert table["events"][k] == p.outcome[here].sum()
        assert table["gap"][k] == pytest.approx(p.probability[here].mean() - p.outcome[here].mean(), abs=1e-12)
        assert table["ratio"][k] == pytest.approx(p.probability[here].sum() / p.outcome[here].sum())
    assert result.value == pytest.approx(
        miscal.metrics.field_calibration_error(p.outcome, p.probability, p.columns["level"])
    )
    assert 0 < result.extra["noise_share"] <= 1
    assert str(round(100 * result.extra["noise_share"])) in result.method or "All of it" in result.method


# ------------------------------------------------------------------------------------------------------ shrinkage
def posterior_twin(value, noise, parent, spreads):
    """Means and deviations of a Gaussian tree by conditioning one joint normal; the root has a flat prior."""
    size = value.size
    wide = 1e4
    covariance = np.full((size, size), wide)  # the root's variance is shared by all
    covariance += (parent[:, None] == parent[None, :]) * spreads[1] ** 2
    covariance += np.eye(size) * spreads[0] ** 2
    gain = covariance @ np.linalg.inv(covariance + np.diag(noise))
    return gain @ value, np.sqrt(np.diag(covariance - gain @ covariance))


def test_shrinkage_is_the_posterior_of_the_tree(rng):
    parent = np.repeat(np.arange(6), 5)
    shift = np.repeat(rng.normal(0, 0.6, 6), 5) + rng.normal(0, 0.4, 30)
    field = rng.integers(0, 30, 12_000)
    p = rng.beta(2, 6, field.size)
    y = rng.random(field.size) < expit(logit(p) - shift[field])
    data = miscal.Predictions(y, p, columns={"child": field, "top": parent[field]})
    result = miscal.by_field(data, "child", parent="top")
    tally = result.extra["tally"]
    np.testing.assert_allclose(tally.gap, result.table["gap"])
    (gap, low, high), spreads = shrink_level_gaps(CellSums.of(tally), tally.residual2, [parent])
    information = tally.variance
    value = tally.events_off / information
    noise = tally.residual2.sum() / tally.variance.sum() / information
    mean, deviation = posterior_twin(value, noise, parent, spreads)
    scale = information / tally.weight
    np.testing.assert_allclose(gap, mean * scale, atol=1e-5)
    np.testing.assert_allclose(high - low, 2 * 1.96 * deviation * scale, rtol=1e-3)
    np.testing.assert_allclose(result.table["shrunken"], gap, atol=0.02)  # there, after the common shift
    assert result.table["label"][0] == "0 > 0"
    assert result.table["parent"].tolist() == [str(k) for k in parent]
    assert 0.2 < spreads[0] < 0.7
    assert 0.2 < spreads[1] < 1.3


def spread_twin(value, noise, parent):
    """The largest root of the capped equation of restricted likelihood, by brute force."""

    def equation(spread2):
        total = 0.0
        for family in np.unique(parent):
            here = parent == family
            omega = 1 / (noise[here] + spread2)
            mean = (omega @ value[here]) / omega.sum()
            square = np.minimum((value[here] - mean) ** 2, 9 / omega)
            expected = np.minimum(np.linspace(-12, 12, 480001) ** 2, 9) @ normal / normal.sum()
            total += (omega**2) @ (square - expected * (1 / omega - 1 / omega.sum()))
        return total

    normal = np.exp(-0.5 * np.linspace(-12, 12, 480001) ** 2)
    return brentq(equation, 1e-8, 1e4, xtol=1e-12)


def test_spread_solves_its_equation_and_outliers_do_not_blow_it_up(rng):
    noise = rng.uniform(0.01, 1.0, 400)
    parent = np.repeat(np.arange(4), 100)
    value = rng.normal(0, 0.7, 4)[parent] + rng.normal(0, 0.5, 400) + rng.normal(0, np.sqrt(noise))
    assert _between_level_variance(value, noise, parent) == pytest.approx(spread_twin(value, noise, parent), rel=1e-4)
    assert np.sqrt(_between_level_variance(value, noise, parent)) == pytest.approx(0.5, abs=0.1)
    value[::40] += 30.0
    assert np.sqrt(_between_level_variance(value, noise, parent)) < 1.5  # 4.7 without the cap
    assert _between_level_variance(np.zeros(60), noise[:60], parent[:60]) == 0.0
    assert _between_level_variance(value[:2], noise[:2], np.array([0, 1])) == 0.0


def test_a_model_far_off_does_not_undo_the_shrinkage(rng):
    """Predicted 2%, happened 20% everywhere: levels of a few rows still go with the rest."""
    rows = 20_000
    field = np.r_[np.repeat(np.arange(50), 4), rng.integers(50, 60, rows - 200)]
    y = rng.random(rows) < 0.2
    table = miscal.by_field(miscal.Predictions(y, np.full(rows, 0.02), columns={"f": field}), "f").table
    np.testing.assert_allclose(table["shrunken"], 0.02 - y.mean(), atol=0.03)
    assert np.abs(table["gap"][:50] - (0.02 - y.mean())).max() > 0.2


def test_a_small_level_does_not_head_the_list_by_luck(rng):
    rows = 40_000
    field = np.r_[np.repeat(0, 12), rng.integers(1, 20, rows - 12)]
    p = np.full(rows, 0.1)
    y = rng.random(rows) < np.where(field == 5, 0.16, 0.1)
    y[:12] = True
    y[4:12] = False  # 4 of 12
    result = miscal.by_field(miscal.Predictions(y, p, columns={"f": field}), "f")
    table = result.table
    assert np.argmax(np.abs(table["gap"])) == 0
    assert np.argmax(np.abs(table["shrunken"])) == 5
    assert table["shrunken_low"][0] < table["shrunken"][0] < table["shrunken_high"][0]
    inside = (table["shrunken_low"] <= table["shrunken"]) & (table["shrunken"] <= table["shrunken_high"])
    assert inside.all()


def test_calibrated_levels_shrink_to_the_total(rng):
    p = predictions(rng, rows=20_000, levels=200)
    result = miscal.by_field(p, "level")
    assert result.extra["spread"][0] < 0.2
    assert result.extra["shrunken_value"] < 0.5 * result.value
    assert result.extra["noise_share"] > 0.85


# ---------------------------------------------------------------------------------------------------- differences
def test_common_shift_makes_the_total_right(rng):
    p = predictions(rng, shift=np.full(8, -0.8))
    compared = select_target(p)
    expected = brentq(lambda d: expit(logit(p.probability) + d).sum() - p.outcome.sum(), -5, 5, xtol=1e-13)
    assert in_the_large(compared).value == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(shifted(p.probability, 0.7), expit(logit(p.probability) + 0.7), rtol=1e-12)
    np.testing.assert_allclose(shifted(p.probability, -300.0), expit(logit(p.probability) - 300.0), rtol=1e-9)
    assert shifted(np.array([0.0, 1.0]), 5.0).tolist() == [0.0, 1.0]


def test_levels_that_are_all_wrong_alike_do_not_differ(rng):
    alike = miscal.by_field(predictions(rng, rows=8000, shift=np.full(8, -0.8)), "level")
    assert alike.p_value < 0.01
    assert (alike.table["p_adjusted"] < 0.05).all()
    assert alike.extra["differences"]["p_value"] > 0.05
    assert np.nanmin(alike.table["difference_adjusted"]) > 0.05
    one = np.zeros(8)
    one[3] = 1.0
    apart = miscal.by_field(predictions(rng, rows=8000, shift=one), "level")
    assert apart.extra["differences"]["p_value"] < 0.01
    assert np.argmin(apart.table["difference_adjusted"]) == 3
    assert apart.table["difference"][3] < -0.05


@pytest.mark.filterwarnings("ignore:.*single class")
def test_differences_without_events_or_with_one_level(rng):
    none = miscal.by_field(miscal.Predictions(np.zeros(50), np.full(50, 0.1), columns={"f": np.arange(50) % 5}), "f")
    assert np.isnan(none.table["difference"]).all()
    assert "differences" not in none.extra
    one = miscal.by_field(miscal.Predictions([0, 1, 0], [0.2, 0.5, 0.4], columns={"f": ["x"] * 3}), "f")
    assert one.table.rows == 1
    assert one.table["shrunken"][0] == pytest.approx(one.table["gap"][0])
    assert "differences" not in one.extra


# ----------------------------------------------------------------------------------------- fields of every kind
def test_crossed_fields_have_the_combinations_that_occur(rng):
    p = predictions(rng, sex=rng.choice(["f", "m"], 6000))
    keep = ~((p.columns["number"].values == 2) & (p.columns["sex"].values == 0))
    p = p.take(np.flatnonzero(keep))
    result = miscal.by_field(p, ["level", "sex"])
    assert result.table.rows == 15
    assert "level 2 and sex m" in result.table["label"].tolist()
    assert result.extra["parts"][1][:3] == ["f", "m", "f"]
    value = miscal.metrics.field_calibration_error(p.outcome, p.probability, [p.columns["level"], p.columns["sex"]])
    assert result.value == pytest.approx(value, rel=1e-12)


def test_three_heights(rng):
    country, advertiser, campaign = (rng.integers(0, k, 3000) for k in (2, 3, 4))
    p = rng.beta(2, 6, 3000)
    data = miscal.Predictions(
        rng.random(3000) < p, p, columns={"country": country, "advertiser": advertiser, "campaign": campaign}
    )
    result = miscal.by_field(data, "campaign", parent=["country", "advertiser"])
    assert result.table.rows == 24
    assert result.table["label"][0] == "0 > 0 > 0"
    assert result.table["parent"][0] == "0 > 0"
    assert len(result.extra["spread"]) == 3


def test_numbers_in_ranges_and_as_levels(rng):
    p = predictions(rng, age=rng.normal(50, 10, 6000))
    assert miscal.by_field(p, "number").table.rows == 8
    ranges = miscal.by_field(p, "age", bins=5).table
    assert ranges.rows == 5
    assert ranges["rows"].tolist() == [1200] * 5
    assert miscal.measure(p, miscal.Field("age", bins=5))[0].table["rows"].tolist() == [1200] * 5


def test_odd_levels_are_kept_apart(rng):
    names = ["", " ", 'O\'Brien "the" <b>', "北京", "x" * 5000, "NULL", "nan", "=1+1"]
    field = np.array(names, dtype=object)[np.arange(400) % 8]
    field[5] = None
    p = np.full(400, 0.3)
    result = miscal.by_field(miscal.Predictions(rng.random(400) < p, p, columns={"f": field}), "f")
    assert set(result.table["label"]) == {*names, "(missing)"}
    assert "<b>" not in result._repr_html_()
    assert result.table["rows"].sum() == 400


def test_every_row_its_own_level(rng):
    p = rng.uniform(0.05, 0.95, 300)
    result = miscal.by_field(miscal.Predictions(rng.random(300) < p, p, columns={"id": np.arange(300)}), "id")
    assert result.table.rows == 300
    assert np.nanmin(result.table["p_adjusted"]) > 0.05
    assert set(result.table["method"]) == {"exact"}


def test_weights_and_clusters_run_through(rng):
    rows = 3000
    field, cluster = rng.integers(0, 6, rows), np.arange(rows) // 5
    p = rng.beta(2, 6, rows)
    y = rng.random(rows) < p
    weighted = miscal.by_field(miscal.Predictions(y, p, weight=rng.uniform(0.5, 2, rows), columns={"f": field}), "f")
    clustered = miscal.by_field(miscal.Predictions(y, p, cluster=cluster, columns={"f": field}), "f")
    for result in (weighted, clustered):
        assert np.isfinite(result.table["shrunken"]).all()
        assert np.isfinite(result.table["difference_p"]).all()
        assert not math.isnan(result.extra["differences"]["p_value"])


def test_refusals(rng):
    p = predictions(rng, rows=50)
    for options, words in (
        ({"field": "nolevel"}, "nolevel"),
        ({"field": []}, "at least one"),
        ({"field": "level", "parent": "level"}, "different columns"),
        ({"field": "level", "parent": "nope"}, "nope"),
    ):
        with pytest.raises(miscal.MiscalError, match=words):
            miscal.by_field(p, **options)

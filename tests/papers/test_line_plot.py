"""Isotonic line-plot scaling against equation 9, an independent convex solver, and hostile data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from miscal import MiscalError
from miscal.data.columns import Columns
from miscal.recalibrate import IsotonicLinePlotScaling
from miscal.recalibrate.isotonic import LINE_RIDGE, LinePlotFit
from miscal.recalibrate.training_sample import TrainingSample


def eta_twin(x, a, b, outside):  # (9), and its continuation beyond the end knots
    for k in range(len(a) - 1):
        if a[k] <= x < a[k + 1]:
            return b[k] + (b[k + 1] - b[k]) * (x - a[k]) / (a[k + 1] - a[k])
    if outside == "clamp":
        return b[0] if x < a[0] else b[-1]
    k = 0 if x < a[0] else len(a) - 2
    return b[k] + (b[k + 1] - b[k]) * (x - a[k]) / (a[k + 1] - a[k])


def sample(rng, rows, kind):
    p = {
        "wide": rng.random(rows),
        "rare": rng.beta(1, 40, rows),
        "rounded": np.round(rng.random(rows), 1),
        "beyond": expit(rng.normal(0, 6, rows)),
    }[kind]
    truth = expit(1.4 * logit(np.clip(p, 1e-6, 1 - 1e-6)) - 0.4 + np.sin(9 * p))
    return p, (rng.random(rows) < truth).astype(int)


KINDS = pytest.mark.parametrize("kind", ["wide", "rare", "rounded", "beyond"])
OUTSIDE = pytest.mark.parametrize("outside", ["slope", "clamp"])


@OUTSIDE
def test_equation_9(rng, outside):
    p, y = sample(rng, 800, "beyond")
    made = IsotonicLinePlotScaling(knots=9, outside=outside, keep_certain=True).fit(p, y)
    np.testing.assert_allclose(expit(made.knots_), np.arange(1, 10) / 10, atol=1e-15)
    x = logit(np.clip(p, 1e-12, 1 - 1e-12))
    expected = [eta_twin(value, made.knots_, made.values_, outside) for value in x]
    np.testing.assert_allclose(made.predict_proba(p)[:, 1], expit(expected), atol=1e-13)


@KINDS
@OUTSIDE
@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_the_optimum_is_global(rng, kind, outside, l2):
    """SLSQP on the increments, from another start, knowing nothing of the solver."""
    p, y = sample(rng, 500, kind)
    knots = np.log(np.arange(1, 13) / (13 - np.arange(1, 13)))
    x = logit(np.clip(p, 1e-12, 1 - 1e-12))
    place = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, 10)
    t = (x - knots[place]) / np.diff(knots)[place]
    t = np.clip(t, 0, 1) if outside == "clamp" else t

    def penalised(theta):
        b = np.cumsum(theta)
        eta = b[place] + t * (b[place + 1] - b[place])
        slope = theta[1:] / np.diff(knots) - 1
        return np.sum(np.logaddexp(0, eta) - y * eta) + 0.5 * max(l2, LINE_RIDGE) * slope**2 @ np.diff(knots)

    made = IsotonicLinePlotScaling(knots=12, outside=outside, l2=l2, keep_certain=True).fit(p, y)
    ours = np.append(made.values_[0], np.diff(made.values_))
    assert (ours[1:] >= 0).all()
    bounds = [(None, None)] + [(0, None)] * 11
    for start in (np.append(logit(y.mean()), np.zeros(11)), np.append(-2.0, np.full(11, 0.3))):
        theirs = minimize(penalised, start, bounds=bounds, method="SLSQP", options={"maxiter": 2000, "ftol": 1e-15})
        assert penalised(ours) <= theirs.fun + 1e-7


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 10, 100]), st.sampled_from(["slope", "clamp"]))
def test_conditions_of_optimality_hold_on_any_data(seed, knots, outside):
    """Karush-Kuhn-Tucker: the gradient is 0 at free increments and not negative at those that are 0."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(5, 200))
    p = rng.choice([0.0, 1.0, 0.5, *rng.random(8), 1e-15, 1e-5], rows)
    y = rng.integers(0, 2, rows)
    y[:2] = [0, 1]
    placement = str(rng.choice(["probability", "quantile"]))
    made = IsotonicLinePlotScaling(knots=knots, placement=placement, outside=outside, keep_certain=True).fit(p, y)
    rows = TrainingSample(p, y, None, Columns({}), 2)
    fit = LinePlotFit(rows, *made._between(p), np.diff(made.knots_), LINE_RIDGE)
    theta = np.append(made.values_[0], np.diff(made.values_))
    _, gradient, _ = fit.evaluate(theta)
    small = 1e-4
    assert abs(gradient[0]) < small
    moving = theta[1:] > 1e-7
    assert (np.abs(gradient[1:][moving] * np.minimum(theta[1:][moving], 1.0)) < small).all()
    assert (gradient[1:] * np.minimum(1.0, np.diff(made.knots_)) > -small).all()


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_always_monotone(seed):
    """Also where the outcome falls as the score rises."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(4, 300))
    p = rng.choice([rng.random(rows), np.round(rng.random(rows), 1), expit(rng.normal(0, 20, rows))])
    y = (rng.random(rows) < (1 - p if rng.random() < 0.5 else p)).astype(int)
    y[:2] = [0, 1]
    options = {"knots": int(rng.integers(2, 40)), "placement": str(rng.choice(["probability", "quantile"]))}
    made = IsotonicLinePlotScaling(outside=str(rng.choice(["slope", "clamp"])), keep_certain=True, **options).fit(p, y)
    assert (np.diff(made.values_) >= 0).all()
    grid = np.sort(np.r_[0.0, 1.0, rng.random(500), expit(rng.normal(0, 20, 500)), expit(made.knots_)])
    out = made.predict_proba(grid)[:, 1]
    assert (np.diff(out) >= -1e-15).all()
    assert np.isfinite(out).all()


def test_falling_outcomes_give_the_constant(rng):
    p = rng.random(3000)
    y = (rng.random(3000) < 1 - p).astype(int)
    out = IsotonicLinePlotScaling(knots=30).fit(p, y).predict_proba(p)[:, 1]
    np.testing.assert_allclose(out, y.mean(), atol=0.02)
    assert np.ptp(out[(p > 0.05) & (p < 0.95)]) < 0.02


def test_separated_classes_stay_finite():
    p = np.r_[np.linspace(0.01, 0.4, 50), np.linspace(0.6, 0.99, 50)]
    made = IsotonicLinePlotScaling().fit(p, p > 0.5)
    out = made.predict_proba(p)[:, 1]
    assert np.isfinite(made.values_).all()
    assert (out[:50] < 1e-3).all()
    assert (out[50:] > 1 - 1e-3).all()


def test_right_predictions_are_left_alone(rng):
    p = rng.beta(2, 3, 300_000)
    y = rng.random(p.size) < p
    out = IsotonicLinePlotScaling(knots=20).fit(p, y).predict_proba(p)[:, 1]
    assert np.abs(out - p).mean() < 0.004


def test_weights_are_repetition_and_classes_one_against_the_rest(rng):
    probability = rng.dirichlet([1, 1, 1], 600)
    outcome = (probability.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)
    weight = rng.integers(1, 4, 600)
    again = np.repeat(np.arange(600), weight)
    made = IsotonicLinePlotScaling(knots=10).fit(probability, outcome, sample_weight=weight)
    other = IsotonicLinePlotScaling(knots=10).fit(probability[again], outcome[again])
    np.testing.assert_allclose(made.predict_proba(probability), other.predict_proba(probability), atol=1e-6)
    single = [
        IsotonicLinePlotScaling(knots=10).fit(probability[:, k], outcome == k, sample_weight=weight) for k in range(3)
    ]
    parts = np.stack([one.predict_proba(probability[:, k])[:, 1] for k, one in enumerate(single)], axis=1)
    np.testing.assert_allclose(made.predict_proba(probability), parts / parts.sum(axis=1, keepdims=True), atol=1e-9)
    back = IsotonicLinePlotScaling.from_json(made.to_json())
    assert np.array_equal(back.predict_proba(probability), made.predict_proba(probability))


def test_one_score_only():
    for placement in ("probability", "quantile"):
        made = IsotonicLinePlotScaling(placement=placement).fit(np.full(40, 0.3), np.arange(40) % 4 == 0)
        assert made.predict_proba([0.3])[0, 1] == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize(
    "wrong", [{"knots": 1}, {"knots": 2.5}, {"placement": "even"}, {"outside": "flat"}, {"knots": True}, {"l2": -1}]
)
def test_wrong_parameters(wrong):
    with pytest.raises(MiscalError, match=next(iter(wrong))):
        IsotonicLinePlotScaling(**wrong).fit([0.1, 0.9], [0, 1])

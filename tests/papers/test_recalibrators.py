"""Each recalibrator against a twin written from its paper in numpy, or against an independent solver."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from miscal.recalibrate import (
    AugmentedBeta,
    AugmentedLogistic,
    BetaCalibration,
    DirichletCalibration,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    ScalingBinning,
    StructuredScaling,
    TemperatureScaling,
    VariableTree,
    VectorScaling,
)


@pytest.fixture
def binary(rng):
    p = rng.beta(0.8, 1.6, 3000)
    y = (rng.random(3000) < 1 / (1 + np.exp(-(1.4 * np.log(p) - 0.7 * np.log1p(-p) + 0.3)))).astype(int)
    return p, y, rng.integers(1, 4, 3000).astype(float)


@pytest.fixture
def several(rng):
    z = rng.normal(size=(2500, 4)) * 2
    p = softmax(z)
    y = (softmax(0.6 * z + [0.5, 0, -0.3, 0]).cumsum(axis=1) < rng.random((2500, 1))).sum(axis=1)
    return p, y, rng.integers(1, 4, 2500).astype(float)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def features(p, kind):
    if kind == "probability":
        return p[:, None]
    if kind == "logit":
        return np.log(p / (1 - p))[:, None]
    return np.stack([np.log(p), -np.log(1 - p)], axis=1)


def gradient(design, y, w, coefficients, intercept, l2):
    """Of sum w log loss + l2/2 |coefficients|^2, the intercept free."""
    off = w * (sigmoid(design @ coefficients + intercept) - y)
    return np.append(off @ design + l2 * coefficients, off.sum())


@pytest.mark.parametrize("l2", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["logit", "probability", "beta"])
def test_logistic_fits_are_optimal(binary, kind, l2):
    p, y, w = binary
    made = BetaCalibration("none", l2) if kind == "beta" else PlattScaling(kind, l2)
    made.fit(p, y, sample_weight=w)
    found = gradient(features(p, kind), y, w, made.coefficients_[0], made.intercepts_[0], l2)
    assert np.abs(found).max() <= 1e-10 * w.sum()
    x = features(p, kind) @ made.coefficients_[0] + made.intercepts_[0]
    np.testing.assert_allclose(made.predict_proba(p)[:, 1], sigmoid(x), rtol=1e-13)


@pytest.mark.parametrize("kind", ["logit", "probability", "beta"])
def test_logistic_fits_agree_with_scikit_learn(binary, kind):
    p, y, w = binary
    made = BetaCalibration("none", 1.0) if kind == "beta" else PlattScaling(kind, 1.0)
    made.fit(p, y, sample_weight=w)
    peer = LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
    peer.fit(features(p, kind), y, sample_weight=w)
    np.testing.assert_allclose(made.coefficients_[0], peer.coef_[0], rtol=1e-8)
    np.testing.assert_allclose(made.intercepts_[0], peer.intercept_[0], rtol=1e-8)


@pytest.mark.parametrize("clip", [1e-4, 1e-2])
def test_beta_holds_scores_off_the_ends(binary, clip):
    """Scores nearer to 0 or 1 than `clip` count as that: the curve has no jump."""
    p, y, w = binary
    p[:60] = np.tile([0.0, 1.0, 1e-9, 1 - 1e-9, 1e-3, 0.5], 10)
    made = BetaCalibration("none", clip=clip, keep_certain=True).fit(p, y, sample_weight=w)
    held = np.clip(p, clip, 1 - clip)
    found = gradient(features(held, "beta"), y, w, made.coefficients_[0], made.intercepts_[0], 0.0)
    assert np.abs(found).max() <= 1e-10 * w.sum()
    low, high = made.predict_proba([clip, 1 - clip])
    for score in (0.0, 5e-324, 1e-300, 1e-9, clip / 2):
        np.testing.assert_array_equal(made.predict_proba([score, 1 - score]), [low, high])


def test_a_large_fit_that_starts_from_a_part_ends_at_the_same_optimum(rng):
    p = rng.beta(0.8, 1.6, 80_000)
    y = (rng.random(80_000) < p**2).astype(int)
    made = BetaCalibration("none").fit(p, y)
    found = gradient(features(p, "beta"), y, np.ones(80_000), made.coefficients_[0], made.intercepts_[0], 0.0)
    assert np.abs(found).max() <= 1e-10 * 80_000


@pytest.mark.parametrize("bend", ["first", "second", "both"])
def test_positive_beta_is_the_constrained_optimum(rng, bend):
    """Against L-BFGS-B with bounds, on data whose free optimum has a negative coefficient."""
    p = rng.uniform(0.02, 0.98, 4000)
    x = {"first": -0.6 * np.log(p) - 2 * np.log1p(-p), "second": 2 * np.log(p) + 0.6 * np.log1p(-p)}
    x["both"] = -1.5 * (np.log(p) - np.log1p(-p))
    y = (rng.random(4000) < sigmoid(x[bend])).astype(int)
    free = BetaCalibration("none").fit(p, y)
    assert (free.coefficients_ < 0).any()
    made = BetaCalibration("positive").fit(p, y)
    assert (made.coefficients_ >= 0).all()
    design = features(p, "beta")

    def loss(t):
        z = design @ t[:2] + t[2]
        off = sigmoid(z) - y
        return (np.logaddexp(0, z) - y * z).sum(), np.append(off @ design, off.sum())

    bounds = [(0, None), (0, None), (None, None)]
    peer = minimize(loss, [1.0, 1.0, 0.0], jac=True, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15})
    ours = loss(np.append(made.coefficients_[0], made.intercepts_[0]))[0]
    assert ours <= peer.fun * (1 + 1e-12)
    assert made.keeps_ranking


def test_temperature_is_optimal(several, binary):
    p, y, w = several
    made = TemperatureScaling().fit(p, y, sample_weight=w)
    logs = np.log(p)
    likely = softmax(logs / made.temperature_)
    slope = w @ ((likely * logs).sum(axis=1) - logs[np.arange(len(y)), y])
    assert abs(slope) <= 1e-10 * w.sum()
    np.testing.assert_allclose(made.predict_proba(p), likely, atol=1e-14)
    p, y, w = binary
    made = TemperatureScaling().fit(p, y, sample_weight=w)
    logit = np.log(p / (1 - p))
    assert abs(w @ ((sigmoid(logit / made.temperature_) - y) * logit)) <= 1e-10 * w.sum()
    np.testing.assert_allclose(made.predict_proba(p)[:, 1], sigmoid(logit / made.temperature_), rtol=1e-13)


def test_binary_temperature_is_that_of_two_classes(binary):
    p, y, _ = binary
    three = np.stack([1 - p, p, np.zeros(len(p))], axis=1)  # a third class that never is
    two, other = TemperatureScaling().fit(p, y), TemperatureScaling().fit(three, y)
    np.testing.assert_allclose(two.temperature_, other.temperature_, rtol=1e-9)


def test_vector_scaling_is_optimal(several):
    p, y, w = several
    made = VectorScaling().fit(p, y, sample_weight=w)
    logs = np.log(p)
    off = w[:, None] * (softmax(logs * made.slopes_ + made.shifts_) - np.eye(4)[y])
    assert np.abs((off * logs).sum(axis=0)).max() <= 1e-10 * w.sum()
    assert np.abs(off.sum(axis=0)).max() <= 1e-10 * w.sum()
    assert made.shifts_[-1] == 0.0


@pytest.mark.parametrize("strength", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("structure", ["vector", "matrix"])
def test_structured_scaling_is_optimal(several, structure, strength):
    """The gradient of sum of losses + strength (K (v² + b²) + K (K - 1) M²) in every coefficient, term by term."""
    p, y, w = several
    made = StructuredScaling(structure, strength).fit(p, y, sample_weight=w)
    heat = TemperatureScaling().fit(p, y, sample_weight=w).temperature_
    assert made.temperature_ == heat
    classes = 4
    factors = np.diag(made.coefficients_[0]) if structure == "vector" else made.coefficients_
    change, z = heat * factors - np.eye(classes), np.log(softmax(np.log(p) / heat))
    off = w[:, None] * (softmax(z + z @ change.T + made.intercepts_) - np.eye(classes)[y])
    for k in range(classes):
        slope = (off[:, k]).sum() + 2 * strength * classes * made.intercepts_[k]
        assert abs(slope) <= 1e-8 * w.sum()
        for j in range(classes):
            if structure == "vector" and j != k:
                assert change[k, j] == 0.0
                continue
            own = classes if j == k else classes * (classes - 1)
            slope = (off[:, k] * z[:, j]).sum() + 2 * strength * own * change[k, j]
            assert abs(slope) <= 1e-8 * w.sum()


def test_structured_scaling_lies_between_temperature_and_vector_scaling(several):
    """A strong penalty gives temperature scaling, a weak one vector scaling of what it gives, up to a shift."""
    p, y, _ = several
    held = StructuredScaling(strength=1e9).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(held, TemperatureScaling().fit(p, y).predict_proba(p), atol=1e-5)
    free = StructuredScaling(strength=1e-9).fit(p, y).predict_proba(p)
    heated = TemperatureScaling().fit(p, y).predict_proba(p)
    np.testing.assert_allclose(free, VectorScaling().fit(heated, y).predict_proba(heated), atol=1e-4)
    # A class that does not occur is no reason to fail.
    kept = y != 3
    some = StructuredScaling("matrix").fit(p[kept], y[kept])
    assert np.isfinite(some.coefficients_).all()
    assert some.predict_proba(p)[:, 3].mean() < p[:, 3].mean()


@pytest.mark.parametrize(("intercept_l2", "reference"), [(None, True), (0.01, True), (None, False)])
def test_dirichlet_is_optimal(several, intercept_l2, reference):
    """Mean log loss + l2 sum W^2 + intercept_l2 sum b^2, the last row 0 with a reference."""
    p, y, w = several
    made = DirichletCalibration(1e-3, intercept_l2, reference).fit(p, y, sample_weight=w)
    design = np.append(np.log(p), np.ones((len(p), 1)), axis=1)
    theta = np.append(made.coefficients_, made.intercepts_[:, None], axis=1)
    off = (softmax(design @ theta.T) - np.eye(4)[y]) * (w / w.sum())[:, None]
    penalty = np.full(5, 2e-3)
    penalty[-1] = 2e-3 if intercept_l2 is None else 2 * intercept_l2
    found = off.T @ design + penalty * theta
    if reference:
        assert (theta[-1] == 0).all()
        found = found[:-1]
    assert np.abs(found).max() <= 1e-10


# ----------------------------------------------------------------------------------------------------- without Newton
def naive_isotonic(p, y, w):
    """At each distinct score: max over i <= k of min over j >= k of the mean of scores i..j."""
    scores = np.unique(p)
    events = np.array([(w * y)[p == s].sum() for s in scores])
    mass = np.array([w[p == s].sum() for s in scores])
    size = len(scores)
    mean = lambda i, j: events[i : j + 1].sum() / mass[i : j + 1].sum()
    values = [max(min(mean(i, j) for j in range(k, size)) for i in range(k + 1)) for k in range(size)]
    return scores, np.array(values)


def test_isotonic_is_the_max_min_formula(rng):
    p = rng.integers(0, 25, 120) / 24
    y = (rng.random(120) < p**2).astype(int)
    w = rng.integers(1, 5, 120).astype(float)
    scores, values = naive_isotonic(p, y, w)
    made = IsotonicCalibration(smooth=0).fit(p, y, sample_weight=w)
    np.testing.assert_allclose(made.predict_proba(scores)[:, 1], values, rtol=1e-14)


@pytest.mark.parametrize("digits", [2, 16])
def test_isotonic_agrees_with_scikit_learn(rng, digits):
    p = np.round(rng.beta(0.8, 1.6, 20_000), digits)
    y = (rng.random(20_000) < np.sqrt(p)).astype(int)
    w = rng.uniform(0, 2, 20_000)
    made = IsotonicCalibration(smooth=0).fit(p, y, sample_weight=w)
    peer = IsotonicRegression(out_of_bounds="clip").fit(p, y, sample_weight=w)
    grid = np.append(rng.random(5000), [0.0, 1.0])
    np.testing.assert_allclose(made.predict_proba(grid)[:, 1], peer.predict(grid), atol=1e-12, rtol=0)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_histogram_is_the_rate_in_each_bin(binary, strategy):
    p, y, _ = binary
    p[:3] = [0.0, 1.0, 0.2]
    edges = np.arange(11) / 10 if strategy == "uniform" else np.quantile(p, np.arange(11) / 10)
    made = HistogramBinning(10, strategy, smooth=0).fit(p, y).predict_proba(p)[:, 1]
    place = [min(max(sum(x > e for e in edges) - 1, 0), 9) for x in p]
    rate = {b: np.mean([v for v, q in zip(y, place, strict=True) if q == b]) for b in set(place)}
    np.testing.assert_allclose(made, [rate[b] for b in place], rtol=1e-13)


def naive_scaling_binning(p, y, bins):
    """Kumar, Liang and Ma's code in words: sort, cut in equal parts, edges halfway, mean of the scaled in each."""
    logit = np.log(np.clip(p, 1e-12, 1 - 1e-12) / (1 - np.clip(p, 1e-12, 1 - 1e-12)))[:, None]
    curve = LogisticRegression(C=1e10, tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(logit, y)
    scaled = curve.predict_proba(logit)[:, 1]
    parts = np.array_split(np.sort(scaled), bins)
    edges = [(a[-1] + b[0]) / 2 for a, b in pairwise(parts)]
    place = np.searchsorted(edges, scaled)
    return np.array([scaled[place == b].mean() for b in range(bins)])[place]


def test_scaling_binning_is_its_authors_code(binary):
    p, y, _ = binary
    made = ScalingBinning(bins=10).fit(p, y).predict_proba(p)[:, 1]
    np.testing.assert_allclose(made, naive_scaling_binning(p, y, 10), rtol=1e-7)


def test_scaling_binning_of_several_classes_may_stay_unnormalised(several):
    p, y, _ = several
    made = ScalingBinning(renormalise=False, keep_certain=True).fit(p, y).predict_proba(p)
    for k in range(4):
        np.testing.assert_allclose(made[:, k], naive_scaling_binning(p[:, k], y == k, 10), rtol=1e-7)
    rows = ScalingBinning(keep_certain=True).fit(p, y).predict_proba(p)
    np.testing.assert_allclose(rows, made / made.sum(axis=1, keepdims=True), rtol=1e-14)


def test_one_against_the_rest_then_divided_by_the_sum(several):
    p, y, _ = several
    made = BetaCalibration().fit(p, y).predict_proba(p)
    each = np.stack([BetaCalibration().fit(p[:, k], y == k).predict_proba(p[:, k])[:, 1] for k in range(4)], axis=1)
    np.testing.assert_allclose(made, each / each.sum(axis=1, keepdims=True), rtol=1e-12)


# ------------------------------------------------------------------------------------------------- along variables
@pytest.mark.parametrize("l2", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["logit", "probability", "beta"])
def test_augmented_fits_are_optimal(binary, rng, kind, l2):
    """The design written out in full: powers of a number, indicators of all levels but the commonest."""
    p, y, w = binary
    age = rng.normal(40, 12, len(p))
    state = rng.choice(["a", "b", "c"], len(p), p=[0.2, 0.5, 0.3])
    logistic = kind != "beta"
    made = AugmentedLogistic(degree=2, on=kind, l2=l2) if logistic else AugmentedBeta(degree=2, l2=l2)
    made.fit(p, y, {"age": age, "state": state}, sample_weight=w)
    u = age if l2 else (age - np.average(age, weights=w)) / np.sqrt(np.cov(age, aweights=w, ddof=0))
    design = np.column_stack([features(p, kind), u, u**2, state == "a", state == "c"]).astype(float)
    own = features(p, kind).shape[1]
    centred = design - np.append(np.zeros(own), made.centres_)
    found = gradient(centred, y, w, made.coefficients_[0], made.intercepts_[0], l2) / np.append(design.std(axis=0), 1)
    assert np.abs(found).max() <= 1e-9 * w.sum()
    x = centred @ made.coefficients_[0] + made.intercepts_[0]
    again = made.predict_proba(p, {"age": age, "state": state})[:, 1]
    np.testing.assert_allclose(again, sigmoid(x), rtol=1e-10)


def test_positive_augmented_beta_is_the_constrained_optimum(rng):
    p, v = rng.uniform(0.02, 0.98, 4000), rng.normal(size=4000)
    y = (rng.random(4000) < sigmoid(-0.6 * np.log(p) - 2 * np.log1p(-p) + v)).astype(int)
    made = AugmentedBeta(constraint="positive").fit(p, y, {"v": v})
    assert made.coefficients_[0, 0] == 0.0
    assert made.coefficients_[0, 1] > 0
    design = np.column_stack([features(p, "beta")[:, 1], (v - v.mean()) / v.std() - made.centres_[0]])
    found = gradient(design, y, np.ones(4000), made.coefficients_[0, 1:], made.intercepts_[0], 0.0)
    assert np.abs(found).max() <= 1e-9 * 4000


def naive_cut(v, y, smallest):
    """The cut of least Gini impurity, halfway between neighbours."""
    best = (np.inf, None)
    for a, b in zip(np.unique(v)[:-1], np.unique(v)[1:], strict=True):
        left = v <= a
        if min(left.sum(), (~left).sum()) < smallest:
            continue
        gini = sum(s.sum() * 2 * y[s].mean() * (1 - y[s].mean()) for s in (left, ~left))
        best = min(best, (gini, (a + b) / 2))
    return best[1]


def test_a_tree_of_depth_one_cuts_where_gini_is_least(rng):
    v = rng.integers(0, 40, 1500).astype(float)
    p = rng.uniform(0.1, 0.9, 1500)
    y = (rng.random(1500) < np.where(v < 17, p**2, p)).astype(int)
    made = VariableTree(leaf=BetaCalibration(), max_depth=1, min_leaf=0.1).fit(p, y, {"v": v})
    cut = naive_cut(v, y, 150)
    assert made.cuts_[0, 0] == cut
    for side in (v <= cut, v > cut):
        alone = BetaCalibration().fit(p[side], y[side])
        np.testing.assert_array_equal(made.predict_proba(p, {"v": v})[side], alone.predict_proba(p[side]))

"""Score metrics against naive twins written from their formulas, on ordinary, tied and certain scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given

from miscal import MiscalError, metrics
from tests.laws.batches import Batch, batches

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")
ROUNDING = 64 * np.finfo(float).eps


def naive_bins(p: np.ndarray, bins: int) -> np.ndarray:
    """Right-closed bins (m/M, (m+1)/M], the lowest edge included: one comparison an edge, in Python."""
    return np.array([sum(value > m / bins for m in range(1, bins)) for value in p])


def naive_expected(y: np.ndarray, p: np.ndarray, w: np.ndarray, bins: int, power: float) -> float:
    cell = naive_bins(p, bins)
    gaps, shares = [], []
    for b in range(bins):
        inside = cell == b
        if inside.any():
            gaps.append(abs(np.average(p[inside], weights=w[inside]) - np.average(y[inside], weights=w[inside])))
            shares.append(w[inside].sum() / w.sum())
    if math.isinf(power):
        return max(gaps)
    return sum(s * g**power for s, g in zip(shares, gaps, strict=True)) ** (1 / power)


def naive_kuiper(y: np.ndarray, p: np.ndarray, w: np.ndarray, key: np.ndarray) -> float:
    """Largest absolute total of residuals over any interval of distinct keys (paper 004, eq. 3)."""
    keys = np.unique(key)
    steps = [float(np.sum((w * (y - p))[key == k])) for k in keys]
    best = 0.0
    for start in range(len(steps)):
        for stop in range(start, len(steps)):
            best = max(best, abs(sum(steps[start : stop + 1])))
    return best / w.sum()


@pytest.mark.parametrize(("norm", "power"), [("l1", 1.0), ("l2", 2.0), (2.5, 2.5), ("max", math.inf)])
@given(batch=batches())
def test_expected_calibration_error(norm: str | float, power: float, batch: Batch) -> None:
    found = metrics.expected_calibration_error(batch.y, batch.p, bins=6, norm=norm, sample_weight=batch.w)
    # A p-th root magnifies rounding near 0: compare the powers.
    exponent = 1.0 if math.isinf(power) else power
    assert abs(found**exponent - naive_expected(batch.y, batch.p, batch.w, 6, power) ** exponent) <= ROUNDING


@given(batch=batches(most=25))
def test_kuiper_is_the_largest_interval(batch: Batch) -> None:
    found = metrics.kuiper_calibration_error(batch.y, batch.p, sample_weight=batch.w)
    assert abs(found - naive_kuiper(batch.y, batch.p, batch.w, batch.p)) <= ROUNDING * batch.y.size


@given(batch=batches(most=25))
def test_kuiper_along_another_key(batch: Batch) -> None:
    key = np.round(batch.p[::-1] * 3) - 1.5
    found = metrics.kuiper_calibration_error(batch.y, batch.p, sample_weight=batch.w, order_by=key)
    assert abs(found - naive_kuiper(batch.y, batch.p, batch.w, key)) <= ROUNDING * batch.y.size


def test_kuiper_does_not_see_the_order_of_tied_rows() -> None:
    """Scores rounded to 0.1 and sorted by label: packages that ignore ties read this as 6.7 sigma."""
    rng = np.random.default_rng(0)
    p = np.round(rng.random(2000), 1)
    y = (rng.random(2000) < p).astype(int)
    order = np.lexsort((y, p))
    assert metrics.kuiper_calibration_error(y, p) == metrics.kuiper_calibration_error(y[order], p[order])


@pytest.mark.parametrize("shape", [(0.8, 1.6), (1.0, 50.0), (0.1, 0.1)])
@pytest.mark.parametrize("decimals", [17, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_kuiper_without_a_sort_equals_the_sorted_walk(
    shape: tuple[float, float], decimals: int, weighted: bool
) -> None:
    """Enough rows that only candidate buckets are looked into; the twin sorts everything in extended precision."""
    rng = np.random.default_rng(5)
    p = np.round(rng.beta(*shape, 60_000), decimals)
    y = (rng.random(p.size) < p).astype(int)
    w = rng.random(p.size) + 0.5 if weighted else np.ones(p.size)
    order = np.argsort(p, kind="stable")
    steps = np.cumsum((w * (y - p))[order].astype(np.longdouble))
    ends = steps[np.append(p[order][1:] != p[order][:-1], True)]
    expected = float((max(ends.max(), 0) - min(ends.min(), 0)) / w.sum())
    found = metrics.kuiper_calibration_error(y, p, sample_weight=w if weighted else None)
    assert abs(found / expected - 1) <= 1e-12


def test_quantile_bins_are_numpys() -> None:
    rng = np.random.default_rng(2)
    for rows in (40, 70_001):
        p = rng.beta(1, 3, rows)
        y = (rng.random(rows) < p).astype(int)
        edges = np.quantile(p, np.arange(16) / 15)
        cell = np.clip(np.searchsorted(edges, p, side="left") - 1, 0, 14)
        n, sp, sy = (np.bincount(cell, v, 15) for v in (np.ones(rows), p, y))
        naive = np.abs(sp - sy).sum() / n.sum()
        found = metrics.expected_calibration_error(y, p, strategy="quantile")
        assert abs(found - naive) <= ROUNDING * rows


def naive_true_label(y: np.ndarray, p: np.ndarray, w: np.ndarray, cell: np.ndarray, power: float) -> float:
    """Paper 002, section 2.3: rows grouped by their true class, ECE of the confidence within each, plain mean."""
    confidence, right = p.max(axis=1), (p.argmax(axis=1) == y).astype(float)
    errors = []
    for k in sorted(set(y.tolist())):
        total, sizes = w[y == k].sum(), []
        for b in sorted(set(cell[y == k].tolist())):
            inside = (y == k) & (cell == b)
            gap = abs(sum(w[inside] * (confidence - right)[inside])) / sum(w[inside])
            sizes.append((sum(w[inside]) / total, gap))
        if math.isinf(power):
            errors.append(max(gap for _, gap in sizes))
        else:
            errors.append(sum(share * gap**power for share, gap in sizes) ** (1 / power))
    return sum(errors) / len(errors)


@pytest.mark.parametrize(("norm", "power"), [("l1", 1.0), ("l2", 2.0), ("max", math.inf)])
@pytest.mark.parametrize("classes", [2, 4])
def test_class_wise_error_by_true_label(classes: int, norm: str, power: float) -> None:
    rng = np.random.default_rng(classes)
    p = rng.dirichlet(np.full(classes, 0.5), 400)
    y = np.array([rng.choice(classes, p=row) for row in p])
    p, y = p[y != 1], y[y != 1]  # a class without a row does not count
    w = rng.integers(1, 5, y.size).astype(float)
    confidence = p.max(axis=1)
    options = {"norm": norm, "definition": "true-label", "sample_weight": w}
    found = metrics.classwise_calibration_error(y, p, bins=6, **options)
    assert found == pytest.approx(naive_true_label(y, p, w, naive_bins(confidence, 6), power), abs=1e-12)
    edges = [0.0, 0.7, 0.9, 1.0]
    cell = np.array([sum(value > edge for edge in edges[1:-1]) for value in confidence])
    found = metrics.classwise_calibration_error(y, p, bins=edges, **options)
    assert found == pytest.approx(naive_true_label(y, p, w, cell, power), abs=1e-12)


def test_class_wise_error_by_true_label_is_group_wise_error_by_class() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(3, 0.4), 900)
    y = np.array([rng.choice(3, p=row) for row in p])
    for strategy in ("uniform", "quantile"):
        by_label = metrics.classwise_calibration_error(y, p, strategy=strategy, definition="true-label")
        by_group = metrics.groupwise_expected_calibration_error(y, p, y, strategy=strategy)
        assert by_label == pytest.approx(by_group, abs=1e-15)
        assert by_label != metrics.classwise_calibration_error(y, p, strategy=strategy)
    with pytest.raises(MiscalError, match="'definition'"):
        metrics.classwise_calibration_error(y, p, definition="ovr")


def naive_smooth(y: np.ndarray, p: np.ndarray, sigma: float) -> float:
    """The integral of |mean of reflected Gaussians times residual| by brute force."""
    t = np.linspace(0, 1, 20_001)
    total = np.zeros_like(t)
    for value, outcome in zip(p, y, strict=True):
        for image in range(-4, 5):
            for centre in (2 * image + value, 2 * image - value):
                total += (value - outcome) * np.exp(-0.5 * ((t - centre) / sigma) ** 2)
    total /= sigma * math.sqrt(2 * math.pi) * len(p)
    return float(np.trapezoid(np.abs(total), t))


def test_smooth_calibration_error_is_a_fixed_point() -> None:
    rng = np.random.default_rng(4)
    p = rng.beta(1, 2, 150)
    y = (rng.random(150) < p**1.5).astype(int)
    found = metrics.smooth_calibration_error(y, p)
    # Sharing a row between two nodes of a grid adds at most a quarter of a squared step to the squared bandwidth.
    assert abs(naive_smooth(y, p, found) - found) <= 1e-5


@given(batch=batches(most=30))
def test_mean_kernel_calibration_error(batch: Batch) -> None:
    d = batch.w * (batch.p - batch.y)
    kernel = np.exp(-np.abs(batch.p[:, None] - batch.p[None, :]) / 0.3)
    naive = d @ kernel @ d / batch.w.sum() ** 2
    found = metrics.mean_kernel_calibration_error(batch.y, batch.p, bandwidth=0.3, sample_weight=batch.w)
    assert abs(found**2 - naive) <= 1e-13


@given(batch=batches(least=2))
def test_decomposition_adds_up_and_is_pool_adjacent_violators(batch: Batch) -> None:
    parts = metrics.score_decomposition(batch.y, batch.p, sample_weight=batch.w)
    assert abs(parts.miscalibration - parts.discrimination + parts.uncertainty - parts.score) <= ROUNDING
    assert parts.miscalibration >= -ROUNDING
    assert parts.discrimination >= -ROUNDING
    blocks = [
        [float((batch.w * batch.y)[batch.p == value].sum()), float(batch.w[batch.p == value].sum())]
        for value in np.unique(batch.p)
    ]
    pooled: list[list[float]] = []
    for block in blocks:
        pooled.append(block)
        while len(pooled) > 1 and pooled[-2][0] / pooled[-2][1] >= pooled[-1][0] / pooled[-1][1]:
            events, weight = pooled.pop()
            pooled[-1] = [pooled[-1][0] + events, pooled[-1][1] + weight]
    fitted = sum(e * (1 - e / w) ** 2 + (w - e) * (e / w) ** 2 for e, w in pooled) / batch.w.sum()
    assert abs(parts.score - parts.miscalibration - fitted) <= 1e-12


def test_prediction_rejection_ratio_is_twice_the_area_less_one() -> None:
    """The literal definition: area between the random and the actual rejection curve, over that of the best order."""
    rng = np.random.default_rng(8)
    p = np.round(rng.random(400), 2)
    y = (rng.random(400) < p).astype(int)
    confidence, correct = np.maximum(p, 1 - p), ((p > 0.5) == y).astype(float)
    above = confidence[:, None] - confidence[None, :]
    pairs = correct[:, None] * (1 - correct[None, :])
    area = float(((above > 0) + 0.5 * (above == 0))[pairs > 0].sum() / pairs.sum())
    assert abs(metrics.prediction_rejection_ratio(y, p) - (2 * area - 1)) <= 1e-12
    assert math.isnan(metrics.prediction_rejection_ratio([1, 1], [0.9, 0.8]))


def test_abstention_reward_by_hand() -> None:
    y, p = [1, 0, 1, 0], [0.95, 0.05, 0.2, 0.91]
    # Answers 0.95 (right), 0.95 (right), abstains at 0.8, answers 0.91 (wrong).
    assert metrics.abstention_reward(y, p, unsure_cost=1, error_cost=10) == -11.0
    assert metrics.abstention_reward(y, p, unsure_cost=1, error_cost=1) == -2.0


def test_groupwise_errors_by_hand() -> None:
    y, p, groups = [1, 1, 0, 1, 0, 0], [0.9, 0.8, 0.7, 0.6, 0.4, 0.9], list("aabbcc")
    confidence, correct = np.maximum(p, 1 - np.array(p)), ((np.array(p) > 0.5) == y).astype(float)
    gaps = {g: [] for g in "abc"}
    for g in "abc":
        for low, high in ((0.0, 0.5), (0.5, 0.75), (0.75, 1.0)):
            rows = [i for i in range(6) if groups[i] == g and (low < confidence[i] <= high)]
            if rows:
                gaps[g].append((len(rows), abs(np.mean(confidence[rows]) - np.mean(correct[rows]))))
    bins = [0, 0.5, 0.75, 1]
    worst = max(gap for cells in gaps.values() for _, gap in cells)
    mean = np.mean([sum(n * gap for n, gap in cells) / sum(n for n, _ in cells) for cells in gaps.values()])
    assert abs(metrics.groupwise_maximum_calibration_error(y, p, groups, bins=bins) - worst) <= ROUNDING
    assert abs(metrics.groupwise_expected_calibration_error(y, p, groups, bins=bins) - mean) <= ROUNDING


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("slope", [-2.0, -0.3, 0.0, 0.1, 0.5, 3.0])
def test_slopes_far_from_one_solve_the_likelihood_equations(slope: float, spread: float) -> None:
    rng = np.random.default_rng(5)
    logit = np.clip(rng.normal(0.5, spread, 1200), -25, 25)
    y = (rng.random(1200) < 1 / (1 + np.exp(-(0.2 + slope * logit)))).astype(int)
    fit = metrics.calibration_slope_intercept(y, 1 / (1 + np.exp(-logit)))
    left = y - 1 / (1 + np.exp(-(fit.intercept.value + fit.slope.value * logit)))
    # the likelihood is concave: where its gradient is nothing there is its only maximum
    assert abs(left.sum()) <= 1e-6
    assert abs((left * logit).sum()) <= 1e-5
    assert fit.slope.low < fit.slope.value < fit.slope.high


def test_slope_and_intercept_solve_the_likelihood_equations() -> None:
    rng = np.random.default_rng(6)
    p = rng.beta(2, 3, 4000)
    y = (rng.random(4000) < p**1.3).astype(int)
    fit = metrics.calibration_slope_intercept(y, p)
    logit = np.log(p / (1 - p))
    fitted = 1 / (1 + np.exp(-(fit.intercept.value + fit.slope.value * logit)))
    assert abs(np.sum(y - fitted)) <= 1e-7
    assert abs(np.sum((y - fitted) * logit)) <= 1e-7
    large = 1 / (1 + np.exp(-(fit.in_the_large.value + logit)))
    assert abs(np.sum(y - large)) <= 1e-7
    assert abs(fit.ratio.value - p.sum() / y.sum()) <= 1e-12
    information = np.linalg.inv(
        [[np.sum(v * fitted * (1 - fitted)) for v in row] for row in ((1 + 0 * logit, logit), (logit, logit**2))]
    )
    assert abs((fit.slope.high - fit.slope.low) / (2 * 1.959963984540054) - math.sqrt(information[1, 1])) <= 1e-9

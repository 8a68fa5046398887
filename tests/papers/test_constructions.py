"""The papers' constructions, evaluated with plain numpy from the papers' formulas."""

from __future__ import annotations

import numpy as np
import pytest

from miscal.data.errors import MiscalError
from studies.constructions import (
    nested_subpopulations,
    one_sided,
    score_worse_than_variable,
    variable_worse_than_score,
)
from studies.wave import local_wave, local_wave_error


def top(data):
    """Confidence of the predicted label and whether it is right."""
    p, y = data.y_prob, data.y_true
    if p.ndim == 1:
        return np.maximum(p, 1 - p), (y == (p > 0.5)).astype(float)
    return p.max(axis=1), (p.argmax(axis=1) == y).astype(float)


def PooledError(predicted, observed, key):
    """Kelly & Smyth eqs. (3) and (7), one bin for each distinct value of the key."""
    total = 0.0
    for value in np.unique(key):
        rows = key == value
        total += rows.mean() * abs(observed[rows].mean() - predicted[rows].mean())
    return total


def binned(predicted, observed, key, edges):
    cell = np.searchsorted(edges[1:-1], key, side="left")
    return PooledError(predicted, observed, cell)


SETTINGS = [(2, 0.1), (2, 0.25), (3, 0.2), (4, 0.125), (10, 0.05), (2, 0.0)]


@pytest.mark.parametrize(("n_classes", "alpha"), SETTINGS)
def test_theorem_5_1_has_its_finite_values(n_classes, alpha):
    data = variable_worse_than_score(n_classes=n_classes, alpha=alpha)
    confidence, correct = top(data)
    variable = data.columns["variable"]
    assert abs(binned(confidence, correct, confidence, data.score_edges) - alpha / 4) < 1e-13
    by_variable = binned(confidence, correct, variable, data.variable_edges)
    assert abs(by_variable - (0.5 - 1 / (2 * n_classes) - alpha / 2)) < 1e-13
    assert data.expected["expected_calibration_error"] == pytest.approx(alpha / 4, abs=1e-15)
    assert data.expected["variable_calibration_error"] == pytest.approx(by_variable, abs=1e-13)


@pytest.mark.parametrize(("n_classes", "alpha"), SETTINGS)
def test_theorem_5_1_accuracies_are_those_of_the_proof(n_classes, alpha):
    data = variable_worse_than_score(n_classes=n_classes, alpha=alpha)
    confidence, correct = top(data)
    middle = 0.5 + 1 / (2 * n_classes)
    low = data.columns["variable"] <= 0.5
    assert low.mean() == 0.5
    if alpha > 0:
        below = confidence <= middle
        assert correct[low & below].mean() == pytest.approx(1 - alpha, abs=1e-14)
        assert correct[low & ~below].mean() == 1
        assert correct[~low & below].mean() == pytest.approx(1 / n_classes, abs=1e-14)
        assert correct[~low & ~below].mean() == pytest.approx(1 / n_classes + alpha, abs=1e-14)
        assert confidence.min() > middle - alpha
        assert confidence.max() < middle + alpha


@pytest.mark.parametrize(("n_classes", "alpha"), SETTINGS)
def test_theorem_5_2_has_its_finite_values(n_classes, alpha):
    data = score_worse_than_variable(n_classes=n_classes, alpha=alpha)
    predicted, correct = top(data)
    if alpha == 0.0 and n_classes == 2:  # the low scores are exactly one half: the top label is not defined there
        predicted, correct = data.y_prob, data.y_true.astype(float)
    by_score = binned(predicted, correct, predicted, data.score_edges)
    assert abs(by_score - (0.5 - 1 / (2 * n_classes) - alpha / 2)) < 1e-13
    assert by_score == pytest.approx(data.expected["expected_calibration_error"], abs=1e-13)
    assert binned(predicted, correct, data.columns["variable"], data.variable_edges) < 1e-13
    assert data.expected["variable_calibration_error"] == 0


@pytest.mark.parametrize("overconfident", [True, False])
@pytest.mark.parametrize(("repeats", "values"), [(16, 2), (32, 10), (50, 7)])
def test_theorem_5_4_both_errors_are_equal(overconfident, repeats, values):
    data = one_sided(repeats=repeats, values=values, overconfident=overconfident)
    confidence, correct = top(data)
    sign = 1 if overconfident else -1
    for key in (confidence, data.columns["variable"]):
        for value in np.unique(key):  # consistently on one side: the theorem's condition
            rows = key == value
            assert sign * (confidence[rows].mean() - correct[rows].mean()) > 0
        assert PooledError(confidence, correct, key) == pytest.approx(
            data.expected["expected_calibration_error"], abs=1e-13
        )
    assert data.expected["expected_calibration_error"] == data.expected["variable_calibration_error"]
    assert data.expected["expected_calibration_error"] == pytest.approx(
        abs(confidence.mean() - correct.mean()), abs=1e-13
    )


@pytest.mark.parametrize("build", [variable_worse_than_score, score_worse_than_variable])
def test_probabilities_of_classes_sum_to_one_and_wrong_answers_stay_classes(build):
    data = build(n_classes=5, alpha=0.1)
    assert np.abs(data.y_prob.sum(axis=1) - 1).max() < 1e-14
    assert set(np.unique(data.y_true)) == set(range(5))


@pytest.mark.parametrize(
    "settings",
    [dict(alpha=0.3), dict(alpha=-0.1), dict(alpha=np.pi / 20), dict(steps=3), dict(values=5), dict(n_classes=1)],
)
def test_bad_settings_are_refused(settings):
    for build in (variable_worse_than_score, score_worse_than_variable):
        with pytest.raises(MiscalError, match=next(iter(settings))):
            build(**settings)


# Appendix F of Guy et al.


def kuiper(response, score):
    """Eqs. (1) and (2) with equal weights."""
    order = np.argsort(score, kind="stable")
    walk = np.concatenate([[0.0], np.cumsum(response[order] - score[order])]) / len(score)
    return walk.max() - walk.min()


def noise(score):
    """Eq. (5) with equal weights."""
    return np.sqrt(np.sum(score * (1 - score))) / len(score)


KNOWN = {
    7: (0.0379464286, 0.0868714808, 0.265625, 0.05766564),
    21: (0.0121753247, 0.0465727845, 0.2556818182, 0.01941072),
}


@pytest.mark.parametrize("q", [3, 5, 7, 21, 101])
def test_appendix_f_closed_forms_equal_the_definitions(q):
    data = nested_subpopulations(q)
    response, score = data.y_true, data.y_prob
    members = [np.arange(len(score)), *data.subpopulations]
    walks = np.array([kuiper(response[rows], score[rows]) for rows in members])
    sigmas = np.array([noise(score[rows]) for rows in members])
    assert abs(walks[0] - data.expected["kuiper_calibration_error"]) < 1e-12
    assert abs(walks.max() - data.expected["largest_kuiper"]) < 1e-12
    assert abs(sigmas[0] - data.expected["standard_deviation"]) < 1e-12
    assert abs((walks * sigmas[0] / sigmas).max() - data.expected["multicalibration_error"]) < 1e-12
    # eq. (23) for every subpopulation, eq. (19) for its size
    for k, rows in enumerate(data.subpopulations, start=1):
        assert len(rows) == (q - 2 * k) * (q + 1)
        assert abs(walks[k] - (2 * q + 3) / (8 * (q - 2 * k) * (q + 1))) < 1e-12


@pytest.mark.parametrize("q", [7, 21])
def test_appendix_f_has_the_known_numbers(q):
    expected = nested_subpopulations(q).expected
    names = ("kuiper_calibration_error", "multicalibration_error", "largest_kuiper", "standard_deviation")
    for name, value, digits in zip(names, KNOWN[q], (10, 10, 10, 8), strict=True):
        assert round(expected[name], digits) == value


def test_appendix_f_masks_are_the_index_arrays():
    data = nested_subpopulations(9)
    masks = data.masks()
    assert masks.shape == (4, 90)
    for mask, rows in zip(masks, data.subpopulations, strict=True):
        assert np.array_equal(np.flatnonzero(mask), rows)
    for bad in (4, 1, 7.0, True):
        with pytest.raises(MiscalError, match="'q'"):
            nested_subpopulations(bad)


# Luo et al., Appendix D: the signed local calibration error of a wave


def integral(points, bandwidth, amplitude, cycles, cells=20_000):
    """The ratio of the two expectations by the midpoint rule along each feature."""
    t = (np.arange(cells) + 0.5) / cells
    d = points.shape[1]
    product = np.full(len(points), amplitude)
    for j in range(d):
        kernel = np.exp(-np.abs(points[:, j, None] - t) / (d * bandwidth))
        product *= (kernel * np.cos(2 * np.pi * cycles * t)).sum(axis=1) / kernel.sum(axis=1)
    return product


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("bandwidth", [0.02, 0.2, 1.0])
@pytest.mark.parametrize("cycles", [0.5, 1.0, 2.3])
def test_wave_closed_form_equals_the_integral(dimensions, bandwidth, cycles):
    points = np.random.default_rng(1).random((6, dimensions))
    points[0], points[1] = 0.0, 1.0
    exact = local_wave_error(points, bandwidth, amplitude=0.15, cycles=cycles)
    # The midpoint rule errs by about h²/24 times the integrand's curvature and kink, over the kernel's width.
    assert np.abs(exact - integral(points, bandwidth, 0.15, cycles)).max() < 1e-5 * 0.15


def test_wave_limits_are_the_gap_itself_and_the_mean_gap():
    points = np.random.default_rng(2).uniform(0.05, 0.95, (20, 2))
    gap = 0.15 * np.cos(2 * np.pi * points).prod(axis=1)
    assert np.abs(local_wave_error(points, 1e-5) - gap).max() < 1e-6
    assert np.abs(local_wave_error(points, 1e7)).max() < 1e-12


@pytest.mark.parametrize("dimensions", [1, 2])
def test_wave_data_estimate_the_closed_form_in_every_bin(dimensions):
    """Eq. (7) on drawn data, within five standard errors of the closed form."""
    data = local_wave(80_000, dimensions=dimensions, random_state=3)
    features = np.column_stack(list(data.columns.values()))
    points = np.random.default_rng(4).random((15, dimensions))
    points[0] = 0.5  # the crest
    exact = local_wave_error(points, 0.05)
    bins = np.ceil(data.y_prob * 15).astype(int)
    for wanted in (10, 11):
        rows = bins == wanted
        kernel = np.exp(-np.abs(points[:, None, :] - features[None, rows]).sum(axis=2) / (dimensions * 0.05))
        residual = data.y_prob[rows] - data.y_true[rows]
        estimate = kernel @ residual / kernel.sum(axis=1)
        error = np.sqrt((kernel**2) @ residual**2) / kernel.sum(axis=1)
        assert np.abs((estimate - exact) / error).max() < 5
        # and the test can see a wave: without it the estimates would be far off
        assert np.abs(estimate / error).max() > 8

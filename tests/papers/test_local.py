"""Local calibration error (Luo et al., Local Calibration): the formula written out, and its exact limits."""

from __future__ import annotations

import numpy as np
import pytest

from miscal.metrics import (
    average_local_calibration_error,
    groupwise_maximum_calibration_error,
    local_calibration_error,
    maximum_calibration_error,
    maximum_local_calibration_error,
    prediction_rejection_ratio,
)
from studies import imagenet_decisions


def bins_of(score, bins):
    """Right-closed equal-width bins of [0, 1], the lowest edge included."""
    edges = [m / bins for m in range(1, bins)]
    return np.array([sum(edge < value for edge in edges) for value in score])


def naive(correct, confidence, features, bandwidth, *, bins=15, weight=None, leave_one_out=False, queries=None):
    """Signed error, row by row: the normalised, bin-conditioned form that the paper's appendix D proves.

    The smallest distance is subtracted first: it cancels in the ratio and keeps 0/0 away.
    """
    features = np.asarray(features, dtype=float).reshape(len(correct), -1)
    weight = np.ones(len(correct)) if weight is None else np.asarray(weight, dtype=float)
    asked_confidence, asked = (confidence, features) if queries is None else queries
    own, there = bins_of(confidence, bins), bins_of(asked_confidence, bins)
    out = []
    for i in range(len(asked)):
        near = (own == there[i]) & (weight > 0)
        if leave_one_out:
            near[i] = False
        if not near.any():
            out.append(np.nan)
            continue
        distance = np.abs(features[near] - asked[i]).sum(axis=1) / (features.shape[1] * bandwidth)
        k = np.exp(-(distance - distance.min())) * weight[near]
        out.append(np.sum(k * (confidence[near] - correct[near])) / np.sum(k))
    return np.array(out)


def rows(rng, n, d, classes=4):
    """Several classes: probabilities, labels, features; and confidence with correctness."""
    probability = rng.dirichlet(np.full(classes, 0.4), n)
    label = np.array([rng.choice(classes, p=row) for row in probability])
    confidence = probability.max(axis=1)
    return label, probability, rng.normal(size=(n, d)), confidence, (probability.argmax(axis=1) == label) * 1.0


@pytest.mark.parametrize("error", [average_local_calibration_error, maximum_local_calibration_error])
def test_an_average_or_largest_error_has_no_sign(rng, error):
    """Signed errors cancel: their average and their largest are other numbers, which nobody should get unseen."""
    label, probability, features, *_ = rows(rng, 20, 1)
    with pytest.raises(TypeError, match="signed"):
        error(label, probability, features, signed=True)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 30])
@pytest.mark.parametrize("bandwidth", [0.02, 0.2, 5.0])
def test_is_the_formula(rng, d, bandwidth):
    label, probability, features, confidence, correct = rows(rng, 300, d)
    expected = naive(correct, confidence, features, bandwidth)
    signed = local_calibration_error(label, probability, features, bandwidth=bandwidth, signed=True)
    np.testing.assert_allclose(signed, expected, rtol=0, atol=1e-13)
    absolute = local_calibration_error(label, probability, features, bandwidth=bandwidth)
    np.testing.assert_array_equal(absolute, np.abs(signed))
    largest = maximum_local_calibration_error(label, probability, features, bandwidth=bandwidth)
    assert largest == absolute.max()
    average = average_local_calibration_error(label, probability, features, bandwidth=bandwidth)
    assert average == pytest.approx(np.abs(expected).mean(), abs=1e-13)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_leave_one_out_is_the_formula(rng, d):
    label, probability, features, confidence, correct = rows(rng, 200, d)
    expected = naive(correct, confidence, features, 0.1, bins=90, leave_one_out=True)
    found = local_calibration_error(
        label, probability, features, bandwidth=0.1, bins=90, leave_one_out=True, signed=True
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert np.isnan(expected).any()  # a row alone in its bin has no neighbour, so the policy is tested too


@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("bandwidth", [1e-4, 0.2, 10.0])
def test_queries_are_the_formula(rng, d, bandwidth):
    label, probability, features, confidence, correct = rows(rng, 400, d)
    _, asked, asked_features, asked_confidence, _ = rows(rng, 150, d)
    asked_features[:10] += 50.0  # far outside: every weight underflows, and the nearest rows decide
    expected = naive(correct, confidence, features, bandwidth, queries=(asked_confidence, asked_features))
    found = local_calibration_error(
        label, probability, features, bandwidth=bandwidth, queries=(asked, asked_features), signed=True
    )
    # A distance of 50 has the rounding error 50 * 2**-53, which a bandwidth of 1e-4 turns into 6e-11 of an exponent.
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 + 2e-14 / bandwidth)


def test_infinite_bandwidth_is_the_maximum_calibration_error(rng):
    label, probability, features, _, _ = rows(rng, 500, 2)
    expected = maximum_calibration_error(label, probability, target="top")
    for bandwidth in (np.inf, 1e300):
        assert maximum_local_calibration_error(label, probability, features, bandwidth=bandwidth) == pytest.approx(
            expected, rel=1e-14
        )
    nearly = maximum_local_calibration_error(label, probability, features, bandwidth=1e9)
    assert nearly == pytest.approx(expected, abs=1e-8)
    assert nearly != expected


def test_vanishing_bandwidth_is_the_worst_row(rng):
    label, probability, features, confidence, correct = rows(rng, 500, 3)
    for bandwidth in (1e-12, 1e-200, 5e-324):
        found = local_calibration_error(label, probability, features, bandwidth=bandwidth, signed=True)
        np.testing.assert_array_equal(found, confidence - correct)
        largest = maximum_local_calibration_error(label, probability, features, bandwidth=bandwidth)
        assert largest == np.abs(confidence - correct).max()


def test_vanishing_bandwidth_of_queries_is_the_nearest_row(rng):
    label, probability, features, confidence, correct = rows(rng, 300, 2)
    _, asked, asked_features, asked_confidence, _ = rows(rng, 100, 2)
    found = local_calibration_error(
        label, probability, features, bandwidth=1e-9, queries=(asked, asked_features), signed=True
    )
    own, there = bins_of(confidence, 15), bins_of(asked_confidence, 15)
    for i in range(100):
        inside = np.flatnonzero(own == there[i])
        if inside.size == 0:
            assert np.isnan(found[i])
            continue
        nearest = inside[np.abs(features[inside] - asked_features[i]).sum(axis=1).argmin()]
        assert found[i] == confidence[nearest] - correct[nearest]


def test_group_kernel_is_the_gap_of_group_and_bin(rng):
    label, probability, _, confidence, correct = rows(rng, 600, 1)
    group = rng.choice(["a", "b", "c"], 600)
    found = local_calibration_error(label, probability, group, kernel="group", bins=5, signed=True)
    cell = bins_of(confidence, 5)
    for i in range(600):
        same = (group == group[i]) & (cell == cell[i])
        assert found[i] == pytest.approx((confidence[same] - correct[same]).mean(), abs=1e-15)
    largest = maximum_local_calibration_error(label, probability, group, kernel="group", bins=5)
    expected = groupwise_maximum_calibration_error(label, probability, group, bins=5)
    assert largest == pytest.approx(expected, rel=1e-14)


def test_group_kernel_leave_one_out_and_queries(rng):
    label, probability, _, confidence, correct = rows(rng, 200, 1)
    group = rng.choice(["a", "b"], 200)
    found = local_calibration_error(
        label, probability, group, kernel="group", bins=5, signed=True, leave_one_out=True
    )  # fmt: skip
    cell = bins_of(confidence, 5)
    for i in range(200):
        same = (group == group[i]) & (cell == cell[i]) & (np.arange(200) != i)
        expected = (confidence[same] - correct[same]).mean() if same.any() else np.nan
        assert found[i] == pytest.approx(expected, abs=1e-15, nan_ok=True)
    asked = local_calibration_error(
        label, probability, group, kernel="group", bins=5, signed=True, queries=(probability, group)
    )
    np.testing.assert_array_equal(
        asked, local_calibration_error(label, probability, group, kernel="group", bins=5, signed=True)
    )
    unseen = local_calibration_error(
        label, probability, group, kernel="group", bins=5, queries=(probability[:3], ["z", "z", "z"])
    )
    assert np.isnan(unseen).all()


def test_integer_weight_is_repetition(rng):
    label, probability, features, _, _ = rows(rng, 150, 2)
    times = rng.integers(0, 4, 150)
    again = np.repeat(np.arange(150), times)
    weighted = local_calibration_error(label, probability, features, signed=True, sample_weight=times)
    repeated = local_calibration_error(label[again], probability[again], features[again], signed=True)
    assert np.isnan(weighted[times == 0]).all()
    np.testing.assert_allclose(weighted[again], repeated, rtol=0, atol=1e-13)
    one = average_local_calibration_error(label, probability, features, sample_weight=times)
    assert one == pytest.approx(average_local_calibration_error(label[again], probability[again], features[again]))


def test_gaussian_is_its_formula(rng):
    label, probability, features, confidence, correct = rows(rng, 200, 3)
    cell = bins_of(confidence, 15)
    squared = ((features[:, None] - features[None]) ** 2).sum(axis=2)
    k = np.exp(-squared / (2 * 3 * 0.4**2)) * (cell[:, None] == cell[None])
    expected = k @ (confidence - correct) / k.sum(axis=1)
    found = local_calibration_error(label, probability, features, bandwidth=0.4, kernel="gaussian", signed=True)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    given = local_calibration_error(
        label, probability, features, kernel=lambda a, b: np.exp(-((a[:, None] - b) ** 2).sum(-1) / 0.96), signed=True
    )
    np.testing.assert_allclose(given, expected, rtol=0, atol=1e-13)


def test_several_bandwidths_are_each_one(rng):
    label, probability, features, _, _ = rows(rng, 300, 2)
    bandwidths = [1e-3, 0.2, 7.0, np.inf]
    together = local_calibration_error(label, probability, features, bandwidth=bandwidths)
    assert together.shape == (4, 300)
    for one, bandwidth in zip(together, bandwidths, strict=True):
        np.testing.assert_allclose(
            one, local_calibration_error(label, probability, features, bandwidth=bandwidth), rtol=0, atol=1e-13
        )
    largest = maximum_local_calibration_error(label, probability, features, bandwidth=bandwidths)
    np.testing.assert_array_equal(largest, together.max(axis=1))


def test_definitions_of_the_rejection_ratio_that_are_the_same(rng):
    """Areas under errors left, or under the reward, are 2 AUROC - 1; those under the error rate of the rest not."""
    confidence = rng.uniform(0.3, 1, 500)
    right = (rng.random(500) < confidence).astype(int)
    ratio = prediction_rejection_ratio(right, confidence, target="positive")
    assert imagenet_decisions.gained(imagenet_decisions.rejection_curves(confidence, right)) == pytest.approx(ratio)
    assert imagenet_decisions.of_rewards(confidence, right) == pytest.approx(ratio)
    assert abs(imagenet_decisions.of_accepted(confidence, right) - ratio) > 0.01
    assert imagenet_decisions.of_accepted(right * 1.0, right) == pytest.approx(1)
    assert imagenet_decisions.of_decision(right * 1.0, right) == pytest.approx(1)

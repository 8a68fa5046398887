"""Agreement with other libraries where they are right, and the difference written down where they are not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from miscal import metrics
from miscal.data.target import TargetData
from miscal.metrics.losses import area_under_curve, pooled_scores
from miscal.metrics.score_errors import residual_mass
from miscal.recalibrate import IsotonicCalibration
from miscal.stats.kuiper import brownian_range_p
from miscal.stats.smooth_ece import smooth_error_at, spectrum_of
from tests.oracles.frozen import HERE, answers, inputs

CLOSE = {"rel": 1e-12, "abs": 1e-14}


@pytest.fixture(scope="module")
def rows():
    return inputs()


@pytest.fixture(scope="module")
def binary(rows):
    return rows["y"], rows["p"]


@pytest.fixture(scope="module")
def several(rows):
    return rows["labels"], rows["classes"]


def kuiper_deviation(p):
    return np.sqrt(np.sum(p * (1 - p))) / p.size


# ------------------------------------------------------------------------------------------------ scikit-learn
def test_scikit_learn_uniform_curve_gives_our_errors(binary):
    y, p = binary
    curve = answers("scikit_learn")["curve_uniform"]
    gaps = np.abs(np.subtract(curve["observed"], curve["predicted"]))
    # No score lies on an edge, so left- and right-closed bins hold the same rows.
    counts = np.bincount((p * 10).astype(int), minlength=10)
    assert metrics.expected_calibration_error(y, p, bins=10) == pytest.approx(
        np.average(gaps, weights=counts[counts > 0]), **CLOSE
    )
    assert metrics.maximum_calibration_error(y, p, bins=10) == pytest.approx(gaps.max(), **CLOSE)


def test_scikit_learn_quantile_curve_differs_only_at_the_edges(binary):
    y, p = binary
    curve = answers("scikit_learn")["curve_quantile"]
    # 400 untied rows in 10 bins: no interpolated edge is a score, so each bin holds 40 rows in both.
    expected = np.abs(np.subtract(curve["observed"], curve["predicted"])).mean()
    assert metrics.expected_calibration_error(y, p, bins=10, strategy="quantile") == pytest.approx(expected, **CLOSE)


def test_scikit_learn_losses(rows, several):
    known = answers("scikit_learn")
    y, p, weight = rows["y"], rows["p"], rows["weight"]
    assert metrics.brier_score(y, p) == pytest.approx(known["brier"], **CLOSE)
    assert metrics.brier_score(y, p, sample_weight=weight) == pytest.approx(known["brier_weighted"], **CLOSE)
    assert metrics.log_loss(y, p) == pytest.approx(known["log_loss"], **CLOSE)
    assert metrics.log_loss(y, p, sample_weight=weight) == pytest.approx(known["log_loss_weighted"], **CLOSE)
    assert metrics.log_loss(*several) == pytest.approx(known["log_loss_classes"], **CLOSE)


def test_scikit_learn_isotonic(rows):
    known = answers("scikit_learn")
    y, p, tied, weight = rows["y"], rows["p"], rows["tied"], rows["weight"]
    ours = IsotonicCalibration(smooth=0).fit(p, y, sample_weight=weight).predict_proba(p)[:, 1]
    np.testing.assert_allclose(ours, known["isotonic"], rtol=0, atol=1e-12)
    ours = IsotonicCalibration(smooth=0).fit(tied, y).predict_proba(tied)[:, 1]
    np.testing.assert_allclose(ours, known["isotonic_tied"], rtol=0, atol=1e-12)


def test_scikit_learn_area_under_the_curve(rows, several):
    known = answers("scikit_learn")
    for pair, name in (
        (TargetData(rows["p"], rows["y"]), "area"),
        (TargetData(rows["tied"], rows["y"], rows["weight"]), "area_tied_weighted"),
    ):
        assert area_under_curve(*pooled_scores(pair)[1:]) == pytest.approx(known[name], **CLOSE)
    assert metrics.prediction_rejection_ratio(*several) == pytest.approx(2 * known["area_top"] - 1, **CLOSE)


# ------------------------------------------------------------------------------------------------------ netcal
@pytest.mark.parametrize("bins", [10, 15])
def test_netcal_expected_maximum_and_average(binary, several, bins):
    known = answers("netcal")
    for given, ending in ((binary, ""), (several, "_classes")):
        expected = metrics.expected_calibration_error(*given, bins=bins)
        assert expected == pytest.approx(known[f"expected_{bins}{ending}"], **CLOSE)
        largest = metrics.maximum_calibration_error(*given, bins=bins)
        assert largest == pytest.approx(known[f"maximum_{bins}{ending}"], **CLOSE)


def test_netcal_kernel_error_has_a_bandwidth_of_two_fifths(several):
    ours = metrics.mean_kernel_calibration_error(*several, bandwidth=0.4)
    assert ours == pytest.approx(answers("netcal")["kernel_classes"], **CLOSE)


def test_netcal_kernel_error_of_binary_scores_compares_two_different_things(binary):
    """netcal sets the probability of class 1 against "the predicted label is right", which is neither target."""
    y, p = binary
    theirs = answers("netcal")["kernel_binary"]
    assert metrics.mean_kernel_calibration_error(y, p, bandwidth=0.4) < 0.5 * theirs
    assert metrics.mean_kernel_calibration_error(y, p, bandwidth=0.4, target="top") < 0.5 * theirs
    right = ((p > 0.5) == y) - p
    kernel = np.exp(-2.5 * np.abs(p[:, None] - p))
    assert np.sqrt(right @ kernel @ right) / p.size == pytest.approx(theirs, rel=1e-10)


# ----------------------------------------------------------------------------------------------------- relplot
def test_relplot_binned(binary):
    assert metrics.expected_calibration_error(*binary, bins=10) == pytest.approx(answers("relplot")["binned"], **CLOSE)


@pytest.mark.parametrize("sigma", ["0.02", "0.05", "0.1"])
def test_relplot_smooth_error_at_a_given_bandwidth(binary, sigma):
    y, p = binary
    known = answers("relplot")
    ours = smooth_error_at(spectrum_of(residual_mass(TargetData(p, y), 1 << 14)), float(sigma))
    assert ours == pytest.approx(known["fine"][sigma], rel=2e-3)  # its mesh of 20,001 points, ours of 16,385
    assert ours == pytest.approx(known["sigma"][sigma], rel=5e-2)  # its default mesh of 200 points


def test_relplot_cuts_a_wide_kernel_off(binary):
    """Its kernel reaches half a unit to each side, which at a bandwidth of .3 leaves out 10% of the Gaussian."""
    y, p = binary
    t = (np.arange(4000) + 0.5) / 4000
    kernel = sum(
        np.exp(-0.5 * ((t[:, None] - image) / 0.3) ** 2) for k in range(-3, 4) for image in (p + 2 * k, 2 * k - p)
    )
    plain = np.abs(kernel @ (p - y)).mean() / (0.3 * np.sqrt(2 * np.pi) * p.size)
    assert smooth_error_at(spectrum_of(residual_mass(TargetData(p, y), 1 << 14)), 0.3) == pytest.approx(plain, rel=1e-6)
    assert answers("relplot")["fine"]["0.3"] > 1.05 * plain


def test_relplot_fixed_point_within_its_bisection(binary):
    y, p = binary
    known = answers("relplot")
    ours = metrics.smooth_calibration_error(y, p)
    # relplot halves ten times, so its bandwidth is within 2^-10 of the fixed point; ours is the fixed point.
    assert abs(ours - known["width"]) <= 2.0**-10
    assert ours == pytest.approx(known["smooth_fine"], abs=2.0**-10)


# ------------------------------------------------------------------------------------------------ torchmetrics
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_torchmetrics_in_single_precision(binary, several, norm):
    known = answers("torchmetrics")
    assert metrics.expected_calibration_error(*binary, norm=norm, target="positive") == pytest.approx(
        known[norm], abs=1e-6
    )
    assert metrics.expected_calibration_error(*several, norm=norm) == pytest.approx(known[f"{norm}_classes"], abs=1e-6)


def test_torchmetrics_loses_digits_with_many_rows():
    """Single-precision sums over two million rows: wrong in the third digit, where ours are exact integers."""
    known = answers("torchmetrics")["many"]
    assert abs(known["single"] / known["double"] - 1.0) > 1e-4


# ---------------------------------------------------------------------------------------------- MCGrad and MAPIE
def test_mcgrad_kuiper_on_untied_scores(rows):
    known = answers("kuiper")
    y, p, weight = rows["y"], rows["p"], rows["weight"]
    ours = metrics.kuiper_calibration_error(y, p)
    assert ours == pytest.approx(known["mcgrad"], rel=1e-5)  # its sums are in single precision
    assert metrics.kuiper_calibration_error(y, p, sample_weight=weight) == pytest.approx(
        known["mcgrad_weighted"], rel=1e-5
    )
    assert ours / kuiper_deviation(p) == pytest.approx(known["mcgrad_sigma"], rel=1e-5)
    assert brownian_range_p(ours / kuiper_deviation(p)) == pytest.approx(known["mcgrad_p"], rel=1e-3)


def test_mapie_kuiper_on_untied_scores(binary):
    y, p = binary
    known = answers("kuiper")
    # MAPIE adds noise of 1e-8 to the scores before it sorts them.
    assert metrics.kuiper_calibration_error(y, p) / kuiper_deviation(p) == pytest.approx(
        known["mapie_statistic"], rel=1e-6
    )
    assert brownian_range_p(known["mapie_statistic"]) == pytest.approx(known["mapie_p"], rel=1e-9)


@pytest.mark.filterwarnings("ignore:'y_true' has a single class")
def test_a_walk_starts_at_zero_and_mapie_leaves_that_out():
    y, p = np.ones(3), np.array([0.5, 0.6, 0.7])
    known = answers("kuiper")
    ours = metrics.kuiper_calibration_error(y.astype(int), p)
    assert ours == pytest.approx(np.sum(1 - p) / 3, **CLOSE)
    assert known["mcgrad_rising"] == pytest.approx(ours, rel=1e-6)
    assert known["mapie_rising"] * kuiper_deviation(p) == pytest.approx(ours - (1 - 0.5) / 3, rel=1e-6)


def test_tied_scores_make_their_kuiper_depend_on_the_order_of_the_rows(rows):
    known = answers("kuiper")
    y, tied = rows["y"], rows["tied"]
    assert len(set(known["mcgrad_tied"])) == 3
    assert len(set(known["mapie_tied"])) == 2
    ours = {
        metrics.kuiper_calibration_error(y[order], tied[order])
        for order in (np.arange(y.size), np.argsort(-y, kind="stable"), np.argsort(y, kind="stable"))
    }
    assert len(ours) == 1
    # A walk inside ties can only be wider than one between them.
    (value,) = ours
    assert min(known["mcgrad_tied"]) >= value - 1e-6
    assert min(known["mapie_tied"]) * kuiper_deviation(tied) >= value - 1e-6 - 1 / y.size


def segments(rows):
    """All categories of two columns, and their pairs."""
    half = np.arange(rows["y"].size) % 2
    labels = [rows["labels"] == k for k in range(4)]
    halves = [half == k for k in range(2)]
    return [*labels, *halves, *(label & side for label in labels for side in halves)]


@pytest.mark.parametrize("kind", ["plain", "weighted", "real", "real_weighted"])
def test_mcgrad_multicalibration_error_on_untied_scores(rows, kind):
    """The authors' package has equation 4 with 5, and with 6 for regressions."""
    known = answers("multicalibration")[kind]
    y, p, weight = rows["y"], rows["p"], rows["weight"]
    given = {"subpopulations": segments(rows), "sample_weight": weight if "weighted" in kind else None}
    if "real" in kind:
        y, p, given = 10.0 * p + weight * (y - 0.5), 10.0 * p, given | {"response": "real", "variance": "paper"}
    ours = metrics.multicalibration_error(y, p, **given)
    assert ours == pytest.approx(known["error"], rel=1e-9)
    assert known["segments"] == 1 + len(given["subpopulations"])
    # Its p-value is that of the worst subpopulation taken alone.
    assert brownian_range_p(known["sigma"]) == pytest.approx(known["p"], rel=1e-6)


def test_mcgrad_multicalibration_error_of_ties_depends_on_the_order_of_the_rows(rows):
    known = answers("multicalibration")
    assert known["tied"]["error"] != pytest.approx(known["tied_events_first"]["error"], rel=0.01)
    ours = metrics.multicalibration_error(rows["y"], rows["tied"], subpopulations=segments(rows))
    assert min(known["tied"]["error"], known["tied_events_first"]["error"]) >= ours - 1e-9


def test_mapie_makes_one_bin_less_than_asked(binary, several):
    known = answers("kuiper")
    assert metrics.expected_calibration_error(*binary, bins=14) == pytest.approx(known["mapie_binned_15"], abs=1e-9)
    assert metrics.expected_calibration_error(*binary, bins=15) != pytest.approx(known["mapie_binned_15"], abs=1e-4)


# ------------------------------------------------------------------------------------------- model-diagnostics
@pytest.mark.parametrize("loss", ["brier", "log"])
@pytest.mark.parametrize("scores", ["p", "tied"])
@pytest.mark.parametrize("weighted", [False, True])
def test_model_diagnostics_decomposition(rows, loss, scores, weighted):
    known = answers("decomposition")[f"{loss}_{scores}{'_weighted' * weighted}"]
    weight = rows["weight"] if weighted else None
    ours = metrics.score_decomposition(rows["y"], rows[scores], loss=loss, sample_weight=weight)
    for part, value in known.items():
        assert getattr(ours, part) == pytest.approx(value, rel=1e-9, abs=1e-12), part


# ------------------------------------------------------------------------------- skmisc's loess and statsmodels
def test_integrated_calibration_index_from_exact_loess(rows):
    known = answers("smooth_curve")
    y, p, weight = rows["y"], rows["p"], rows["weight"]
    assert metrics.integrated_calibration_index(y, p) == pytest.approx(known["index"], rel=1e-9)
    ours = metrics.integrated_calibration_index(y, p, sample_weight=weight)
    assert ours == pytest.approx(known["index_weighted"], rel=1e-9)


def test_slope_and_intercept_of_statsmodels(binary):
    known = answers("slope")
    ours = metrics.calibration_slope_intercept(*binary)
    for name in ("slope", "intercept", "in_the_large"):
        estimate = getattr(ours, name)
        assert estimate.value == pytest.approx(known[name], rel=1e-8)
        assert (estimate.low, estimate.high) == pytest.approx(tuple(known[f"{name}_interval"]), rel=1e-7)


def test_weighted_slope_of_statsmodels(rows):
    ours = metrics.calibration_slope_intercept(rows["y"], rows["p"], sample_weight=rows["weight"])
    assert (ours.intercept.value, ours.slope.value) == pytest.approx(tuple(answers("slope")["weighted"]), rel=1e-8)


def test_every_answer_names_the_versions_that_gave_it():
    for path in HERE.glob("make_*.py"):
        name = path.stem.removeprefix("make_")
        if name not in {"all", "inputs"}:
            assert json.loads((HERE / f"{name}.json").read_text())["versions"], name

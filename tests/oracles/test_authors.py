"""Agreement with the packages of the papers' and the methods' own authors, on the rows of all oracles."""

from __future__ import annotations

import numpy as np
import pytest

from miscal import metrics, recalibrate
from tests.oracles.frozen import answers, inputs


@pytest.fixture(scope="module")
def rows():
    return inputs()


def test_mcgrad_multicalibration_error_of_the_same_segments(rows):
    y, p = rows["y"], rows["p"]
    columns = [rows["labels"], rows["weight"] > 1]
    values = [[column == value for value in np.unique(column)] for column in columns]
    segments = [*values[0], *values[1], *(first & second for first in values[0] for second in values[1])]
    known = answers("authors")["multicalibration"]
    error = metrics.multicalibration_error(y, p, subpopulations=segments)
    assert error == pytest.approx(known["value"], rel=1e-12)
    noise = np.sqrt(np.sum(p * (1 - p))) / p.size
    assert error / noise == pytest.approx(known["deviations"], rel=1e-12)


def test_scaling_binning_of_its_authors(rows):
    ours = recalibrate.ScalingBinning().fit(rows["p"], rows["y"]).predict_proba(rows["p"])[:, 1]
    np.testing.assert_allclose(ours, answers("authors")["scaling_binning"], rtol=0, atol=1e-5)


def test_beta_calibration_of_its_authors_has_no_lower_loss(rows):
    y = rows["y"]
    ours = recalibrate.BetaCalibration().fit(rows["p"], y).predict_proba(rows["p"])[:, 1]
    theirs = np.array(answers("authors")["beta"])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3)
    assert metrics.log_loss(y, ours) <= metrics.log_loss(y, theirs) + 1e-12

"""SmoothECE against noise: how often calibrated data are called wrong, what is found, and when nothing is said."""

from __future__ import annotations

import math

import numpy as np
import pytest

import miscal
from miscal.data.target import TargetData, select_target
from miscal.metrics.score_errors import smooth_error
from miscal.stats.smooth_ece import node_deviations, smooth_ece_null
from tests.trials import too_often

TABLES, ROWS = 60, 800
ALL_SMOOTH_DRAWS = True


def _judged(seed: int, slope: float = 1.0) -> float:
    rng = np.random.default_rng(seed)
    score = rng.beta(2.0, 3.0, ROWS)
    odds = np.log(score / (1.0 - score))
    compared = select_target(miscal.Predictions(rng.random(ROWS) < 1.0 / (1.0 + np.exp(-slope * odds)), score))
    return smooth_ece_null(compared, smooth_error(compared), "bernoulli", random_state=seed).p_value


@pytest.mark.slow
def test_calibrated_scores_are_rarely_called_wrong() -> None:
    # At a true rate of 5% more than 8 of 60 alarm in 4 runs of 1,000.
    assert not too_often(lambda seed: {"smooth": _judged(seed) <= 0.05}, TABLES, 8)


def test_scores_that_are_too_extreme_are_called_wrong() -> None:
    assert max(_judged(seed, slope=0.4) for seed in range(3)) <= 0.02


def test_the_variance_of_the_nodes_is_that_of_the_rows() -> None:
    predicted = np.array([0.25, 0.25, 0.5, 0.75])
    compared = TargetData(predicted, np.array([0, 1, 1, 0], np.uint8))
    found = node_deviations(compared, 4, "bernoulli")
    expected = np.array([0.0, math.sqrt(2 * 0.1875), math.sqrt(0.25), math.sqrt(0.1875), 0.0]) / 4
    assert found == pytest.approx(expected)


def test_clusters_and_few_events_have_no_p_value_and_say_why() -> None:
    rng = np.random.default_rng(0)
    score = rng.uniform(0.2, 0.8, 400)
    outcome = rng.random(400) < score
    clustered = miscal.Predictions(outcome, score, cluster=np.repeat(np.arange(100), 4))
    noise = miscal.by_score(clustered).extra["smooth_noise"]
    assert math.isnan(noise["p_value"])
    assert "clusters" in noise["method"]
    rare = TargetData(np.full(400, 0.01), (rng.random(400) < 0.01).astype(np.uint8))
    assert "events" in smooth_ece_null(rare, 0.01, "bernoulli").method

"""What is said of cells and walks: clusters, aggregated rows, real-valued responses."""

from __future__ import annotations

import numpy as np
import pytest

from miscal.data.predictions import Predictions
from miscal.data.target import TargetData, select_target
from miscal.metrics.cell_evaluation import evaluate_cells, kuiper_test
from miscal.metrics.score import by_score
from miscal.metrics.score_errors import score_bins
from miscal.metrics.variable import by_variable
from miscal.stats.null_model import choose_null


def clustered_rows(clusters=4000, size=5, seed=1):
    rng = np.random.default_rng(seed)
    score = np.repeat(rng.uniform(0.2, 0.8, clusters), size)
    outcome = np.repeat(rng.random(clusters), size) < score  # all rows of a cluster share their fate
    return outcome, score, np.repeat(np.arange(clusters), size)


def test_clusters_widen_the_band_by_the_root_of_their_size():
    outcome, score, cluster = clustered_rows()
    alone, together = (
        evaluate_cells(given, score_bins(given, 4, "uniform"), choose_null(given, "bernoulli")).columns
        for given in (
            select_target(Predictions(outcome, score)),
            select_target(Predictions(outcome, score, cluster=cluster)),
        )
    )
    filled = alone["rows"] > 0
    wide = (together["band_high"] - together["band_low"])[filled]
    narrow = (alone["band_high"] - alone["band_low"])[filled]
    assert wide / narrow == pytest.approx(np.sqrt(5), rel=0.25)
    assert (together["detectable"][filled] > 1.5 * alone["detectable"][filled]).all()


def test_clusters_widen_the_band_of_the_cumulative_differences():
    outcome, score, cluster = clustered_rows()
    alone, together = (
        np.array(by_score(given).extra["cumulative"]["band"])
        for given in (Predictions(outcome, score), Predictions(outcome, score, cluster=cluster))
    )
    assert alone[-1] == pytest.approx(1.959963984540054 * np.sqrt(np.sum(score * (1 - score))) / score.size, rel=1e-9)
    assert together[1:] / alone[1:] == pytest.approx(np.sqrt(5), rel=0.15)


def test_aggregated_rows_are_judged_like_the_rows_they_stand_for():
    rng = np.random.default_rng(2)
    score = np.array([0.05, 0.1, 0.2, 0.4, 0.8])
    trials = np.array([300, 200, 150, 120, 90])
    events = rng.binomial(trials, score)
    folded = select_target(Predictions(events, score, count=trials))
    labels = np.concatenate([np.repeat([1, 0], [k, n - k]) for k, n in zip(events, trials, strict=True)])
    unfolded = select_target(Predictions(labels, np.repeat(score, trials)))
    edges = [0.0, 0.07, 0.15, 0.3, 0.6, 1.0]
    one, two = (
        evaluate_cells(given, score_bins(given, edges, "uniform"), choose_null(given, "bernoulli"))
        for given in (folded, unfolded)
    )
    assert one.columns["p_value"].tolist() == two.columns["p_value"].tolist()
    assert one.summary.p_value == two.summary.p_value
    kuiper, again = (kuiper_test(given, None, choose_null(given, "bernoulli")).summary for given in (folded, unfolded))
    assert kuiper.value == pytest.approx(again.value, abs=1e-15)
    assert kuiper.method == again.method == "simulation"
    # Two simulations of 999 draws each: four standard errors of their difference.
    spread = np.sqrt(2 * 0.25 / 500)
    assert kuiper.p_value == pytest.approx(again.p_value, abs=4 * spread)
    assert kuiper.noise_floor == pytest.approx(again.noise_floor, rel=0.1)


def test_clusters_of_aggregated_rows_are_flipped_as_one():
    score = np.tile([0.3, 0.6], 40)
    trials = np.full(80, 50)
    rng = np.random.default_rng(3)
    events = np.where(rng.random(80) < score, 50, 0)  # every trial of a row has the same outcome
    given = select_target(Predictions(events, score, count=trials, cluster=np.arange(80)))
    noise = choose_null(given, "bernoulli")
    summary = kuiper_test(given, None, noise).summary
    assert summary.method == "sign flips"
    # Trials taken as independent would make the noise smaller by the root of 50.
    assert summary.noise_floor > 5 * np.sqrt(np.sum(trials * score * (1 - score))) / trials.sum()
    assert summary.p_value > 0.01


def test_real_responses_are_judged_by_their_residuals():
    rng = np.random.default_rng(4)
    score = rng.uniform(0.0, 0.02, 600)
    share = np.clip(score + rng.normal(0, 0.001, 600), 0, 1)
    given = TargetData(score, share)
    found = evaluate_cells(given, score_bins(given, 5, "quantile"), choose_null(given, "bernoulli"))
    assert set(found.columns["method"]) == {"residuals"}  # few events are no reason: these are not events
    assert np.isfinite(found.columns["p_value"]).all()
    assert found.null_model.null == "residual"


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.0, 1.0, 2.0], ["[0, 0]", "(0, 1]", "(1, 2]"]),
        ([20.0, 30.0], ["[20, 20]", "(20, 30]"]),
        ([-1.5, 0.25], ["[-1.5, -1.5]", "(-1.5, 0.25]"]),
        ([1000000.5, 1000000.75], ["[1000000.5, 1000000.5]", "(1000000.5, 1000000.75]"]),
    ],
)
def test_a_range_of_one_value_is_called_by_that_value(values, labels):
    score = np.full(300, 0.5)
    outcome, x = np.arange(300) % 2, np.tile(values, 300 // len(values))
    found = by_variable(Predictions(outcome, score, columns={"x": x}), "x")
    assert list(found.table["label"]) == labels


def test_a_common_lowest_value_is_called_by_that_value(rng):
    x = np.where(rng.random(4000) < 0.9, 0.0, rng.random(4000))
    found = by_variable(Predictions(rng.random(4000) < 0.5, np.full(4000, 0.5), columns={"x": x}), "x")
    assert found.table["label"][0] == "[0, 0]"
    assert not any("e-3" in label for label in found.table["label"])

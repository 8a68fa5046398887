"""Changes between models and between sets of rows, and bootstrap p-values."""

import math

import numpy as np
import pytest

from miscal.stats.comparison import equal_gaps_p, exceeds_undetected, gap_changed, paired_p
from miscal.stats.resampling import bootstrap_p


def test_equal_gaps_are_rejected_as_often_as_the_level_says(rng: np.random.Generator) -> None:
    rows, trials = 400, 1000
    score = rng.uniform(0.1, 0.9, (2, trials, rows))
    observed = rng.random(score.shape) < score
    residual = observed - score
    weight = np.full((2, trials), float(rows))
    p_value = equal_gaps_p(-residual.mean(axis=2), (residual**2).sum(axis=2), weight)
    assert 0.03 < (p_value <= 0.05).mean() < 0.07


def test_two_models_equally_far_from_the_truth_are_not_told_apart(rng: np.random.Generator) -> None:
    truth = np.full(2000, 100.0)
    predicted = np.stack([truth - 20.0, truth + 20.0])
    p_value = paired_p(predicted, rng.normal(truth, 9.0), np.full((2, 2000), 81.0))
    assert 0.03 < (p_value <= 0.05).mean() < 0.07
    assert paired_p(predicted[:1].repeat(2, axis=0), truth, np.full((2, 2000), 81.0)).min() == 1.0


@pytest.mark.parametrize(("change", "changed"), [(0.0424, False), (0.0425, True), (-0.05, True), (math.nan, True)])
def test_a_gap_changes_beyond_three_standard_errors(change: float, changed: bool) -> None:
    assert gap_changed((0.1, 0.01), (0.1 + change, 0.01)) is changed


def test_an_earlier_audit_of_fewer_rows_could_miss_more() -> None:
    assert exceeds_undetected(0.07, 0.01, 3.0, 1.0)
    assert not exceeds_undetected(0.07, 0.01, 3.0, 2.0)
    assert exceeds_undetected(math.nan, 0.01, 3.0, 1.0)


def test_a_bootstrap_keeps_clusters_together(rng: np.random.Generator) -> None:
    units = np.repeat(np.arange(20), 50)
    values = rng.normal(0.0, 1.0, 20)[units] + 0.1
    drawn: list[np.ndarray] = []

    def positive(times: np.ndarray) -> bool:
        drawn.append(times)
        return bool(times @ values > 0)

    by_cluster = bootstrap_p(positive, units, draws=99)
    assert len(drawn) == 99
    assert all(np.array_equal(times.reshape(20, 50), np.tile(times[::50, None], 50)) for times in drawn)
    by_row = bootstrap_p(lambda times: bool(times @ values > 0), np.arange(1000), draws=99)
    assert by_row < by_cluster
    assert bootstrap_p(lambda _: False, units, draws=99) == 1.0

"""A small, seeded piece of studies/false_alarms_score.py: the limits are derived, the whole is in studies/results."""

from __future__ import annotations

import pytest

from studies import false_alarms_score as study

SETS = 40


def test_the_limits_are_the_binomials():
    assert study.harness.alarm_limit(1000) == 73
    assert study.harness.alarm_limit(100) == 13
    assert study.harness.alarms([0.05, 0.2, float("nan")]) == {
        "alarms": 1, "of": 3, "judged": 2, "limit": 2, "kept": True,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "plain",
        "scores rounded to .1",
        "lognormal weights",
        "clusters of five",
        "three classes, top label",
        "two hundred rows",
    ],
)
def test_calibrated_data_seldom_alarm(kind):
    (row,) = study.calibrated_rows(SETS, [kind])
    assert row["limit"] == 7  # the 99.9% point of Binomial(40, .05)
    assert row["kept"], row


@pytest.mark.slow
def test_a_planted_error_is_seen_and_covered():
    answers = [study.one(study.shifted(seed, 2.0), {}) for seed in range(20)]
    row = study.summary("slope 2", answers)
    assert row["error"] == row["kuiper"] == row["cells"] == 20
    assert min(row["covered"], row["kuiper_covered"]) >= row["least"]


def test_a_test_that_ignores_clusters_would_be_caught():
    """The mutant: clustered rows taken as independent alarm far beyond the limit."""
    make, options = study.KINDS["clusters of five"]
    answers = []
    for seed in range(SETS):
        made = make(seed)
        alone = study.datasets.Synthetic(
            made.y_true, made.y_prob, made.truth, made.columns, made.where, made.planted, 0.0
        )
        answers.append(study.one(alone, options))
    row = study.summary("mutant", answers)
    assert max(row["error"], row["kuiper"]) > row["limit"]

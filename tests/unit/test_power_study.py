"""Pieces of studies/power.py and few_clusters.py: combined tests see what single ones see, at their size."""

from __future__ import annotations

import numpy as np
import pytest

import miscal
from studies import few_clusters, power


@pytest.mark.parametrize(
    ("kind", "error"), [("by_variable", "U"), ("by_field", "one level of 50"), ("by_field", "shift")]
)
def test_the_combined_test_has_most_of_the_power_of_the_best_single_one(kind, error):
    row = power.row(kind, error, 60, smallest=error == "shift")  # what the study shows beside it: once
    assert row["share"] >= 0.85, row
    assert ("smallest" in row) == (error == "shift")


@pytest.mark.parametrize("kind", ["by_variable", "by_field"])
def test_the_combined_test_keeps_its_size(kind):
    row = power.row(kind, "none", 40)
    assert row["kept"], row


def test_few_clusters_of_skewed_scores_raise_no_alarms():
    row = few_clusters.row(20, 0.3, "skewed", 12)
    assert row["kept"], row


def test_the_parts_of_a_p_value_can_be_read():
    rng = np.random.default_rng(0)
    score = rng.beta(2, 3, 2000)
    p = miscal.Predictions(rng.random(2000) < score**1.5, score, columns={"x": rng.random(2000)})
    tests = miscal.by_score(p).tests
    assert tests["test"].tolist() == ["expected error", "Kuiper", "slope and intercept"]
    assert (tests["p_value"] == 0.001).all()
    found = miscal.by_variable(p, "x")
    assert found.tests["test"].tolist() == ["total", "trend", "bend", "smooth curve", "largest range"]
    assert found.p_value < 1e-6  # finer than the draws: by the distributions that single tests have
    assert found.to_dict()["extra"]["tests"]["test"] == found.tests["test"].tolist()
    assert miscal.by_variation(p).tests.rows == 0

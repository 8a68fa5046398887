"""Draws of the null from sums alone: never NaN, so that no p-value is small for want of a number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import miscal
from miscal.aggregate.column_roles import ColumnRoles
from miscal.auditing.summary_files import tally_of
from miscal.stats.metric_null import max_statistic_p


@pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")
def test_scores_next_to_one_with_whole_weights_are_calibrated_in_a_tally(tmp_path: Path) -> None:
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        p = rng.choice([1 - 1e-16, 0.5], 1500)
        table = {"y": (rng.random(1500) < p).astype(int), "p": p, "w": rng.integers(1, 5, 1500)}
        tally_of(table, ColumnRoles(outcome="y", probability="p", weight="w")).save(tmp_path / "t.tally")
        details = miscal.audit(tmp_path / "t.tally", effort="quick").score["details"]
        rows = miscal.audit(table, outcome="y", probability="p", weight="w", effort="quick").score["details"]
        found.append(details["kuiper"]["p_value"])
        assert abs(details["kuiper"]["p_value"] - rows["kuiper"]["p_value"]) < 0.15
        assert abs(details["expected"]["p_value"] - rows["expected"]["p_value"]) < 0.15
    assert min(found) > 0.002
    assert np.mean(found) > 0.3


def test_draws_that_are_no_numbers_make_no_p_value_small() -> None:
    assert max_statistic_p(1.0, lambda _, count: np.full(count, np.nan), 99).p_value == 1.0

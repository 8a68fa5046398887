"""A small piece of studies/sampled_by_outcome.py: weights that know the outcome are recognised and judged rightly."""

from __future__ import annotations

import pytest

from studies import sampled_by_outcome as study


@pytest.mark.parametrize("kept", ["events", "non-events"])
def test_uneven_weights_of_a_sample_by_outcome_raise_no_alarms(kept):
    row = study.row(kept, "stratum of 1.3", 25)
    assert row["recognised"] == 25
    assert row["kept"], row


def test_a_planted_error_is_still_seen():
    row = study.row("non-events", "stratum of 1.3", 8, shift=0.6)
    assert min(row["counts"][name][0] for name in study.TESTS) >= 7, row

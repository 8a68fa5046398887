"""A small piece of studies/intervals.py: intervals cover far from calibration, and cells agree with their tests."""

from __future__ import annotations

import pytest

from studies import intervals as study


@pytest.mark.parametrize("kind", ["rare", "clusters"])
def test_intervals_cover_and_cells_say_what_their_tests_say(kind):
    sets = 12
    row = study.row(kind, sets)
    assert min(row[name] for name in study.METRICS) >= row["least"], row
    assert not any(row[name] for name in row if name.endswith("disagree")), row
    if kind == "clusters":
        assert max(row[name] for name in row if name.endswith("exclude 0")) <= study.harness.alarm_limit(sets), row

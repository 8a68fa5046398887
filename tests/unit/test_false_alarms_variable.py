"""A small version of the false-alarm study along a variable: few data sets, the same limits."""

from __future__ import annotations

import pytest

from studies.false_alarms_variable import one, ranking
from studies.harness import alarms

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sets"), [("plain", 24), ("rate .01", 24), ("five rows a patient", 12)])
def test_calibrated_data_seldom_alarm(kind: str, sets: int) -> None:
    """Clusters take ten times as long to draw: fewer sets, of which at most 4 may alarm in place of 6 of 24."""
    found = [one(kind, seed) for seed in range(sets)]
    for name in found[0]:
        counted = alarms([each[name] for each in found])
        assert counted["judged"] == sets, name
        assert counted["kept"], (name, counted)


@pytest.mark.slow
def test_ranking_twenty_columns_seldom_alarms() -> None:
    assert alarms([ranking(seed) for seed in range(24)])["kept"]

"""A small version of the false-alarm study along a variable: few data sets, the same limits."""

from __future__ import annotations

import pytest

from studies.false_alarms_variable import one, ranking
from studies.harness import alarms

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "rate .01", "five rows a patient"])
def test_calibrated_data_seldom_alarm(kind: str) -> None:
    found = [one(kind, seed) for seed in range(24)]
    for name in found[0]:
        counted = alarms([each[name] for each in found])
        assert counted["judged"] == 24, name
        assert counted["kept"], (name, counted)


@pytest.mark.slow
def test_ranking_twenty_columns_seldom_alarms() -> None:
    assert alarms([ranking(seed) for seed in range(24)])["kept"]

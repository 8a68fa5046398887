"""A small version of the false-alarm study along a variable: few data sets, the same limits."""

from __future__ import annotations

import math

import pytest

from studies.false_alarms_variable import one, ranking
from studies.harness import alarm_limit
from tests.trials import too_often

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")


def alarms(p_values: dict[str, float]) -> dict[str, bool]:
    """Which of them alarm; each must be judged."""
    assert not any(math.isnan(value) for value in p_values.values()), p_values
    return {name: value <= 0.05 for name, value in p_values.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "sets"), [("plain", 24), ("rate .01", 24), ("five rows a patient", 12)])
def test_calibrated_data_seldom_alarm(kind: str, sets: int) -> None:
    """Clusters take ten times as long to draw: fewer sets, of which at most 4 may alarm in place of 6 of 24."""
    assert not too_often(lambda seed: alarms(one(kind, seed)), sets, alarm_limit(sets))


@pytest.mark.slow
def test_ranking_twenty_columns_seldom_alarms() -> None:
    assert not too_often(lambda seed: {"smallest": ranking(seed) <= 0.05}, 24, alarm_limit(24))

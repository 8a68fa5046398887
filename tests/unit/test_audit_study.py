"""A smaller run of the study of findings: what was planted is found first, and calibrated data stay quiet."""

from __future__ import annotations

from itertools import count, islice

import pytest

from studies import audit_findings as study
from studies import calibration_by_place as slopes
from tests.trials import too_often

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_smooth_noise")]
TABLES, ROWS = 10, 4000


def planted(place: str, rows: int, number: int) -> list[int]:
    """The first tables in which the planted error came out large enough to count."""
    large = (seed for seed in count() if study.drawn(place, rows, study.PLANTED, seed, False)[1] >= study.SIGMA)
    return list(islice(large, number))


def wrong(item: study.Item) -> dict[str, bool]:
    """Whether a table's audit is wrong."""
    return {"wrong": not item["right"]}


@pytest.mark.parametrize("place", ["field", "variable", "pair", "subpopulation"])
def test_a_planted_error_is_the_first_finding(place: str) -> None:
    tables = planted(place, ROWS, 4)
    # At a true rate of 95% at most 1 of 4 is missed in 98 runs of 100.
    assert not too_often(lambda number: wrong(study.planted_first(place, ROWS, tables[number])), 4, 1)


def test_a_planted_region_is_the_first_finding_of_a_deep_audit() -> None:
    tables = planted(study.REGION, study.REGION_ROWS, 2)
    # At a true rate of 95% both are missed in 3 runs of 1,000.
    assert any(study.planted_first(study.REGION, study.REGION_ROWS, seed, effort="deep")["right"] for seed in tables)


def test_calibrated_data_are_quiet() -> None:
    # At a true rate of 5% more than 2 of 10 alarm in 12 runs of 1,000.
    assert not too_often(lambda seed: wrong(study.calibrated_alarms(ROWS, 500 + seed)), TABLES, 2)


def test_a_score_wrong_everywhere_is_one_finding() -> None:
    """The total right in every other table."""
    # At a true rate of 95% more than 2 of 10 are something else in 12 runs of 1,000.
    assert not too_often(lambda seed: wrong(study.one_general(ROWS, 500 + seed, total_right=seed % 2 == 1)), TABLES, 2)


@pytest.mark.parametrize("place", ["level", "pair"])
def test_a_planted_slope_is_the_first_finding_and_called_too_extreme(place: str) -> None:
    slope = slopes.SLOPES[0]  # .35, the smallest tables
    tables = [seed for seed in range(0, 32, 4) if slopes.table(place, slope, seed)[2] >= slopes.SIGMA]
    assert len(tables) >= 5
    # At a true rate of 95% more than 2 of 8 are missed in 6 runs of 1,000.
    assert not too_often(lambda number: wrong(slopes.planted_first(place, tables[number])), len(tables), 2)

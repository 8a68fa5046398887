"""A small version of the study of false alarms by field; the full one is in studies/."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import miscal
from studies.field_false_alarms import limit, rare_levels, whole_result


def test_rare_levels_raise_no_false_alarms():
    found = [rare_levels(seed, 3000, 50) for seed in range(20)]
    exact, normal = (sum(column) for column in zip(*found, strict=True))
    assert exact <= limit(20)
    assert normal >= 15  # the usual test fails here, so the data are hard enough to tell


def test_a_result_by_field_raises_no_false_alarms():
    found = [whole_result(seed, 60, 600) for seed in range(40)]
    for alarms in (sum(column) for column in zip(*found, strict=True)):
        assert alarms <= limit(40)


@pytest.mark.parametrize(("shape", "levels"), [((1.0, 8.0), 700), ((1.0, 60.0), 700), ((2.0, 3.0), 60)])
def test_many_small_levels_of_clustered_rows_are_no_alarm(shape: tuple[float, float], levels: int) -> None:
    """Rare events are not symmetric, so flipping signs alone took the noise of small levels for too little."""
    alarms, tables, rows, people = 0, 20, 3000, 600
    values, floors = [], []
    for seed in range(tables):
        rng = np.random.default_rng([23, seed])
        person = rng.integers(0, people, rows)
        p = rng.beta(*shape, people)[person]
        luck = rng.random(people)  # half of a person's outcomes are one draw
        y = np.where(rng.random(rows) < 0.5, luck[person] < p, rng.random(rows) < p)
        level = rng.integers(0, levels, rows).astype(str)
        found = miscal.by_field(miscal.Predictions(y, p, cluster=person, columns={"g": level}), "g")
        alarms += found.p_value <= 0.05
        values.append(found.value)
        floors.append(found.noise_floor)
    assert alarms <= stats.binom.isf(0.001, tables, 0.05)  # 5 of 20
    assert np.mean(floors) == pytest.approx(np.mean(values), rel=0.08)  # the floor is what calibrated rows show


def test_one_tiny_level_does_not_hide_the_errors_of_the_others() -> None:
    """The noise of a level of 30 rows is drawn from the predictions; what it adds to the whole is its share."""
    rng = np.random.default_rng(5)
    person = np.repeat(np.arange(200), 50)
    p = rng.uniform(0.2, 0.8, 200)[person]
    level = rng.integers(0, 8, person.size).astype(str)
    luck = np.where(rng.random(person.size) < 0.2, rng.random(200)[person], rng.random(person.size))
    y = luck < np.clip(p + np.where(level < "4", 0.08, -0.08), 0, 1)
    tiny = level.copy()
    tiny[:30] = "tiny"
    found = [
        miscal.by_field(miscal.Predictions(y, p, cluster=person, columns={"g": names}), "g") for names in (level, tiny)
    ]
    assert found[0].p_value <= 0.01
    assert found[1].p_value <= 0.01
    assert found[1].noise_floor == pytest.approx(found[0].noise_floor, rel=0.1)

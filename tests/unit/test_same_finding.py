"""Is a finding one that an earlier audit had?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from miscal import audit
from miscal.auditing.finding_identity import known, same, span
from miscal.auditing.gates import Gates, judge


def made(where: str, *levels: str, gap: float = 0.1) -> dict:
    return {"where": where.format(*levels), "columns": ["a", "b"][: len(levels)], "levels": list(levels), "gap": gap}


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        (made("a {}", "8 to 11"), made("a {}", "9 to 12"), True),
        (made("a {}", "8 to 11"), made("a {}", "11 to 20"), False),
        (made("a {}", "above 37.5"), made("a {}", "above 41"), True),
        (made("a {}", "above 37.5"), made("a {}", "up to 82"), False),
        (made("a {}", "above 37.5"), made("a {}", "36 to 60"), True),
        (made("a {}", "1,000 to 2,000"), made("a {}", "1,100 to 2,200"), True),
        (made("a {}", "2013-08-19 to 2013-12-01"), made("a {}", "2013-09-01 to 2013-12-20"), True),
        (made("a {}", "CA"), made("a {}", "NV"), False),
        (made("a {}", "18"), made("a {}", "19"), False),
        (made("a {}", "007"), made("a {}", "7"), False),
        (made("a {} and b {}", "8 to 11", "CA"), made("a {} and b {}", "9 to 11", "CA"), True),
        (made("a {} and b {}", "8 to 11", "CA"), made("a {} and b {}", "9 to 11", "NV"), False),
        (made("{} and {}", "a >= 14", "b in {x, y}"), made("{} and {}", "a >= 15", "b in {y, z, w}"), True),
        (made("{} and {}", "a >= 14", "b in {x, y}"), made("{} and {}", "a < 15", "b in {x, y}"), False),
        (made("{}", "3 <= a < 9"), made("{}", "4 <= a < 9"), True),
        (made("a {} (class x)", "8 to 11"), made("a {} (class y)", "9 to 11"), False),
        (made("a {}", "8 to 11"), made("a {}", "8 to 11", gap=-0.1), False),
        (made("the whole table"), made("the whole table"), True),
        (made("the whole table"), made("a {}", "8 to 11"), False),
    ],
)
def test_places_that_are_nearly_the_same(one: dict, other: dict, answer: bool) -> None:
    assert same(one, other) is answer
    assert same(other, one) is answer
    assert same(one, one)


def test_a_finding_that_has_spread_is_another_one() -> None:
    narrow, wide = {**made("a {}", "31 to 32"), "rows": 500}, {**made("a {}", "18 to 59"), "rows": 11_600}
    assert known({**narrow, "rows": 900}, [narrow], (20_000, 20_000))
    assert known({**narrow, "rows": 900}, [narrow], (40_000, 20_000))
    assert not known(wide, [narrow], (20_000, 20_000))
    assert known(narrow, [wide], (20_000, 20_000))


@given(some.floats(-1e6, 1e6), some.floats(1e-3, 1e6))
def test_a_range_is_read_back(low: float, length: float) -> None:
    high = low + length
    assert span(f"{low!r} to {high!r}") == (low, high)
    assert span(f"above {low!r}") == (low, np.inf)
    assert span(f"x < {high!r}") == (-np.inf, high)


def test_the_same_error_in_another_month_is_no_new_finding() -> None:
    """The ranges of two tables end at other quantiles; a later error elsewhere is new."""

    def month(seed: int, wrong: tuple[float, float]) -> dict:
        rng = np.random.default_rng(seed)
        p, age = rng.beta(2, 3, 4000), rng.uniform(18, 80, 4000)
        y = rng.random(4000) < np.where((age > wrong[0]) & (age < wrong[1]), 0.5 * p, p)
        frame = {"y": y.astype(int), "p": p, "age": age}
        return audit(frame, outcome="y", probability="p", effort="quick").document

    june, july, august = month(0, (30, 45)), month(1, (30, 45)), month(2, (55, 70))
    assert {f["where"] for f in july["findings"] if f["real"]} - {f["where"] for f in june["findings"]}
    gates = Gates(no_new_findings="june.json")
    assert all(outcome.passed for outcome in judge(july, gates, june))
    assert not all(outcome.passed for outcome in judge(august, gates, june))

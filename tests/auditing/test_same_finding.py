"""Is a finding one that an earlier audit had?"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from miscal import audit
from miscal.auditing.gates import Gates, judge
from miscal.auditing.same_finding import in_earlier_audit, same_finding
from miscal.report.codec import dumps, report_from
from miscal.report.findings import Finding

Picked = tuple[float | None, float | None] | list[str] | None  # a range, levels, or missing values


def made(*picked: Picked, gap: float = 0.1, rows: int = 100, **more: Any) -> Finding:
    """A finding of columns a and b."""
    condition = []
    for column, each in zip("ab", picked, strict=False):
        low, high = each if isinstance(each, tuple) else (None, None)
        levels = [] if each is None else each if isinstance(each, list) else None
        condition.append({"column": column, "low": low, "high": high, "levels": levels, "missing": each is None})
    columns = [each["column"] for each in condition]
    where = " and ".join(f"{column} {each}" for column, each in zip(columns, picked, strict=True)) or "the whole table"
    levels = [str(each) for each in picked]
    about = {"where": where, "columns": columns, "levels": levels, "condition": condition}
    return Finding.from_dict({**about, "gap": gap, "rows": rows, **more})


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        (made((8, 11)), made((9, 12)), True),
        (made((8, 11)), made((11, 20)), False),
        (made((37.5, None)), made((41, None)), True),
        (made((37.5, None)), made((None, 82)), False),
        (made((37.5, None)), made((36, 60)), True),
        (made((1000, 2000)), made((1100, 2200)), True),
        (made(["CA"]), made(["NV"]), False),
        (made((18, 18)), made((19, 19)), False),
        (made(["18"]), made(["19"]), False),
        (made(["007"]), made(["7"]), False),
        (made(["18 to 25"]), made(["20 to 30"]), False),  # categories that look like ranges
        (made(["18 to 25"]), made((18, 25)), False),
        (made((18, 25)), made(None), False),
        (made(["18"]), made(None), False),
        (made(None), made(None), True),
        (made((8, 11), ["CA"]), made((9, 11), ["CA"]), True),
        (made((8, 11), ["CA"]), made((9, 11), ["NV"]), False),
        (made((14, None), ["x", "y"]), made((15, None), ["y", "z", "w"]), True),
        (made((14, None), ["x", "y"]), made((None, 15), ["x", "y"]), False),
        (made((8, 11), scope="class x"), made((9, 11), scope="class y"), False),
        (made((8, 11)), made((8, 11), gap=-0.1), False),
        (made(), made(), True),
        (made(), made((8, 11)), False),
        (made((8, 11), condition=None), made((9, 12), condition=None), False),  # nothing but words: not read
        (made((8, 11), condition=None), made((8, 11)), True),
    ],
)
def test_places_that_are_nearly_the_same(one: Finding, other: Finding, answer: bool) -> None:
    assert same_finding(one, other) is answer
    assert same_finding(other, one) is answer
    assert same_finding(one, one)


def test_all_but_some_levels_is_not_those_levels() -> None:
    some = {"column": "a", "levels": ["x", "y"], "missing": False}
    others = {"column": "a", "excluded": ["x", "y"], "missing": False}
    more = {"column": "a", "excluded": ["x", "y", "z"], "missing": False}
    far = {"column": "a", "excluded": ["u", "v"], "missing": False}
    one, two, three, four = (made(["x"], condition=[each]) for each in (some, others, more, far))
    assert same_finding(two, three)
    assert not same_finding(one, two)
    assert not same_finding(two, four)
    assert all(replace(each, condition=(raw,)) != each and same_finding(replace(each, condition=(raw,)), each)
               for each, raw in zip((one, two, three, four), (some, others, more, far), strict=True))  # fmt: skip


def test_categories_that_look_like_ranges_are_two_findings_of_two_audits() -> None:
    def found(wrong: str) -> dict[str, Any]:
        rng = np.random.default_rng(0)
        p, band = rng.beta(2, 3, 4000), rng.choice(["18 to 25", "20 to 30", "40"], 4000)
        y = rng.random(4000) < np.where(band == wrong, 0.3 * p, p)
        frame = {"y": y.astype(int), "p": p, "band": band}
        return json.loads(dumps(audit(frame, outcome="y", probability="p", effort="quick").document))

    one, two = found("18 to 25"), found("20 to 30")
    gates = Gates(no_new_findings="one.json")
    assert all(outcome.passed for outcome in judge(one, gates, one))
    failed = [outcome.line for outcome in judge(two, gates, one) if not outcome.passed]
    assert len(failed) == 1
    assert "Band 20 to 30" in failed[0]


def test_a_finding_that_has_spread_is_another_one() -> None:
    narrow, wide = made((30, 32), rows=500), made((17, 59), rows=11_600)
    larger = made((30, 32), rows=900)
    assert in_earlier_audit(larger, [narrow], 20_000, 20_000)
    assert in_earlier_audit(larger, [narrow], 40_000, 20_000)
    assert not in_earlier_audit(wide, [narrow], 20_000, 20_000)
    assert in_earlier_audit(narrow, [wide], 20_000, 20_000)


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


def test_findings_of_one_name_are_kept_and_counted_apart_when_small_cells_are_hidden() -> None:
    """Column "a b" at level "c" and column "a" at level "b c" are called the same."""
    rng = np.random.default_rng(0)
    p, one, two = rng.beta(2, 3, 2000), rng.choice(["b c", "d"], 2000), rng.choice(["c", "d"], 2000)
    y = rng.random(2000) < np.where((one == "d") & (two == "d"), p, 0.3 * p)
    found = audit({"y": y.astype(int), "p": p, "a": one, "a b": two}, outcome="y", probability="p", effort="quick")
    first = next(finding for finding in found.findings if finding.where == "a b c")
    several = [replace(first, columns=(name,), rows=rows) for name, rows in (("a", 900), ("a b", 800), ("a b", 5))]
    doubled = replace(found, report=replace(found.report, all_findings=tuple(several)))
    hidden = doubled.suppressed(10)
    assert [(finding.columns, finding.rows) for finding in hidden.findings] == [(("a",), 900), (("a b",), 800)]
    assert hidden.too_small[-1]["where"] == "1 finding"


def test_a_finding_says_which_class_it_is_about() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 2, 2], 3000)
    group = rng.choice(["u", "v"], 3000)
    y = np.where(group == "u", 0, (rng.random(3000)[:, None] > p.cumsum(1)).sum(1))
    frame = {"y": y, "p0": p[:, 0], "p1": p[:, 1], "p2": p[:, 2], "group": group}
    found = audit(frame, outcome="y", probability={0: "p0", 1: "p1", 2: "p2"}).findings
    named = [finding for finding in found if "(class " in finding.where]
    assert named
    assert all(finding.where.endswith(f"({finding.scope})") for finding in named)
    assert len({(finding.scope, finding.where) for finding in named}) == len(named)


def test_a_form_as_earlier_versions_wrote_it_is_read_by_its_present_name() -> None:
    moderate = Finding.from_dict({"where": "g = a", "form": "too timid"})
    assert (moderate.form, moderate.to_dict()["form"]) == ("too moderate", "too moderate")
    page = {"schema": "miscal.audit/1", "findings": [{"form": "uneven", "explained": [{"form": "too timid"}]}]}
    (head,) = report_from(page).findings
    assert [item.form for item in head.explained] == ["too moderate"]

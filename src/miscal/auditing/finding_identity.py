"""Did an earlier audit have this finding? Ranges are cut at quantiles, so their ends differ from table to table."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Span = tuple[float, float]
SHARED = 0.5  # of the shorter range that two must have in common
SPREAD = 2.0  # times the share of rows: from there on a finding is another one
_NUMBER = r"(?:[^\s<>=]+)"
_RANGES = (
    re.compile(rf"(?P<low>{_NUMBER}) to (?P<high>{_NUMBER})"),
    re.compile(rf"above (?P<low>{_NUMBER})"),
    re.compile(rf"up to (?P<high>{_NUMBER})"),
    re.compile(rf"(?P<low>{_NUMBER}) <=? .+ <=? (?P<high>{_NUMBER})"),
    re.compile(rf".+ >=? (?P<low>{_NUMBER})"),
    re.compile(rf".+ <=? (?P<high>{_NUMBER})"),
    re.compile(rf"(?P<low>{_NUMBER})(?P<high>)"),
)
_LEVELS = re.compile(r".+ in \{(.*)\}")


def known(finding: Mapping[str, Any], earlier: Iterable[Mapping[str, Any]], rows: tuple[int, int]) -> bool:
    """Whether one of the earlier findings is the same and has not spread: it held at least half of the share of rows.

    rows : of the table of the finding, and of the earlier one
    """
    share = finding["rows"] / max(rows[0], 1)
    return any(same(finding, old) and share <= SPREAD * old["rows"] / max(rows[1], 1) for old in earlier)


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two findings, as dictionaries, are off in the same direction in the same place, or nearly the same.

    Nearly: of the same columns, in each at the same level or in ranges that share half of the shorter one.

    >>> late = {"gap": 0.1, "where": "hour 8 to 11", "columns": ["hour"], "levels": ["8 to 11"]}
    >>> same(late, {**late, "where": "hour 9 to 12", "levels": ["9 to 12"]})
    True
    >>> same(late, {**late, "gap": -0.1}), same(late, {**late, "where": "hour 11 to 20", "levels": ["11 to 20"]})
    (False, False)
    """
    if (one["gap"] > 0) != (other["gap"] > 0):
        return False
    if one["where"] == other["where"]:
        return True
    if list(one["columns"]) != list(other["columns"]) or _around(one) != _around(other):
        return False
    pairs = list(zip(one["levels"], other["levels"], strict=False))
    return bool(pairs) and all(_alike(*levels) for levels in pairs)


def _around(finding: Mapping[str, Any]) -> str:
    """The words of the place without its levels: columns, and the class or part of the data if there is one."""
    text = str(finding["where"])
    for level in finding["levels"]:
        text = text.replace(str(level), "", 1)
    return text


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    named = [_LEVELS.fullmatch(text) for text in (one, other)]
    if named[0] and named[1]:
        mine, theirs = ({level.strip() for level in found[1].split(",")} for found in named if found)
        return len(mine & theirs) >= SHARED * min(len(mine), len(theirs))
    spans = span(one), span(other)
    if all(each is not None and each[0] == each[1] for each in spans):
        return False  # two values, or two levels that look like numbers
    return spans[0] is not None and spans[1] is not None and _overlap(spans[0], spans[1])


def _overlap(one: Span, other: Span) -> bool:
    shared = min(one[1], other[1]) - max(one[0], other[0])
    shorter = min(one[1] - one[0], other[1] - other[0])
    return shared >= SHARED * shorter


def span(text: str) -> Span | None:
    """The ends of a range that is written in words, open ones infinite, days as numbers; None of anything else.

    >>> span("1,000 to 2,454"), span("up to 0.5"), span("3 <= hour < 9"), span("Hawaii")
    ((1000.0, 2454.0), (-inf, 0.5), (3.0, 9.0), None)
    >>> span("1970-01-02 to 1970-01-11"), span("18")
    ((1.0, 10.0), (18.0, 18.0))
    """
    for pattern in _RANGES:
        found = pattern.fullmatch(text)
        if found is None:
            continue
        ends = found.groupdict()
        low = _number(ends["low"]) if "low" in ends else -math.inf
        high = low if ends.get("high") == "" else _number(ends["high"]) if "high" in ends else math.inf
        if low is not None and high is not None:
            return low, high
    return None


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").replace("−", "-"))
    except ValueError:
        pass
    try:
        return float(np.datetime64(text, "D").astype(int))
    except ValueError:
        return None

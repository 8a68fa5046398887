"""Did an earlier audit have this finding? Ranges are cut at quantiles, so their ends differ from table to table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from miscal.auditing.findings import Finding

SHARED = 0.5  # of the shorter range that two must have in common
SETS = ("levels", "excluded")  # only these values, or all but these; no level at all is missing values alone
SPREAD = 2.0  # times the share of rows: from there on a finding is another one


def known(finding: Finding, earlier: Iterable[Finding], rows: tuple[float, float]) -> bool:
    """Whether one of the earlier findings is the same and has not spread: it held at least half of the share of rows.

    rows : of the table of the finding, and of the earlier one
    """
    share = finding.rows / max(rows[0], 1)
    return any(same(finding, old) and share <= SPREAD * old.rows / max(rows[1], 1) for old in earlier)


def same(one: Finding, other: Finding) -> bool:
    """Whether two findings are off in the same direction in the same place, or nearly the same.

    Nearly: of the same columns, in each at the same levels or in ranges that share half of the shorter one. A finding
    of an earlier version, which has no condition, is the same only where its place is called the same.
    """
    if (one.gap > 0) != (other.gap > 0) or one.scope != other.scope or one.columns != other.columns:
        return False
    if one.condition and other.condition:
        pairs = zip(one.condition, other.condition, strict=False)
        return len(one.condition) == len(other.condition) and all(_alike(*pair) for pair in pairs)
    return one.where == other.where and one.levels == other.levels


def _alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two conditions on a column pick much the same values."""
    if one["column"] != other["column"] or any((one.get(k) is None) != (other.get(k) is None) for k in SETS):
        return False
    sets = [(set(one[key]), set(other[key])) for key in SETS if one.get(key) is not None]
    if sets:
        return all(_share(mine, theirs) for mine, theirs in sets)
    first, second = _span(one), _span(other)
    shared = min(first[1], second[1]) - max(first[0], second[0])
    return shared >= SHARED * min(first[1] - first[0], second[1] - second[0])


def _share(one: set[object], other: set[object]) -> bool:
    """Whether two sets of levels share half of the smaller; an empty one, missing values, is like no other."""
    return one == other or len(one & other) >= SHARED * max(min(len(one), len(other)), 1)


def _span(condition: Mapping[str, Any]) -> tuple[float, float]:
    """The ends of a range, open ones infinite."""
    low, high = condition.get("low"), condition.get("high")
    return -math.inf if low is None else low, math.inf if high is None else high

"""Did an earlier audit have this finding? Ranges are cut at quantiles, so their ends differ from table to table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from miscal.auditing.findings import Finding

SHARED = 0.5  # of the shorter range that two must have in common
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
    if one == other:
        return True
    kinds = [(_sets(each) is not None, _span(each) is not None, each["column"]) for each in (one, other)]
    if kinds[0] != kinds[1]:
        return False
    mine, theirs = _sets(one), _sets(other)
    if mine is not None and theirs is not None:
        if mine[0] != theirs[0]:  # some levels here, all but some there
            return False
        return len(mine[1] & theirs[1]) >= SHARED * min(len(mine[1]), len(theirs[1]))
    first, second = _span(one), _span(other)
    if first is None or second is None:  # missing values, in both
        return True
    shared = min(first[1], second[1]) - max(first[0], second[0])
    return shared >= SHARED * min(first[1] - first[0], second[1] - second[0])


def _sets(condition: Mapping[str, Any]) -> tuple[str, set[Any]] | None:
    """The levels that belong, or that do not; None of a range and of missing values."""
    return next(((word, set(condition[word])) for word in ("levels", "excluded") if condition.get(word)), None)


def _span(condition: Mapping[str, Any]) -> tuple[float, float] | None:
    """The ends of a range, open ones infinite; None of anything else."""
    low, high = condition.get("low"), condition.get("high")
    if _sets(condition) is not None or (low is None and high is None and condition.get("levels") is not None):
        return None
    return -math.inf if low is None else low, math.inf if high is None else high

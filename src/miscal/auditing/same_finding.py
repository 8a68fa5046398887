"""Whether an earlier audit had a finding already.

Ranges are cut at quantiles, so their ends differ from table to table: two findings count as the same when they have the
same columns, overlap enough in each, and point in the same direction.
"""

import math
from collections.abc import Iterable

from miscal.codes.audit import Form
from miscal.report.findings import Finding
from miscal.report.values import JsonMapping

MIN_OVERLAP = (
    0.5  # share of the shorter range, or of the smaller set of levels, that both must have in common
)
MAX_GROWTH = 2.0  # times the earlier share of rows, beyond which a finding counts as another one
LEVEL_KEYS = ("levels", "excluded")  # of a condition: only these values, or all but these
OPPOSITE_FORMS = (
    {Form.TOO_HIGH, Form.TOO_LOW},
    {Form.TOO_EXTREME, Form.TOO_MODERATE},
)


def in_earlier_audit(finding: Finding, earlier: Iterable[Finding], rows: float, earlier_rows: float) -> bool:
    """Whether an earlier audit had the finding, with at least half of its present share of the rows.

    Parameters
    ----------
    finding : Finding
        A finding of the later audit.
    earlier : iterable of Finding
        The findings of the earlier audit.
    rows, earlier_rows : float
        Rows of the two tables.
    """
    share = finding.rows / max(rows, 1)
    return any(
        same_finding(finding, old) and share <= MAX_GROWTH * old.rows / max(earlier_rows, 1)
        for old in earlier
    )


def same_finding(finding: Finding, other: Finding) -> bool:
    """Whether two findings have the same direction and the same segment, or nearly the same.

    Nearly: of the same columns, in each with the same levels or with ranges that share half of the shorter one. A
    finding of an earlier version, which has no condition, is the same only where its segment has the same words.
    """
    if opposite_directions(finding, other):
        return False
    if finding.scope != other.scope or finding.columns != other.columns:
        return False
    if finding.condition and other.condition:
        pairs = zip(finding.condition, other.condition, strict=False)
        same_size = len(finding.condition) == len(other.condition)
        return same_size and all(conditions_overlap(*pair) for pair in pairs)
    return finding.where == other.where and finding.levels == other.levels


def opposite_directions(finding: Finding, other: Finding) -> bool:
    """Whether two findings point in opposite directions, by their forms where both have one, else by their gaps.

    A finding with a form may be miscalibrated along the score alone: the sign of its gap then says nothing.
    """
    if finding.form and other.form:
        return {finding.form, other.form} in OPPOSITE_FORMS
    return (finding.gap > 0) != (other.gap > 0)


def conditions_overlap(condition: JsonMapping, other: JsonMapping) -> bool:
    """Whether two conditions on a column pick much the same values."""
    if condition["column"] != other["column"]:
        return False
    if any((key in condition) != (key in other) for key in LEVEL_KEYS):
        return False
    for key in LEVEL_KEYS:
        if key in condition:  # an empty set stands for missing values, which overlap with no others
            levels, other_levels = set(condition[key]), set(other[key])
            smaller = max(min(len(levels), len(other_levels)), 1)
            return levels == other_levels or len(levels & other_levels) >= MIN_OVERLAP * smaller
    low, other_low = condition.get("low", -math.inf), other.get("low", -math.inf)
    high, other_high = condition.get("high", math.inf), other.get("high", math.inf)
    shared = min(high, other_high) - max(low, other_low)
    return bool(shared >= MIN_OVERLAP * min(high - low, other_high - other_low))

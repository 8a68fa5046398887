"""Whether a finding that an earlier audit did not have is a change, or may have been there, too small to be seen.

Where both audits keep the cells of its column, their gaps are compared. Elsewhere the earlier audit says only that it
was not beyond noise: the most that this leaves room for is taken for what was there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from miscal.auditing.findings import Finding
from miscal.inference.adjust import adjusted_z
from miscal.page.entries import Entry
from miscal.page.json import floats
from miscal.page.records import Document
from miscal.page.words import finite

CHANGED = 3.0  # standard errors of a change between two audits, of findings that were picked for their size
BEYOND_ROOM = 2.0  # the same, after the earlier audit was given all the room that it leaves


def may_be_unchanged(finding: Finding, after: Document, before: Document) -> bool:
    """Whether a finding of one audit may have been there in an earlier one that did not list it."""
    if len(finding.condition) == 1 and not finding.score_ranges:
        one, two = (_gap(document, finding.condition[0]) for document in (before, after))
        if one is not None and two is not None:
            return abs(one[0] - two[0]) < CHANGED * math.hypot(one[1], two[1])
    ratio = math.sqrt(after.rows / max(before.rows, 1.0))  # noise of the earlier audit, in that of the later
    room = adjusted_z(_tests(before), before.level) * ratio
    return bool(_deviations(finding, after) - room < BEYOND_ROOM * math.hypot(1.0, ratio))


def _tests(document: Document) -> int:
    number = finite(document.settings.get("tests"))
    return 1 if math.isnan(number) else max(int(number), 1)


def _gap(document: Document, condition: dict[str, Any]) -> tuple[float, float] | None:
    """The gap of the cells of a column that a condition picks, and its standard error; None where that is not kept."""
    known = [entry for kind in ("field", "variable") for entry in document.of(kind)]
    found = next((entry for entry in known if entry.settings.get("column") == condition["column"]), None)
    if found is None:
        return None
    inside = _inside(found, condition)
    weight, gap, error = (floats(found.table[name])[inside] for name in ("weight", "gap", "error"))
    if not inside.any() or np.isnan(weight).any() or np.isnan(error).any():
        return None
    total = float(weight.sum())
    return float(np.sum(weight * np.nan_to_num(gap))) / total, math.sqrt(float(np.sum((weight * error) ** 2))) / total


def _inside(entry: Entry, condition: dict[str, Any]) -> np.ndarray:
    """Which cells of a column a condition picks: by name, or by the middle of their range."""
    if condition.get("levels") is not None:
        wanted = {str(level) for level in condition["levels"]}
        return np.array([str(label) in wanted for label in entry.table["label"]], bool)
    low, high = floats(entry.table["low"]), floats(entry.table["high"])
    middle = 0.5 * (low + high)
    ends = finite(condition.get("low")), finite(condition.get("high"))
    above = np.isnan(ends[0]) | (middle > ends[0])
    return np.asarray(~np.isnan(middle) & above & (np.isnan(ends[1]) | (middle <= ends[1])), bool)


def _deviations(finding: Finding, document: Document) -> float:
    """How many standard deviations a finding is off: on average, or in the two ranges of its scores together."""
    if finding.score_ranges and not finding.response:
        off = sum(abs(one.events_off) for one in finding.score_ranges)
        noise = sum(one.rows * one.observed * (1.0 - one.observed) for one in finding.score_ranges)
        return off / math.sqrt(max(noise, 1e-300))
    low, high = finding.interval
    error = (high - low) / (2.0 * adjusted_z(_tests(document), document.level))
    return abs(finding.gap) / max(error, 1e-300)

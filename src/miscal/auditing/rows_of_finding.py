"""The rows that a finding is about, found again from its columns and levels."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.auditing.findings import Finding
from miscal.auditing.search.parts import coarse_part, fine_part


def members(finding: Finding, predictions: Any) -> np.ndarray:
    """Truth value of "belongs to the finding" at each row."""
    inside = np.ones(predictions.rows, bool)
    if finding.kind == "score":
        return inside
    if finding.definition:
        from miscal.pooling.expressions import rows_where

        return rows_where(finding.definition, predictions.columns)
    for name, level in zip(finding.columns, finding.levels, strict=True):
        inside &= _matches(predictions, name, level)
    return inside


def _matches(predictions: Any, name: str, level: str) -> np.ndarray:
    """The rows of a level, or of the stretch of ranges that has these words."""
    from miscal.data.errors import refusal

    fine = fine_part(predictions.columns.find(name), predictions.weight, predictions.count)
    weight = predictions.weight if predictions.count is None else predictions.count
    for part in (fine, coarse_part(fine, weight)):
        for first in range(part.count):
            for last in range(first, part.known if first < part.ordered else first + 1):
                if part.level(first, last) == level:
                    return np.asarray((part.codes >= first) & (part.codes <= last))
    raise refusal(f"has no level '{level}'", where=f"column '{name}'")

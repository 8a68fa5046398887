"""Columns that an audit excludes, why, and how to have them audited.

The rule: a reason is a code with fields; what to do about it follows from the code. Summary files keep both, so that a
reason is never read back from its words.
"""

from collections.abc import Mapping

from miscal.codes.audit import ExclusionReason, Reason, Remedy
from miscal.data.arrays import Plain
from miscal.report.model import Excluded
from miscal.words.audit import words_of

#: How to have a column audited that was excluded; by default it must be of another type.
REMEDIES: Mapping[ExclusionReason, Remedy] = {
    ExclusionReason.TOO_MANY_LEVELS: Remedy.MORE_LEVELS,
    ExclusionReason.IDENTIFIER_LEVELS: Remedy.NAME_COLUMN,
    ExclusionReason.IDENTIFIER_NUMBERS: Remedy.NAME_COLUMN,
    ExclusionReason.CONSTANT: Remedy.NAME_COLUMN,
    ExclusionReason.PANDAS_INDEX: Remedy.NAME_COLUMN,
    ExclusionReason.OUTCOME_COPY: Remedy.NAME_COLUMN,
    ExclusionReason.OUTCOME_COPY_OR_WEIGHT: Remedy.NAME_COLUMN,
    ExclusionReason.SCORE_COPY: Remedy.NAME_COLUMN,
    ExclusionReason.SCORE_THRESHOLD: Remedy.NAME_COLUMN,
    ExclusionReason.PREDICTED_CLASS: Remedy.NAME_COLUMN,
    ExclusionReason.SENTENCE: Remedy.AUDIT_TABLE,  # of a summary file that an earlier version wrote
}


def remedy_of(reason: ExclusionReason) -> Remedy:
    """How to have a column audited that was excluded for a reason."""
    return REMEDIES.get(reason, Remedy.OTHER_TYPE)


def unusable(where: str, rows: int | None, text: str) -> Excluded:
    """A column that no reader could use, with the words of the reader."""
    return Excluded(where, rows, Reason(ExclusionReason.UNUSABLE, {"text": text}))


def to_plain(excluded: Excluded) -> Plain:
    """As a summary file keeps it."""
    reason = excluded.reason
    return {
        "where": excluded.where,
        "rows": excluded.rows,
        "reason": words_of(reason),
        "code": reason.code.value,
        "fields": dict(reason.fields),
    }


def of_plain(entry: Plain, rows: int) -> Excluded:
    """What a summary file keeps of a column, in a table of so many rows."""
    if entry.get("code") in set(ExclusionReason):
        reason = Reason(ExclusionReason(entry["code"]), dict(entry.get("fields", {})))
    else:
        reason = Reason(ExclusionReason.SENTENCE, {"text": str(entry["reason"])})
    return Excluded(entry["where"], rows, reason)

"""Which rows of a table a finding is about."""

from typing import Any

import numpy as np

from miscal.aggregate.source import open_source
from miscal.cells.condition import Conjunction
from miscal.data.arrays import Array, frame_of
from miscal.data.column_types import column_type
from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData, select_target
from miscal.report.findings import Finding


def target_of_scope(data: Predictions, scope: str, target: str | int = "auto") -> TargetData:
    """The target data of a finding: those of the class in its scope, or of the target of the whole audit."""
    classes = {f"class {name}": number for number, name in enumerate(data.classes)}
    return select_target(data, classes.get(scope, target))


def rows_of(finding: Finding, data: Any) -> Array:
    """Which rows belong to a finding.

    Parameters
    ----------
    finding : Finding
    data : Predictions, or a frame of any library
        Text columns that hold numbers are read as numbers, as the audit does.

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    conjunction = Conjunction.from_dict(finding.condition)
    if isinstance(data, Predictions):
        rows, columns = data.rows, data.columns
        if finding.kind == "score" and finding.condition:
            score = target_of_scope(data, finding.scope).predicted
            columns = Columns({finding.condition[0]["column"]: score})
    else:
        rows, columns = _frame_columns(data, conjunction)
    if finding.whole:
        return np.ones(rows, bool)
    if not finding.condition or not (finding.columns or isinstance(data, Predictions)):
        raise refusal("does not say which rows it holds", "the finding", hint="audit the table again")
    return conjunction.rows(columns)


def _frame_columns(data: Any, conjunction: Conjunction) -> tuple[int, Columns]:
    """The number of rows of a frame and its columns, those of ranges read as numbers."""
    frame = frame_of(data, "'data'")
    ranged = {
        condition.column
        for condition in conjunction.conditions
        if not column_type(condition.kind).categorical
    }
    source = open_source({name: frame[name] for name in ranged.intersection(frame)})
    source.infer_text_types()
    numeric = frame_of(source.load(source.names), "'data'")
    return len(frame[next(iter(frame))]), Columns({**frame, **numeric})

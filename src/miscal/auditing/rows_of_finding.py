"""The rows that a finding is about, found again from its conditions."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.auditing.findings import Finding
from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.data.frames import frame_of
from miscal.data.predictions import Predictions
from miscal.pooling.condition import Conjunction


def rows_of(finding: Finding, data: Any) -> np.ndarray:
    """Truth value of "belongs to the finding" at each row of predictions, or of a frame of any library."""
    if isinstance(data, Predictions):
        rows, columns = data.rows, data.columns
    else:
        frame = frame_of(data, "'data'")
        named = [name for name in finding.columns if name in frame]
        rows, columns = len(frame[next(iter(frame))]), Columns({name: frame[name] for name in named})
    if finding.kind == "score":
        return np.ones(rows, bool)
    if not finding.condition:
        raise refusal("does not say which rows it holds", where="the finding", hint="audit the table again")
    return Conjunction.from_dict(finding.condition).rows(columns)

"""Findings: places where predictions are wrong, in words, with what is known of their size."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from miscal.data.columns import Column
from miscal.pooling.cells import MISSING

CODES = {
    "score": "MC101",
    "variable": "MC201",
    "field": "MC301",
    "variation": "MC401",
    "neighbourhood": "MC501",
    "subpopulation": "MC601",
}


@dataclass(frozen=True)
class Finding:
    """One place where predicted and observed differ.

    Attributes
    ----------
    code : MC101 and so on, by kind, so that a project can ignore one
    kind : score, variable, field, variation, neighbourhood or subpopulation
    where : the place in words
    columns, levels : the columns that define it and its level or range in each
    rows, weight : how much of the data it holds
    predicted, observed, gap : mean prediction, mean outcome, and their difference
    interval : of the gap, simultaneous over all places tested
    events_off : how many more events were predicted than happened
    p_value : adjusted over the whole audit
    real : beyond noise
    specific : not explained by the score alone
    parent : the finding that explains this one, if any
    """

    code: str
    kind: str
    where: str
    columns: tuple[str, ...]
    levels: tuple[str, ...]
    rows: int
    weight: float
    predicted: float
    observed: float
    gap: float
    interval: tuple[float, float]
    events_off: float
    p_value: float
    real: bool
    specific: bool
    parent: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        from miscal.report.words import events_off, p_value, percent

        return (
            f"{self.where}: {percent(self.predicted)} predicted, {percent(self.observed)} happened. "
            f"{self.rows:,} rows, {events_off(self.events_off)} "
            f"({'beyond' if self.real else 'within'} noise, {p_value(self.p_value, 'adjusted p')})."
        )


def range_words(column: Column, low: float, high: float, *, first: bool, last: bool) -> str:
    """A range of a column in words.

    >>> from miscal.data.columns import column
    >>> range_words(column("hour", [1, 2]), 17.0, 19.0, first=False, last=False)
    'hour 18 to 19'
    """
    if column.integer:
        start = int(np.ceil(low)) if first else int(np.floor(low)) + 1
        end = int(np.floor(high))
        return f"{column.name} {start}" if start >= end else f"{column.name} {start} to {end}"
    show = _date if column.kind == "date" else _number
    if first:
        return f"{column.name} up to {show(high)}"
    if last:
        return f"{column.name} above {show(low)}"
    return f"{column.name} above {show(low)} up to {show(high)}"


def level_words(column: Column, label: str) -> str:
    """A level of a column in words."""
    return f"{column.name} missing" if label == MISSING else f"{column.name} = {label}"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _date(days: float) -> str:
    return str(np.datetime64("1970-01-01") + np.timedelta64(int(np.floor(days)), "D"))

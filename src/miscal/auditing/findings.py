"""Findings: places where predictions are wrong, in words, with what is known of their size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

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
    parent : the place of the finding that explains this one, if any
    shrunken : the gap less the luck of having been picked; what is said first
    explains : how many other places it explains; the most significant are listed as findings of their own
    definition : an expression that picks the rows, for subpopulations
    condition : which rows belong to it, a dictionary a column: what `miscal.pooling.condition` reads back
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
    shrunken: float | None = None
    definition: str | None = None
    explains: int = 0
    condition: tuple[dict[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @property
    def at_least(self) -> float:
        """Lower bound of the size of `events_off`, 0 where the interval holds 0."""
        low, high = self.interval
        nearer = max(low, -high)
        return nearer * self.weight if nearer > 0 else 0.0

    def __str__(self) -> str:
        from miscal.page.words import count, events_off, p_value, percent

        shown = self.events_off if self.shrunken is None else self.shrunken * self.weight
        text = events_off(shown)
        beside = []
        if count(abs(shown)) != count(abs(self.events_off)):
            beside.append(f"{count(abs(self.events_off))} counted")
        if self.at_least >= 1:
            beside.append(f"at least {count(self.at_least)}")
        return (
            f"{self.where[:1].upper()}{self.where[1:]}: {percent(self.predicted)} predicted, "
            f"{percent(self.observed)} happened. {count(self.rows)} rows, {text}"
            f"{' (' + '; '.join(beside) + ')' if beside else ''}. "
            f"{'Beyond' if self.real else 'Within'} noise ({p_value(self.p_value, 'adjusted p')})."
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """Read back what `to_dict` gave, after JSON."""
        made: dict[str, Any] = {item.name: values.get(item.name) for item in fields(cls)}
        for name in ("columns", "levels", "condition"):
            made[name] = tuple(made[name] or ())
        low, high = made["interval"] or (None, None)
        made["interval"] = (math.nan if low is None else low, math.nan if high is None else high)
        for name in ("predicted", "observed", "gap", "events_off", "p_value", "weight"):
            made[name] = math.nan if made[name] is None else float(made[name])
        made["explains"] = int(made["explains"] or 0)
        return cls(**made)

"""Findings: places where predictions are wrong, in words, with what is known of their size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from miscal.page import words
from miscal.page.reading import READERS, items, mapping, read_record, text

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
    condition : which rows belong to it, a dictionary a column: {column, low, high, levels, excluded, missing}; a range
        holds its upper end, what is not said is absent or None
    scope : the class or the part of the data that it is about, empty where that is all
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
    scope: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @property
    def at_least(self) -> float:
        """Lower bound of the size of `events_off`, 0 where the interval holds 0."""
        low, high = self.interval
        nearer = max(low, -high)
        return nearer * self.weight if nearer > 0 else 0.0

    @property
    def sentence(self) -> str:
        """The rates, the rows, the events off and at least how many."""
        shown = self.events_off if self.shrunken is None else self.shrunken * self.weight
        counted = words.count(abs(self.events_off))
        beside = [f"{counted} counted"] if words.count(abs(shown)) != counted else []
        beside += [f"at least {words.count(self.at_least)}"] if self.at_least >= 1 else []
        bound = f" ({'; '.join(beside)})" if beside else ""
        rates = f"{words.percent(self.predicted)} predicted, {words.percent(self.observed)} happened"
        return f"{rates}. {words.count(self.rows)} rows, {words.events_off(shown)}{bound}."

    @property
    def judged(self) -> str:
        """Whether it is beyond noise."""
        return f"{'Beyond' if self.real else 'Within'} noise ({words.p_value(self.p_value, 'adjusted p')})."

    def __str__(self) -> str:
        return f"{self.where[:1].upper()}{self.where[1:]}: {self.sentence} {self.judged}"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """Read back what `to_dict` gave, after JSON; what is damaged there becomes nothing here."""
        return read_record(cls, {"real": True, **values})


def _conditions(value: object) -> tuple[dict[str, Any], ...]:
    return tuple(_condition(mapping(each)) for each in items(value))


def _condition(given: Mapping[str, Any]) -> dict[str, Any]:
    """A condition after JSON: numbers, and levels that are text or numbers."""
    made = {key: READERS["float | None"](given.get(key)) for key in ("low", "high")}
    for key in ("levels", "excluded"):
        listed = given.get(key)
        made[key] = None if listed is None else [x if isinstance(x, (str, float)) else text(x) for x in items(listed)]
    return {**given, "column": text(given.get("column")), **made, "missing": bool(given.get("missing"))}


READERS["tuple[dict[str, Any], ...]"] = _conditions
READERS["Finding"] = lambda value: Finding.from_dict(mapping(value))
READERS["list[Finding]"] = lambda value: [Finding.from_dict(mapping(item)) for item in items(value)]

"""Findings: places where predictions are wrong, in words, with what is known of their size.

Did an earlier audit have a finding? Ranges are cut at quantiles, so their ends differ from table to table: `same`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import numpy as np

from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.data.frames import frame_of
from miscal.data.predictions import Predictions
from miscal.page import words
from miscal.page.json import READERS, items, mapping, read_record
from miscal.pooling.condition import Conjunction

SHARED = 0.5  # of the shorter range that two must have in common
SETS = ("levels", "excluded")  # only these values, or all but these; no level at all is missing values alone
SPREAD = 2.0  # times the share of rows: from there on a finding is another one
CODES = {
    "score": "MC101",
    "variable": "MC201",
    "field": "MC301",
    "variation": "MC401",
    "neighbourhood": "MC501",
    "subpopulation": "MC601",
}


@dataclass(frozen=True, repr=False)
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
    condition : which rows belong, a dictionary a column, as `miscal.pooling.condition` writes and reads them
    sql : a WHERE clause that picks exactly its rows; `to_sql` has the dialects
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
        return asdict(self) | {"sql": self.sql, "sql_sqlite": self.to_sql("sqlite")}

    def to_sql(self, dialect: str = "duckdb") -> str:
        """A WHERE clause that picks exactly its rows, for "duckdb", "postgres" or "sqlite"; empty where none does.

        Examples
        --------
        >>> Finding.from_dict({"condition": [{"column": "age", "high": 31.0, "missing": True}]}).to_sql()
        '("age" IS NOT NULL AND "age" <= 31e0 OR "age" IS NULL OR "age" > 1.7976931348623157e+308)'
        """
        return Conjunction.from_dict(self.condition).sql(dialect) if self.condition or self.kind == "score" else ""

    @property
    def sql(self) -> str:
        """`to_sql` as DuckDB and PostgreSQL read it; SQLite too, but for dates and marks that cannot be seen."""
        return self.to_sql()

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

    def __repr__(self) -> str:
        return f"<{self.code or 'finding'} {self}>"

    def _repr_html_(self) -> str:
        return str(import_module("miscal.page.notebook").finding_html(self))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Finding:
        """Read back what `to_dict` gave, after JSON; what is damaged there becomes nothing here."""
        return read_record(cls, {"real": True, **values})


def _conditions(value: object) -> tuple[dict[str, Any], ...]:
    """Conditions after JSON; none where any of them is damaged, so that no finding seems to be wider than it was."""
    try:
        return tuple(Conjunction.from_dict(mapping(each) for each in items(value)).to_dict())
    except (KeyError, TypeError, ValueError):
        return ()


READERS["tuple[dict[str, Any], ...]"] = _conditions
READERS["Finding"] = lambda value: Finding.from_dict(mapping(value))
READERS["list[Finding]"] = lambda value: [Finding.from_dict(mapping(item)) for item in items(value)]


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
    if one["column"] != other["column"] or any((one.get(k) is None) != (other.get(k) is None) for k in SETS):
        return False
    sets = [(set(one[key]), set(other[key])) for key in SETS if one.get(key) is not None]
    if sets:
        return all(_share(mine, theirs) for mine, theirs in sets)
    first, second = _span(one), _span(other)
    shared = min(first[1], second[1]) - max(first[0], second[0])
    return shared >= SHARED * min(first[1] - first[0], second[1] - second[0])


def _share(one: set[object], other: set[object]) -> bool:
    """Whether two sets of levels share half of the smaller; an empty one, missing values, is like no other."""
    return one == other or len(one & other) >= SHARED * max(min(len(one), len(other)), 1)


def _span(condition: Mapping[str, Any]) -> tuple[float, float]:
    """The ends of a range, open ones infinite."""
    low, high = condition.get("low"), condition.get("high")
    return -math.inf if low is None else low, math.inf if high is None else high


def rows_of(finding: Finding, data: Any) -> np.ndarray:
    """Truth value of "belongs to the finding" at each row of predictions, or of a frame of any library."""
    if isinstance(data, Predictions):
        rows, columns = data.rows, data.columns
    else:
        frame = frame_of(data, "'data'")
        named = [name for name in finding.columns if name in frame]
        rows, columns = len(frame[next(iter(frame))]), Columns({name: frame[name] for name in named})
    if not finding.condition and finding.kind == "score":
        return np.ones(rows, bool)
    if not finding.condition:
        raise refusal("does not say which rows it holds", where="the finding", hint="audit the table again")
    return Conjunction.from_dict(finding.condition).rows(columns)

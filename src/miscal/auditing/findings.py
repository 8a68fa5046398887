"""Findings: places where predictions are wrong, in words, with what is known of their size.

Did an earlier audit have a finding? Ranges are cut at quantiles, so their ends differ from table to table: `same`.
"""

from __future__ import annotations  # the records are read by what their annotations say

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from miscal.aggregate.source import opened
from miscal.cells.condition import NOMINAL, Conjunction
from miscal.data.arrays import Array, Plain, frame_of
from miscal.data.columns import Columns
from miscal.data.errors import refusal, visible
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData, pair
from miscal.report import wording
from miscal.report.codec import READERS, JsonMapping, items, mapping, parts, read_record

SHARED = 0.5  # of the shorter range that two must have in common
SETS = ("levels", "excluded")  # only these values, or all but these; no level at all is missing values alone
OPPOSITE = ({"too high", "too low"}, {"too extreme", "too timid"})
SPREAD = 2.0  # times the share of rows: from there on a finding is another one
KINDS = ("score", "variable", "field", "variation", "neighbourhood", "subpopulation")
CODES = {kind: f"MC{number}01" for number, kind in enumerate(KINDS, 1)}


def _score(edge: float) -> str:
    """An edge of the score: three digits, or as many as tell it from 1."""
    written = f"{edge:.3g}"
    return f"{edge:.{1 - math.floor(math.log10(1.0 - edge))}g}" if written == "1" and edge < 1.0 else written


@dataclass(frozen=True)
class ScoreRange:
    """A range of the score within a place: scores above `low` up to `high`, their rows, rates and events off."""

    low: float
    high: float
    rows: int
    predicted: float
    observed: float
    events_off: float

    @property
    def words(self) -> str:
        """Which scores.

        Scores of exactly 0 may be a range of their own: all others are then above 0.

        >>> [
        ...     ScoreRange(low, high, 900, 0.8, 0.65, 136.0).words
        ...     for low, high in ((0.47, 1.0), (0.0, 0.3), (0.0, 1.0), (0.99997, 1.0))
        ... ]
        ['above 0.47', 'up to 0.3', 'above 0', 'above 0.99997']
        """
        low, high = wording.finite(self.low), math.nan if self.high == 1.0 else wording.finite(self.high)
        start, end = map(_score, (low, high))
        if math.isnan(low) or (low == 0.0 and not math.isnan(high)):
            return f"up to {end}"
        return f"above {start}" + ("" if math.isnan(high) else f" up to {end}")

    @property
    def off(self) -> str:
        """How many events more, or fewer, were predicted than happened."""
        return f"{wording.counted(self.events_off)} {'more' if self.events_off >= 0 else 'fewer'}"


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
    explained : the places that it explains: no longer off once it is put right, and mostly the same rows
    form : "too high" or "too low" on average; "too extreme" or "too timid" where two ranges of its scores err in
        opposite ways; "uneven" where the middle range errs unlike an outer one, or one of two errs more than the other
    score_ranges : those two ranges; the first is the upper one, or the middle one of an uneven place
    definition : an expression that picks the rows, for subpopulations
    condition : which rows belong, a dictionary a column, as `miscal.cells.condition` writes and reads them
    bound : whether its p-value is the smallest that simulations can give, so that it is at most that
    sql : a WHERE clause that picks exactly its rows; `to_sql` has the dialects
    scope : the class or the part of the data that it is about, empty where that is all
    response : "real" or "count" where what is predicted is no event: rates and gaps are then in its units
    noun : what a count counts, by the name of its column
    decided : prediction and outcome of the one row without which it is within noise, so that it is not real
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
    form: str = ""
    score_ranges: tuple[ScoreRange, ...] = ()
    explained: tuple[Finding, ...] = ()
    condition: tuple[Plain, ...] = ()
    scope: str = ""
    bound: bool = False
    response: str = ""
    decided: tuple[float, ...] = ()
    noun: str = ""

    def __post_init__(self) -> None:
        # Words leave for terminals, logs and annotations; condition and columns stay as the data have them.
        self.__dict__.update(where=visible(self.where), parent=self.parent and visible(self.parent))

    def to_dict(self) -> Plain:
        """Plain values for JSON."""
        under = [place.to_dict() for place in self.explained]
        alone = asdict(replace(self, explained=()))
        return alone | {"explained": under, "sql": self.sql, "sql_sqlite": self.to_sql("sqlite")}

    def to_sql(self, dialect: str = "duckdb") -> str:
        """A WHERE clause that picks exactly its rows, for "duckdb", "postgres" or "sqlite"; empty where none does.

        Examples
        --------
        >>> Finding.from_dict({"condition": [{"column": "age", "high": 31.0, "missing": True}]}).to_sql()
        '("age" IS NOT NULL AND "age" <= 31e0 OR "age" IS NULL OR "age" > 1.7976931348623157e+308)'
        """
        score = self.kind == "score"
        # No column holds the score as it stands.
        picked = (self.columns or not score) if self.condition else score
        return Conjunction.from_dict(self.condition).sql(dialect) if picked else ""

    @property
    def sql(self) -> str:
        """`to_sql` as DuckDB and PostgreSQL read it; SQLite too, but for dates and marks that cannot be seen."""
        return self.to_sql()

    @property
    def whole(self) -> bool:
        """Whether it is about all rows of the table or class, along the score."""
        return self.kind == "score" and not self.levels

    @property
    def shape(self) -> str:
        """What two ranges of its scores that disagree do, in words; empty where they do not.

        "Too extreme: scores above 0.47 predict 136 more than happened, scores up to 0.47 predict 120 fewer"
        """
        said = [f"scores {one.words} predict {one.off}" for one in self.score_ranges]
        return f"{self.form.capitalize()}: {said[0]} than happened, {', '.join(said[1:])}" if said else ""

    @property
    def brief(self) -> str:
        """Its form and how many events each of two ranges is off, for a table."""
        return f"{self.form}: {' and '.join(f'{one.off} {one.words}' for one in self.score_ranges)}"

    @property
    def at_least(self) -> float:
        """Lower bound of the size of `events_off`, 0 where the interval holds 0."""
        low, high = self.interval
        return max(0.0, low, -high) * self.weight

    @property
    def sentence(self) -> str:
        """The rates, the rows, the events off and at least how many."""
        if self.shape:
            return f"{self.shape}. {wording.rows(self.rows)}; {self.rates} on average."
        if self.response:
            # Only where it says something.
            ratio = self.observed / self.predicted if self.predicted > 0.0 <= self.observed else math.nan
            times = "" if math.isnan(ratio) else f", happened-to-predicted ratio {wording.number(ratio)}"
            return f"{self.rates}, {self.difference}{times}. {wording.rows(self.rows)}."
        return f"{self.rates}. {wording.rows(self.rows)}, {self.difference}."

    @property
    def rates(self) -> str:
        """What was predicted and what happened."""
        said = wording.number if self.response else wording.percent
        return f"{said(self.predicted)} predicted, {said(self.observed)} happened"

    @property
    def difference(self) -> str:
        """How many events it is off, less the luck of having been picked; as counted, and at least."""
        shown = self.events_off if self.shrunken is None else self.shrunken * self.weight
        counted = wording.count(abs(self.events_off))
        beside = []
        if wording.count(abs(shown)) != counted:
            beside.append(f"{counted} counted")
        if self.at_least >= 1:
            beside.append(f"at least {wording.count(self.at_least)}")
        bound = f" ({'; '.join(beside)})" if beside else ""
        return f"{wording.events_off(shown, self.noun)}{bound}"

    @property
    def judged(self) -> str:
        """Whether it is beyond noise."""
        if self.decided:
            said, was = map(wording.number, self.decided)
            return (
                f"Within noise without its largest row ({said} predicted, {was} happened): one row decides."
            )
        chance = wording.p_value(self.p_value, "adjusted p", bound=self.bound)
        return f"{'Beyond' if self.real else 'Within'} noise ({chance})."

    def __str__(self) -> str:
        return f"{self.where[:1].upper()}{self.where[1:]}: {self.sentence} {self.judged}"

    def __repr__(self) -> str:
        return f"<{self.code or 'finding'} {self}>"

    def _repr_html_(self) -> str:
        own = self.to_dict() | {"parent": None}
        return str(
            import_module("miscal.report.html.page").finding_html(parts(self.response, findings=[own]))
        )

    @classmethod
    def from_dict(cls, values: JsonMapping) -> Finding:
        """Read back what `to_dict` gave, after JSON; what is damaged there becomes nothing here."""
        return read_record(cls, {"real": True, **values})


def named_after(finding: Finding, noun: str) -> Finding:
    """A finding, and those that it explains, of counts of something."""
    return replace(finding, noun=noun, explained=tuple(named_after(one, noun) for one in finding.explained))


def flat(findings: Iterable[Finding]) -> list[Finding]:
    """Findings, each followed by those that it explains."""
    return [one for head in findings for one in (head, *flat(head.explained))]


def listed(findings: Iterable[JsonMapping]) -> list[JsonMapping]:
    """The same of their dictionaries."""
    return [one for head in findings for one in (head, *listed(head.get("explained", ())))]


def _conditions(value: object) -> tuple[Plain, ...]:
    """Conditions after JSON; none where any of them is damaged, so that no finding seems to be wider than it was."""
    try:
        return tuple(Conjunction.from_dict(mapping(each) for each in items(value)).to_dict())
    except (KeyError, TypeError, ValueError):
        return ()


def _finding(value: object) -> Finding:
    return Finding.from_dict(mapping(value))


READERS |= {
    "tuple[Plain, ...]": _conditions,
    "Finding": _finding,
    "tuple[Finding, ...]": lambda value: tuple(map(_finding, items(value))),
    "list[Finding]": lambda value: [one for one in map(_finding, items(value)) if one.real],
    "tuple[ScoreRange, ...]": lambda value: tuple(read_record(ScoreRange, item) for item in items(value)),
}


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
    # By their forms. The sign of a gap within noise says nothing: of a place that is off along the score alone, which
    # has a form, it is not asked.
    opposite = {one.form, other.form} in OPPOSITE
    if not (one.form and other.form):
        opposite = (one.gap > 0) != (other.gap > 0)
    if opposite or one.scope != other.scope or one.columns != other.columns:
        return False
    if one.condition and other.condition:
        pairs = zip(one.condition, other.condition, strict=False)
        return len(one.condition) == len(other.condition) and all(_alike(*pair) for pair in pairs)
    return one.where == other.where and one.levels == other.levels


def _alike(one: JsonMapping, other: JsonMapping) -> bool:
    """Whether two conditions on a column pick much the same values."""
    if one["column"] != other["column"] or any((key in one) != (key in other) for key in SETS):
        return False
    for key in SETS:
        if key in one:  # an empty one, missing values, is like no other
            a, b = set(one[key]), set(other[key])
            return a == b or len(a & b) >= SHARED * max(min(len(a), len(b)), 1)
    low, other_low = one.get("low", -math.inf), other.get("low", -math.inf)
    high, other_high = one.get("high", math.inf), other.get("high", math.inf)
    shared = min(high, other_high) - max(low, other_low)
    return bool(shared >= SHARED * min(high - low, other_high - other_low))


def pair_of(data: Predictions, scope: str, target: str | int = "auto") -> TargetData:
    """What a finding compares: the class that it is about, or what the whole audit does."""
    classes = {f"class {name}": number for number, name in enumerate(data.classes)}
    return pair(data, classes.get(scope, target))


def rows_of(finding: Finding, data: Any) -> Array:
    """Truth value of "belongs to the finding" at each row of predictions, or of a frame of any library."""
    asked = Conjunction.from_dict(finding.condition)
    if isinstance(data, Predictions):
        rows, columns = data.rows, data.columns
    else:
        frame = frame_of(data, "'data'")
        numbers = {one.column for one in asked.conditions if one.kind not in NOMINAL}
        source = opened({name: frame[name] for name in numbers.intersection(frame)})
        source.read_as_meant()  # text that stands for numbers, as the audit did
        rows = len(frame[next(iter(frame))])
        columns = Columns({**frame, **frame_of(source.loaded(source.names), "'data'")})
    if finding.whole:
        return np.ones(rows, bool)
    if finding.kind == "score" and finding.condition and isinstance(data, Predictions):
        columns = Columns({finding.condition[0]["column"]: pair_of(data, finding.scope).predicted})
    if not finding.condition or not (finding.columns or isinstance(data, Predictions)):
        raise refusal("does not say which rows it holds", "the finding", hint="audit the table again")
    return asked.rows(columns)

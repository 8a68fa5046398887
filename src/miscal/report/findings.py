"""Findings: segments whose predictions differ from what was observed, with what is known of the size of the gap.

A `Finding` is a value: it is made by the audit, or read back from JSON by the codec, and never changed. What is here
needs nothing of the audit, so that reports can be made from a file. Whether a finding is the same as that of another
audit is decided in `miscal.auditing.same_finding`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from miscal.cells.condition import Conjunction
from miscal.codes.audit import FindingKind, Form
from miscal.data.arrays import Plain
from miscal.data.errors import refusing, visible
from miscal.export.predicate import clauses_by_key, where_clause
from miscal.report import wording
from miscal.report.values import (
    JsonMapping,
    ends,
    items,
    mapping,
    optional_number,
    optional_text,
    text,
    texts,
    whole,
)
from miscal.report.wording import finite

#: The code of a finding of each kind, so that a project can ignore one.
CODES: dict[str, str] = {kind: f"MC{number}01" for number, kind in enumerate(FindingKind, 1)}
#: Names of forms in files of earlier versions.
FORMER_FORMS = {"too timid": Form.TOO_MODERATE}


def _score_edge(edge: float) -> str:
    """An edge of the score: three digits, or as many as distinguish it from 1."""
    written = f"{edge:.3g}"
    if written == "1" and edge < 1.0:
        return f"{edge:.{1 - math.floor(math.log10(1.0 - edge))}g}"
    return written


@dataclass(frozen=True)
class ScoreRange:
    """A range of the score within a segment: scores above `low` up to `high`.

    Attributes
    ----------
    low, high : float
        The edges; 0 and 1 are the ends of a probability.
    rows : int
    predicted, observed : float
        Mean prediction and mean outcome of its rows.
    events_off : float
        Predicted minus observed events.
    """

    low: float
    high: float
    rows: int
    predicted: float
    observed: float
    events_off: float

    @classmethod
    def from_dict(cls, values: JsonMapping) -> ScoreRange:
        """Read back from plain values."""
        numbers = {
            name: finite(values.get(name)) for name in ("low", "high", "predicted", "observed", "events_off")
        }
        return cls(rows=whole(values.get("rows")), **numbers)

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
        start, end = _score_edge(low), _score_edge(high)
        if math.isnan(low) or (low == 0.0 and not math.isnan(high)):
            return f"up to {end}"
        return f"above {start}" + ("" if math.isnan(high) else f" up to {end}")

    @property
    def off(self) -> str:
        """How many events more, or fewer, were predicted than observed."""
        return f"{wording.counted(self.events_off)} {'more' if self.events_off >= 0 else 'fewer'}"


@dataclass(frozen=True, repr=False)
class Finding:
    """A segment whose predictions differ from what was observed.

    Attributes
    ----------
    code : str
        MC101 and so on, by kind, so that a project can ignore one.
    kind : str
        "score", "variable", "field", "variation", "neighbourhood" or "subpopulation".
    where : str
        The segment in words.
    columns, levels : tuple of str
        The columns that define it, and its level or range in each.
    rows : int
    weight : float
    predicted, observed, gap : float
        Mean prediction, mean outcome, and their difference.
    interval : tuple of float
        Of the gap, simultaneous over all segments tested.
    events_off : float
        How many more events were predicted than observed.
    p_value : float
        Adjusted over the whole audit.
    real : bool
        Significant after correction for all tests.
    specific : bool
        Not explained by the score alone.
    parent : str or None
        The segment of the finding that explains this one.
    shrunken : float or None
        The gap, corrected for having been selected as large.
    definition : str or None
        An expression that picks the rows, for subpopulations.
    form : Form or ""
        "too high" or "too low" on average; "too extreme" or "too moderate" where two ranges of its scores are off in
        opposite directions; "uneven" where the middle range differs from an outer one, or one of two is off more.
    score_ranges : tuple of ScoreRange
        Those two ranges; the first is the upper one, or the middle one of an uneven segment.
    explained : tuple of Finding
        Segments that are no longer significant once this one is corrected, and that have mostly the same rows.
    condition : tuple of dict
        Which rows belong, a dictionary per column, as `miscal.cells.condition` writes and reads them.
    scope : str
        The class, or the part of the data, that it is about; empty where that is all.
    bound : bool
        Whether the p-value is the smallest that simulations can give, so that it is at most that.
    response : str
        "real" or "count" where the outcome is not an event: rates and gaps are then in its units.
    decided : tuple of float
        Prediction and outcome of the single row without which it is not significant; `real` is then False.
    noun : str
        What a count counts, by the name of its column.
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
        # Words are printed to terminals, logs and annotations; condition and columns stay as the data have them.
        object.__setattr__(self, "where", visible(self.where))
        object.__setattr__(self, "form", form_named(self.form))
        object.__setattr__(self, "parent", self.parent and visible(self.parent))

    def to_dict(self) -> Plain:
        """Plain values for JSON."""
        explained = [finding.to_dict() for finding in self.explained]
        fields = asdict(replace(self, explained=()))
        return fields | {"explained": explained} | clauses_by_key(self.to_sql)

    def to_sql(self, dialect: str = "duckdb") -> str:
        """A WHERE clause that picks exactly its rows, for "duckdb", "postgres" or "sqlite"; empty where none does.

        Examples
        --------
        >>> Finding.from_dict({"condition": [{"column": "age", "high": 31.0, "missing": True}]}).to_sql()
        '("age" IS NOT NULL AND "age" <= 31e0 OR "age" IS NULL OR "age" > 1.7976931348623157e+308)'
        """
        if self.condition:
            # A range of the score can only be written where a column holds the score as it stands.
            has_clause = bool(self.columns) or self.kind != FindingKind.SCORE
        else:
            has_clause = self.kind == FindingKind.SCORE  # the whole table
        return where_clause(Conjunction.from_dict(self.condition), dialect) if has_clause else ""

    @property
    def sql(self) -> str:
        """`to_sql` as DuckDB and PostgreSQL read it; SQLite too, but for dates and marks that cannot be seen."""
        return self.to_sql()

    @property
    def whole(self) -> bool:
        """Whether it is about all rows of the table or class, along the score."""
        return self.kind == FindingKind.SCORE and not self.levels

    @property
    def shape(self) -> str:
        """What two ranges of its scores that disagree do, in words; empty where they do not.

        "Too extreme: scores above 0.47 predict 136 more than observed, scores up to 0.47 predict 120 fewer"
        """
        ranges = [f"scores {scores.words} predict {scores.off}" for scores in self.score_ranges]
        if not ranges:
            return ""
        return f"{self.form.capitalize()}: {ranges[0]} than observed, {', '.join(ranges[1:])}"

    @property
    def brief(self) -> str:
        """Its form and how many events each of two ranges is off, for a table."""
        return f"{self.form}: {' and '.join(f'{scores.off} {scores.words}' for scores in self.score_ranges)}"

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
            times = "" if math.isnan(ratio) else f", A/E {wording.number(ratio)}"
            return f"{self.rates}, {self.difference}{times}. {wording.rows(self.rows)}."
        return f"{self.rates}. {wording.rows(self.rows)}, {self.difference}."

    @property
    def rates(self) -> str:
        """The predicted and the observed rate, or mean."""
        write = wording.number if self.response else wording.percent
        return f"{write(self.predicted)} predicted, {write(self.observed)} observed"

    @property
    def difference(self) -> str:
        """How many events it is off, less the luck of having been picked; as counted, and at least."""
        shown = self.events_off if self.shrunken is None else self.shrunken * self.weight
        counted = wording.count(abs(self.events_off))
        details = []
        if wording.count(abs(shown)) != counted:
            details.append(f"{counted} counted")
        if self.at_least >= 1:
            details.append(f"at least {wording.count(self.at_least)}")
        in_brackets = f" ({'; '.join(details)})" if details else ""
        return f"{wording.events_off(shown, self.noun)}{in_brackets}"

    @property
    def judged(self) -> str:
        """Whether it is significant after the correction for all tests of the audit."""
        if self.decided:
            predicted, observed = map(wording.number, self.decided)
            return (
                f"Not significant without its largest row ({predicted} predicted, {observed} observed): "
                "one row decides."
            )
        chance = wording.p_value(self.p_value, "adjusted p", bound=self.bound)
        return f"{'Significant' if self.real else 'Not significant'} ({chance})."

    def __str__(self) -> str:
        return f"{self.where[:1].upper()}{self.where[1:]}: {self.sentence} {self.judged}"

    def __repr__(self) -> str:
        return f"<{self.code or 'finding'} {self}>"

    def _repr_html_(self) -> str:
        from miscal.report.html.page import finding_html
        from miscal.report.model import AuditReport

        finding = replace(self, parent=None)
        return str(finding_html(AuditReport(data={"response": self.response}, all_findings=(finding,))))

    @classmethod
    def from_dict(cls, values: JsonMapping) -> Finding:
        """Read back what `to_dict` gave; what is absent is empty, NaN or False, but for `real`."""
        return cls(
            code=text(values.get("code")),
            kind=text(values.get("kind")),
            where=text(values.get("where")),
            columns=texts(values.get("columns")),
            levels=texts(values.get("levels")),
            rows=whole(values.get("rows")),
            weight=finite(values.get("weight")),
            predicted=finite(values.get("predicted")),
            observed=finite(values.get("observed")),
            gap=finite(values.get("gap")),
            interval=ends(values.get("interval")),
            events_off=finite(values.get("events_off")),
            p_value=finite(values.get("p_value")),
            real=bool(values.get("real", True)),
            specific=bool(values.get("specific")),
            parent=optional_text(values.get("parent")),
            shrunken=optional_number(values.get("shrunken")),
            definition=optional_text(values.get("definition")),
            form=form_named(values.get("form")),
            score_ranges=tuple(map(ScoreRange.from_dict, map(mapping, items(values.get("score_ranges"))))),
            explained=tuple(map(cls.from_dict, map(mapping, items(values.get("explained"))))),
            condition=_conditions(values.get("condition")),
            scope=text(values.get("scope")),
            bound=bool(values.get("bound")),
            response=text(values.get("response")),
            decided=tuple(map(finite, items(values.get("decided")))),
            noun=text(values.get("noun")),
        )


def form_named(name: object) -> str:
    """The form of a name, also of one that earlier versions wrote; empty where there is none."""
    if not name:
        return ""
    return Form(FORMER_FORMS.get(str(name), str(name)))


def with_noun(finding: Finding, noun: str) -> Finding:
    """The same finding, and those that it explains, with the name of what is counted."""
    explained = tuple(with_noun(item, noun) for item in finding.explained)
    return replace(finding, noun=noun, explained=explained)


def flat(findings: Iterable[Finding]) -> list[Finding]:
    """Findings, each followed by those that it explains."""
    return [item for head in findings for item in (head, *flat(head.explained))]


def flat_dicts(findings: Iterable[JsonMapping]) -> list[JsonMapping]:
    """The dictionaries of findings, each followed by those that it explains."""
    return [item for head in findings for item in (head, *flat_dicts(head.get("explained", ())))]


def _conditions(value: object) -> tuple[Plain, ...]:
    """Conditions after JSON, each checked."""
    with refusing("must be a list of conditions", "'condition'"):
        return tuple(Conjunction.from_dict(mapping(item) for item in items(value)).to_dict())

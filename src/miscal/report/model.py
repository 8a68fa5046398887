"""The report of an audit: frozen records that hold everything that page, markdown, terminal, JSON and gates show.

A report is made by the audit, or read from JSON by `miscal.report.codec`, which alone knows the JSON. Every field has
a default, so that a part can be shown by itself: `AuditReport(all_findings=(finding,))`. Nothing is computed here that
the fields do not hold, apart from sums over tables of the report.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from miscal.codes.audit import ExclusionReason, Note, Reason
from miscal.report.findings import Finding, flat
from miscal.report.result_tables import DEFAULT_LEVEL, ResultView
from miscal.report.values import JsonMapping, TableColumns, ends, items, mapping, text
from miscal.report.wording import finite, listed, plural
from miscal.words.audit import words_of

OBSERVED_OVER_EXPECTED = "observed_over_expected"  # O/E of events, A/E of claims: one direction everywhere
COUNTED = {"pairs": "pair", "columns": "column", "classes": "class"}  # kinds of which the number is shown


@dataclass(frozen=True)
class Measure:
    """One number with what it takes to judge it; NaN where the audit has nothing.

    Attributes
    ----------
    value, noise_floor, p_value : float
    low, high : float
        The ends of its 95% interval.
    least : float
        The smallest p-value that its simulations can give.
    """

    value: float = math.nan
    noise_floor: float = math.nan
    p_value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    least: float = math.nan

    @property
    def known(self) -> bool:
        """Whether there is a number at all."""
        return not math.isnan(self.value)

    @property
    def inverse(self) -> Measure:
        """One over the number, with the interval turned round; the p-value that it is 1 stays."""
        value, low, high = (
            1.0 / number if number > 0.0 else math.nan for number in (self.value, self.high, self.low)
        )
        return replace(self, value=value, low=low, high=high, noise_floor=math.nan)

    def significant(self, level: float, null: float = 0.0) -> bool:
        """Whether it differs from its null value: by its p-value, else because the interval leaves that value out."""
        if not math.isnan(self.p_value):
            return self.p_value <= level
        return self.low > null or self.high < null


def measure_of(value: object, details: object = None) -> Measure:
    """A number, plain or as a mapping with its value, and what else is known of it."""
    known = {**mapping(details), **(value if isinstance(value, Mapping) else {"value": value})}
    low, high = ends(known.get("interval"))
    number = math.inf if known.get("infinite") is True else finite(known.get("value"))
    return Measure(
        value=number,
        noise_floor=finite(known.get("noise_floor")),
        p_value=finite(known.get("p_value")),
        low=low,
        high=high,
        least=finite(known.get("least")),
    )


@dataclass(frozen=True)
class ScoreNumbers:
    """The numbers by score.

    Attributes
    ----------
    values : mapping of str to float
        Each number by its name.
    details : mapping of str to mapping
        Noise floor, p-value and interval of each, as far as they are known.
    """

    values: JsonMapping = field(default_factory=dict)
    details: Mapping[str, JsonMapping] = field(default_factory=dict)

    def measure(self, name: str) -> Measure:
        """One number with its details."""
        return measure_of(self.values.get(name), self.details.get(name))


@dataclass(frozen=True)
class CleanColumn:
    """A column without a significant gap, and the smallest gap that would have been significant (`detectable`)."""

    where: str
    value: float
    noise_floor: float
    p_value: float
    detectable: float
    p_least: float | None = None
    note: Note | None = None


@dataclass(frozen=True)
class Excluded:
    """A segment or a column that could not be tested; `rows` is None where the number is withheld."""

    where: str
    rows: int | None
    reason: Reason

    @property
    def reason_words(self) -> str:
        """Why, in words."""
        return words_of(self.reason)


@dataclass(frozen=True)
class NotTested:
    """What was not tested, for one reason, and how to ask for it."""

    what: str
    count: int
    reason: str
    ask: str
    where: list[str]

    @property
    def words(self) -> str:
        """In one sentence: how many, why, and how to ask for them."""
        if self.what in COUNTED:
            subject = plural(self.count, COUNTED[self.what], self.what)
        else:
            subject = f"{self.what} of {listed(self.where, 3)}"
        return f"{subject}, because {self.reason}. To ask for it: {self.ask}."


@dataclass(frozen=True)
class ComparisonReport:
    """What changed since an earlier audit.

    Attributes
    ----------
    paired : bool
        Whether both audits are of the same rows with the same outcomes.
    cells : bool
        Whether both kept sums of cells.
    level : float
    table : TableColumns
        One row per cell that both have.
    better, worse : list of str
        Segments whose error became significantly smaller or larger.
    new, gone : list of str
        Findings of one audit only.
    left_out : list of str
        Columns that could not be compared.
    score : mapping of str to pair of float
        Each number by score, before and after.
    response : str
        "real" or "count" where the outcome is not an event.
    """

    paired: bool = False
    cells: bool = True
    level: float = DEFAULT_LEVEL
    table: TableColumns = field(default_factory=lambda: TableColumns({}))
    better: list[str] = field(default_factory=list)
    worse: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    score: JsonMapping = field(default_factory=dict)
    response: str = ""


@dataclass(frozen=True)
class SegmentRepair:
    """One segment before and after a recalibration; all NaN where an audit did not test it."""

    where: str
    kind: str
    verdict: str
    before: Finding
    after: Finding


@dataclass(frozen=True)
class RepairReport:
    """How probabilities were recalibrated, and what became of every segment.

    Attributes
    ----------
    about : mapping
        Everything that is known of the recalibrator and of the rows.
    segments : sequence of mapping
        Each segment with its numbers before and after.
    """

    about: JsonMapping = field(default_factory=dict)
    segments: Sequence[JsonMapping] = ()

    @property
    def name(self) -> str:
        """What the recalibrator is called."""
        return text(self.about.get("name"))

    @property
    def reason(self) -> str:
        """Why it was chosen."""
        return text(self.about.get("reason"))

    @property
    def rows(self) -> float:
        """Rows that were audited before and after."""
        return finite(self.about.get("rows"))

    @property
    def fitted_rows(self) -> float:
        """Rows that it was fitted on."""
        return finite(self.about.get("fitted_rows"))

    @property
    def keeps_ranking(self) -> bool:
        """Whether the order of the scores stays."""
        return bool(self.about.get("keeps_ranking"))

    @property
    def score(self) -> dict[str, tuple[float, float]]:
        """Each number by score, before and after."""
        pairs = mapping(self.about.get("score")).items()
        score = {name: ends(pair) for name, pair in pairs if len(items(pair)) == 2}
        if "ratio" in score:
            before, after = (1.0 / ratio if ratio > 0.0 else math.nan for ratio in score["ratio"])
            score[OBSERVED_OVER_EXPECTED] = before, after
        return score

    @property
    def loss_change(self) -> Measure:
        """By how much the loss changed: the log loss of events, the deviance of other means."""
        return measure_of(self.about.get("log_loss_change") or self.about.get("deviance_change"))

    @property
    def candidates(self) -> TableColumns:
        """The recalibrators that were compared."""
        return TableColumns(self.about.get("candidates"))

    @cached_property
    def places(self) -> list[SegmentRepair]:
        """Each segment as records."""
        return [
            SegmentRepair(
                text(segment.get("where")),
                text(segment.get("kind")),
                text(segment.get("verdict")),
                Finding.from_dict(mapping(segment.get("before"))),
                Finding.from_dict(mapping(segment.get("after"))),
            )
            for segment in map(mapping, self.segments)
        ]


@dataclass(frozen=True)
class AuditReport:
    """An audit, ready to be shown.

    Attributes
    ----------
    version : str
        Of miscal.
    versions : mapping
        Of Python and the libraries.
    data, settings : mapping
        How the table was described, and how the audit was asked for.
    score : ScoreNumbers
    all_findings : tuple of Finding
        Best first; those that a single row decides are not significant (`Finding.real` is False).
    unlisted : int
        Significant segments that the list of findings was too long for.
    coded_notes : tuple of Note
    clean_columns : tuple of CleanColumn
    excluded : tuple of Excluded
    left_out : list of NotTested
    sections : mapping of str to list of ResultView
        The results by their kind.
    along_score_results : tuple of mapping, or None
        The rows of each finding by bins of the score; None where they are withheld.
    comparison : ComparisonReport or None
    repaired : RepairReport or None
    schema : str
        The name of the JSON's schema.
    """

    version: str = ""
    versions: JsonMapping = field(default_factory=dict)
    data: JsonMapping = field(default_factory=dict)
    settings: JsonMapping = field(default_factory=dict)
    score: ScoreNumbers = field(default_factory=ScoreNumbers)
    all_findings: tuple[Finding, ...] = ()
    unlisted: int = 0
    coded_notes: tuple[Note, ...] = ()
    clean_columns: tuple[CleanColumn, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    left_out: list[NotTested] = field(default_factory=list)
    sections: Mapping[str, list[ResultView]] = field(default_factory=dict)
    along_score_results: tuple[JsonMapping, ...] | None = None
    comparison: ComparisonReport | None = None
    repaired: RepairReport | None = None
    schema: str = "miscal.audit/1"

    @property
    def rows(self) -> float:
        """Rows of positive weight; NaN where they are not known."""
        return finite(self.data.get("rows"))

    @property
    def source(self) -> str:
        """What the data are called."""
        return text(self.data.get("source"))

    @property
    def outcome(self) -> str:
        """The column of the outcome."""
        return text(self.data.get("outcome"))

    @property
    def response(self) -> str:
        """Empty where the outcome is an event, else "real" or "count"."""
        return text(self.data.get("response"))

    @property
    def level(self) -> float:
        """The level of significance of the whole audit."""
        level = finite(self.settings.get("level"))
        return DEFAULT_LEVEL if math.isnan(level) else level

    @property
    def findings(self) -> list[Finding]:
        """The significant findings that no other explains, best first."""
        return [finding for finding in self.all_findings if finding.real]

    @property
    def notes(self) -> list[str]:
        """What is odd about the table, a sentence per note."""
        return [words_of(note) for note in self.coded_notes]

    @cached_property
    def clean(self) -> TableColumns:
        """The columns without a significant gap, as a table."""
        names = ("where", "value", "noise_floor", "p_value", "detectable", "p_least")
        columns = {name: [getattr(column, name) for column in self.clean_columns] for name in names}
        notes = ["" if column.note is None else words_of(column.note) for column in self.clean_columns]
        return TableColumns({**columns, "note": notes})

    @cached_property
    def too_small(self) -> TableColumns:
        """What could not be tested, as a table."""
        columns = {name: [getattr(entry, name) for entry in self.excluded] for name in ("where", "rows")}
        return TableColumns({**columns, "reason": [entry.reason_words for entry in self.excluded]})

    @property
    def excluded_columns(self) -> list[Excluded]:
        """The columns that were excluded as a whole, and not a level of theirs or for want of rows."""
        return [
            entry
            for entry in self.excluded
            if entry.rows == self.rows and entry.reason.code != ExclusionReason.NOTHING_DETECTABLE
        ]

    @cached_property
    def along_score(self) -> dict[str, ResultView]:
        """The rows of each finding by bins of the score, by the segment."""
        return {
            text(values.get("where")): ResultView.from_dict(values, self.level, "score")
            for values in self.along_score_results or ()
        }

    @property
    def probabilities(self) -> list[str]:
        """The columns of probabilities, one or one a class."""
        several = self.data.get("probability_columns")
        one = self.data.get("probability")
        return [str(name) for name in items(several) or items(one) or [one] if name is not None]

    @property
    def real(self) -> list[Finding]:
        """The findings beyond noise in the audit's order, each followed by those that it explains."""
        return flat(self.findings)

    @property
    def places(self) -> list[Finding]:
        """The findings that are about a part of the rows, or about one class."""
        return [finding for finding in self.findings if finding.scope or not finding.whole]

    @property
    def whole(self) -> bool | None:
        """Whether the whole table is a finding among all that was tested; nothing where nothing says what was."""
        return len(self.places) < len(self.findings) or (False if "tests" in self.settings else None)

    @property
    def quiet(self) -> bool:
        """Whether nothing is beyond noise among all that was tested."""
        return "tests" in self.settings and not self.real

    @property
    def unseen(self) -> list[NotTested]:
        """What the search did not look at; columns set aside are listed where nothing was judged."""
        return [entry for entry in self.left_out if entry.what != "columns"]

    @property
    def explained(self) -> int:
        """How many places the findings explain."""
        return len(self.real) - len(self.findings)

    @property
    def top(self) -> bool:
        """Whether what is compared is the confidence in the class predicted, with being right."""
        return any(score.settings.get("target") == "top" for score in self.of("score")[:1])

    def of(self, kind: str) -> list[ResultView]:
        """The results of a section."""
        return self.sections.get(kind, [])

    @property
    def columns(self) -> list[ResultView]:
        """The results of columns, one a column."""
        return [*self.of("variable"), *self.of("field")]

    def measure(self, name: str) -> Measure:
        """One number of the score; `observed_over_expected` is the inverse of `ratio`, as the JSON has it."""
        if name == OBSERVED_OVER_EXPECTED:
            return self.score.measure("ratio").inverse
        return self.score.measure(name)

    @property
    def averages(self) -> tuple[float, float, Measure]:
        """Mean predicted, mean observed and the gap between them."""
        return self.measure("predicted").value, self.measure("observed").value, self.measure("gap")

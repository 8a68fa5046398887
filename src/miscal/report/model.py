"""An audit's dictionary, read once into records: what page, figures, markdown and gates rely on.

As with results, what is not what the schema says becomes nothing here, so that nobody need check again. Nothing is
computed that the dictionary does not hold, apart from sums over its own tables.
"""

from __future__ import annotations  # the records are read by what their annotations say

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, TypeVar

from miscal.report.codec import (
    READERS,
    JsonMapping,
    TableColumns,
    checked,
    ends,
    items,
    mapping,
    read_record,
    text,
)
from miscal.report.findings import Finding, flat
from miscal.report.result_tables import Level, ResultView
from miscal.report.wording import listed, plural, showing

T = TypeVar("T")

COUNTED = {"pairs": "pair", "columns": "column", "classes": "class"}  # things left out that are many alike


@dataclass(frozen=True)
class Measure:
    """One number with what it takes to judge it; NaN where the audit has nothing."""

    value: float
    noise_floor: float
    p_value: float
    low: float
    high: float
    least: float

    @property
    def known(self) -> bool:
        """Whether there is a number at all."""
        return not math.isnan(self.value)

    def beyond(self, level: float, null: float = 0.0) -> bool:
        """Whether it is beyond noise: by its p-value, else because the interval leaves the null value out."""
        if not math.isnan(self.p_value):
            return self.p_value <= level
        return self.low > null or self.high < null


@dataclass(frozen=True)
class NotTested:
    """What was not looked at, for one reason, and how to ask for it."""

    what: str
    count: int
    reason: str
    ask: str
    where: list[str]

    @property
    def words(self) -> str:
        """In one sentence: how many, why, and how to ask for them."""
        many = f"{self.what} of {listed(self.where, 3)}"
        if self.what in COUNTED:
            many = plural(self.count, COUNTED[self.what], self.what)
        return f"{many}, because {self.reason}. To ask for it: {self.ask}."


@dataclass(frozen=True)
class ComparisonReport:
    """What changed against an earlier audit; `cells` is whether both kept sums of cells."""

    paired: bool
    cells: bool
    table: TableColumns
    better: list[str]
    worse: list[str]
    new: list[str]
    gone: list[str]
    left_out: list[str]


@dataclass(frozen=True)
class SegmentRepair:
    """One place before and after a repair; all NaN where an audit did not look there."""

    where: str
    kind: str
    verdict: str
    before: Finding
    after: Finding


@dataclass(frozen=True)
class RepairReport:
    """How probabilities were repaired, and what became of every place."""

    name: str
    reason: str
    rows: float
    fitted_rows: float
    keeps_ranking: bool
    score: JsonMapping
    log_loss_change: Measure
    candidates: TableColumns
    places: list[SegmentRepair]


@dataclass(frozen=True)
class AuditReport:
    """An audit; `data`, `settings` and `versions` are as in the dictionary, to be listed.

    clean, too_small : places in which nothing was found, as tables
    findings : those beyond noise that no other explains
    response : whether amounts ("real") or numbers ("count") are predicted; empty for events
    """

    version: str
    schema: str
    versions: JsonMapping
    data: JsonMapping
    settings: JsonMapping
    score: Mapping[str, Measure]
    findings: list[Finding]
    along_score: Mapping[str, ResultView]
    unlisted: int
    notes: list[str]
    clean: TableColumns
    too_small: TableColumns
    left_out: list[NotTested]
    sections: Mapping[str, list[ResultView]]
    comparison: ComparisonReport | None
    repaired: RepairReport | None
    rows: float
    source: str
    outcome: str
    response: str
    level: Level

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
        """One number of the score."""
        return self.score.get(name) or _measure(None)

    @property
    def averages(self) -> tuple[float, float, Measure]:
        """Mean predicted, mean observed and the gap between them."""
        return self.measure("predicted").value, self.measure("observed").value, self.measure("gap")


def _measure(value: object, details: object = None) -> Measure:
    """A number: plain, or a mapping with its value, noise and interval; and what else is said of it."""
    about = {**mapping(details), **(value if isinstance(value, Mapping) else {"value": value})}
    low, high = ends(about.get("interval"))
    made = read_record(Measure, about, low=low, high=high)
    return replace(made, value=math.inf) if about.get("infinite") is True else made


def _measures(score: object) -> dict[str, Measure]:
    """The numbers of the score, each with what "details" says of it."""
    given = mapping(score)
    details = mapping(given.get("details"))
    # In their order: a set has another each time.
    names = [name for name in {**given, **details} if name != "details"]
    return {name: _measure(given.get(name, {}), details.get(name)) for name in names}


READERS |= {
    "Measure": _measure,
    "list[NotTested]": lambda value: [read_record(NotTested, item) for item in items(value)],
    "list[SegmentRepair]": lambda value: [read_record(SegmentRepair, item) for item in items(value)],
    "Mapping[str, Measure]": _measures,
    "Mapping[str, list[ResultView]]": lambda value: value,
    "Mapping[str, ResultView]": lambda value: value,
    "ComparisonReport | None": lambda value: (
        read_record(ComparisonReport, {"cells": True, **mapping(value)}) if value else None
    ),
    "RepairReport | None": lambda value: value,
}


def of_document(render: Callable[..., T]) -> Callable[..., T]:
    """Let a function of an audit be given its dictionary too, and write rates as what they are: percent, or means."""

    @wraps(render)
    def rendered(document: object, *others: Any, **options: Any) -> T:
        audit = document if isinstance(document, AuditReport) else read_document(document)
        with showing(audit.response):
            return render(audit, *others, **options)

    return rendered


def read_document(document: object) -> AuditReport:
    """Read an audit's dictionary, or refuse what is none.

    Examples
    --------
    >>> read_document({"schema": "miscal.audit/1", "score": {"slope": 0.9, "findings": "none"}}).measure(
    ...     "slope"
    ... ).value
    0.9
    """
    given, repaired = checked(document), None
    level = mapping(given.get("settings")).get("level")
    entry = partial(read_record, ResultView, level=level)
    along = {
        text(mapping(item).get("where")): entry(item, kind="score")
        for item in items(given.get("along_score"))
    }
    sections = {
        str(kind): [entry(item, kind=kind) for item in items(results)]
        for kind, results in mapping(given.get("sections")).items()
    }
    if "repaired_by" in given:
        about = mapping(given["repaired_by"])
        score = {
            name: ends(pair) for name, pair in mapping(about.get("score")).items() if len(items(pair)) == 2
        }
        change = about.get("log_loss_change") or about.get("deviance_change")
        repaired = read_record(
            RepairReport, about, log_loss_change=change, score=score, places=given.get("repair")
        )
    about = {**mapping(given.get("data")), **given}
    made = {"sections": sections, "along_score": along, "repaired": repaired}
    return read_record(AuditReport, about, level=level, **made)

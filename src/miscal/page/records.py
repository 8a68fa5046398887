"""An audit's dictionary, read once into records: what page, figures, markdown and gates rely on.

As with results, what is not what the schema says becomes nothing here, so that nobody need check again. Nothing is
computed that the dictionary does not hold, apart from sums over its own tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from miscal.auditing.findings import Finding
from miscal.page.entries import Entry, read_entry
from miscal.page.reading import Columns, checked, ends, items, mapping, text
from miscal.page.words import finite


@dataclass(frozen=True)
class Measure:
    """One number with what it takes to judge it; NaN where the audit has nothing."""

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

    def beyond(self, level: float, null: float = 0.0) -> bool:
        """Whether it is beyond noise: by its p-value, else because the interval leaves the null value out."""
        if not math.isnan(self.p_value):
            return self.p_value <= level
        return self.low > null or self.high < null


@dataclass(frozen=True)
class Quiet:
    """A place in which nothing was found: clean, or too small to judge."""

    where: str
    measure: Measure
    rows: float
    detectable: float
    said: str


def _quiet(value: object) -> Quiet:
    entry = mapping(value) if isinstance(value, Mapping) else {"where": value}
    where = text(entry.get("where", entry.get("name")))
    said = text(entry.get("reason") or entry.get("note"))
    value, floor, p_value, least = (finite(entry.get(key)) for key in ("value", "noise_floor", "p_value", "p_least"))
    measure = Measure(value, floor, p_value, least=least)
    return Quiet(where, measure, finite(entry.get("rows")), finite(entry.get("detectable")), said)


@dataclass(frozen=True)
class Compared:
    """What changed against an earlier audit; `cells` is whether both kept sums of cells."""

    paired: bool
    cells: bool
    table: Columns
    better: list[str]
    worse: list[str]
    new: list[str]
    gone: list[str]


@dataclass(frozen=True)
class Mended:
    """One place before and after a repair; all NaN where an audit did not look there."""

    where: str
    kind: str
    verdict: str
    before: Finding
    after: Finding


@dataclass(frozen=True)
class Repaired:
    """How probabilities were repaired, and what became of every place."""

    name: str
    reason: str
    split: str
    rows: float
    fitted_rows: float
    keeps_ranking: bool
    score: dict[str, tuple[float, float]]
    change: Measure
    candidates: Columns
    places: list[Mended]


def read_repair(about: Mapping[str, Any], places: object) -> Repaired:
    """How probabilities were repaired, and every place before and after."""
    change = mapping(about.get("log_loss_change"))
    score = {name: ends(pair) for name, pair in mapping(about.get("score")).items() if len(items(pair)) == 2}
    low, high = ends(change.get("interval"))
    return Repaired(
        name=text(about.get("name")),
        reason=text(about.get("reason")),
        split=text(about.get("split")),
        rows=finite(about.get("rows")),
        fitted_rows=finite(about.get("fitted_rows")),
        keeps_ranking=bool(about.get("keeps_ranking")),
        score=score,
        change=Measure(finite(change.get("value")), low=low, high=high),
        candidates=Columns(about.get("candidates")),
        places=[_mended(mapping(place)) for place in items(places)],
    )


def _mended(place: Mapping[str, Any]) -> Mended:
    where, kind, verdict = (text(place.get(key)) for key in ("where", "kind", "verdict"))
    before, after = (Finding.from_dict(mapping(place.get(when))) for when in ("before", "after"))
    return Mended(where, kind, verdict, before, after)


@dataclass(frozen=True)
class Document:
    """An audit; `data`, `settings` and `versions` are as in the dictionary, to be listed."""

    version: str
    schema: str
    versions: Mapping[str, Any]
    data: Mapping[str, Any]
    settings: Mapping[str, Any]
    score: Mapping[str, Measure]
    findings: list[Finding]
    unlisted: float
    notes: list[str]
    clean: list[Quiet]
    too_small: list[Quiet]
    sections: Mapping[str, list[Entry]]
    compared: Compared | None
    repaired: Repaired | None

    @property
    def level(self) -> float:
        """The level at which the audit judged, 5% unless its settings say otherwise."""
        chosen = finite(self.settings.get("level"))
        return 0.05 if math.isnan(chosen) else chosen

    @property
    def rows(self) -> float:
        return finite(self.data.get("rows"))

    @property
    def source(self) -> str:
        return text(self.data.get("source"))

    @property
    def outcome(self) -> str:
        return text(self.data.get("outcome"))

    @property
    def probabilities(self) -> list[str]:
        """The columns of probabilities, one or one a class."""
        listed, one = self.data.get("probability_columns"), self.data.get("probability")
        return [str(name) for name in items(listed) or items(one) or [one] if name is not None]

    @property
    def real(self) -> list[Finding]:
        """The findings beyond noise, in the audit's order."""
        return [finding for finding in self.findings if finding.real]

    @property
    def heads(self) -> list[Finding]:
        """Those beyond noise that no other explains."""
        return [finding for finding in self.real if not finding.parent]

    @property
    def explained(self) -> int:
        """How many places the heads explain: those that they count, of which not every one need be listed."""
        return max(sum(head.explains for head in self.heads), len(self.real) - len(self.heads))

    def of(self, kind: str) -> list[Entry]:
        """The results of a section."""
        return self.sections.get(kind, [])

    def measure(self, name: str) -> Measure:
        """One number of the score."""
        return self.score.get(name, Measure())

    @cached_property
    def averages(self) -> tuple[float, float, Measure]:
        """Mean predicted, mean observed and the gap between them, from the score or from the first score table."""
        predicted, observed, gap = (self.measure(name) for name in ("predicted", "observed", "gap"))
        rates = predicted.value, observed.value
        if not (predicted.known and observed.known) and self.of("score"):
            bins = self.of("score")[0].cells
            weight = np.nan_to_num(bins.size)
            if weight.sum() > 0:
                one, two = (np.average(rate, weights=weight) for rate in (bins.predicted, bins.observed))
                rates = float(one), float(two)
        return *rates, gap if gap.known else replace(gap, value=rates[0] - rates[1])


def _measures(score: Mapping[str, Any]) -> dict[str, Measure]:
    """The numbers of the score: each a plain number with its details under "details", or a mapping of its own."""
    details = mapping(score.get("details"))
    made = {}
    for name in {*score, *details} - {"details"}:
        about = {**mapping(details.get(name)), **mapping(score.get(name))}
        value = about.get("value") if isinstance(score.get(name), Mapping) else score.get(name)
        floor, p_value, least = (finite(about.get(key)) for key in ("noise_floor", "p_value", "least"))
        made[name] = Measure(finite(value), floor, p_value, *ends(about.get("interval")), least)
    return made


def read_document(document: object) -> Document:
    """Read an audit's dictionary, or refuse what is none.

    Examples
    --------
    >>> read_document({"schema": "miscal.audit/1", "score": {"slope": 0.9, "findings": "none"}}).measure("slope").value
    0.9
    """
    given = checked(document)
    compared, about = mapping(given.get("comparison")), given.get("repaired_by")
    lists = (
        [str(place) for place in items(compared.get(word))] if compared else []
        for word in ("better", "worse", "new", "gone")
    )
    unlisted = finite(given.get("unlisted"))
    return Document(
        version=text(given.get("version")),
        schema=text(given["schema"]),
        versions=mapping(given.get("versions")),
        data=mapping(given.get("data")),
        settings=mapping(given.get("settings")),
        score=_measures(mapping(given.get("score"))),
        findings=[Finding.from_dict(mapping(item)) for item in items(given.get("findings"))],
        unlisted=0.0 if math.isnan(unlisted) else unlisted,
        notes=[str(note) for note in items(given.get("notes"))],
        clean=[_quiet(item) for item in items(given.get("clean"))],
        too_small=[_quiet(item) for item in items(given.get("too_small"))],
        sections={
            str(kind): [read_entry(item, str(kind)) for item in items(results)]
            for kind, results in mapping(given.get("sections")).items()
        },
        compared=Compared(
            bool(compared.get("paired")), compared.get("cells") is not False, Columns(compared.get("table")), *lists
        )
        if compared
        else None,
        repaired=read_repair(mapping(about), given.get("repair")) if "repaired_by" in given else None,
    )

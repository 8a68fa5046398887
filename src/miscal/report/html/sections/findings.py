"""The findings: one card each, in the audit's order, those that another one explains listed under it.

Each can be looked at closely: its rows along the score, the cells beside it, the clause that picks its rows. A line of
controls filters them by column, form and size.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from miscal.cells.condition import Condition
from miscal.cells.partitions import level_of
from miscal.export.predicate import clauses_by_key, titles_by_key
from miscal.report import wording
from miscal.report.findings import Finding
from miscal.report.html.column_figures import variable
from miscal.report.html.gap_figures import gap_card
from miscal.report.html.markup import Safe, clean, ellipsis, join, name, prose, tag
from miscal.report.html.sections.blocks import (
    LONGEST_TEXT,
    RATES,
    TableColumn,
    columns_of,
    data_block,
    folded,
    quiet,
    section,
    sheet,
)
from miscal.report.model import AuditReport
from miscal.report.result_tables import LONGEST_NAME, ResultView
from miscal.report.values import Data, TableColumns

MOST_CARDS = 10  # the first is as wide as the page, the others stand in rows of three
MOST_EXPLAINED = 6  # places listed on the card of what explains them; the CSV and the JSON have all
MOST_ALIKE = 8  # other places of the same columns, listed on the card
_LISTED = "code kind form where parent rows weight predicted observed gap events_off p_value real specific"
_KEYS = {"over": "predicted too high", "under": "predicted too low", "noise": "within noise"}


def findings(document: AuditReport, most: int = MOST_CARDS) -> Safe:
    """The section of findings, at most so many as cards; when there are none it says what that means."""
    families, closer = _families(document.findings), Closer(document)
    shown = families[:most]
    further = [finding for family in families[most:] for finding in family]
    legend = [tag("span", said, class_=f"key {key}") for key, said in _KEYS.items()]
    legend.append(tag("span", prose("findings")["codes"]))
    least = "Off in total, at least" if wording.means() else "Events off, at least"
    cards = [card(number, family, closer) for number, family in enumerate(shown, 1)]
    more = wording.plural(
        document.unlisted, "smaller or overlapping place is", "smaller or overlapping places are"
    )
    ends = f"The list ends here. {more} still off when all of these are put right; "
    ends += "a deeper look at the columns would name the rest."
    notes = [ends, *document.notes] if document.unlisted > 0 else document.notes
    return section(
        "findings",
        "Where it is still wrong after the repair" if document.repaired else "Where it is wrong",
        tag("p", legend, class_="legend")
        if cards
        else quiet("Nothing that was looked at is off beyond noise."),
        tag("ol", cards, class_="cards", data_fold=4, data_least=least) if cards else None,
        closer.listed(further, f"Further findings ({len(further):,})"),
        [tag("p", name(note, 600), class_="note") for note in notes],
        closer.download(document.real) if cards else None,
    )


def _families(heads: Sequence[Finding]) -> list[list[Finding]]:
    """Findings of the same columns together, in the order of the first of each."""
    found: dict[object, list[Finding]] = {}
    for number, head in enumerate(heads):
        found.setdefault(head.columns or number, []).append(head)
    return list(found.values())


def card(number: int, family: Sequence[Finding], closer: "Closer") -> Safe:
    """The card of the first of some findings of the same columns, the others listed on it."""
    finding = family[0]
    general = "" if finding.specific or finding.kind == "score" else "part of the general error"
    badge = finding.code, finding.kind, finding.form, general
    others = family[1:]
    explained = [place for head in family for place in head.explained]
    columns = "column" if len(finding.columns) == 1 else "columns"
    alike = f"{wording.plural(len(others), 'more place')} of the same {columns}"
    under = (
        f"{wording.plural(len(explained), 'other place')} explained by {'these' if others else 'this one'}"
    )
    return tag(
        "li",
        tag("p", " · ".join(part for part in badge if part), class_="badge"),
        tag("h3", name(finding.where, 140)),
        tag("p", finding.sentence, class_="said"),
        gap_card(finding).svg,
        quiet(strength(finding)),
        closer.look(finding),
        closer.listed(others, alike, most=MOST_ALIKE),
        closer.listed(explained, under, _brief, MOST_EXPLAINED),
        class_=f"card {'over' if finding.events_off >= 0 else 'under'}",
        id=f"finding-{number}",
        **marked(finding),
    )


def _brief(finding: Finding) -> str:
    return finding.form if finding.score_ranges else wording.points(finding.gap)


def strength(finding: Finding) -> str:
    """Whether it is beyond noise, and whether the score alone explains it."""
    more = ""
    if finding.whole and not (finding.at_least > 0 or finding.score_ranges):
        more = " Off along the score more than on average."
    if finding.kind != "score" and not finding.specific:
        more = " Within noise once the score alone is corrected."
    return finding.judged + more


PANEL_BYTES = 340_000  # of all findings of a page together: figures, tables and clauses
BESIDE, MOST_LEVELS = 2, 5  # ranges on either side of its own, and other levels of a field
MOST_SHOWN = 12  # cells that are listed, its own and those beside
LOOK = "Look closer: its scores, its neighbours, its rows as SQL"


class Closer:
    """The panels of findings and the clauses that pick their rows, heads first, until their bytes are spent."""

    def __init__(self, document: AuditReport) -> None:
        self.document = document
        self.columns = {entry.column: entry for entry in document.columns}
        self.panels: dict[str, Safe] = {}
        self.clauses: dict[str, dict[str, str]] = {}
        room = PANEL_BYTES
        for finding in sorted(document.real, key=lambda finding: bool(finding.parent)):
            clauses, made = dict.fromkeys(titles_by_key(), ""), Safe("")
            if room > 0:
                written = clauses_by_key(finding.to_sql)
                clauses |= {key: text for key, text in written.items() if len(text) <= LONGEST_TEXT}
                made = join(self._along(finding), self._beside(finding), _rows(clauses))
            room -= len(made) + sum(map(len, clauses.values()))
            self.clauses[finding.where], self.panels[finding.where] = clauses, made

    def look(self, finding: Finding, summary: str = LOOK) -> Safe:
        """What is one click away; the summary alone where there is nothing to see."""
        body = self.panels.get(finding.where)
        if not body:
            return tag("div", summary) if summary != LOOK else Safe("")
        return tag("details", tag("summary", summary), tag("div", body, class_="closer"), class_="look")

    def listed(
        self,
        places: Sequence[Finding],
        summary: str,
        said: Callable[[Finding], str] = attrgetter("sentence"),
        most: int | None = None,
    ) -> Safe | None:
        """Findings in a list, at most so many, one click away: each with what is said of it and its panel."""
        shown = [
            tag(
                "li",
                self.look(one, join(tag("bdi", ellipsis(one.where, 100)), ": ", said(one))),
                **marked(one),
            )
            for one in places[:most]
        ]
        more = len(places) - len(shown)
        rest = quiet(f"and {more:,} more, in the CSV and the JSON") if more > 0 else None
        return folded(summary, tag("ul", shown, class_="places"), rest) if places else None

    def download(self, every: Sequence[Finding]) -> Safe:
        """All findings as CSV."""
        table: Data = {key: [getattr(f, key) for f in every] for key in _LISTED.split()}
        table |= {"gap_low": [f.interval[0] for f in every], "gap_high": [f.interval[1] for f in every]}
        table |= {key: [self.clauses[f.where][key] for f in every] for key in titles_by_key()}
        return data_block("findings", table)

    def _along(self, finding: Finding) -> Safe | None:
        """Its rows by bins of the score."""
        entry = self.document.along_score.get(finding.where)
        if finding.kind == "score" and not finding.condition:
            entry = next(iter(self.document.of("score")), None)
        if entry is None or not len(entry.cells):
            return None
        counted = wording.rows(np.nansum(entry.cells.rows))
        sample = " of the sample that was searched" if self.document.settings.get("sample") else ""
        said = f"{counted}{sample}, by ranges of the score; the intervals hold for all ranges at once."
        drawn = variable(replace(entry, kind="variable", extra={"column": "Score"}))
        return tag("div", tag("h4", "Its rows along the score"), drawn.svg, quiet(said))

    def _beside(self, finding: Finding) -> Safe | None:
        """Its cells among their neighbours, column by column."""
        found = [(self.columns.get(ellipsis(one["column"], LONGEST_NAME)), one) for one in finding.condition]
        tables = [_neighbours(entry, Condition.from_dict(one)) for entry, one in found if entry is not None]
        return tag("div", tables) if any(tables) else None


def _neighbours(entry: ResultView, condition: Condition) -> Safe:
    """The cells of one column that a condition picks, levels by name and ranges by their middle, and those beside."""
    cells = entry.cells
    table = TableColumns(cells.table())
    if entry.kind == "variable":
        own = condition.numbers(0.5 * (cells.low + cells.high))
        order, beside = np.arange(len(cells)), BESIDE
    else:  # its own levels first, then those that are furthest off
        own = condition.slots(map(level_of, map(str, entry.labels)))
        order = np.lexsort((-cells.strength(), ~own))
        beside = MOST_LEVELS
    inside = np.flatnonzero(own[order])
    if not len(inside) or "gap" not in table:  # suppressed
        return Safe("")
    shown = order[max(inside[0] - beside, 0) : inside[-1] + 1 + beside].tolist()
    del shown[MOST_SHOWN // 2 : -MOST_SHOWN // 2]
    table = table.take(shown)
    small = ["this place" if own[i] else "" for i in shown]
    named = TableColumn(entry.column, table["label"], "name", small=small)
    return sheet("Beside it", [named, *columns_of(table, *RATES)], still=True)


def _rows(clauses: Mapping[str, str]) -> Safe | None:
    """Which rows they are, to be counted again."""
    by_key = titles_by_key()
    titles: dict[str, list[str]] = {}  # of the databases that read a text
    for key, text in clauses.items():
        if text:
            titles.setdefault(text, []).extend(by_key[key])
    blocks = [
        tag(
            "div",
            tag("p", _enumerated(names), class_="quiet"),
            tag("pre", tag("code", text)),
        )
        for text, names in titles.items()
    ]
    return tag("div", tag("h4", "Its rows as SQL"), blocks, class_="clause") if blocks else None


def _enumerated(names: Sequence[str]) -> str:
    """Names with commas between them, and "and" before the last."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def marked(finding: Finding) -> dict[str, object]:
    """What the filter asks of a place."""
    columns = json.dumps([clean(column) for column in finding.columns])
    form = finding.form or ("too high" if finding.gap > 0 else "too low")
    off = abs(finding.events_off)
    return {"data_columns": columns, "data_form": form, "data_off": f"{off:.6g}"}

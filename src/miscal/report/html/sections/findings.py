"""The findings: one card each, in the audit's order; those that another one explains are listed under it.

Each has a panel of details: calibration within the segment, adjacent ranges and categories, and the SQL filter that
selects its rows. Controls filter the cards by column, form and size.
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
from miscal.report.html.markup import Safe, clean, ellipsis, join, name, phrase, tag
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
MOST_EXPLAINED = 6  # segments listed on the card of the finding that explains them; CSV and JSON have all
MOST_ALIKE = 8  # other segments of the same columns, listed on the card
_LISTED = "code kind form where parent rows weight predicted observed gap events_off p_value real specific"
_LEGEND = ("over", "under", "noise")  # classes of marks; their labels are in prose.toml


def findings(document: AuditReport, most: int = MOST_CARDS) -> Safe:
    """The section of findings, at most `most` of them as cards."""
    families, panels = _families(document.findings), DetailPanels(document)
    shown = families[:most]
    further = [finding for family in families[most:] for finding in family]
    legend = [tag("span", phrase("findings", key), class_=f"key {key}") for key in _LEGEND]
    legend.append(tag("span", phrase("findings", "codes")))
    size_filter = phrase("findings", "minimum_total" if wording.means() else "minimum_events")
    cards = [card(number, family, panels) for number, family in enumerate(shown, 1)]
    notes = list(document.notes)
    if document.unlisted > 0:
        subject = "smaller or overlapping segment remains", "smaller or overlapping segments remain"
        notes.insert(0, phrase("findings", "unlisted", segments=wording.plural(document.unlisted, *subject)))
    return section(
        "findings",
        phrase("findings", "title_repaired" if document.repaired else "title"),
        tag("p", legend, class_="legend") if cards else quiet(phrase("findings", "none")),
        tag("ol", cards, class_="cards", data_fold=4, data_least=size_filter) if cards else None,
        panels.listed(further, f"Further findings ({len(further):,})"),
        [tag("p", name(note, 600), class_="note") for note in notes],
        panels.download(document.real) if cards else None,
    )


def _families(heads: Sequence[Finding]) -> list[list[Finding]]:
    """Findings of the same columns together, in the order of the first of each."""
    families: dict[object, list[Finding]] = {}
    for number, head in enumerate(heads):
        families.setdefault(head.columns or number, []).append(head)
    return list(families.values())


def card(number: int, family: Sequence[Finding], panels: "DetailPanels") -> Safe:
    """The card of the first of some findings of the same columns, the others listed on it."""
    finding = family[0]
    general = "" if finding.specific or finding.kind == "score" else phrase("findings", "general")
    badge = finding.code, finding.kind, finding.form, general
    others = family[1:]
    explained = [segment for head in family for segment in head.explained]
    columns = "column" if len(finding.columns) == 1 else "columns"
    alike = phrase("findings", "alike", segments=wording.plural(len(others), "more segment"), columns=columns)
    overlapping = wording.plural(len(explained), "overlapping segment is", "overlapping segments are")
    these = "these are" if others else "this one is"
    under = phrase("findings", "explained", segments=overlapping, these=these)
    return tag(
        "li",
        tag("p", " · ".join(part for part in badge if part), class_="badge"),
        tag("h3", name(finding.where, 140)),
        tag("p", finding.sentence, class_="said"),
        gap_card(finding).svg,
        quiet(strength(finding)),
        panels.details(finding),
        panels.listed(others, alike, most=MOST_ALIKE),
        panels.listed(explained, under, _brief, MOST_EXPLAINED),
        class_=f"card {'over' if finding.events_off >= 0 else 'under'}",
        id=f"finding-{number}",
        **filter_attributes(finding),
    )


def _brief(finding: Finding) -> str:
    return finding.form if finding.score_ranges else wording.points(finding.gap)


def strength(finding: Finding) -> str:
    """Whether it is significant, and whether it still is after global recalibration."""
    if finding.kind != "score" and not finding.specific:
        return finding.judged + phrase("findings", "score_explains")
    if finding.whole and not (finding.at_least > 0 or finding.score_ranges):
        return finding.judged + phrase("findings", "shape_over_mean")
    return finding.judged


PANEL_BYTES = 340_000  # of all findings of a page together: figures, tables and clauses
N_ADJACENT_RANGES, N_OTHER_CATEGORIES = 2, 5  # listed beside those of the segment
MOST_SHOWN = 12  # cells that are listed, those of the segment and adjacent ones


class DetailPanels:
    """The panels of details of all findings and their SQL filters; heads first, until `PANEL_BYTES` are spent.

    Attributes
    ----------
    document : AuditReport
        The audit.
    columns : dict of str to ResultView
        The results of single columns, by column.
    panels : dict of str to Safe
        The panel of each finding, by where it is; empty once the bytes are spent.
    filters : dict of str to dict
        The SQL filters of each finding, by where it is and by dialect.
    """

    def __init__(self, document: AuditReport) -> None:
        self.document = document
        self.columns = {entry.column: entry for entry in document.columns}
        self.panels: dict[str, Safe] = {}
        self.filters: dict[str, dict[str, str]] = {}
        room = PANEL_BYTES
        for finding in sorted(document.real, key=lambda finding: bool(finding.parent)):
            filters, panel = dict.fromkeys(titles_by_key(), ""), Safe("")
            if room > 0:
                clauses = clauses_by_key(finding.to_sql)
                filters |= {key: text for key, text in clauses.items() if len(text) <= LONGEST_TEXT}
                panel = join(self._calibration_curve(finding), self._adjacent(finding), _sql_blocks(filters))
            room -= len(panel) + sum(map(len, filters.values()))
            self.filters[finding.where], self.panels[finding.where] = filters, panel

    def details(self, finding: Finding, summary: str = "") -> Safe:
        """The panel, one click below its summary; the summary alone where the panel is empty."""
        body = self.panels.get(finding.where)
        if not body:
            return tag("div", summary) if summary else Safe("")
        summary = summary or phrase("findings", "details")
        return tag("details", tag("summary", summary), tag("div", body, class_="closer"), class_="look")

    def listed(
        self,
        segments: Sequence[Finding],
        summary: str,
        describe: Callable[[Finding], str] = attrgetter("sentence"),
        most: int | None = None,
    ) -> Safe | None:
        """A list of at most `most` findings, one click below its summary: each with its description and its panel."""
        shown = []
        for finding in segments[:most]:
            line = join(tag("bdi", ellipsis(finding.where, 100)), ": ", describe(finding))
            shown.append(tag("li", self.details(finding, line), **filter_attributes(finding)))
        n_more = len(segments) - len(shown)
        rest = quiet(phrase("findings", "more", n=f"{n_more:,}")) if n_more > 0 else None
        return folded(summary, tag("ul", shown, class_="places"), rest) if segments else None

    def download(self, every: Sequence[Finding]) -> Safe:
        """All findings as CSV."""
        table: Data = {key: [getattr(f, key) for f in every] for key in _LISTED.split()}
        table |= {"gap_low": [f.interval[0] for f in every], "gap_high": [f.interval[1] for f in every]}
        table |= {key: [self.filters[f.where][key] for f in every] for key in titles_by_key()}
        return data_block("findings", table)

    def _calibration_curve(self, finding: Finding) -> Safe | None:
        """The calibration curve of the segment, by ranges of the score."""
        entry = self.document.along_score.get(finding.where)
        if finding.kind == "score" and not finding.condition:
            entry = next(iter(self.document.of("score")), None)
        if entry is None or not len(entry.cells):
            return None
        counted = wording.rows(np.nansum(entry.cells.rows))
        sample = phrase("findings", "sample") if self.document.settings.get("sample") else ""
        caption = phrase("findings", "curve_rows", rows=counted, sample=sample)
        drawn = variable(replace(entry, kind="variable", extra={"column": "Score"}))
        return tag("div", tag("h4", phrase("findings", "curve")), drawn.svg, quiet(caption))

    def _adjacent(self, finding: Finding) -> Safe | None:
        """The cells of the segment among adjacent ones, column by column."""
        tables = []
        for condition in finding.condition:
            entry = self.columns.get(ellipsis(condition["column"], LONGEST_NAME))
            if entry is not None:
                tables.append(_adjacent_cells(entry, Condition.from_dict(condition)))
        return tag("div", tables) if any(tables) else None


def _adjacent_cells(entry: ResultView, condition: Condition) -> Safe:
    """The cells of a column that a condition selects (ranges by their middle), and adjacent ones."""
    cells = entry.cells
    table = TableColumns(cells.table())
    if entry.kind == "variable":
        selected = condition.numbers(0.5 * (cells.low + cells.high))
        order, n_adjacent = np.arange(len(cells)), N_ADJACENT_RANGES
    else:  # the selected categories first, then those with the largest excess of events
        selected = condition.slots(map(level_of, map(str, entry.labels)))
        order = np.lexsort((-cells.strength(), ~selected))
        n_adjacent = N_OTHER_CATEGORIES
    inside = np.flatnonzero(selected[order])
    if not len(inside) or "gap" not in table:  # suppressed
        return Safe("")
    shown = order[max(inside[0] - n_adjacent, 0) : inside[-1] + 1 + n_adjacent].tolist()
    del shown[MOST_SHOWN // 2 : -MOST_SHOWN // 2]
    table = table.take(shown)
    small = [phrase("findings", "this") if selected[i] else "" for i in shown]
    named = TableColumn(entry.column, table["label"], "name", small=small)
    return sheet(phrase("findings", "adjacent"), [named, *columns_of(table, *RATES)], still=True)


def _sql_blocks(filters: Mapping[str, str]) -> Safe | None:
    """The SQL filters that select the rows of a segment, one for all databases that read the same text."""
    titles = titles_by_key()
    databases: dict[str, list[str]] = {}
    for key, clause in filters.items():
        if clause:
            databases.setdefault(clause, []).extend(titles[key])
    blocks = []
    for clause, names in databases.items():
        label = tag("p", _enumerated(names), class_="quiet")
        blocks.append(tag("div", label, tag("pre", tag("code", clause))))
    return tag("div", tag("h4", phrase("findings", "sql")), blocks, class_="clause") if blocks else None


def _enumerated(names: Sequence[str]) -> str:
    """Names with commas between them, and "and" before the last."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def filter_attributes(finding: Finding) -> dict[str, object]:
    """The attributes by which the script filters findings: columns, form, and size in events."""
    columns = json.dumps([clean(column) for column in finding.columns])
    form = finding.form or ("too high" if finding.gap > 0 else "too low")
    off = abs(finding.events_off)
    return {"data_columns": columns, "data_form": form, "data_off": f"{off:.6g}"}

"""What a notebook shows: an audit or a result as the page's cards and figures, in one piece of markup.

Its style holds inside that piece only; there is no script, and nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from miscal.auditing.findings import Finding
from miscal.page import words
from miscal.page.entries import Entry, read_entry
from miscal.page.figures.columns import field_levels, variable
from miscal.page.figures.crossed import cumulative, deviation_reach, neighbourhood
from miscal.page.figures.gaps import reliability
from miscal.page.figures.marks import Figure
from miscal.page.json import SCHEMA, Columns, floats
from miscal.page.markup import Child, Safe, asset, tag
from miscal.page.records import Document, in_its_words, read_document
from miscal.page.sections import closing, columns, findings, repair, score
from miscal.page.sections.blocks import HEADINGS, columns_of, figure, quiet, sheet
from miscal.page.sections.closer import Closer
from miscal.page.verdict import verdict

MOST = 4  # cards, and figures of columns
MOST_ROWS = 20
MOST_SAID = 10
_JUDGED = ("value", "noise_floor", "predicted", "observed", "gap", "gap_low", "gap_high", "deviations", "p_adjusted")
_WHOLE = "The worst places. audit.to_html(path) writes the whole page, which sorts and searches."
_OWN = """.tools, .search { display: none; } th button::after { content: none; }
main { padding: .5rem 1.25rem 1.5rem; margin: 0; }
main > section, main > .hero { padding-top: 1.5rem; } .tiles { margin-top: 1.5rem; }
.hero h1 { font-size: 1.6rem; } .pair > figure:only-child { max-width: 34rem; } .grid { margin-top: 1.5rem; }
"""


@cache
def _style() -> str:
    """The page's style, for what stands inside one element; what it says of the document is said of that element."""
    style = asset("page.css").replace(":root", ":scope").replace("\nbody {", "\n:scope {")
    return f"@scope (.miscal) {{\n{style}\n{_OWN}\n}}"


def _framed(*children: Child) -> Safe:
    return tag("div", tag("style", Safe(_style())), tag("main", *children), class_="miscal")


@in_its_words
def audit_html(document: object) -> str:
    """An audit, or a repair: the verdict, its numbers, the worst findings as cards, and their figures."""
    audit = read_document(document)
    guilty = [column for head in audit.heads for column in head.columns]
    drawn = [entry for entry in columns.entries(audit) if entry.column in guilty][:MOST]
    return _framed(
        score.hero(audit),
        score.key_numbers(audit),
        repair.repair(audit),
        findings.findings(audit, MOST),
        [tag("div", _figures(entry, audit.level), class_="pair") for entry in audit.of("score")[:1]],
        tag("div", [made for entry in drawn for made in _figures(entry, audit.level)], class_="grid"),
        quiet(_WHOLE),
    )


def comparison_html(comparison: Mapping[str, Any]) -> str:
    """What changed between two audits, as the page shows it."""
    with words.showing(str(comparison.get("response", ""))):
        return _framed(closing.comparison(read_document({"schema": SCHEMA, "comparison": comparison})))


def finding_html(finding: Finding) -> str:
    """One finding as its card."""
    audit = read_document({"schema": SCHEMA, "findings": [finding.to_dict() | {"parent": None}]})
    with words.showing(finding.response):
        return _framed(tag("ol", findings.card(1, audit.findings, None, "wide", Closer(audit)), class_="cards"))


def result_html(result: Mapping[str, Any], said: str, level: float = 0.05) -> str:
    """A result: what it says, its figures, and its cells, levels and places with the worst of them first."""
    table = dict(result["table"])
    if "class" in table:  # their p-values are of their errors, not of the gaps beside them
        table |= {"label": [f"class {name}" for name in table.pop("class")], "value": table.pop("error")}
        table |= {"p_value": None, "gap": None}
    entry = read_entry({**result, "table": table}, str(result["kind"]))
    with words.showing(str(entry.settings.get("target", ""))):
        return _framed(
            tag("p", said),
            quiet(str(result["method"])),
            tag("div", _figures(entry, level), class_="pair"),
            _cells(entry),
        )


def _figures(entry: Entry, level: float) -> list[Safe]:
    """The figures of a result, by its kind."""
    if entry.kind == "subpopulation":
        walks = entry.walks[:MOST]
        return [figure(cumulative(walk, deviation_reach(walks)), heading=walk.label) for walk in walks]
    return [figure(one) for one in _drawn(entry, level)]


def _drawn(entry: Entry, level: float) -> list[Figure]:
    if entry.kind == "class":
        return []
    if entry.kind == "score":
        return [reliability(entry, level), *([cumulative(entry.walk)] if entry.walk else [])]
    if entry.kind == "neighbourhood" and entry.grid is not None:
        return [neighbourhood(entry)]
    ranged = entry.kind in ("variable", "variation") and "low" in entry.table
    return [variable(entry, level) if ranged else field_levels(entry, level)]


def _cells(entry: Entry) -> Safe:
    """The cells: ranges in their order, levels and places with the worst of them first."""
    cells, table = entry.cells, entry.table
    order = np.arange(len(cells))
    if "low" not in table and entry.kind != "subpopulation":  # those are in order already
        order = np.argsort(-(floats(table["value"]) if "value" in table else cells.strength()), kind="stable")
    shown = order[:MOST_ROWS].tolist()
    taken = table.take(shown)
    taken["where"] = [cells.label[i] for i in shown]
    named = [name for name in ("where", "rows", *_JUDGED) if name in taken and name in HEADINGS]
    more = quiet(f"{len(order) - len(shown):,} more in .table") if len(order) > len(shown) else None
    return tag("div", sheet("Cells", columns_of(Columns(taken), *named)), more)


@in_its_words
def audit_text(document: object) -> str:
    """An audit in a few lines, for a prompt: the verdict, the worst places, and where the rest is."""
    audit = read_document(document)
    said = verdict(audit)
    heads = audit.heads
    lines = [f"{number}. {head}" for number, head in enumerate(heads[:MOST_SAID], 1)]
    lines += [f"... and {words.plural(len(heads) - MOST_SAID, 'more place')}"] if len(heads) > MOST_SAID else []
    notes = [f"Note: {note}" for note in audit.notes]
    return "\n".join([said.sentence, *said.support, *lines, *notes, _rest(audit)])


def _rest(audit: Document) -> str:
    return "Repair.to_html(path) writes the page." if audit.repaired else "Audit.to_html(path) writes the page."

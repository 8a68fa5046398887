"""The findings: one card each, in the audit's order, those that another one explains listed under it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from miscal.auditing.findings import Finding
from miscal.page import words
from miscal.page.figures.gaps import card_domain, gap_by_score, gap_card, range_card
from miscal.page.markup import Safe, name, tag
from miscal.page.records import Document
from miscal.page.sections.blocks import RATES, Column, columns_of, data_block, folded, quiet, section, sheet, slug
from miscal.page.sections.closer import Closer, clauses, filters, marked

MOST_CARDS = 10  # the first is as wide as the page, the others stand in rows of three
MOST_EXPLAINED = 6  # places listed on the card of what explains them; the CSV and the JSON have all
MOST_ALIKE = 8  # other places of the same columns, listed on the card
_WORDS = ("code", "kind", "form", "where", "parent")
_LISTED = (*_WORDS, "rows", "weight", "predicted", "observed", "gap", "events_off", "p_value")
_CLAUSES = {"sql": "duckdb", "sql_sqlite": "sqlite"}


def findings(document: Document, most: int = MOST_CARDS) -> Safe:
    """The section of findings, at most so many as cards; when there are none it says what that means."""
    families = _families(document.heads)
    body, further = quiet("Nothing that was looked at is off beyond noise."), []
    if families:
        shown = families[:most]
        domain = _shared_domain([family[0] for family in shown])
        spans = _spans(len(shown))
        closer = Closer(document)
        cards = [card(n, family, domain, spans[n - 1], closer) for n, family in enumerate(shown, 1)]
        further = [closer.item(f, f.sentence) for family in families[most:] for f in family]
        body = tag("ol", cards, class_="cards", data_fold=4)
    return section(
        "findings",
        "Where it is still wrong after the repair" if document.repaired else "Where it is wrong",
        _legend() if families else None,
        filters(document.real),
        body,
        folded(f"Further findings ({len(further):,})", tag("ul", further, class_="places") if further else None),
        _unlisted(document.unlisted),
        [tag("p", name(note, 600), class_="note") for note in document.notes],
        _download(document.real) if document.findings else None,
    )


def _families(heads: Sequence[Finding]) -> list[list[Finding]]:
    """Findings of the same columns together, in the order of the first of each."""
    found: dict[object, list[Finding]] = {}
    for number, head in enumerate(heads):
        found.setdefault(head.columns or number, []).append(head)
    return list(found.values())


def _spans(many: int) -> list[str]:
    """How wide each card is, so that the last row is full: the first all of it, then thirds, and halves at the end."""
    rest = many - 1
    halves = {0: 0, 1: 4, 2: 2}[rest % 3] if rest != 1 else 0
    return ["wide", *["wide" if rest == 1 else "half" if rest - i <= halves else "third" for i in range(rest)]][:many]


def _unlisted(many: int) -> Safe | None:
    if many <= 0:
        return None
    places = words.plural(many, "smaller or overlapping place is", "smaller or overlapping places are")
    text = f"The list ends here. {places} still off when all of these are put right; "
    return tag("p", text, "a deeper look at their columns would name them.", class_="note")


def _shared_domain(shown: Sequence[Finding]) -> tuple[float, float] | None:
    """One axis for all cards when every gap stays visible on it."""
    domain = card_domain(shown)
    gaps = [abs(finding.gap) for finding in shown if not math.isnan(finding.gap)]
    return domain if min(gaps, default=0.0) > 0.04 * (domain[1] - domain[0]) else None


def _legend() -> Safe:
    keys = {"over": "predicted too high", "under": "predicted too low", "noise": "within noise"}
    return tag("p", [tag("span", said, class_=f"key {key}") for key, said in keys.items()], class_="legend")


def card(number: int, family: Sequence[Finding], domain: tuple[float, float] | None, span: str, closer: Closer) -> Safe:
    """The card of the first of some findings of the same columns, the others listed on it."""
    finding, document = family[0], closer.document
    explained = [place for head in family for place in head.explained]
    return tag(
        "li",
        tag("p", _badge(finding), class_="badge"),
        tag("h3", name(_unbroken(finding.where), 140)),
        tag("p", finding.sentence, class_="said"),
        _plot(finding, domain, document),
        quiet(strength(finding)),
        closer.look(finding),
        _alike(family[1:], closer),
        _explained(explained, closer, many=len(family) > 1),
        class_=f"card {span} {'over' if finding.events_off >= 0 else 'under'}",
        id=slug(finding.where, f"finding-{number}"),
        **marked(finding),
    )


def _plot(finding: Finding, domain: tuple[float, float] | None, document: Document) -> Safe:
    """The two rates; for the whole table, whose rates stand at the top of the page, the gap along the score."""
    if finding.kind == "score" and finding.where == "the whole table" and document.of("score"):
        drawn = gap_by_score(document.of("score")[0], document.level)
        if drawn.svg:
            return drawn.svg
    return range_card(finding).svg if finding.score_ranges else gap_card(finding, domain).svg


def _alike(others: Sequence[Finding], closer: Closer) -> Safe | None:
    """Other places of the same columns."""
    if not others:
        return None
    listed = [closer.item(f, f.sentence) for f in others[:MOST_ALIKE]]
    more = len(others) - len(listed)
    rest = quiet(f"and {more:,} more like it, in the CSV and the JSON") if more > 0 else None
    columns = "column" if len(others[0].columns) == 1 else "columns"
    return folded(
        f"{words.plural(len(others), 'more place')} of the same {columns}", tag("ul", listed, class_="places"), rest
    )


def _badge(finding: Finding) -> str:
    general = "" if finding.specific or finding.kind == "score" else "part of the general error"
    return " · ".join(part for part in (finding.code, finding.kind, finding.form, general) if part)


def strength(finding: Finding) -> str:
    """Whether it is beyond noise, and whether the score alone explains it."""
    if finding.kind == "score" and not finding.whole:
        return finding.judged
    if finding.whole:
        return (
            finding.judged
            if finding.at_least > 0 or finding.score_ranges
            else f"{finding.judged} Off along the score more than on average."
        )
    return finding.judged if finding.specific else f"{finding.judged} Correcting the score alone would explain it."


def ranking(heads: Sequence[Finding]) -> list[Column]:
    """Findings as the columns of a terminal's table."""
    headed = columns_of(heads, "where", "rows", "predicted", "observed", "p_value")
    *first, last = [replace(column, heading=column.heading.lower()) for column in headed]
    off = [head.brief if head.score_ranges else head.difference for head in heads]
    chance = replace(last, least=[head.p_value if head.bound else None for head in heads])
    return [
        *first,
        Column("difference in total" if words.means() else "difference in events", off, kind="words"),
        chance,
    ]


def _unbroken(where: str) -> str:
    """The place with dates that do not break at their hyphens."""
    return re.sub(r"(\d{4})-(\d\d)-(\d\d)", "\\1\N{NON-BREAKING HYPHEN}\\2\N{NON-BREAKING HYPHEN}\\3", where)


def _explained(explained: Sequence[Finding], closer: Closer, *, many: bool) -> Safe | None:
    if not explained:
        return None
    listed = [closer.item(f, f.form if f.score_ranges else words.points(f.gap)) for f in explained[:MOST_EXPLAINED]]
    more = len(explained) - len(listed)
    summary = f"{words.plural(len(explained), 'other place')} explained by {'these' if many else 'this one'}"
    return folded(summary, tag("ul", listed, class_="places"), quiet(f"and {more:,} more") if more > 0 else None)


def _rest(title: str, rest: Sequence[Finding]) -> Safe:
    columns = columns_of(rest, "where", *RATES, "p_value")
    return folded(f"{title} ({len(rest):,})", sheet(title, columns))


def _download(every: Sequence[Finding]) -> Safe:
    table: dict[str, list[object]] = {key: [getattr(f, key, "") for f in every] for key in _LISTED}
    table |= {key: [f.interval[end] for f in every] for end, key in enumerate(("gap_low", "gap_high"))}
    table |= {key: [str(getattr(f, key)).lower() for f in every] for key in ("real", "specific")}
    table |= {key: clauses(every, dialect) for key, dialect in _CLAUSES.items()}
    button = tag("button", "All findings as CSV", type="button", class_="csv")
    return tag("div", button, data_block("findings", table, exact=tuple(_CLAUSES)), class_="tools")

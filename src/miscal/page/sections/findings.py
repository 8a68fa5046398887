"""The findings: one card each, in the audit's order, those that another one explains listed under it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from miscal.auditing.measures import level
from miscal.page import figures, words
from miscal.page.markup import Safe, name, tag
from miscal.page.reading import Document, items, mapping
from miscal.page.sections.figures import data_block, slug
from miscal.page.sections.tables import Column, sheet
from miscal.page.verdict import repaired
from miscal.page.words import finite

Finding = Mapping[str, Any]
MOST_CARDS = 10  # the first is as wide as the page, the others stand in rows of three
MOST_ALIKE = 8  # other places of the same columns, listed on the card
_LISTED = ("code", "kind", "where", "rows", "weight", "predicted", "observed", "gap", "events_off", "p_value")


def findings(document: Document) -> Safe:
    """The section of findings; when there are none it says what that means."""
    every = [mapping(item) for item in items(document.get("findings"))]
    real = [f for f in every if f.get("real", True)]
    doubtful = [f for f in every if not f.get("real", True)]
    heads = [f for f in real if not _parent(f, real)]
    families = _families(heads)
    if heads:
        shown = families[:MOST_CARDS]
        domain = _shared_domain([family[0] for family in shown])
        spans = _spans(len(shown))
        cards = [_card(n, family, real, domain, spans[n - 1], document) for n, family in enumerate(shown, 1)]
        body = tag("ol", cards, class_="cards", data_fold=4)
    else:
        body = tag("p", "Nothing that was looked at is off beyond noise.", class_="quiet")
    return tag(
        "section",
        tag("h2", "Where it is still wrong after the repair" if repaired(document) else "Where it is wrong"),
        _legend() if heads else None,
        body,
        _rest("Further findings", [f for family in families[MOST_CARDS:] for f in family], open_=False),
        _unlisted(document),
        [tag("p", name(note, 600), class_="note") for note in items(document.get("notes"))],
        _rest("Largest gaps within noise", doubtful, open_=False),
        _download(every) if every else None,
        id="findings",
    )


def _families(heads: Sequence[Finding]) -> list[list[Finding]]:
    """Findings of the same columns together, in the order of the first of each."""
    found: dict[object, list[Finding]] = {}
    for number, head in enumerate(heads):
        columns = tuple(str(column) for column in items(head.get("columns")))
        found.setdefault(columns or number, []).append(head)
    return list(found.values())


def _spans(many: int) -> list[str]:
    """How wide each card is, so that the last row is full: the first all of it, then thirds, and halves at the end."""
    rest = many - 1
    halves = {0: 0, 1: 4, 2: 2}[rest % 3] if rest != 1 else 0
    return ["wide", *["wide" if rest == 1 else "half" if rest - i <= halves else "third" for i in range(rest)]][:many]


def _unlisted(document: Document) -> Safe | None:
    number = finite(document.get("unlisted"))
    if not number > 0:
        return None
    many = words.plural(int(number), "smaller or overlapping place is", "smaller or overlapping places are")
    text = f"The list ends here. {many} still off when all of these are put right; "
    text += "each is listed under the place it shares most rows with."
    return tag("p", text, class_="note")


def _parent(finding: Finding, among: Sequence[Finding]) -> Finding | None:
    """The finding that explains this one, by its code or its place; None for one that stands alone."""
    wanted = finding.get("parent")
    if not wanted:
        return None
    same = [
        f
        for f in among
        if f is not finding and wanted in (f.get("id"), f.get("where"), f.get("code")) and not f.get("parent")
    ]
    return same[0] if same else None


def _shared_domain(shown: Sequence[Finding]) -> tuple[float, float] | None:
    """One axis for all cards when every gap stays visible on it."""
    domain = figures.card_domain(list(shown))
    gaps = [abs(finite(f.get("gap"))) for f in shown]
    return domain if min((g for g in gaps if not math.isnan(g)), default=0.0) > 0.04 * (domain[1] - domain[0]) else None


def _legend() -> Safe:
    return tag(
        "p",
        tag("span", "predicted too high", class_="key over"),
        tag("span", "predicted too low", class_="key under"),
        tag("span", "within noise", class_="key noise"),
        class_="legend",
    )


def _card(
    number: int,
    family: Sequence[Finding],
    real: Sequence[Finding],
    domain: tuple[float, float] | None,
    span: str,
    document: Document,
) -> Safe:
    finding = family[0]
    explained = [f for f in real if any(f is not head and _parent(f, real) is head for head in family)]
    numbers = [finite(head.get("explains")) for head in family if head.get("explains")]
    off = finite(finding.get("events_off", finding.get("gap")))
    return tag(
        "li",
        tag("p", _badge(finding), class_="badge"),
        tag("h3", name(_unbroken(finding.get("where", "")), 140)),
        tag("p", sentence(finding), class_="said"),
        _plot(finding, domain, document),
        tag("p", strength(finding), class_="quiet"),
        _alike(family[1:]),
        _explained(explained, int(sum(numbers)), many=len(family) > 1),
        class_=f"card {span} {'over' if off >= 0 else 'under'}",
        id=slug(finding.get("where", ""), f"finding-{number}"),
    )


def _plot(finding: Finding, domain: tuple[float, float] | None, document: Document) -> Safe:
    """The two rates; for the whole table, whose rates stand at the top of the page, the gap along the score."""
    results = items(mapping(document.get("sections")).get("score"))
    if finding.get("kind") == "score" and finding.get("where") == "the whole table" and results:
        drawn = figures.gap_by_score(mapping(results[0]), level(document))
        if drawn.svg:
            return drawn.svg
    return figures.gap_card(finding, domain).svg


def _alike(others: Sequence[Finding]) -> Safe | None:
    """Other places of the same columns."""
    if not others:
        return None
    listed = [tag("li", name(f.get("where", ""), 100), ": ", sentence(f)) for f in others[:MOST_ALIKE]]
    more = len(others) - len(listed)
    rest = tag("p", f"and {more:,} more like it, in the CSV and the JSON", class_="quiet") if more > 0 else None
    summary = f"{words.plural(len(others), 'more place')} of the same {'column' if _single(others[0]) else 'columns'}"
    return tag("details", tag("summary", summary), tag("ul", listed), rest)


def _single(finding: Finding) -> bool:
    return len(items(finding.get("columns"))) == 1


def _badge(finding: Finding) -> str:
    kind = str(finding.get("kind", ""))
    general = "" if finding.get("specific", True) or kind == "score" else "part of the general error"
    return " · ".join(part for part in (str(finding.get("code", "")), kind, general) if part)


def sentence(finding: Finding) -> str:
    """Say a finding in words: the rates, the rows, the events off and at least how many."""
    rates = f"{words.percent(finding.get('predicted'))} predicted, {words.percent(finding.get('observed'))} happened"
    counted, weight = finite(finding.get("events_off")), finite(finding.get("weight"))
    shrunken = finite(finding.get("shrunken")) * weight
    shown = counted if math.isnan(shrunken) else shrunken
    beside = [f"{words.count(abs(counted))} counted"] if words.count(shown) != words.count(counted) else []
    least = _at_least(finding)
    beside += [f"at least {words.count(least)}"] if least >= 1 else []
    bound = f" ({'; '.join(beside)})" if beside else ""
    return f"{rates}. {words.count(finding.get('rows'))} rows, {words.events_off(shown)}{bound}."


def _at_least(finding: Finding) -> float:
    """The lower bound of the events off: the end of the gap's interval nearer to zero, in events."""
    low, high = [finite(end) for end in [*items(finding.get("interval")), None, None][:2]]
    gap, off = finite(finding.get("gap")), finite(finding.get("events_off"))
    if math.isnan(low) or math.isnan(high) or math.isnan(off) or not gap:
        return math.nan
    nearer = low if gap > 0 else -high
    return nearer * abs(off / gap)


def strength(finding: Finding) -> str:
    """Whether it is beyond noise, and whether the score alone explains it."""
    judged = "Beyond noise" if finding.get("real", True) else "Within noise"
    text = f"{judged} ({words.p_value(finding.get('p_value'), 'adjusted p')})."
    if finding.get("specific") is False and finding.get("kind") != "score":
        text += " Correcting the score alone would explain it."
    if finding.get("kind") == "score" and not _at_least(finding) > 0:
        text += " Off along the score more than on average."
    return text


def _unbroken(where: object) -> str:
    """The place with dates that do not break at their hyphens."""
    return re.sub(r"(\d{4})-(\d\d)-(\d\d)", "\\1\N{NON-BREAKING HYPHEN}\\2\N{NON-BREAKING HYPHEN}\\3", str(where))


def _explained(explained: Sequence[Finding], number: int = 0, *, many: bool = False) -> Safe | None:
    if not explained:
        return None
    more = number - len(explained)
    listed = [tag("li", name(f.get("where", ""), 100), ": ", words.points(f.get("gap"))) for f in explained]
    words_ = f"{words.plural(max(number, len(listed)), 'other place')} explained by {'these' if many else 'this one'}"
    rest = tag("p", f"and {more:,} more", class_="quiet") if more > 0 else None
    return tag("details", tag("summary", words_), tag("ul", listed), rest)


def _rest(title: str, rest: Sequence[Finding], *, open_: bool) -> Safe | None:
    if not rest:
        return None
    columns = [
        Column("Where", [str(f.get("where", "")) for f in rest], kind="name"),
        Column("Rows", [f.get("rows") for f in rest], words.count),
        Column("Predicted", [f.get("predicted") for f in rest], words.percent),
        Column("Happened", [f.get("observed") for f in rest], words.percent),
        Column("Gap", [f.get("gap") for f in rest], words.points),
        Column("Adjusted p", [f.get("p_value") for f in rest], words.p_cell),
    ]
    return tag("details", tag("summary", f"{title} ({len(rest):,})"), sheet(title, columns), open=open_)


def _download(every: Sequence[Finding]) -> Safe:
    table: dict[str, list[object]] = {key: [f.get(key) for f in every] for key in _LISTED}
    bounds = [[*items(f.get("interval")), None, None][:2] for f in every]
    table |= {"gap_low": [low for low, _ in bounds], "gap_high": [high for _, high in bounds]}
    table |= {key: [str(bool(f.get(key))).lower() for f in every] for key in ("real", "specific")}
    return tag(
        "div",
        tag("button", "All findings as CSV", type="button", class_="csv"),
        data_block("findings", table),
        class_="tools",
    )

"""Along time: every week or month, and what changed from one to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from miscal.auditing.measures import level
from miscal.page import figures, words
from miscal.page.markup import Safe, join, name, tag
from miscal.page.period_words import KIND, changed_words, every_of, periods_said
from miscal.page.reading import Document, items, mapping, padded
from miscal.page.sections.figures import figure
from miscal.page.sections.tables import Column, rates, sheet

MOST_SAID = 8
MOST_LISTED = 120
_RATES = "What happened, with intervals that hold for all at once where they are drawn, and what was predicted."
_GAPS = (
    "Predicted minus happened. Noise alone keeps each dot in the shaded band 95 times in 100. Worse and better say how "
    "the size of the gap changed from the dot before; turned says that its direction did."
)
_WHAT = (
    "Better and worse compare each {every} with the one before: the gaps of two sets of rows, judged over all steps at "
    "once. A slow drift may be beyond noise over the whole time and in no single step; the {every}s' own "
    "p-values show it."
)


def periods(document: Document) -> Safe:
    """The section of periods; empty where no column of times was named."""
    results = [mapping(item) for item in items(mapping(document.get("sections")).get(KIND))]
    if not results:
        return Safe("")
    alpha = level(document)
    return tag("section", tag("h2", "Along time"), [_one(result, alpha) for result in results], id="periods")


def _one(result: Mapping[str, Any], alpha: float) -> Safe:
    extra = mapping(result.get("extra"))
    every = every_of(result)
    changed = changed_words(result)
    said = [_sentence(sentence) for sentence in changed_words(result, MOST_SAID)]
    left = len(changed) - len(said)
    more = f"{words.plural(left, 'smaller step is', 'smaller steps are')} in the table." if left else ""
    part = mapping(result.get("settings")).get("part")
    drawn = [figure(figures.period_rates(result, alpha), _RATES), figure(figures.period_gaps(result, alpha), _GAPS)]
    return tag(
        "div",
        tag("h3", name(part, 80)) if part else None,
        tag("p", periods_said(result), class_="lead"),
        tag("ul", said, class_="told", data_fold=4) if said else None,
        tag("p", more, class_="quiet") if more else None,
        tag("p", name(extra["note"], 600), class_="note") if extra.get("note") else None,
        tag("div", drawn, class_="pair"),
        tag("p", _WHAT.format(every=every), class_="note"),
        tag("details", tag("summary", f"All {every}s"), _table(mapping(result.get("table")), every)),
    )


def _sentence(text: str) -> Safe:
    """A step, what became of it set off from the numbers."""
    what, colon, numbers = text.partition(": ")
    return tag("li", tag("strong", what + colon.strip()), f" {numbers}" if numbers else None)


def _table(table: Mapping[str, Any], every: str) -> Safe:
    many = len(items(table.get("label")))
    first = max(many - MOST_LISTED, 0)

    def column(key: str) -> list[Any]:
        return padded(table, key, many)[first:]

    made = sheet(
        f"Every {every}, and what changed since the one before",
        [
            Column("Week from" if every == "week" else every.capitalize(), column("label"), kind="name"),
            *rates(column),
            Column("At least", column("gap_low"), words.points),
            Column("At most", column("gap_high"), words.points),
            Column("Noise alone", column("noise"), words.percent),
            Column("Adjusted p", column("p_adjusted"), words.p_cell),
            Column("Change", column("change"), words.points),
            Column("p of the change", column("change_p_adjusted"), words.p_cell),
            Column("Became", column("verdict"), kind="words"),
        ],
        search=f"Search {every}s",
        fold=6,
    )
    return (
        join(made, tag("p", f"The last {MOST_LISTED} of {many:,}; all are in the JSON.", class_="quiet"))
        if first
        else made
    )

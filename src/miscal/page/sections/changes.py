"""What changed: along time, every week or month against the one before, and since an earlier audit."""

from __future__ import annotations

from miscal.page import words
from miscal.page.entries import Entry
from miscal.page.figures.crossed import period_gaps, period_rates
from miscal.page.markup import Safe, join, name, tag
from miscal.page.records import Compared, Document
from miscal.page.sections.blocks import Column, figure, folded, lead, quiet, rates, section, sheet
from miscal.page.words import KIND, changed_words, periods_said

MOST_SAID = 8
MOST_LISTED = 120
MOST_CHANGED = 100
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
    results = document.of(KIND)
    if not results:
        return Safe("")
    return section("periods", "Along time", [_one(result, document.level) for result in results])


def _one(result: Entry, level: float) -> Safe:
    said = [_sentence(sentence) for sentence in changed_words(result, MOST_SAID)]
    left = len(changed_words(result)) - len(said)
    drawn = [figure(period_rates(result, level), _RATES), figure(period_gaps(result, level), _GAPS)]
    return tag(
        "div",
        tag("h3", name(result.part, 80)) if result.part else None,
        lead(periods_said(result)),
        tag("ul", said, class_="told", data_fold=4) if said else None,
        quiet(f"{words.plural(left, 'smaller step is', 'smaller steps are')} in the table.") if left else None,
        tag("p", name(result.note, 600), class_="note") if result.note else None,
        tag("div", drawn, class_="pair"),
        tag("p", _WHAT.format(every=result.every), class_="note"),
        folded(f"All {result.every}s", _table(result)),
    )


def _sentence(text: str) -> Safe:
    """A step, what became of it set off from the numbers."""
    what, colon, numbers = text.partition(": ")
    return tag("li", tag("strong", what + colon.strip()), f" {numbers}" if numbers else None)


def _table(result: Entry) -> Safe:
    every, many = result.every, result.table.rows

    def column(key: str) -> list[object]:
        return result.table[key][-MOST_LISTED:]

    columns = [
        Column("Week from" if every == "week" else every.capitalize(), column("label"), kind="name"),
        *rates(column),
        Column("At least", column("gap_low"), words.points),
        Column("At most", column("gap_high"), words.points),
        Column("Noise alone", column("noise"), words.percent),
        Column("Adjusted p", column("p_adjusted"), words.p_cell),
        Column("Change", column("change"), words.points),
        Column("p of the change", column("change_p_adjusted"), words.p_cell),
        Column("Became", column("verdict"), kind="words"),
    ]
    made = sheet(f"Every {every}, and what changed since the one before", columns, search=f"Search {every}s", fold=6)
    cut = quiet(f"The last {MOST_LISTED} of {many:,}; all are in the JSON.") if many > MOST_LISTED else None
    return join(made, cut)


def comparison(document: Document) -> Safe:
    """The section on an earlier audit: what got better, what got worse."""
    compared = document.comparison
    if compared is None:
        return Safe("")
    how = "the same rows, so that chance is shared" if compared.paired else "different rows"
    said = f": {len(compared.better):,} better and {len(compared.worse):,} worse beyond noise."
    if not compared.cells:
        said = ", by findings alone: its JSON has no sums of cells to compare."
    return section(
        "comparison",
        "Since the baseline",
        lead(f"Against the baseline, judged on {how}{said}"),
        _changed(compared),
        _list("New findings", compared.new),
        _list("Findings that are gone", compared.gone),
    )


def _changed(compared: Compared) -> Safe | None:
    table = compared.table
    chosen = [i for i, verdict in enumerate(table["verdict"]) if verdict in ("better", "worse")][:MOST_CHANGED]
    if not chosen:
        return None

    def values(key: str) -> list[object]:
        return [table[key][i] for i in chosen]

    columns = [
        Column("Where", values("where"), kind="name"),
        Column("Became", values("verdict"), kind="words"),
        Column("Gap before", values("gap_before"), words.points),
        Column("Gap after", values("gap_after"), words.points),
        Column("Adjusted p", values("p_adjusted"), words.p_cell),
    ]
    return sheet("Places that changed", columns, search="Search places")


def _list(title: str, places: list[str]) -> Safe | None:
    if not places:
        return None
    listed = [tag("li", name(place, 140)) for place in places[:MOST_CHANGED]]
    return folded(f"{title} ({len(places):,})", tag("ul", listed))

"""The section of a repair: what became of every finding on unseen rows, and how the repair was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from miscal.page import words
from miscal.page.figures.repair import gap_pairs
from miscal.page.markup import Safe, name, tag
from miscal.page.reading import Document, items, mapping
from miscal.page.sections.figures import figure
from miscal.page.sections.tables import Column, sheet

VERDICTS = ("gone", "smaller", "remaining", "larger", "new")
SCORES = {
    "log_loss": "Log loss", "brier": "Brier score", "auc": "Area under the curve", "expected": "Error along the score",
    "kuiper": "Kuiper error", "smooth": "Smooth error", "slope": "Slope", "gap": "Gap over all rows",
}  # fmt: skip


def repair(document: Document) -> Safe:
    """The section; empty when the document holds no repair."""
    if "repaired_by" not in document:
        return Safe("")
    about = mapping(document.get("repaired_by"))
    places = [mapping(place) for place in items(document.get("repair"))]
    return tag(
        "section",
        tag("h2", "Before and after the repair"),
        tag("p", repair_sentence(about, places), class_="lead"),
        tag("p", name(about["reason"], 600), class_="lead") if about.get("reason") else None,
        figure(gap_pairs(places), _caption()) if places else None,
        _listed(places),
        _scores(about),
        _candidates(mapping(about.get("candidates"))),
        tag(
            "p", "All else on this page is of the repaired probabilities, on the rows that judge them.", class_="quiet"
        ),
        id="repair",
    )


def repair_sentence(about: Mapping[str, Any], places: Sequence[Mapping[str, Any]]) -> str:
    """How many places are gone, smaller, remaining, larger and new, and on which rows that was judged."""
    counts = {verdict: sum(place.get("verdict") == verdict for place in places) for verdict in VERDICTS}
    before = sum(counts.values()) - counts["new"]
    found = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count and verdict != "new")
    what = f"Of {words.plural(before, 'place')} wrong beyond noise: {found}" if before else "Nothing was wrong before"
    fitted = words.count(about.get("fitted_rows"))
    unseen = f"{about.get('name')} was fitted on {fitted} rows and judged on {words.count(about.get('rows'))} others."
    if "folds" in str(about.get("split", "")):
        unseen = (
            f"{about.get('name')} was fitted on {fitted} rows; each row is judged by a repair that has not seen it "
            f"({about.get('split')})."
        )
    return f"{what}; {counts['new']} new. {unseen}"


def _caption() -> str:
    return "What the audit found before the repair, and what only the audit after it finds; what is left comes first."


def _listed(places: Sequence[Mapping[str, Any]]) -> Safe | None:
    if not places:
        return None

    def of(when: str, key: str) -> list[object]:
        return [mapping(place.get(when)).get(key) for place in places]

    columns = [
        Column("Where", [place.get("where", "") for place in places], kind="name"),
        Column("Rows", [mapping(p.get("after")).get("rows", mapping(p.get("before")).get("rows")) for p in places],
               words.count),
        Column("Gap before", of("before", "gap"), words.points),
        Column("Gap after", of("after", "gap"), words.points),
        Column("Interval after", [_interval(place) for place in places], kind="words"),
        Column("Verdict", [place.get("verdict", "") for place in places], kind="words"),
    ]  # fmt: skip
    summary = f"All {words.plural(len(places), 'place')}"
    return tag("details", tag("summary", summary), sheet("Before and after", columns, search="Search places"))


def _interval(place: Mapping[str, Any]) -> str:
    low, high = [*items(mapping(place.get("after")).get("interval")), None, None][:2]
    return words.interval(low, high, lambda value: words.points(value).removesuffix(" points")) or words.NOTHING


def _scores(about: Mapping[str, Any]) -> Safe | None:
    known = [(label, items(mapping(about.get("score")).get(key))) for key, label in SCORES.items()]
    known = [(label, pair) for label, pair in known if len(pair) == 2]
    if not known:
        return None
    columns = [
        Column("All rows", [label for label, _ in known], kind="name"),
        Column("Before", [pair[0] for _, pair in known], lambda value: words.number(value, 4)),
        Column("After", [pair[1] for _, pair in known], lambda value: words.number(value, 4)),
    ]
    change = mapping(about.get("log_loss_change"))
    low, high = [*items(change.get("interval")), None, None][:2]
    text = f"Log loss changes by {words.number(change.get('value'), sign=True)} ({words.interval(low, high)})."
    ranking = "The ranking of rows is kept." if about.get("keeps_ranking") else "The ranking of rows changes."
    return tag("div", sheet("The score before and after", columns), tag("p", f"{text} {ranking}", class_="quiet"))


def _candidates(table: Mapping[str, Any]) -> Safe | None:
    """Every candidate with what it cost on rows it had not seen."""
    names = items(table.get("name"))
    if len(names) < 2:
        return None
    columns = [
        Column("Candidate", names, kind="name"),
        Column("Log loss", items(table.get("log_loss")), lambda value: words.number(value, 4)),
        Column("Against doing nothing", items(table.get("log_loss_difference")), _signed),
        Column("at best", items(table.get("difference_low")), _signed),
        Column("at worst", items(table.get("difference_high")), _signed),
        *[Column(f"Error {key}", items(table[key]), words.percent) for key in list(table) if key.startswith("by ")][:6],
    ]
    summary = f"How it was chosen: {words.plural(len(names), 'candidate')}"
    return tag("details", tag("summary", summary), sheet("Candidates", columns))


def _signed(value: object) -> str:
    return words.number(value, sign=True)

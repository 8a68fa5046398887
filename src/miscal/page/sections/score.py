"""The whole model: what was audited, the verdict, the numbers that carry it, and the score in figures and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

from miscal.auditing.findings import Finding
from miscal.page import words
from miscal.page.entries import Entry
from miscal.page.gap_figures import gap_card, reliability
from miscal.page.markup import Safe, name, prose, tag
from miscal.page.records import Document, Measure
from miscal.page.sections.blocks import figure, folded, section
from miscal.page.sections.repair import repair_sentence
from miscal.page.verdict import verdict
from miscal.page.walk_figures import cumulative

#: What every number of the score is called, how it is written and what it means.
NUMBERS = {key: (label, getattr(words, write), meaning) for key, (label, write, meaning) in prose("numbers").items()}
HEADINGS = ("Number", "Value", "Noise alone", "95% interval", "p-value")
_TILES = {"expected": 0.0, "kuiper": 0.0, "ratio": 1.0, "slope": 1.0}  # shown first, each with the value that is right


def header(document: Document) -> Safe:
    """The masthead: what was audited."""
    facts = [tag("span", f"{words.count(document.rows)} rows")]
    if document.outcome:
        facts.append(tag("span", "outcome ", tag("b", name(document.outcome, 40))))
    if document.probabilities:
        listed = tag("b", name(", ".join(document.probabilities), 60))
        role = "prediction " if document.response else "probability "
        facts.append(tag("span", role, listed, ", repaired" if document.repaired else None))
    if document.data.get("exposure"):
        facts.append(tag("span", "a unit of exposure ", tag("b", name(document.data["exposure"], 40))))
    if document.top:
        facts.append(tag("span", "compared: confidence in the predicted class with being right"))
    return tag(
        "header",
        tag("p", "Calibration repair" if document.repaired else "Calibration audit", class_="brand"),
        tag("p", name(document.source, 60), class_="source") if document.source else None,
        tag("p", facts, class_="facts"),
        class_="masthead",
    )


def hero(document: Document) -> Safe:
    """The verdict with its support and a drawing of the two averages."""
    said, done = verdict(document), document.repaired
    predicted, observed, gap = document.averages
    rates = {"predicted": predicted, "observed": observed, "interval": [gap.low, gap.high]}
    drawn = gap_card(Finding.from_dict({"where": "All rows", **rates}))
    judged, colon, numbers = said.sentence.partition(": ")
    lighter = tag("span", " ", numbers, class_="rates") if numbers else None
    return tag(
        "section",
        tag(
            "div",
            tag("h1", tag("span", judged + colon.strip()), lighter, id="verdict", class_=said.direction),
            [tag("p", sentence) for sentence in said.support],
            tag("p", tag("a", "The repair", href="#repair"), ": ", repair_sentence(done)) if done else None,
        ),
        tag("figure", drawn.svg, tag("figcaption", "All rows together")) if drawn.svg else None,
        class_="hero",
        aria_labelledby="verdict",
    )


def key_numbers(document: Document) -> Safe:
    """Four numbers, each with what noise alone would show, in words."""
    tiles = [
        tag(
            "div",
            tag("dt", label),
            tag("dd", write(number.value), class_="big"),
            [tag("dd", line, class_="judged") for line in _judgement(number, document.level, write, right)],
            tag("dd", meaning, class_="quiet"),
        )
        for (label, write, meaning), number, right in ((NUMBERS[k], document.measure(k), v) for k, v in _TILES.items())
        if number.known
    ]
    return tag("dl", tiles, class_="tiles") if tiles else Safe("")


def _judgement(number: Measure, level: float, write: Callable[[object], str], right: float) -> list[str]:
    """Whether it is beyond noise, then what noise alone would show, or the interval."""
    lines: list[str] = []
    if not math.isnan(number.p_value) or not math.isnan(number.low):
        lines.append("Beyond noise" if number.beyond(level, right) else "Within noise")
    if not math.isnan(number.noise_floor):
        lines.append(f"noise alone shows {write(number.noise_floor)}")
    elif not math.isnan(number.low):
        lines.append(words.interval(number.low, number.high, write))
    return lines


def score(document: Document) -> Safe:
    """The section on the score; further scores of the same audit, classes for instance, are folded away."""
    pairs = [tag("div", _figures(result, document.level), class_="pair") for result in document.of("score")]
    further = [folded(result.name, pair) for result, pair in zip(document.of("score")[1:], pairs[1:], strict=True)]
    return section("score", "Along the score", pairs[:1], further, _numbers(document))


def _figures(result: Entry, level: float) -> list[Safe]:
    bins = f"Each dot is one of {len(result.cells)} bins of the score. {prose('score')['reliability']}"
    made = [figure(reliability(result, level), bins)]
    return made if result.walk is None else [*made, figure(cumulative(result.walk), prose("score")["walk"])]


def number_rows(document: Document) -> list[tuple[str, str, list[str]]]:
    """Label, meaning and cells of every number of the score that is known."""
    return [
        (label, meaning, [
            write(number.value), write(number.noise_floor),
            words.interval(number.low, number.high, write) or words.NOTHING,
            words.p_cell(number.p_value, number.least),
        ])
        for key, (label, write, meaning) in NUMBERS.items()
        if (number := document.measure(key)).known
    ]  # fmt: skip


def _numbers(document: Document) -> Safe:
    rows = [
        tag("tr", tag("th", label, tag("small", meaning), scope="row"), map(_cell, cells, HEADINGS[1:]))
        for label, meaning, cells in number_rows(document)
    ]
    if not rows:
        return Safe("")
    head = [tag("th", word, scope="col", class_="number" if word != "Number" else None) for word in HEADINGS]
    table = tag(
        "table",
        tag("caption", "The whole model in numbers"),
        tag("thead", tag("tr", head)),
        tag("tbody", rows, data_fold=4),
    )
    return tag("div", tag("div", table, class_="scroller"), class_="sheet-block")


def _cell(text: str, label: str) -> Safe:
    emphasis = " strong" if label == "Value" else " none" if text == words.NOTHING else ""
    return tag("td", text, class_=f"number{emphasis}", data_label=label)

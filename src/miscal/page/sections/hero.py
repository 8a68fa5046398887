"""The top of the page: what was audited, the verdict, and the numbers that carry it."""

from __future__ import annotations

import math
from collections.abc import Callable

from miscal.auditing.findings import Finding
from miscal.page import words
from miscal.page.figures.gaps import gap_card
from miscal.page.markup import Safe, name, tag
from miscal.page.records import Document, Measure
from miscal.page.sections.repair import repair_sentence
from miscal.page.verdict import verdict

#: Number of the score, label, how to write it, what it means, and the value that is right.
_TILES: tuple[tuple[str, str, Callable[[object], str], str, float], ...] = (
    ("expected", "Average error along the score", words.percent, "share-weighted mean of |gap|", 0.0),
    ("kuiper", "Kuiper range", words.percent, "largest error over any stretch of scores", 0.0),
    ("ratio", "Predicted / happened", words.number, "1 is right", 1.0),
    ("slope", "Slope", words.number, "1 is right; below 1, scores are too extreme", 1.0),
)


def header(document: Document) -> Safe:
    """The masthead: what was audited."""
    facts = [tag("span", f"{words.count(document.rows)} rows")]
    if document.outcome:
        facts.append(tag("span", "outcome ", tag("b", name(document.outcome, 40))))
    if document.probabilities:
        listed = tag("b", name(", ".join(document.probabilities), 60))
        facts.append(tag("span", "probability ", listed, ", repaired" if document.repaired else None))
    if any(score.settings.get("target") == "top" for score in document.of("score")[:1]):
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
    said = verdict(document)
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
            _repaired(document),
        ),
        tag("figure", drawn.svg, tag("figcaption", "All rows together")) if drawn.svg else None,
        class_="hero",
        aria_labelledby="verdict",
    )


def _repaired(document: Document) -> Safe | None:
    """What became of it, on the page of a repair, with the way there."""
    if document.repaired is None:
        return None
    return tag("p", tag("a", "The repair", href="#repair"), ": ", repair_sentence(document.repaired))


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
        for key, label, write, meaning, right in _TILES
        if (number := document.measure(key)).known
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

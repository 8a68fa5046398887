"""The top of the page: what was audited, the verdict, and the numbers that carry it."""

from __future__ import annotations

import math
from collections.abc import Callable

from miscal.auditing.measures import Measure, averages, level, measure
from miscal.page import figures, words
from miscal.page.markup import Safe, name, tag
from miscal.page.reading import Document, items, mapping
from miscal.page.sections.repair import repair_sentence
from miscal.page.verdict import repaired, verdict

Writer = Callable[[object], str]


def header(document: Document) -> Safe:
    """The masthead: what was audited."""
    data = mapping(document.get("data"))
    facts = [tag("span", f"{words.count(data.get('rows'))} rows")]
    if data.get("outcome") is not None:
        facts.append(tag("span", "outcome ", tag("b", name(data["outcome"], 40))))
    if data.get("probability") is not None:
        listed = tag("b", name(_listed(data["probability"]), 60))
        facts.append(tag("span", "probability ", listed, ", repaired" if repaired(document) else None))
    if _target(document) == "top":
        facts.append(tag("span", "compared: confidence in the predicted class with being right"))
    return tag(
        "header",
        tag("p", "Calibration repair" if repaired(document) else "Calibration audit", class_="brand"),
        tag("p", name(data["source"], 60), class_="source") if data.get("source") else None,
        tag("p", facts, class_="facts"),
        class_="masthead",
    )


def _target(document: Document) -> str:
    """What is compared, as the first score result resolved it."""
    results = items(mapping(document.get("sections")).get("score"))
    return str(mapping(mapping(results[0]).get("settings")).get("target")) if results else ""


def _listed(value: object) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, (list, tuple)) else str(value)


def hero(document: Document) -> Safe:
    """The verdict with its support and a drawing of the two averages."""
    said = verdict(document)
    predicted, observed, gap = averages(document)
    drawn = figures.gap_card(
        {"where": "All rows", "predicted": predicted, "observed": observed, "interval": [gap.low, gap.high]}
    )
    return tag(
        "section",
        tag(
            "div",
            tag("h1", _in_two_lines(said.sentence), id="verdict", class_=said.direction),
            [tag("p", sentence) for sentence in said.support],
            _repaired(document),
        ),
        tag("figure", drawn.svg, tag("figcaption", "All rows together")) if drawn.svg else None,
        class_="hero",
        aria_labelledby="verdict",
    )


def _repaired(document: Document) -> Safe | None:
    """What became of it, on the page of a repair, with the way there."""
    if "repaired_by" not in document:
        return None
    places = [mapping(place) for place in items(document.get("repair"))]
    said = repair_sentence(mapping(document.get("repaired_by")), places)
    return tag("p", tag("a", "The repair", href="#repair"), ": ", said)


def _in_two_lines(sentence: str) -> list[Safe]:
    """The judgement and the numbers on lines of their own, the numbers lighter."""
    said, colon, numbers = sentence.partition(": ")
    return (
        [tag("span", said + colon.strip()), tag("span", " ", numbers, class_="rates")]
        if numbers
        else [tag("span", said)]
    )


def key_numbers(document: Document) -> Safe:
    """Four numbers, each with what noise alone would show, in words."""
    score, alpha = mapping(document.get("score")), level(document)
    tiles = [
        _tile(
            "Average error along the score",
            measure(score, "expected"),
            alpha,
            words.percent,
            "share-weighted mean of |gap|",
        ),
        _tile(
            "Kuiper range", measure(score, "kuiper"), alpha, words.percent, "largest error over any stretch of scores"
        ),
        _tile("Predicted / happened", measure(score, "ratio"), alpha, words.number, "1 is right", right=1.0),
        _tile(
            "Slope",
            measure(score, "slope"),
            alpha,
            words.number,
            "1 is right; below 1, scores are too extreme",
            right=1.0,
        ),
    ]
    shown = [tile for tile in tiles if tile]
    return tag("dl", shown, class_="tiles") if shown else Safe("")


def _tile(label: str, number: Measure, alpha: float, write: Writer, meaning: str, right: float | None = None) -> Safe:
    if not number.known:
        return Safe("")
    return tag(
        "div",
        tag("dt", label),
        tag("dd", write(number.value), class_="big"),
        [tag("dd", line, class_="judged") for line in _judgement(number, alpha, write, right)],
        tag("dd", meaning, class_="quiet"),
    )


def _judgement(number: Measure, alpha: float, write: Writer, right: float | None) -> list[str]:
    """Whether it is beyond noise, then what noise alone would show, or the interval."""
    lines: list[str] = []
    if not math.isnan(number.p_value) or not math.isnan(number.low):
        lines.append("Beyond noise" if number.beyond(alpha, right or 0.0) else "Within noise")
    if not math.isnan(number.noise_floor):
        lines.append(f"noise alone shows {write(number.noise_floor)}")
    elif not math.isnan(number.low):
        lines.append(words.interval(number.low, number.high, write))
    return lines

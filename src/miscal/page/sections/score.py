"""The whole model: what was audited, the verdict, the numbers that carry it, and the score in figures and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from miscal.auditing.findings import Finding
from miscal.page import words
from miscal.page.gap_figures import gap_card
from miscal.page.markup import Safe, clean, ellipsis, name, prose, tag
from miscal.page.records import Document, Measure
from miscal.page.sections.blocks import folded, section
from miscal.page.sections.columns import figures
from miscal.page.sections.repair import repair_sentence

#: What every number of the score is called, how it is written and what it means.
NUMBERS = {key: (label, getattr(words, write), meaning) for key, (label, write, meaning) in prose("numbers").items()}
HEADINGS = ("Number", "Value", "Noise alone", "95% interval", "p-value")
_TILES = {"expected": 0.0, "kuiper": 0.0, "ratio": 1.0, "slope": 1.0}  # shown first, each with the value that is right
LONGEST = 80  # characters of a place that the verdict names
COARSE = 0.05  # half the width of the gap's interval from which "no error" must not be read as "right"
MINOR = 0.4  # share of the error along the score from which the average's own error is what to say first
# What is compared, by whether it is the confidence in the class predicted.
WORDS = {False: ("Predictions are", "predicted", "happened"),
         True: ("The top class's confidence is", "mean confidence", "right")}  # fmt: skip
Direction = Literal["over", "under", "places", "shape", "none", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """What the page says first: the direction of the error, the sentence, the support."""

    direction: Direction
    sentence: str
    support: tuple[str, ...]


def verdict(document: Document) -> Verdict:
    """Put the audit in one sentence, which says so if it is one of repaired probabilities.

    Examples
    --------
    >>> from miscal.page.records import read_document
    >>> score = {"predicted": 0.241, "observed": 0.269, "gap": {"value": -0.028, "p_value": 0.0001}}
    >>> verdict(read_document({"schema": "miscal.audit/1", "score": score})).sentence
    'Predictions are too low: 24.1% predicted, 26.9% happened.'
    """
    said = _verdict(document)
    if document.repaired is None:
        return said
    return replace(said, sentence=f"After the repair, {said.sentence[0].lower()}{said.sentence[1:]}")


def _verdict(document: Document) -> Verdict:
    predicted, observed, gap = document.averages
    what, predicted_as, happened = WORDS[document.top]
    rates = f"{words.percent(predicted)} {predicted_as}, {words.percent(observed)} {happened}"
    support = tuple(said for said in (_size(document), _places(document), _left_over(document)) if said)
    if math.isnan(predicted) or math.isnan(observed):
        return Verdict("unknown", "There is no number to judge the predictions by.", support)
    beyond, shape = gap.beyond(document.level), _shape(document)
    # Whether the whole table is a finding among all tests; true where nothing says what was tested.
    off = "tests" not in document.settings or any(finding.whole for finding in document.findings)
    if beyond and off:
        # Where the average is off far less than the scores are, that is said first.
        if shape and abs(gap.value) < MINOR * document.measure("expected").value:
            return Verdict("shape", _capital(f"{shape}{_by(document)}: {rates} overall."), support)
        way: Direction = "over" if gap.value > 0 else "under"
        return Verdict(way, f"{what} too {'high' if way == 'over' else 'low'}: {rates}.", support)
    places = [finding for finding in document.findings if finding.kind != "score"]
    average = "" if beyond else "Within noise on average, "
    if places:
        opening = f"{average}wrong in {_most(places, predicted_as, happened)}: {rates} overall."
        return Verdict("places", _capital(opening), support)
    ends = [_of_those(finding) for finding in document.findings if finding.kind == "score" and not finding.whole]
    wrong = "; ".join([*([f"{shape}{_by(document)}"] if shape else []), *ends])
    if wrong:
        opening = _capital(f"{average and f'{average}but '}{wrong}")
        return Verdict("shape" if shape else "places", f"{opening}: {rates} overall.", support)
    return Verdict("none", f"No error beyond noise: {rates}.", (*_unknown(gap), *support))


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _by(document: Document) -> str:
    """How far off the scores are."""
    expected = document.measure("expected")
    return f", off by {words.percent(expected.value)} on average along the score" if expected.known else ""


def _most(places: list[Finding], predicted_as: str, happened: str) -> str:
    """How many places there are, and the rates of the first."""
    worst = places[0]
    first = ellipsis(clean(worst.where), LONGEST)
    many = "one place" if len(places) == 1 else words.plural(len(places), "place")
    if not first:
        return many
    if not math.isnan(worst.predicted):
        rates = words.percent(worst.predicted), words.percent(worst.observed)
        first += f" ({rates[0]} {predicted_as}, {rates[1]} {happened})"
    return f"{many}, {'most in ' if len(places) > 1 else ''}{first}"


def _of_those(place: Finding) -> str:
    """Rows at an end of the scale, or their weight: how many, what was said, how many of them happened."""
    said = place.where.removeprefix("rows said ")
    happened = words.count(place.observed * place.weight)
    return f"{words.count(place.weight)} rows said {said}, {happened} happened"


def _unknown(gap: Measure) -> tuple[str, ...]:
    """Where nothing is beyond noise because the rows are few: how far off the average may still be."""
    if words.means() or not gap.high - gap.low > 2 * COARSE:
        return ()
    spread = words.interval(gap.low, gap.high, words.points)
    return (f"The rows are too few to say much: the gap over all of them may be anything from {spread}.",)


def _shape(document: Document) -> str:
    """How the scores are wrong, their average apart; empty when they are not."""
    if not any(document.measure(name).beyond(document.level) for name in ("kuiper", "expected", "smooth")):
        return ""
    slope = document.measure("slope")
    if slope.high < 1:
        return "the scores are too extreme"
    if slope.low > 1:
        return "the scores are not extreme enough"
    return "wrong at some scores"


def _size(document: Document) -> str:
    expected = document.measure("expected")
    if not expected.known:
        return ""
    text = f"Along the score the predictions are off by {words.percent(expected.value)} on average"
    if document.repaired is not None and "expected" in document.repaired.score:
        text += f" (before the repair by {words.percent(document.repaired.score['expected'][0])})"
    if math.isnan(expected.noise_floor):
        return text + "."
    return text + f"; noise alone would show {words.percent(expected.noise_floor)} on these rows."


def _places(document: Document) -> str:
    heads, others = document.findings, document.explained
    if not document.real:
        return "No place that was looked at is off beyond noise."
    specific = sum(finding.specific for finding in heads)
    text = f"{words.plural(len(heads), 'place is', 'places are')} off beyond noise"
    if 0 < specific < len(heads):
        text += f", {specific:,} of them not explained by the score alone"
    return f"{text}; {words.plural(others, 'other is', 'others are')} explained by them." if others else f"{text}."


def _left_over(document: Document) -> str:
    clean, small = len(document.clean), len(document.too_small)
    parts = [f"{words.plural(clean, 'column was', 'columns were')} tested and clean"] if clean else []
    parts += [f"{words.plural(small, 'place was', 'places were')} set aside or too small to judge"] if small else []
    return "; ".join(parts) + "." if parts else ""


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
    pairs = [tag("div", figures(result, document.level), class_="pair") for result in document.of("score")]
    further = [folded(result.name, pair) for result, pair in zip(document.of("score")[1:], pairs[1:], strict=True)]
    return section("score", "Along the score", pairs[:1], further, _numbers(document))


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

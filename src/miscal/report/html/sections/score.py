"""The whole model: what was audited, the verdict, the numbers that carry it, and the score in figures and numbers."""

import math
from typing import NamedTuple

from miscal.report import wording
from miscal.report.findings import Finding
from miscal.report.html.gap_figures import gap_card
from miscal.report.html.markup import Safe, ellipsis, name, prose, tag
from miscal.report.html.sections.blocks import TableColumn, folded, section, sheet
from miscal.report.html.sections.columns import figures
from miscal.report.html.sections.repair import repair_sentence
from miscal.report.model import AuditReport, Measure
from miscal.report.values import text

#: What every number of the score is called, how it is written and what it means.
NUMBERS = {
    key: (label, getattr(wording, write), meaning)
    for key, (label, write, meaning) in prose("numbers").items()
}
_ALONG = ("expected", "kuiper", "smooth")  # by which scores are wrong beside their average
# Shown first, each with the value that is right.
_TILES = {"expected": 0.0, "kuiper": 0.0, "ratio": 1.0, "slope": 1.0}
LONGEST = 80  # characters of a place that the verdict names
COARSE = 0.05  # half the width of the gap's interval from which "no error" must not be read as "right"
MINOR = 0.4  # share of the error along the score from which the average's own error is what to say first
# What is compared, by whether it is the confidence in the class predicted.
WORDS = {
    False: ("predictions are", "predicted", "happened"),
    True: ("the top class's confidence is", "mean confidence", "right"),
}


class Verdict(NamedTuple):
    """What the page says first: the error's direction (over, under, places, shape, none or unknown), and sentences."""

    direction: str
    sentence: str
    support: tuple[str, ...]


def verdict(document: AuditReport) -> Verdict:
    """Put the audit in one sentence, which says so if it is one of repaired probabilities.

    Examples
    --------
    >>> from miscal.report.codec import report_from
    >>> score = {"predicted": 0.241, "observed": 0.269, "gap": {"value": -0.028, "p_value": 0.0001}}
    >>> verdict(report_from({"schema": "miscal.audit/1", "score": score})).sentence
    'Predictions are too low: 24.1% predicted, 26.9% happened.'
    """
    direction, said = _judged(document)
    said = f"after the repair, {said}" if document.repaired else said
    telling = [_unsure] * (direction == "none") + [_size, _not_among_all, _places, _left_over]
    support = tuple(filter(None, (tell(document) for tell in telling)))
    return Verdict(direction, f"{said[0].upper()}{said[1:]}", support)


def _judged(document: AuditReport) -> tuple[str, str]:
    """The direction of the error and the sentence, in the middle of one."""
    predicted, observed, gap = document.averages
    if math.isnan(predicted) or math.isnan(observed):
        return "unknown", "there is no number to judge the predictions by."
    what, predicted_as, happened = WORDS[document.top]
    rates = f"{wording.percent(predicted)} {predicted_as}, {wording.percent(observed)} {happened}"
    beyond, shape = gap.significant(document.level), _shape(document)
    if beyond and document.whole is not False:
        # Where the average is off far less than the scores are, that is said first.
        if shape and abs(predicted - observed) < MINOR * document.measure("expected").value:
            return "shape", f"{shape}: {rates} overall."
        if predicted > observed:
            return "over", f"{what} too high: {rates}."
        return "under", f"{what} too low: {rates}."
    places = document.places
    average = "" if beyond else "within noise on average, "
    many = wording.plural(len(places), "place") if len(places) > 1 else "one place"
    if shape:
        also = f", and wrong in {many}" if places else ""
        return "shape", f"{average and f'{average}but '}{shape}{also}: {rates} overall."
    if places:
        worst = _named(places[0], predicted_as, happened)
        most = "most in " if len(places) > 1 else ""
        return "places", f"{average}wrong in {many}, {most}{worst}: {rates} overall."
    return "none", f"no error beyond noise: {rates}."


def _named(worst: Finding, predicted_as: str, happened: str) -> str:
    """A place with its rates, or its form; rows at an end of the scale by how many there are and how many happened."""
    if worst.kind == "score" and not worst.whole:
        events = wording.count(worst.observed * worst.weight)
        return f"{wording.rows(worst.weight)} {worst.where.removeprefix('rows ')}, {events} {happened}"
    rates = f"{wording.percent(worst.predicted)} {predicted_as}, {wording.percent(worst.observed)} {happened}"
    said = worst.form if worst.score_ranges else "" if math.isnan(worst.predicted) else rates
    return f"{ellipsis(worst.where, LONGEST)} ({said})".removesuffix(" ()")


def _unsure(document: AuditReport) -> str:
    """Where nothing is beyond noise because the rows are few: how far off the average may still be."""
    gap = document.averages[2]
    if wording.means() or not gap.high - gap.low > 2 * COARSE:
        return ""
    spread = wording.interval(gap.low, gap.high, wording.points)
    return f"The rows are too few to say much: the gap over all of them may be anything from {spread}."


def _shape(document: AuditReport) -> str:
    """How the scores are wrong, their average apart, and how far off they are; empty when they are not.

    A number that is beyond noise by itself is no error where the whole table is within it among all tests.
    """
    if document.whole is False or not (document.whole or _alone(document)):
        return ""
    slope, expected = document.measure("slope"), document.measure("expected")
    way = "wrong at some scores"
    if slope.high < 1 or slope.low > 1:
        way = f"the scores are {'too extreme' if slope.high < 1 else 'not extreme enough'}"
    return (
        f"{way}, off by {wording.percent(expected.value)} on average along the score"
        if expected.known
        else way
    )


def _alone(document: AuditReport) -> list[str]:
    """The numbers along the score that are beyond noise by themselves, by name."""
    return [NUMBERS[key][0] for key in _ALONG if document.measure(key).significant(document.level)]


def _not_among_all(document: AuditReport) -> str:
    """Which numbers would be beyond noise had nothing else been tested."""
    found = ", ".join(_alone(document)) if document.quiet else ""
    return found and f"Beyond noise taken alone, but not among all tests of this audit: {found}."


def _size(document: AuditReport) -> str:
    expected = document.measure("expected")
    if not expected.known:
        return ""
    said = f"Along the score the predictions are off by {wording.percent(expected.value)} on average"
    if document.repaired is not None and "expected" in document.repaired.score:
        said += f" (before the repair by {wording.percent(document.repaired.score['expected'][0])})"
    noise = f"; noise alone would show {wording.percent(expected.noise_floor)} on these rows"
    return f"{said}{'' if math.isnan(expected.noise_floor) else noise}."


def _places(document: AuditReport) -> str:
    heads, others, places = document.findings, document.explained, document.places
    if not heads:
        return "No place that was looked at is off beyond noise."
    specific, them = sum(finding.specific for finding in heads), "them" if len(heads) > 1 else "it"
    found = ["The whole table"] * (len(heads) > len(places)) + [wording.plural(len(places), "place")] * any(
        places
    )
    said = f"{' and '.join(found)} {'are' if len(heads) > 1 else 'is'} off beyond noise"
    if 0 < specific < len(heads):
        said += f", {specific:,} of them not explained by the score alone"
    if others:
        said += f"; {wording.plural(others, 'other place is', 'other places are')} explained by {them}"
    return f"{said}."


def _left_over(document: AuditReport) -> str:
    clean, small = document.clean.rows, document.too_small.rows
    parts = [f"{wording.plural(clean, 'column was', 'columns were')} tested and clean"] if clean else []
    if small:
        parts.append(f"{wording.plural(small, 'place was', 'places were')} set aside or too small to judge")
    return "; ".join(parts) + "." if parts else ""


def header(document: AuditReport) -> Safe:
    """The masthead: what was audited."""
    role = f"{'repaired ' if document.repaired else ''}{'prediction' if document.response else 'probability'}"
    named = {"outcome": document.outcome, role: ", ".join(document.probabilities)}
    named["a unit of exposure"] = text(document.data.get("exposure"))
    facts = [  # a column that is named as its role is said once
        tag("span", f"{what.removesuffix(column)} ", tag("b", name(column, 60)))
        for what, column in named.items()
        if column
    ]
    if document.top:
        facts.append(tag("span", "compared: confidence in the predicted class with being right"))
    return tag(
        "header",
        tag("p", "Calibration repair" if document.repaired else "Calibration audit", class_="brand"),
        tag("p", name(document.source, 60), class_="source") if document.source else None,
        tag("p", tag("span", wording.rows(document.rows)), facts, class_="facts"),
        class_="masthead",
    )


def hero(document: AuditReport) -> Safe:
    """The verdict with its support and a drawing of the two averages."""
    said, done = verdict(document), document.repaired
    predicted, observed, gap = document.averages
    whole = {"where": "All rows", "predicted": predicted, "observed": observed}
    drawn = gap_card(Finding.from_dict(whole | {"interval": [gap.low, gap.high]}))
    judged, colon, numbers = said.sentence.partition(": ")
    first = tag("span", name(judged + colon.strip(), 240))
    lighter = tag("span", " ", numbers, class_="rates") if numbers else None
    return tag(
        "section",
        tag(
            "div",
            tag("h1", first, lighter, id="verdict", class_=said.direction),
            [tag("p", sentence) for sentence in said.support],
            tag("p", tag("a", "The repair", href="#repair"), ": ", repair_sentence(done)) if done else None,
        ),
        tag("figure", drawn.svg, tag("figcaption", "All rows together")) if drawn.svg else None,
        class_="hero",
        aria_labelledby="verdict",
    )


def key_numbers(document: AuditReport) -> Safe:
    """Four numbers, each with what noise alone would show, in words."""
    known = {key: document.measure(key) for key in _TILES if document.measure(key).known}
    tiles = [_tile(key, number, document) for key, number in known.items()]
    return tag("dl", tiles, class_="tiles") if tiles else Safe("")


def _tile(key: str, number: Measure, document: AuditReport) -> Safe:
    """A number; whether it is beyond noise, then what noise alone would show, or the interval."""
    label, write, meaning = NUMBERS[key]
    lines: list[str] = []
    if not math.isnan(number.p_value) or not math.isnan(number.low):
        off = "Beyond noise taken alone" if document.quiet else "Beyond noise"
        lines.append(off if number.significant(document.level, _TILES[key]) else "Within noise")
    if not math.isnan(number.noise_floor):
        lines.append(f"noise alone shows {write(number.noise_floor)}")
    elif not math.isnan(number.low):
        lines.append(wording.interval(number.low, number.high, write))
    return tag(
        "div",
        tag("dt", label),
        tag("dd", write(number.value), class_="big"),
        [tag("dd", line, class_="judged") for line in lines],
        tag("dd", meaning, class_="quiet"),
    )


def score(document: AuditReport) -> Safe:
    """The section on the score; further scores of the same audit, classes for instance, are folded away."""
    pairs = [(each.name, tag("div", figures(each), class_="pair")) for each in document.of("score")]
    numbers = sheet("The whole model in numbers", number_columns(document), still=True)
    shown = [folded(name, pair) if place else pair for place, (name, pair) in enumerate(pairs)]
    return section("score", "Along the score", shown, numbers)


def number_columns(document: AuditReport) -> list[TableColumn]:
    """Every number of the score that is known, with what judges it."""
    rows = []
    for key, (label, write, meaning) in NUMBERS.items():
        number = document.measure(key)
        if number.known:
            interval = wording.interval(number.low, number.high, write) or wording.NOTHING
            said = write(number.value), write(number.noise_floor), interval
            rows.append((label, meaning, *said, number.p_value, number.least))
    labels, meanings, values, noise, intervals, p, least = zip(*rows, strict=True) if rows else [()] * 7
    return [
        TableColumn("Number", labels, "name", small=meanings),
        TableColumn("Value", values, str),
        TableColumn("Noise alone", noise, str),
        TableColumn("95% interval", intervals, str),
        TableColumn("p-value", p, least=least),
    ]

"""The whole model: what was audited, the verdict, its key numbers, and calibration by score in figures and numbers."""

import math
from enum import StrEnum
from typing import NamedTuple

from miscal.report import wording
from miscal.report.findings import Finding
from miscal.report.html.gap_figures import gap_card
from miscal.report.html.markup import Safe, ellipsis, name, phrase, prose, tag
from miscal.report.html.sections.blocks import TableColumn, folded, section, sheet
from miscal.report.html.sections.columns import figures
from miscal.report.html.sections.repair import repair_sentence
from miscal.report.model import AuditReport, Measure
from miscal.report.values import text

#: Numbers that are written as errors, others as plain numbers.
_ERRORS = {"expected", "maximum", "smooth", "kuiper", "integrated"}
#: Every number of the score: its name, how it is written, what it means.
NUMBERS = {
    key: (label, wording.error if key in _ERRORS else wording.number, meaning)
    for key, (label, meaning) in prose("numbers").items()
}
_ERRORS_BY_SCORE = ("expected", "kuiper", "smooth")
#: The key numbers, each with its value for a calibrated model.
_KEY_NUMBERS = {"expected": 0.0, "kuiper": 0.0, "observed_over_expected": 1.0, "slope": 1.0}
LONGEST = 80  # characters of a segment that the headline names
WIDE_HALF_WIDTH = 0.05  # of the gap's interval, from which the verdict is said to be inconclusive
MINOR = 0.4  # share of the expected calibration error below which the overall gap is not the headline


class RateLabels(NamedTuple):
    """What the two rates over all rows are called.

    Attributes
    ----------
    subject : str
        Subject and verb of "too high".
    predicted, observed : str
        What stands after each of the two rates.
    counted : str
        What stands after a number of events.
    """

    subject: str
    predicted: str
    observed: str
    counted: str


#: By whether the confidence in the predicted class is compared with being correct.
RATE_LABELS = {
    False: RateLabels("predictions are", "predicted", "observed", "events observed"),
    True: RateLabels("the top class's confidence is", "mean confidence", "correct", "correct"),
}


class Direction(StrEnum):
    """What the headline is about; its value is also the class by which the style sheet colours the headline."""

    OVER = "over"
    UNDER = "under"
    SEGMENTS = "segments"
    SHAPE = "shape"
    NONE = "none"
    UNKNOWN = "unknown"


class Verdict(NamedTuple):
    """What report, Markdown and terminal show first.

    Attributes
    ----------
    direction : Direction
        What the headline is about.
    headline : str
        The verdict in a few words, without a full stop.
    rates : str
        Predicted and observed over all rows; empty where they are not known.
    support : tuple of str
        Sentences of size: calibration error, number of segments, what was tested without a significant gap.
    """

    direction: Direction
    headline: str
    rates: str
    support: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Headline and rates in one sentence."""
        return f"{self.headline}: {self.rates}." if self.rates else f"{self.headline}."


def verdict(document: AuditReport) -> Verdict:
    """Sum up the audit in a headline, the rates over all rows, and sentences that support it.

    Examples
    --------
    >>> from miscal.report.codec import report_from
    >>> score = {"predicted": 0.241, "observed": 0.269, "gap": {"value": -0.028, "p_value": 0.0001}}
    >>> verdict(report_from({"schema": "miscal.audit/1", "score": score})).sentence
    'Predictions are too low: 24.1% predicted, 26.9% observed.'
    """
    direction, headline, rates = _headline(document)
    headline = phrase("verdict", "recalibrated", rest=headline) if document.repaired else headline
    sentences = [
        _inconclusive(document) if direction is Direction.NONE else "",
        _expected_error(document),
        _significant_before_correction(document),
        _segment_counts(document),
        _not_significant_counts(document),
    ]
    return Verdict(direction, f"{headline[0].upper()}{headline[1:]}", rates, tuple(filter(None, sentences)))


def _headline(document: AuditReport) -> tuple[Direction, str, str]:
    """The direction, the headline as it stands within a sentence, and the rates over all rows."""
    predicted, observed, gap = document.averages
    if math.isnan(predicted) or math.isnan(observed):
        return Direction.UNKNOWN, phrase("verdict", "unknown"), ""
    labels = RATE_LABELS[document.top]
    rates = f"{wording.percent(predicted)} {labels.predicted}, {wording.percent(observed)} {labels.observed}"
    gap_is_significant, shape = gap.significant(document.level), _shape(document)
    if gap_is_significant and document.whole is not False:
        # Where the overall gap is much smaller than the error by score, the shape comes first.
        if shape and abs(predicted - observed) < MINOR * document.measure("expected").value:
            return Direction.SHAPE, shape, f"{rates} overall"
        direction = Direction.OVER if predicted > observed else Direction.UNDER
        return direction, phrase("verdict", direction, subject=labels.subject), rates
    direction, headline = Direction.NONE, phrase("verdict", "none")
    segments = document.places
    if shape:
        counted = wording.plural(len(segments), "miscalibrated segment")
        direction = Direction.SHAPE
        headline = phrase("verdict", "also", shape=shape, segments=counted) if segments else shape
    elif segments:
        direction, counted = Direction.SEGMENTS, wording.plural(len(segments), "segment")
        key = "segments" if len(segments) > 1 else "one_segment"
        headline = phrase("verdict", key, segments=counted, worst=_named(segments[0], labels))
    if direction is Direction.NONE:
        return direction, headline, rates
    headline = headline if gap_is_significant else phrase("verdict", "no_gap", rest=headline)
    return direction, headline, f"{rates} overall"


def _named(worst: Finding, labels: RateLabels) -> str:
    """A segment with its form or its rates; rows at an end of the scale with their number and their events."""
    if worst.kind == "score" and not worst.whole:
        events = wording.count(worst.observed * worst.weight)
        return f"{wording.rows(worst.weight)} {worst.where.removeprefix('rows ')}, {events} {labels.counted}"
    where = ellipsis(worst.where, LONGEST)
    if worst.score_ranges and worst.form:
        return f"{where} ({worst.form})"
    if worst.score_ranges or math.isnan(worst.predicted):
        return where
    predicted, observed = wording.percent(worst.predicted), wording.percent(worst.observed)
    return f"{where} ({predicted} {labels.predicted}, {observed} {labels.observed})"


def _inconclusive(document: AuditReport) -> str:
    """Where nothing is significant because the rows are few: how large the overall gap may still be."""
    gap = document.averages[2]
    if wording.means() or not gap.high - gap.low > 2 * WIDE_HALF_WIDTH:
        return ""
    return phrase("verdict", "wide", interval=wording.interval(gap.low, gap.high, wording.points))


def _shape(document: AuditReport) -> str:
    """How the scores are miscalibrated, apart from their average, and by how much; empty where they are not.

    A number that is significant before correction is no error where the whole table is not significant among all tests.
    """
    if document.whole is False or not (document.whole or _significant_numbers(document)):
        return ""
    slope, expected = document.measure("slope"), document.measure("expected")
    key = "too_extreme" if slope.high < 1 else "too_moderate" if slope.low > 1 else "some_scores"
    shape = phrase("verdict", key)
    if not expected.known:
        return shape
    return phrase("verdict", "expected", shape=shape, expected=wording.error(expected.value))


def _significant_numbers(document: AuditReport) -> list[str]:
    """The names of the calibration errors by score that are significant before correction."""
    return [NUMBERS[key][0] for key in _ERRORS_BY_SCORE if document.measure(key).significant(document.level)]


def _significant_before_correction(document: AuditReport) -> str:
    """Which numbers would be significant if nothing else had been tested."""
    names = ", ".join(_significant_numbers(document)) if document.quiet else ""
    return names and phrase("verdict", "uncorrected", numbers=names)


def _expected_error(document: AuditReport) -> str:
    """The expected calibration error, before recalibration too, and its value for a calibrated model."""
    expected, repaired = document.measure("expected"), document.repaired
    if not expected.known:
        return ""
    text = phrase("verdict", "expected_error", expected=wording.error(expected.value))
    if repaired is not None and "expected" in repaired.score:
        text += phrase("verdict", "before", before=wording.error(repaired.score["expected"][0]))
    if not math.isnan(expected.noise_floor):
        text += phrase("verdict", "floor", floor=wording.error(expected.noise_floor))
    return f"{text}."


def _segment_counts(document: AuditReport) -> str:
    """How many segments are significant, how many remain after global recalibration, how many they explain."""
    heads, segments, n_explained = document.findings, document.places, document.explained
    if not heads:
        return phrase("verdict", "no_segments")
    subjects = ["the whole table"] * (len(heads) > len(segments))
    subjects += [wording.plural(len(segments), "segment")] * bool(segments)
    subject = f"{' and '.join(subjects)} {'are' if len(heads) > 1 else 'is'}"
    text = phrase("verdict", "significant", subject=f"{subject[0].upper()}{subject[1:]}")
    n_specific = sum(finding.specific for finding in heads)
    if 0 < n_specific < len(heads):
        text += phrase("verdict", "specific", n=f"{n_specific:,}")
    if n_explained:
        others = wording.plural(n_explained, "overlapping segment is", "overlapping segments are")
        these = "these are" if len(heads) > 1 else "it is"
        text += phrase("verdict", "overlapping", others=others, these=these)
    return f"{text}."


def _not_significant_counts(document: AuditReport) -> str:
    """How many columns have no significant gap, and how many segments could not be tested."""
    n_clean, n_small = document.clean.rows, document.too_small.rows
    parts = []
    if n_clean:
        parts.append(phrase("verdict", "clean", columns=wording.plural(n_clean, "column")))
    if n_small:
        parts.append(phrase("verdict", "small", segments=wording.plural(n_small, "segment")))
    return "; ".join(parts) + "." if parts else ""


def header(document: AuditReport) -> Safe:
    """The masthead: what was audited."""
    role = f"{'recalibrated ' if document.repaired else ''}{'prediction' if document.response else 'probability'}"
    named = {"outcome": document.outcome, role: ", ".join(document.probabilities)}
    named["per unit of exposure"] = text(document.data.get("exposure"))
    facts = [  # a column named like its role is shown once
        tag("span", f"{what.removesuffix(column)} ", tag("b", name(column, 60)))
        for what, column in named.items()
        if column
    ]
    if document.top:
        facts.append(tag("span", "confidence in the predicted class, compared with accuracy"))
    return tag(
        "header",
        tag("p", "Recalibration report" if document.repaired else "Calibration audit", class_="brand"),
        tag("p", name(document.source, 60), class_="source") if document.source else None,
        tag("p", tag("span", wording.rows(document.rows)), facts, class_="facts"),
        class_="masthead",
    )


def hero(document: AuditReport) -> Safe:
    """The verdict with its support and a drawing of the two averages."""
    summary, done = verdict(document), document.repaired
    predicted, observed, gap = document.averages
    whole = {"where": "All rows", "predicted": predicted, "observed": observed}
    drawn = gap_card(Finding.from_dict(whole | {"interval": [gap.low, gap.high]}))
    first = tag("span", name(f"{summary.headline}:" if summary.rates else f"{summary.headline}.", 240))
    lighter = tag("span", f" {summary.rates}.", class_="rates") if summary.rates else None
    return tag(
        "section",
        tag(
            "div",
            tag("h1", first, lighter, id="verdict", class_=summary.direction),
            [tag("p", sentence) for sentence in summary.support],
            tag("p", tag("a", prose("links")["repair"], href="#repair"), ": ", repair_sentence(done))
            if done
            else None,
        ),
        tag("figure", drawn.svg, tag("figcaption", "All rows together")) if drawn.svg else None,
        class_="hero",
        aria_labelledby="verdict",
    )


def key_numbers(document: AuditReport) -> Safe:
    """Four key numbers, each with its value for a calibrated model."""
    known = {key: document.measure(key) for key in _KEY_NUMBERS if document.measure(key).known}
    tiles = [_tile(key, number, document) for key, number in known.items()]
    return tag("dl", tiles, class_="tiles") if tiles else Safe("")


def _tile(key: str, number: Measure, document: AuditReport) -> Safe:
    """A number; whether it is significant, then its value for a calibrated model or its interval."""
    label, write, meaning = NUMBERS[key]
    lines: list[str] = []
    if not math.isnan(number.p_value) or not math.isnan(number.low):
        significant = "Significant before correction" if document.quiet else "Significant"
        lines.append(
            significant if number.significant(document.level, _KEY_NUMBERS[key]) else "Not significant"
        )
    if not math.isnan(number.noise_floor):
        lines.append(f"{write(number.noise_floor)} expected for a calibrated model")
    elif not math.isnan(number.low):
        lines.append(f"95% CI {wording.interval(number.low, number.high, write)}")
    return tag(
        "div",
        tag("dt", label),
        tag("dd", write(number.value), class_="big"),
        [tag("dd", line, class_="judged") for line in lines],
        tag("dd", meaning, class_="quiet"),
    )


def score(document: AuditReport) -> Safe:
    """The section on the score; further scores of the same audit, classes for instance, are folded away."""
    drawn = [(result.name, tag("div", figures(result), class_="pair")) for result in document.of("score")]
    numbers = sheet("Overall metrics", number_columns(document), still=True)
    shown = [folded(title, pair) if position else pair for position, (title, pair) in enumerate(drawn)]
    return section("score", "Calibration by score", shown, numbers)


def number_columns(document: AuditReport) -> list[TableColumn]:
    """Every number of the score that is known, with its value for a calibrated model, interval and p-value."""
    rows = []
    for key, (label, write, meaning) in NUMBERS.items():
        number = document.measure(key)
        if number.known:
            interval = wording.interval(number.low, number.high, write) or wording.NOTHING
            cells = write(number.value), write(number.noise_floor), interval
            rows.append((label, meaning, *cells, number.p_value, number.least))
    labels, meanings, values, floors, intervals, p, least = zip(*rows, strict=True) if rows else [()] * 7
    return [
        TableColumn("Number", labels, "name", small=meanings),
        TableColumn("Value", values, str),
        TableColumn("Expected for a calibrated model", floors, str),
        TableColumn("95% CI", intervals, str),
        TableColumn("p-value", p, least=least),
    ]

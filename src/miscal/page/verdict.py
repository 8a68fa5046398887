"""The verdict: one plain sentence for a manager, and the two or three that support it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from miscal.auditing.measures import averages, level, measure
from miscal.page import words
from miscal.page.reading import Document, items, mapping
from miscal.page.words import finite

COARSE = 0.05  # half the width of the gap's interval from which "no error" must not be read as "right"
MINOR = 0.4  # share of the error along the score from which the average's own error is what to say first
Direction = Literal["over", "under", "places", "shape", "none", "unknown"]


@dataclass(frozen=True)
class Verdict:
    """What the page says first: the direction of the error, the sentence, the support."""

    direction: Direction
    sentence: str
    support: tuple[str, ...]


def real_findings(document: Document) -> list[Mapping[str, Any]]:
    """The findings that are beyond noise, in the audit's order, those explained by another one left out."""
    return [f for f in map(mapping, items(document.get("findings"))) if f.get("real", True) and not f.get("parent")]


def repaired(document: Document) -> bool:
    """Whether the audit is that of repaired probabilities."""
    return "repaired_by" in document


def verdict(document: Document) -> Verdict:
    """Put the audit in one sentence, which says so if it is one of repaired probabilities.

    Examples
    --------
    >>> score = {"predicted": 0.241, "observed": 0.269, "gap": {"value": -0.028, "p_value": 0.0001}}
    >>> verdict({"score": score}).sentence
    'Predictions are too low: 24.1% predicted, 26.9% happened.'
    """
    said = _verdict(document)
    if not repaired(document):
        return said
    return replace(said, sentence=f"After the repair, {said.sentence[0].lower()}{said.sentence[1:]}")


def _verdict(document: Document) -> Verdict:
    predicted, observed, gap = averages(document)
    rates = f"{words.percent(predicted)} predicted, {words.percent(observed)} happened"
    support = _support(document)
    if math.isnan(predicted) or math.isnan(observed):
        return Verdict("unknown", "There is no number to judge the predictions by.", support)
    alpha = level(document)
    if gap.beyond(alpha) and _score_is_off(document):
        shape = _mostly_shape(document, gap.value, alpha)
        if shape:
            return Verdict("shape", f"{shape[0].upper()}{shape[1:]}: {rates} overall.", support)
        way: Direction = "over" if gap.value > 0 else "under"
        return Verdict(way, f"Predictions are too {'high' if way == 'over' else 'low'}: {rates}.", support)
    places = [finding for finding in real_findings(document) if finding.get("kind") != "score"]
    if places:
        how_many = "one place" if len(places) == 1 else words.plural(len(places), "place")
        opening = f"Wrong in {how_many}" if gap.beyond(alpha) else f"Right on average, wrong in {how_many}"
        return Verdict("places", f"{opening}: {rates} overall.", support)
    shape = _shape(mapping(document.get("score")), alpha)
    if shape:
        return Verdict("shape", f"Right on average, but {shape}: {rates} overall.", support)
    return Verdict("none", f"No error beyond noise: {rates}.", (*_unknown(gap), *support))


def _unknown(gap: Any) -> tuple[str, ...]:
    """Where nothing is beyond noise because the rows are few: how far off the average may still be."""
    if not gap.high - gap.low > 2 * COARSE:
        return ()
    spread = f"{words.points(gap.low)} to {words.points(gap.high)}"
    return (f"The rows are too few to say much: the gap over all of them may be anything from {spread}.",)


def _mostly_shape(document: Document, gap: float, alpha: float) -> str:
    """How the scores are wrong where their average is off far less than they are; empty otherwise."""
    score = mapping(document.get("score"))
    expected = measure(score, "expected")
    return _shape(score, alpha) if abs(gap) < MINOR * expected.value else ""


def _score_is_off(document: Document) -> bool:
    """Whether the finding about all rows is beyond noise among all tests; true where an audit has none."""
    own = [f for f in map(mapping, items(document.get("findings"))) if f.get("kind") == "score"]
    return not own or any(f.get("real", True) for f in own)


def _shape(score: Mapping[str, Any], alpha: float) -> str:
    """How the scores are wrong when their average is right; empty when they are not."""
    if not any(measure(score, name).beyond(alpha) for name in ("kuiper", "expected", "smooth")):
        return ""
    slope = measure(score, "slope")
    if slope.high < 1:
        return "the scores are too extreme"
    if slope.low > 1:
        return "the scores are not extreme enough"
    return "wrong at some scores"


def _support(document: Document) -> tuple[str, ...]:
    sentences = [_size(document), _places(document), _left_over(document)]
    return tuple(sentence for sentence in sentences if sentence)


def _size(document: Document) -> str:
    score = mapping(document.get("score"))
    expected = measure(score, "expected")
    if not expected.known:
        return ""
    text = f"Along the score the predictions are off by {words.percent(expected.value)} on average"
    before = items(mapping(mapping(document.get("repaired_by")).get("score")).get("expected"))
    if len(before) == 2:
        text += f" (before the repair by {words.percent(before[0])})"
    if math.isnan(expected.noise_floor):
        return text + "."
    return text + f"; noise alone would show {words.percent(expected.noise_floor)} on these rows."


def explained(document: Document) -> int:
    """How many places the listed ones explain: those that they count, of which not every one need be listed."""
    every, heads = _real(document)
    counted = sum(int(finite(f.get("explains"))) for f in heads if f.get("explains"))
    return max(counted, len(every) - len(heads))


def _real(document: Document) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The findings beyond noise, and those of them that no other explains."""
    every = [f for f in map(mapping, items(document.get("findings"))) if f.get("real", True)]
    return every, [f for f in every if not f.get("parent")]


def _places(document: Document) -> str:
    every, heads = _real(document)
    specific = [f for f in heads if f.get("specific")]
    if not every:
        return "No place that was looked at is off beyond noise."
    text = f"{words.plural(len(heads), 'place is', 'places are')} off beyond noise"
    if specific and len(specific) < len(heads):
        text += f", {len(specific):,} of them not explained by the score alone"
    others = explained(document)
    return f"{text}; {words.plural(others, 'other is', 'others are')} explained by them." if others else f"{text}."


def _left_over(document: Document) -> str:
    clean, small = len(items(document.get("clean"))), len(items(document.get("too_small")))
    parts = [f"{words.plural(clean, 'column was', 'columns were')} tested and clean"] if clean else []
    if small:
        parts.append(f"{words.plural(small, 'place was', 'places were')} set aside or too small to judge")
    return "; ".join(parts) + "." if parts else ""

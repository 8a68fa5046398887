"""Kinds and forms of findings, reasons for what was excluded or not tested, notes, verdicts."""

from enum import StrEnum


class FindingKind(StrEnum):
    """The six notions of calibration, by which findings and results are told apart."""

    SCORE = "score"
    VARIABLE = "variable"
    FIELD = "field"
    VARIATION = "variation"
    NEIGHBOURHOOD = "neighbourhood"
    SUBPOPULATION = "subpopulation"


class Form(StrEnum):
    """How the predictions of a segment are wrong.

    On average (too high, too low), or along the score: two ranges of the score that disagree in opposite directions
    (too extreme: high scores too high and low ones too low; too moderate: the reverse), or otherwise (uneven).
    """

    TOO_HIGH = "too high"
    TOO_LOW = "too low"
    TOO_EXTREME = "too extreme"
    TOO_MODERATE = "too timid"
    UNEVEN = "uneven"

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

"""The words of `miscal.codes.audit`."""

from miscal.codes.audit import ExclusionReason, Note, NoteCode, Reason
from miscal.words import sentence, templates

templates(
    {
        NoteCode.LOG_LOSS_INFINITE: "The log loss is infinite: {rows}.",
        NoteCode.LOG_LOSS_INFINITE_BY_ROUNDING: (
            "The log loss is infinite: {rows}. The scores are rounded to {step:g}, which can explain it."
        ),
        NoteCode.NO_LOG_ODDS: (
            "Slope and intercept leave out {rows} with probability 0 or 1: the log-odds of 0 and 1 are infinite."
        ),
        NoteCode.SLOPE_BELOW_ZERO: (
            "The higher the score, the fewer events: the slope is significantly below 0. Is this the probability of "
            "the other class, or is the event the other label?"
        ),
        NoteCode.ONE_ROW_VARIANCE: (
            "One row ({predicted} predicted, {observed} observed) makes more than half of the variance of the whole "
            "table: no segment that holds it can be tested, and other errors there cannot be seen. Cap it, or leave "
            "it out."
        ),
        NoteCode.ONE_ROW_DECIDES: "{finding}",
        NoteCode.TARGET_LEAKAGE: (
            "Possible target leakage: each value of {column} has a single outcome. If it was written after the "
            "outcome, leave it out; if it is a sampling weight, name it as such."
        ),
        NoteCode.DATES_FAR_APART: (
            "{column} runs from {first} to {last}: periods without a row are joined to the one before. If "
            "one of these dates stands for no date, make it missing."
        ),
        NoteCode.DAYS_CORRELATED: (
            "Errors are correlated within days of {column}: daily sums vary {times:.0f} times as much as those of "
            "independent rows. The p-values here assume independent rows; for what will hold on other days, give "
            "--cluster {column}."
        ),
        NoteCode.SIGNIFICANT_BEFORE_CORRECTION: "significant before correction for multiple testing only",
        NoteCode.SHAPE_SIGNIFICANT_BEFORE_CORRECTION: (
            "significant along the score before correction for multiple testing only"
        ),
        NoteCode.TABLE_READ: "{text}",
        NoteCode.SENTENCE: "{text}",
    }
)
# In a call of its own: codes of two enums may compare equal, and would be one key of a dictionary.
templates(
    {
        ExclusionReason.NOTHING_DETECTABLE: "too few rows for any gap in it to be significant",
        ExclusionReason.TOO_FEW_EVENTS: "too few rows or events for any outcome to be significant",
        ExclusionReason.EVERY_LEVEL_TOO_SMALL: "each has too few rows or events to be tested alone",
        ExclusionReason.SUPPRESSED: "suppressed: fewer than {below} rows, or such a segment would follow from them",
        ExclusionReason.SENTENCE: "{text}",
    }
)


def words_of(coded: Note | Reason) -> str:
    """The sentence of a note, or the words of a reason."""
    return sentence(coded.code, **coded.fields)

"""The words of `miscal.codes.audit`."""

from miscal.codes.audit import ExclusionReason, Note, NoteCode, NotTestedReason, Reason, Remedy
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
templates(
    {
        NotTestedReason.QUICK_AUDIT: "a quick audit tests the score and each column alone",
        NotTestedReason.SUMMARY_FILE: "a summary file keeps the sums of each column alone",
        NotTestedReason.ONLY_DEEP: "regions in the plane of two numbers are searched only by a deep audit",
        NotTestedReason.ONLY_FIRST_TARGET: "pairs of columns are crossed only for the first event that is compared",
        NotTestedReason.MANY_CLASSES: "an audit of this effort tests fewer classes one by one",
        NotTestedReason.MEANS_ONLY: "beyond memory so many cells are added up, and tested, for their mean only",
        NotTestedReason.SEARCHED_ON_SAMPLE: (
            "they are searched on a sample of the rows; the worst there are tested on all rows, for their mean only"
        ),
        NotTestedReason.NOT_SUSPECT: "neither column has a small p-value alone (both above 0.25)",
        NotTestedReason.MANY_PAIRS: "an audit of this effort crosses no more, and other pairs have smaller p-values",
        NotTestedReason.REDUNDANT: "the columns are nearly redundant, so that crossing them adds no segments",
        NotTestedReason.SMALL_CATEGORIES: (
            "of a column with many categories only those with a small p-value, and the largest, are crossed"
        ),
        NotTestedReason.MANY_CATEGORIES: "columns of more than {limit} categories are combined only in pairs",
        NotTestedReason.LESS_SUSPECT: (
            "as many columns are combined as effort and rows allow, and others have smaller p-values alone"
        ),
        NotTestedReason.MANY_PLANES: "{limit} pairs of numbers are mapped, and the others have larger p-values alone",
        NotTestedReason.MANY_ROWS: "there are more than {limit:,} rows",
        Remedy.EFFORT_NORMAL: "--effort normal",
        Remedy.EFFORT_DEEP: "--effort deep",
        Remedy.AUDIT_TABLE: "audit the table itself",
        Remedy.NAME_CLASS: "miscal.audit(..., target=CLASS)",
        Remedy.EFFORT_DEEP_OR_CLASS: "--effort deep, or miscal.audit(..., target=CLASS)",
        Remedy.MORE_MEMORY: "allow more --memory, so that the table fits",
        Remedy.NAME_COLUMNS: "--by with both names: columns that are named are crossed",
        Remedy.JOIN_COLUMNS: "audit a column that joins both: every category of a column is tested",
        Remedy.GROUP_CATEGORIES: "audit a column that groups its values into at most {limit} categories",
        Remedy.FEWER_COLUMNS: "--by with fewer columns",
        Remedy.SAMPLE_ROWS: "audit a sample of the rows",
        Remedy.MORE_LEVELS: "--max-levels",
        Remedy.NAME_COLUMN: "--by with its name",
        Remedy.OTHER_TYPE: "a column of numbers, dates or text",
    }
)
# In a call of its own: codes of two enums may compare equal, and would be one key of a dictionary.
templates(
    {
        ExclusionReason.NOTHING_DETECTABLE: "too few rows for any gap in it to be significant",
        ExclusionReason.TOO_FEW_EVENTS: "too few rows or events for any outcome to be significant",
        ExclusionReason.EVERY_LEVEL_TOO_SMALL: "each has too few rows or events to be tested alone",
        ExclusionReason.SUPPRESSED: "suppressed: fewer than {below} rows, or such a segment would follow from them",
        ExclusionReason.TOO_MANY_LEVELS: "it has more than {limit:,} levels",
        ExclusionReason.IDENTIFIER_LEVELS: "an identifier: {levels:,} levels",
        ExclusionReason.IDENTIFIER_NUMBERS: "an identifier: whole numbers that all differ",
        ExclusionReason.CONSTANT: "constant",
        ExclusionReason.ALL_MISSING: "all values are missing",
        ExclusionReason.PANDAS_INDEX: "an index that pandas wrote",
        ExclusionReason.OUTCOME_COPY: "a copy of the outcome",
        ExclusionReason.OUTCOME_COPY_OR_WEIGHT: "a copy of the outcome; if it is a sampling weight, say so",
        ExclusionReason.SCORE_COPY: "a copy of the score",
        ExclusionReason.SCORE_THRESHOLD: "the score, thresholded between {low:.4g} and {high:.4g}",
        ExclusionReason.PREDICTED_CLASS: "the class predicted",
        ExclusionReason.UNUSABLE: "{text}",
        ExclusionReason.SENTENCE: "{text}",
    }
)


def words_of(coded: Note | Reason) -> str:
    """The sentence of a note, or the words of a reason."""
    return sentence(coded.code, **coded.fields)

"""Kinds and forms of findings, reasons for what was excluded or not tested, notes, verdicts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    TOO_MODERATE = "too moderate"
    UNEVEN = "uneven"


class NoteCode(StrEnum):
    """What is odd about a table, or how it was read."""

    LOG_LOSS_INFINITE = "log loss infinite"
    LOG_LOSS_INFINITE_BY_ROUNDING = "log loss infinite by rounding"
    NO_LOG_ODDS = "no log odds"
    SLOPE_BELOW_ZERO = "slope below zero"
    ONE_ROW_VARIANCE = "one row variance"
    ONE_ROW_DECIDES = "one row decides"
    TARGET_LEAKAGE = "target leakage"
    DATES_FAR_APART = "dates far apart"
    DAYS_CORRELATED = "days correlated"
    SIGNIFICANT_BEFORE_CORRECTION = "significant before correction"
    SHAPE_SIGNIFICANT_BEFORE_CORRECTION = "shape significant before correction"
    TABLE_READ = "table read"  # how the table was read: its sentence is the field `text`
    SENTENCE = "sentence"  # of a file that an earlier version wrote, which has sentences and no codes


@dataclass(frozen=True)
class Note:
    """A note of an audit: its code, and what the sentence of the code names."""

    code: NoteCode
    fields: Mapping[str, str | int | float] = field(default_factory=dict)


#: Notes that tell of single rows, or of the outcome of small cells: left out where small cells are hidden. What a
#: sentence of an earlier version tells is not known.
DISCLOSING_NOTES = frozenset(
    {
        NoteCode.LOG_LOSS_INFINITE,
        NoteCode.LOG_LOSS_INFINITE_BY_ROUNDING,
        NoteCode.ONE_ROW_VARIANCE,
        NoteCode.ONE_ROW_DECIDES,
        NoteCode.TARGET_LEAKAGE,
        NoteCode.SENTENCE,
    }
)


class ExclusionReason(StrEnum):
    """Why a segment or a column was not tested."""

    NOTHING_DETECTABLE = "nothing detectable"
    TOO_FEW_EVENTS = "too few events"
    EVERY_LEVEL_TOO_SMALL = "every level too small"
    SUPPRESSED = "suppressed"
    TOO_MANY_LEVELS = "too many levels"
    IDENTIFIER_LEVELS = "identifier levels"
    IDENTIFIER_NUMBERS = "identifier numbers"
    CONSTANT = "constant"
    ALL_MISSING = "all missing"
    PANDAS_INDEX = "pandas index"
    OUTCOME_COPY = "outcome copy"
    OUTCOME_COPY_OR_WEIGHT = "outcome copy or weight"
    SCORE_COPY = "score copy"
    SCORE_THRESHOLD = "score threshold"
    PREDICTED_CLASS = "predicted class"
    UNUSABLE = "unusable"  # as a reader says, in the field `text`
    SENTENCE = "sentence"  # a reason that is given as its sentence, in the field `text`


@dataclass(frozen=True)
class Reason:
    """Why something was excluded: a code, and what its sentence names."""

    code: ExclusionReason
    fields: Mapping[str, str | int | float] = field(default_factory=dict)


class GroupNote(StrEnum):
    """What is known of the difference between a group and the rest of its column."""

    NONE = ""
    SIGNIFICANT = "beyond noise"
    TOO_SMALL = "too small to judge"


class ChangeVerdict(StrEnum):
    """What became of the gap of a segment from one audit to another."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"


class PeriodVerdict(StrEnum):
    """What became of the error from one period to the next: of its size, or of its direction alone (moved)."""

    NO_DATE = "no date"
    FIRST = "first"
    TOO_SMALL = "too small"
    SAME = "same"
    MOVED = "moved"
    WORSE = "worse"
    BETTER = "better"


class RepairVerdict(StrEnum):
    """What became of a segment in a recalibration."""

    GONE = "gone"
    SMALLER = "smaller"
    REMAINING = "remaining"
    LARGER = "larger"
    NEW = "new"


class Family(StrEnum):
    """Tests that share a part of the level."""

    SCORE = "score"
    COLUMNS = "columns"
    PAIRS = "pairs"
    LARGE_FIELDS = "large fields"
    REGIONS = "regions"
    SUBPOPULATIONS = "subpopulations"
    NEIGHBOURHOODS = "neighbourhoods"


class NotTestedKind(StrEnum):
    """What kind of thing was not tested."""

    PAIRS = "pairs"
    SUBPOPULATIONS = "subpopulations"
    NEIGHBOURHOODS = "neighbourhoods"
    CLASSES = "classes"
    LEVELS = "levels"
    SHAPES = "tests along the score"


class NotTestedReason(StrEnum):
    """Why something was not tested."""

    QUICK_AUDIT = "quick audit"
    SUMMARY_FILE = "summary file"
    ONLY_DEEP = "only deep"
    ONLY_FIRST_TARGET = "only first target"
    MANY_CLASSES = "many classes"
    MEANS_ONLY = "means only"
    SEARCHED_ON_SAMPLE = "searched on sample"
    NOT_SUSPECT = "not suspect"
    MANY_PAIRS = "many pairs"
    REDUNDANT = "redundant"
    SMALL_CATEGORIES = "small categories"
    MANY_CATEGORIES = "many categories"
    LESS_SUSPECT = "less suspect"
    MANY_PLANES = "many planes"
    MANY_ROWS = "many rows"


class Remedy(StrEnum):
    """How to have something tested that was not."""

    EFFORT_NORMAL = "effort normal"
    EFFORT_DEEP = "effort deep"
    AUDIT_TABLE = "audit table"
    NAME_CLASS = "name class"
    EFFORT_DEEP_OR_CLASS = "effort deep or class"
    MORE_MEMORY = "more memory"
    NAME_COLUMNS = "name columns"
    JOIN_COLUMNS = "join columns"
    GROUP_CATEGORIES = "group categories"
    FEWER_COLUMNS = "fewer columns"
    SAMPLE_ROWS = "sample rows"
    MORE_LEVELS = "more levels"
    NAME_COLUMN = "name column"
    OTHER_TYPE = "other type"

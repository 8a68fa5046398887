"""Every type of column, one class each: how it is read, cut, worded and written.

The rule: what differs by the type of a column is an attribute or a method here. A caller asks the column
(`column.type.search_bins(...)`, or `column_type(kind).categorical` where only the kind is known) and compares no kinds:

    if column.kind == "date":            # wrong: a new type of column would have to be added here, too
        bins = calendar_edges(known, ...)
    bins = column.type.search_bins(known, 30)  # right

To add a type of column: a member of `ColumnKind`, a class here with what is unlike `ColumnType`, and its entry in
`COLUMN_TYPES`; tests in `tests/data_input/test_column_types.py`. Values of a type are either float64, NaN where
missing (numbers, and whatever counts in numbers: days, hours), or codes of levels, -1 where missing. Not allowed here:
to know of metrics, tests or sections.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from miscal.codes.data import ColumnKind, SqlLiteral
from miscal.data.arrays import Array, Vector, is_number, numpy_of
from miscal.data.calendar import calendar_edges, day_text, moment_of, number_of, shortest_text
from miscal.data.libraries import pa

SHORT_TEXT = 7  # characters up to which a number is written in full
MAX_DIGITS = 17  # of a float64
DAYS_SEARCHED_SINGLY = 62  # more days than this are searched by week, more weeks than that by month
DAYS_SHOWN_AS_NUMBERS = 21  # fewer days than this are shown in ranges of about equally many rows
DAYS_SHOWN_BY_WEEK = 75
_DATE = re.compile(r"\d{4}-\d\d-\d\d")

Bins = int | Array


class ColumnType:
    """Numbers, which the types below change.

    Attributes
    ----------
    kind : ColumnKind
        The name.
    column_kind : ColumnKind
        The kind of a `Column` of such values.
    categorical : bool
        Whether values are codes of levels; else they are float64 and ordered.
    levels : tuple
        Levels that every such column has.
    bytes_per_value : int
        Memory of a value in a table.
    sql_literal : SqlLiteral
        What values are in SQL.
    round_edges : bool
        Whether tables are cut at common round numbers too, so that audits of several tables can be compared.
    spatial : bool
        Whether two such columns span a plane that is searched for regions.
    calendar : bool
        Whether values are days since 1970-01-01.
    may_be_target : bool
        Whether such a column may be taken for the outcome or for a probability where none is named.
    feature_hint : str
        What to do with such a column where features must be numbers; empty where it can be used as it is.
    """

    kind = ColumnKind.NUMERIC
    column_kind = ColumnKind.NUMERIC
    categorical = False
    levels: tuple[Any, ...] = ()
    bytes_per_value = 8
    sql_literal = SqlLiteral.NUMBER
    round_edges = True
    spatial = True
    calendar = False
    may_be_target = True
    feature_hint = ""

    # Reading

    def stores(self, arrow_type: Any) -> bool:
        """Whether columns of an Arrow type are of this type."""
        is_ = pa.types
        return is_number(arrow_type) or bool(is_.is_time(arrow_type) or is_.is_duration(arrow_type))

    def values(self, vector: Any) -> Array:
        """The values of an Arrow array that is no plain number: a time in hours, a length of time in days."""
        if pa.types.is_time(vector.type):
            micros = vector.cast(pa.time64("us"), safe=False).cast(pa.int64())
            return numpy_of(micros.cast(pa.float64(), safe=False)) / 3.6e9
        return _days(_ticks(vector, f"m8[{vector.type.unit}]"))

    # Cutting into ranges

    def search_bins(self, values: Array, n_ranges: int) -> Bins:  # noqa: ARG002
        """How values, NaN where missing, are cut for a search: a number of quantile ranges, or edges."""
        return n_ranges

    def shown_bins(self, values: Array, n_ranges: int) -> Bins:  # noqa: ARG002
        """How values, NaN where missing, are cut where the column is shown."""
        return n_ranges

    def cuts(self, value: float) -> Iterator[float]:
        """Numbers near a value that are written with fewer digits, the shortest first."""
        return (float(f"{value:.{digits}g}") for digits in range(1, MAX_DIGITS))

    # Words

    def edge_text(self, value: float) -> str:
        """The shortest text from which `number_of` reads exactly this value."""
        return shortest_text(value)

    def edge_cost(self, text: str) -> tuple[bool, int]:
        """By which of two texts of one edge is chosen: the smaller one."""
        return False, len(text)

    def shortened(self, text: str) -> str:
        """The text of an edge, of four significant digits where it is long."""
        return text if len(text) <= SHORT_TEXT else f"{float(text):.4g}"

    def value_text(self, value: float, write: Callable[[float], str]) -> str:
        """A value for people; `write` writes a number."""
        return write(value)

    def units_within(self, low: float, high: float) -> tuple[float, float] | None:
        """The first and the last unit in (low, high] where values are counted in units; None for numbers."""
        del low, high
        return None

    def inclusive_high(self, high: Array) -> Array:
        """The upper ends of ranges, as they are written."""
        return high


class Numeric(ColumnType):
    """Numbers, times of the day in hours, lengths of time in days."""


class Integer(ColumnType):
    """Whole numbers, as a table stores them; a `Column` of them is numeric and knows that they are whole."""

    kind = ColumnKind.INTEGER

    def stores(self, arrow_type: Any) -> bool:
        """Whether an Arrow type is one of whole numbers."""
        return bool(pa.types.is_integer(arrow_type))


class Date(ColumnType):
    """Dates and moments, in days since 1970-01-01; zones are dropped, so that days are those of universal time."""

    kind = column_kind = ColumnKind.DATE
    sql_literal = SqlLiteral.MOMENT
    round_edges = False
    spatial = False
    calendar = True
    may_be_target = False
    feature_hint = "turn it into a number of days"

    def stores(self, arrow_type: Any) -> bool:
        """Whether an Arrow type is one of dates or moments."""
        is_ = pa.types
        return bool(is_.is_date(arrow_type) or is_.is_timestamp(arrow_type))

    def values(self, vector: Any) -> Array:
        """Days, with the time of the day as a fraction."""
        moments = vector.cast(pa.timestamp("ms")) if pa.types.is_date(vector.type) else vector
        return _days(_ticks(moments, f"M8[{moments.type.unit}]"))

    def search_bins(self, values: Array, n_ranges: int) -> Bins:
        """Days; weeks of more than 62 days; months of more than 62 weeks."""
        known = values[~np.isnan(values)]
        if not known.size:
            return n_ranges
        length, limit = _length(known), DAYS_SEARCHED_SINGLY
        every = "day" if length < limit else "week" if length < 7 * limit else "month"
        return calendar_edges(known, every, limit)

    def shown_bins(self, values: Array, n_ranges: int) -> Bins:
        """Months; weeks of less than 75 days; ranges of less than three weeks."""
        known = values[~np.isnan(values)]
        length = _length(known) if known.size else 0
        if length < DAYS_SHOWN_AS_NUMBERS:
            return n_ranges
        return calendar_edges(known, "week" if length < DAYS_SHOWN_BY_WEEK else "month")

    def cuts(self, value: float) -> Iterator[float]:  # noqa: ARG002
        """None: a date with fewer digits is another date."""
        return iter(())

    def edge_text(self, value: float) -> str:
        """The moment where it says exactly this value, else the number."""
        text = moment_of(value)
        return text if text is not None and number_of(text) == value else shortest_text(value)

    def edge_cost(self, text: str) -> tuple[bool, int]:
        """A moment of the calendar is better than any number."""
        return not _DATE.match(text), len(text)

    def shortened(self, text: str) -> str:
        """A date as it is."""
        return text if _DATE.match(text) else super().shortened(text)

    def value_text(self, value: float, write: Callable[[float], str]) -> str:  # noqa: ARG002
        """The date."""
        return day_text(value)

    def units_within(self, low: float, high: float) -> tuple[float, float] | None:
        """The first and the last day."""
        return float(np.ceil(low)), float(np.ceil(high)) - 1.0

    def inclusive_high(self, high: Array) -> Array:
        """A range that ends just before the first moment of a day ends on the day before."""
        after = np.ceil(high)
        return np.where((after > high) & (after - high < 1e-6), after - 1.0, high)


class Category(ColumnType):
    """Text, or any values that are told apart and not ordered."""

    kind = column_kind = ColumnKind.CATEGORY
    categorical = True
    bytes_per_value = 28
    sql_literal = SqlLiteral.TEXT
    round_edges = False
    spatial = False
    feature_hint = "one-hot encode it, or use kernel='group'"

    def stores(self, arrow_type: Any) -> bool:
        """Whether an Arrow type is one of text, of bytes or of a dictionary."""
        is_ = pa.types
        tests = (is_.is_string, is_.is_large_string, is_.is_string_view, is_.is_dictionary,
                 is_.is_binary, is_.is_large_binary, is_.is_fixed_size_binary)  # fmt: skip
        return any(test(arrow_type) for test in tests)


class Boolean(Category):
    """Truth values."""

    kind = column_kind = ColumnKind.BOOLEAN
    levels = (False, True)
    bytes_per_value = 4
    sql_literal = SqlLiteral.BOOLEAN
    feature_hint = ""

    def stores(self, arrow_type: Any) -> bool:
        """Whether an Arrow type is that of truth values."""
        return bool(pa.types.is_boolean(arrow_type))

    def values(self, vector: Any) -> Array:
        """Codes: 0 false, 1 true, -1 missing."""
        return numpy_of(vector.cast(pa.int32()), -1)


class Unreadable(ColumnType):
    """Lists, records, spans of the calendar: columns that no audit reads."""

    kind = ColumnKind.UNREADABLE

    def stores(self, arrow_type: Any) -> bool:  # noqa: ARG002
        """Whatever no other type stores."""
        return True


COLUMN_TYPES: dict[str, ColumnType] = {
    column_type.kind: column_type
    for column_type in (Boolean(), Category(), Integer(), Numeric(), Date(), Unreadable())
}


def column_type(kind: str) -> ColumnType:
    """The type of a kind; a kind of another version, read from a file, counts as numeric.

    >>> column_type("date").categorical, column_type("boolean").levels
    (False, (False, True))
    """
    return COLUMN_TYPES.get(kind, COLUMN_TYPES[ColumnKind.NUMERIC])


def kind_of(arrow_type: Any) -> ColumnKind:
    """The kind of columns of an Arrow type."""
    return next(known.kind for known in COLUMN_TYPES.values() if known.stores(arrow_type))


def joined_kind(kinds: Iterable[str]) -> ColumnKind | None:
    """The kind of a column that several files hold in these kinds; None where they cannot be joined.

    >>> joined_kind(["integer", "numeric"]), joined_kind(["integer", "date"])
    (<ColumnKind.NUMERIC: 'numeric'>, None)
    """
    distinct = {ColumnKind(kind) for kind in kinds}
    if distinct == {ColumnKind.INTEGER, ColumnKind.NUMERIC}:
        return ColumnKind.NUMERIC
    return distinct.pop() if len(distinct) == 1 else None


def numpy_days(values: Vector) -> tuple[ColumnKind, Array]:
    """Moments or lengths of time of numpy as days: their kind and values, NaN where not a time."""
    return ColumnKind.DATE if values.dtype.kind == "M" else ColumnKind.NUMERIC, _days(values)


def _ticks(vector: Any, dtype: str) -> Array:
    """An Arrow array of times as numpy has it, NaT where missing."""
    return numpy_of(vector.cast(pa.int64()), np.iinfo(np.int64).min).view(dtype)


def _days(values: Array) -> Array:
    """Moments or lengths of time as days in float64, NaN where not a time; no date is too far away."""
    is_moment, day = values.dtype.kind == "M", np.timedelta64(1, "D")
    if np.datetime_data(values.dtype)[0] not in ("h", "m", "s", "ms", "us", "ns"):
        values = values.astype("M8[D]" if is_moment else "m8[D]")
    since = values - np.datetime64("1970-01-01") if is_moment else values
    with np.errstate(invalid="ignore"):  # what is no time
        # Whole days and the rest separately: the same moment has the same bits whatever unit it was stored in.
        whole, rest = np.divmod(since, day)
    return np.asarray(whole + rest / day)


def _length(days: Array) -> float:
    """How many days lie between the first and the last."""
    return float(np.floor(days.max()) - np.floor(days.min()))

"""What a column is, and what is predicted."""

from enum import StrEnum


class Response(StrEnum):
    """What the outcome is: an event, an amount, or a number of events."""

    BINARY = "binary"
    REAL = "real"
    COUNT = "count"


class ColumnKind(StrEnum):
    """How a column is read; `miscal.data.column_types` has a class for each, with everything that differs."""

    NUMERIC = "numeric"
    INTEGER = "integer"  # whole numbers as a table stores them; a `Column` of them is numeric
    DATE = "date"
    CATEGORY = "category"
    BOOLEAN = "boolean"
    UNREADABLE = ""  # no single values, such as lists


class SqlLiteral(StrEnum):
    """What the values of a column are in SQL."""

    NUMBER = "number"
    MOMENT = "moment"
    TEXT = "text"
    BOOLEAN = "boolean"

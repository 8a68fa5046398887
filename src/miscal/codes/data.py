"""What a column is, and what is predicted."""

from enum import StrEnum


class Response(StrEnum):
    """What the outcome is: an event, an amount, or a number of events."""

    BINARY = "binary"
    REAL = "real"
    COUNT = "count"


class ColumnKind(StrEnum):
    """How a column is read: numbers, dates, or categories."""

    NUMERIC = "numeric"
    DATE = "date"
    CATEGORY = "category"

"""Readers of values that come from JSON: what is not of the kind asked for becomes nothing, and never an exception."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from miscal.data.errors import refusal
from miscal.page.words import finite

SCHEMA = "miscal.audit/1"
Floats = NDArray[np.float64]
T = TypeVar("T")


def checked(document: object) -> Mapping[str, Any]:
    """Refuse what is not an audit's dictionary.

    Examples
    --------
    >>> checked({"schema": "miscal.audit/1"})["schema"]
    'miscal.audit/1'
    """
    if not isinstance(document, Mapping):
        raise refusal("must be the dictionary of an audit", where="document", got=f"found {type(document).__name__}")
    schema = document.get("schema")
    if schema != SCHEMA:
        raise refusal(f"must have the schema '{SCHEMA}'", where="document", got=f"found {schema!r}")
    return document


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """The value as a list: a sequence's items, nothing of anything else."""
    return list(value) if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes)) else []


def text(value: object) -> str:
    """The value as text, nothing for None."""
    return "" if value is None else str(value)


def ends(value: object) -> tuple[float, float]:
    """The two ends of an interval, NaN where there are none.

    >>> ends([0.1, None]), ends("x")
    ((0.1, nan), (nan, nan))
    """
    low, high = [*items(value), None, None][:2]
    return finite(low), finite(high)


def floats(value: object) -> Floats:
    """An array of finite floats, anything else as NaN.

    Examples
    --------
    >>> floats([1, None, "x"])
    array([ 1., nan, nan])
    """
    listed = items(value)
    try:
        array = np.array(listed, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.array([finite(item) for item in listed])
    if array.ndim != 1:
        return np.full(len(listed), np.nan)
    return np.where(np.isfinite(array), array, np.nan)


def whole(value: object) -> int:
    """A whole number, 0 where there is none."""
    number = finite(value)
    return 0 if math.isnan(number) else int(number)


class Columns(dict[str, list[Any]]):
    """Columns of one length; one that the table does not have is a column of None.

    >>> table = Columns({"a": [1, 2], "b": [3], "c": None})
    >>> table["b"], table["d"], table.rows
    ([3, None], [None, None], 2)
    """

    def __init__(self, value: object) -> None:
        listed = {str(name): items(column) for name, column in mapping(value).items()}
        self.rows = max(map(len, listed.values()), default=0)
        super().__init__({name: column + [None] * (self.rows - len(column)) for name, column in listed.items()})

    def __missing__(self, name: str) -> list[Any]:
        return [None] * self.rows

    def take(self, rows: Iterable[int]) -> Columns:
        """Some of the rows, in the order given."""
        chosen = list(rows)
        return Columns({name: [column[i] for i in chosen] for name, column in self.items()})


#: How a field of a record is read, by what its annotation says.
READERS: dict[str, Callable[[Any], Any]] = {
    "str": text,
    "float": finite,
    "int": whole,
    "bool": bool,
    "str | None": lambda value: text(value) or None,
    "float | None": lambda value: None if math.isnan(finite(value)) else finite(value),
    "list[str]": lambda value: [text(item) for item in items(value)],
    "tuple[str, ...]": lambda value: tuple(text(item) for item in items(value)),
    "tuple[float, float]": ends,
    "Mapping[str, Any]": mapping,
    "Columns": Columns,
    "object": lambda value: value,
}


def read_record(record: type[T], value: object, /, **known: Any) -> T:
    """A record whose fields are those of a mapping of the same names, each read as its annotation says.

    known : what the mapping does not say, or says otherwise
    """
    given = {**mapping(value), **known}
    made = {field.name: READERS[str(field.type)](given.get(field.name)) for field in fields(record)}  # type: ignore[arg-type]
    return record(**made)

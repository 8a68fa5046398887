"""JSON that every reader accepts, files that are whole or absent, and readers of what comes back.

What is not of the kind asked for becomes nothing there, and never an exception.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from miscal import results
from miscal.data.errors import refusal, refusing, visible
from miscal.data.outputs import FileName, check_file, write_whole
from miscal.report.wording import finite

SCHEMA = "miscal.audit/1"
Floats = NDArray[np.float64]
JsonMapping = Mapping[str, Any]  # as in JSON
Ends = tuple[float, float]
Data = dict[str, list[object]]  # columns behind a figure
T = TypeVar("T")


def parts(response: str, **given: object) -> dict[str, object]:
    """Some parts of an audit's dictionary, of events or of other means, to be shown by themselves."""
    return {"schema": SCHEMA, "data": {"response": response}, **given}


def checked(document: object) -> JsonMapping:
    """Refuse what is not an audit's dictionary.

    Examples
    --------
    >>> checked({"schema": "miscal.audit/1"})["schema"]
    'miscal.audit/1'
    """
    given = mapping(document)
    if given.get("schema") != SCHEMA:
        found = repr(given.get("schema")) if isinstance(document, Mapping) else type(document).__name__
        what = f"must be an audit's dictionary, of the schema '{SCHEMA}'"
        raise refusal(what, "document", got=f"found {found}")
    return given


def mapping(value: object) -> JsonMapping:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """The value as a list: a sequence's items, nothing of anything else."""
    many = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
    return list(value) if many else []  # type: ignore[call-overload]


def text(value: object) -> str:
    """The value as text in one line, nothing for None."""
    return "" if value is None else visible(value)


def ends(value: object) -> Ends:
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
    return np.array([finite(item) for item in items(value)], dtype=np.float64)


def whole(value: object) -> int:
    """A whole number, 0 where there is none."""
    return int(np.nan_to_num(finite(value)))


class TableColumns(dict[str, list[Any]]):
    """Columns of one length, from themselves or from a list of records; one that the table does not have is of None.

    >>> table = TableColumns({"a": [1, 2], "b": [3], "c": None})
    >>> table["b"], table["d"], table.rows
    ([3, None], [None, None], 2)
    >>> TableColumns([{"a": 1}, {"b": 3}])
    {'a': [1, None], 'b': [None, 3]}
    """

    def __init__(self, value: object) -> None:
        rows = [mapping(row) for row in items(value)]
        names = dict.fromkeys(name for row in rows for name in row)
        given = mapping(value) or {name: [row.get(name) for row in rows] for name in names}
        listed = {str(name): items(column) for name, column in given.items()}
        self.rows = max(map(len, listed.values()), default=0)
        super().__init__(
            {name: column + [None] * (self.rows - len(column)) for name, column in listed.items()}
        )

    def __missing__(self, name: str) -> list[Any]:
        return [None] * self.rows

    def take(self, rows: Sequence[int]) -> "TableColumns":
        """Some of the rows, in the order given."""
        return TableColumns({name: [column[i] for i in rows] for name, column in self.items()})


#: How a field of a record is read, by what its annotation says. A name that is looked up and an expression that is
#: read again stay to the letter ("str | None", "tuple[str, ...]").
READERS: dict[str, Callable[[Any], Any]] = {
    "str": text,
    "float": finite,
    "int": whole,
    "bool": bool,
    "str | None": lambda value: None if value is None else str(value),
    "float | None": lambda value: None if math.isnan(finite(value)) else finite(value),
    "list[str]": lambda value: [text(item) for item in items(value)],
    "tuple[str, ...]": lambda value: tuple("" if item is None else str(item) for item in items(value)),
    "tuple[float, float]": ends,
    "tuple[float, ...]": lambda value: tuple(finite(item) for item in items(value)),
    "JsonMapping": mapping,
    "TableColumns": TableColumns,
}


def read_record(record: type[T], value: object, /, **known: Any) -> T:
    """A record whose fields are those of a mapping of the same names, each read as its annotation says.

    known : what the mapping does not say, or says otherwise
    """
    given = {**mapping(value), **known}
    made = {field.name: READERS[str(field.type)](given.get(field.name)) for field in fields(record)}  # type: ignore[arg-type]
    return record(**made)


def plain(value: object) -> Any:
    """Turn a value into what JSON knows: NaN and infinities become None, arrays lists, dates text.

    Examples
    --------
    >>> plain({"a": np.array([1.0, np.nan]), 2: (np.int64(3), float("inf"))})
    {'a': [1.0, None], '2': [3, None]}
    """
    return results.plain(value, finite=True)


def dumps(document: object) -> str:
    """Write a document as JSON text.

    Lone surrogates, which no UTF-8 file can hold, are replaced.

    Examples
    --------
    >>> dumps({"p_value": float("nan")})
    '{"p_value": null}'
    """
    text = json.dumps(plain(document), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode("utf-8")


def write_json(document: object, path: FileName) -> None:
    """Write a document to a file, whole or not at all."""
    write_text(path, dumps(document) + "\n")


def read_json(path: FileName) -> JsonMapping:
    """Read an audit's dictionary back, or say what is wrong with the file."""
    check_file(path)
    hint = "the JSON of an audit is what `miscal audit TABLE --json FILE` or Audit.to_json(FILE) writes"
    with refusing("cannot be read as JSON", f"'{path}'", hint=hint):
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    return checked(document)


def write_text(path: FileName, text: str) -> None:
    """Write text, whole or not at all; line ends stay as they are on every system."""
    write_whole(path, text.encode("utf-8", "replace"))

"""Readers of plain values: numbers, text, lists and tables as they come back from JSON.

A value that is absent, or null, has a stated default: NaN, empty text, no items. Whether a value is of the right type
at all is checked once, when a report is loaded (`miscal.report.schema`); nothing here raises.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miscal.data.errors import visible
from miscal.report.wording import finite

Floats = NDArray[np.float64]
JsonMapping = Mapping[str, Any]  # as in JSON
Ends = tuple[float, float]
Data = dict[str, list[object]]  # columns behind a figure


def mapping(value: object) -> JsonMapping:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """The value as a list: a sequence's items, nothing of anything else."""
    is_list = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
    return list(value) if is_list else []  # type: ignore[call-overload]


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


def texts(value: object) -> tuple[str, ...]:
    """The items of a list as text."""
    return tuple("" if item is None else str(item) for item in items(value))


def optional_text(value: object) -> str | None:
    """Text, or None where there is none."""
    return None if value is None else str(value)


def optional_number(value: object) -> float | None:
    """A finite number, or None where there is none."""
    number = finite(value)
    return None if np.isnan(number) else number

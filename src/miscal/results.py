"""Results: frozen records of a number, its noise, and the table it was read from."""

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from miscal.data.arrays import Array, Plain
from miscal.data.errors import nearest, refusal, visible

SHOWN = 20
ARRAY_SHOWN = 4
AS_IT_IS = {str, int, bool, type(None)}  # types of what is plain already
PLAIN = (str, int, float, np.generic, np.ndarray, list, tuple, dict, type(None))


class Table(dict[str, np.ndarray]):
    """Named columns of equal length; `table["gap"]` is an array, `pandas.DataFrame(table)` a frame.

    `polars.DataFrame(table)` and `pyarrow.table(table)` are others.

    >>> table = Table({"level": ["a", "b"], "gap": [0.1, -0.2]})
    >>> len(table), table["gap"].tolist(), table.rows
    (2, [0.1, -0.2], 2)
    >>> print(table.sort("gap"))
    level   gap
    b      -0.2
    a       0.1
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__({name: _column(values) for name, values in columns.items()})
        lengths = sorted(set(map(len, self.values())))
        if len(lengths) > 1:
            got = f"they have {lengths}"
            raise refusal("must have equal lengths", "the columns of a table", got=got)

    def __missing__(self, name: str) -> Array:
        raise refusal(f"has no column '{name}'", "the table", hint=nearest(name, self))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.values()))) if self else 0

    def take(self, rows: Any) -> "Table":
        """Some rows, by index, mask or slice."""
        return Table({name: values[rows] for name, values in self.items()})

    def sort(self, by: str, *, descending: bool = False) -> "Table":
        """Rows ordered by a column; ties keep their order, missing values come last."""
        values = self[by]
        order = np.argsort(-values if descending and values.dtype.kind in "fi" else values, kind="stable")
        return self.take(order)

    def to_dict(self) -> dict[str, list[Any]]:
        """Columns as lists of plain Python values."""
        return dict(plain(self))

    def to_pandas(self) -> Any:
        """The table as a pandas frame."""
        return import_module("pandas").DataFrame(self)

    def _cells(self) -> list[list[str]]:
        """The first rows as text, a list a column: its name, then its values."""
        shown = self.take(slice(0, SHOWN))
        return [[visible(name), *(_text(value) for value in values)] for name, values in shown.items()]

    def __repr__(self) -> str:
        padded = []
        for values, column in zip(self.values(), self._cells(), strict=True):
            side, width = ">" if values.dtype.kind in "fiu" else "<", max(map(len, column))
            padded.append([f"{text:{side}{width}}" for text in column])
        lines = ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]
        if self.rows > SHOWN:
            lines.append(f"... {self.rows - SHOWN} more rows")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        lines = []
        for number, row in enumerate(zip(*self._cells(), strict=True)):
            cell = "td" if number else "th"
            lines.append("".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in row))
        more = f"<caption>{self.rows - SHOWN} more rows</caption>" if self.rows > SHOWN else ""
        return f"<table>{more}<tr>{'</tr><tr>'.join(lines)}</tr></table>"


def _column(values: Any) -> Array:
    # Not by way of numpy's own text.
    text = isinstance(values, (list, tuple)) and set(map(type, values)) == {str}
    array = np.asarray(values, dtype=object if text else None)
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.ndim != 1:
        boxed = np.empty(len(array), object)
        boxed[:] = list(array)
        return boxed
    return array


def _text(value: Any) -> str:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, (float, np.floating)):
        return "" if math.isnan(value) else "0" if -1e-300 < value < 1e-300 else f"{value:.4g}"
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        more = " ..." if len(value) > ARRAY_SHOWN else ""
        return f"[{' '.join(map(_text, value[:ARRAY_SHOWN]))}{more}]"
    return visible(value)


@dataclass(frozen=True, eq=False)
class Result:
    """A measured number with its noise.

    Attributes
    ----------
    name : what was measured, in words
    kind : one of score, variable, field, variation, neighbourhood, subpopulation
    value : the number
    noise_floor : what a perfectly calibrated model would show on these rows, on average
    p_value : how often calibrated predictions would show as much; NaN with the reason in `method`. Where several
        tests are combined on common draws, `tests` has them
    interval : 95% interval of the value; wide by construction, since it covers whatever the model is
    method : how the noise was found
    table : the cells
    settings : everything needed to run it again
    extra : other numbers and carriers, by name
    """

    name: str
    kind: str
    value: float
    noise_floor: float
    p_value: float
    interval: tuple[float, float]
    method: str
    table: Table
    settings: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("settings", "extra"):
            self.__dict__[name] = MappingProxyType(_unboxed(dict(getattr(self, name))))

    def __getstate__(self) -> Plain:
        return {**self.__dict__, "settings": dict(self.settings), "extra": dict(self.extra)}

    def __setstate__(self, state: Plain) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def tests(self) -> Table:
        """The tests that the p-value combines, each with its own; without rows where there is only one."""
        none = Table({"test": np.empty(0, object), "p_value": np.empty(0)})
        return self.extra.get("tests", none)  # type: ignore[no-any-return]

    def plot(self, **options: Any) -> Any:
        """Draw the result; needs the plot extra. `kind` chooses among the display's figures, other options style it."""
        return import_module("miscal.plots").draw(self, **options)

    def sentence(self) -> str:
        """The result in one sentence."""
        text = self.beside_noise(f"{self.name}:")
        if not math.isnan(self.p_value):
            draws = None if self.tests.rows else self.settings.get("draws")
            text += f" (p {p_text(self.p_value, draws, self.extra.get('p_least'))})"
        return text + "."

    def beside_noise(self, words: str) -> str:
        """The value after some words, and what calibrated predictions would show."""
        floor = f", where calibrated predictions would show {self.noise_floor:.4g} on average"
        return f"{words} {self.value:.4g}" + ("" if math.isnan(self.noise_floor) else floor)

    def to_dict(self) -> Plain:
        """Plain values for JSON; arrays become lists and carriers are left out."""
        extra = {name: value for name, value in self.extra.items() if isinstance(value, PLAIN)}
        return dict(plain({**vars(self), "extra": extra}))

    def __repr__(self) -> str:
        low, high = self.interval
        known = f"95% interval {low:.4g} to {high:.4g}. " if np.isfinite(low + high) else ""
        return f"{visible(self.sentence())}\n{known}{visible(self.method)}\n\n{self.table!r}"

    def _repr_html_(self) -> str:
        return str(import_module("miscal.report.html.page").result_html(self.to_dict(), self.sentence()))


def p_text(p_value: float, draws: object, least: object = None) -> str:
    """A p-value as it is printed after "p": at the end of a simulation's scale, or of that of `least`, a bound."""
    if isinstance(least, float) and p_value <= least:
        return f"<= {least:.2g}"
    if isinstance(draws, int) and p_value <= 1.0 / (draws + 1):
        return f"<= {1.0 / (draws + 1):.2g}"
    return f"= {p_value:.3g}" if p_value >= 1e-4 else "< 0.0001"


def _unboxed(value: Any) -> Any:
    """The value with numpy's scalars as Python's own, which print as numbers."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(_unboxed, value))
    return {name: _unboxed(item) for name, item in value.items()} if type(value) is dict else value


def plain(value: Any, *, finite: bool = False) -> Any:
    """Plain values for JSON: arrays become lists and dates text, also NaN and infinities None if all must be finite."""
    if isinstance(value, np.ndarray) and value.dtype != object and not finite:
        return value.tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) or not finite else None
    if isinstance(value, (str, int)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(item, finite=finite) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range)):
        if AS_IT_IS.issuperset(map(type, value)):
            return list(value)
        return [plain(item, finite=finite) for item in value]
    return plain(value.to_dict(), finite=finite) if hasattr(value, "to_dict") else str(value)

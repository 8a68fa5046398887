"""Results: frozen records of a number, what a calibrated model would show, and the table it was computed from.

`Result` has what all kinds share. Each kind adds typed fields in a subclass beside the function that makes it:
`ScoreResult` in `metrics/score.py`, `VariableResult` in `metrics/variable.py`, and so on. Nothing reads a result by a
key: `extra` is a view of the fields for programs that use it and for JSON.
"""

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from miscal.codes.inference import Method
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


class Record:
    """A dataclass that is part of a result, and that `Result.extra` and JSON have as a dictionary."""

    def entries(self) -> Plain:
        """The fields that are not None, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Estimate:
    """A number beside what a calibrated model would show.

    Attributes
    ----------
    value : float
    noise_floor : float
        What a calibrated model would show on average; NaN where unknown.
    p_value : float
    interval : tuple of float
        95% interval of the value.
    method : Method or None
        How the noise floor and the p-value were computed; None where neither was.
    p_resolution : float
        The smallest p-value that the simulation can give; NaN where the p-value is not simulated.
    """

    value: float
    noise_floor: float = math.nan
    p_value: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    method: Method | None = None
    p_resolution: float = math.nan

    @property
    def simulated(self) -> bool:
        """Whether the p-value is simulated, and so never below `p_resolution`."""
        return self.method is not None and self.method.simulated

    @property
    def simulated_bound(self) -> bool:
        """Whether the p-value is the smallest that its simulation can give, and so an upper bound."""
        return self.p_value <= self.p_resolution

    def noise(self) -> Plain:
        """Everything but the value, as `Result.extra` has it; nothing where nothing is known."""
        if self.method is None:
            return {}
        return {
            "noise_floor": self.noise_floor,
            "p_value": self.p_value,
            "interval": list(self.interval),
            "method": str(self.method),
            "least": self.p_resolution,
        }


@dataclass(frozen=True)
class Histogram(Record):
    """Weights in consecutive ranges.

    Attributes
    ----------
    edges : list of float
    rows : list of float
        Total weight between two edges; one fewer than there are edges.
    """

    edges: list[float]
    rows: list[float]


@dataclass(frozen=True)
class CumulativeCurve(Record):
    """Cumulative differences in the order of the score, at some of the scores.

    Attributes
    ----------
    x : list of float
        Share of the total weight up to the score.
    y : list of float
        Cumulative sum of predicted minus observed, over the total weight.
    score : list of float
    band : list of float
        Half-width of the pointwise 95% band of a calibrated model.
    label : str or None
        The subpopulation; None for all rows.
    """

    x: list[float]
    y: list[float]
    score: list[float]
    band: list[float]
    label: str | None = None


def _no_tests() -> Table:
    return Table({"test": np.empty(0, object), "p_value": np.empty(0)})


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Result:
    """A measured number, what a calibrated model would show, and the table it was computed from.

    Results come from the `by_` functions and `measure`; each kind has a class of its own, whose fields are the other
    numbers of that kind.

    A subclass declares one field per number, table or record. A field that is None does not apply to the result.
    `extra` derives a mapping from these fields, under the name in the field's metadata (`key`) or its own.

    Attributes
    ----------
    name : str
        What was measured, in words.
    kind : str
        "score", "variable", "field", "variation", "neighbourhood", "subpopulation", "class" or "period".
    value : float
    noise_floor : float
        What a calibrated model would show on these rows, on average.
    p_value : float
        How often a calibrated model would show as much; NaN where there is none, and `method` says why.
    interval : tuple of float
        95% interval of the value. It is wide, because it makes no assumption about the model.
    method : str
        How the noise floor and the p-value were computed.
    table : Table
        One row per cell: a range, a category, a period, a subpopulation.
    settings : mapping of str to object
        Everything needed to run it again.
    tests : Table
        The tests that the p-value combines, each with its own p-value; without rows where there is only one test.
    p_resolution : float or None
        The smallest p-value that the simulation can give, where the p-value is that bound.
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
    tests: Table = field(default_factory=_no_tests)
    p_resolution: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            self.__dict__[name] = _unboxed(value)
        self.__dict__["settings"] = MappingProxyType(_unboxed(dict(self.settings)))

    def __getstate__(self) -> Plain:
        return {**self.__dict__, "settings": dict(self.settings)}

    def __setstate__(self, state: Plain) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def extra(self) -> Mapping[str, Any]:
        """The other numbers, tables and objects of the result, by name: a read-only view of its fields."""
        return MappingProxyType(self._entries())

    def _entries(self) -> Plain:
        """The fields of the subclass that are not None, by their names in `extra`; records as dictionaries."""
        entries: Plain = {}
        for declared in fields(self):
            value = getattr(self, declared.name)
            if declared.name not in COMMON and value is not None:
                entries[declared.metadata.get("key", declared.name)] = _as_entry(value)
        if self.tests.rows:
            entries["tests"] = self.tests
        if self.p_resolution is not None:
            entries["p_least"] = self.p_resolution
        return entries

    def plot(self, **options: Any) -> Any:
        """Draw the result; needs the plot extra. `kind` chooses among the display's figures, other options style it."""
        return import_module("miscal.plots").draw(self, **options)

    def sentence(self) -> str:
        """The result in one sentence."""
        text = self.beside_noise(f"{self.name}:")
        if not math.isnan(self.p_value):
            draws = None if self.tests.rows else self.settings.get("draws")
            text += f" (p {p_text(self.p_value, draws, self.p_resolution)})"
        return text + "."

    def beside_noise(self, words: str) -> str:
        """The value after some words, and what calibrated predictions would show."""
        floor = f", where calibrated predictions would show {self.noise_floor:.4g} on average"
        return f"{words} {self.value:.4g}" + ("" if math.isnan(self.noise_floor) else floor)

    def to_dict(self) -> Plain:
        """Plain values for JSON; arrays become lists, and `extra` has no objects such as tallies."""
        common = {name: getattr(self, name) for name in COMMON if name not in ("tests", "p_resolution")}
        extra = {name: value for name, value in self.extra.items() if isinstance(value, PLAIN)}
        return dict(plain({**common, "extra": extra}))

    def __repr__(self) -> str:
        low, high = self.interval
        known = f"95% interval {low:.4g} to {high:.4g}. " if np.isfinite(low + high) else ""
        return f"{visible(self.sentence())}\n{known}{visible(self.method)}\n\n{self.table!r}"

    def _repr_html_(self) -> str:
        return str(import_module("miscal.report.html.page").result_html(self.to_dict(), self.sentence()))


COMMON = tuple(declared.name for declared in fields(Result))  # fields of every result


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CellResult(Result):
    """A result whose table has one row per cell of a partition of the rows.

    Attributes
    ----------
    tally : Tally
        The sums of the cells.
    unit_scale, unit_low : float or None
        Sums of a mean that is no probability are those of (value - `unit_low`) / `unit_scale`; None for probabilities.
    """

    tally: Any
    unit_scale: float | None = field(default=None, metadata={"key": "scale"})
    unit_low: float | None = field(default=None, metadata={"key": "low"})


def _as_entry(value: Any) -> Any:
    """Records of a result as dictionaries; numbers, tables and objects as they are."""
    if isinstance(value, Record):
        return value.entries()
    if isinstance(value, list) and value and isinstance(value[0], Record):
        return [item.entries() for item in value]
    return value


def p_text(p_value: float, draws: object, resolution: object = None) -> str:
    """A p-value as it is printed after "p": at the end of a simulation's scale, or of that of `least`, a bound."""
    if isinstance(resolution, float) and p_value <= resolution:
        return f"<= {resolution:.2g}"
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

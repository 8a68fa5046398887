"""One column of the user's table, as the metrics want it: numbers, or codes with levels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.codes.data import ColumnKind
from miscal.data.arrays import Array, Vector, factorise, flat, is_number, locked, named_columns
from miscal.data.checks import is_missing, numbers, refuse_rows
from miscal.data.column_types import ColumnType, column_type, kind_of, numpy_days
from miscal.data.errors import MixedTypes, check_named, refusal, refusing, visible, warn
from miscal.data.libraries import pa

LARGE = 1e7  # numbers beyond it are not named one by one
EXACT = 1 << 53  # whole numbers beyond it merge as float64
READABLE = "must hold numbers, text, truth values or dates"


@dataclass(frozen=True, eq=False)
class Column:
    """A column, converted once.

    Parameters
    ----------
    name : str
    kind : ColumnKind
        What differs by it is in its `type`.
    values : ndarray
        numeric: float64, NaN where missing. date: float64 days since 1970-01-01, NaN where missing.
        category, boolean: int32 codes into `levels`, -1 where missing.
    levels : tuple
        The levels in sorted order, so that codes do not depend on the order of rows (a stated order is kept).
    integer : bool
        The numbers were whole by type.
    """

    name: str
    kind: ColumnKind
    values: Array
    levels: tuple[Any, ...] = ()
    integer: bool = False

    def __post_init__(self) -> None:
        self.__dict__["values"] = locked(self.values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def type(self) -> ColumnType:
        """What differs by the kind of the column."""
        return column_type(self.kind)

    @property
    def nominal(self) -> bool:
        """Whether the values are codes of levels."""
        return self.type.categorical

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Where values are missing (made anew at each call)."""
        return self.values < 0 if self.nominal else np.isnan(self.values)

    @cached_property
    def whole(self) -> bool:
        """Whether all numbers are whole, by type or by value (below ten million), so that ranges name first and last.

        >>> column("age", [40.0, None, 31.0]).whole, column("score", [0.5, 1.0]).whole
        (True, False)
        """
        if self.integer or self.type.calendar or self.nominal:
            return self.integer
        known = self.values[~np.isnan(self.values)]
        return bool(known.size) and bool(np.all((known == np.floor(known)) & (np.abs(known) < LARGE)))

    def take(self, rows: Array) -> "Column":
        """Return the same column at some rows (indices or a mask); the levels stay."""
        return replace(self, values=self.values[rows])

    def as_levels(self) -> "Column":
        """Return the column as a category: each distinct number becomes a level.

        >>> column("hour", [23, 7, 7]).as_levels().levels
        (7, 23)
        """
        if self.nominal:
            return self
        codes, levels = factorise(self.values)
        shown = map(int, levels) if self.integer else levels
        return replace(self, kind=ColumnKind.CATEGORY, values=codes, levels=tuple(shown))

    def show(self, code: int) -> str:
        """Word one level for people."""
        return "missing" if code < 0 else str(self.levels[code])


def column(name: str, values: Any, where: str | None = None) -> Column:
    """Convert anything one-dimensional into a `Column`.

    Numbers become numeric (whole numbers of 2**53 or more a category, because float64 would merge them), text,
    categories and dictionaries categories, truth values boolean, dates and times dates. Values of mixed types are
    taken as text, with a warning. Infinite numbers are refused.

    Examples
    --------
    >>> state = column("state", ["NY", "CA", None, "NY"])
    >>> str(state.kind), state.values, state.levels
    ('category', array([ 1,  0, -1,  1], dtype=int32), ('CA', 'NY'))
    """
    if isinstance(values, Column):
        return replace(values, name=name)
    where = where or f"column '{name}'"
    vector = flat_or_text(values, where)
    if not isinstance(vector, np.ndarray):
        return _from_arrow(name, vector, where, getattr(values, "dtype", None))
    kind = vector.dtype.kind
    if kind == "b":
        return Column(name, ColumnKind.BOOLEAN, vector.astype(np.int32), (False, True))
    if kind in "Mm":
        return Column(name, *numpy_days(vector))
    return _numeric(name, vector, where, integer=kind in "iu")


def flat_or_text(values: Any, where: str) -> Vector:
    """As `flat`; values of mixed types are text, with a warning."""
    try:
        return flat(values, where)
    except MixedTypes as mixture:
        warn(f"{str(mixture).splitlines()[0]} Every value is taken as text")

        return pa.array([None if is_missing(value) else str(value) for value in values], pa.large_string())


def arrow_vector(values: Any, where: str) -> Any:
    """As `flat_or_text`, always an Arrow array."""
    made = flat_or_text(values, where)
    with refusing(READABLE, where):
        return made if isinstance(made, pa.Array) else pa.array(made, from_pandas=True)


def _from_arrow(name: str, vector: Any, where: str, given: Any) -> Column:
    is_, kind = pa.types, vector.type
    if is_number(kind):
        return _numeric(name, vector, where, integer=is_.is_integer(kind))
    stored = column_type(kind_of(kind))
    if stored.levels or not stored.categorical:  # what remains is text
        return Column(name, stored.kind, stored.values(vector), stored.levels)
    if is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_fixed_size_binary(kind):
        with refusing("must hold text in UTF-8", where, got="it holds other bytes", hint="re-encode it"):
            vector = vector.cast(pa.large_binary()).cast(pa.large_string())
    # The order that the user declared, by the type given: a pandas ordered categorical or a polars Enum.
    stated = getattr(given, "ordered", None) is True or type(given).__name__ == "Enum"
    order = list(getattr(given, "categories", ())) if stated else []
    codes, levels = factorise(vector, [*order, *map(str, order)], where)  # intervals have become text
    return Column(name, ColumnKind.CATEGORY, codes, tuple(levels))


def _numeric(name: str, vector: Vector, where: str, *, integer: bool) -> Column:
    values = numbers(vector, where, READABLE)
    if integer and np.fmax.reduce(np.abs(values), initial=0.0) >= EXACT:
        codes, levels = factorise(vector)
        return Column(name, ColumnKind.CATEGORY, codes, tuple(levels), integer=True)
    refuse_rows(np.isinf(values), "must hold finite numbers", where, values, "mark missing values as NaN")
    return Column(name, ColumnKind.NUMERIC, values, integer=integer)


class Columns(Mapping[str, Column]):
    """The columns beside the predictions, converted when first asked for."""

    def __init__(self, raw: Mapping[str, Any], rows: Array | None = None) -> None:
        self._raw = raw
        self._rows = rows
        self._made: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        if name not in self._made:
            made = column(name, self._raw[name])
            self._made[name] = made if self._rows is None else made.take(self._rows)
        return self._made[name]

    def find(self, name: str) -> Column:
        """Return a column, or refuse an unknown name with the nearest one."""
        check_named([name], self._raw, "the table")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def __repr__(self) -> str:
        return f"Columns({', '.join(map(visible, self._raw))})"

    def take(self, rows: Array) -> "Columns":
        """Return the columns at some rows; levels and codes stay those of all rows."""
        return Columns(self, rows)


def columns_given(table: Any, where: str, rows: int | None, what: str) -> Columns:
    """The columns of a table or an array, of so many rows: `what` says so where one is not."""
    named: Any = table if isinstance(table, Columns) else named_columns(table, where)
    for name in named if rows is not None else ():
        with refusing("must hold one value a row", f"{where} column '{name}'"):
            length = len(named[name])
        if length != rows:
            raise refusal(what, f"{where} column '{name}'", got=f"{length:,} against {rows:,}")
    return Columns(named)

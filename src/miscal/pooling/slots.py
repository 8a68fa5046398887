"""Many expressions over a few columns, compiled: each value of a column has a slot, each expression a table of slots.

All that expressions say about a number is how it compares with the numbers they name, all that they say about a level
is which of the named ones it is. So a column needs one slot between any two named numbers, one for each named number or
level, one for all other levels and one for missing values. A row belongs to a subpopulation where the tables of all its
columns hold at the row's slots: what an expression means is asked of `pooling.expressions` once a slot, not once a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from miscal.data.columns import Column, Columns
from miscal.data.errors import refusal
from miscal.pooling.expressions import _Reader

NOMINAL = ("category", "boolean")
OTHER = "\x00 any other level"  # no level of text from a table starts with a NUL and a space


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots of one column.

    numbers : named numbers in order; slot 2j + 1 is the j-th, slot 2j what lies before it; the last slot is missing
    levels : named levels of a nominal column, one slot each, then one for all others; the last slot is missing
    merged : the slot that stands for each of these, where no expression tells some of them apart
    """

    name: str
    kind: str
    numbers: np.ndarray = field(default_factory=lambda: np.empty(0))
    levels: tuple[str, ...] = ()
    merged: np.ndarray | None = None

    @property
    def nominal(self) -> bool:
        return self.kind in NOMINAL

    @property
    def named(self) -> int:
        """How many slots before any are merged."""
        return len(self.levels) + 2 if self.nominal else 2 * self.numbers.size + 2

    @property
    def count(self) -> int:
        """How many slots."""
        return self.named if self.merged is None else int(self.merged.max()) + 1

    def representatives(self) -> Column:
        """A column with one row a slot."""
        if self.nominal:
            codes = np.append(np.arange(len(self.levels) + 1), -1).astype(np.int32)
            return Column(self.name, "category", codes, (*self.levels, OTHER))
        values = np.empty(self.named)
        values[1:-1:2] = self.numbers
        values[2:-2:2] = self.numbers[:-1] / 2 + self.numbers[1:] / 2
        values[0], values[-2], values[-1] = -np.inf, np.inf, np.nan
        return Column(self.name, "date" if self.kind == "date" else "numeric", values)


class _Recording(_Reader):
    """Reads an expression only to learn which numbers and levels it names."""

    def __init__(self, text: str, columns: Columns) -> None:
        super().__init__(text, columns, strict=False)
        self.named: dict[str, list[Any]] = {}

    def compare(self, column: Column, sign: str, token: tuple[str, str]) -> np.ndarray:
        found = super().compare(column, sign, token)
        self.named.setdefault(column.name, []).append(self.number(token))
        return found

    def among(self, column: Column, values: list[str]) -> np.ndarray:
        found = super().among(column, values)
        meant: list[Any] = list(values) if column.nominal else [self.number(("word", value)) for value in values]
        self.named.setdefault(column.name, []).extend(meant)
        return found

    def column(self) -> Column:
        found = super().column()
        self.named.setdefault(found.name, [])
        return found


class _Tabling(_Reader):
    """Reads an expression on the representatives: one table a column."""

    def tables(self) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        while True:
            start = self.place
            table = self.clause()
            first = start + (self.tokens[start] == ("mark", "("))
            name = self.column_of(first).name
            found[name] = found[name] & table if name in found else table
            if self.look()[0] == "end":
                return found
            self.expect("and")


@dataclass(frozen=True, eq=False)
class Compiled:
    """Expressions as tables: `tables[k]` has, by place of a column in `columns`, which of its slots belong."""

    columns: tuple[Slots, ...]
    tables: tuple[dict[int, np.ndarray], ...]

    @cached_property
    def atoms(self) -> float:
        """How many combinations of slots there are."""
        return float(np.prod([float(one.count) for one in self.columns])) if self.columns else 1.0

    def subset(self, chosen: Sequence[int]) -> Compiled:
        """Some of the expressions, and the columns that they speak of."""
        used = sorted({j for k in chosen for j in self.tables[k]})
        place = {j: i for i, j in enumerate(used)}
        tables = tuple({place[j]: table for j, table in self.tables[k].items()} for k in chosen)
        return Compiled(tuple(self.columns[j] for j in used), tables)

    def contains(self, outer: int, inner: int) -> bool:
        """Whether the rows of one are known to be among those of another, table by table."""
        tables = self.tables[inner]
        return all(j in tables and not (tables[j] & ~table).any() for j, table in self.tables[outer].items())


def compiled(expressions: Sequence[str], kinds: dict[str, str]) -> Compiled:
    """Compile expressions over columns of these kinds ("numeric", "integer", "date", "category" or "boolean")."""
    empty = Columns({name: Slots(name, kind).representatives() for name, kind in kinds.items() if kind})
    named: dict[str, set[Any]] = {}
    for text in expressions:
        if not isinstance(text, str) or not text.strip():
            raise refusal("must say which rows belong", where="an expression", got=f"got {text!r}")
        reader = _Recording(text, empty)
        reader.read()
        for name, values in reader.named.items():
            named.setdefault(name, set()).update(values)
    slots = tuple(_slots(name, kinds[name], values) for name, values in named.items())
    place = {one.name: j for j, one in enumerate(slots)}
    columns = Columns({one.name: one.representatives() for one in slots})
    tables = []
    for text in expressions:
        found = _Tabling(text, columns, False).tables()
        tables.append({place[name]: np.ascontiguousarray(table) for name, table in found.items()})
    return _merged(slots, tables)


def _merged(slots: tuple[Slots, ...], tables: list[dict[int, np.ndarray]]) -> Compiled:
    """Slots that belong to the same tables become one."""
    made = []
    for j, one in enumerate(slots):
        own = [table[j] for table in tables if j in table]
        _, first, merged = np.unique(np.stack(own), axis=1, return_index=True, return_inverse=True)
        made.append(replace(one, merged=merged.reshape(-1).astype(np.int32)))
        for table in tables:
            if j in table:
                table[j] = table[j][first]
    return Compiled(tuple(made), tuple(tables))


def _slots(name: str, kind: str, values: set[Any]) -> Slots:
    if kind in NOMINAL:
        return Slots(name, kind, levels=tuple(sorted(values)))
    return Slots(name, kind, np.array(sorted(float(value) + 0.0 for value in values), dtype=np.float64))

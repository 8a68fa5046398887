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
from miscal.pooling.expressions import Condition, conditions, number_of, satisfying

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


def _named_values(one: Condition, column: Column, text: str) -> list[Any]:
    """The numbers or levels that a condition names; one that does not suit the column is refused."""
    satisfying(one, column, text, strict=False)
    return list(one.values) if column.nominal else [number_of(value) for value in one.values]


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
        for one in conditions(text, empty):
            values = _named_values(one, empty.find(one.column), text)
            named.setdefault(one.column, set()).update(values)
    slots = tuple(_slots(name, kinds[name], values) for name, values in named.items())
    place = {one.name: j for j, one in enumerate(slots)}
    columns = Columns({one.name: one.representatives() for one in slots})
    tables = []
    for text in expressions:
        found: dict[int, np.ndarray] = {}
        for one in conditions(text, columns):
            table = satisfying(one, columns[one.column], text, strict=False)
            before = found.get(place[one.column])
            found[place[one.column]] = np.ascontiguousarray(table if before is None else before & table)
        tables.append(found)
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

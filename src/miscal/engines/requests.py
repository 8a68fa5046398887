"""Cells that can be asked for, and how each row finds its own.

A request says which cells: ranges of a column or of the score, levels, combinations of such, or conjunctions of
conditions, whose cells may overlap. Its coder gives each row of a batch the number of its cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from miscal.data.vectors import arrow_of
from miscal.engines.roles import Batch
from miscal.engines.sums import EdgeIndex
from miscal.pooling.cells import Cells, Levels, Product, Ranges
from miscal.pooling.condition import NOMINAL, Condition, Conjunction

SCORE = ""  # the name of the prediction itself
ATOMS = 1 << 14  # combinations of slots up to which conjunctions on the same columns are added together
OUT = -1


@dataclass(frozen=True, eq=False)
class RangeCells:
    """Right-closed ranges between increasing edges of a number, a date or the score; missing values have a cell."""

    name: str
    edges: np.ndarray

    @property
    def columns(self) -> tuple[str, ...]:
        return () if self.name == SCORE else (self.name,)


@dataclass(frozen=True, eq=False)
class LevelCells:
    """Levels of a column, and missing values: all that occur, up to `max_levels`, or the given ones alone."""

    name: str
    max_levels: int = 1_000_000
    levels: tuple[str, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True, eq=False)
class CrossedCells:
    """Every combination of cells of two or three columns; levels must be given, rows of others are left out."""

    parts: tuple[RangeCells | LevelCells, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.columns)


@dataclass(frozen=True, eq=False)
class ConditionCells:
    """One cell for each conjunction; they may overlap."""

    conjunctions: tuple[Conjunction, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for one in self.conjunctions for name in one.columns))


Request = RangeCells | LevelCells | CrossedCells | ConditionCells


class RangeCoder:
    """Cells 0, 1, ... of ranges; the last one is that of missing values."""

    def __init__(self, request: RangeCells) -> None:
        self.request = request
        self.index = EdgeIndex(np.asarray(request.edges, np.float64)[1:-1])
        self.count = len(request.edges)

    def fill(self, batch: Batch, out: np.ndarray) -> None:
        name = self.request.name
        values = batch.pair.predicted if name == SCORE else batch.numbers(name)
        self.index.codes(values, self.count - 1, out)

    def cells(self, rows: np.ndarray) -> tuple[np.ndarray, Cells]:
        """Where each cell goes, and what the cells are, given the rows of each."""
        missing, groups = bool(rows[self.count - 1]), np.arange(self.count)
        groups[-1] = self.count - 1 if missing else OUT
        name = "score" if self.request.name == SCORE else self.request.name
        return groups, Ranges(np.asarray(self.request.edges, np.float64), missing, name)


class LevelCoder:
    """Cell 0 is that of missing values, level i has cell i + 1; with given levels the last cell is that of others."""

    def __init__(self, request: LevelCells, kind: str) -> None:
        self.request, self.boolean = request, kind == "boolean"
        self.given = request.levels is not None
        self.names: Any = None  # an Arrow array of the levels in order of appearance
        self.overflow = False
        self.count = 1
        if self.boolean or self.given:
            import pyarrow as pa

            self.names = pa.array(["False", "True"] if self.boolean and not self.given else list(request.levels or ()))
            self.count += len(self.names) + self.given
        self._last: tuple[Any, np.ndarray] | None = None  # levels of a batch, all of them known, and their cells

    def fill(self, batch: Batch, out: np.ndarray) -> None:
        codes, names, every = batch.levels(self.request.name)
        out[:] = self._table(every, names)[codes]

    def _table(self, codes: np.ndarray, names: Any) -> np.ndarray:
        """The cell of each of a batch's levels; a last entry serves missing values."""
        if self._last is not None and names.equals(self._last[0]):  # as writers of categories repeat them
            return self._last[1]
        cells = self.find(names)
        if not self.given and not self.overflow and (cells == OUT).any():
            used = np.zeros(len(names) + 1, bool)
            used[codes] = True
            self.learn(names.take(arrow_of(np.flatnonzero(used[:-1] & (cells == OUT)))))
            cells = self.find(names)
        complete = not (cells == OUT).any()
        table = np.append(np.where(cells == OUT, self.count - 1 if self.given else 0, cells), 0).astype(np.int32)
        if complete or self.given:
            self._last = names, table
        return table

    def find(self, names: Any) -> np.ndarray:
        """The cell of each name, OUT where it is not known, 0 where it is missing."""
        import pyarrow.compute as pc

        if self.names is None or len(self.names) == 0:
            found = np.full(len(names), OUT, np.int64)
        else:
            wanted, known = _alike(names, self.names)
            places = pc.index_in(wanted, value_set=known).fill_null(-2)
            found = places.to_numpy(zero_copy_only=False).astype(np.int64) + 1
        if names.null_count:
            found[names.is_null().to_numpy(zero_copy_only=False)] = 0
        return found

    def learn(self, names: Any) -> None:
        """Add levels that occur; more than are allowed end it."""
        import pyarrow as pa

        new = names.drop_null().unique()
        if len(new) == 0:
            return
        known = new if self.names is None else pa.concat_arrays(_alike(self.names, new))
        if len(known) > self.request.max_levels:
            self.overflow = True
            return
        self.names = known
        self.count = max(self.count, len(known) + 1)

    def cells(self, rows: np.ndarray) -> tuple[np.ndarray, Cells]:
        import pyarrow.compute as pc

        missing, groups = bool(rows[0]), np.full(self.count, OUT)
        levels = [] if self.names is None else self.names.to_pylist()
        order = list(range(len(levels)))
        if levels and not self.given:
            order = pc.array_sort_indices(self.names).to_pylist()
        groups[np.array(order, np.int64) + 1] = np.arange(len(levels))
        if missing:
            groups[0] = len(levels)
        return groups, Levels(tuple(str(levels[i]) for i in order), missing=missing, name=self.request.name)


def _alike(one: Any, two: Any) -> tuple[Any, Any]:
    """Two arrays of levels of one type: whole numbers here and fractions there are numbers, else they are text."""
    import pyarrow as pa

    if one.type == two.type:
        return one, two
    text = pa.types.is_string(one.type) or pa.types.is_string(two.type)
    kind = pa.string() if text else pa.float64()
    return one.cast(kind), two.cast(kind)


class CrossedCoder:
    """Combinations of the cells of parts, the last part running fastest."""

    def __init__(self, parts: Sequence[RangeCoder | LevelCoder]) -> None:
        self.parts = list(parts)
        self.count = int(np.prod([part.count for part in parts]))

    def fill(self, batch: Batch, out: np.ndarray) -> None:
        own = np.empty(batch.rows, np.int32)
        self.parts[0].fill(batch, out)
        for part in self.parts[1:]:
            part.fill(batch, own)
            out *= np.int32(part.count)
            out += own

    def cells(self, rows: np.ndarray) -> tuple[np.ndarray, Cells]:
        """Where the combinations go: a part has a cell for missing values where any row has one."""
        box = rows[: self.count].reshape([part.count for part in self.parts])
        groups, cells = np.zeros(1, np.int64), []
        for axis, part in enumerate(self.parts):
            own, made = part.cells(np.moveaxis(box, axis, 0).reshape(part.count, -1).sum(axis=1))
            both = groups[:, None] * made.count + own[None, :]
            groups = np.where((groups[:, None] < 0) | (own[None, :] < 0), OUT, both).reshape(-1)
            cells.append(made)
        return groups, Product(tuple(cells))


class Slots:
    """What conditions tell apart of one column: stretches between the numbers they name, or the levels they name."""

    def __init__(self, name: str, kind: str, conditions: Sequence[Condition]) -> None:
        self.name, self.nominal = name, kind in NOMINAL
        if self.nominal:
            named = {str(level) for one in conditions for level in (*(one.levels or ()), *(one.excluded or ()))}
            self.levels = tuple(sorted(named))
            self.coder: RangeCoder | LevelCoder = LevelCoder(LevelCells(name, levels=self.levels), kind)
        else:
            self.values = _named_numbers(conditions)
            self.coder = RangeCoder(RangeCells(name, np.concatenate([[-np.inf], self.values, [np.inf]])))

    def table(self, one: Condition) -> np.ndarray:
        """Which slots belong to a condition."""
        if not self.nominal:
            # One number in each stretch: its end, which belongs to it; the one above all others; and a missing one.
            return one.numbers(np.concatenate([self.values, [np.inf, np.nan]]))
        return np.concatenate([[one.missing], one.slots(self.levels), one.slots(["\0 any other level"])])


def _named_numbers(conditions: Sequence[Condition]) -> np.ndarray:
    found = [end for one in conditions for end in (one.low, one.high) if end is not None]
    for one in conditions:
        for level in (*(one.levels or ()), *(one.excluded or ())):
            found += [float(level), float(np.nextafter(float(level), -np.inf))]
    return np.unique(np.array(found, np.float64))


class AtomCoder:
    """Conjunctions on the same columns: combinations of slots, of which each conjunction holds some."""

    def __init__(self, slots: Sequence[Slots], tables: Sequence[Sequence[np.ndarray]]) -> None:
        """`tables[k][j]`: which slots of column j belong to conjunction k."""
        self.slots, self.places, merged = list(slots), [], []
        for j in range(len(slots)):
            own = np.stack([table[j] for table in tables])
            _, first, place = np.unique(own, axis=1, return_index=True, return_inverse=True)
            self.places.append(place.reshape(-1).astype(np.int32))
            merged.append(first)
        self.shape = tuple(first.size for first in merged)
        self.count = int(np.prod([float(size) for size in self.shape]))
        if self.count <= ATOMS or len(tables) == 1:
            cut = [[table[j][merged[j]] for j in range(len(slots))] for table in tables]
            self.members = [_outer(one) for one in cut]

    def fill(self, batch: Batch, out: np.ndarray) -> None:
        out[:] = 0
        for one, place, size in zip(self.slots, self.places, self.shape, strict=True):
            out *= np.int32(size)
            out += place[_slot_codes(batch, one)]


def _slot_codes(batch: Batch, slots: Slots) -> np.ndarray:
    """The slots of a batch's rows, found once for all conjunctions."""
    found = batch.notes.get(slots)
    if found is None:
        found = np.empty(batch.rows, np.int32)
        slots.coder.fill(batch, found)
        batch.notes[slots] = found
    return np.asarray(found)


def _outer(tables: Sequence[np.ndarray]) -> np.ndarray:
    made = np.ones(1, bool)
    for table in tables:
        made = np.logical_and.outer(made, table).reshape(-1)
    return made


def atom_coders(conjunctions: Sequence[Conjunction], kinds: dict[str, str]) -> list[tuple[list[int], AtomCoder]]:
    """Conjunctions in groups on the same columns, with few combinations each."""
    conditions = [condition for one in conjunctions for condition in one.conditions]
    names = dict.fromkeys(condition.column for condition in conditions)
    slots = {name: Slots(name, kinds[name], [c for c in conditions if c.column == name]) for name in names}
    keys = [tuple(sorted(one.columns)) for one in conjunctions]
    made: list[tuple[list[int], AtomCoder]] = []
    for names_of_group, members in groupby(sorted(range(len(keys)), key=keys.__getitem__), key=keys.__getitem__):
        own = [slots[name] for name in names_of_group]
        waiting = [list(members)]
        while waiting:
            group = waiting.pop()
            coder = AtomCoder(own, [[_column_table(conjunctions[k], one) for one in own] for k in group])
            if coder.count > ATOMS and len(group) > 1:
                waiting += [group[len(group) // 2 :], group[: len(group) // 2]]
            else:
                made.append((group, coder))
    return made


def _column_table(conjunction: Conjunction, slots: Slots) -> np.ndarray:
    tables = [slots.table(one) for one in conjunction.conditions if one.column == slots.name]
    return np.asarray(np.logical_and.reduce(tables))


def coder_of(request: RangeCells | LevelCells | CrossedCells, kinds: dict[str, str]) -> Any:
    """What gives each row the cell of a request."""
    if isinstance(request, CrossedCells):
        return CrossedCoder([coder_of(part, kinds) for part in request.parts])
    return RangeCoder(request) if isinstance(request, RangeCells) else LevelCoder(request, kinds[request.name])

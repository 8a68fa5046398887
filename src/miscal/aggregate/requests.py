"""Cells that can be asked for, and how each row finds its own.

A request says which cells: ranges of a column or of the score, levels, combinations of such, or conjunctions of
conditions, whose cells may overlap. Its coder gives each row of a batch the number of its cell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.aggregate.column_roles import Batch, places_of
from miscal.cells.condition import Conjunction
from miscal.cells.partitions import OF_SCORE, Cells, Levels, Product, Ranges
from miscal.cells.ranges import EdgeIndex
from miscal.data.arrays import Array, arrow_of, numpy_of, texts_of
from miscal.data.libraries import pa, pc
from miscal.kernels.order import read_off

SCORE = ""  # the name of the prediction itself
TOGETHER = 8  # conjunctions that are added together
OUT = -1


@dataclass(frozen=True, eq=False)
class RangeCells:
    """Right-closed ranges between increasing edges of a number, a date or the score; missing values have the last."""

    name: str
    edges: Array

    @property
    def columns(self) -> tuple[str, ...]:
        return () if self.name == SCORE else (self.name,)

    @property
    def inner(self) -> Array:
        """The edges that tell its cells apart."""
        return np.asarray(self.edges, np.float64)[1:-1]


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


class Lookup:
    """All edges of one column that a pass asks for: a row is looked up once, and all ranges are read off its place."""

    def __init__(self, name: str, edges: Array) -> None:
        self.name, self.edges, self._index = name, edges, EdgeIndex(edges)

    def places(self, batch: Batch) -> Array:
        """How many edges lie strictly below each value; the place of a missing value is the last."""
        if self not in batch.notes:
            batch.notes[self] = np.empty(batch.rows, np.int32)
            values = batch.pair.predicted if self.name == SCORE else batch.numbers(self.name)
            self._index.codes(values, batch.notes[self])
        return batch.notes[self]

    def numbers(self, inner: Array) -> Array:
        """The number of the range, between some of the edges, that each place lies in."""
        ends = np.searchsorted(inner, self.edges, side="right")
        return np.concatenate([[0], ends, [inner.size + 1]]).astype(np.int32)


def lookups_of(requests: Sequence[Request], borders: Array | None) -> dict[str, Lookup]:
    """The edges of each column that requests have ranges of, and those of the score that `borders` adds."""
    edges: dict[str, list[Array]] = {} if borders is None else {SCORE: [borders]}
    for request in requests:
        for part in request.parts if isinstance(request, CrossedCells) else (request,):
            if isinstance(part, RangeCells):
                edges.setdefault(part.name, []).append(part.inner)
    return {name: Lookup(name, np.unique(np.concatenate(found))) for name, found in edges.items()}


class RangeCoder:
    """The range of each row, read off its place among all edges of the column."""

    overflow = False

    def __init__(self, request: RangeCells, lookup: Lookup) -> None:
        self.request, self.lookup, self.count = request, lookup, len(request.edges)
        self._numbers = lookup.numbers(request.inner)
        self._all = self._numbers.size == self.count  # edges of the column: its places are the cells

    def put(self, batch: Batch, out: Array, times: int = 0) -> None:
        """Write the cell of each row, or cross it with `times` as many cells that are there."""
        places = self.lookup.places(batch)
        if self._all and not times:
            out[:] = places
        else:
            read_off(places, self._numbers, times, out)

    def cells(self, rows: Array) -> tuple[Array, Cells]:
        """Where each cell goes, and what the cells are, given the rows of each."""
        missing, groups, request = bool(rows[self.count - 1]), np.arange(self.count), self.request
        groups[-1] = self.count - 1 if missing else OUT
        return groups, Ranges(np.asarray(request.edges, np.float64), missing, request.name or OF_SCORE)


class LevelCoder:
    """Cell 0 is that of missing values, level i has cell i + 1; with given levels the last cell is that of others."""

    def __init__(self, request: LevelCells) -> None:
        self.request, self.given, self.overflow = request, request.levels is not None, False
        self.names: Any = texts_of(request.levels or ())  # an Arrow array, levels in order of appearance
        # Levels of a batch, all of them known, and their cells.
        self._last: tuple[Any, Array] | None = None

    @property
    def count(self) -> int:
        return 1 + len(self.names) + self.given

    def put(self, batch: Batch, out: Array, times: int = 0) -> None:
        codes, names, occurring = batch.levels(self.request.name)
        if self._last is None or not names.equals(self._last[0]):  # writers of categories repeat them
            cells = self.register_levels(names, occurring)
            unknown, others = cells == OUT, self.count - 1 if self.given else 0
            table = np.where(unknown, others, cells).astype(np.int32)
            self._last = (names, table) if self.given or not unknown.any() else None
        else:
            table = self._last[1]
        read_off(codes, table, times, out)

    def register_levels(self, names: Any, occurring: Array) -> Array:
        """The cell of each name and of missing values, OUT where it is not known; those that occur are added.

        More of them than are allowed end it.
        """
        cells = self._find(names)
        if self.given or self.overflow:
            return cells
        used = np.zeros(cells.size, bool)
        used[occurring] = True
        unknown = np.flatnonzero(used & (cells == OUT))
        if unknown.size == 0:
            return cells
        new = names.take(arrow_of(unknown)).unique()
        every = pa.concat_arrays(_alike(self.names, new)) if len(self.names) else new
        self.overflow = len(every) > self.request.max_levels
        self.names = self.names if self.overflow else every
        return self._find(names)

    def _find(self, names: Any) -> Array:
        return places_of(*_alike(names, self.names)) + 1

    def cells(self, rows: Array) -> tuple[Array, Cells]:
        missing, groups = bool(rows[0]), np.full(rows.size, OUT)
        order = np.arange(len(self.names))
        if not self.given:
            order = numpy_of(pc.array_sort_indices(self.names)).astype(np.int64)
        groups[order + 1] = np.arange(order.size)
        if missing:
            groups[0] = order.size
        levels = self.names.take(arrow_of(order)).to_pylist()
        return groups, Levels(tuple(map(str, levels)), missing=missing, name=self.request.name)


def _alike(one: Any, two: Any) -> list[Any]:
    """Two arrays of levels of one type: whole numbers here and fractions there are numbers, else they are text."""
    both, types = [one, two], [one.type, two.type]
    if one.type == two.type:
        return both
    if any(map(pa.types.is_string, types)):
        return [
            texts_of([*map(str, each.to_pylist())]) if each.type != pa.string() else each for each in both
        ]
    real = any(map(pa.types.is_floating, types))
    return [each.cast(pa.float64() if real else pa.uint64()) for each in both]


class CrossedCoder:
    """Combinations of the cells of parts, the last part running fastest."""

    overflow = False

    def __init__(self, parts: Sequence[RangeCoder | LevelCoder]) -> None:
        self.parts = list(parts)
        self.count = int(np.prod([part.count for part in parts]))

    def put(self, batch: Batch, out: Array) -> None:
        for number, part in enumerate(self.parts):
            part.put(batch, out, part.count if number else 0)

    def cells(self, rows: Array) -> tuple[Array, Cells]:
        """Where the combinations go: a part has a cell for missing values where any row has one."""
        box = rows.reshape([part.count for part in self.parts])
        groups, cells = np.zeros(1, np.int64), []
        for axis, part in enumerate(self.parts):
            own, made = part.cells(np.moveaxis(box, axis, 0).reshape(part.count, -1).sum(axis=1))
            groups = groups[:, None]
            out = (groups < 0) | (own < 0)
            groups = np.where(out, OUT, groups * made.count + own).reshape(-1)
            cells.append(made)
        return groups, Product(tuple(cells))


class ConditionCoder:
    """A few conjunctions, which may overlap: the bits of a row's cell say which of them it satisfies."""

    overflow = False

    def __init__(self, conjunctions: Sequence[Conjunction]) -> None:
        self.conjunctions = list(conjunctions)
        self.count = 1 << len(self.conjunctions)

    def put(self, batch: Batch, out: Array) -> None:
        out[:] = 0
        for place, one in enumerate(self.conjunctions):
            out |= batch.inside(one).astype(np.int32) << place

    def members(self) -> Array:
        """Which cells are of which conjunction."""
        return np.arange(self.count) >> np.arange(len(self.conjunctions))[:, None] & 1


def coders_of(request: Request, lookups: Mapping[str, Lookup]) -> Sequence[Any]:
    """What gives each row its cells of a request."""
    if isinstance(request, ConditionCells):
        every = request.conjunctions
        starts = range(0, max(len(every), 1), TOGETHER)
        return [ConditionCoder(every[start : start + TOGETHER]) for start in starts]
    if isinstance(request, CrossedCells):
        return [CrossedCoder([coders_of(part, lookups)[0] for part in request.parts])]
    if isinstance(request, RangeCells):
        return [RangeCoder(request, lookups[request.name])]
    return [LevelCoder(request)]

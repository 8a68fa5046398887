"""Requests for cells, and the coders that give each row of a batch its cell.

A request says which cells are wanted: ranges of a column or of the score, levels of a column, combinations of such, or
conjunctions of conditions, whose cells may overlap. Its coder gives each row of a batch the number of its cell.

A coder has `count`, the number of its cells; `overflow`, whether there were more levels than allowed; `put`, which
writes the cell of each row; and `cells`, which tells where each of its cells goes in the final tally.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.aggregate.column_roles import Batch, positions_of
from miscal.cells.condition import Conjunction
from miscal.cells.partitions import OF_SCORE, Cells, Levels, Product, Ranges
from miscal.cells.ranges import EdgeIndex
from miscal.data.arrays import Array, arrow_of, numpy_of, texts_of
from miscal.data.libraries import pa, pc
from miscal.kernels.order import read_off

SCORE = ""  # the name that stands for the prediction itself
CONJUNCTIONS_PER_CODER = 8  # 2**8 cells each
NO_CELL = -1


@dataclass(frozen=True, eq=False)
class RangeCells:
    """Right-closed ranges of a number, a date or the score, and a last cell for missing values.

    Attributes
    ----------
    name : str
        The column, or `SCORE`.
    edges : ndarray
        Increasing edges, the outermost included.
    """

    name: str
    edges: Array

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table that are read."""
        return () if self.name == SCORE else (self.name,)

    @property
    def inner_edges(self) -> Array:
        """The edges that separate its cells."""
        return np.asarray(self.edges, np.float64)[1:-1]


@dataclass(frozen=True, eq=False)
class LevelCells:
    """One cell per level of a column, and one for missing values.

    Attributes
    ----------
    name : str
        The column.
    max_levels : int
        With more levels the request has no tally, and the column is reported as excluded.
    levels : tuple of str, optional
        The levels that get a cell; by default all that occur.
    """

    name: str
    max_levels: int = 1_000_000
    levels: tuple[str, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True, eq=False)
class CrossedCells:
    """Every combination of the cells of two or three columns.

    Attributes
    ----------
    parts : tuple of RangeCells or LevelCells
        Levels must be given; rows with other levels are left out.
    """

    parts: tuple[RangeCells | LevelCells, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for part in self.parts for name in part.columns)


@dataclass(frozen=True, eq=False)
class ConditionCells:
    """One cell for each conjunction of conditions; they may overlap."""

    conjunctions: tuple[Conjunction, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        names = (name for conjunction in self.conjunctions for name in conjunction.columns)
        return tuple(dict.fromkeys(names))


Request = RangeCells | LevelCells | CrossedCells | ConditionCells


class EdgePositions:
    """All edges of one column that a pass asks for.

    The position of a value among them is found once per batch; the number of its range, for every request that has
    ranges of the column, is then read off that position.
    """

    def __init__(self, name: str, edges: Array) -> None:
        self.name, self.edges, self._index = name, edges, EdgeIndex(edges)

    def positions(self, batch: Batch) -> Array:
        """How many edges lie strictly below each value; a missing value has the last position."""
        if self not in batch.cache:
            batch.cache[self] = np.empty(batch.rows, np.int32)
            values = batch.target_data.predicted if self.name == SCORE else batch.numbers(self.name)
            self._index.codes(values, batch.cache[self])
        return batch.cache[self]

    def range_numbers(self, inner_edges: Array) -> Array:
        """For each position, the number of its range between some of the edges."""
        ends = np.searchsorted(inner_edges, self.edges, side="right")
        return np.concatenate([[0], ends, [inner_edges.size + 1]]).astype(np.int32)


def edge_positions(
    requests: Sequence[Request], score_borders: Array | None = None
) -> dict[str, EdgePositions]:
    """The edges of each column that requests have ranges of; `score_borders` are further edges of the score."""
    edges: dict[str, list[Array]] = {} if score_borders is None else {SCORE: [score_borders]}
    for request in requests:
        for part in request.parts if isinstance(request, CrossedCells) else (request,):
            if isinstance(part, RangeCells):
                edges.setdefault(part.name, []).append(part.inner_edges)
    return {name: EdgePositions(name, np.unique(np.concatenate(arrays))) for name, arrays in edges.items()}


class RangeCoder:
    """The range of each row, read off its position among all edges of the column."""

    overflow = False

    def __init__(self, request: RangeCells, positions: EdgePositions) -> None:
        self.request, self._positions, self.count = request, positions, len(request.edges)
        self._numbers = positions.range_numbers(request.inner_edges)
        # No other request has ranges of this column: the positions are the cells.
        self._position_is_cell = self._numbers.size == self.count

    def put(self, batch: Batch, out: Array, times: int = 0) -> None:
        """Write the cell of each row to `out`; with `times`, first multiply what stands there by it (crossing)."""
        positions = self._positions.positions(batch)
        if self._position_is_cell and not times:
            out[:] = positions
        else:
            read_off(positions, self._numbers, times, out)

    def cells(self, rows: Array) -> tuple[Array, Cells]:
        """Where each cell goes, and what the cells are, given the rows of each."""
        request, missing = self.request, bool(rows[self.count - 1])
        targets = np.arange(self.count)
        targets[-1] = self.count - 1 if missing else NO_CELL
        return targets, Ranges(np.asarray(request.edges, np.float64), missing, request.name or OF_SCORE)


class LevelCoder:
    """The level of each row: cell 0 for missing values, cell i + 1 for level i.

    With given levels the last cell is that of all others.
    """

    def __init__(self, request: LevelCells) -> None:
        self.request, self.given, self.overflow = request, request.levels is not None, False
        self.names: Any = texts_of(request.levels or ())  # an Arrow array, levels in order of appearance
        # The levels of the last batch if all of them were known, and their cells: dictionaries are often repeated.
        self._last: tuple[Any, Array] | None = None

    @property
    def count(self) -> int:
        return 1 + len(self.names) + self.given

    def put(self, batch: Batch, out: Array, times: int = 0) -> None:
        """Write the cell of each row to `out`; with `times`, first multiply what stands there by it (crossing)."""
        codes, names, occurring = batch.levels(self.request.name)
        if self._last is None or not names.equals(self._last[0]):
            cells = self.register_levels(names, occurring)
            unknown, others = cells == NO_CELL, self.count - 1 if self.given else 0
            cell_of_code = np.where(unknown, others, cells).astype(np.int32)
            self._last = (names, cell_of_code) if self.given or not unknown.any() else None
        else:
            cell_of_code = self._last[1]
        read_off(codes, cell_of_code, times, out)

    def register_levels(self, names: Any, occurring: Array) -> Array:
        """Add the names that occur to the levels; the cell of each name and, last, that of missing values.

        A name that is not known has `NO_CELL`. No name is added once there are more than allowed.
        """
        cells = self._cells_of(names)
        if self.given or self.overflow:
            return cells
        occurs = np.zeros(cells.size, bool)
        occurs[occurring] = True
        unknown = np.flatnonzero(occurs & (cells == NO_CELL))
        if unknown.size == 0:
            return cells
        new = names.take(arrow_of(unknown)).unique()
        levels = pa.concat_arrays(_same_type(self.names, new)) if len(self.names) else new
        self.overflow = len(levels) > self.request.max_levels
        self.names = self.names if self.overflow else levels
        return self._cells_of(names)

    def _cells_of(self, names: Any) -> Array:
        return positions_of(*_same_type(names, self.names)) + 1

    def cells(self, rows: Array) -> tuple[Array, Cells]:
        """Where each cell goes, and what the cells are, given the rows of each; levels that occur are sorted."""
        missing, targets = bool(rows[0]), np.full(rows.size, NO_CELL)
        order = np.arange(len(self.names))
        if not self.given:
            order = numpy_of(pc.array_sort_indices(self.names)).astype(np.int64)
        targets[order + 1] = np.arange(order.size)
        if missing:
            targets[0] = order.size
        levels = self.names.take(arrow_of(order)).to_pylist()
        return targets, Levels(tuple(map(str, levels)), missing=missing, name=self.request.name)


def _same_type(left: Any, right: Any) -> list[Any]:
    """Two arrays of levels in one type: integers and fractions as numbers; if either is text, both as text."""
    arrays, types = [left, right], [left.type, right.type]
    if left.type == right.type:
        return arrays
    if any(map(pa.types.is_string, types)):
        return [
            array if array.type == pa.string() else texts_of([*map(str, array.to_pylist())])
            for array in arrays
        ]
    real = any(map(pa.types.is_floating, types))
    return [array.cast(pa.float64() if real else pa.uint64()) for array in arrays]


class CrossedCoder:
    """Combinations of the cells of several coders, the last of them varying fastest."""

    overflow = False

    def __init__(self, parts: Sequence[RangeCoder | LevelCoder]) -> None:
        self.parts = list(parts)
        self.count = int(np.prod([part.count for part in parts]))

    def put(self, batch: Batch, out: Array) -> None:
        """Write the cell of each row to `out`."""
        for number, part in enumerate(self.parts):
            part.put(batch, out, part.count if number else 0)

    def cells(self, rows: Array) -> tuple[Array, Cells]:
        """Where the combinations go: a column has a cell for missing values if any row has one."""
        rows_by_part = rows.reshape([part.count for part in self.parts])
        targets, cells = np.zeros(1, np.int64), []
        for axis, part in enumerate(self.parts):
            rows_of_part = np.moveaxis(rows_by_part, axis, 0).reshape(part.count, -1).sum(axis=1)
            part_targets, part_cells = part.cells(rows_of_part)
            targets = targets[:, None]
            dropped = (targets < 0) | (part_targets < 0)
            targets = np.where(dropped, NO_CELL, targets * part_cells.count + part_targets).reshape(-1)
            cells.append(part_cells)
        return targets, Product(tuple(cells))


class ConditionCoder:
    """A few conjunctions, which may overlap: bit i of a row's cell says whether it satisfies conjunction i."""

    overflow = False

    def __init__(self, conjunctions: Sequence[Conjunction]) -> None:
        self.conjunctions = list(conjunctions)
        self.count = 1 << len(self.conjunctions)

    def put(self, batch: Batch, out: Array) -> None:
        """Write the cell of each row to `out`."""
        out[:] = 0
        for bit, conjunction in enumerate(self.conjunctions):
            out |= batch.satisfies(conjunction).astype(np.int32) << bit

    def membership(self) -> Array:
        """Whether a cell belongs to a conjunction, (conjunctions, cells) of 0 and 1."""
        return np.arange(self.count) >> np.arange(len(self.conjunctions))[:, None] & 1


def coders_of(request: Request, positions: Mapping[str, EdgePositions]) -> Sequence[Any]:
    """The coders that give each row its cells of a request: one, or several for many conjunctions."""
    if isinstance(request, ConditionCells):
        conjunctions = request.conjunctions
        starts = range(0, max(len(conjunctions), 1), CONJUNCTIONS_PER_CODER)
        return [ConditionCoder(conjunctions[start : start + CONJUNCTIONS_PER_CODER]) for start in starts]
    if isinstance(request, CrossedCells):
        return [CrossedCoder([coders_of(part, positions)[0] for part in request.parts])]
    if isinstance(request, RangeCells):
        return [RangeCoder(request, positions[request.name])]
    return [LevelCoder(request)]

"""Grids of cells (one column, or several crossed) with their sums, and the blocks of cells with the largest gaps.

The rule: a grid is made once, with all that is known of it, and never changed. Cells of numeric columns are ordered, so
that neighbours may be joined: a block has a first and a last cell for each column. Tests of cells and blocks are in
`segment_tests`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from miscal.aggregate.in_memory import tally
from miscal.auditing.search.coded_columns import CodedColumn
from miscal.auditing.search.evidence import RawAndRecalibrated
from miscal.auditing.search.score_profiles import profiles_of_codes
from miscal.auditing.search.search_context import SearchContext
from miscal.cells.condition import Conjunction
from miscal.cells.partitions import LevelPooling, Numbered
from miscal.cells.ranges import bin_index
from miscal.codes.audit import Family, FindingKind
from miscal.data.arrays import Array
from miscal.data.columns import Column
from miscal.data.target import TargetData
from miscal.kernels.order import add_stretches
from miscal.metrics.field import FieldResult
from miscal.metrics.variable import VariableResult
from miscal.stats.cell_sums import EFFECTIVE_EVENTS, CellSums, Floats
from miscal.stats.sign_flip import ALL_ROWS

CellBlock = tuple[tuple[int, int], ...]  # the first and the last cell of each column
ScoredBlocks = list[tuple[CellBlock, float]]  # each with its z, or with its p-value
# A segment with more of the variance than this is the whole table, or is described better by its complement.
MAX_VARIANCE_SHARE = 0.6
MAX_PROFILED_CELLS = (
    1 << 15
)  # of one grid; of a larger one, only cells with enough rows are tested for their shape
GridId = tuple[str, ...]
ColumnResult = VariableResult | FieldResult


@dataclass(frozen=True, eq=False)
class CellGrid:
    """Cells of one column, or of several crossed (the last running fastest).

    Attributes
    ----------
    coded_columns : tuple of CodedColumn
        The columns.
    kind : FindingKind
        What its findings are called.
    context : SearchContext
        What is compared.
    raw, recalibrated : CellSums
        Sums of each cell, as predicted and after global recalibration.
    p_value : ndarray
        Of the mean of each cell as predicted, NaN where it cannot be tested.
    profiles : RawAndRecalibrated or None
        Sums of the profiled cells by the score, where they are kept.
    profiled_cells : ndarray or None
        The cells that are tested by the score; None for all of them.
    result : VariableResult, FieldResult or None
        What is shown of a column; None for crossed columns, and where only the cells are needed.
    """

    coded_columns: tuple[CodedColumn, ...]
    kind: FindingKind
    context: SearchContext
    raw: CellSums
    recalibrated: CellSums
    p_value: Floats
    profiles: RawAndRecalibrated | None = None
    profiled_cells: Array | None = None
    result: ColumnResult | None = None

    @property
    def id(self) -> GridId:
        """What tells it from the other grids of a target."""
        return str(self.kind), *self.names

    @property
    def column(self) -> Column:
        """The column, of several the first."""
        return self.coded_columns[0].column

    @property
    def shown(self) -> ColumnResult:
        """What is shown of a column that was tested."""
        if self.result is None:
            raise ValueError(f"the cells of {self.names} have no result")
        return self.result

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(coded.name for coded in self.coded_columns)

    @property
    def is_crossed(self) -> bool:
        """Whether it has several columns."""
        return len(self.coded_columns) > 1

    @property
    def is_numeric(self) -> bool:
        """Whether it is one column of numbers, some of which are known."""
        return self.n_ordered > 0 and self.column.type.spatial

    @property
    def n_ordered(self) -> int:
        """Leading cells of a single column that are ordered; 0 for crossed columns."""
        return 0 if self.is_crossed else self.ordered_sizes[0]

    @cached_property
    def ordered_sizes(self) -> list[int]:
        """Cells of each column that may be joined (those after them hold missing values), 0 for categories."""
        return [coded.n_ordered for coded in self.coded_columns]

    @cached_property
    def has_order(self) -> bool:
        """Whether the cells of any column may be joined."""
        return any(self.ordered_sizes)

    @cached_property
    def kuiper_range(self) -> tuple[float, int, int] | None:
        """The Kuiper test of a numeric column: its p-value, and the cells between which the differences accumulate."""
        edges = self.coded_columns[0].edges
        if edges is None or not self.n_ordered:
            return None
        if not isinstance(self.result, VariableResult):
            return None
        ends, p_value = self.result.kuiper_range, self.result.kuiper_p_value
        if ends is None or p_value is None or math.isnan(p_value):
            return None
        low, high = bin_index(np.array(ends, float), edges).tolist()
        start = low + 1 if low < high and ends[0] > edges[1] else low
        return p_value, start, high

    @cached_property
    def family(self) -> Family:
        """The family in which it is tested."""
        if self.kind == FindingKind.NEIGHBOURHOOD:
            return Family.NEIGHBOURHOODS
        return family_of(self.coded_columns)

    @cached_property
    def n_blocks(self) -> int:
        """How many blocks there are to choose from for each combination of categories."""
        return math.prod(len(coded.ranges) for coded in self.coded_columns if coded.n_ordered)

    @cached_property
    def n_cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @cached_property
    def shape(self) -> list[int]:
        """Number of cells of each column."""
        return [coded.n_cells for coded in self.coded_columns]

    @cached_property
    def stacked(self) -> Floats:
        """All sums in one array: (raw and recalibrated, sums, *shape)."""
        sums = [*vars(self.raw).values(), *vars(self.recalibrated).values()]
        return np.stack(sums).reshape(2, -1, *self.shape)

    def block_of_cell(self, cell: int) -> CellBlock:
        """One cell as a block."""
        return tuple((int(i), int(i)) for i in np.unravel_index(cell, self.shape))

    def members(self, block: CellBlock) -> Array:
        """Row numbers of a block of cells."""
        inside = [
            (coded.codes >= first) & (coded.codes <= last)
            for coded, (first, last) in zip(self.coded_columns, block, strict=True)
        ]
        return np.flatnonzero(np.logical_and.reduce(inside))

    def slices(self, block: CellBlock) -> tuple[slice, ...]:
        """Where a block lies among the cells."""
        return tuple(slice(first, last + 1) for first, last in block)

    def sum_block(self, values: Floats, block: CellBlock) -> Floats:
        """The values of a block of cells, added up; further axes stay."""
        inside = values.reshape(*self.shape, *values.shape[1:])[self.slices(block)]
        return np.asarray(inside.sum(axis=tuple(range(len(block)))))

    def sum_every_block(self, values: Floats) -> Floats:
        """The values of every block of cells: sums over all ranges of each ordered column."""
        values = values.reshape(*self.shape, *values.shape[1:])
        for axis, size in enumerate(self.ordered_sizes):
            if size:
                before, after = values.shape[:axis], values.shape[axis + 1 :]
                known = np.take(values, np.arange(size), axis)
                sums = np.empty((*before, len(self.coded_columns[axis].ranges), *after))
                flat = math.prod(before), -1, math.prod(after)
                add_stretches(known.reshape(flat), sums.reshape(flat))
                values = sums
        return values

    def sum_blocks(self, blocks: Sequence[CellBlock]) -> tuple[CellSums, CellSums]:
        """The sums of blocks, each as one cell, as predicted and after global recalibration."""
        axes = tuple(range(2, self.stacked.ndim))
        sums = [self.stacked[:, :, *self.slices(block)].sum(axis=axes) for block in blocks]
        raw, recalibrated = np.stack(sums, axis=2)
        return CellSums(*raw), CellSums(*recalibrated)

    def words(self, block: CellBlock) -> str:
        """A block in words."""
        return " and ".join(
            f"{name} {level}" for name, level in zip(self.names, self.levels(block), strict=True)
        )

    def levels(self, block: CellBlock) -> tuple[str, ...]:
        """The category or range of each column, in words."""
        return tuple(coded.level(*ends) for coded, ends in zip(self.coded_columns, block, strict=True))

    def conjunction(self, block: CellBlock) -> Conjunction:
        """Which rows belong to a block of cells, as data."""
        conditions = (coded.condition(*ends) for coded, ends in zip(self.coded_columns, block, strict=True))
        return Conjunction(tuple(conditions))


def family_of(coded_columns: Sequence[CodedColumn]) -> Family:
    """The family in which cells are tested: columns with many categories have a share of the level of their own."""
    if len(coded_columns) == 1:
        return Family.COLUMNS
    if any(coded.truncated for coded in coded_columns):
        return Family.LARGE_FIELDS
    return Family.PAIRS if any(coded.edges is None for coded in coded_columns) else Family.REGIONS


def crossed_codes(coded_columns: Sequence[CodedColumn], rows: Array | slice = ALL_ROWS) -> Array:
    """The cell of rows in all combinations of cells; the number of cells for rows that are in none."""
    codes, total = np.zeros(1, np.int32), math.prod(coded.n_cells for coded in coded_columns)
    cells = [(coded, coded.codes[rows]) for coded in coded_columns]
    for coded, cell in cells:
        codes = codes * np.int32(coded.n_cells) + cell
    for coded, cell in cells:
        if coded.truncated:
            codes[cell == coded.n_cells] = total
    return codes


def tally_grid(
    coded_columns: Sequence[CodedColumn],
    kind: FindingKind,
    context: SearchContext,
    *,
    p_value: Floats | None = None,
    result: ColumnResult | None = None,
    max_kept_profiles: int = 0,
) -> CellGrid:
    """Count the cells of a column, or of columns crossed.

    Parameters
    ----------
    p_value : ndarray, optional
        Of each cell, where it is known.
    result : Result, optional
        What is shown of a column.
    max_kept_profiles : int
        The profiles of a grid of at most so many cells are kept.
    """
    n_cells = math.prod(coded.n_cells for coded in coded_columns)
    pooling = LevelPooling(crossed_codes(coded_columns), Numbered(n_cells + 1))
    raw, recalibrated = (
        CellSums.of(tally(target, pooling)).map(lambda values: values[:n_cells])
        for target in (context.raw, context.recalibrated)
    )
    profiled_cells = None
    if n_cells > MAX_PROFILED_CELLS:
        profiled_cells = np.flatnonzero(raw.rows >= 2 * EFFECTIVE_EVENTS)
    profiles = None
    if n_cells <= max_kept_profiles:
        profiles = _profiles(context, coded_columns, n_cells, profiled_cells)
    p_value = context.p_values(raw) if p_value is None else p_value
    return CellGrid(
        tuple(coded_columns), kind, context, raw, recalibrated, p_value, profiles, profiled_cells, result
    )


def grid_profiles(grid: CellGrid) -> RawAndRecalibrated:
    """Sums of the profiled cells of a grid by the score: those that are kept, or counted on the rows."""
    if grid.profiles is not None:
        return grid.profiles
    return _profiles(grid.context, grid.coded_columns, grid.n_cells, grid.profiled_cells)


def _profiles(
    context: SearchContext, coded_columns: Sequence[CodedColumn], n_cells: int, profiled_cells: Array | None
) -> RawAndRecalibrated:
    codes, count = crossed_codes(coded_columns), n_cells
    if profiled_cells is not None:
        count = profiled_cells.size
        number_of_cell = np.full(n_cells + 1, count)
        number_of_cell[profiled_cells] = np.arange(count)
        codes = number_of_cell[codes]
    return profiles_of_codes(context, codes, count + 1).map(lambda values: values[:count])


def sums_of_rows(target: TargetData, rows: Array) -> CellSums:
    """The sums of some rows, as one cell."""
    return CellSums.of(tally(target.take(rows), LevelPooling(np.zeros(rows.size, np.int16), Numbered(1))))


def best_blocks(
    grid: CellGrid,
    remaining_error: Floats | None = None,
    total_variance: float = 0.0,
    *,
    recalibrated: bool,
) -> ScoredBlocks:
    """The blocks of a grid with the largest z: the best over ordered columns, for every cell of the others.

    Parameters
    ----------
    remaining_error : ndarray, optional
        What is left of the error of each cell; by default all of it.
    total_variance : float
        Variance of all rows; by default that of the grid.
    recalibrated : bool
        After global recalibration: what a block shares with the rows on which the score was recalibrated is taken off
        its variance, and blocks that are nearly the whole table are passed over.
    """
    sums = grid.recalibrated if recalibrated else grid.raw
    cell_variance = grid.context.variance(sums)
    total_variance = total_variance or cell_variance.sum()
    if total_variance <= 0:
        return []
    error = grid.sum_every_block(sums.off if remaining_error is None else remaining_error)
    variance = grid.sum_every_block(cell_variance)
    possible = variance > 0
    if recalibrated:
        possible &= variance < MAX_VARIANCE_SHARE * total_variance
        variance = variance * (1.0 - np.minimum(variance / total_variance, MAX_VARIANCE_SHARE))
    z = np.abs(error) / np.sqrt(np.where(possible, variance, np.inf))
    return furthest_blocks(z, grid)


def furthest_blocks(score: Floats, grid: CellGrid) -> ScoredBlocks:
    """The block of the largest score over the ordered columns, for each cell of the others.

    A block leaves something out along every ordered column: all of one is the whole table, or the other column alone.
    Overwrites the scores of such blocks.
    """
    ordered_sizes = grid.ordered_sizes
    for axis, size in enumerate(ordered_sizes):
        if size:
            np.moveaxis(score, axis, 0)[size - 1] = -1.0  # the range from the first cell to the last
    positions: list[tuple[Any, ...]]
    if all(ordered_sizes):
        positions = [np.unravel_index(np.argmax(score), score.shape)]
    elif ordered_sizes[0]:
        positions = [(i, j) for j, i in enumerate(np.argmax(score, axis=0))]
    else:
        positions = list(enumerate(np.argmax(score, axis=1)))
    best = []
    for position in positions:
        if score[position] > 0:
            block = tuple(coded.ranges[i] for coded, i in zip(grid.coded_columns, position, strict=True))
            best.append((block, float(score[position])))
    return best

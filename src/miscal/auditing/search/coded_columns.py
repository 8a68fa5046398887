"""How a column is cut into cells for a search, and what its cells are called.

The rule: a `CodedColumn` is made once for a column and shared by all targets and all grids that cross it.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from miscal.cells.coding import range_pooling
from miscal.cells.condition import Condition
from miscal.cells.ranges import Weight, even_groups
from miscal.data.arrays import Array
from miscal.data.columns import Column
from miscal.report.wording import span

FINE_RANGES = 30  # of a numeric column, which are joined to find a miscalibrated one
COARSE_RANGES = 10  # of a numeric column that is crossed with another


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """One column as cells: ranges in order or categories, then missing values if there are any.

    Attributes
    ----------
    column : Column
        The column.
    codes : ndarray of int
        The cell of each row.
    cells : Levels or Ranges
        What the cells are; `Levels` without any where all values are missing.
    truncated : bool
        Not all categories have a cell; rows of the others are in none, and have the code `n_cells`.
    """

    column: Column
    codes: Array
    cells: Any
    truncated: bool = False

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    @cached_property
    def edges(self) -> Array | None:
        """Edges of ranges; None where cells are categories."""
        return getattr(self.cells, "edges", None)

    @cached_property
    def n_known(self) -> int:
        """Number of cells that do not hold missing values."""
        return self.n_cells - int(self.cells.missing)

    @cached_property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(self.cells.count)

    @property
    def n_ordered(self) -> int:
        """Leading cells that are consecutive ranges, so that neighbours may be joined."""
        return 0 if self.edges is None else self.n_known

    @cached_property
    def ranges(self) -> list[tuple[int, int]]:
        """First and last cell of every range that ordered cells can be joined to; or of every category."""
        if self.n_ordered:
            return list(combinations_with_replacement(range(self.n_ordered), 2))
        return [(cell, cell) for cell in range(self.n_cells)]

    def level(self, first: int, last: int) -> str:
        """The category or the range in words, without the column's name.

        A range is closed on the right, and the lowest one on the left too; the ends of a column stay open.

        >>> from miscal.data.columns import column
        >>> fine_coding(column("hour", [17, 18, 19, 20])).level(1, 2)
        '18 to 19'
        """
        if first >= self.n_known:
            return "missing"
        if self.edges is None:
            return str(self.cells.names[first])
        low, high = self.edges[first], self.edges[last + 1]
        if np.isinf(low):  # all of the sample's values are missing
            return "any value"
        if (units := self.column.type.units_within(low, high)) is not None:
            return span(*units, lambda unit: self.column.type.value_text(unit, _number))
        if self.column.whole:
            return span(math.ceil(low) if first == 0 else math.floor(low) + 1, math.floor(high), _number)
        ends = math.nan if first == 0 else low, math.nan if last == self.n_known - 1 else high
        return span(*ends, _number).replace("missing", "any value")

    def condition(self, first: int, last: int) -> Condition:
        """Which rows belong to a category or a range; the outermost ranges have no end."""
        kind = self.column.kind
        if first >= self.n_known:
            return Condition(self.name, kind, levels=(), missing=True)
        if self.edges is None:
            return Condition(self.name, kind, levels=(self.cells.names[first],))
        low = None if first == 0 else float(self.edges[first])
        high = None if last == self.n_known - 1 else float(self.edges[last + 1])
        return Condition(self.name, kind, low, high)


def fine_coding(column: Column, weight: Weight = None, count: Weight = None) -> CodedColumn:
    """A column as finely as it is searched: all categories, or ranges as its type prefers, up to 30."""
    bins = FINE_RANGES if column.nominal else column.type.search_bins(column.values, FINE_RANGES)
    pooling = range_pooling(column, bins, weight=weight, count=count)
    return CodedColumn(column, smallest_dtype(pooling.codes(), pooling.cells.count), pooling.cells)


def coarse_coding(coded: CodedColumn, weight: Weight = None) -> CodedColumn:
    """The same column with few cells, for crossing: neighbouring ranges joined to about equal weight."""
    if coded.edges is None or coded.n_known <= COARSE_RANGES:
        return coded
    cell_weight = np.bincount(coded.codes, weight, coded.n_cells)[: coded.n_known]
    range_of_cell = even_groups(cell_weight, COARSE_RANGES)
    starts = np.unique(range_of_cell, return_index=True)[1]
    edges = np.append(coded.edges[starts], coded.edges[-1])
    new_code = np.append(range_of_cell, range_of_cell[-1] + 1).astype(np.int8)
    return CodedColumn(coded.column, new_code[coded.codes], replace(coded.cells, edges=edges))


def smallest_dtype(codes: Array, n_cells: int) -> Array:
    """Codes of so many cells in the smallest type that holds them."""
    return codes.astype(np.min_scalar_type(n_cells))


def _number(value: float) -> str:
    size = abs(value)
    if size < 1e-300:
        return "0"
    if value == int(value) and size < 1e6:
        return f"{value:.0f}" if size < 1e4 else f"{value:,.0f}"
    return f"{value:.3g}" if size < 1e3 else f"{value:,.0f}"

"""How a column is cut into cells, and what its cells are called."""

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

FINE = 30  # ranges among which the stretch of a variable that errs is looked for
COARSE = 10  # ranges of a variable when it is crossed with another column


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """One column as cells: ranges in order or levels, then missing values if there are any.

    cells : of a pooling; levels, but none of them, where all values are missing
    some : not all levels have a cell; rows of the others are in none, which the code `count` says
    """

    column: Column
    codes: Array
    cells: Any
    some: bool = False

    @property
    def name(self) -> str:
        return self.column.name

    @cached_property
    def edges(self) -> Array | None:
        """Of ranges; None where cells are levels."""
        return getattr(self.cells, "edges", None)

    @cached_property
    def known(self) -> int:
        """Cells that are not the missing values'."""
        return self.count - int(self.cells.missing)

    @cached_property
    def count(self) -> int:
        return int(self.cells.count)

    @property
    def ordered(self) -> int:
        """Leading cells that are consecutive ranges, so that neighbours may be joined."""
        return 0 if self.edges is None else self.known

    @cached_property
    def stretches(self) -> list[tuple[int, int]]:
        """First and last cell of every stretch of ranges, in order; or of every level."""
        if self.ordered:
            return list(combinations_with_replacement(range(self.ordered), 2))
        return [(cell, cell) for cell in range(self.count)]

    def level(self, first: int, last: int) -> str:
        """The level, or the stretch of ranges, without the column's name.

        A range is closed on the right, and the lowest one on the left too; the ends of a column stay open.

        >>> from miscal.data.columns import column
        >>> fine_part(column("hour", [17, 18, 19, 20])).level(1, 2)
        '18 to 19'
        """
        if first >= self.known:
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
        ends = math.nan if first == 0 else low, math.nan if last == self.known - 1 else high
        return span(*ends, _number).replace("missing", "any value")

    def condition(self, first: int, last: int) -> Condition:
        """Which rows belong to a level or a stretch of ranges; the outermost ranges have no end."""
        kind = self.column.kind
        if first >= self.known:
            return Condition(self.name, kind, levels=(), missing=True)
        if self.edges is None:
            return Condition(self.name, kind, levels=(self.cells.names[first],))
        low = None if first == 0 else float(self.edges[first])
        high = None if last == self.known - 1 else float(self.edges[last + 1])
        return Condition(self.name, kind, low, high)


def fine_part(column: Column, weight: Weight = None, count: Weight = None) -> CodedColumn:
    """A column as finely as it is looked at: all levels; up to 30 ranges; days, weeks or months of a date."""
    bins = FINE if column.nominal else column.type.search_bins(column.values, FINE)
    pooling = range_pooling(column, bins, weight=weight, count=count)
    return CodedColumn(column, small(pooling.codes(), pooling.cells.count), pooling.cells)


def coarse_part(part: CodedColumn, weight: Weight = None) -> CodedColumn:
    """The same column with few cells, for crossing: neighbouring ranges joined to about equal weight."""
    if part.edges is None or part.known <= COARSE:
        return part
    rows = np.bincount(part.codes, weight, part.count)[: part.known]
    group = even_groups(rows, COARSE)
    starts = np.unique(group, return_index=True)[1]
    edges = np.append(part.edges[starts], part.edges[-1])
    table = np.append(group, group[-1] + 1).astype(np.int8)
    return CodedColumn(part.column, table[part.codes], replace(part.cells, edges=edges))


def small(codes: Array, cells: int) -> Array:
    """Codes of so many cells in as few bytes as hold them."""
    return codes.astype(np.min_scalar_type(cells))


def _number(value: float) -> str:
    size = abs(value)
    if size < 1e-300:
        return "0"
    if value == int(value) and size < 1e6:
        return f"{value:.0f}" if size < 1e4 else f"{value:,.0f}"
    return f"{value:.3g}" if size < 1e3 else f"{value:,.0f}"

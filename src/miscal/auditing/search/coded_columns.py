"""How a column is cut into cells, and what its cells are called."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from miscal.cells.coding import range_pooling
from miscal.cells.condition import Condition
from miscal.cells.ranges import Bins, Weight, even_groups
from miscal.data.arrays import Array
from miscal.data.columns import Column
from miscal.report.wording import span

FINE = 30  # ranges among which the stretch of a variable that errs is looked for
COARSE = 10  # ranges of a variable when it is crossed with another column
MOST_PERIODS = 1_200  # a hundred years of months
MANY_DAYS = 62  # more days than this are looked at by week, more weeks than that by month


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
        if self.column.kind == "date":
            return span(math.ceil(low), math.ceil(high) - 1, _day)
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
    bins: Bins = FINE
    if column.kind == "date" and not column.missing.all():
        known = column.values[~column.missing]
        length = np.floor(known.max()) - np.floor(known.min())
        every = "day" if length < MANY_DAYS else "week" if length < 7 * MANY_DAYS else "month"
        bins = calendar_edges(known, every, MANY_DAYS)
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


def monday(day: Any) -> Any:
    """The Monday on which the week of a day began; day 0, the first of 1970, was a Thursday."""
    return day - (day + 3) % 7


MONTHS_OF = {"month": 1, "quarter": 3, "year": 12}
UNITS = {"day": "D", "week": "W", "month": "M", "quarter": "3M", "year": "Y"}  # of numpy


def calendar_edges(days: Array, every: str, most: int = MOST_PERIODS) -> Array:
    """Edges of the days, weeks (from Monday), months, quarters or years that hold some days.

    Ranges are closed on the right, so that an edge stands just before the first moment of its period. Of more than
    `most`, those without a day are joined to the one before (a date of 9999 makes no 96,000 months), then neighbours.
    """
    unit, shift = f"M8[{UNITS[every]}]", 3 * (every == "week")  # numpy's weeks begin on a Thursday
    place = (np.floor(days).astype(np.int64) + shift).astype("M8[D]").astype(unit).astype(np.int64)
    first, last = place.min(), place.max()
    starts = np.arange(first, last + 1) if last - first < most else np.unique(place)
    starts = np.append(starts[:: -(-starts.size // most)], last + 1)
    days = starts.astype(unit).astype("M8[D]").astype(np.int64) - shift
    return np.nextafter(days.astype(np.float64), -np.inf)


def _number(value: float) -> str:
    size = abs(value)
    if size < 1e-300:
        return "0"
    if value == int(value) and size < 1e6:
        return f"{value:.0f}" if size < 1e4 else f"{value:,.0f}"
    return f"{value:.3g}" if size < 1e3 else f"{value:,.0f}"


def _day(days: float) -> str:
    return str(np.datetime64(int(days), "D"))

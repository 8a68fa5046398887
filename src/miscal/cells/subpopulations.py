"""Subpopulations: how they are asked for, how they are defined on columns, and how they are called.

A definition is a conjunction of conditions, one a column, and its words can be read back (`pooling.parsing`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import compress
from typing import Any

import numpy as np

from miscal.cells.condition import SHOWN_LEVELS, Condition, Conjunction, just_below
from miscal.cells.ranges import even_groups
from miscal.codes.data import ColumnKind
from miscal.data.arrays import Array
from miscal.data.column_types import column_type
from miscal.data.columns import Column
from miscal.kernels.sorting import dense_ranks
from miscal.kernels.subpopulation import part

IN_ORDER = np.empty(0, np.int64)  # of a column's codes, which nothing shuffles


@dataclass(frozen=True)
class Conjunctions:
    """All conjunctions of up to `depth` columns: each level of a nominal column, each of `ranges` ranges of a number.

    Every level counts, however rare; those too small to judge are listed. A numeric column with at most `ranges`
    distinct values has one cell a value.
    """

    depth: int = 2
    ranges: int = 4


@dataclass(frozen=True, eq=False)
class Covariate:
    """A column as dense codes: of numbers in order, or of a nominal column's `levels`.

    values, tops : the smallest and the largest number of each code, which differ where they are ranges
    missing : whether values are missing, which then have the last code
    """

    name: str
    kind: ColumnKind
    nominal: bool
    codes: Array
    count: int
    missing: bool
    levels: tuple[str, ...]
    values: Array
    tops: Array

    @property
    def known(self) -> int:
        """How many codes are not missing."""
        return self.count - self.missing


def covariate(column: Column, *, nominal: bool, order: Array) -> Covariate:
    """Code a column, rows in the given order."""
    kind = column.kind
    if nominal:
        column = column.as_levels()
    if not column.nominal:
        ranks, distinct = dense_ranks(column.values)  # twice as quick as numpy's
        missing = bool(column.missing.any())
        return Covariate(
            column.name, kind, False, ranks[order], distinct.size, missing, (), distinct, distinct
        )
    used = np.bincount(column.values + 1, minlength=len(column.levels) + 1) > 0
    missing, used = bool(used[0]), used[1:]
    levels = tuple(map(str, compress(column.levels, used)))
    count = len(levels) + missing
    # The last entry serves code -1.
    table = np.append(np.cumsum(used) - 1, count - 1).astype(np.int32)
    codes, none = table[column.values[order]], np.empty(0)
    return Covariate(column.name, kind, nominal, codes, count, missing, levels, none, none)


def ranged(one: Covariate, ranges: int) -> Covariate:
    """A numeric column cut into ranges of about equally many rows, equal values together; few values stay as is."""
    if one.levels or one.known <= ranges:
        return one
    rows = np.bincount(one.codes, minlength=one.count)[: one.known]
    group = even_groups(rows, ranges)
    firsts = np.unique(group, return_index=True)[1]
    lasts = np.append(firsts[1:] - 1, one.known - 1)
    cell = np.append(group, firsts.size).astype(np.int32)
    count = firsts.size + one.missing
    values, tops = one.values[firsts], one.values[lasts]
    return replace(one, codes=cell[one.codes], count=count, values=values, tops=tops)


@dataclass(frozen=True)
class Definition(Conjunction):
    """Which rows belong: a conjunction of conditions, with a name of its own where one was given."""

    given: str | None = None

    @property
    def name(self) -> str:
        """Readable words, long lists of levels cut short."""
        return self.words(SHOWN_LEVELS)

    def words(self, shown: int | None = None) -> str:
        """All of it; `pooling.parsing` reads it back."""
        return super().words(shown) if self.given is None else self.given


def interval_condition(one: Covariate, low: int, high: int, shuffle: Array = IN_ORDER) -> Condition:
    """Codes low <= code < high of a column; `shuffle` takes a nominal column's codes to their random order.

    Of levels some, or all but some, whichever are fewer.
    """
    condition = partial(Condition, one.name, one.kind)
    if one.values.size == 0:
        places = shuffle if shuffle.size else np.arange(one.count)
        inside = (places >= low) & (places < high)
        named: tuple[Any, ...] = (
            one.levels if column_type(one.kind).categorical else tuple(map(float, one.levels))
        )
        levels, others = tuple(compress(named, inside)), tuple(compress(named, ~inside))
        missing = bool(one.missing and inside[-1])
        if len(levels) <= len(others) or not others:
            return condition(levels=levels if others or missing else None, missing=missing)
        # Read literally, "not in" also takes missing values; that they do not belong is said only where there are any.
        return condition(excluded=others, missing=missing or not one.missing)
    missing = one.missing and high > one.known
    high = min(high, one.known)
    if low >= high:
        return condition(levels=(), missing=True)
    values, tops = one.values, one.tops
    if high - low == 1 and values[low] == tops[low]:
        return condition(levels=(float(values[low]),), missing=missing)

    def end(place: int) -> float | None:
        if place in {0, one.known}:
            return None
        return just_below(_between(values[place], tops[place - 1], one.kind))

    return condition(end(low), end(high), missing=missing)


Parts = Iterable[tuple[Array, Definition]]  # rows, and what they are


def conjunctions_of(covariates: list[Covariate], depth: int, least: int, rows: Array) -> Parts:
    """All conjunctions of up to `depth` columns that hold at least `least` of some rows."""

    def within(parent: Array, conditions: tuple[Condition, ...], first: int) -> Parts:
        for j, one in enumerate(covariates[first:], first):
            starts, sorted_rows = np.empty(one.count + 1, np.int64), np.empty(parent.size, np.int32)
            part(one.codes, one.count, parent, starts, sorted_rows)
            for code in np.flatnonzero(np.diff(starts) >= max(least, 1)).tolist():
                child = sorted_rows[starts[code] : starts[code + 1]]
                if child.size == parent.size and conditions:
                    continue  # the column is constant here: nothing new
                made = (*conditions, interval_condition(one, code, code + 1))
                yield child, Definition(made)
                if len(made) < depth:
                    yield from within(child, made, j + 1)

    return within(rows, (), 0)


@lru_cache(1 << 14)
def _between(value: float, above: float, kind: ColumnKind) -> float:
    """The shortest decimal in (above, value], which cuts these rows where `value` does; `value` itself if equal."""
    return next((number for number in column_type(kind).cuts(value) if above < number <= value), float(value))

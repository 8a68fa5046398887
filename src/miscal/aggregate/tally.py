"""Tally: sums per cell. Adding two tallies is concatenating their rows.

Unweighted and whole-number-weighted sums are integers, so `==` holds for any order of rows and of additions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any

import numpy as np

from miscal.cells.partitions import Cells, Levels, Numbered, Ranges
from miscal.data.arrays import Array, Plain
from miscal.data.errors import refusal

ALL_COLUMNS = ("weight", "weight2", "predicted", "observed", "variance", "residual2")
MEAN_COLUMNS = ("weight", "predicted", "observed")
HIGH_UNIT = 2.0**-20
LOW_UNIT = 2.0**-52
ARRAYS = ("counts", "limbs", "sums")


def carried(limbs: Array) -> Array:
    """Carry the low limbs over, so that equal sums have equal limbs."""
    limbs[..., 0] += limbs[..., 1] >> 32
    limbs[..., 1] &= 0xFFFFFFFF
    return limbs


def _real(limbs: Array) -> Array:
    return limbs[:, 0] * HIGH_UNIT + limbs[:, 1] * LOW_UNIT


@dataclass(frozen=True, eq=False)
class Tally:
    """Weighted sums per cell.

    Columns (Σ over the rows of a cell; w the weight, p predicted, y observed; count repeats a row):
    weight Σw, weight2 Σw², predicted Σw·p, observed Σw·y, variance Σw²·p(1-p), residual2 Σw²(y-p)²; and `counts`, the
    rows.

    Attributes
    ----------
    cells : what the cells are
    counts : int64 (cells,)
    limbs : int64 (cells, columns, 2), the exact sums; or None
    sums : float64 (cells, columns), used when weights are not whole numbers; or None
    columns : names along the middle axis
    """

    cells: Cells
    counts: Array
    limbs: Array | None
    sums: Array | None
    columns: tuple[str, ...] = ALL_COLUMNS
    weighted: bool = False

    def column(self, name: str) -> Array:
        """One column as float64, a value a cell."""
        place = self.columns.index(name)
        if self.limbs is None:
            assert self.sums is not None
            return self.sums[:, place]
        return _real(self.limbs[:, place])

    @property
    def rows(self) -> Array:
        return self.counts.astype(np.float64)

    weight, weight2, predicted, observed, variance, residual2 = (
        property(methodcaller("column", name)) for name in ALL_COLUMNS
    )

    @property
    def mean_predicted(self) -> Array:
        return self._per_weight(self.predicted)

    @property
    def mean_observed(self) -> Array:
        return self._per_weight(self.observed)

    @property
    def gap(self) -> Array:
        """Mean predicted minus mean observed; NaN in an empty cell. The difference is taken before it is rounded."""
        return self._per_weight(self.events_off)

    def _per_weight(self, values: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(values / self.weight)

    @property
    def events_off(self) -> Array:
        """Σw(p - y): how many more events were predicted than happened."""
        if self.limbs is None:
            return np.asarray(self.predicted - self.observed)
        one, two = self.columns.index("predicted"), self.columns.index("observed")
        # Both terms are exact, carried or not, so that the difference is rounded once.
        return _real(self.limbs[:, one] - self.limbs[:, two])

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        if self.columns != other.columns:
            raise refusal("must have the same columns to be added", "the tallies")
        one, two = self.cells, other.cells
        if one.describe() == two.describe():
            return self._plus(other)
        if isinstance(one, Levels) and isinstance(two, Levels) and one.name == two.name:  # merge by name
            names = tuple(sorted({*one.names, *two.names}))
            union: Ranges | Levels = Levels(names, one.missing or two.missing, one.name)
        elif (
            isinstance(one, Ranges)
            and isinstance(two, Ranges)
            and (one.name, *one.edges) == (two.name, *two.edges)
        ):
            union = Ranges(one.edges, True, one.name)  # a cell for missing values comes with either
        else:
            hint = "fit the edges once and use them for every part"
            raise refusal("have different cells and cannot be added", "the tallies", hint=hint)
        return self._onto(union)._plus(other._onto(union))

    def _plus(self, other: Tally) -> Tally:
        made = replace(self, counts=self.counts + other.counts, weighted=self.weighted or other.weighted)
        if self.limbs is not None and other.limbs is not None:
            return replace(made, limbs=carried(self.limbs + other.limbs))
        return replace(made, limbs=None, sums=self.floats() + other.floats())

    def floats(self) -> Array:
        """All sums as float64, (cells, columns)."""
        return np.stack([self.column(name) for name in self.columns], axis=1)

    def _onto(self, cells: Ranges | Levels) -> Tally:
        """The same sums over more levels, or with a cell for missing values."""
        own = self.cells
        groups: Sequence[int] | Array = np.arange(own.count)
        if isinstance(own, Levels) and isinstance(cells, Levels):
            place = {name: index for index, name in enumerate(cells.names)}
            groups = [place[name] for name in own.names] + [cells.count - 1] * own.missing
        return self.coarsen(groups, cells)

    def take(self, places: Array) -> Tally:
        """Some of the cells, in any order and as often as asked."""
        taken: Any = {part: own[places] for part in ARRAYS if (own := getattr(self, part)) is not None}
        return replace(self, cells=Numbered(places.size), **taken)

    def coarsen(self, groups: Sequence[int] | Array, cells: Cells) -> Tally:
        """Add cells together: cell i goes to cell groups[i] of the new cells, or nowhere where that is negative."""
        groups = np.asarray(groups, dtype=np.int64)
        chosen = groups >= 0

        def added(values: Array) -> Array:
            result = np.zeros((cells.count, *values.shape[1:]), values.dtype)
            np.add.at(result, groups[chosen], values[chosen])
            return result

        parts: Any = {part: added(own) for part in ARRAYS if (own := getattr(self, part)) is not None}
        if "limbs" in parts:
            carried(parts["limbs"])
        return replace(self, cells=cells, **parts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and self.cells.describe() == other.cells.describe()
            and self.columns == other.columns
            and all(np.array_equal(getattr(self, part), getattr(other, part)) for part in ARRAYS)
        )

    def described(self) -> Plain:
        """What it is but for its arrays, as plain JSON."""
        return {
            "cells": self.cells.describe(),
            "columns": self.columns,
            "weighted": self.weighted,
        }

    def arrays(self, prefix: str) -> dict[str, Array | None]:
        """Its arrays by name."""
        return {f"{prefix}{part}": getattr(self, part) for part in ARRAYS}

    @classmethod
    def rebuilt(cls, described: Mapping[str, Any], arrays: Mapping[str, Array], prefix: str) -> Tally:
        """The inverse of `described` and `arrays`."""
        own: Any = described["cells"]
        if own["kind"] == "levels":
            cells: Cells = Levels(tuple(own["names"]), own["missing"], own["name"])
        else:
            edges = np.array([float.fromhex(edge) for edge in own["edges"]])
            cells = Ranges(edges, own["missing"], own["name"])
        parts: Plain = {part: arrays.get(f"{prefix}{part}") for part in ARRAYS}
        return cls(cells, columns=tuple(described["columns"]), weighted=described["weighted"], **parts)

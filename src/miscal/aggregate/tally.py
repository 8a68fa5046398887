"""Sums per cell. Adding two tallies is concatenating their rows.

Unweighted sums and sums with whole-number weights are integers, so `==` holds for any order of rows and of additions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.cells.partitions import Cells, Levels, Numbered, Ranges
from miscal.data.arrays import Array, Plain
from miscal.data.errors import refusal

ALL_COLUMNS = ("weight", "weight2", "predicted", "observed", "variance", "residual2")
MEAN_COLUMNS = ("weight", "predicted", "observed")
HIGH_UNIT = 2.0**-20
LOW_UNIT = 2.0**-52
ARRAY_NAMES = ("counts", "limbs", "sums")


def carry_limbs(limbs: Array) -> Array:
    """Carry the low limbs over into the high ones, in place, so that equal sums have equal limbs."""
    limbs[..., 0] += limbs[..., 1] >> 32
    limbs[..., 1] &= 0xFFFFFFFF
    return limbs


def _float_of_limbs(limbs: Array) -> Array:
    return limbs[:, 0] * HIGH_UNIT + limbs[:, 1] * LOW_UNIT


@dataclass(frozen=True, eq=False)
class Tally:
    """Weighted sums per cell.

    With w the weight, p the predicted and y the observed value of a row, the columns are: weight Σw, weight2 Σw²,
    predicted Σw·p, observed Σw·y, variance Σw²·p(1-p) and residual2 Σw²(y-p)². A row with a count is added that often.

    Attributes
    ----------
    cells : Ranges, Levels, Product or Numbered
        What the cells are.
    counts : ndarray of int64, (cells,)
        Rows of each cell.
    limbs : ndarray of int64, (cells, columns, 2), or None
        The exact sums, in two limbs. None if weights are not whole numbers.
    sums : ndarray of float64, (cells, columns), or None
        The sums if weights are not whole numbers.
    columns : tuple of str
        Names along the middle axis.
    weighted : bool
        Whether any row had a sampling weight.
    """

    cells: Cells
    counts: Array
    limbs: Array | None
    sums: Array | None
    columns: tuple[str, ...] = ALL_COLUMNS
    weighted: bool = False

    def column(self, name: str) -> Array:
        """One column as float64, one value per cell."""
        position = self.columns.index(name)
        if self.limbs is None:
            assert self.sums is not None
            return self.sums[:, position]
        return _float_of_limbs(self.limbs[:, position])

    @property
    def rows(self) -> Array:
        """Rows of each cell, as float64."""
        return self.counts.astype(np.float64)

    @property
    def weight(self) -> Array:
        """Σw."""
        return self.column("weight")

    @property
    def weight2(self) -> Array:
        """Σw²."""
        return self.column("weight2")

    @property
    def predicted(self) -> Array:
        """Σw·p."""
        return self.column("predicted")

    @property
    def observed(self) -> Array:
        """Σw·y."""
        return self.column("observed")

    @property
    def variance(self) -> Array:
        """Σw²·p(1-p)."""
        return self.column("variance")

    @property
    def residual2(self) -> Array:
        """Σw²(y-p)²."""
        return self.column("residual2")

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
        """Σw(p - y): how many more events were predicted than observed."""
        if self.limbs is None:
            return np.asarray(self.predicted - self.observed)
        predicted, observed = self.columns.index("predicted"), self.columns.index("observed")
        # Both terms are exact, carried or not, so that the difference is rounded once.
        return _float_of_limbs(self.limbs[:, predicted] - self.limbs[:, observed])

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        if self.columns != other.columns:
            raise refusal("must have the same columns to be added", "the tallies")
        left, right = self.cells, other.cells
        if left.describe() == right.describe():
            return self._add_same_cells(other)
        if isinstance(left, Levels) and isinstance(right, Levels) and left.name == right.name:
            names = tuple(sorted({*left.names, *right.names}))
            union: Ranges | Levels = Levels(names, left.missing or right.missing, left.name)
        elif (
            isinstance(left, Ranges)
            and isinstance(right, Ranges)
            and (left.name, *left.edges) == (right.name, *right.edges)
        ):
            union = Ranges(left.edges, True, left.name)  # only one of them has a cell for missing values
        else:
            hint = "fit the edges once and use them for every part"
            raise refusal("have different cells and cannot be added", "the tallies", hint=hint)
        return self._onto(union)._add_same_cells(other._onto(union))

    def _add_same_cells(self, other: Tally) -> Tally:
        total = replace(self, counts=self.counts + other.counts, weighted=self.weighted or other.weighted)
        if self.limbs is not None and other.limbs is not None:
            return replace(total, limbs=carry_limbs(self.limbs + other.limbs))
        return replace(total, limbs=None, sums=self.floats() + other.floats())

    def floats(self) -> Array:
        """All sums as float64, (cells, columns)."""
        return np.stack([self.column(name) for name in self.columns], axis=1)

    def _onto(self, cells: Ranges | Levels) -> Tally:
        """The same sums over more levels, or with a cell for missing values."""
        before = self.cells
        targets: Sequence[int] | Array = np.arange(before.count)
        if isinstance(before, Levels) and isinstance(cells, Levels):
            position = {name: index for index, name in enumerate(cells.names)}
            targets = [position[name] for name in before.names] + [cells.count - 1] * before.missing
        return self.coarsen(targets, cells)

    def _arrays(self) -> dict[str, Array]:
        """The arrays that are present, by name."""
        arrays = {name: getattr(self, name) for name in ARRAY_NAMES}
        return {name: values for name, values in arrays.items() if values is not None}

    def take(self, positions: Array) -> Tally:
        """The cells at these positions, in any order; a position may be repeated."""
        arrays: Plain = {name: values[positions] for name, values in self._arrays().items()}
        return replace(self, cells=Numbered(positions.size), **arrays)

    def coarsen(self, targets: Sequence[int] | Array, cells: Cells) -> Tally:
        """Add cells together: cell i is added to cell targets[i] of `cells`, or dropped if that is negative."""
        targets = np.asarray(targets, dtype=np.int64)
        kept = targets >= 0

        def added(values: Array) -> Array:
            result = np.zeros((cells.count, *values.shape[1:]), values.dtype)
            np.add.at(result, targets[kept], values[kept])
            return result

        arrays: Plain = {name: added(values) for name, values in self._arrays().items()}
        if "limbs" in arrays:
            carry_limbs(arrays["limbs"])
        return replace(self, cells=cells, **arrays)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tally)
            and self.cells.describe() == other.cells.describe()
            and self.columns == other.columns
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ARRAY_NAMES)
        )

    def describe(self) -> Plain:
        """Everything but the arrays, as plain JSON."""
        return {
            "cells": self.cells.describe(),
            "columns": self.columns,
            "weighted": self.weighted,
        }

    def arrays(self, prefix: str) -> dict[str, Array | None]:
        """The arrays by name, each name after a prefix."""
        return {f"{prefix}{name}": getattr(self, name) for name in ARRAY_NAMES}

    @classmethod
    def rebuild(cls, description: Mapping[str, Any], arrays: Mapping[str, Array], prefix: str) -> Tally:
        """The inverse of `describe` and `arrays`."""
        about: Any = description["cells"]
        if about["kind"] == "levels":
            cells: Cells = Levels(tuple(about["names"]), about["missing"], about["name"])
        else:
            edges = np.array([float.fromhex(edge) for edge in about["edges"]])
            cells = Ranges(edges, about["missing"], about["name"])
        values: Plain = {name: arrays.get(f"{prefix}{name}") for name in ARRAY_NAMES}
        columns, weighted = tuple(description["columns"]), description["weighted"]
        return cls(cells, columns=columns, weighted=weighted, **values)

"""Columns as features in which rows are near each other: learned on some rows, applied to others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.columns import Column, Columns
from miscal.data.errors import refusal
from miscal.recalibrate.base import Array, Floats, Sample
from miscal.recalibrate.fitting.tables import codes_of, find

LARGEST = 1e90  # features beyond it are held there: sums of their distances stay finite


@dataclass(frozen=True, eq=False)
class NearnessMap:
    """What each column contributes: a number (shifted and scaled), or half-height indicators of levels, 1 apart.

    A missing number takes the mean; where the rows to fit on miss some it is 1 away from those that are there. Features
    are multiplied so that the kernel's number of dimensions is that of the columns. Levels not seen are away from all.
    """

    names: list[str]
    nominal: Array
    levels: list[list[Any]]  # None stands for missing
    means: Floats
    spreads: Floats
    missing: Array

    @classmethod
    def learned(cls, sample: Sample, names: list[str], scale: str | None, *, group: bool) -> NearnessMap:
        """Look at the columns of the rows to fit on; `group`: every column is a category."""
        nominal, levels, means, spreads, missing = [], [], [], [], []
        for name in names:
            column = sample.columns.find(name)
            absent = column.missing
            nominal.append(group or column.nominal)
            missing.append(bool(absent.any()))
            if nominal[-1]:
                levels.append(_levels_present(column.as_levels()))
                means.append(0.0)
                spreads.append(1.0)
                continue
            levels.append([])
            mean, spread = _mean_and_spread(column.values[~absent], _some(sample.weight, ~absent))
            means.append(mean)
            spreads.append(spread if scale == "standard" else 1.0)
        return cls(list(names), np.array(nominal), levels, np.array(means), np.array(spreads), np.array(missing))

    @property
    def width(self) -> int:
        """How many features."""
        return sum(
            _indicators(len(levels)) if nominal else 1 + int(missing)
            for nominal, levels, missing in zip(self.nominal, self.levels, self.missing, strict=True)
        )

    def features(self, columns: Columns) -> Floats:
        """Features of rows, (n, width)."""
        parts: list[Array] = []
        for j, name in enumerate(self.names):
            if self.nominal[j]:
                parts += _level_parts(self._codes(columns, j, name), len(self.levels[j]))
                continue
            column = find(columns, name, "numeric")
            absent = column.missing
            value = np.clip(np.where(absent, self.means[j], column.values), -LARGEST, LARGEST)
            if self.spreads[j] != 1.0:
                value = (value - self.means[j]) / self.spreads[j]
            parts.append(value)
            parts += [absent.astype(np.float64)] if self.missing[j] else []
        factor = len(parts) / len(self.names)
        made = np.column_stack(parts)
        return np.ascontiguousarray(made if factor == 1.0 else made * factor)

    def codes(self, columns: Columns) -> Floats:
        """Places among the levels, one column each; levels not seen get -1."""
        found = [self._codes(columns, j, name) for j, name in enumerate(self.names)]
        return np.ascontiguousarray(np.column_stack(found).astype(np.float64))

    def _codes(self, columns: Columns, j: int, name: str) -> Array:
        column = columns.find(name).as_levels()
        known = [level for level in self.levels[j] if level is not None]
        codes = codes_of(column, known, -1)
        return np.where(column.missing, len(known) if None in self.levels[j] else -1, codes)


def _some(weight: Floats | None, rows: Array) -> Floats | None:
    return None if weight is None else weight[rows]


def _levels_present(column: Column) -> list[Any]:
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
    found = [level for level, count in zip(column.levels, counts, strict=True) if count]
    plain = [level.item() if isinstance(level, np.generic) else level for level in found]
    return [*plain, None] if bool((column.values < 0).any()) else plain


def _mean_and_spread(values: Floats, weight: Floats | None) -> tuple[float, float]:
    if not values.size:
        return 0.0, 1.0
    clipped = np.clip(values, -LARGEST, LARGEST)
    size = float(np.abs(clipped).max()) or 1.0
    part = clipped / size
    mean = float(np.average(part, weights=weight))
    spread = float(np.sqrt(np.average((part - mean) ** 2, weights=weight))) * size
    return mean * size, spread if spread > 1e-14 * abs(mean * size) and spread > 1e-290 else 1.0


def _indicators(levels: int) -> int:
    return 1 if levels <= 2 else levels


def _level_parts(codes: Array, levels: int) -> list[Array]:
    if levels <= 2:  # one column of 0 and 1; an unseen level lies between, half a level from both
        return [np.where(codes < 0, 0.5, codes).astype(np.float64)]
    return [0.5 * (codes == level) for level in range(levels)]


def components(matrix: Floats, wanted: int, weight: Floats | None) -> tuple[Floats, Floats]:
    """Centre and leading principal directions (d, wanted); signs are fixed by the largest loading."""
    centre = np.average(matrix, axis=0, weights=weight)
    off = matrix - centre
    scaled = off if weight is None else off * weight[:, None]
    _, vectors = np.linalg.eigh(scaled.T @ off)
    leading = vectors[:, ::-1][:, :wanted]
    largest = np.take_along_axis(leading, np.abs(leading).argmax(axis=0)[None, :], axis=0)
    return centre, np.ascontiguousarray(leading * np.where(largest < 0, -1.0, 1.0))


def check_reduction(reduce: Any, dimensions: Any) -> None:
    """Refuse unknown reductions and numbers of dimensions."""
    if reduce not in (None, "pca", "tsne"):
        raise refusal("must be None, 'pca' or 'tsne'", where="'reduce'", got=f"got {reduce!r}")
    if dimensions is None:
        return
    whole = isinstance(dimensions, (int, np.integer)) and not isinstance(dimensions, bool)
    if reduce is None or not whole or dimensions < 1 or (reduce == "tsne" and dimensions > 3):
        what = "must be a whole number above 0 (at most 3 for t-SNE), with 'reduce' set"
        raise refusal(what, where="'dimensions'", got=f"got {dimensions!r} with reduce={reduce!r}")

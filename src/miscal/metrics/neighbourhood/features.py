"""Feature maps: from columns to the numbers in which rows are near each other or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from miscal.data.columns import Column, Columns
from miscal.data.errors import refusal
from miscal.metrics.neighbourhood.errors import feature_matrix

TABULAR = 20  # principal components where no number is asked for: the paper's for tables
MOST_LEVELS = 50  # of a category; the rarer ones are one level together
LARGEST = 1e90  # features beyond it are held there: sums of their distances stay finite


@dataclass(frozen=True, eq=False)
class NearnessMap:
    """What each column contributes: a number (shifted and scaled), or half-height indicators of levels, 1 apart.

    A missing number takes the mean; where the rows learned from miss some it is 1 away from those that are there.
    Levels not seen are away from all.
    """

    names: list[str]
    nominal: np.ndarray
    levels: list[list[Any]]  # None stands for missing
    means: np.ndarray
    spreads: np.ndarray
    missing: np.ndarray

    @classmethod
    def learned(
        cls,
        columns: Columns,
        names: Sequence[str],
        weight: np.ndarray | None,
        scale: str | None,
        *,
        group: bool = False,
    ) -> NearnessMap:
        """Look at the columns of some rows; `group`: every column is a category."""
        nominal, levels, means, spreads, missing = [], [], [], [], []
        for name in names:
            column = columns.find(name)
            absent = column.missing
            nominal.append(group or column.nominal)
            missing.append(bool(absent.any()))
            levels.append(_levels_present(column.as_levels()) if nominal[-1] else [])
            mean, spread = 0.0, 1.0
            if not nominal[-1]:
                mean, _ = mean_and_spread(column.values[~absent], None if weight is None else weight[~absent])
                _, spread = mean_and_spread(np.where(absent, mean, column.values), weight)
            means.append(mean)
            spreads.append(spread if scale == "standard" else 1.0)
        return cls(list(names), np.array(nominal), levels, np.array(means), np.array(spreads), np.array(missing))

    @property
    def width(self) -> int:
        """How many features."""
        return sum(
            (1 if len(levels) <= 2 else len(levels)) if nominal else 1 + int(missing)
            for nominal, levels, missing in zip(self.nominal, self.levels, self.missing, strict=True)
        )

    def features(self, columns: Columns) -> np.ndarray:
        """Features of rows (n, width), multiplied so that the kernel's number of dimensions is that of the columns."""
        made = self.plain_features(columns)
        factor = made.shape[1] / len(self.names)
        return made if factor == 1.0 else made * factor

    def plain_features(self, columns: Columns) -> np.ndarray:
        """Features of rows (n, width)."""
        parts: list[np.ndarray] = []
        for j, name in enumerate(self.names):
            if self.nominal[j]:
                parts += _level_parts(self._codes(columns, j), len(self.levels[j]))
                continue
            column = columns.find(name)
            if column.nominal:
                got = f"now it is {column.kind}"
                raise refusal("must be numeric, as it was in fit", where=f"'X' column '{name}'", got=got)
            absent = column.missing
            value = np.clip(np.where(absent, self.means[j], column.values), -LARGEST, LARGEST)
            parts.append(value if self.spreads[j] == 1.0 else (value - self.means[j]) / self.spreads[j])
            parts += [absent.astype(np.float64)] if self.missing[j] else []
        return np.column_stack(parts)

    def codes(self, columns: Columns) -> np.ndarray:
        """Places among the levels, one column each; levels not seen get -1."""
        return np.column_stack([self._codes(columns, j) for j in range(len(self.names))]).astype(np.float64)

    def _codes(self, columns: Columns, j: int) -> np.ndarray:
        column = columns.find(self.names[j]).as_levels()
        place = {level: code for code, level in enumerate(self.levels[j])}
        return np.array([place.get(level, -1) for level in (*column.levels, None)])[
            column.values
        ]  # None serves code -1


def _levels_present(column: Column) -> list[Any]:
    found = np.unique(column.values)
    plain = [
        each.item() if isinstance(each, np.generic) else each
        for each in map(column.levels.__getitem__, found[found >= 0])
    ]
    return [*plain, None] if found.size and found[0] < 0 else plain


def _level_parts(codes: np.ndarray, levels: int) -> list[np.ndarray]:
    if levels <= 2:  # one column of 0 and 1; an unseen level lies between, half a level from both
        return [np.where(codes < 0, 0.5, codes)]
    return [0.5 * (codes == level) for level in range(levels)]


def mean_and_spread(values: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
    """Mean and standard deviation of numbers of any size; a constant has a deviation of 1."""
    if not values.size:
        return 0.0, 1.0
    clipped = np.clip(values, -LARGEST, LARGEST)
    size = float(np.abs(clipped).max()) or 1.0
    part = clipped / size
    mean = float(np.average(part, weights=weight))
    spread = float(np.sqrt(np.average((part - mean) ** 2, weights=weight))) * size
    return mean * size, spread if spread > 1e-14 * abs(mean * size) and spread > 1e-290 else 1.0


def components(matrix: np.ndarray, wanted: int, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, float]:
    """Centre, leading principal directions (d, wanted), and the share of variance they hold.

    The sign of a direction is that of its largest loading.
    """
    centre = np.average(matrix, axis=0, weights=weight)
    off = matrix - centre
    scaled = off if weight is None else off * weight[:, None]
    values, vectors = np.linalg.eigh(scaled.T @ off)
    leading = vectors[:, ::-1][:, :wanted]
    largest = np.take_along_axis(leading, np.abs(leading).argmax(axis=0)[None, :], axis=0)
    held = np.maximum(values[::-1], 0.0)
    share = float(held[:wanted].sum() / held.sum()) if held.sum() > 0 else 1.0
    return centre, np.ascontiguousarray(leading * np.where(largest < 0, -1.0, 1.0)), share


def check_reduction(reduce: Any, dimensions: Any) -> None:
    """Refuse unknown reductions and numbers of dimensions."""
    if reduce not in (None, "pca"):
        hint = "to use another map, give its coordinates as numbers"
        raise refusal("must be None or 'pca'", where="'reduce'", got=f"it is {reduce!r}", hint=hint)
    if dimensions is None:
        return
    whole = isinstance(dimensions, (int, np.integer)) and not isinstance(dimensions, bool)
    if not whole or dimensions < 1:
        raise refusal("must be a whole number of at least 1", where="'dimensions'", got=f"it is {dimensions!r}")
    if reduce is None:
        raise refusal("needs a reduction", where="'dimensions'", got="'reduce' is None", hint="use reduce='pca'")


class FeatureMap(NamedTuple):
    """Features (n, d), in words how they were made, and the columns they came from."""

    values: np.ndarray
    words: str
    names: tuple[str, ...]


def feature_map(
    columns: Columns,
    chosen: Any,
    rows: int,
    weight: np.ndarray | None,
    *,
    reduce: str | None,
    dimensions: int | None,
    scale: str | None,
) -> FeatureMap:
    """Features of named columns, or those given as an array, reduced where asked."""
    check_reduction(reduce, dimensions)
    if scale not in ("standard", None):
        raise refusal("must be 'standard' or None", where="'scale'", got=f"it is {scale!r}")
    names: list[str] = []
    if chosen is None or isinstance(chosen, str) or _are_names(chosen):
        names = [chosen] if isinstance(chosen, str) else list(columns if chosen is None else chosen)
        if not names:
            raise refusal("must name at least one column", where="'columns'", got="there are none")
        pooled, words = _pooled({name: columns.find(name) for name in names}, scale)
        learned = NearnessMap.learned(pooled, names, weight, scale)
        made = learned.features(pooled) if reduce is None else learned.plain_features(pooled)
    else:
        made = feature_matrix(chosen, "'columns'")
        if len(made) != rows:
            raise refusal(f"must have one row for each of {rows}", where="'columns'", got=f"it has {len(made)}")
        words = f"{made.shape[1]} given features"
        if scale == "standard":
            mean, spread = np.array([mean_and_spread(each, weight) for each in made.T]).T
            made, words = (made - mean) / spread, words + ", standardised"
    if reduce is not None:
        wanted = min(dimensions or TABULAR, made.shape[1])
        centre, directions, share = components(made, wanted, None)
        made, words = (
            (made - centre) @ directions,
            f"{words}; {wanted} principal components with {share:.0%} of the variance",
        )
    return FeatureMap(np.ascontiguousarray(made), words, tuple(names))


def _are_names(chosen: Any) -> bool:
    return isinstance(chosen, (list, tuple)) and all(isinstance(item, str) for item in chosen)


def _pooled(columns: Mapping[str, Column], scale: str | None) -> tuple[Columns, str]:
    """The columns with rare levels taken together, and what is said of them."""
    common = {name: _commonest(each) for name, each in columns.items()}
    rare = [name for name, each in columns.items() if common[name] is not each]
    words = f"{len(columns)} columns ({', '.join(columns)})" if len(columns) <= 6 else f"{len(columns)} columns"
    words += ", numbers standardised" if scale == "standard" else ", numbers as they are"
    if rare:
        words += f", levels of {', '.join(rare)} beyond the {MOST_LEVELS} commonest taken together"
    return Columns(common), words


def _commonest(each: Column) -> Column:
    """A category whose levels beyond the commonest are one."""
    counts = np.bincount(each.values[each.values >= 0], minlength=len(each.levels)) if each.nominal else np.empty(0)
    if np.count_nonzero(counts) <= MOST_LEVELS:
        return each
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
    place = np.full(len(each.levels) + 1, MOST_LEVELS)
    place[kept], place[-1] = np.arange(MOST_LEVELS), -1
    return replace(each, values=place[each.values], levels=(*(each.levels[code] for code in kept), "the others"))

"""A decision tree over columns, with every field checked when it is read from JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data.columns import Column, Columns
from miscal.recalibrate.base import Floats, Sample
from miscal.recalibrate.fitting.tables import codes_of, find

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Coding:
    """How one column becomes a number that a tree can cut.

    Numbers stay numbers, held within the range of fit; missing ones come after the largest. Levels become their place
    in the order of the share of the class that all rows have most (binary: of class 1), missing being a level; levels
    not seen in fit, and missing values where fit had none, take the place of the commonest level.
    """

    name: str
    nominal: bool
    levels: list[Any]  # of a category, in their order; numeric: none
    low: float  # numeric: the range; category: the place of missing values and of unseen levels
    high: float

    def numbers(self, columns: Columns) -> Floats:
        """The column as numbers, infinity where a number is missing."""
        column = find(columns, self.name, "nominal" if self.nominal else "numeric")
        if not self.nominal:
            held = np.clip(column.values, self.low, self.high)
            return np.where(np.isnan(held), np.inf, held)
        codes = codes_of(column, self.levels, -1)
        places = np.where(codes < 0, self.high, codes.astype(np.float64))
        return np.where(column.missing, self.low, places)


def coded(column: Column, target: Floats, weight: Floats, prior: float = 0.0) -> Coding:
    """Learn the coding of one column; levels are ordered by their means of `target`.

    Means are drawn towards that of all rows, which counts for `prior` rows: a small level then lies near the middle.
    """
    if not column.nominal:
        seen = column.values[~column.missing]
        low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 0.0)
        return Coding(column.name, False, [], low, high)
    count = len(column.levels)
    place = np.where(column.missing, count, column.values)
    mass = np.bincount(place, weights=weight, minlength=count + 1)
    sums = np.bincount(place, weights=weight * target, minlength=count + 1)
    share = (sums + prior * np.average(target, weights=weight)) / np.where(mass > 0, mass + prior, 1.0)
    present = np.flatnonzero(mass > 0)
    order = present[np.argsort(share[present], kind="stable")]
    rank = {int(code): i for i, code in enumerate(order)}
    # Places count every level that occurs, missing among them; a level's place is its index in `levels`, so missing
    # values hold an index that no level has.
    levels = [column.levels[code] if code < count else None for code in order]
    commonest = float(rank[int(np.argmax(mass[:count]))]) if (mass[:count] > 0).any() else 0.0
    missing = float(rank[count]) if count in rank else commonest
    return Coding(column.name, True, levels, missing, commonest)


@dataclass(frozen=True)
class Tree:
    """Nodes of a tree: rows whose `column` is at most `threshold` go `left`, others `right`; leaves have left -1."""

    column: Integers
    threshold: Floats
    left: Integers
    right: Integers

    def parts(self, numbers: list[Floats], rows: int) -> Iterator[tuple[int, Integers]]:
        """Each leaf with the rows that fall in it."""
        waiting = [(0, np.arange(rows))]
        while waiting:
            node, here = waiting.pop()
            if self.left[node] < 0:
                yield node, here
                continue
            goes_left = numbers[self.column[node]][here] <= self.threshold[node]
            waiting.append((int(self.right[node]), here[~goes_left]))
            waiting.append((int(self.left[node]), here[goes_left]))

    def parents(self) -> Integers:
        """Parent of each node, -1 for the root."""
        made = np.full(len(self.left), -1)
        inner = np.flatnonzero(self.left >= 0)
        made[self.left[inner]] = inner
        made[self.right[inner]] = inner
        return made

    def check(self, columns: int) -> None:
        """Refuse nodes that do not form a tree: each child must come after its parent and have one parent only."""
        size = len(self.left)
        inner = self.left >= 0
        if size == 0 or not (len(self.column) == len(self.threshold) == len(self.right) == size):
            raise ValueError("the arrays of the tree differ in length")
        children = np.concatenate([self.left[inner], self.right[inner]])
        own = np.flatnonzero(inner)
        forward = (self.left[inner] > own).all() and (self.right[inner] > own).all()
        if not forward or sorted(children.tolist()) != list(range(1, size)):
            raise ValueError("the nodes do not form a tree")
        if ((self.column[inner] < 0) | (self.column[inner] >= columns)).any():
            raise ValueError("the tree cuts a column that is not there")


def grow(
    sample: Sample, codings: list[Coding], *, max_depth: int, min_leaf: float, random_state: Any
) -> tuple[Tree, list[Floats]]:
    """Grow a classification tree (Gini) on the columns; also the columns as numbers.

    The tree sees the rank of each value among the distinct ones, so that its cuts do not suffer from being made in
    single precision; cuts lie halfway between neighbouring values.
    """
    from sklearn.tree import DecisionTreeClassifier

    numbers = [coding.numbers(sample.columns) for coding in codings]
    distinct, ranks = [], np.empty((sample.rows, len(numbers)), dtype=np.float32)
    for j, values in enumerate(numbers):
        found, place = np.unique(values, return_inverse=True)
        distinct.append(found)
        ranks[:, j] = place
    share = isinstance(min_leaf, float) and min_leaf < 1
    smallest = {"min_samples_leaf": min_leaf if share else int(min_leaf)}
    if share and sample.weight is not None:
        smallest = {"min_weight_fraction_leaf": min_leaf}
    grower = DecisionTreeClassifier(max_depth=max_depth, random_state=random_state, **smallest)
    grown = grower.fit(ranks, sample.outcome, sample_weight=sample.weight).tree_
    inner = grown.children_left >= 0
    threshold = np.zeros(grown.node_count)
    for node in np.flatnonzero(inner):
        found = distinct[grown.feature[node]]
        below = int(np.floor(grown.threshold[node]))
        above = found[below + 1]
        threshold[node] = found[below] if np.isinf(above) else 0.5 * found[below] + 0.5 * above
    column = np.where(inner, grown.feature, 0).astype(np.int64)
    left, right = grown.children_left.astype(np.int64), grown.children_right.astype(np.int64)
    return Tree(column, threshold, left, right), numbers

"""TODO by_columns.tree_columns."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from miscal.cells.coding import Encoding
from miscal.data.arrays import Array, Floats, Integers
from miscal.data.columns import Column, Columns
from miscal.export import formula as nodes
from miscal.recalibrate.by_columns.base import ColumnRecalibrator
from miscal.recalibrate.parameters import state

TreeArrays = tuple[Integers, Floats]  # of each node of trees: column, left and right; threshold and value


def tree_encoding(column: Column, target: Floats, weight: Floats, prior: float = 0.0) -> Encoding:
    """Learn how trees see a column; levels are ordered by their means of `target`.

    Means are drawn towards that of all rows, which counts for `prior` rows: a small level then lies near the middle.
    """
    made = Encoding.learned(column)
    if not column.nominal:
        seen = column.values[~column.missing]
        return replace(made, ends=(seen.min(), seen.max()) if seen.size else (0.0, 0.0))
    place = made.read(Columns({column.name: column}))
    mass = np.bincount(place, weights=weight)
    sums = np.bincount(place, weights=weight * target)
    share = (sums + prior * np.average(target, weights=weight)) / (mass + prior)
    order = np.argsort(share, kind="stable").tolist()
    known = len(made.levels) - made.missing
    commonest = float(order.index(np.argmax(mass[:known]))) if known else 0.0
    levels = [made.levels[i] for i in order]
    return replace(made, levels=levels, ends=(commonest, commonest))


def edge_codes(numbers: Sequence[Floats], most: float = np.inf) -> tuple[list[Floats], Array]:
    """Edges halfway between the values of each column, and how many of them lie below each row's, (rows, columns).

    A tree that sees codes does not suffer from being grown in single precision. Of more than `most` distinct values
    edges are some of them, with about equally many rows between.
    """
    edges, codes = [], []
    for values in numbers:
        distinct = np.unique(values)
        below, above = distinct[:-1], distinct[1:]
        between = np.where(np.isinf(above), below, 0.5 * below + 0.5 * above)
        if distinct.size > most:
            between = np.unique(np.quantile(values, np.arange(1, most) / most, method="lower"))
        edges.append(between)
        codes.append(np.searchsorted(between, values))
    return edges, np.stack(codes, axis=1).astype(np.float32)


def tree_arrays(grown: Any, edges: list[Floats], value: Floats | float = 0.0) -> TreeArrays:
    """A tree that scikit-learn grew on codes, with cuts at the edges that the codes stand for."""
    column = np.maximum(grown.feature, -1)
    codes = np.floor(grown.threshold).astype(np.int64)
    cuts = [edges[j][code] if j >= 0 else 0.0 for j, code in zip(column, codes, strict=True)]
    return np.array([column, grown.children_left, grown.children_right]), np.array(
        np.broadcast_arrays(cuts, value)
    )


class TreeColumns(ColumnRecalibrator):
    """Base of recalibrators whose trees cut columns.

    Rows whose column is at most the threshold go left, others right; leaves have left -1. Numbers stay numbers, held
    within the range of fit; missing ones come after the largest. Levels become their place in the order of a mean,
    missing being a level; levels not seen in fit, and missing values where fit had none, take the place of the
    commonest level.
    """

    more_columns: ClassVar[int] = 0  # that trees cut besides

    nominal_: Array = state("bool", "any")
    # Of a category: the place of what is unseen.
    ranges_: Floats = state("float", "any", 2, low=-np.inf, high=np.inf)
    nodes_: Integers = state("int", 3, "any", low=-1)  # column, left and right
    cuts_: Floats = state("float", 2, "any", low=-np.inf, high=np.inf)  # threshold and value

    def check_state(self) -> None:
        """Refuse nodes that do not form trees: children come after their parents, and nothing points outside."""
        super().check_state()
        count = self.nodes_.shape[1]
        inner = np.flatnonzero(self.nodes_[1] >= 0)
        column, children = self.nodes_[0, inner], self.nodes_[1:, inner]
        fine = (inner < children) & (children < count)
        once = np.unique(children).size == children.size
        if not fine.all() or not once or self.cuts_.shape[1] != count:
            raise ValueError("the nodes do not form trees")
        known = range(len(self.names_) + self.more_columns)
        if not np.isin(column, known).all():
            raise ValueError("the trees cut a column that is not there")

    def _numbers(self, columns: Columns) -> list[Floats]:
        """The columns as numbers that trees cut; missing ones come after the largest."""
        made = [each.read(columns) for each in self._column_encodings()]
        return [np.where(np.isnan(values), np.inf, values) for values in made]

    def _roots(self) -> Integers:
        """Where each tree starts: nodes that are no node's children."""
        return np.setdiff1d(np.arange(self.nodes_.shape[1]), self.nodes_[1:])

    def _cut_columns(self) -> list[nodes.Node]:
        """Each column as the number that trees cut, in a formula."""
        made: list[nodes.Node] = []
        for each in self._column_encodings():
            places = dict(enumerate(range(len(each.levels))))
            number = nodes.Number(each.name, each.ends[0], each.ends[1], nodes.LARGEST)
            made.append(nodes.level_of(each, places, each.unseen) if each.nominal else number)
        return made

    def _formulas(
        self, columns: list[nodes.Node], leaf: Callable[[int], nodes.Node]
    ) -> dict[int, nodes.Node]:
        """Each node as cuts, made from the last: children come after their parents."""
        made: dict[int, nodes.Node] = {}
        for node in reversed(range(self.nodes_.shape[1])):
            column, left, right = self.nodes_[:, node].tolist()
            if left < 0:
                made[node] = leaf(node)
                continue
            at = float(self.cuts_[0, node])
            made[node] = nodes.Cut(columns[column], at, made[left], made[right])
        return made

    def _column_encodings(self, **more: Any) -> list[Encoding]:
        return [replace(each, unseen=each.ends[1]) for each in super()._column_encodings(**more)]

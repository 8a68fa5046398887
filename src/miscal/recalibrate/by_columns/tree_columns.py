"""Trees on columns: how they see columns, and the arrays in which they are kept.

scikit-learn's and LightGBM's trees are copied into plain arrays (`TreeArrays`), so that predictions, JSON, SQL and ONNX
need neither.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from miscal.cells.coding import Encoding
from miscal.data.arrays import Array, Floats, Integers
from miscal.data.columns import Column, Columns
from miscal.export import formula as nodes
from miscal.recalibrate.by_columns.base import ColumnRecalibrator
from miscal.recalibrate.parameters import state

#: Of each node: (3, nodes) column, left and right child (-1 in a leaf); (2, nodes) threshold and value.
TreeArrays: TypeAlias = tuple[Integers, Floats]


def tree_encoding(column: Column, target: Floats, weight: Floats, prior: float = 0.0) -> Encoding:
    """Learn how trees see a column; levels are ordered by their means of `target`.

    Parameters
    ----------
    column : Column
        Of the rows to fit on.
    target, weight : (n,) array
        Of each row.
    prior : float, default=0.0
        Rows that the mean of all rows counts for: a small level then lies near the middle.

    Returns
    -------
    Encoding
        With the range of the numbers, or the code of the most frequent level, as its `ends`.
    """
    encoding = Encoding.learned(column)
    if not column.nominal:
        values = column.values[~column.missing]
        return replace(encoding, ends=(values.min(), values.max()) if values.size else (0.0, 0.0))
    code = encoding.read(Columns({column.name: column}))
    mass = np.bincount(code, weights=weight)
    sums = np.bincount(code, weights=weight * target)
    mean = (sums + prior * np.average(target, weights=weight)) / (mass + prior)
    order = np.argsort(mean, kind="stable").tolist()
    n_known = len(encoding.levels) - encoding.missing
    most_frequent = float(order.index(np.argmax(mass[:n_known]))) if n_known else 0.0
    levels = [encoding.levels[i] for i in order]
    return replace(encoding, levels=levels, ends=(most_frequent, most_frequent))


def edge_codes(numbers: Sequence[Floats], max_bins: float = np.inf) -> tuple[list[Floats], Array]:
    """Bins of each column between its distinct values.

    A tree that is grown on codes does not suffer from single precision.

    Parameters
    ----------
    numbers : sequence of (n,) array
        The columns.
    max_bins : float, optional
        Of more distinct values edges are some of them, with about equally many rows between.

    Returns
    -------
    edges : list of array
        Halfway between the distinct values of each column.
    codes : (n, columns) array
        How many edges lie below each value.
    """
    edges, codes = [], []
    for values in numbers:
        distinct = np.unique(values)
        below, above = distinct[:-1], distinct[1:]
        between = np.where(np.isinf(above), below, 0.5 * below + 0.5 * above)
        if distinct.size > max_bins:
            between = np.unique(np.quantile(values, np.arange(1, max_bins) / max_bins, method="lower"))
        edges.append(between)
        codes.append(np.searchsorted(between, values))
    return edges, np.stack(codes, axis=1).astype(np.float32)


def tree_arrays(tree: Any, edges: list[Floats], value: Floats | float = 0.0) -> TreeArrays:
    """A tree that scikit-learn grew on codes, with thresholds at the edges that the codes stand for.

    Parameters
    ----------
    tree : sklearn.tree._tree.Tree
        Its `tree_`.
    edges : list of array
        Of each column, as `edge_codes` gave them.
    value : float or (nodes,) array, default=0.0
        Of each node.

    Returns
    -------
    TreeArrays
    """
    column = np.maximum(tree.feature, -1)
    codes = np.floor(tree.threshold).astype(np.int64)
    thresholds = [edges[j][code] if j >= 0 else 0.0 for j, code in zip(column, codes, strict=True)]
    links = np.array([column, tree.children_left, tree.children_right])
    return links, np.array(np.broadcast_arrays(thresholds, value))


class TreeColumns(ColumnRecalibrator):
    """Base class of recalibrators whose trees cut columns.

    Rows whose column is at most the threshold go left, others right; leaves have left -1. Numbers stay numbers, clipped
    to the range of fit; missing ones come after the largest. Levels become their place in the order of a mean,
    missing being a level; levels not seen in fit, and missing values where fit had none, take the place of the
    most frequent level.

    Attributes
    ----------
    nominal_ : (d,) array of bool
        Whether a column is categorical.
    ranges_ : (d, 2) array
        Range of a number; of a category, twice the place of what is unseen.
    nodes_ : (3, nodes) array of int
        Column, left and right child of each node of all trees.
    cuts_ : (2, nodes) array
        Threshold and value of each node.
    """

    #: Columns that trees cut besides those of X.
    more_columns: ClassVar[int] = 0

    nominal_: Array = state("bool", "any")
    ranges_: Floats = state("float", "any", 2, low=-np.inf, high=np.inf)
    nodes_: Integers = state("int", 3, "any", low=-1)
    cuts_: Floats = state("float", 2, "any", low=-np.inf, high=np.inf)

    def check_state(self) -> None:
        """Reject nodes that do not form trees: children come after their parents, and nothing points outside."""
        super().check_state()
        count = self.nodes_.shape[1]
        inner = np.flatnonzero(self.nodes_[1] >= 0)
        column, children = self.nodes_[0, inner], self.nodes_[1:, inner]
        follow = (inner < children) & (children < count)
        distinct = np.unique(children).size == children.size
        if not follow.all() or not distinct or self.cuts_.shape[1] != count:
            raise ValueError("the nodes do not form trees")
        known = range(len(self.names_) + self.more_columns)
        if not np.isin(column, known).all():
            raise ValueError("the trees cut a column that is not there")

    def _numbers(self, columns: Columns) -> list[Floats]:
        """The columns as numbers that trees cut; missing ones come after the largest."""
        numbers = [encoding.read(columns) for encoding in self._column_encodings()]
        return [np.where(np.isnan(values), np.inf, values) for values in numbers]

    def _roots(self) -> Integers:
        """Where each tree starts: nodes that are no node's children."""
        return np.setdiff1d(np.arange(self.nodes_.shape[1]), self.nodes_[1:])

    def _column_formulas(self) -> list[nodes.Node]:
        """Each column as the number that trees cut, as an expression."""
        formulas: list[nodes.Node] = []
        for encoding in self._column_encodings():
            if encoding.nominal:
                places = dict(enumerate(range(len(encoding.levels))))
                formulas.append(nodes.level_of(encoding, places, encoding.unseen))
            else:
                low, high = encoding.ends
                formulas.append(nodes.Number(encoding.name, low, high, nodes.LARGEST))
        return formulas

    def _node_formulas(
        self, columns: list[nodes.Node], leaf: Callable[[int], nodes.Node]
    ) -> dict[int, nodes.Node]:
        """The expression of each node, from the last one: children come after their parents."""
        formulas: dict[int, nodes.Node] = {}
        for node in reversed(range(self.nodes_.shape[1])):
            column, left, right = self.nodes_[:, node].tolist()
            if left < 0:
                formulas[node] = leaf(node)
                continue
            threshold = float(self.cuts_[0, node])
            formulas[node] = nodes.Cut(columns[column], threshold, formulas[left], formulas[right])
        return formulas

    def _column_encodings(self, **common: Any) -> list[Encoding]:
        return [
            replace(encoding, unseen=encoding.ends[1]) for encoding in super()._column_encodings(**common)
        ]

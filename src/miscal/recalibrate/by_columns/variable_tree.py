"""Recalibration along variables: a tree of recalibrators (paper 000, section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from miscal.data.columns import Column, Columns
from miscal.data.errors import refusal
from miscal.recalibrate.base import Array, Floats, Recalibrator, Sample
from miscal.recalibrate.by_columns.augmented import AugmentedBeta, AugmentedLogistic
from miscal.recalibrate.classes.dirichlet import DirichletCalibration
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.fitting.tables import check_chosen, chosen_names
from miscal.recalibrate.fitting.tree import Coding, Integers, Tree, coded, grow
from miscal.recalibrate.score.beta import BetaCalibration
from miscal.recalibrate.state import Field, label_array

__all__ = ["AugmentedBeta", "AugmentedLogistic", "VariableTree"]


class VariableTree(Recalibrator):
    """Cut the rows by a decision tree on variables and recalibrate each leaf by itself (Kelly and Smyth 2023).

    The tree (CART, Gini) predicts the outcome from the columns alone. Each leaf gets its own recalibrator, fitted on
    its rows; a leaf with one class only uses the map of its nearest ancestor with two. Does not keep the ranking.

    Numbers beyond the range of fit go to the end leaf. Missing numbers come after the largest, where a cut may set them
    apart. Levels of a category are ordered by the share of class 1 (several classes: of the commonest class);
    missing is a level; levels not seen in fit, and missing values where fit had none, go with the commonest level.
    Constant columns are never cut: with nothing to cut the tree is one leaf.

    Parameters
    ----------
    columns : names or positions, optional
        Which columns of X; None: all.
    leaf : recalibrator of the score, optional
        What each leaf gets a copy of. None: BetaCalibration(); DirichletCalibration() for more than two classes.
    max_depth : int
    min_leaf : float or int
        The smallest leaf: a share of the rows (of the weight, with weights) below 1, or a number of rows.
    random_state : int
        Settles which of equally good cuts is taken.

    Attributes
    ----------
    names_ : (d,) names of the columns
    leaves_ : list of fitted recalibrators, one a node, None at inner nodes

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> age, y_prob = rng.integers(20, 80, 4000), rng.uniform(0.1, 0.9, 4000)
    >>> y = rng.random(4000) < np.where(age < 50, y_prob**2, y_prob)
    >>> VariableTree(max_depth=1).fit(y_prob, y, {"age": age})
    VariableTree(max_depth=1) fitted on 4,000 rows: 2 leaves; age <= 49.5
    """

    uses_columns: ClassVar[bool] = True
    fields: ClassVar[dict[str, Field]] = {
        "names_": Field("labels"),
        "nominal_": Field("bool", ("any",)),
        "levels_": Field("levels"),
        "ranges_": Field("float", ("any", 2), -np.inf, np.inf),
        "node_column_": Field("int", ("any",)),
        "node_threshold_": Field("float", ("any",), -np.inf, np.inf),
        "node_left_": Field("int", ("any",), -1),
        "node_right_": Field("int", ("any",), -1),
        "leaves_": Field("inner"),
    }

    names_: Array
    nominal_: Array
    levels_: list[list[Any]]
    ranges_: Floats
    node_column_: Integers
    node_threshold_: Floats
    node_left_: Integers
    node_right_: Integers
    leaves_: list[Recalibrator | None]

    def __init__(
        self,
        columns: Any = None,
        leaf: Recalibrator | None = None,
        max_depth: int = 3,
        min_leaf: float = 0.1,
        random_state: int = 0,
    ) -> None:
        self.columns = columns
        self.leaf = leaf
        self.max_depth = max_depth
        self.min_leaf = min_leaf
        self.random_state = random_state

    def check_parameters(self) -> None:
        """Refuse wrong parameters."""
        check_chosen(self.columns)
        if self.leaf is not None and (not isinstance(self.leaf, Recalibrator) or self.leaf.uses_columns):
            hint = "such as BetaCalibration()"
            raise refusal("must be a recalibrator of the score", where="'leaf'", got=f"got {self.leaf!r}", hint=hint)
        parameters.whole("max_depth", self.max_depth, 1, 64)
        if parameters.is_whole(self.min_leaf):
            parameters.whole("min_leaf", self.min_leaf, 1)
        else:
            parameters.number("min_leaf", self.min_leaf, 0.0, 0.5, above=True)
        parameters.whole("random_state", self.random_state, 0, 2**32 - 1)

    def check_state(self) -> None:
        """Refuse a tree that is none, or leaves that do not belong to it."""
        count = len(self.names_)
        if not count or not (len(self.nominal_) == len(self.levels_) == len(self.ranges_) == count):
            raise ValueError("the columns of the tree differ in number")
        tree = self._tree()
        tree.check(count)
        if len(self.leaves_) != len(tree.left):
            raise ValueError("there must be one leaf or nothing a node")
        for left, leaf in zip(tree.left, self.leaves_, strict=True):
            if (leaf is None) != (left >= 0):
                raise ValueError("leaves must hold a recalibrator, inner nodes none")
            if leaf is not None and (leaf.uses_columns or not leaf.is_fitted() or leaf.n_classes_ != self.n_classes_):
                raise ValueError("a leaf must hold a fitted recalibrator of the score with the same classes")

    def _fit(self, sample: Sample) -> None:
        names = chosen_names(sample.columns, self.columns)
        weight = np.ones(sample.rows) if sample.weight is None else sample.weight
        favourite = 1 if sample.n_classes == 2 else int(np.argmax(sample.class_weights()))
        target = (sample.outcome == favourite).astype(np.float64)
        codings = [coded(sample.columns.find(name), target, weight) for name in names]
        options = {"max_depth": int(self.max_depth), "random_state": int(self.random_state)}
        tree, numbers = grow(sample, codings, min_leaf=self.min_leaf, **options)
        self.names_ = label_array([coding.name for coding in codings])
        self.nominal_ = np.array([coding.nominal for coding in codings])
        self.levels_ = [coding.levels for coding in codings]
        self.ranges_ = np.array([[coding.low, coding.high] for coding in codings])
        self.node_column_, self.node_threshold_ = tree.column, tree.threshold
        self.node_left_, self.node_right_ = tree.left, tree.right
        self.leaves_ = self._fitted_leaves(sample, tree, dict(tree.parts(numbers, sample.rows)))

    def _fitted_leaves(self, sample: Sample, tree: Tree, parts: dict[int, Integers]) -> list[Recalibrator | None]:
        leaf = self.leaf
        if leaf is None:
            leaf = BetaCalibration() if sample.n_classes == 2 else DirichletCalibration()
        parents = tree.parents()
        rows = dict(parts)
        for node in range(len(tree.left) - 1, -1, -1):  # children come after their parents
            if tree.left[node] >= 0:
                rows[node] = np.concatenate([rows[int(tree.left[node])], rows[int(tree.right[node])]])
        made: list[Recalibrator | None] = [None] * len(tree.left)
        for node in parts:
            source = node
            while len(np.unique(sample.outcome[rows[source]])) < 2 and parents[source] >= 0:
                source = int(parents[source])
            part = sample.take(np.sort(rows[source]))
            made[node] = clone(leaf).fit(part.probability, part.outcome, sample_weight=part.weight)
        return made

    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        numbers = [coding.numbers(columns) for coding in self._codings()]
        out = np.empty((len(probability), self.n_classes_))
        for node, rows in self._tree().parts(numbers, len(probability)):
            leaf = self.leaves_[node]
            if rows.size and leaf is not None:
                out[rows] = leaf.predict_proba(probability[rows])
        return out

    def _tree(self) -> Tree:
        return Tree(self.node_column_, self.node_threshold_, self.node_left_, self.node_right_)

    def _codings(self) -> list[Coding]:
        described = zip(self.names_, self.nominal_, self.levels_, self.ranges_, strict=True)
        return [Coding(str(n), bool(c), levels, float(r[0]), float(r[1])) for n, c, levels, r in described]

    def _formula(self) -> nodes.Formula:
        columns = nodes.cut_columns(self._codings(), lambda _: nodes.LARGEST)
        parts = (self.node_column_, self.node_threshold_, self.node_left_, self.node_right_)
        leaves: Any = self.leaves_
        return nodes.tree_of([part.tolist() for part in parts], 0, columns, lambda node: leaves[node].formula())

    @classmethod
    def _candidates(cls, n_classes: int, columns: Mapping[str, Column]) -> dict[str, Recalibrator]:  # noqa: ARG003
        numeric = [name for name, column in columns.items() if not column.nominal]
        return {f"{cls.__name__}({name})": cls(columns=[name]) for name in numeric}

    def _summary(self) -> str:
        inner = np.flatnonzero(self.node_left_ >= 0)
        cuts = [self._cut(int(node)) for node in inner[:4]]
        more = ", ..." if len(inner) > 4 else ""
        leaves = len(self.node_left_) - len(inner)
        return f"{leaves} {'leaf' if leaves == 1 else 'leaves'}" + (f"; {', '.join(cuts)}{more}" if cuts else "")

    def _cut(self, node: int) -> str:
        column, threshold = self.node_column_[node], self.node_threshold_[node]
        if not self.nominal_[column]:
            return f"{self.names_[column]} <= {threshold:g}"
        levels = [str(level) for level in self.levels_[column][: int(np.floor(threshold)) + 1]]
        return f"{self.names_[column]} in {{{', '.join(levels[:3])}{', ...' if len(levels) > 3 else ''}}}"

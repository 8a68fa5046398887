"""Gradient-boosted trees on the logit with an offset, grown by LightGBM or scikit-learn, kept as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from miscal.data.errors import MissingExtra
from miscal.recalibrate.base import Floats
from miscal.recalibrate.fitting.tree import Integers

TREES = 25  # trees a round, after which the score among the features is the new one
LEARNING_RATE = 0.1
L2 = 5.0
BINS = 255
MANY = 200_000  # rows from which several threads pay: below it they mostly wait for one another
HESSIAN = 5.0  # least sum of p(1 - p) in a leaf


@dataclass(frozen=True)
class Growth:
    """How trees are grown: by whom, how many leaves each has at most, and how many rows each leaf at least."""

    engine: str
    leaves: int
    min_rows: int
    seed: int


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1.0 + small))


def log_losses(logit: Floats, outcome: Floats) -> Floats:
    """Log loss of each row."""
    return np.asarray(np.logaddexp(0.0, logit) - outcome * logit)


@dataclass
class Forest:
    """Trees as one list of nodes; `roots` says where each starts. Leaves have left -1."""

    column: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)

    def leaf(self, value: float) -> int:
        """Append a leaf and return its place."""
        return self._node(0, 0.0, value)

    def _node(self, column: int, threshold: float, value: float) -> int:
        self.column.append(column)
        self.threshold.append(threshold)
        self.value.append(value)
        self.left.append(-1)
        self.right.append(-1)
        return len(self.left) - 1

    def add(self, tree: Any, read: Any) -> None:
        """Append a tree; `read(node)` gives (column, threshold, left, right) or a leaf's value."""
        self.roots.append(len(self.left))
        waiting: list[tuple[Any, int, bool]] = [(tree, -1, False)]
        while waiting:
            node, parent, is_left = waiting.pop()
            found = read(node)
            if isinstance(found, tuple):
                place = self._node(int(found[0]), float(found[1]), 0.0)
                waiting += [(found[3], place, False), (found[2], place, True)]
            else:
                place = self.leaf(float(found))
            if parent >= 0:
                (self.left if is_left else self.right)[parent] = place

    def arrays(self) -> dict[str, Any]:
        """The nodes as arrays."""
        return {
            "column": np.array(self.column, dtype=np.int64),
            "threshold": np.array(self.threshold, dtype=np.float64),
            "left": np.array(self.left, dtype=np.int64),
            "right": np.array(self.right, dtype=np.int64),
            "value": np.array(self.value, dtype=np.float64),
            "roots": np.array(self.roots, dtype=np.int64),
        }


def check_forest(arrays: tuple[Integers, Floats, Integers, Integers, Floats, Integers], columns: int) -> None:
    """Refuse nodes that do not form trees: children come after their parents, and nothing points outside."""
    column, threshold, left, right, value, roots = arrays
    size = len(left)
    if not (len(column) == len(threshold) == len(right) == len(value) == size):
        raise ValueError("the arrays of the trees differ in length")
    inner = np.flatnonzero(left >= 0)
    for children in (left[inner], right[inner]):
        if (children <= inner).any() or (children >= size).any():
            raise ValueError("the nodes do not form trees")
    if (right[left < 0] >= 0).any() or ((column[inner] < 0) | (column[inner] >= columns)).any():
        raise ValueError("the trees cut a column that is not there")
    if ((roots < 0) | (roots >= max(size, 1))).any() or (roots.size and not size):
        raise ValueError("a tree starts where there is no node")


def chosen_engine(engine: str) -> str:
    """The library that grows trees: LightGBM where it is installed, unless one is named."""
    if engine == "sklearn":
        return engine
    try:
        import lightgbm  # noqa: F401
    except ImportError as error:
        if engine == "lightgbm":
            raise MissingExtra("MulticalibrationBoost(engine='lightgbm')", "lightgbm", "boost") from error
        return "sklearn"
    return "lightgbm"


def grow_trees(growth: Growth, features: Floats, outcome: Floats, weight: Floats, offset: Floats) -> Forest:
    """One round of trees on features (columns, n), starting from the offset."""
    grow = _by_lightgbm if growth.engine == "lightgbm" else _by_sklearn
    return grow(growth, features, outcome, weight, offset)


def _by_lightgbm(growth: Growth, features: Floats, outcome: Floats, weight: Floats, offset: Floats) -> Forest:
    import lightgbm

    options = {
        "objective": "binary", "learning_rate": LEARNING_RATE, "num_leaves": growth.leaves, "lambda_l2": L2,
        "min_sum_hessian_in_leaf": HESSIAN, "min_data_in_leaf": growth.min_rows, "use_missing": False,
        "boost_from_average": False, "deterministic": True, "force_col_wise": True, "seed": growth.seed,
        "verbosity": -1, "feature_pre_filter": False, "num_threads": 1 if outcome.size < MANY else 0,
    }  # fmt: skip
    data = lightgbm.Dataset(features.T, outcome, weight=weight, init_score=offset, params=options)
    grown = lightgbm.train(options, data, num_boost_round=TREES).dump_model()
    forest = Forest()

    def read(node: dict[str, Any]) -> Any:
        if "leaf_value" in node:
            return node["leaf_value"]
        return node["split_feature"], node["threshold"], node["left_child"], node["right_child"]

    for tree in grown["tree_info"]:
        forest.add(tree["tree_structure"], read)
    return forest


def _by_sklearn(growth: Growth, features: Floats, outcome: Floats, weight: Floats, offset: Floats) -> Forest:
    """Newton steps: each tree is a regression of (y - p) / (p(1-p)) with weights p(1-p), on at most 255 bins a column.

    `HistGradientBoostingClassifier` takes no offset, so its two ideas, bins and Newton steps, are used one by one.
    """
    from sklearn.tree import DecisionTreeRegressor

    edges = [_edges(values) for values in features]
    codes = np.stack([np.searchsorted(e, v, side="left") for e, v in zip(edges, features, strict=True)], axis=1)
    codes = codes.astype(np.float32)
    forest, logit = Forest(), offset.copy()
    for _ in range(TREES):
        probability = sigmoid(logit)
        curvature = np.maximum(probability * (1.0 - probability), 1e-6)
        grower = DecisionTreeRegressor(
            max_leaf_nodes=growth.leaves, min_samples_leaf=growth.min_rows, random_state=growth.seed
        )
        grower.fit(codes, (outcome - probability) / curvature, sample_weight=weight * curvature)
        tree, place = grower.tree_, grower.apply(codes)
        mass = np.bincount(place, weight * curvature, tree.node_count)
        step = np.bincount(place, weight * (outcome - probability), tree.node_count) / (mass + L2)
        step[mass < HESSIAN] = 0.0
        logit += LEARNING_RATE * step[place]

        def read(node: int, tree: Any = tree, step: Floats = step) -> Any:
            if tree.children_left[node] < 0:
                return LEARNING_RATE * step[node]
            column = int(tree.feature[node])
            cut = edges[column][int(np.floor(tree.threshold[node]))]  # codes up to k are values up to edge k
            return column, cut, int(tree.children_left[node]), int(tree.children_right[node])

        forest.add(0, read)
    return forest


def _edges(values: Floats) -> Floats:
    """Borders between bins of about equally many rows, halfway between neighbouring distinct values where few."""
    distinct = np.unique(values)
    if distinct.size <= BINS:
        return np.asarray(0.5 * (distinct[1:] + distinct[:-1]))
    return np.unique(np.quantile(values, np.arange(1, BINS) / BINS, method="lower"))

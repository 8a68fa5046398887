"""Rounds of small trees on coded columns, as one table of nodes: grown by LightGBM or by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from miscal.data.errors import MissingExtra
from miscal.recalibrate.base import Floats
from miscal.recalibrate.by_columns.variable_tree import Integers, Tree
from miscal.recalibrate.sample import Family

TREES = 25  # trees a round, after which the score among the features is the new one
LEARNING_RATE = 0.1
L2 = 5.0
BINS = 255
MANY = 200_000  # rows from which several threads pay: below it they mostly wait for one another
HESSIAN = 5.0  # least sum of the second derivatives in a leaf: of p(1 - p), of expected counts, of rows
BEND = 1e-6  # least second derivative that a row is divided by
Rows = tuple[Floats, Floats, Floats, Floats]  # features (columns, n), outcome, weight, and the link to start from


class Forest:
    """Trees that grow in number, as one table of nodes; `roots` says where each starts."""

    def __init__(self) -> None:
        self.table: list[list[float]] = []  # column, threshold, left, right, value
        self.roots: list[int] = []

    def add(self, tree: Any, read: Callable[[Any], Any]) -> None:
        """Append a tree; `read(node)` gives (column, threshold, left, right) or a leaf's value."""
        self.roots.append(len(self.table))
        waiting: list[tuple[Any, list[float], int]] = [(tree, [], 0)]
        while waiting:
            node, parent, side = waiting.pop()
            if parent:
                parent[side] = len(self.table)
            found = read(node)
            made = [*found[:2], -1, -1, 0.0] if isinstance(found, tuple) else [0, 0.0, -1, -1, found]
            if isinstance(found, tuple):
                waiting += [(found[3], made, 3), (found[2], made, 2)]
            self.table.append(made)

    def arrays(self) -> tuple[Tree, Floats, Integers]:
        """The nodes, the values of the leaves, and the roots."""
        table = np.array(self.table, dtype=np.float64).reshape(-1, 5).T.copy()
        column, left, right = table[[0, 2, 3]].astype(np.int64)
        return Tree(column, table[1], left, right), table[4], np.array(self.roots, dtype=np.int64)


def grower(engine: str) -> Callable[..., None]:
    """The function that grows trees: by LightGBM where it is installed, unless one is named."""
    if engine == "sklearn":
        return by_sklearn
    try:
        import lightgbm  # noqa: F401
    except ImportError as error:
        if engine == "lightgbm":
            raise MissingExtra("MulticalibrationBoost(engine='lightgbm')", "lightgbm", "boost") from error
        return by_sklearn
    return by_lightgbm


def by_lightgbm(forest: Forest, rows: Rows, family: Family, *, leaves: int, min_rows: int, seed: int) -> None:
    """Grow one round of trees on rows."""
    import lightgbm

    features, outcome, weight, offset = rows
    options = {
        "objective": family.objective, "poisson_max_delta_step": 1e-9, "learning_rate": LEARNING_RATE,
        "num_leaves": leaves, "lambda_l2": L2,
        "min_sum_hessian_in_leaf": HESSIAN, "min_data_in_leaf": min_rows, "use_missing": False,
        "boost_from_average": False, "deterministic": True, "force_col_wise": True, "seed": seed,
        "verbosity": -1, "feature_pre_filter": False, "num_threads": 1 if outcome.size < MANY else 0,
    }  # fmt: skip
    data = lightgbm.Dataset(features.T, outcome, weight=weight, init_score=offset, params=options)
    grown = lightgbm.train(options, data, num_boost_round=TREES).dump_model()

    def read(node: dict[str, Any]) -> Any:
        if "leaf_value" in node:
            return node["leaf_value"]
        return node["split_feature"], node["threshold"], node["left_child"], node["right_child"]

    for tree in grown["tree_info"]:
        forest.add(tree["tree_structure"], read)


def by_sklearn(forest: Forest, rows: Rows, family: Family, *, leaves: int, min_rows: int, seed: int) -> None:
    """As `by_lightgbm`, by Newton steps: trees of residual / bend with weights bend (of two classes p(1 - p)).

    A column has at most 255 bins.
    `HistGradientBoostingClassifier` takes no offset, so its two ideas, bins and Newton steps, are used one by one.
    """
    from sklearn.tree import DecisionTreeRegressor

    features, outcome, weight, offset = rows
    edges = [_edges(values) for values in features]
    codes = np.stack([np.searchsorted(e, v, side="left") for e, v in zip(edges, features, strict=True)], axis=1)
    codes = codes.astype(np.float32)
    link = offset.copy()
    for _ in range(TREES):
        mean = family.mean(link)
        curvature = np.maximum(family.bend(mean), BEND)
        regression = DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=min_rows, random_state=seed)
        regression.fit(codes, (outcome - mean) / curvature, sample_weight=weight * curvature)
        tree, place = regression.tree_, regression.apply(codes)
        mass = np.bincount(place, weight * curvature, tree.node_count)
        step = np.bincount(place, weight * (outcome - mean), tree.node_count) / (mass + L2)
        step[mass < HESSIAN] = 0.0
        link += LEARNING_RATE * step[place]

        def read(node: int, tree: Any = tree, step: Floats = step) -> Any:
            if tree.children_left[node] < 0:
                return LEARNING_RATE * step[node]
            column = int(tree.feature[node])
            cut = edges[column][int(np.floor(tree.threshold[node]))]  # codes up to k are values up to edge k
            return column, cut, int(tree.children_left[node]), int(tree.children_right[node])

        forest.add(0, read)


def _edges(values: Floats) -> Floats:
    """Borders between bins of about equally many rows, halfway between neighbouring distinct values where few."""
    distinct = np.unique(values)
    if distinct.size <= BINS:
        return np.asarray(0.5 * (distinct[1:] + distinct[:-1]))
    return np.unique(np.quantile(values, np.arange(1, BINS) / BINS, method="lower"))

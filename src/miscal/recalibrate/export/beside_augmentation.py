"""One row through the rounds of `Augmentation`, where its classifiers are scikit-learn's decision trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import Any

import numpy as np

from miscal.recalibrate.export.row import General, Row, code, number

Features = Callable[[Row], list[float]]
Round = Callable[[list[float]], Sequence[float]]


def one_row(made: Any) -> Callable[[float, Row], float]:
    """A function from a probability and a row to the event's probability."""
    run = several(made)
    return lambda p, row: run([1.0 - p, p], row)[1]


def several(made: Any) -> Callable[[Sequence[float], Row], Sequence[float]]:
    """A function from the classes' probabilities and a row to better ones."""
    readers = [_reader(encoding) for encoding in made.encodings_]
    rounds = [_tree(fitted, made.n_classes_) for fitted in made.estimators_]

    def run(p: Sequence[float], row: Row) -> Sequence[float]:
        beside = [value for read in readers for value in read(row)]
        for one in rounds:
            p = one([*beside, *p[1:]])
        return p

    return run


def _reader(encoding: Any) -> Features:
    """The features of one column, as `Encoding.features` makes them."""
    flagged = encoding.missing
    if not encoding.nominal:
        read, mean = number(encoding.name), encoding.mean

        def numeric(row: Row) -> list[float]:
            value = read(row)
            made = [mean if isnan(value) else value]
            return [*made, float(isnan(value))] if flagged else made

        return numeric
    count = len(encoding.levels)
    place = code(encoding.name, encoding.levels, -2, -1)

    def nominal(row: Row) -> list[float]:
        found = place(row)
        made = [0.0] * (count + flagged)
        if found >= 0:
            made[found] = 1.0
        elif found == -2 and flagged:
            made[-1] = 1.0
        return made

    return nominal


def _tree(fitted: Any, classes: int) -> Round:
    from sklearn.tree import DecisionTreeClassifier

    if type(fitted) is not DecisionTreeClassifier:
        raise General
    tree, single = fitted.tree_, np.float32
    left, right, column = tree.children_left.tolist(), tree.children_right.tolist(), tree.feature.tolist()
    threshold = tree.threshold.tolist()
    shares = np.zeros((tree.node_count, classes))
    shares[:, fitted.classes_.astype(np.int64)] = tree.value[:, 0, :]
    leaves = (shares / shares.sum(axis=1, keepdims=True)).tolist()

    def run(features: list[float]) -> Sequence[float]:
        node = 0
        while left[node] >= 0:  # scikit-learn compares in single precision
            node = left[node] if float(single(features[column[node]])) <= threshold[node] else right[node]
        found: list[float] = leaves[node]
        return found

    return run

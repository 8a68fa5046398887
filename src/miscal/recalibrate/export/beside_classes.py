"""One row of several classes with its columns: the quick way of the maps that look at columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from miscal.data.errors import MiscalError
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.export import beside, beside_augmentation, beside_local, beside_neural
from miscal.recalibrate.export.row import General, Row

Several = Callable[[Sequence[float], Row], Sequence[float]]


def several_of(recalibrator: Recalibrator) -> Several | None:
    """A function from the classes' probabilities and a row to better ones; None where there is none."""
    writer = _WRITERS.get(type(recalibrator).__name__)
    if writer is None or recalibrator.n_classes_ == 2 or recalibrator.identity_:
        return None
    try:
        return writer(recalibrator)
    except (MiscalError, General):
        return None


def _tree(made: Any) -> Several:
    leaf_of, leaves = beside.leaf_finder(made), made.leaves_

    def run(p: Sequence[float], row: Row) -> Sequence[float]:
        found: list[float] = leaves[leaf_of(row)].predict_proba(np.array([p]))[0].tolist()
        return found

    return run


def _groups(made: Any) -> Several:
    if made.recalibrator.uses_columns:
        raise General
    chain, whole = beside.group_chain(made), made.whole_[0]

    def run(p: Sequence[float], row: Row) -> Sequence[float]:
        given = np.array([p])
        out = whole.predict_proba(given)
        for place, share in chain(row):
            out = share * made.maps_[place].predict_proba(given) + (1.0 - share) * out
        found: list[float] = out[0].tolist()
        return found

    return run


def _each(maps: list[beside.Beside]) -> Several:
    """Each class against the rest, the row divided by its sum."""

    def run(p: Sequence[float], row: Row) -> Sequence[float]:
        found = [one(q, row) for one, q in zip(maps, p, strict=True)]
        total = sum(found)
        if total <= 0.0:
            found, total = list(p), sum(p)
        return [value / total for value in found] if abs(total - 1.0) > 1e-12 else found

    return run


def _boosted(made: Any) -> Several:
    maps = [beside.beside_of(one) for one in made.inner_]
    if None in maps:
        raise General
    return _each([one for one in maps if one is not None])


def _augmented(made: Any) -> Several:
    return _each([beside.augmented_map(made, k) for k in range(made.n_classes_)])


_WRITERS: dict[str, Callable[[Any], Several]] = {
    "VariableTree": _tree,
    "GroupWise": _groups,
    "MulticalibrationBoost": _boosted,
    "AugmentedLogistic": _augmented,
    "AugmentedBeta": _augmented,
    "Augmentation": beside_augmentation.several,
    "LocalRecalibration": beside_local.several,
    "NeuralCalibration": beside_neural.several,
}

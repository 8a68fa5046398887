"""A fitted map of several classes' scores in parts that SQL and ONNX can read: a softmax, or one map a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.recalibrate.base import Floats, Recalibrator
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.score.one_vs_rest import OneVsRest


@dataclass(frozen=True, eq=False)
class Softmax:
    """P = softmax(slopes @ ln p + shifts), p held at 1e-12 or more."""

    slopes: Floats  # (K, K)
    shifts: Floats  # (K,)


@dataclass(frozen=True)
class Each:
    """One formula a class, of its own probability; rows divided by their sums, or not."""

    maps: tuple[Any, ...]
    divided: bool


def formula_of_classes(recalibrator: Recalibrator) -> Softmax | Each:
    """The parts of a fitted map of several classes, or a refusal that says why there are none."""
    classes, name, made = recalibrator.n_classes_, type(recalibrator).__name__, _as_any(recalibrator)
    if recalibrator.identity_ or name == "Identity":
        return Each((nodes.Probability(),) * classes, True)
    if name in _SOFTMAX and not (name == "KernelCalibration" and made.base == "platt"):
        return _SOFTMAX[name](made, classes)
    if isinstance(recalibrator, OneVsRest) or name == "KernelCalibration":
        kept = getattr(made, "kept_", np.zeros(classes, bool))
        maps = [nodes.Probability() if kept[k] else nodes.map_of(recalibrator, k) for k in range(classes)]
        return Each(tuple(maps), bool(getattr(made, "renormalise", True)))
    hint = "ship its JSON: to_json() and from_json()"
    got = f"this {name} has {classes}"
    raise refusal("can be written for two classes, or of the score alone", where="a map", got=got, hint=hint)


def _as_any(value: Any) -> Any:
    return value


def _powers(power: float, classes: int) -> Softmax:
    return Softmax(power * np.eye(classes), np.zeros(classes))


_SOFTMAX = {
    "TemperatureScaling": lambda made, classes: _powers(float(made.inverse_temperature_), classes),
    "KernelCalibration": lambda made, classes: _powers(float(made.coefficients_[0, 0]), classes),
    "VectorScaling": lambda made, _: Softmax(np.diag(made.slopes_), made.shifts_),
    "DirichletCalibration": lambda made, _: Softmax(made.coefficients_, made.intercepts_),
    "StructuredScaling": lambda made, _: Softmax(nodes.square(made.coefficients_), made.intercepts_),
}

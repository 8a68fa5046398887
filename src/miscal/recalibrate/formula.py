"""A fitted binary map as a small formula of the probability, which Python, SQL and ONNX can each read.

A formula is a tree of the nodes below. Only recalibrators of the score, and trees of such, have one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.recalibrate.base import Recalibrator

LOGIT_CLIP = 1e-12


@dataclass(frozen=True)
class Probability:
    """The probability that came in."""


@dataclass(frozen=True)
class Held:
    """A node held between two bounds."""

    inner: Any
    low: float
    high: float


@dataclass(frozen=True)
class Moved:
    """Exact 0 and 1 moved inwards by `clip`, nothing else."""

    inner: Any
    clip: float


@dataclass(frozen=True)
class Log:
    """Natural logarithm of the node, or of one minus it."""

    inner: Any
    of_rest: bool = False


@dataclass(frozen=True)
class Linear:
    """intercept + Σ factor · node."""

    terms: tuple[tuple[float, Any], ...]
    intercept: float


@dataclass(frozen=True)
class Sigmoid:
    """1 / (1 + exp(-node))."""

    inner: Any


@dataclass(frozen=True)
class Steps:
    """values[number of edges strictly below the node]; None leaves the node as it is."""

    inner: Any
    edges: tuple[float, ...]
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Line:
    """Linear between knots; beyond them constant, or along the end slopes."""

    inner: Any
    knots: tuple[float, ...]
    values: tuple[float, ...]
    continued: bool = False


@dataclass(frozen=True)
class Ratio:
    """node / (node + (1 - node) / rate)."""

    inner: Any
    rate: float


Node = Probability | Held | Moved | Log | Linear | Sigmoid | Steps | Line | Ratio


def formula(recalibrator: Recalibrator) -> Node:
    """The formula of a fitted binary recalibrator, or a refusal that says why there is none."""
    if not recalibrator.is_fitted():
        raise refusal("is not fitted", where=type(recalibrator).__name__, hint="call fit(y_prob, y) first")
    if recalibrator.n_classes_ != 2:
        raise refusal("is written for two classes", where="a formula", got=f"this map has {recalibrator.n_classes_}")
    if recalibrator.identity_:
        return Probability()
    name = type(recalibrator).__name__
    if name not in _BUILDERS:
        raise refusal("has no formula of the score alone", where=name, hint="ship its JSON: to_json() and from_json()")
    return _BUILDERS[name](recalibrator)


def _logit() -> Linear:
    held = Held(Probability(), LOGIT_CLIP, 1.0 - LOGIT_CLIP)
    return Linear(((1.0, Log(held)), (-1.0, Log(held, of_rest=True))), 0.0)


def _platt(made: Any) -> Node:
    score: Any = Probability() if made.on == "probability" else _logit()
    return Sigmoid(Linear(((float(made.coefficients_[0, 0]), score),), float(made.intercepts_[0])))


def _temperature(made: Any) -> Node:
    return Sigmoid(Linear(((float(made.inverse_temperature_), _logit()),), 0.0))


def _beta(made: Any) -> Node:
    score = Moved(Probability(), float(made.clip))
    a, b = (float(value) for value in made.coefficients_[0])
    return Sigmoid(Linear(((a, Log(score)), (-b, Log(score, of_rest=True))), float(made.intercepts_[0])))


def _steps(inner: Any, edges: np.ndarray, values: np.ndarray) -> Steps:
    kept = tuple(None if value < 0 else float(value) for value in values)
    return Steps(inner, tuple(float(edge) for edge in edges[1:-1]), kept)


def _histogram(made: Any) -> Node:
    return _steps(Probability(), made.edges_[0], made.values_[0])


def _scaling_binning(made: Any) -> Node:
    scaled = Sigmoid(Linear(((float(made.coefficients_[0, 0]), _logit()),), float(made.intercepts_[0])))
    return _steps(scaled, made.edges_[0], made.values_[0])


def _isotonic(made: Any) -> Node:
    return Line(Probability(), tuple(map(float, made.knots_[0])), tuple(map(float, made.values_[0])))


def _line_plot(made: Any) -> Node:
    knots, values = tuple(map(float, made.knots_[0])), tuple(map(float, made.values_[0]))
    return Sigmoid(Line(_logit(), knots, values, continued=made.outside == "slope"))


def _softmax(slopes: np.ndarray, shifts: np.ndarray) -> Node:
    """Two classes' softmax of slopes @ (ln(1 - p), ln p) + shifts, as one sigmoid."""
    held = Held(Probability(), LOGIT_CLIP, 1.0 - LOGIT_CLIP)
    rest, event = (slopes[1] - slopes[0]).tolist()
    terms = ((float(rest), Log(held, of_rest=True)), (float(event), Log(held)))
    return Sigmoid(Linear(terms, float(shifts[1] - shifts[0])))


def _kernel(made: Any) -> Node:
    slope, intercept = made.coefficients_[0].tolist()
    return Sigmoid(Linear(((slope, _logit()),), intercept))


def _sampling(made: Any) -> Node:
    return Ratio(Probability(), float(made.rate))


_BUILDERS = {
    "Identity": lambda _: Probability(),
    "PlattScaling": _platt,
    "TemperatureScaling": _temperature,
    "BetaCalibration": _beta,
    "HistogramBinning": _histogram,
    "ScalingBinning": _scaling_binning,
    "IsotonicCalibration": _isotonic,
    "IsotonicLinePlotScaling": _line_plot,
    "SamplingCorrection": _sampling,
    "VectorScaling": lambda made: _softmax(np.diag(made.slopes_), made.shifts_),
    "DirichletCalibration": lambda made: _softmax(made.coefficients_, made.intercepts_),
    "KernelCalibration": _kernel,
}

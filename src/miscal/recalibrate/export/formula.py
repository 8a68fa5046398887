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


@dataclass(frozen=True)
class Then:
    """The formula `second` of what `first` gives."""

    first: Any
    second: Any


@dataclass(frozen=True)
class Number:
    """A column's number held between two bounds, `missing` where there is none."""

    name: str
    low: float
    high: float
    missing: float


@dataclass(frozen=True)
class Level:
    """A number for each level of a column, for missing values and for levels not among them."""

    name: str
    values: tuple[tuple[Any, float], ...]
    missing: float
    unseen: float


@dataclass(frozen=True)
class Cut:
    """`left` where a column (Number, Level or another node) is at most the threshold, else `right`."""

    column: Any
    threshold: float
    left: Any
    right: Any


@dataclass(frozen=True)
class Polynomial:
    """Σ factors[i] · node^(i + 1)."""

    inner: Any
    factors: tuple[float, ...]


@dataclass(frozen=True)
class Match:
    """The node of the key that the columns' levels match (None: missing), or `otherwise`."""

    names: tuple[str, ...]
    cases: tuple[tuple[tuple[Any, ...], Any], ...]
    otherwise: Any


@dataclass(frozen=True)
class Mixed:
    """share · inside + (1 - share) · outside."""

    share: Any
    inside: Any
    outside: Any


@dataclass(frozen=True)
class Known:
    """`inside` where every column has one of its levels (None: missing), else nothing: the policy is an error."""

    levels: tuple[tuple[str, tuple[Any, ...]], ...]
    inside: Any


@dataclass(frozen=True, eq=False)
class Network:
    """A network of layers with ReLU on embeddings of levels and scaled numbers, with one output.

    embedded : (name, levels, table) with the table's rows for unseen levels, missing values, then the levels
    numbers : (name, centre, scale), held within `furthest` after scaling; flags of missing ones come after them
    layers : weight, bias, weight, bias, ...
    """

    embedded: tuple[tuple[str, tuple[Any, ...], Any], ...]
    numbers: tuple[tuple[str, float, float], ...]
    furthest: float
    layers: tuple[Any, ...]


@dataclass(frozen=True)
class Named:
    """A value under a name, for `body` to use as often as it likes."""

    name: str
    value: Any
    body: Any


@dataclass(frozen=True)
class Name:
    """The value under a name."""

    name: str


Node = Probability | Held | Moved | Log | Linear | Sigmoid | Steps | Line | Ratio | Then
Beside = Number | Level | Cut | Polynomial | Match | Mixed | Known | Network | Named | Name


def formula(recalibrator: Recalibrator) -> Node:
    """The formula of a fitted binary recalibrator, or a refusal that says why there is none."""
    if not recalibrator.is_fitted():
        raise refusal("is not fitted", where=type(recalibrator).__name__, hint="call fit(y_prob, y) first")
    if recalibrator.n_classes_ != 2:
        raise refusal("is written for two classes", where="a formula", got=f"this map has {recalibrator.n_classes_}")
    return Probability() if recalibrator.identity_ else map_of(recalibrator, 0)


def map_of(recalibrator: Recalibrator, which: int) -> Node:
    """The formula of one map of a fitted recalibrator of the score: the only one, or that of a class."""
    name = type(recalibrator).__name__
    if name not in _BUILDERS:
        raise refusal("has no formula of the score alone", where=name, hint="ship its JSON: to_json() and from_json()")
    return _BUILDERS[name](recalibrator, which)


def logit() -> Linear:
    """Ln p - ln(1 - p), p held within [1e-12, 1 - 1e-12]."""
    held = Held(Probability(), LOGIT_CLIP, 1.0 - LOGIT_CLIP)
    return Linear(((1.0, Log(held)), (-1.0, Log(held, of_rest=True))), 0.0)


def _platt(made: Any, which: int) -> Node:
    score: Any = Probability() if made.on == "probability" else logit()
    return Sigmoid(Linear(((float(made.coefficients_[which, 0]), score),), float(made.intercepts_[which])))


def _temperature(made: Any, _: int) -> Node:
    return Sigmoid(Linear(((float(made.inverse_temperature_), logit()),), 0.0))


def _beta(made: Any, which: int) -> Node:
    score = Moved(Probability(), float(made.clip))
    a, b = (float(value) for value in made.coefficients_[which])
    return Sigmoid(Linear(((a, Log(score)), (-b, Log(score, of_rest=True))), float(made.intercepts_[which])))


def _steps(inner: Any, edges: np.ndarray, values: np.ndarray) -> Steps:
    kept = tuple(None if value < 0 else float(value) for value in values)
    return Steps(inner, tuple(float(edge) for edge in edges[1:-1]), kept)


def _histogram(made: Any, which: int) -> Node:
    return _steps(Probability(), made.edges_[which], made.values_[which])


def _scaling_binning(made: Any, which: int) -> Node:
    slope, intercept = float(made.coefficients_[which, 0]), float(made.intercepts_[which])
    return _steps(Sigmoid(Linear(((slope, logit()),), intercept)), made.edges_[which], made.values_[which])


def _isotonic(made: Any, which: int) -> Node:
    if made.out_of_bounds == "raise":
        hint = "use out_of_bounds='clip'"
        raise refusal("cannot refuse scores", where="a formula", got="out_of_bounds is 'raise'", hint=hint)
    return Line(Probability(), tuple(map(float, made.knots_[which])), tuple(map(float, made.values_[which])))


def _line_plot(made: Any, which: int) -> Node:
    knots, values = tuple(map(float, made.knots_[which])), tuple(map(float, made.values_[which]))
    return Sigmoid(Line(logit(), knots, values, continued=made.outside == "slope"))


def _softmax(slopes: np.ndarray, shifts: np.ndarray) -> Node:
    """Two classes' softmax of slopes @ (ln(1 - p), ln p) + shifts, as one sigmoid."""
    rest, event = (slopes[1] - slopes[0]).tolist()
    own, other = logs_of_classes(Probability())
    return Sigmoid(Linear(((float(rest), other), (float(event), own)), float(shifts[1] - shifts[0])))


def logs_of_classes(event: Any) -> tuple[Log, Log]:
    """Ln p and ln(1 - p), each of p and 1 - p held at 1e-12 or more: 1 - (1 - 1e-12) would be 0.99998e-12."""
    rest = Linear(((-1.0, event),), 1.0)
    return Log(Held(event, LOGIT_CLIP, 1.0)), Log(Held(rest, LOGIT_CLIP, 1.0))


def square(coefficients: np.ndarray) -> np.ndarray:
    """A matrix of which only the diagonal may be given, as (1, K)."""
    return np.diag(coefficients[0]) if len(coefficients) == 1 else coefficients


def _kernel(made: Any, which: int) -> Node:
    slope, intercept = made.coefficients_[which].tolist()
    return Sigmoid(Linear(((slope, logit()),), intercept))


def _chain(made: Any, _: int) -> Node:
    found = formula(made.steps_[0])
    for step in made.steps_[1:]:
        found = Then(found, formula(step))
    return found


def _blend(made: Any, _: int) -> Node:
    terms: list[tuple[float, Any]] = []
    for weight, member in zip(made.weights_.tolist(), made.members_, strict=True):
        own, other = logs_of_classes(formula(member))
        terms += [(weight, own), (-weight, other)]
    return Sigmoid(Linear(tuple(terms), 0.0))


def _sampling(made: Any, _: int) -> Node:
    return Ratio(Probability(), float(made.rate))


_BUILDERS = {
    "Identity": lambda *_: Probability(),
    "PlattScaling": _platt,
    "TemperatureScaling": _temperature,
    "BetaCalibration": _beta,
    "HistogramBinning": _histogram,
    "ScalingBinning": _scaling_binning,
    "IsotonicCalibration": _isotonic,
    "IsotonicLinePlotScaling": _line_plot,
    "SamplingCorrection": _sampling,
    "VectorScaling": lambda made, _: _softmax(np.diag(made.slopes_), made.shifts_),
    "DirichletCalibration": lambda made, _: _softmax(made.coefficients_, made.intercepts_),
    "StructuredScaling": lambda made, _: _softmax(square(made.coefficients_), made.intercepts_),
    "KernelCalibration": _kernel,
    "Chain": _chain,
    "Blend": _blend,
}

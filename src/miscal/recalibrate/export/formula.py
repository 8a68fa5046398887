"""A fitted map as a small formula of the probability and of columns, which Python, SQL and ONNX can each read.

A formula of two classes is a tree of the nodes below, of several classes a `Softmax` or one tree `Each`. A recalibrator
writes its own in `_formula`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data.errors import MiscalError, refusal

LOGIT_CLIP = 1e-12
LARGEST = 1.7976931348623157e308

Floats = npt.NDArray[np.float64]


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


Node = (
    Probability | Held | Moved | Log | Linear | Sigmoid | Steps | Line | Ratio | Then
    | Number | Level | Cut | Polynomial | Match | Mixed | Known | Network | Named | Name
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Softmax:
    """Of several classes: P = softmax(slopes @ ln p + shifts), p held at 1e-12 or more."""

    slopes: Floats  # (K, K)
    shifts: Floats  # (K,)


@dataclass(frozen=True)
class Each:
    """One formula a class, of its own probability; rows divided by their sums, or not."""

    maps: tuple[Node, ...]
    divided: bool = True


Formula = Node | Softmax | Each


def no_formula(name: str, why: str, instead: str) -> MiscalError:
    """The refusal of a recalibrator that has no formula."""
    return refusal("has no formula", where=name, got=f"it {why}", hint=instead)


# ------------------------------------------------------------------------------------------------ parts of formulas
def held_score() -> Held:
    """The probability held within [1e-12, 1 - 1e-12]."""
    return Held(Probability(), LOGIT_CLIP, 1.0 - LOGIT_CLIP)


def logit() -> Linear:
    """Ln p - ln(1 - p) of the held probability."""
    return Linear(log_terms(held_score(), 1.0, 1.0), 0.0)


def log_terms(inner: Node, own: float, rest: float) -> tuple[tuple[float, Node], ...]:
    """Terms of own · ln p - rest · ln(1 - p)."""
    return (own, Log(inner)), (-rest, Log(inner, of_rest=True))


def curve(features: Any, factors: Sequence[float], intercept: float, beside: Sequence[Node] = ()) -> Sigmoid:
    """A logistic curve of features of the score (their kind and clip), with parts of columns beside them."""
    terms: tuple[tuple[float, Node], ...]
    if features.kind == "logit":
        terms = log_terms(held_score(), factors[0], factors[0])
    elif features.kind == "beta":
        terms = log_terms(Moved(Probability(), features.clip), factors[0], factors[1])
    else:
        terms = ((factors[0], Probability()),)
    return Sigmoid(Linear((*terms, *((1.0, part) for part in beside)), intercept))


def logs_of_classes(event: Node) -> tuple[Log, Log]:
    """Ln p and ln(1 - p), each of p and 1 - p held at 1e-12 or more: 1 - (1 - 1e-12) would be 0.99998e-12."""
    rest = Linear(((-1.0, event),), 1.0)
    return Log(Held(event, LOGIT_CLIP, 1.0)), Log(Held(rest, LOGIT_CLIP, 1.0))


def softmax_of(slopes: Floats, shifts: Floats) -> Sigmoid | Softmax:
    """Softmax of slopes @ ln p + shifts; of two classes (ln(1 - p), ln p) one sigmoid."""
    if len(shifts) > 2:
        return Softmax(slopes, shifts)
    rest, event = (slopes[1] - slopes[0]).tolist()
    own, other = logs_of_classes(Probability())
    return Sigmoid(Linear(((float(rest), other), (float(event), own)), float(shifts[1] - shifts[0])))


def steps(inner: Node, edges: Floats, values: Floats) -> Steps:
    """The values of right-closed bins; a negative one leaves the node as it is."""
    kept = tuple(None if value < 0 else value for value in values.tolist())
    return Steps(inner, tuple(edges[1:-1].tolist()), kept)


def cut_columns(codings: Sequence[Any], missing: Callable[[Any], float]) -> list[Node]:
    """Each column as the number that trees cut; `missing` says what a missing number becomes."""
    found: list[Node] = []
    for coding in codings:
        if coding.nominal:
            places = tuple((level, float(i)) for i, level in enumerate(coding.levels) if level is not None)
            found.append(Level(coding.name, places, coding.low, coding.high))
        else:
            found.append(Number(coding.name, coding.low, coding.high, missing(coding)))
    return found


def tree_of(arrays: Sequence[list[Any]], root: int, columns: Sequence[Node], leaf: Callable[[int], Node]) -> Node:
    """A tree of cuts from the arrays column, threshold, left, right; nodes are built from the last."""
    column, threshold, left, right = arrays
    waiting, order = [root], []
    while waiting:
        node = waiting.pop()
        order.append(node)
        if left[node] >= 0:
            waiting += [left[node], right[node]]
    made: dict[int, Node] = {}
    for node in reversed(order):
        if left[node] < 0:
            made[node] = leaf(node)
        else:
            made[node] = Cut(columns[column[node]], threshold[node], made[left[node]], made[right[node]])
    return made[root]

"""A fitted map as a small formula of the probability and of columns, which Python, SQL and ONNX can each read.

A formula of two classes is a tree of the nodes below, of several classes a `Softmax` or one tree `Each`. A recalibrator
writes its own in `_formula`. A node is a function of one row: its plain values, and what stands under names, the
probability among them. `apply_one` evaluates it, for a service: microseconds a call.
"""

from __future__ import annotations

import contextlib
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, dataclass_transform
from weakref import WeakKeyDictionary

import numpy as np

from miscal.cells.coding import Encoding
from miscal.data.arrays import Floats
from miscal.data.errors import MiscalError
from miscal.export.dialects import EXP_LIMIT

if TYPE_CHECKING:
    from miscal.recalibrate.base import Recalibrator

LOGIT_CLIP = 1e-12
LARGEST = 1.7976931348623157e308
LEAST_SCORE = 1e-280
EXACT = 1 << 53  # whole numbers from here on merge as floats


class Row(NamedTuple):
    """One row: its columns, and what stands under names."""

    columns: Mapping[str, Any]  # words and truth values as they are, numbers as floats, None where missing
    names: dict[str, float]


class NeedsTablePath(Exception):
    """One row has a value of another type than fit had, and needs the way of a table; not an error."""


def kind_of(levels: Iterable[Any]) -> type | None:
    """The one type that levels have in a row: str, bool, float, or int where they are beyond what a float tells apart.

    Without levels float: a column that is missing throughout counts as numbers. None where they are of several types.
    """
    kinds = {
        float if type(each) is int and abs(each) < EXACT else type(each)
        for each in levels
        if each is not None
    }
    if kinds == {float, int}:
        return int
    return (kinds or {float}).pop() if len(kinds) <= 1 else None


def settled(probability: Floats) -> Floats:
    """Scores with those below 1e-280 at 0: there databases and runtimes lose digits, and slopes overflow."""
    small = (probability < LEAST_SCORE) & (probability > 0.0)
    return np.where(small, 0.0, probability) if small.any() else probability


def columns_of(part: Any) -> Iterator[str]:
    """The names of the columns that a formula looks at, each as often as it does."""
    waiting = [part]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (Number, Level)):
            yield node.name
        elif isinstance(node, tuple):
            waiting += node
        elif isinstance(node, Node):
            waiting += vars(node).values()


@dataclass_transform(frozen_default=True)
class Node:
    """A part of a formula: a frozen record, and a function of one row unless that needs the way of a table."""

    def __init_subclass__(cls, *, eq: bool = True) -> None:
        dataclass(frozen=True, eq=eq)(cls)

    def __call__(self, row: Row) -> float:  # noqa: ARG002
        raise NeedsTablePath


class Name(Node):
    """The value under a name."""

    name: str

    def __call__(self, row: Row) -> float:
        return row.names[self.name]


STEP = "step"  # the name of the probability that comes in
PROBABILITY = Name(STEP)


class Clipped(Node):
    """A node held between two bounds."""

    inner: Node
    low: float
    high: float

    def __call__(self, row: Row) -> float:
        return min(max(self.inner(row), self.low), self.high)


class Log(Node):
    """Natural logarithm."""

    inner: Node

    def __call__(self, row: Row) -> float:
        return math.log(self.inner(row))


Terms: TypeAlias = tuple[tuple[float, Node], ...]


class Linear(Node):
    """intercept + Σ factor · node."""

    terms: Terms
    intercept: float = 0.0

    def __call__(self, row: Row) -> float:
        total = self.intercept
        for factor, inner in self.terms:
            total += factor * inner(row)
        return total


class Sigmoid(Node):
    """1 / (1 + exp(-node))."""

    inner: Node

    def __call__(self, row: Row) -> float:
        x = self.inner(row)
        small = math.exp(-abs(x))
        return (1.0 if x >= 0.0 else small) / (1.0 + small)


class Exp(Node):
    """exp(node)."""

    inner: Node

    def __call__(self, row: Row) -> float:
        return math.exp(self.inner(row))


class Pieces(Node):
    """value + slope · (node - start) of the piece that the node lies on; a piece ends at an edge and holds it."""

    inner: Node
    edges: list[float]
    pieces: list[tuple[float, float, float]]  # start, value, slope

    def __call__(self, row: Row) -> float:
        x = self.inner(row)
        start, value, slope = self.pieces[bisect_left(self.edges, x)]
        return value + slope * (x - start)


class BinaryOp(Node):
    """Two nodes multiplied, or the first divided by the second: the sign is * or /."""

    one: Node
    sign: str
    two: Node

    def __call__(self, row: Row) -> float:
        one, two = self.one(row), self.two(row)
        return one * two if self.sign == "*" else one / two


class Number(Node):
    """A column's number held between two bounds, `missing` where there is none."""

    name: str
    low: float
    high: float
    missing: float

    def __call__(self, row: Row) -> float:
        given = row.columns[self.name]
        if given is None:
            return self.missing
        if type(given) is not float:
            raise NeedsTablePath
        return min(max(given, self.low), self.high)


class Level(Node, eq=False):
    """A number for each level of a column, for missing values and for levels not among them."""

    name: str
    kind: type | None  # the one type that all levels of the column have in a row
    values: Mapping[Any, float]
    missing: float
    unseen: float

    def __call__(self, row: Row) -> float:
        given = row.columns[self.name]
        if given is None:
            return self.missing
        if type(given) is not self.kind:
            raise NeedsTablePath
        return self.values.get(given, self.unseen)

    def beyond(self, threshold: float) -> Level:
        """1 where the number is above a threshold, else 0."""
        values = {level: float(value > threshold) for level, value in self.values.items()}
        missing, unseen = float(self.missing > threshold), float(self.unseen > threshold)
        return replace(self, values=values, missing=missing, unseen=unseen)


class Cut(Node):
    """`left` where a column (Number, Level or another node) is at most the threshold, else `right`."""

    column: Node
    threshold: float
    left: Node
    right: Node

    def __call__(self, row: Row) -> float:
        chosen = self.left if self.column(row) <= self.threshold else self.right
        return chosen(row)


class Match(Node):
    """The node whose place is the number of a column's level."""

    level: Level
    cases: tuple[Node, ...]

    def __call__(self, row: Row) -> float:
        return self.cases[int(self.level(row))](row)


class Refused(Node):
    """Nothing (NULL, NaN): the table's way refuses such a row, and says why."""


class Network(Node, eq=False):
    """A network of layers with ReLU on embeddings of levels and scaled numbers, with one output.

    embedded : (level, table): the row of the table, for unseen levels, missing values, then the levels in order
    numbers : scaled, NaN where missing; flags of missing ones come after them
    layers : weight, bias, weight, bias, ...
    """

    embedded: tuple[tuple[Level, Any], ...]
    numbers: tuple[Node, ...]
    layers: tuple[Any, ...]

    def __call__(self, row: Row) -> float:
        parts = [table[int(level(row))] for level, table in self.embedded]
        scaled = np.array([number(row) for number in self.numbers], np.float32)  # as in training
        x = np.concatenate([*parts, np.nan_to_num(scaled), np.isnan(scaled)])
        return float(through(self.layers, x)[0])


def through(layers: Sequence[Floats], x: Floats) -> Floats:
    """What layers (weight, bias, weight, bias, ...) with ReLU between them make of a row, or of rows."""
    for weight, bias in zip(layers[0:-2:2], layers[1:-2:2], strict=True):
        x = np.maximum(x @ weight.T + bias, 0.0)
    return x @ layers[-2].T + layers[-1]


class Named(Node):
    """A value under a name, for `body` to use as often as it likes."""

    name: str
    inner: Node
    body: Node

    def __call__(self, row: Row) -> float:
        return self.body(Row(row.columns, row.names | {self.name: self.inner(row)}))


class Softmax(NamedTuple):
    """Of several classes: P = softmax(slopes @ ln p + shifts), p held at 1e-12 or more.

    With a power, from ln p the logarithm of sum p^power, over the power, is taken off.
    """

    slopes: Floats  # (K, K)
    shifts: Floats  # (K,)
    power: float | None = None


class Each(NamedTuple):
    """One formula a class, of its own probability; rows divided by their sums, or not."""

    maps: Sequence[Any]
    divided: bool = True


Formula = Node | Softmax | Each


def untouched(n_classes: int) -> Name | Each:
    """The formula of a map that changes nothing."""
    return PROBABILITY if n_classes == 2 else Each((PROBABILITY,) * n_classes)


# ------------------------------------------------------------------------------------------------ parts of formulas
def then(first: Any, second: Any) -> Node:
    """The formula `second` of what `first` gives."""
    return named(STEP, first, second)


def named(name: str, inner: Any, body: Any) -> Node:
    """A value under a name; rows that it or the body refuses are refused first of all.

    Databases pass over NULL in comparisons and in GREATEST: a later step would make a number of it.
    """
    if isinstance(inner, Cut) and isinstance(inner.right, Refused):
        return Cut(inner.column, inner.threshold, named(name, inner.left, body), inner.right)
    if isinstance(body, Cut) and isinstance(body.right, Refused):
        return Cut(body.column, body.threshold, named(name, inner, body.left), body.right)
    return Named(name, inner, body)


def held_score(clip: float = LOGIT_CLIP) -> Clipped:
    """The probability held within [clip, 1 - clip]."""
    return Clipped(PROBABILITY, clip, min(1.0 - clip, math.nextafter(1.0, 0.0)))


def logit(clip: float = LOGIT_CLIP) -> Linear:
    """Ln p - ln(1 - p) of the held probability."""
    return Linear(log_terms(held_score(clip), 1.0, 1.0))


def exp(inner: Node) -> Exp:
    """exp(node), of a number held where it neither overflows nor underflows."""
    return Exp(Clipped(inner, -EXP_LIMIT, EXP_LIMIT))


def log_above(low: float) -> Log:
    """Ln of a prediction that is held at `low` or more."""
    return Log(Clipped(PROBABILITY, low, LARGEST))


def log_terms(inner: Node, own: float, rest: float) -> Terms:
    """Terms of own · ln p - rest · ln(1 - p)."""
    return (own, Log(inner)), (-rest, Log(rest_of(inner)))


def rest_of(inner: Node) -> Linear:
    """1 - p."""
    return Linear(((-1.0, inner),), 1.0)


def curve(features: Any, factors: Sequence[float], intercept: float, beside: Sequence[Node] = ()) -> Sigmoid:
    """A logistic curve of features of the score (their kind and clip), with parts of columns beside them."""
    terms = log_terms(held_score(features.clip), factors[0], factors[-1])  # of the logit one factor
    if features.kind == "probability":
        terms = ((factors[0], PROBABILITY),)
    return Sigmoid(Linear((*terms, *((1.0, part) for part in beside)), intercept))


def polynomial(inner: Node, factors: Sequence[float]) -> Node:
    """Σ factors[i] · node^(i + 1), from the highest power down: databases refuse products of small numbers."""
    if len(factors) == 1:
        return Linear(((factors[0], inner),))
    x = Name("power")
    found = Linear(((factors[-1], x),), factors[-2])
    for factor in reversed(factors[:-2]):
        found = Linear(((1.0, BinaryOp(x, "*", found)),), factor)
    return Named(x.name, inner, BinaryOp(x, "*", found))


def logs_of_classes(event: Node) -> tuple[Log, Log]:
    """Ln p and ln(1 - p), each of p and 1 - p held at 1e-12 or more: 1 - (1 - 1e-12) would be 0.99998e-12."""
    return Log(Clipped(event, LOGIT_CLIP, 1.0)), Log(Clipped(rest_of(event), LOGIT_CLIP, 1.0))


def softmax_of(slopes: Floats, shifts: Floats, power: float | None) -> Sigmoid | Softmax:
    """Softmax of slopes @ ln p + shifts; of two classes (ln(1 - p), ln p) one sigmoid."""
    if len(shifts) > 2:
        return Softmax(slopes, shifts, power)
    rest, event = (slopes[1] - slopes[0]).tolist()
    own, other = logs_of_classes(PROBABILITY)
    terms: Terms = (rest, other), (event, own)
    if power is not None:
        parts = [(1.0, exp(Linear(((power, log),)))) for log in (own, other)]  # the larger is not small
        terms += ((-(rest + event) / power, Log(Linear(tuple(parts)))),)
    return Sigmoid(Linear(terms, float(shifts[1] - shifts[0])))


def steps(inner: Node, edges: Floats, values: Floats) -> Pieces:
    """The values of right-closed bins; a negative one leaves the node as it is."""
    pieces = [(0.0, 0.0, 1.0) if value < 0 else (0.0, value, 0.0) for value in values.tolist()]
    return Pieces(inner, edges[1:-1].tolist(), pieces)


def line(inner: Node, knots: Floats, values: Floats, *, continued: bool = False) -> Pieces:
    """Linear between knots; beyond them constant, or along the end slopes."""
    columns = knots[:-1], values[:-1], np.diff(values) / np.diff(knots)
    pieces = list(zip(*(column.tolist() for column in columns), strict=True))
    if continued:
        return Pieces(inner, knots[1:-1].tolist(), pieces)
    low, high = (0.0, float(values[0]), 0.0), (0.0, float(values[-1]), 0.0)
    return Pieces(inner, knots.tolist(), [low, *pieces, high])


def scaled(column: Encoding, missing: float, furthest: float) -> Linear:
    """A number in units of the spread, so many of them from the mean at most."""
    low, high = (column.mean + side * furthest * column.spread for side in (-1.0, 1.0))
    number = Number(column.name, max(low, -LARGEST), min(high, LARGEST), missing)
    centred = Linear(((1.0, number),), -column.mean)
    return Linear(((1.0 / column.spread, centred),))


def level_of(column: Encoding, values: Mapping[int, float], unseen: float) -> Level:
    """A category's number, given those of some of its levels by place; without one missing values are unseen."""
    found = {column.levels[place]: value for place, value in values.items()}
    return Level(column.name, kind_of(column.levels), found, found.pop(None, unseen), unseen)


# ----------------------------------------------------------------------------------------------------------- one row
# Beside them, not in them: predicting changes none.
formulas: WeakKeyDictionary[Recalibrator, Any] = WeakKeyDictionary()


def formula_of(recalibrator: Recalibrator) -> Any:
    """The formula of a map of two classes; None where there is none."""
    if recalibrator not in formulas:
        recalibrator.check_fitted()
        formula = None
        if recalibrator.n_classes_ == 2:
            with contextlib.suppress(MiscalError):
                formula = recalibrator.formula()
        formulas[recalibrator] = formula
    return formulas[recalibrator]


def plain(value: Any) -> Any:
    """A row's value as formulas take it: numbers as floats, None where missing; others stay what they are."""
    if type(value) is float:
        return value if math.isfinite(value) else None if math.isnan(value) else _ODD
    if type(value) is int:
        return float(value) if abs(value) < EXACT else _ODD
    return value


_ODD = object()  # of a type that no column has

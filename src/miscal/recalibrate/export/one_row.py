"""One row at a time, for a service: a formula as plain Python functions, microseconds a call.

Values of another type than fit had, and everything else that is not plain, raise `General`: the row then goes through
`predict_proba` as a table of one row, which converts, or refuses in words.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from miscal.data.errors import MiscalError, refusal
from miscal.recalibrate.export import formula as nodes

if TYPE_CHECKING:
    from miscal.recalibrate.base import Recalibrator

Row = Mapping[str, Any]
Function = Callable[[float, Row, dict[str, float]], float]  # of the probability, the row and the values under names

# Beside the recalibrators, not in them: predicting changes none. Each stands with the labels of the fit it belongs to.
_functions: WeakKeyDictionary[Recalibrator, tuple[Any, Function | None]] = WeakKeyDictionary()


class General(Exception):
    """A row needs the general way; not an error."""


def apply_one(recalibrator: Recalibrator, y_prob: Any, x: Row | None) -> tuple[float, ...]:
    """The recalibrated probabilities of one row."""
    function = _function(recalibrator)
    if not isinstance(y_prob, (int, float)):
        checked = recalibrator.checked([list(y_prob)])
        if checked.ndim == 2:
            return _general(recalibrator, checked, x)
        y_prob = float(checked[0])
    if not 0.0 <= y_prob <= 1.0:
        raise refusal("must lie in [0, 1]", where="'y_prob'", got=f"it is {y_prob}")
    if function is not None and (x is not None or not recalibrator.uses_columns):
        try:
            event = function(float(y_prob), x or {}, {})
        except (General, KeyError):  # an unusual value, or a column that is not there
            pass
        else:
            return 1.0 - event, event
    return _general(recalibrator, np.array([float(y_prob)]), x)


def _general(recalibrator: Recalibrator, checked: nodes.Floats, x: Row | None) -> tuple[float, ...]:
    """A table of one row."""
    row = {name: [value] for name, value in x.items()} if x is not None else None
    return tuple(recalibrator.mapped(checked, row)[0].tolist())


def _function(recalibrator: Recalibrator) -> Function | None:
    """The function of the event's probability; None where there is no formula."""
    labels, function = _functions.get(recalibrator, (None, None))
    if labels is None or labels is not getattr(recalibrator, "classes_", None):
        recalibrator.check_fitted()
        labels, function = _functions[recalibrator] = recalibrator.classes_, _made(recalibrator)
    return function


def _made(recalibrator: Recalibrator) -> Function | None:
    if recalibrator.n_classes_ > 2:
        return None
    try:
        return function_of(recalibrator.formula())
    except (MiscalError, General, RecursionError):
        return None


def function_of(node: Any) -> Function:
    """A function that gives the node's value."""
    return _WRITERS[type(node)](node)


def number(value: Any) -> float:
    """A row's number, NaN where it is missing."""
    kind = type(value)
    if (kind is float and not math.isinf(value)) or (kind is int and abs(value) < 2**53):
        return float(value)
    if value is None:
        return math.nan
    raise General


def level_reader(levels: Iterable[Any]) -> Callable[[Any], Any]:
    """A function from a row's value to a level as these are: a word, a truth value or a number; None if missing."""
    kinds = {type(level) for level in levels if level is not None}
    if kinds and kinds <= {int, float}:
        return _level_number
    if len(kinds) > 1 or not kinds <= {str, bool}:
        raise General
    kind = kinds.pop() if kinds else str

    def read(value: Any) -> Any:
        if value is not None and type(value) is not kind:
            raise General
        return value

    return read


def _level_number(value: Any) -> float | None:
    found = number(value)
    return None if math.isnan(found) else found


# ------------------------------------------------------------------------------------------------------ of the score
def _probability(_: nodes.Probability) -> Function:
    return lambda p, row, at: p  # noqa: ARG005


def _held(node: nodes.Held) -> Function:
    inner, low, high = function_of(node.inner), node.low, node.high
    return lambda p, row, at: min(max(inner(p, row, at), low), high)


def _moved(node: nodes.Moved) -> Function:
    inner, clip = function_of(node.inner), node.clip

    def run(p: float, row: Row, at: dict[str, float]) -> float:
        value = inner(p, row, at)
        return clip if value <= 0.0 else (1.0 - clip if value >= 1.0 else value)

    return run


def _log(node: nodes.Log) -> Function:
    inner, log, log1p = function_of(node.inner), math.log, math.log1p
    if node.of_rest:
        return lambda p, row, at: log1p(-inner(p, row, at))
    return lambda p, row, at: log(inner(p, row, at))


def _linear(node: nodes.Linear) -> Function:
    terms, intercept = [(factor, function_of(inner)) for factor, inner in node.terms], node.intercept

    def run(p: float, row: Row, at: dict[str, float]) -> float:
        total = intercept
        for factor, inner in terms:
            total += factor * inner(p, row, at)
        return total

    return run


def _sigmoid(node: nodes.Sigmoid) -> Function:
    inner, exp = function_of(node.inner), math.exp

    def run(p: float, row: Row, at: dict[str, float]) -> float:
        x = inner(p, row, at)
        small = exp(-abs(x))
        return (1.0 if x >= 0.0 else small) / (1.0 + small)

    return run


def _steps(node: nodes.Steps) -> Function:
    inner, edges, values = function_of(node.inner), node.edges, node.values

    def run(p: float, row: Row, at: dict[str, float]) -> float:
        score = inner(p, row, at)
        value = values[bisect_left(edges, score)]
        return score if value is None else value

    return run


def _line(node: nodes.Line) -> Function:
    inner, knots, values, last = function_of(node.inner), node.knots, node.values, len(node.knots) - 1
    continued = node.continued and last > 0

    def run(p: float, row: Row, at: dict[str, float]) -> float:
        score = inner(p, row, at)
        place = bisect_right(knots, score) - 1
        if not continued and not 0 <= place < last:
            return values[0 if place < 0 else last]
        place = min(max(place, 0), last - 1)
        slope = (values[place + 1] - values[place]) / (knots[place + 1] - knots[place])
        return values[place] + slope * (score - knots[place])

    return run


def _ratio(node: nodes.Ratio) -> Function:
    inner, rate = function_of(node.inner), node.rate

    def run(p: float, row: Row, at: dict[str, float]) -> float:
        value = inner(p, row, at)
        return value / (value + (1.0 - value) / rate)

    return run


def _then(node: nodes.Then) -> Function:
    first, second = function_of(node.first), function_of(node.second)
    return lambda p, row, at: second(first(p, row, at), row, at)


# ---------------------------------------------------------------------------------------------------- of the columns
def _number(node: nodes.Number) -> Function:
    name, low, high, missing = node.name, node.low, node.high, node.missing

    def run(p: float, row: Row, at: dict[str, float]) -> float:  # noqa: ARG001
        value = number(row[name])
        return min(max(value, low), high) if value == value else missing  # noqa: PLR0124  # NaN differs from itself

    return run


def _level(node: nodes.Level) -> Function:
    name, table = node.name, {None: node.missing} | dict(node.values)
    read, unseen = level_reader(level for level, _ in node.values), node.unseen
    return lambda p, row, at: table.get(read(row[name]), unseen)  # noqa: ARG005


def _cut(node: nodes.Cut) -> Function:
    column, threshold = function_of(node.column), node.threshold
    left, right = function_of(node.left), function_of(node.right)
    return lambda p, row, at: (left if column(p, row, at) <= threshold else right)(p, row, at)


def _polynomial(node: nodes.Polynomial) -> Function:
    inner, factors = function_of(node.inner), node.factors

    def run(p: float, row: Row, at: dict[str, float]) -> float:
        x = inner(p, row, at)
        total, power = 0.0, 1.0
        for factor in factors:
            power *= x
            total += factor * power
        return total

    return run


def _match(node: nodes.Match) -> Function:
    readers = [(name, level_reader(key[j] for key, _ in node.cases)) for j, name in enumerate(node.names)]
    cases = {key: function_of(value) for key, value in node.cases}
    otherwise = function_of(node.otherwise)

    def run(p: float, row: Row, at: dict[str, float]) -> float:
        return cases.get(tuple([read(row[name]) for name, read in readers]), otherwise)(p, row, at)

    return run


def _mixed(node: nodes.Mixed) -> Function:
    share, inside, outside = function_of(node.share), function_of(node.inside), function_of(node.outside)

    def run(p: float, row: Row, at: dict[str, float]) -> float:
        part = share(p, row, at)
        return part * inside(p, row, at) + (1.0 - part) * outside(p, row, at)

    return run


def _known(node: nodes.Known) -> Function:
    inside = function_of(node.inside)
    columns = [(name, level_reader(levels), frozenset(levels)) for name, levels in node.levels]

    def run(p: float, row: Row, at: dict[str, float]) -> float:
        if not all(read(row[name]) in levels for name, read, levels in columns):
            raise General  # the table's way refuses, and says which level
        return inside(p, row, at)

    return run


def _network(node: nodes.Network) -> Function:
    embedded = [
        (name, level_reader(levels), {None: table[1]} | dict(zip(levels, table[2:], strict=True)), table[0])
        for name, levels, table in node.embedded
    ]
    width = len(node.numbers)

    def run(p: float, row: Row, at: dict[str, float]) -> float:  # noqa: ARG001
        found = [table.get(read(row[name]), unseen) for name, read, table, unseen in embedded]
        numbers = np.zeros(2 * width, np.float32)  # in single precision, as in training; then flags of missing ones
        for k, (name, centre, scale) in enumerate(node.numbers):
            value = number(row[name])
            if math.isnan(value):
                numbers[width + k] = 1.0
            else:
                numbers[k] = min(max((value - centre) * scale, -node.furthest), node.furthest)
        x = np.concatenate([*found, numbers])
        for weight, bias in zip(node.layers[0:-2:2], node.layers[1:-2:2], strict=True):
            x = np.maximum(weight @ x + bias, 0.0)
        return float((node.layers[-2] @ x + node.layers[-1])[0])

    return run


def _named(node: nodes.Named) -> Function:
    name, value, body = node.name, function_of(node.value), function_of(node.body)
    return lambda p, row, at: body(p, row, at | {name: value(p, row, at)})


def _name(node: nodes.Name) -> Function:
    name = node.name
    return lambda p, row, at: at[name]  # noqa: ARG005


_WRITERS: dict[type, Callable[[Any], Function]] = {
    nodes.Probability: _probability,
    nodes.Held: _held,
    nodes.Moved: _moved,
    nodes.Log: _log,
    nodes.Linear: _linear,
    nodes.Sigmoid: _sigmoid,
    nodes.Steps: _steps,
    nodes.Line: _line,
    nodes.Ratio: _ratio,
    nodes.Then: _then,
    nodes.Number: _number,
    nodes.Level: _level,
    nodes.Cut: _cut,
    nodes.Polynomial: _polynomial,
    nodes.Match: _match,
    nodes.Mixed: _mixed,
    nodes.Known: _known,
    nodes.Network: _network,
    nodes.Named: _named,
    nodes.Name: _name,
}

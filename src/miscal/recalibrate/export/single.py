"""One row at a time, for a service: a formula as a plain Python function, microseconds a call."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from miscal.data.errors import MiscalError, refusal
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.export.beside import Beside, beside_of
from miscal.recalibrate.export.beside_classes import Several, several_of
from miscal.recalibrate.export.row import General

Function = Callable[[float], float]

_functions: WeakKeyDictionary[Recalibrator, tuple[Function | None, Beside | None, Several | None]] = WeakKeyDictionary()


def apply_one(recalibrator: Recalibrator, y_prob: Any, x: Mapping[str, Any] | None) -> tuple[float, ...]:
    """The recalibrated probabilities of one row."""
    try:
        function, beside, several = _functions[recalibrator]
    except KeyError:
        function, beside, several = _functions[recalibrator] = _functions_of(recalibrator)
    if not isinstance(y_prob, (int, float)):
        return _of_classes(recalibrator, several, y_prob, x)
    if not 0.0 <= y_prob <= 1.0:
        raise refusal("must lie in [0, 1]", where="'y_prob'", got=f"it is {y_prob}")
    if function is not None:
        event = function(y_prob)
    elif beside is not None and x is not None:
        try:
            event = beside(float(y_prob), x)
        except (General, KeyError):  # an unusual value, or a column that is not there
            return _general(recalibrator, y_prob, x)
    else:
        return _general(recalibrator, y_prob, x)
    return 1.0 - event, event


def _of_classes(
    recalibrator: Recalibrator, several: Several | None, y_prob: Any, x: Mapping[str, Any] | None
) -> tuple[float, ...]:
    """One probability a class, checked as those of a table are."""
    checked = recalibrator.checked([list(y_prob)])
    if checked.ndim == 1:
        return apply_one(recalibrator, float(checked[0]), x)
    if not recalibrator.uses_columns:
        return tuple(recalibrator.mapped(checked)[0].tolist())
    if several is not None and x is not None:
        try:
            return tuple(several(checked[0].tolist(), x))
        except (General, KeyError):
            pass
    return _general(recalibrator, y_prob, x)


def _general(recalibrator: Recalibrator, y_prob: Any, x: Mapping[str, Any] | None) -> tuple[float, ...]:
    """A table of one row."""
    row = {name: [value] for name, value in x.items()} if x is not None else None
    probability = [y_prob] if isinstance(y_prob, (int, float)) else [list(y_prob)]
    return tuple(recalibrator.predict_proba(probability, row)[0].tolist())


def forget(recalibrator: Recalibrator) -> None:
    """Drop the function of a recalibrator that is being fitted again."""
    _functions.pop(recalibrator, None)


def _functions_of(recalibrator: Recalibrator) -> tuple[Function | None, Beside | None, Several | None]:
    if not recalibrator.is_fitted():
        raise refusal("is not fitted", where=type(recalibrator).__name__, hint="call fit(y_prob, y) first")
    try:
        return function_of(nodes.formula(recalibrator)), None, None
    except MiscalError:  # no formula of the score alone
        return None, beside_of(recalibrator), several_of(recalibrator)


def function_of(node: nodes.Node) -> Function:
    """A function from a probability to the node's value."""
    if isinstance(node, nodes.Probability):
        return lambda p: p
    return _WRITERS[type(node)](node, function_of(node.inner) if hasattr(node, "inner") else None)


def _held(node: nodes.Held, inner: Function) -> Function:
    low, high = node.low, node.high
    return lambda p: min(max(inner(p), low), high)


def _moved(node: nodes.Moved, inner: Function) -> Function:
    clip = node.clip

    def run(p: float) -> float:
        value = inner(p)
        return clip if value <= 0.0 else (1.0 - clip if value >= 1.0 else value)

    return run


def _log(node: nodes.Log, inner: Function) -> Function:
    log, log1p = math.log, math.log1p
    return (lambda p: log1p(-inner(p))) if node.of_rest else (lambda p: log(inner(p)))


def _linear(node: nodes.Linear, _: object) -> Function:
    terms = [(factor, function_of(inner)) for factor, inner in node.terms]
    intercept = node.intercept
    if len(terms) == 1:
        factor, inner = terms[0]
        return lambda p: intercept + factor * inner(p)
    return lambda p: intercept + sum(factor * inner(p) for factor, inner in terms)


def _sigmoid(_: nodes.Sigmoid, inner: Function) -> Function:
    exp = math.exp

    def run(p: float) -> float:
        x = inner(p)
        if x >= 0.0:
            return 1.0 / (1.0 + exp(-x))
        grown = exp(x)
        return grown / (1.0 + grown)

    return run


def _steps(node: nodes.Steps, inner: Function) -> Function:
    edges, values = node.edges, node.values

    def run(p: float) -> float:
        score = inner(p)
        value = values[bisect_left(edges, score)]
        return score if value is None else value

    return run


def _line(node: nodes.Line, inner: Function) -> Function:
    knots, values, last = node.knots, node.values, len(node.knots) - 1
    continued = node.continued and last > 0

    def run(p: float) -> float:
        score = inner(p)
        place = bisect_right(knots, score) - 1
        if not continued:
            if place < 0:
                return values[0]
            if place >= last:
                return values[last]
        place = min(max(place, 0), last - 1)
        slope = (values[place + 1] - values[place]) / (knots[place + 1] - knots[place])
        return values[place] + slope * (score - knots[place])

    return run


def _ratio(node: nodes.Ratio, inner: Function) -> Function:
    rate = node.rate

    def run(p: float) -> float:
        value = inner(p)
        return value / (value + (1.0 - value) / rate)

    return run


def _then(node: nodes.Then, _: object) -> Function:
    first, second = function_of(node.first), function_of(node.second)
    return lambda p: second(first(p))


_WRITERS: dict[type, Callable[..., Function]] = {
    nodes.Held: _held,
    nodes.Moved: _moved,
    nodes.Log: _log,
    nodes.Linear: _linear,
    nodes.Sigmoid: _sigmoid,
    nodes.Steps: _steps,
    nodes.Line: _line,
    nodes.Ratio: _ratio,
    nodes.Then: _then,
}

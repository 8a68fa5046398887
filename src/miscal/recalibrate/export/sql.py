"""A fitted map as an SQL expression: the database recalibrates where the scores are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from miscal.data.errors import refusal
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.export import sql_columns
from miscal.recalibrate.export.formula_classes import Each, Softmax, formula_of_classes
from miscal.recalibrate.export.formula_columns import whole_formula
from miscal.recalibrate.export.sql_columns import number, quoted

LONGEST = 10_000_000  # characters


def to_sql(recalibrator: Recalibrator, column: str | Sequence[str] = "probability") -> str | list[str]:
    """The map as an SQL expression: the recalibrated probability of class 1, or one expression a class.

    Plain SQL (CASE, LN, EXP, LEAST, GREATEST), tested in DuckDB; numbers keep all their digits. Maps that look
    at columns name them as fit did; missing is NULL (of numbers NaN too). Rounds of trees are nested in a scalar
    subquery. Where `handle_unknown="error"` would raise, the expression is NULL.

    Parameters
    ----------
    recalibrator : fitted
        Of the score, or for two classes VariableTree, GroupWise, AugmentedLogistic, AugmentedBeta,
        MulticalibrationBoost.
    column : name of the column of probabilities, or of several classes one name each; they are quoted

    Examples
    --------
    >>> from miscal.recalibrate import HistogramBinning
    >>> to_sql(HistogramBinning(bins=2).fit([0.1, 0.3, 0.6, 0.8], [0, 1, 1, 1]), "p")
    '(CASE WHEN "p" <= 0.5 THEN 0.5 ELSE 1.0 END)'
    """
    several = recalibrator.is_fitted() and recalibrator.n_classes_ > 2
    names = [column] if isinstance(column, str) else list(column)
    for name in names:
        if not isinstance(name, str) or not name or "\x00" in name:
            raise refusal("must be the name of a column", where="'column'", got=f"it is {name!r}")
    if several != (not isinstance(column, str)) or (several and len(names) != recalibrator.n_classes_):
        wanted = f"one name for each of the {recalibrator.n_classes_} classes" if several else "one name"
        raise refusal(f"must be {wanted}", where="'column'", got=f"got {column!r}")
    if several:
        made = _of_classes(formula_of_classes(recalibrator), [quoted(name) for name in names])
        return [_checked(recalibrator, text) for text in made]
    return _checked(recalibrator, _written(whole_formula(recalibrator), quoted(names[0])))


def _checked(recalibrator: Recalibrator, written: str) -> str:
    if len(written) > LONGEST:
        got = f"the expression would have {len(written):,} characters"
        hint = "use its JSON, or to_onnx"
        raise refusal("is too large for SQL", where=type(recalibrator).__name__, got=got, hint=hint)
    return written


def _of_classes(parts: Softmax | Each, columns: list[str]) -> Iterator[str]:
    """One expression a class."""
    if isinstance(parts, Each):
        values = [_written(node, column) for node, column in zip(parts.maps, columns, strict=True)]
        total, given = f"({' + '.join(values)})", f"({' + '.join(columns)})"
        for value, column in zip(values, columns, strict=True):
            whole = f"(CASE WHEN {total} > 0 THEN {value} / {total} ELSE {column} / {given} END)"
            yield whole if parts.divided else value
        return
    logs = [f"LN(GREATEST({column}, {number(nodes.LOGIT_CLIP)}))" for column in columns]
    for k in range(len(columns)):
        rest = []
        for j in range(len(columns)):
            if j != k:
                off = parts.slopes[j] - parts.slopes[k]
                terms = [f"{number(factor)} * {log}" for factor, log in zip(off, logs, strict=True) if factor]
                shift = number(parts.shifts[j] - parts.shifts[k])
                rest.append(f"EXP(LEAST({' + '.join([shift, *terms])}, 700.0))")
        yield f"(1.0 / (1.0 + {' + '.join(rest)}))"


def _written(node: Any, column: str) -> str:
    if isinstance(node, nodes.Probability):
        return column
    if isinstance(node, nodes.Network):
        hint = "use to_onnx, or its JSON: from_json() needs no torch"
        raise refusal("cannot be written in SQL", where="NeuralCalibration", got="it holds a network", hint=hint)
    if type(node) in sql_columns.WRITERS:
        return sql_columns.WRITERS[type(node)](node, lambda inner: _written(inner, column))
    return _WRITERS[type(node)](node, column)


def _held(node: nodes.Held, column: str) -> str:
    inner = _written(node.inner, column)
    return f"LEAST(GREATEST({inner}, {number(node.low)}), {number(node.high)})"


def _moved(node: nodes.Moved, column: str) -> str:
    inner, clip = _written(node.inner, column), node.clip
    return f"(CASE WHEN {inner} <= 0 THEN {number(clip)} WHEN {inner} >= 1 THEN {number(1 - clip)} ELSE {inner} END)"


def _log(node: nodes.Log, column: str) -> str:
    inner = _written(node.inner, column)
    return f"LN(1.0 - {inner})" if node.of_rest else f"LN({inner})"


def _linear(node: nodes.Linear, column: str) -> str:
    terms = [
        _written(inner, column) if factor == 1.0 else f"{number(factor)} * {_written(inner, column)}"
        for factor, inner in node.terms
    ]
    return f"({' + '.join([number(node.intercept), *terms])})" if terms else number(node.intercept)


def _sigmoid(node: nodes.Sigmoid, column: str) -> str:
    return f"(1.0 / (1.0 + EXP(-{_written(node.inner, column)})))"


def _steps(node: nodes.Steps, column: str) -> str:
    inner = _written(node.inner, column)
    values = [inner if value is None else number(value) for value in node.values]
    cases = "".join(
        f" WHEN {inner} <= {number(edge)} THEN {value}" for edge, value in zip(node.edges, values, strict=False)
    )
    return f"(CASE{cases} ELSE {values[-1]} END)" if cases else values[-1]


def _line(node: nodes.Line, column: str) -> str:
    inner, knots, values = _written(node.inner, column), node.knots, node.values
    last = len(knots) - 1
    if last == 0:
        return number(values[0])
    pieces = [_piece(inner, knots, values, place) for place in range(last)]
    low, high = (pieces[0], pieces[-1]) if node.continued else (number(values[0]), number(values[last]))
    cases = [f" WHEN {inner} < {number(knots[0])} THEN {low}"]
    cases += [f" WHEN {inner} < {number(knots[place + 1])} THEN {pieces[place]}" for place in range(last)]
    return f"(CASE{''.join(cases)} ELSE {high} END)"


def _piece(inner: str, knots: tuple[float, ...], values: tuple[float, ...], place: int) -> str:
    slope = (values[place + 1] - values[place]) / (knots[place + 1] - knots[place])
    return f"({number(values[place])} + {number(slope)} * ({inner} - {number(knots[place])}))"


def _ratio(node: nodes.Ratio, column: str) -> str:
    inner = _written(node.inner, column)
    return f"({inner} / ({inner} + (1.0 - {inner}) / {number(node.rate)}))"


def _then(node: nodes.Then, column: str) -> str:
    if isinstance(node.first, nodes.Probability):
        return _written(node.second, column)
    name = quoted("miscal_step")
    first, second = _written(node.first, column), _written(node.second, name)
    return f"(SELECT {second} FROM (SELECT {first} AS {name}) AS {quoted('miscal_of_step')})"  # noqa: S608


_WRITERS: dict[type, Callable[..., str]] = {
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

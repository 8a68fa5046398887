"""A fitted map as an SQL expression: the database recalibrates where the scores are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from miscal.data.errors import refusal
from miscal.recalibrate import formula as nodes
from miscal.recalibrate.base import Recalibrator


def to_sql(recalibrator: Recalibrator, column: str = "probability") -> str:
    """The map as one SQL expression of a column: the recalibrated probability of class 1.

    Standard SQL (CASE, LN, EXP) that DuckDB, PostgreSQL, Spark and others read; numbers keep all their digits.

    Parameters
    ----------
    recalibrator : fitted, binary, of the score alone
    column : name of the column; it is quoted

    Examples
    --------
    >>> from miscal.recalibrate import HistogramBinning
    >>> to_sql(HistogramBinning(bins=2).fit([0.1, 0.3, 0.6, 0.8], [0, 1, 1, 1]), "p")
    '(CASE WHEN "p" <= 0.5 THEN 0.5 ELSE 1.0 END)'
    """
    if not isinstance(column, str) or not column or "\x00" in column:
        raise refusal("must be the name of a column", where="'column'", got=f"it is {column!r}")
    quoted = '"' + column.replace('"', '""') + '"'
    return _written(nodes.formula(recalibrator), quoted)


def _written(node: Any, column: str) -> str:
    if isinstance(node, nodes.Probability):
        return column
    return _WRITERS[type(node)](node, column)


def _number(value: float) -> str:
    """All digits, in a form that is read as a double: an exponent where plain digits would be a decimal."""
    text = repr(float(value))
    return text if "e" in text or ("." in text and len(text) < 8) else f"{value:.17e}"


def _held(node: nodes.Held, column: str) -> str:
    inner = _written(node.inner, column)
    return f"LEAST(GREATEST({inner}, {_number(node.low)}), {_number(node.high)})"


def _moved(node: nodes.Moved, column: str) -> str:
    inner, clip = _written(node.inner, column), node.clip
    return f"(CASE WHEN {inner} <= 0 THEN {_number(clip)} WHEN {inner} >= 1 THEN {_number(1 - clip)} ELSE {inner} END)"


def _log(node: nodes.Log, column: str) -> str:
    inner = _written(node.inner, column)
    return f"LN(1.0 - {inner})" if node.of_rest else f"LN({inner})"


def _linear(node: nodes.Linear, column: str) -> str:
    terms = " + ".join(f"{_number(factor)} * {_written(inner, column)}" for factor, inner in node.terms)
    return f"({_number(node.intercept)} + {terms})"


def _sigmoid(node: nodes.Sigmoid, column: str) -> str:
    return f"(1.0 / (1.0 + EXP(-{_written(node.inner, column)})))"


def _steps(node: nodes.Steps, column: str) -> str:
    inner = _written(node.inner, column)
    values = [inner if value is None else _number(value) for value in node.values]
    cases = "".join(
        f" WHEN {inner} <= {_number(edge)} THEN {value}" for edge, value in zip(node.edges, values, strict=False)
    )
    return f"(CASE{cases} ELSE {values[-1]} END)" if cases else values[-1]


def _line(node: nodes.Line, column: str) -> str:
    inner, knots, values = _written(node.inner, column), node.knots, node.values
    last = len(knots) - 1
    if last == 0:
        return _number(values[0])
    pieces = [_piece(inner, knots, values, place) for place in range(last)]
    low, high = (pieces[0], pieces[-1]) if node.continued else (_number(values[0]), _number(values[last]))
    cases = [f" WHEN {inner} < {_number(knots[0])} THEN {low}"]
    cases += [f" WHEN {inner} < {_number(knots[place + 1])} THEN {pieces[place]}" for place in range(last)]
    return f"(CASE{''.join(cases)} ELSE {high} END)"


def _piece(inner: str, knots: tuple[float, ...], values: tuple[float, ...], place: int) -> str:
    slope = (values[place + 1] - values[place]) / (knots[place + 1] - knots[place])
    return f"({_number(values[place])} + {_number(slope)} * ({inner} - {_number(knots[place])}))"


def _ratio(node: nodes.Ratio, column: str) -> str:
    inner = _written(node.inner, column)
    return f"({inner} / ({inner} + (1.0 - {inner}) / {_number(node.rate)}))"


_WRITERS: dict[type, Callable[..., str]] = {
    nodes.Held: _held,
    nodes.Moved: _moved,
    nodes.Log: _log,
    nodes.Linear: _linear,
    nodes.Sigmoid: _sigmoid,
    nodes.Steps: _steps,
    nodes.Line: _line,
    nodes.Ratio: _ratio,
}

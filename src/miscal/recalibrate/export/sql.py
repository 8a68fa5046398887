"""A fitted map as an SQL expression: the database recalibrates where the scores are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from miscal.data.errors import refusal
from miscal.recalibrate.export import formula as nodes

if TYPE_CHECKING:
    from miscal.recalibrate.base import Recalibrator

LONGEST = 10_000_000  # characters
LARGEST = "1.7976931348623157e308"
FARTHEST = 700.0  # EXP of more is refused by some databases, and changes no digit of a probability
DIALECTS = {"duckdb": ("LEAST", "GREATEST"), "postgres": ("LEAST", "GREATEST"), "sqlite": ("MIN", "MAX")}


def to_sql(recalibrator: Recalibrator, column: Any, dialect: Any) -> str | list[str]:
    """The expression of `Recalibrator.to_sql`."""
    if not isinstance(dialect, str) or dialect not in DIALECTS:
        known = ", ".join(f"'{name}'" for name in DIALECTS)
        raise refusal(f"must be one of {known}", where="'dialect'", got=f"it is {dialect!r}")
    recalibrator.check_fitted()
    several = recalibrator.n_classes_ > 2
    names = [column] if isinstance(column, str) else list(column)
    for name in names:
        if not isinstance(name, str) or not name or "\x00" in name:
            raise refusal("must be the name of a column", where="'column'", got=f"it is {name!r}")
    if several != (not isinstance(column, str)) or (several and len(names) != recalibrator.n_classes_):
        wanted = f"one name for each of the {recalibrator.n_classes_} classes" if several else "one name"
        raise refusal(f"must be {wanted}", where="'column'", got=f"got {column!r}")
    writers = [Writer(quoted(name), *DIALECTS[dialect]) for name in names]
    found = recalibrator.formula()
    if isinstance(found, nodes.Softmax):
        return [_checked(recalibrator, text) for text in _softmax(found, writers)]
    if isinstance(found, nodes.Each):
        return [_checked(recalibrator, text) for text in _each(found, writers)]
    return _checked(recalibrator, writers[0].write(found))


def _checked(recalibrator: Recalibrator, written: str) -> str:
    if len(written) > LONGEST:
        got = f"the expression would have {len(written):,} characters"
        hint = "use its JSON, or to_onnx"
        raise refusal("is too large for SQL", where=type(recalibrator).__name__, got=got, hint=hint)
    return written


@dataclass(frozen=True)
class Writer:
    """Writes nodes of a formula of the probability in a column (quoted already), by one method a kind of node."""

    column: str
    least: str
    greatest: str

    def write(self, node: Any) -> str:
        """The node as an expression."""
        return str(getattr(self, f"_{type(node).__name__.lower()}")(node))

    def between(self, inner: str, low: float, high: float) -> str:
        """An expression held between two bounds."""
        return f"{self.least}({self.greatest}({inner}, {digits(low)}), {digits(high)})"

    def exp(self, inner: str) -> str:
        """The exponential, of a number held where it neither overflows nor underflows."""
        return f"EXP({self.between(inner, -FARTHEST, FARTHEST)})"

    def _probability(self, _: nodes.Probability) -> str:
        return self.column

    def _held(self, node: nodes.Held) -> str:
        return self.between(self.write(node.inner), node.low, node.high)

    def _log(self, node: nodes.Log) -> str:
        inner = self.write(node.inner)
        return f"LN(1.0 - {inner})" if node.of_rest else f"LN({inner})"

    def _linear(self, node: nodes.Linear) -> str:
        terms = [
            self.write(inner) if factor == 1.0 else f"{digits(factor)} * {self.write(inner)}"
            for factor, inner in node.terms
        ]
        return f"({' + '.join([digits(node.intercept), *terms])})" if terms else digits(node.intercept)

    def _sigmoid(self, node: nodes.Sigmoid) -> str:
        return f"(1.0 / (1.0 + {self.exp(f'0.0 - {self.write(node.inner)}')}))"

    def _steps(self, node: nodes.Steps) -> str:
        inner = self.write(node.inner)
        values = [inner if value is None else digits(value) for value in node.values]
        cases = "".join(
            f" WHEN {inner} <= {digits(edge)} THEN {value}" for edge, value in zip(node.edges, values, strict=False)
        )
        return f"(CASE{cases} ELSE {values[-1]} END)" if cases else values[-1]

    def _line(self, node: nodes.Line) -> str:
        inner, knots, values = self.write(node.inner), node.knots, node.values
        last = len(knots) - 1
        if last == 0:
            return digits(values[0])
        pieces = [_piece(inner, knots, values, place) for place in range(last)]
        low, high = (pieces[0], pieces[-1]) if node.continued else (digits(values[0]), digits(values[last]))
        cases = [f" WHEN {inner} < {digits(knots[0])} THEN {low}"]
        cases += [f" WHEN {inner} < {digits(knots[place + 1])} THEN {pieces[place]}" for place in range(last)]
        return f"(CASE{''.join(cases)} ELSE {high} END)"

    def _ratio(self, node: nodes.Ratio) -> str:
        inner = self.write(node.inner)
        return f"({inner} / ({inner} + (1.0 - {inner}) / {digits(node.rate)}))"

    def _then(self, node: nodes.Then) -> str:
        if isinstance(node.first, nodes.Probability):
            return self.write(node.second)
        name = quoted("miscal_step")
        first, second = self.write(node.first), replace(self, column=name).write(node.second)
        return f"(SELECT {second} FROM (SELECT {first} AS {name}) AS {quoted('miscal_of_step')})"  # noqa: S608

    def _number(self, node: nodes.Number) -> str:
        value = quoted(node.name)
        if node.low == node.high:
            value = digits(node.low)
        elif node.low > -nodes.LARGEST or node.high < nodes.LARGEST:
            value = self.between(value, node.low, node.high)
        return f"(CASE WHEN {_absent(node.name)} THEN {digits(node.missing)} ELSE {value} END)"

    def _level(self, node: nodes.Level) -> str:
        name = quoted(node.name)
        cases = [f" WHEN {_gone(node.name, node.values)} THEN {digits(node.missing)}"]
        cases += [f" WHEN {name} = {literal(level)} THEN {digits(value)}" for level, value in node.values.items()]
        return f"(CASE{''.join(cases)} ELSE {digits(node.unseen)} END)"

    def _cut(self, node: nodes.Cut) -> str:
        test = _test(node.column, node.threshold, self)
        if test in ("TRUE", "FALSE"):
            return self.write(node.left if test == "TRUE" else node.right)
        return f"(CASE WHEN {test} THEN {self.write(node.left)} ELSE {self.write(node.right)} END)"

    def _polynomial(self, node: nodes.Polynomial) -> str:
        inner = self.write(node.inner)
        terms = [f"{digits(factor)} * {' * '.join([inner] * (i + 1))}" for i, factor in enumerate(node.factors)]
        return f"({' + '.join(terms)})"

    def _match(self, node: nodes.Match) -> str:
        gone = [_gone(name, [key[j] for key in node.cases]) for j, name in enumerate(node.names)]

        def same(j: int, level: Any) -> str:
            return gone[j] if level is None else f"{quoted(node.names[j])} = {literal(level)}"

        cases = [
            f" WHEN {' AND '.join(same(j, level) for j, level in enumerate(key))} THEN {self.write(value)}"
            for key, value in node.cases.items()
        ]
        return f"(CASE{''.join(cases)} ELSE {self.write(node.otherwise)} END)"

    def _refused(self, _: nodes.Refused) -> str:
        return "NULL"

    def _network(self, _: nodes.Network) -> str:
        hint = "use to_onnx, or its JSON: from_json() needs no torch"
        raise refusal("cannot be written in SQL", where="NeuralCalibration", got="it holds a network", hint=hint)

    def _named(self, node: nodes.Named) -> str:
        name, table = quoted(f"miscal_{node.name}"), quoted(f"miscal_of_{node.name}")
        return f"(SELECT {self.write(node.body)} FROM (SELECT {self.write(node.inner)} AS {name}) AS {table})"  # noqa: S608

    def _name(self, node: nodes.Name) -> str:
        return quoted(f"miscal_{node.name}")


def _each(parts: nodes.Each, writers: Sequence[Writer]) -> Iterator[str]:
    """One expression a class."""
    columns = [writer.column for writer in writers]
    values = [writer.write(node) for node, writer in zip(parts.maps, writers, strict=True)]
    total, given = f"({' + '.join(values)})", f"({' + '.join(columns)})"
    for value, column in zip(values, columns, strict=True):
        whole = f"(CASE WHEN {total} > 0 THEN {value} / {total} ELSE {column} / {given} END)"
        yield whole if parts.divided else value


def _softmax(parts: nodes.Softmax, writers: Sequence[Writer]) -> Iterator[str]:
    """One expression a class."""
    logs = [f"LN({writer.greatest}({writer.column}, {digits(nodes.LOGIT_CLIP)}))" for writer in writers]
    slopes = parts.slopes
    if parts.power is not None:
        heated = " + ".join(f"EXP({digits(parts.power)} * {log})" for log in logs)
        logs = [*logs, f"LN({heated})"]
        slopes = np.column_stack([slopes, -slopes.sum(axis=1) / parts.power])
    for k, writer in enumerate(writers):
        rest = []
        for j in range(len(writers)):
            if j != k:
                off = slopes[j] - slopes[k]
                terms = [f"{digits(factor)} * {log}" for factor, log in zip(off, logs, strict=True) if factor]
                shift = digits(parts.shifts[j] - parts.shifts[k])
                rest.append(writer.exp(" + ".join([shift, *terms])))
        yield f"(1.0 / (1.0 + {' + '.join(rest)}))"


def quoted(name: str) -> str:
    """A column's name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def digits(value: float) -> str:
    """All digits, in a form that is read as a double: an exponent where plain digits would be a decimal."""
    text = repr(float(value))
    return text if "e" in text or ("." in text and len(text) < 8) else f"{value:.17e}"


def literal(level: Any) -> str:
    """A level as SQL has it."""
    if isinstance(level, bool):
        return "TRUE" if level else "FALSE"
    if isinstance(level, str):
        if "\x00" in level:
            raise refusal("cannot be written in SQL", where=f"the level {level!r}")
        return "'" + level.replace("'", "''") + "'"
    if isinstance(level, int):
        return str(level)
    if isinstance(level, float):
        return digits(level)
    raise refusal("cannot be written in SQL", where=f"the level {level!r}", got=f"it is a {type(level).__name__}")


def _piece(inner: str, knots: tuple[float, ...], values: tuple[float, ...], place: int) -> str:
    slope = (values[place + 1] - values[place]) / (knots[place + 1] - knots[place])
    return f"({digits(values[place])} + {digits(slope)} * ({inner} - {digits(knots[place])}))"


def _absent(name: str) -> str:
    """Whether a number is missing; NaN counts, which some databases sort above all numbers and others nowhere."""
    return f"({quoted(name)} IS NULL OR NOT ({quoted(name)} <= {LARGEST}))"


def _gone(name: str, levels: Iterable[Any]) -> str:
    """Whether a column of such levels is missing."""
    numbers = any(isinstance(level, (int, float)) and not isinstance(level, bool) for level in levels)
    return _absent(name) if numbers else f"{quoted(name)} IS NULL"


def _test(column: Any, threshold: float, sql: Writer) -> str:
    """Whether a row goes left. A test that is NULL counts as no."""
    if isinstance(column, nodes.Number):
        return _number_test(column, threshold)
    if isinstance(column, nodes.Level):
        return _level_test(column, threshold)
    return f"{sql.write(column)} <= {digits(threshold)}"


def _number_test(column: nodes.Number, threshold: float) -> str:
    name = quoted(column.name)
    if threshold >= column.high:
        return "TRUE" if column.missing <= threshold else f"NOT {_absent(column.name)}"
    if column.missing <= threshold:
        absent = _absent(column.name)
        return absent if threshold < column.low else f"({absent} OR {name} <= {digits(threshold)})"
    return "FALSE" if threshold < column.low else f"{name} <= {digits(threshold)}"


def _level_test(column: nodes.Level, threshold: float) -> str:
    name, gone = quoted(column.name), _gone(column.name, column.values)
    here = [literal(level) for level, place in column.values.items() if place <= threshold]
    rest = [literal(level) for level, place in column.values.items() if place > threshold]
    if column.unseen <= threshold:
        known = f"{name} NOT IN ({', '.join(rest)})" if rest else f"NOT ({gone})"
    else:
        known = f"{name} IN ({', '.join(here)})" if here else "FALSE"
    if column.missing > threshold:
        return known
    if known == "FALSE":
        return gone
    return "TRUE" if not rest and column.unseen <= threshold else f"({gone} OR {known})"

"""A fitted map as an SQL expression: the database recalibrates where the scores are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from miscal.data.checks import SUM_TOLERANCE
from miscal.data.errors import refusal
from miscal.data.responses import LARGEST as MOST
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.export.dialects import Dialect, dialect_named

if TYPE_CHECKING:
    from miscal.recalibrate.base import Recalibrator

LONGEST = 10_000_000  # characters
MOST_REPEATED = LONGEST // 100  # characters of a value that is written wherever its name stands


def to_sql(recalibrator: Recalibrator, column: Any, dialect: Any) -> str | list[str]:
    """The expression of `Recalibrator.to_sql`."""
    written = dialect_named(dialect)
    recalibrator.check_fitted()
    several = recalibrator.n_classes_ > 2
    names = [column] if isinstance(column, str) else list(column)
    for name in names:
        if not isinstance(name, str) or not name or "\x00" in name:
            raise refusal("must be the name of a column", where="'column'", got=f"it is {name!r}")
    if several != (not isinstance(column, str)) or (several and len(names) != recalibrator.n_classes_):
        wanted = f"one name for each of the {recalibrator.n_classes_} classes" if several else "one name"
        raise refusal(f"must be {wanted}", where="'column'", got=f"got {column!r}")
    found = recalibrator.formula()
    used = {*names, *nodes.columns_of(found)}
    _refuse_alike(used, written)
    means = getattr(recalibrator, "response_", "")
    writers = [Writer.of(name, replace(written, floor=0.0) if means else written, used) for name in names]
    if isinstance(found, nodes.Softmax):
        bodies = list(_softmax(found, writers))
    elif isinstance(found, nodes.Each):
        bodies = list(_each(found, writers))
    else:
        bodies = [writers[0].write(found)]
    made = [_checked(recalibrator, _where_valid(body, names, written, means)) for body in bodies]
    return made if several else made[0]


def _refuse_alike(names: set[str], dialect: Dialect) -> None:
    """Refuse columns that the database takes for one."""
    seen: dict[str, str] = {}
    for name in sorted(names):
        other = seen.setdefault(name.casefold(), name)
        if other != name and not dialect.cased:
            got = f"it is '{other}' in another case, and to this database the same"
            raise refusal(
                "cannot be written in SQL", where=f"the column '{name}'", got=got, hint="rename one and refit"
            )


def _where_valid(body: str, names: Sequence[str], dialect: Dialect, means: str) -> str:
    """NULL for scores that `predict_proba` refuses: missing, not a number, outside [0, 1], not summing to 1.

    Of means: not finite, or of a count negative.
    """
    columns = [dialect.quoted(name) for name in names]
    most = dialect.digits(MOST) if means else "1"
    least = dialect.digits(-MOST) if means == "real" else "0"
    tests = [f"{column} >= {least} AND {column} <= {most}" for column in columns]
    if len(names) > 1:
        total = " + ".join(dialect.as_double(column) for column in columns)
        tests.append(f"ABS({total} - 1.0) <= {dialect.digits(SUM_TOLERANCE)}")
    text = f"(CASE WHEN {' AND '.join(tests)} THEN {body} END)"
    return dialect.as_double(text) if dialect.exact else text


def _checked(recalibrator: Recalibrator, written: str) -> str:
    if len(written) > LONGEST:
        raise _too_long(type(recalibrator).__name__, len(written))
    return written


def _too_long(name: str, length: int) -> Exception:
    got = f"the expression would have {length:,} characters or more"
    return refusal("is too large for SQL", where=name, got=got, hint="use its JSON, or to_onnx")


@dataclass(frozen=True)
class Writer:
    """Writes nodes of a formula of the probability (an expression already), by one method a kind of node."""

    column: str
    dialect: Dialect
    used: frozenset[str]  # names of columns, in lower case
    values: Mapping[str, str] = field(default_factory=dict)  # expressions under names

    @classmethod
    def of(cls, name: str, dialect: Dialect, used: set[str]) -> Writer:
        """A writer of the probability in a column."""
        column = dialect.as_double(dialect.quoted(name))
        if dialect.floor:
            column = f"{dialect.greatest}({column}, {dialect.digits(dialect.floor)})"
        return cls(column, dialect, frozenset(each.casefold() for each in used))

    def write(self, node: Any) -> str:
        """The node as an expression."""
        return str(getattr(self, f"_{type(node).__name__.lower()}")(node))

    def digits(self, value: float) -> str:
        return self.dialect.digits(value)

    def quoted(self, name: str) -> str:
        return self.dialect.quoted(name)

    def between(self, inner: str, low: float, high: float) -> str:
        """An expression held between two bounds."""
        at_least = f"{self.dialect.greatest}({inner}, {self.digits(low)})"
        return f"{self.dialect.least}({at_least}, {self.digits(high)})"

    def exp(self, inner: str) -> str:
        """The exponential, of a number held where it neither overflows nor underflows."""
        return f"EXP({self.between(inner, -nodes.FARTHEST, nodes.FARTHEST)})"

    def fresh(self, word: str) -> str:
        """A name that no column has which the formula looks at."""
        name = f"miscal_{word}"
        while name in self.used:
            name += "_"
        return self.quoted(name)

    def let(self, name: str, value: str, body: str) -> str:
        """A value under a name, for the body."""
        return self.dialect.let.format(name=name, value=value, body=body, table=self.fresh("value"))

    def _probability(self, _: nodes.Probability) -> str:
        return self.column

    def _held(self, node: nodes.Held) -> str:
        return self.between(self.write(node.inner), node.low, node.high)

    def _log(self, node: nodes.Log) -> str:
        inner = self.write(node.inner)
        return f"LN(1.0 - {inner})" if node.of_rest else f"LN({inner})"

    def _linear(self, node: nodes.Linear) -> str:
        terms = [
            self.write(inner) if factor == 1.0 else f"{self.digits(factor)} * {self.write(inner)}"
            for factor, inner in node.terms
        ]
        return f"({' + '.join([self.digits(node.intercept), *terms])})" if terms else self.digits(node.intercept)

    def _sigmoid(self, node: nodes.Sigmoid) -> str:
        return f"(1.0 / (1.0 + {self.exp(f'0.0 - {self.write(node.inner)}')}))"

    def _exp(self, node: nodes.Exp) -> str:
        return self.exp(self.write(node.inner))

    def _steps(self, node: nodes.Steps) -> str:
        inner = self.write(node.inner)
        values = [inner if value is None else self.digits(value) for value in node.values]
        cases = "".join(
            f" WHEN {inner} <= {self.digits(edge)} THEN {value}"
            for edge, value in zip(node.edges, values, strict=False)
        )
        return f"(CASE{cases} ELSE {values[-1]} END)" if cases else values[-1]

    def _line(self, node: nodes.Line) -> str:
        inner, knots, values = self.write(node.inner), node.knots, node.values
        last = len(knots) - 1
        if last == 0:
            return self.digits(values[0])
        pieces = [_piece(self, inner, knots, values, place) for place in range(last)]
        low, high = (pieces[0], pieces[-1]) if node.continued else (self.digits(values[0]), self.digits(values[last]))
        cases = [f" WHEN {inner} < {self.digits(knots[0])} THEN {low}"]
        cases += [f" WHEN {inner} < {self.digits(knots[place + 1])} THEN {pieces[place]}" for place in range(last)]
        return f"(CASE{''.join(cases)} ELSE {high} END)"

    def _ratio(self, node: nodes.Ratio) -> str:
        inner = self.write(node.inner)
        return f"({inner} / ({inner} + (1.0 - {inner}) / {self.digits(node.rate)}))"

    def _then(self, node: nodes.Then) -> str:
        if isinstance(node.first, nodes.Probability):
            return self.write(node.second)
        first = self.write(node.first)
        short = isinstance(node.first, nodes.Held) and isinstance(node.first.inner, nodes.Probability)
        if short or not self.dialect.let:
            return replace(self, column=_short(first)).write(node.second)
        name = self.fresh("step")
        return self.let(name, first, replace(self, column=name).write(node.second))

    def _number(self, node: nodes.Number) -> str:
        value = self.dialect.as_double(self.quoted(node.name))
        if node.low == node.high:
            value = self.digits(node.low)
        elif node.low > -nodes.LARGEST or node.high < nodes.LARGEST:
            value = self.between(value, node.low, node.high)
        return f"(CASE WHEN {self.absent(node.name)} THEN {self.digits(node.missing)} ELSE {value} END)"

    def _level(self, node: nodes.Level) -> str:
        name = self.quoted(node.name)
        cases = [f" WHEN {self.gone(node.name, node.kind)} THEN {self.digits(node.missing)}"]
        cases += [
            f" WHEN {name} = {self.dialect.level(level)} THEN {self.digits(value)}"
            for level, value in node.values.items()
        ]
        return f"(CASE{''.join(cases)} ELSE {self.digits(node.unseen)} END)"

    def absent(self, name: str) -> str:
        """Whether a number is missing; NaN counts, which some databases sort above all numbers and others nowhere."""
        return f"({self.quoted(name)} IS NULL OR NOT ({self.quoted(name)} <= {self.digits(nodes.LARGEST)}))"

    def gone(self, name: str, kind: type | None) -> str:
        """Whether a column of levels of a type is missing."""
        return self.absent(name) if kind in (float, int) else f"{self.quoted(name)} IS NULL"

    def _cut(self, node: nodes.Cut) -> str:
        test = _test(node.column, node.threshold, self)
        if test in ("TRUE", "FALSE"):
            return self.write(node.left if test == "TRUE" else node.right)
        return f"(CASE WHEN {test} THEN {self.write(node.left)} ELSE {self.write(node.right)} END)"

    def _polynomial(self, node: nodes.Polynomial) -> str:
        """From the highest power down: products of small numbers, which some databases refuse, stay few."""
        inner, (*lower, text) = self.write(node.inner), [self.digits(factor) for factor in node.factors]
        for factor in reversed(lower):
            text = f"({factor} + {inner} * {text})"
        return f"({inner} * {text})"

    def _match(self, node: nodes.Match) -> str:
        gone = [self.gone(name, kind) for name, kind in zip(node.names, node.kinds, strict=True)]

        def same(j: int, level: Any) -> str:
            return gone[j] if level is None else f"{self.quoted(node.names[j])} = {self.dialect.level(level)}"

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
        inner, name = self.write(node.inner), self.fresh(node.name)
        value = name if self.dialect.let else _short(inner)
        body = replace(self, values={**self.values, node.name: value}).write(node.body)
        return self.let(name, inner, body) if self.dialect.let else body

    def _name(self, node: nodes.Name) -> str:
        return self.values[node.name]


def _short(value: str) -> str:
    """A value that is written wherever its name stands, in a database without names for values."""
    if len(value) > MOST_REPEATED:
        raise _too_long("for this database a map", len(value))
    return value


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
    sql = writers[0]
    logs = [f"LN({sql.dialect.greatest}({each.column}, {sql.digits(nodes.LOGIT_CLIP)}))" for each in writers]
    slopes = parts.slopes
    if parts.power is not None:
        heated = " + ".join(f"EXP({sql.digits(parts.power)} * {log})" for log in logs)
        logs = [*logs, f"LN({heated})"]
        slopes = np.column_stack([slopes, -slopes.sum(axis=1) / parts.power])
    for k in range(len(writers)):
        rest = []
        for j in range(len(writers)):
            if j != k:
                off = slopes[j] - slopes[k]
                terms = [f"{sql.digits(factor)} * {log}" for factor, log in zip(off, logs, strict=True) if factor]
                shift = sql.digits(parts.shifts[j] - parts.shifts[k])
                rest.append(sql.exp(" + ".join([shift, *terms])))
        yield f"(1.0 / (1.0 + {' + '.join(rest)}))"


def _piece(sql: Writer, inner: str, knots: tuple[float, ...], values: tuple[float, ...], place: int) -> str:
    slope = (values[place + 1] - values[place]) / (knots[place + 1] - knots[place])
    return f"({sql.digits(values[place])} + {sql.digits(slope)} * ({inner} - {sql.digits(knots[place])}))"


def _test(column: Any, threshold: float, sql: Writer) -> str:
    """Whether a row goes left. A test that is NULL counts as no."""
    if isinstance(column, nodes.Number):
        return _number_test(column, threshold, sql)
    if isinstance(column, nodes.Level):
        return _level_test(column, threshold, sql)
    return f"{sql.write(column)} <= {sql.digits(threshold)}"


def _number_test(column: nodes.Number, threshold: float, sql: Writer) -> str:
    name, absent = sql.quoted(column.name), sql.absent(column.name)
    if threshold >= column.high:
        return "TRUE" if column.missing <= threshold else f"NOT {absent}"
    below = f"{name} <= {sql.digits(threshold)}"
    if column.missing <= threshold:
        return absent if threshold < column.low else f"({absent} OR {below})"
    return "FALSE" if threshold < column.low else below


def _level_test(column: nodes.Level, threshold: float, sql: Writer) -> str:
    name, gone = sql.quoted(column.name), sql.gone(column.name, column.kind)
    here = [sql.dialect.level(level) for level, place in column.values.items() if place <= threshold]
    rest = [sql.dialect.level(level) for level, place in column.values.items() if place > threshold]
    if column.unseen <= threshold:
        known = f"(NOT ({gone}) AND {name} NOT IN ({', '.join(rest)}))" if rest else f"NOT ({gone})"
    else:
        known = f"{name} IN ({', '.join(here)})" if here else "FALSE"
    if column.missing > threshold:
        return known
    if known == "FALSE":
        return gone
    return "TRUE" if not rest and column.unseen <= threshold else f"({gone} OR {known})"

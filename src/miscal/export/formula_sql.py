"""A fitted map as an SQL expression, so that a database recalibrates where the scores are.

The rule: `FormulaWriter` has one method for each kind of node of `formula`, named `visit_` and the node's name in lower
case. It asks a dialect of `dialects` for every spelling and compares no names of dialects: what a database cannot do is
a `Feature` in the dialect's `unsupported`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from miscal.data.checks import SUM_TOLERANCE
from miscal.data.errors import refusal
from miscal.data.responses import LARGEST as LARGEST_MEAN
from miscal.export import formula as nodes
from miscal.export.dialects import Dialect, Feature, dialect_named

if TYPE_CHECKING:
    from miscal.recalibrate.base import Recalibrator

MAX_CHARACTERS = 10_000_000  # of one expression
MAX_REPEATED_CHARACTERS = MAX_CHARACTERS // 100  # of a value that is written at each use of its name
MIN_SCORE = 1e-300  # where a product that rounds to 0 is an error


def to_sql(recalibrator: "Recalibrator", column: Any, dialect: Any) -> str | list[str]:
    """The expression of `Recalibrator.to_sql`: one, or of several classes a list."""
    spelling = dialect_named(dialect)
    recalibrator.check_fitted()
    multiclass = recalibrator.n_classes_ > 2
    score_columns = _score_columns(column, recalibrator.n_classes_ if multiclass else 1)
    formula = recalibrator.formula()
    names = {*score_columns, *nodes.columns_of(formula)}
    _check_distinct(names, spelling)
    response = getattr(recalibrator, "response_", "")  # empty for probabilities
    bounded = not response and not spelling.supports(Feature.TINY_PRODUCTS)
    writer = FormulaWriter(
        spelling, MIN_SCORE if bounded else 0.0, frozenset(name.casefold() for name in names)
    )
    writers = [writer.of(name) for name in score_columns]
    bodies: Iterable[str]
    if isinstance(formula, nodes.Softmax):
        bodies = _softmax(formula, writers)
    elif isinstance(formula, nodes.Each):
        bodies = _each(formula, writers)
    else:
        bodies = [writers[0].write(formula)]
    valid = [_where_valid(body, score_columns, writer, response) for body in bodies]
    expressions = [_limited(text, MAX_CHARACTERS, type(recalibrator).__name__) for text in valid]
    return expressions if multiclass else expressions[0]


def _score_columns(column: Any, n_columns: int) -> list[str]:
    """The names of the columns of scores, one for each class."""
    names = [column] if isinstance(column, str) else list(column)
    if len(names) != n_columns or not all(isinstance(name, str) for name in names):
        expected = f"one name for each of the {n_columns} classes" if n_columns > 1 else "one name"
        raise refusal(f"must be {expected}", "'column'", got=f"got {column!r}")
    return names


def _check_distinct(names: Iterable[str], dialect: Dialect) -> None:
    """Reject names that the database cannot tell apart."""
    by_folded: dict[str, str] = {}
    for name in sorted(names):
        other = by_folded.setdefault(name.casefold(), name)
        if other != name and not dialect.case_sensitive_names:
            where, got = (
                f"the column '{name}'",
                f"it is '{other}' in another case, and to this database the same",
            )
            raise refusal("cannot be written in SQL", where, got=got, hint="rename one and refit")


def _where_valid(body: str, names: Sequence[str], writer: "FormulaWriter", response: str) -> str:
    """NULL for scores that `predict_proba` rejects: missing, not a number, outside [0, 1], not summing to 1.

    Of means: not finite, or of a count negative.
    """
    dialect, columns = writer.dialect, [writer.quote_name(name) for name in names]
    high = dialect.number(LARGEST_MEAN) if response else "1"
    low = dialect.number(-LARGEST_MEAN) if response == "real" else "0"
    tests = [f"{column} >= {low} AND {column} <= {high}" for column in columns]
    if len(names) > 1:
        total = " + ".join(dialect.as_double(column) for column in columns)
        tests.append(f"ABS({total} - 1.0) <= {dialect.number(SUM_TOLERANCE)}")
    text = f"(CASE WHEN {' AND '.join(tests)} THEN {body} END)"
    return dialect.as_double(text) if dialect.decimal_literals else text


def _case(cases: Iterable[tuple[str, str]], otherwise: str) -> str:
    """The value of the first test that holds."""
    return f"(CASE{''.join(f' WHEN {test} THEN {value}' for test, value in cases)} ELSE {otherwise} END)"


def _limited(text: str, max_characters: int, name: str) -> str:
    """A text, rejected where it is too long."""
    if len(text) > max_characters:
        got = f"the expression would have {len(text):,} characters or more"
        raise refusal("is too large for SQL", name, got=got, hint="use its JSON, or to_onnx")
    return text


@dataclass(frozen=True)
class FormulaWriter:
    """Writes formulas of one probability, by one method for each kind of node.

    Attributes
    ----------
    dialect : Dialect
        The spelling.
    min_score : float
        Lower bound of scores; 0 for none.
    column_names : frozenset of str
        The columns that the formula reads, in lower case.
    values : mapping of str to str
        Expressions by the name of a value, the probability among them.
    """

    dialect: Dialect
    min_score: float
    column_names: frozenset[str]
    values: Mapping[str, str] = field(default_factory=dict)

    def of(self, name: str) -> "FormulaWriter":
        """The writer of formulas of the probability in a column."""
        column = self.dialect.as_double(self.quote_name(name))
        if self.min_score:
            column = f"{self.dialect.greatest}({column}, {self.dialect.number(self.min_score)})"
        return replace(self, values={nodes.STEP: column})

    def write(self, node: Any) -> str:
        """The node as an expression."""
        return str(getattr(self, f"visit_{type(node).__name__.lower()}")(node))

    def quote_name(self, name: str) -> str:
        """A column's name in quotes, rejected where no database has such a column."""
        if not name or "\x00" in name:
            raise refusal("must be the name of a column", "in SQL a column", got=f"it is {name!r}")
        return self.dialect.quote_name(name)

    def fresh(self, word: str) -> str:
        """A quoted name that no column of the formula has."""
        name = f"miscal_{word}"
        while name in self.column_names:
            name += "_"
        return self.dialect.quote_name(name)

    def absent(self, name: str) -> str:
        """Whether a number is missing; NaN counts, which some databases sort above all numbers and others nowhere."""
        column = self.quote_name(name)
        return f"({column} IS NULL OR NOT ({column} <= {self.dialect.number(nodes.LARGEST)}))"

    def by_level(self, node: nodes.Level, write: Callable[[float], str]) -> str:
        """What is written for the number of each row's level; levels with the number of unseen ones are not listed."""
        name, unseen = self.quote_name(node.name), node.unseen
        levels_by_value: dict[float, list[str]] = {}
        for level, value in node.values.items():
            if value != unseen:
                levels_by_value.setdefault(value, []).append(self.dialect.literal(level))
        known = [
            (f"{name} IN ({', '.join(levels)})", write(value)) for value, levels in levels_by_value.items()
        ]
        absent = self.absent(node.name) if node.kind in (float, int) else f"{name} IS NULL"
        return _case([(absent, write(node.missing)), *known], write(unseen))

    def visit_clipped(self, node: nodes.Clipped) -> str:
        return self.dialect.clip(self.write(node.inner), node.low, node.high)

    def visit_log(self, node: nodes.Log) -> str:
        return f"LN({self.write(node.inner)})"

    def visit_linear(self, node: nodes.Linear) -> str:
        number = self.dialect.number
        terms = [
            self.write(inner) if factor == 1.0 else f"{number(factor)} * {self.write(inner)}"
            for factor, inner in node.terms
        ]
        intercept = number(node.intercept)
        return f"({' + '.join([intercept, *terms])})" if terms else intercept

    def visit_sigmoid(self, node: nodes.Sigmoid) -> str:
        return f"(1.0 / (1.0 + {self.dialect.exp(f'0.0 - {self.write(node.inner)}')}))"

    def visit_exp(self, node: nodes.Exp) -> str:
        return f"EXP({self.write(node.inner)})"

    def visit_pieces(self, node: nodes.Pieces) -> str:
        inner, number = self.write(node.inner), self.dialect.number
        values = []
        for start, value, slope in node.pieces:
            rise = f" + {number(slope)} * ({inner} - {number(start)})"
            values.append(f"({number(value)}{rise})" if slope else number(value))
        tests = [f"{inner} <= {number(edge)}" for edge in node.edges]
        return _case(zip(tests, values[:-1], strict=True), values[-1]) if tests else values[-1]

    def visit_binaryop(self, node: nodes.BinaryOp) -> str:
        return f"({self.write(node.one)} {node.sign} {self.write(node.two)})"

    def visit_number(self, node: nodes.Number) -> str:
        value = self.dialect.number(node.low)
        if node.low < node.high:
            column = self.dialect.as_double(self.quote_name(node.name))
            value = self.dialect.clip(column, node.low, node.high)
        return _case([(self.absent(node.name), self.dialect.number(node.missing))], value)

    def visit_level(self, node: nodes.Level) -> str:
        return self.by_level(node, self.dialect.number)

    def visit_match(self, node: nodes.Match) -> str:
        return self.by_level(node.level, lambda place: self.write(node.cases[int(place)]))

    def visit_cut(self, node: nodes.Cut) -> str:
        column, threshold = node.column, node.threshold
        if isinstance(column, nodes.Level):
            column, threshold = column.beyond(threshold), 0.5
        test = f"{self.write(column)} <= {self.dialect.number(threshold)}"
        if isinstance(column, nodes.Number) and column.low <= threshold < min(column.high, column.missing):
            # A missing number gives NULL or false.
            test = f"{self.quote_name(column.name)} <= {self.dialect.number(threshold)}"
        return _case([(test, self.write(node.left))], self.write(node.right))

    def visit_refused(self, _: nodes.Refused) -> str:
        return "NULL"

    def visit_network(self, _: nodes.Network) -> str:
        hint = "use to_onnx, or its JSON: from_json() needs no torch"
        raise refusal("cannot be written in SQL", "NeuralCalibration", got="it holds a network", hint=hint)

    def visit_named(self, node: nodes.Named) -> str:
        inner, name = self.write(node.inner), self.fresh(node.name)
        repeated = not self.dialect.supports(Feature.NAMED_VALUES) or isinstance(node.inner, nodes.Clipped)
        if repeated:
            inner = _limited(inner, MAX_REPEATED_CHARACTERS, "for this database a map")
        body = replace(self, values={**self.values, node.name: inner if repeated else name}).write(node.body)
        return body if repeated else self.dialect.bind(name, inner, body, self.fresh("value"))

    def visit_name(self, node: nodes.Name) -> str:
        return self.values[node.name]


def _each(parts: nodes.Each, writers: Sequence[FormulaWriter]) -> Iterator[str]:
    """One expression for each class."""
    columns = [writer.write(nodes.PROBABILITY) for writer in writers]
    values = [writer.write(node) for node, writer in zip(parts.maps, writers, strict=True)]
    total, total_before = f"({' + '.join(values)})", f"({' + '.join(columns)})"
    for value, column in zip(values, columns, strict=True):
        share = _case([(f"{total} > 0", f"{value} / {total}")], f"{column} / {total_before}")
        yield share if parts.divided else value


def _softmax(parts: nodes.Softmax, writers: Sequence[FormulaWriter]) -> Iterator[str]:
    """One expression for each class."""
    dialect = writers[0].dialect
    logs = [
        f"LN({dialect.greatest}({writer.write(nodes.PROBABILITY)}, {dialect.number(nodes.LOGIT_CLIP)}))"
        for writer in writers
    ]
    slopes = parts.slopes
    if parts.power is not None:
        powers = " + ".join(f"EXP({dialect.number(parts.power)} * {log})" for log in logs)
        logs = [*logs, f"LN({powers})"]
        slopes = np.column_stack([slopes, -slopes.sum(axis=1) / parts.power])

    def odds_of(j: int, k: int) -> str:
        factors = zip(slopes[j] - slopes[k], logs, strict=True)
        terms = [f"{dialect.number(factor)} * {log}" for factor, log in factors if factor]
        return dialect.exp(" + ".join([dialect.number(parts.shifts[j] - parts.shifts[k]), *terms]))

    for k in range(len(writers)):
        odds = [odds_of(j, k) for j in range(len(writers)) if j != k]
        yield f"(1.0 / (1.0 + {' + '.join(odds)}))"

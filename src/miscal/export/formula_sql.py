"""A fitted map as an SQL expression: the database recalibrates where the scores are."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from miscal.data.checks import SUM_TOLERANCE, one_of
from miscal.data.errors import refusal
from miscal.data.responses import LARGEST as MOST
from miscal.export import formula as nodes

if TYPE_CHECKING:
    from miscal.recalibrate.base import Recalibrator

SUBQUERY = "(SELECT {body} FROM (SELECT {value} AS {name}) AS {table})"
# PostgreSQL would write the value wherever its name stands, which grows without bound; OFFSET forbids it.
FENCED = "(SELECT {body} FROM (SELECT {value} AS {name} OFFSET 0) AS {table})"
ESCAPED = ("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r")  # where a backslash means something
LONGEST = 10_000_000  # characters
MOST_REPEATED = LONGEST // 100  # characters of a value that is written wherever its name stands


def to_sql(recalibrator: "Recalibrator", column: Any, dialect: Any) -> str | list[str]:
    """The expression of `Recalibrator.to_sql`."""
    one_of("dialect", dialect, DIALECTS)
    written = DIALECTS[dialect]
    recalibrator.check_fitted()
    several = recalibrator.n_classes_ > 2
    names = [column] if isinstance(column, str) else list(column)
    if len(names) != (recalibrator.n_classes_ if several else 1) or not all(
        isinstance(name, str) for name in names
    ):
        wanted = f"one name for each of the {recalibrator.n_classes_} classes" if several else "one name"
        raise refusal(f"must be {wanted}", "'column'", got=f"got {column!r}")
    found = recalibrator.formula()
    seen: dict[str, str] = {}
    for name in sorted({*names, *nodes.columns_of(found)}):
        other = seen.setdefault(name.casefold(), name)
        if other != name and not written.cased:
            where, got = (
                f"the column '{name}'",
                f"it is '{other}' in another case, and to this database the same",
            )
            raise refusal("cannot be written in SQL", where, got=got, hint="rename one and refit")
    means = getattr(recalibrator, "response_", "")
    writer = replace(written, floor=0.0 if means else written.floor, used=frozenset(seen))
    writers = [writer.of(name) for name in names]
    bodies: Iterable[str]
    if isinstance(found, nodes.Softmax):
        bodies = _softmax(found, writers)
    elif isinstance(found, nodes.Each):
        bodies = _each(found, writers)
    else:
        bodies = [writers[0].write(found)]
    whole = [_where_valid(body, names, written, means) for body in bodies]
    made = [_limited(text, LONGEST, type(recalibrator).__name__) for text in whole]
    return made if several else made[0]


def _where_valid(body: str, names: Sequence[str], dialect: "Dialect", means: str) -> str:
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


def _case(cases: Iterable[tuple[str, str]], otherwise: str) -> str:
    """The value of the first test that holds."""
    return f"(CASE{''.join(f' WHEN {test} THEN {value}' for test, value in cases)} ELSE {otherwise} END)"


def _limited(text: str, most: int, name: str) -> str:
    """A text that is not too long."""
    if len(text) > most:
        got = f"the expression would have {len(text):,} characters or more"
        raise refusal("is too large for SQL", name, got=got, hint="use its JSON, or to_onnx")
    return text


@dataclass(frozen=True)
class Dialect:
    """How one database writes a formula, by one method a kind of node.

    quote : of a name
    within : what characters of a name become
    texts : what characters of a text become
    double : the type of probabilities
    number : a number, from all its digits, as a double, or as a decimal that keeps them
    exact : whether numbers are decimals, so that the whole must be converted
    let : a value under a name, for a body; empty where the value is written wherever the name stands
    cased : whether quoted names that differ only in case are different
    floor : what scores are held above, where a product that rounds to 0 is an error
    widest : whole numbers lie below it
    used : names of columns that a formula looks at, in lower case
    values : expressions under names, that of the probability among them
    """

    quote: str = '"'
    within: tuple[tuple[str, Any], ...] = (('"', '""'),)
    texts: tuple[tuple[str, Any], ...] = (("'", "''"),)
    double: str = "DOUBLE"
    number: str = "{}"
    exact: bool = False
    least: str = "LEAST"
    greatest: str = "GREATEST"
    let: str = SUBQUERY
    cased: bool = False
    floor: float = 0.0
    widest: int = 1 << 127
    used: frozenset[str] = frozenset()
    values: Mapping[str, str] = field(default_factory=dict)

    def quoted(self, name: str) -> str:
        """A column's name, which must be one."""
        if not name or "\x00" in name:
            raise refusal("must be the name of a column", "in SQL a column", got=f"it is {name!r}")
        return self.quote + name.translate(str.maketrans(dict(self.within))) + self.quote

    def digits(self, value: float) -> str:
        """All digits of a number, with an exponent: most databases take plain ones for decimals."""
        text = repr(float(value))
        return self.number.format(text if "e" in text else f"{text}e0")

    def level(self, level: Any) -> str:
        """A level of a column."""
        if isinstance(level, bool):
            return "TRUE" if level else "FALSE"
        if isinstance(level, str) and "\x00" not in level:
            return f"'{level.translate(str.maketrans(dict(self.texts)))}'"
        if isinstance(level, int) and -self.widest <= level < self.widest:
            return str(level)
        if isinstance(level, float):
            return self.digits(level)
        where, got = f"the level {level!r}", f"it is a {type(level).__name__}"
        raise refusal("cannot be written in SQL", where, got=got)

    def as_double(self, expression: str) -> str:
        """An expression as a double."""
        return f"CAST({expression} AS {self.double})"

    def of(self, name: str) -> "Dialect":
        """A writer of formulas of the probability in a column."""
        column = self.as_double(self.quoted(name))
        if self.floor:
            column = f"{self.greatest}({column}, {self.digits(self.floor)})"
        return replace(self, values={nodes.STEP: column})

    def write(self, node: Any) -> str:
        """The node as an expression."""
        return str(getattr(self, f"_{type(node).__name__.lower()}")(node))

    def between(self, inner: str, low: float, high: float) -> str:
        """An expression held between two bounds."""
        at_least = f"{self.greatest}({inner}, {self.digits(low)})"
        return f"{self.least}({at_least}, {self.digits(high)})"

    def exp(self, inner: str) -> str:
        """The exponential, of a number held where it neither overflows nor underflows."""
        return f"EXP({self.between(inner, -nodes.FARTHEST, nodes.FARTHEST)})"

    def fresh(self, word: str) -> str:
        """A name that no column has which the formula looks at."""
        name = f"miscal_{word}"
        while name in self.used:
            name += "_"
        return self.quoted(name)

    def _clipped(self, node: nodes.Clipped) -> str:
        return self.between(self.write(node.inner), node.low, node.high)

    def _log(self, node: nodes.Log) -> str:
        return f"LN({self.write(node.inner)})"

    def _linear(self, node: nodes.Linear) -> str:
        terms = [
            self.write(inner) if factor == 1.0 else f"{self.digits(factor)} * {self.write(inner)}"
            for factor, inner in node.terms
        ]
        intercept = self.digits(node.intercept)
        return f"({' + '.join([intercept, *terms])})" if terms else intercept

    def _sigmoid(self, node: nodes.Sigmoid) -> str:
        return f"(1.0 / (1.0 + {self.exp(f'0.0 - {self.write(node.inner)}')}))"

    def _exp(self, node: nodes.Exp) -> str:
        return f"EXP({self.write(node.inner)})"

    def _pieces(self, node: nodes.Pieces) -> str:
        inner = self.write(node.inner)
        values = []
        for start, value, slope in node.pieces:
            rise = f" + {self.digits(slope)} * ({inner} - {self.digits(start)})"
            values.append(f"({self.digits(value)}{rise})" if slope else self.digits(value))
        tests = [f"{inner} <= {self.digits(edge)}" for edge in node.edges]
        return _case(zip(tests, values[:-1], strict=True), values[-1]) if tests else values[-1]

    def _binaryop(self, node: nodes.BinaryOp) -> str:
        return f"({self.write(node.one)} {node.sign} {self.write(node.two)})"

    def _number(self, node: nodes.Number) -> str:
        value = self.digits(node.low)
        if node.low < node.high:
            value = self.between(self.as_double(self.quoted(node.name)), node.low, node.high)
        return _case([(self.absent(node.name), self.digits(node.missing))], value)

    def _level(self, node: nodes.Level) -> str:
        return self.by_level(node, self.digits)

    def _match(self, node: nodes.Match) -> str:
        return self.by_level(node.level, lambda place: self.write(node.cases[int(place)]))

    def by_level(self, node: nodes.Level, written: Callable[[float], str]) -> str:
        """What is written for the number of each row's level; levels that do as unseen ones need no mention."""
        name = self.quoted(node.name)
        alike: dict[float, list[str]] = {}
        for level, value in node.values.items():
            if value != node.unseen:
                alike.setdefault(value, []).append(self.level(level))
        known = [(f"{name} IN ({', '.join(levels)})", written(value)) for value, levels in alike.items()]
        gone = self.absent(node.name) if node.kind in (float, int) else f"{name} IS NULL"
        return _case([(gone, written(node.missing)), *known], written(node.unseen))

    def absent(self, name: str) -> str:
        """Whether a number is missing; NaN counts, which some databases sort above all numbers and others nowhere."""
        return f"({self.quoted(name)} IS NULL OR NOT ({self.quoted(name)} <= {self.digits(nodes.LARGEST)}))"

    def _cut(self, node: nodes.Cut) -> str:
        column, threshold = node.column, node.threshold
        if isinstance(column, nodes.Level):
            column, threshold = column.beyond(threshold), 0.5
        test = f"{self.write(column)} <= {self.digits(threshold)}"
        if isinstance(column, nodes.Number) and column.low <= threshold < min(column.high, column.missing):
            test = f"{self.quoted(column.name)} <= {self.digits(threshold)}"  # of a missing one NULL or false
        return _case([(test, self.write(node.left))], self.write(node.right))

    def _refused(self, _: nodes.Refused) -> str:
        return "NULL"

    def _network(self, _: nodes.Network) -> str:
        hint = "use to_onnx, or its JSON: from_json() needs no torch"
        raise refusal("cannot be written in SQL", "NeuralCalibration", got="it holds a network", hint=hint)

    def _named(self, node: nodes.Named) -> str:
        inner, name = self.write(node.inner), self.fresh(node.name)
        short = isinstance(node.inner, nodes.Clipped)
        value = name if self.let and not short else _limited(inner, MOST_REPEATED, "for this database a map")
        body = replace(self, values={**self.values, node.name: value}).write(node.body)
        if value != name:
            return body
        return self.let.format(name=name, value=inner, body=body, table=self.fresh("value"))

    def _name(self, node: nodes.Name) -> str:
        return self.values[node.name]


TICKED = Dialect(quote="`", within=(("\\", "\\\\"), ("`", "\\`")), texts=ESCAPED, widest=nodes.WHOLE)
DIALECTS = {
    "duckdb": Dialect(),
    "postgres": Dialect(double="DOUBLE PRECISION", exact=True, let=FENCED, cased=True, floor=1e-300),
    "sqlite": Dialect(double="REAL", least="MIN", greatest="MAX", widest=nodes.WHOLE),
    "spark": replace(
        TICKED, within=(("`", "``"),), let="ELEMENT_AT(TRANSFORM(ARRAY({value}), {name} -> {body}), 1)"
    ),
    "bigquery": replace(TICKED, double="FLOAT64", let="(SELECT {body} FROM UNNEST([{value}]) AS {name})"),
    "snowflake": Dialect(texts=ESCAPED, number="TO_DOUBLE('{}')", exact=True, let="", cased=True),
}


def _each(parts: nodes.Each, writers: Sequence[Dialect]) -> Iterator[str]:
    """One expression a class."""
    columns = [writer.write(nodes.PROBABILITY) for writer in writers]
    values = [writer.write(node) for node, writer in zip(parts.maps, writers, strict=True)]
    total, given = f"({' + '.join(values)})", f"({' + '.join(columns)})"
    for value, column in zip(values, columns, strict=True):
        whole = _case([(f"{total} > 0", f"{value} / {total}")], f"{column} / {given}")
        yield whole if parts.divided else value


def _softmax(parts: nodes.Softmax, writers: Sequence[Dialect]) -> Iterator[str]:
    """One expression a class."""
    sql = writers[0]
    logs = [
        f"LN({sql.greatest}({each.write(nodes.PROBABILITY)}, {sql.digits(nodes.LOGIT_CLIP)}))"
        for each in writers
    ]
    slopes = parts.slopes
    if parts.power is not None:
        heated = " + ".join(f"EXP({sql.digits(parts.power)} * {log})" for log in logs)
        logs = [*logs, f"LN({heated})"]
        slopes = np.column_stack([slopes, -slopes.sum(axis=1) / parts.power])

    def against(j: int, k: int) -> str:
        factors = zip(slopes[j] - slopes[k], logs, strict=True)
        terms = [f"{sql.digits(factor)} * {log}" for factor, log in factors if factor]
        return sql.exp(" + ".join([sql.digits(parts.shifts[j] - parts.shifts[k]), *terms]))

    for k in range(len(writers)):
        rest = [against(j, k) for j in range(len(writers)) if j != k]
        yield f"(1.0 / (1.0 + {' + '.join(rest)}))"

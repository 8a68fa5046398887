"""A fitted map as an SQL expression: the database recalibrates where the scores are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
    """Writes nodes of a formula of the probability in a column, which is quoted already."""

    column: str
    least: str
    greatest: str

    def write(self, node: Any) -> str:
        """The node as an expression."""
        return _WRITERS[type(node)](node, self)

    def held(self, inner: str, low: float, high: float) -> str:
        """An expression held between two bounds."""
        return f"{self.least}({self.greatest}({inner}, {number(low)}), {number(high)})"

    def exp(self, inner: str) -> str:
        """The exponential, of a number held where it neither overflows nor underflows."""
        return f"EXP({self.held(inner, -FARTHEST, FARTHEST)})"


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
    logs = [f"LN({writer.greatest}({writer.column}, {number(nodes.LOGIT_CLIP)}))" for writer in writers]
    for k, writer in enumerate(writers):
        rest = []
        for j in range(len(writers)):
            if j != k:
                off = parts.slopes[j] - parts.slopes[k]
                terms = [f"{number(factor)} * {log}" for factor, log in zip(off, logs, strict=True) if factor]
                shift = number(parts.shifts[j] - parts.shifts[k])
                rest.append(writer.exp(" + ".join([shift, *terms])))
        yield f"(1.0 / (1.0 + {' + '.join(rest)}))"


def quoted(name: str) -> str:
    """A column's name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def number(value: float) -> str:
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
        return number(level)
    raise refusal("cannot be written in SQL", where=f"the level {level!r}", got=f"it is a {type(level).__name__}")


# ------------------------------------------------------------------------------------------------------ of the score
def _probability(_: nodes.Probability, sql: Writer) -> str:
    return sql.column


def _held(node: nodes.Held, sql: Writer) -> str:
    return sql.held(sql.write(node.inner), node.low, node.high)


def _moved(node: nodes.Moved, sql: Writer) -> str:
    inner, clip = sql.write(node.inner), node.clip
    return f"(CASE WHEN {inner} <= 0 THEN {number(clip)} WHEN {inner} >= 1 THEN {number(1 - clip)} ELSE {inner} END)"


def _log(node: nodes.Log, sql: Writer) -> str:
    inner = sql.write(node.inner)
    return f"LN(1.0 - {inner})" if node.of_rest else f"LN({inner})"


def _linear(node: nodes.Linear, sql: Writer) -> str:
    terms = [
        sql.write(inner) if factor == 1.0 else f"{number(factor)} * {sql.write(inner)}" for factor, inner in node.terms
    ]
    return f"({' + '.join([number(node.intercept), *terms])})" if terms else number(node.intercept)


def _sigmoid(node: nodes.Sigmoid, sql: Writer) -> str:
    return f"(1.0 / (1.0 + {sql.exp(f'0.0 - {sql.write(node.inner)}')}))"


def _steps(node: nodes.Steps, sql: Writer) -> str:
    inner = sql.write(node.inner)
    values = [inner if value is None else number(value) for value in node.values]
    cases = "".join(
        f" WHEN {inner} <= {number(edge)} THEN {value}" for edge, value in zip(node.edges, values, strict=False)
    )
    return f"(CASE{cases} ELSE {values[-1]} END)" if cases else values[-1]


def _line(node: nodes.Line, sql: Writer) -> str:
    inner, knots, values = sql.write(node.inner), node.knots, node.values
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


def _ratio(node: nodes.Ratio, sql: Writer) -> str:
    inner = sql.write(node.inner)
    return f"({inner} / ({inner} + (1.0 - {inner}) / {number(node.rate)}))"


def _then(node: nodes.Then, sql: Writer) -> str:
    if isinstance(node.first, nodes.Probability):
        return sql.write(node.second)
    name = quoted("miscal_step")
    first, second = sql.write(node.first), replace(sql, column=name).write(node.second)
    return f"(SELECT {second} FROM (SELECT {first} AS {name}) AS {quoted('miscal_of_step')})"  # noqa: S608


# ---------------------------------------------------------------------------------------------------- of the columns
def _absent(name: str) -> str:
    """Whether a number is missing; NaN counts, which some databases sort above all numbers and others nowhere."""
    return f"({quoted(name)} IS NULL OR NOT ({quoted(name)} <= {LARGEST}))"


def _gone(name: str, levels: Iterable[Any]) -> str:
    """Whether a column of such levels is missing."""
    numbers = any(isinstance(level, (int, float)) and not isinstance(level, bool) for level in levels)
    return _absent(name) if numbers else f"{quoted(name)} IS NULL"


def _number(node: nodes.Number, sql: Writer) -> str:
    value = quoted(node.name)
    if node.low == node.high:
        value = number(node.low)
    elif node.low > -nodes.LARGEST or node.high < nodes.LARGEST:
        value = sql.held(value, node.low, node.high)
    return f"(CASE WHEN {_absent(node.name)} THEN {number(node.missing)} ELSE {value} END)"


def _level(node: nodes.Level, _: Writer) -> str:
    name = quoted(node.name)
    cases = [f" WHEN {name} IS NULL THEN {number(node.missing)}"]
    cases += [f" WHEN {name} = {literal(level)} THEN {number(value)}" for level, value in node.values]
    return f"(CASE{''.join(cases)} ELSE {number(node.unseen)} END)"


def _cut(node: nodes.Cut, sql: Writer) -> str:
    test = _test(node.column, node.threshold, sql)
    if test in ("TRUE", "FALSE"):
        return sql.write(node.left if test == "TRUE" else node.right)
    return f"(CASE WHEN {test} THEN {sql.write(node.left)} ELSE {sql.write(node.right)} END)"


def _test(column: Any, threshold: float, sql: Writer) -> str:
    """Whether a row goes left. A test that is NULL counts as no."""
    if isinstance(column, nodes.Number):
        return _number_test(column, threshold)
    if isinstance(column, nodes.Level):
        return _level_test(column, threshold)
    return f"{sql.write(column)} <= {number(threshold)}"


def _number_test(column: nodes.Number, threshold: float) -> str:
    name = quoted(column.name)
    if threshold >= column.high:
        return "TRUE" if column.missing <= threshold else f"NOT {_absent(column.name)}"
    if column.missing <= threshold:
        absent = _absent(column.name)
        return absent if threshold < column.low else f"({absent} OR {name} <= {number(threshold)})"
    return "FALSE" if threshold < column.low else f"{name} <= {number(threshold)}"


def _level_test(column: nodes.Level, threshold: float) -> str:
    name = quoted(column.name)
    here = [literal(level) for level, place in column.values if place <= threshold]
    rest = [literal(level) for level, place in column.values if place > threshold]
    if column.unseen <= threshold:
        known = f"{name} NOT IN ({', '.join(rest)})" if rest else f"{name} IS NOT NULL"
    else:
        known = f"{name} IN ({', '.join(here)})" if here else "FALSE"
    if column.missing > threshold:
        return known
    if known == "FALSE":
        return f"{name} IS NULL"
    return "TRUE" if not rest and column.unseen <= threshold else f"({name} IS NULL OR {known})"


def _polynomial(node: nodes.Polynomial, sql: Writer) -> str:
    inner = sql.write(node.inner)
    terms = [f"{number(factor)} * {' * '.join([inner] * (i + 1))}" for i, factor in enumerate(node.factors)]
    return f"({' + '.join(terms)})"


def _match(node: nodes.Match, sql: Writer) -> str:
    gone = [_gone(name, [key[j] for key, _ in node.cases]) for j, name in enumerate(node.names)]

    def same(j: int, level: Any) -> str:
        return gone[j] if level is None else f"{quoted(node.names[j])} = {literal(level)}"

    cases = [
        f" WHEN {' AND '.join(same(j, level) for j, level in enumerate(key))} THEN {sql.write(value)}"
        for key, value in node.cases
    ]
    return f"(CASE{''.join(cases)} ELSE {sql.write(node.otherwise)} END)"


def _mixed(node: nodes.Mixed, sql: Writer) -> str:
    share = sql.write(node.share)
    return f"({share} * {sql.write(node.inside)} + (1.0 - {share}) * {sql.write(node.outside)})"


def _known(node: nodes.Known, sql: Writer) -> str:
    tests = []
    for name, levels in node.levels:
        listed = ", ".join(literal(level) for level in levels if level is not None)
        found = [f"{quoted(name)} IN ({listed})"] if listed else []
        found += [_gone(name, levels)] if None in levels else []
        tests.append(f"({' OR '.join(found)})")
    return f"(CASE WHEN {' AND '.join(tests)} THEN {sql.write(node.inside)} END)"


def _network(_: nodes.Network, sql: Writer) -> str:  # noqa: ARG001
    hint = "use to_onnx, or its JSON: from_json() needs no torch"
    raise refusal("cannot be written in SQL", where="NeuralCalibration", got="it holds a network", hint=hint)


def _named(node: nodes.Named, sql: Writer) -> str:
    name, table = quoted(f"miscal_{node.name}"), quoted(f"miscal_of_{node.name}")
    return f"(SELECT {sql.write(node.body)} FROM (SELECT {sql.write(node.value)} AS {name}) AS {table})"  # noqa: S608


def _name(node: nodes.Name, _: Writer) -> str:
    return quoted(f"miscal_{node.name}")


_WRITERS: dict[type, Callable[[Any, Writer], str]] = {
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

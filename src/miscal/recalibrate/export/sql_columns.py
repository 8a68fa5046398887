"""The parts of an SQL expression that look at columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from miscal.data.errors import refusal
from miscal.recalibrate.export import formula as nodes

LARGEST = "1.7976931348623157e308"
Write = Callable[[Any], str]


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


def _absent(name: str) -> str:
    """Whether a number is missing; NaN counts, which some databases sort above all numbers and others nowhere."""
    return f"({quoted(name)} IS NULL OR NOT ({quoted(name)} <= {LARGEST}))"


def _number(node: nodes.Number, write: Write) -> str:  # noqa: ARG001
    value = quoted(node.name)
    if node.low == node.high:
        value = number(node.low)
    elif node.low > -float(LARGEST) or node.high < float(LARGEST):
        value = f"LEAST(GREATEST({value}, {number(node.low)}), {number(node.high)})"
    return f"(CASE WHEN {_absent(node.name)} THEN {number(node.missing)} ELSE {value} END)"


def _level(node: nodes.Level, write: Write) -> str:  # noqa: ARG001
    name = quoted(node.name)
    cases = [f" WHEN {name} IS NULL THEN {number(node.missing)}"]
    cases += [f" WHEN {name} = {literal(level)} THEN {number(value)}" for level, value in node.values]
    return f"(CASE{''.join(cases)} ELSE {number(node.unseen)} END)"


def _cut(node: nodes.Cut, write: Write) -> str:
    test = _test(node.column, node.threshold, write)
    if test in ("TRUE", "FALSE"):
        return write(node.left if test == "TRUE" else node.right)
    return f"(CASE WHEN {test} THEN {write(node.left)} ELSE {write(node.right)} END)"


def _test(column: Any, threshold: float, write: Write) -> str:
    """Whether a row goes left. A test that is NULL counts as no."""
    if isinstance(column, nodes.Number):
        return _number_test(column, threshold)
    if isinstance(column, nodes.Level):
        return _level_test(column, threshold)
    return f"{write(column)} <= {number(threshold)}"


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


def _polynomial(node: nodes.Polynomial, write: Write) -> str:
    inner = write(node.inner)
    terms = [f"{number(factor)} * {' * '.join([inner] * (i + 1))}" for i, factor in enumerate(node.factors)]
    return f"({' + '.join(terms)})"


def _gone(name: str, levels: Iterable[Any]) -> str:
    """Whether a column of such levels is missing."""
    numbers = any(isinstance(level, (int, float)) and not isinstance(level, bool) for level in levels)
    return _absent(name) if numbers else f"{quoted(name)} IS NULL"


def _match(node: nodes.Match, write: Write) -> str:
    gone = [_gone(name, [key[j] for key, _ in node.cases]) for j, name in enumerate(node.names)]

    def same(j: int, level: Any) -> str:
        return gone[j] if level is None else f"{quoted(node.names[j])} = {literal(level)}"

    cases = [
        f" WHEN {' AND '.join(same(j, level) for j, level in enumerate(key))} THEN {write(value)}"
        for key, value in node.cases
    ]
    return f"(CASE{''.join(cases)} ELSE {write(node.otherwise)} END)"


def _mixed(node: nodes.Mixed, write: Write) -> str:
    share = write(node.share)
    return f"({share} * {write(node.inside)} + (1.0 - {share}) * {write(node.outside)})"


def _known(node: nodes.Known, write: Write) -> str:
    tests = []
    for name, levels in node.levels:
        listed = ", ".join(literal(level) for level in levels if level is not None)
        found = [f"{quoted(name)} IN ({listed})"] if listed else []
        found += [_gone(name, levels)] if None in levels else []
        tests.append(f"({' OR '.join(found)})")
    return f"(CASE WHEN {' AND '.join(tests)} THEN {write(node.inside)} END)"


def _named(node: nodes.Named, write: Write) -> str:
    name, table = quoted(f"miscal_{node.name}"), quoted(f"miscal_of_{node.name}")
    return f"(SELECT {write(node.body)} FROM (SELECT {write(node.value)} AS {name}) AS {table})"  # noqa: S608


def _name(node: nodes.Name, write: Write) -> str:  # noqa: ARG001
    return quoted(f"miscal_{node.name}")


WRITERS: dict[type, Callable[[Any, Write], str]] = {
    nodes.Number: _number,
    nodes.Level: _level,
    nodes.Cut: _cut,
    nodes.Polynomial: _polynomial,
    nodes.Match: _match,
    nodes.Mixed: _mixed,
    nodes.Known: _known,
    nodes.Named: _named,
    nodes.Name: _name,
}

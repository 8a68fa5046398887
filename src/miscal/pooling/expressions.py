"""Read the words of a subpopulation back: which rows satisfy "age < 31 and state in {CA, NV}".

A conjunction of conditions on columns; nothing is evaluated as code.

    clause      =  [number <[=]] column (< | <= | > | >=) number  |  column (= | !=) value
                |  column [not] in {value, ...}  |  column is [not] missing  |  ( clause or missing )
    expression  =  clause and clause and ...

Names and values of more than one word stand in `backticks` and "quotes". A comparison with a missing value is false;
"not in" and "!=" hold for missing values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from miscal.data.columns import Column, Columns
from miscal.data.errors import MiscalError, refusal

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>`[^`]*`)|(?P<text>"[^"]*"|'[^']*')|(?P<mark><=|>=|!=|==|[<>=(){},])|(?P<word>[^\s<>=!(){},`"']+))"""
)
_COMPARE: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Condition:
    """One condition on one column, its values still the words of the text."""

    column: str
    sign: str  # "<", "<=", ">", ">=", "in" or "missing"
    values: tuple[str, ...] = ()
    negated: bool = False  # of "in" and "missing"
    or_missing: bool = False


def rows_where(text: str, columns: Columns, *, strict: bool = True) -> np.ndarray:
    """Truth value of an expression at each row; levels that the column does not have are refused if `strict`.

    >>> table = Columns({"age": np.array([20, 40, 60]), "state": np.array(["CA", "NV", "TX"])})
    >>> rows_where("age < 50 and state in {NV, TX}", table).tolist()
    [False, True, False]
    """
    found = [satisfying(one, columns.find(one.column), text, strict=strict) for one in conditions(text, columns)]
    return np.asarray(np.logical_and.reduce(found))


def conditions(text: str, names: Container[str]) -> list[Condition]:
    """The conditions of an expression, all of which must hold; a word among `names` is a column, never a number."""
    if not isinstance(text, str) or not text.strip():
        raise refusal("must say which rows belong", where="an expression", got=f"got {text!r}")
    return _Reader(text, names).read()


def satisfying(one: Condition, column: Column, text: str, *, strict: bool = True) -> np.ndarray:
    """Truth value of one condition of an expression at each row of its column."""
    return _Rows(text, column, strict).satisfying(one)


def number_of(word: str) -> float | None:
    """A number or a date (in days) as a float; None where the word is neither."""
    try:
        return float(word)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        return None
    return float(np.datetime64(moment, "us").astype(np.int64)) / 86_400_000_000


def _bad(text: str, got: str) -> MiscalError:
    hint = "such as: age < 31 and state in {CA, NV}"
    return refusal("cannot be understood", where=f"the expression {text!r}", got=got, hint=hint)


class _Reader:
    """Text to conditions."""

    def __init__(self, text: str, names: Container[str]) -> None:
        self.text, self.names, self.place = text, names, 0
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self.bad(f"'{text[at : at + 20].strip()}' cannot be read")
            kind = str(found.lastgroup)
            word = found.group(kind)
            self.tokens.append((kind, word[1:-1] if kind in {"name", "text"} else word))
            at = found.end()

    def bad(self, got: str) -> MiscalError:
        return _bad(self.text, got)

    def look(self, ahead: int = 0) -> tuple[str, str]:
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else ("end", "")

    def take(self) -> tuple[str, str]:
        token = self.look()
        self.place += 1
        return token

    def expect(self, *words: str) -> str:
        kind, word = self.take()
        if word not in words or kind in {"name", "text"}:
            raise self.bad(f"expected {' or '.join(repr(w) for w in words)}, got {word!r}")
        return word

    def read(self) -> list[Condition]:
        found = self.clause()
        while self.look()[0] != "end":
            self.expect("and")
            found += self.clause()
        return found

    def clause(self) -> list[Condition]:
        if self.look() == ("mark", "("):
            self.take()
            found = self.clause()
            if self.look() == ("word", "or"):
                self.take()
                self.expect("missing")
                found = [replace(one, or_missing=True) for one in found]
            self.expect(")")
            return found
        if self.look(1)[1] in _COMPARE and self.is_number(self.look()):
            low, sign = self.take()[1], self.take()[1]
            column = self.column()
            found = [Condition(column, _MIRROR[sign], (low,))]
            if self.look()[1] in _COMPARE:
                found.append(Condition(column, self.take()[1], (self.take()[1],)))
            return found
        return [self.about(self.column())]

    def is_number(self, token: tuple[str, str]) -> bool:
        return token[0] == "word" and token[1] not in self.names and number_of(token[1]) is not None

    def column(self) -> str:
        kind, word = self.take()
        if kind not in {"name", "word"}:
            raise self.bad(f"expected a column, got {word!r}")
        return word

    def about(self, column: str) -> Condition:
        sign = self.take()[1]
        if sign in _COMPARE:
            return Condition(column, sign, (self.take()[1],))
        if sign in {"=", "==", "!="}:
            return Condition(column, "in", (self.value(),), negated=sign == "!=")
        if sign == "is":
            negated = self.look()[1] == "not"
            if negated:
                self.take()
            self.expect("missing")
            return Condition(column, "missing", negated=negated)
        if sign == "not":
            self.expect("in")
            return Condition(column, "in", self.values(), negated=True)
        if sign == "in":
            return Condition(column, "in", self.values())
        raise self.bad(f"{sign!r} is not a condition")

    def value(self) -> str:
        """One value; words up to the next mark belong together."""
        kind, word = self.take()
        if kind == "text":
            return word
        words = [word]
        while self.look()[0] == "word" and self.look()[1] not in {"and", "or"}:
            words.append(self.take()[1])
        return " ".join(words)

    def values(self) -> tuple[str, ...]:
        self.expect("{")
        found = [self.value()]
        while self.expect(",", "}") == ",":
            found.append(self.value())
        return tuple(found)


@dataclass(frozen=True)
class _Rows:
    """The rows of a column that satisfy a condition."""

    text: str
    column: Column
    strict: bool

    def satisfying(self, one: Condition) -> np.ndarray:
        if one.sign == "missing":
            rows = self.column.missing
        elif one.sign == "in":
            rows = self.among(one.values)
        else:
            rows = self.compared(one.sign, one.values[0])
        rows = ~rows if one.negated else rows
        return rows | self.column.missing if one.or_missing else rows

    def compared(self, sign: str, word: str) -> np.ndarray:
        number = number_of(word)
        if number is None or self.column.nominal:
            got = f"{self.column.name!r} holds levels" if self.column.nominal else f"{word!r} is not a number"
            raise _bad(self.text, got)
        with np.errstate(invalid="ignore"):
            return np.asarray(_COMPARE[sign](self.column.values, number))

    def among(self, values: tuple[str, ...]) -> np.ndarray:
        column = self.column
        if not column.nominal:
            numbers = [number_of(value) for value in values]
            if any(number is None for number in numbers):
                if len(column) and column.missing.all():  # nothing but missing values has no type
                    return np.zeros(len(column), bool)
                raise _bad(self.text, f"{column.name!r} holds numbers, and {list(values)} are not")
            return np.isin(column.values, np.array(numbers, dtype=np.float64))
        names = [str(level) for level in column.levels]
        unknown = [value for value in values if value not in names]
        if unknown and self.strict:
            raise _bad(self.text, f"{column.name!r} has no level {unknown[0]!r}")
        chosen = np.array([name in set(values) for name in names] + [False])
        return np.asarray(chosen[column.values])

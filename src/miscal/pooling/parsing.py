"""Read the words of conditions back: which rows satisfy "age < 31 and state in {CA, NV}".

Nothing is evaluated as code.

    clause      =  [number <[=]] column (< | <= | > | >=) number  |  column (= | !=) value
                |  column [not] in {value, ...}  |  column is [not] missing  |  ( clause or missing )
    expression  =  clause and clause and ...

Names that are not one plain word stand in `backticks`, values that words alone would not say in "quotes"; a mark of the
same kind inside is doubled. A comparison with a missing value is false; "not in" and "!=" hold for missing values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from miscal.data.columns import Column
from miscal.data.errors import MiscalError, nearest, refusal
from miscal.pooling.condition import FULL, MIRROR, NOMINAL, Condition, Conjunction, Level, just_below, number_of

_TOKEN = re.compile(
    r"""\s*(?:(?P<name>`(?:[^`]|``)*`)|(?P<text>"(?:[^"]|"")*"|'(?:[^']|'')*')"""
    r"""|(?P<mark><=|>=|!=|==|[<>=(){},])|(?P<word>[^\s<>=!(){},`"']+))"""
)


def rows_where(text: str, columns: Mapping[str, Column], *, strict: bool = True) -> np.ndarray:
    """Truth value of an expression at each row; levels that the column does not have are refused if `strict`.

    >>> from miscal.data.columns import Columns
    >>> table = Columns({"age": np.array([20, 40, 60]), "state": np.array(["CA", "NV", "TX"])})
    >>> rows_where("age < 50 and state in {NV, TX}", table).tolist()
    [False, True, False]
    """
    return parse(text, columns, strict=strict).rows(columns)


def parse(text: str, columns: Mapping[str, Any], *, strict: bool = False) -> Conjunction:
    """Read words back.

    Parameters
    ----------
    columns : name -> Column, or name -> kind
    strict : whether a level that its column does not have is refused
    """
    if not isinstance(text, str) or not text.strip():
        raise refusal("must say which rows belong", where="an expression", got=f"got {text!r}")
    if text == FULL:
        return Conjunction()
    return Conjunction.of(_Reader(text, columns, strict).read())


@dataclass
class _Reader:
    """Text to conditions."""

    text: str
    columns: Mapping[str, Any]
    strict: bool
    place: int = 0
    tokens: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        at = 0
        while at < len(self.text.rstrip()):
            found = _TOKEN.match(self.text, at)
            if found is None:
                raise self.bad(f"'{self.text[at : at + 20].strip()}' cannot be read")
            kind = str(found.lastgroup)
            word = found.group(kind)
            self.tokens.append((kind, _bare(word) if kind in {"name", "text"} else word))
            at = found.end()

    def bad(self, got: str) -> MiscalError:
        hint = "such as: age < 31 and state in {CA, NV}"
        return refusal("cannot be understood", where=f"the expression {self.text!r}", got=got, hint=hint)

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
        found = [self.clause()]
        while self.look()[0] != "end":
            self.expect("and")
            found.append(self.clause())
        return found

    def clause(self) -> Condition:
        if self.look() == ("mark", "("):
            self.take()
            found = self.clause()
            if self.look() == ("word", "or"):
                self.take()
                self.expect("missing")
                found = replace(found, missing=True)
            self.expect(")")
            return found
        if self.look(1)[1] in MIRROR and self.is_number(self.look()):
            low, sign = self.take()[1], self.take()[1]
            column = self.column()
            made = self.compared(column, MIRROR[sign], low)
            if self.look()[1] in MIRROR:
                made = made.both(self.compared(column, self.take()[1], self.take()[1])) or made
            return made
        return self.about(self.column())

    def is_number(self, token: tuple[str, str]) -> bool:
        return token[0] == "word" and token[1] not in self.columns and number_of(token[1]) is not None

    def column(self) -> str:
        kind, word = self.take()
        if kind not in {"name", "word"}:
            raise self.bad(f"expected a column, got {word!r}")
        if word not in self.columns:
            raise refusal("is not among the columns", where=f"column '{word}'", hint=nearest(word, self.columns))
        return word

    def kind(self, name: str) -> str:
        found = self.columns[name]
        kind = str(getattr(found, "kind", found))
        return "numeric" if kind == "integer" else kind

    def about(self, name: str) -> Condition:
        sign = self.take()[1]
        if sign in MIRROR:
            return self.compared(name, sign, self.take()[1])
        if sign in {"=", "==", "!="}:
            return self.among(name, [self.value()], negated=sign == "!=")
        if sign == "is":
            negated = self.look()[1] == "not"
            self.place += negated
            self.expect("missing")
            return Condition(name, self.kind(name), levels=None if negated else (), missing=not negated)
        if sign == "not":
            self.expect("in")
            return self.among(name, self.values(), negated=True)
        if sign == "in":
            return self.among(name, self.values())
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

    def values(self) -> list[str]:
        self.expect("{")
        found = [self.value()]
        while self.expect(",", "}") == ",":
            found.append(self.value())
        return found

    def compared(self, name: str, sign: str, word: str) -> Condition:
        number, kind = number_of(word), self.kind(name)
        if number is None or kind in NOMINAL:
            raise self.bad(f"{name!r} holds levels" if kind in NOMINAL else f"{word!r} is not a number")
        number += 0.0
        if sign in {"<", "<="}:
            return Condition(name, kind, high=number if sign == "<=" else just_below(number))
        return Condition(name, kind, low=number if sign == ">" else just_below(number))

    def among(self, name: str, words: list[str], *, negated: bool = False) -> Condition:
        kind, column = self.kind(name), self.columns[name]
        levels = tuple(words) if kind in NOMINAL else self.numbers(name, words)
        unknown = set(words) - set(map(str, getattr(column, "levels", words)))
        if kind in NOMINAL and self.strict and unknown:
            raise self.bad(f"{name!r} has no level {min(unknown)!r}")
        said: Any = {"excluded": levels, "missing": True} if negated else {"levels": levels}
        return Condition(name, kind, **said)

    def numbers(self, name: str, words: list[str]) -> tuple[Level, ...]:
        found = [number_of(word) for word in words]
        if None not in found:
            return tuple(number + 0.0 for number in found if number is not None)
        column = self.columns[name]
        if isinstance(column, Column) and len(column) and column.missing.all():  # no value, and so no type
            return tuple(words)
        raise self.bad(f"{name!r} holds numbers, and {words} are not")


def _bare(word: str) -> str:
    """A name or a value without its marks; those doubled inside are one."""
    mark = word[0]
    return word[1:-1].replace(mark + mark, mark)

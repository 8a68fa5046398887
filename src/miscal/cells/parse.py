"""Read the words of conditions back: which rows satisfy "age < 31 and state in {CA, NV}".

Nothing is evaluated as code.

    clause      =  [number <[=]] column (< | <= | > | >=) number  |  column (= | !=) value
                |  column [not] in {value, ...}  |  column is [not] missing  |  ( clause or missing )
    expression  =  clause and clause and ...

Names that are not one plain word stand in `backticks`, values that words alone would not say in "quotes"; a mark of the
same kind inside is doubled. A comparison with a missing value is false; "not in" and "!=" hold for missing values.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.cells.condition import (
    FULL,
    MIRROR,
    Condition,
    Conjunction,
    Level,
    just_below,
)
from miscal.codes.data import ColumnKind
from miscal.data.arrays import Plain
from miscal.data.calendar import number_of
from miscal.data.column_types import column_type
from miscal.data.columns import Column
from miscal.data.errors import MiscalError, nearest, refusal

Token = tuple[str, str]  # kind and word
_TOKEN = re.compile(
    r"""\s*(?:(?P<name>`(?:[^`]|``)*`)|(?P<text>"(?:[^"]|"")*"|'(?:[^']|'')*')"""
    r"""|(?P<mark><=|>=|!=|==|[<>=(){},])|(?P<word>[^\s<>=!(){},`"']+)|(?P<other>\S))"""
)


def rows_where(text: str, columns: Mapping[str, Column]) -> np.ndarray:
    """Truth value of an expression at each row.

    >>> from miscal.data.columns import Columns
    >>> table = Columns({"age": np.array([20, 40, 60]), "state": np.array(["CA", "NV", "TX"])})
    >>> rows_where("age < 50 and state in {NV, TX}", table).tolist()
    [False, True, False]
    """
    return parse(text, columns).rows(columns)


def parse(text: str, columns: Mapping[str, Any]) -> Conjunction:
    """Read words back.

    Parameters
    ----------
    columns : name -> Column, or name -> kind; a level that a column does not have is refused, of a kind any may be
    """
    if not isinstance(text, str) or not text.strip():
        raise refusal("must say which rows belong", "an expression", got=f"got {text!r}")
    if text == FULL:
        return Conjunction()
    return Conjunction.of(_Reader(text, columns).read())


@dataclass(frozen=True)
class _Reader:
    """Text to conditions."""

    text: str
    columns: Mapping[str, Any]

    def bad(self, got: str) -> MiscalError:
        hint = "such as: age < 31 and state in {CA, NV}"
        return refusal("cannot be understood", f"the expression {self.text!r}", got=got, hint=hint)

    def read(self) -> Iterator[Condition]:
        tokens = []
        for found in _TOKEN.finditer(self.text):
            kind = str(found.lastgroup)
            word = found[kind]
            if kind in {"name", "text"}:  # without its marks; those doubled inside are one
                word = word[1:-1].replace(2 * word[0], word[0])
            tokens.append((kind, word))
        for clause in _split(tokens, ("word", "and")):
            yield from self.clause(clause)

    def clause(self, tokens: list[Token]) -> list[Condition]:
        match tokens:
            case [("mark", "("), *inner, ("word", "or"), ("word", "missing"), ("mark", ")")]:
                return [replace(one, missing=True) for one in self.clause(inner)]
            case [("word", low), ("mark", sign), name, *rest] if sign in MIRROR and self.is_number(low):
                made = self.compared(name, MIRROR[sign], low)
                return [made, *(self.clause([name, *rest]) if rest else ())]
            case [name, ("mark", sign), (_, word)] if sign in MIRROR:
                return [self.compared(name, sign, word)]
            case [name, ("mark", "=" | "==" | "!=" as sign), *value]:
                return [self.among(name, [value], negated=sign == "!=")]
            case [name, ("word", "is"), *negated, ("word", "missing")] if negated in ([], [("word", "not")]):
                known = None if negated else ()
                return [Condition(*self.column(name), levels=known, missing=not negated)]
            case [name, ("word", "in"), ("mark", "{"), *values, ("mark", "}")]:
                return [self.among(name, _split(values, ("mark", ",")))]
            case [name, ("word", "not"), ("word", "in"), ("mark", "{"), *values, ("mark", "}")]:
                return [self.among(name, _split(values, ("mark", ",")), negated=True)]
        raise self.bad(f"{' '.join(word for _, word in tokens)!r} is not a condition")

    def is_number(self, word: str) -> bool:
        return word not in self.columns and number_of(word) is not None

    def column(self, token: Token) -> tuple[str, ColumnKind]:
        """Name and kind of a column."""
        name = token[1]
        if name not in self.columns:
            raise refusal("is not among the columns", f"column '{name}'", hint=nearest(name, self.columns))
        found = self.columns[name]
        kind = str(getattr(found, "kind", found))
        return name, column_type(kind).column_kind

    def value(self, tokens: list[Token]) -> str:
        """One value; words belong together."""
        words = " ".join(word for _, word in tokens)
        plain = all(token[0] in {"word", "name"} and token != ("word", "or") for token in tokens)
        if not tokens or not (plain or [kind for kind, _ in tokens] == ["text"]):
            raise self.bad(f"{words!r} is not a value")
        return words

    def compared(self, token: Token, sign: str, word: str) -> Condition:
        name, kind = self.column(token)
        number = number_of(word)
        if number is None or column_type(kind).categorical:
            raise self.bad(
                f"{name!r} holds levels" if column_type(kind).categorical else f"{word!r} is not a number"
            )
        number += 0.0
        if sign in {"<", "<="}:
            return Condition(name, kind, high=number if sign == "<=" else just_below(number))
        return Condition(name, kind, low=number if sign == ">" else just_below(number))

    def among(self, token: Token, values: list[list[Token]], *, negated: bool = False) -> Condition:
        name, kind = self.column(token)
        column, words = self.columns[name], list(map(self.value, values))
        levels: tuple[Level, ...] = tuple(words)
        numbers = [number for word in words if (number := number_of(word)) is not None]
        if column_type(kind).categorical:
            unknown = set(words) - set(map(str, getattr(column, "levels", words)))
            if unknown:
                raise self.bad(f"{name!r} has no level {min(unknown)!r}")
        elif len(numbers) == len(words):
            levels = tuple(number + 0.0 for number in numbers)
        elif not (
            isinstance(column, Column) and len(column) and column.missing.all()
        ):  # no value, and so no type
            raise self.bad(f"{name!r} holds numbers, and {words} are not")
        said: Plain = {"excluded": levels, "missing": True} if negated else {"levels": levels}
        return Condition(name, kind, **said)


def _split(tokens: Iterable[Token], mark: Token) -> list[list[Token]]:
    """What stands between marks."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token == mark:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts

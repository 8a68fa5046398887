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
from collections.abc import Callable
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


def rows_where(text: str, columns: Columns, *, strict: bool = True) -> np.ndarray:
    """Truth value of an expression at each row; levels that the column does not have are refused if `strict`.

    >>> table = Columns({"age": np.array([20, 40, 60]), "state": np.array(["CA", "NV", "TX"])})
    >>> rows_where("age < 50 and state in {NV, TX}", table).tolist()
    [False, True, False]
    """
    if not isinstance(text, str) or not text.strip():
        raise refusal("must say which rows belong", where="an expression", got=f"got {text!r}")
    return _Reader(text, columns, strict).read()


class _Reader:
    def __init__(self, text: str, columns: Columns, strict: bool) -> None:
        self.text, self.columns, self.strict, self.place = text, columns, strict, 0
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

    def read(self) -> np.ndarray:
        rows = self.clause()
        while self.look()[0] != "end":
            self.expect("and")
            rows = rows & self.clause()
        return rows

    def clause(self) -> np.ndarray:
        if self.look() == ("mark", "("):
            self.take()
            start = self.place
            rows = self.clause()
            if self.look() == ("word", "or"):
                self.take()
                self.expect("missing")
                column = self.column_of(start)
                rows = rows | column.missing
            self.expect(")")
            return rows
        if self.look(1)[1] in _COMPARE and self.is_number(self.look()):
            low, sign = self.take(), self.take()[1]
            column = self.column()
            rows = self.compare(column, _MIRROR[sign], low)
            if self.look()[1] in _COMPARE:
                sign = self.take()[1]
                rows = rows & self.compare(column, sign, self.take())
            return rows
        return self.about(self.column())

    def column_of(self, start: int) -> Column:
        """The column of the clause that began at a token."""
        ahead = 2 if self.tokens[start + 1][1] in _COMPARE and self.is_number(self.tokens[start]) else 0
        return self.columns.find(self.tokens[start + ahead][1])

    def is_number(self, token: tuple[str, str]) -> bool:
        return token[0] == "word" and token[1] not in self.columns and self.number(token) is not None

    def number(self, token: tuple[str, str]) -> float | None:
        try:
            return float(token[1])
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(token[1])
        except ValueError:
            return None
        return float(np.datetime64(moment, "us").astype(np.int64)) / 86_400_000_000

    def column(self) -> Column:
        kind, word = self.take()
        if kind not in {"name", "word"}:
            raise self.bad(f"expected a column, got {word!r}")
        return self.columns.find(word)

    def about(self, column: Column) -> np.ndarray:
        sign = self.take()[1]
        if sign in _COMPARE:
            return self.compare(column, sign, self.take())
        if sign in {"=", "=="}:
            return self.among(column, [self.value()])
        if sign == "!=":
            return ~self.among(column, [self.value()])
        if sign == "is":
            missing = column.missing
            if self.look()[1] == "not":
                self.take()
                missing = ~missing
            self.expect("missing")
            return missing
        if sign == "not":
            self.expect("in")
            return ~self.among(column, self.values())
        if sign == "in":
            return self.among(column, self.values())
        raise self.bad(f"{sign!r} is not a condition")

    def compare(self, column: Column, sign: str, token: tuple[str, str]) -> np.ndarray:
        number = self.number(token)
        if number is None or column.nominal:
            got = f"{column.name!r} holds levels" if column.nominal else f"{token[1]!r} is not a number"
            raise self.bad(got)
        with np.errstate(invalid="ignore"):
            return np.asarray(_COMPARE[sign](column.values, number))

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

    def among(self, column: Column, values: list[str]) -> np.ndarray:
        if not column.nominal:
            numbers = [self.number(("word", value)) for value in values]
            if any(number is None for number in numbers):
                raise self.bad(f"{column.name!r} holds numbers, and {values} are not")
            return np.isin(column.values, np.array(numbers, dtype=np.float64))
        names = [str(level) for level in column.levels]
        unknown = [value for value in values if value not in names]
        if unknown and self.strict:
            raise self.bad(f"{column.name!r} has no level {unknown[0]!r}")
        chosen = np.array([name in set(values) for name in names] + [False])
        return np.asarray(chosen[column.values])

"""Which rows belong: a condition on one column, and a conjunction of such.

Data, words, parser, rows and SQL are in one place.

Words can be read back, every value of every level included; nothing is evaluated as code.

    clause      =  [number <[=]] column (< | <= | > | >=) number  |  column (= | !=) value
                |  column [not] in {value, ...}  |  column is [not] missing  |  ( clause or missing )
    expression  =  clause and clause and ...

Names that are not one plain word stand in `backticks`, values that words alone would not say in "quotes"; a mark of the
same kind inside is doubled. A comparison with a missing value is false; "not in" and "!=" hold for missing values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np

from miscal.data.columns import Column
from miscal.data.errors import MiscalError, nearest, refusal

FULL = "full population"
SHOWN_LEVELS = 6
SHORT = 7  # characters up to which a number is shown whole
NOMINAL = ("category", "boolean")
LARGEST = float(np.finfo(np.float64).max)
MICROSECONDS = 86_400_000_000  # of a day
WORDS = {"in", "is", "and", "or", "not"}
_TOKEN = re.compile(
    r"""\s*(?:(?P<name>`(?:[^`]|``)*`)|(?P<text>"(?:[^"]|"")*"|'(?:[^']|'')*')"""
    r"""|(?P<mark><=|>=|!=|==|[<>=(){},])|(?P<word>[^\s<>=!(){},`"']+))"""
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
Level = str | float


@dataclass(frozen=True)
class Condition:
    r"""Which rows belong by one column: a range of numbers, some levels, all but some levels, or known values.

    Parameters
    ----------
    column : name
    kind : "numeric", "date" (numbers are days since 1970-01-01), "category" or "boolean"
    low, high : low < value <= high; None: no end
    levels : only these: words of nominal columns, else numbers; () with `missing`: missing values alone
    excluded : all but these
    missing : whether missing values belong

    Examples
    --------
    >>> Condition("age", high=31.0).words(), Condition("state", "category", levels=("O'Hare", "NV")).words()
    ('age <= 31', 'state in {"O\'Hare", NV}')
    """

    column: str
    kind: str = "numeric"
    low: float | None = None
    high: float | None = None
    levels: tuple[Level, ...] | None = None
    excluded: tuple[Level, ...] | None = None
    missing: bool = False

    def __post_init__(self) -> None:
        one = self.levels[0] if self.levels is not None and len(self.levels) == 1 else ""
        if not isinstance(one, str):  # one number is a range, and said as one
            ends = {"low": _below(one), "high": one + 0.0, "levels": None}
            self.__dict__.update(ends)

    def rows(self, columns: Mapping[str, Column]) -> np.ndarray:
        """Truth value at each row."""
        find = getattr(columns, "find", columns.__getitem__)
        return self.rows_of(find(self.column))

    def rows_of(self, column: Column) -> np.ndarray:
        """Truth value at each row of its column."""
        if column.nominal:
            names = [str(level) for level in column.levels]
            return np.asarray(np.append(self.slots(names), self.missing)[column.values])
        return self.numbers(column.values)

    def slots(self, names: Sequence[str]) -> np.ndarray:
        """Which of some levels of a nominal column belong."""
        if self.levels is not None:
            chosen = set(map(level_text, self.levels))
            return np.array([name in chosen for name in names], bool)
        out = set(map(level_text, self.excluded or ()))
        return np.array([name not in out for name in names], bool)

    def numbers(self, values: np.ndarray) -> np.ndarray:
        """Truth value at each of some numbers, NaN where missing."""
        with np.errstate(invalid="ignore"):
            rows = ~np.isnan(values)
            if self.low is not None:
                rows &= values > self.low
            if self.high is not None:
                rows &= values <= self.high
            for some, wanted in ((self.levels, True), (self.excluded, False)):
                if some is not None:
                    rows &= np.isin(values, _as_numbers(some)) == wanted
        return np.asarray(rows | np.isnan(values) if self.missing else rows)

    # Words

    def words(self, shown: int | None = None) -> str:
        """The condition in words, read back by `parse`; with `shown` levels at most, and numbers of four digits."""
        name = quoted(self.column)
        if self.levels is not None:
            if not self.levels:
                return f"{name} is missing"
            return self._or_missing(f"{name} {self._set('=', 'in', self.levels, shown)}")
        if self.excluded is not None:
            text = f"{name} {self._set('!=', 'not in', self.excluded, shown)}"
            return text if self.missing else f"{text} and {name} is not missing"
        if self.low is None and self.high is None:
            return f"{name} is not missing"
        return self._or_missing(self._range(name, shown))

    def _or_missing(self, text: str) -> str:
        return f"({text} or missing)" if self.missing else text

    def _set(self, one: str, several: str, levels: tuple[Level, ...], shown: int | None) -> str:
        words = [self._level(level) for level in levels]
        if len(words) == 1:
            return f"{one} {words[0]}"
        if shown is not None and len(words) > shown:
            words = [*words[: shown - 1], f"... {len(words) - shown + 1} more"]
        return f"{several} {{{', '.join(words)}}}"

    def _level(self, level: Level) -> str:
        return level_word(level) if isinstance(level, str) else number_text(level, self.kind)

    def _range(self, name: str, shown: int | None) -> str:
        if self.low is not None and self.high == _above(self.low):
            return f"{name} = {_short(number_text(self.high, self.kind), shown)}"
        low = None if self.low is None else _end(self.low, ("<", "<="), self.kind, shown)
        high = None if self.high is None else _end(self.high, ("<=", "<"), self.kind, shown)
        if low is None:
            return f"{name} {high[0]} {high[1]}" if high else name
        if high is None:
            return f"{name} {_MIRROR[low[0]]} {low[1]}"
        return f"{low[1]} {low[0]} {name} {high[0]} {high[1]}"

    # Data

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        made: dict[str, Any] = {"column": self.column, "kind": self.kind}
        for name in ("low", "high", "levels", "excluded"):
            value = getattr(self, name)
            if value is not None:
                made[name] = list(value) if isinstance(value, tuple) else value
        return made | {"missing": self.missing}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Condition:
        """The inverse of `to_dict`."""
        given: dict[str, Any] = {
            name: tuple(content[name]) for name in ("levels", "excluded") if content.get(name) is not None
        }
        given |= {name: float(content[name]) for name in ("low", "high") if content.get(name) is not None}
        missing = bool(content.get("missing", False))
        return cls(str(content["column"]), str(content.get("kind", "numeric")), **given, missing=missing)

    def sql(self, dialect: str = "duckdb") -> str:
        """A WHERE clause with exact edges, for duckdb, sqlite or postgres."""
        return _Sql(self, dialect).clause()

    def both(self, other: Condition) -> Condition | None:
        """One condition on the same column that says what both say together; None where none does."""
        if self.column != other.column:
            return None
        missing = self.missing and other.missing
        for one, two in ((self, other), (other, self)):
            if two.known and one.levels != ():  # "is not missing"
                return replace(one, missing=missing)
        if self.ranged and other.ranged:
            low = max((end for end in (self.low, other.low) if end is not None), default=None)
            high = min((end for end in (self.high, other.high) if end is not None), default=None)
            return replace(self, low=low, high=high, missing=missing)
        return None

    @property
    def ranged(self) -> bool:
        """Whether it is a range of numbers."""
        return self.levels is None and self.excluded is None and not self.known

    @property
    def known(self) -> bool:
        """Whether it asks for nothing but a known value."""
        return self.levels is None and self.excluded is None and self.low is None and self.high is None


@dataclass(frozen=True)
class Conjunction:
    """Conditions that must all hold; none: every row."""

    conditions: tuple[Condition, ...] = ()

    @classmethod
    def of(cls, conditions: Iterable[Condition]) -> Conjunction:
        """Conditions, those on one column made one where that can be said."""
        made: list[Condition] = []
        for condition in conditions:
            for place, known in enumerate(made):
                both = known.both(condition)
                if both is not None:
                    made[place] = both
                    break
            else:
                made.append(condition)
        return cls(tuple(made))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it speaks of."""
        return tuple(dict.fromkeys(condition.column for condition in self.conditions))

    def rows(self, columns: Mapping[str, Column]) -> np.ndarray:
        """Truth value at each row."""
        found = [condition.rows(columns) for condition in self.conditions]
        if not found:
            return np.ones(max((len(column) for column in columns.values()), default=0), bool)
        return np.asarray(np.logical_and.reduce(found))

    def words(self, shown: int | None = None) -> str:
        """All of it, read back by `parse`."""
        return " and ".join(condition.words(shown) for condition in self.conditions) or FULL

    def to_dict(self) -> list[dict[str, Any]]:
        """Plain JSON."""
        return [condition.to_dict() for condition in self.conditions]

    @classmethod
    def from_dict(cls, content: Iterable[Mapping[str, Any]]) -> Conjunction:
        """The inverse of `to_dict`."""
        return cls(tuple(Condition.from_dict(one) for one in content))

    def sql(self, dialect: str = "duckdb") -> str:
        """A WHERE clause with exact edges, for duckdb, sqlite or postgres."""
        return " AND ".join(condition.sql(dialect) for condition in self.conditions) or "TRUE"


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


# Numbers and names in words


def _above(value: float) -> float:
    return math.nextafter(value, math.inf) + 0.0


def _below(value: float) -> float:
    return math.nextafter(value, -math.inf) + 0.0


def number_text(value: float, kind: str) -> str:
    """The shortest words from which `number_of` reads exactly this number."""
    if kind == "date":
        text = _moment(value)
        if text is not None and number_of(text) == value:
            return text
    return repr(float(value) + 0.0).removesuffix(".0")


def _moment(value: float) -> str | None:
    """A number of days as a date, with its time where it has one; None where no calendar has it."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=round(value * MICROSECONDS))
    except (OverflowError, ValueError):
        return None
    text = moment.replace(tzinfo=None).isoformat()
    return text.removesuffix("T00:00:00")


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
    moment = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    micros = int(np.datetime64(moment, "us").astype(np.int64))
    whole = micros // MICROSECONDS
    return whole + (micros - whole * MICROSECONDS) / MICROSECONDS


@lru_cache(maxsize=1 << 14)
def _end(value: float, signs: tuple[str, str], kind: str, shown: int | None) -> tuple[str, str]:
    """Sign and words of one end of a range: of the number itself, or of its neighbour above where that is shorter.

    Of a date, the one of the two that is a moment of the calendar.
    """
    here, above = number_text(value, kind), _above(value)
    if math.isinf(above):
        return signs[0], here
    choices = [(signs[0], here), (signs[1], number_text(above, kind))]
    sign, text = min(choices, key=lambda choice: (kind == "date" and not _DATE.match(choice[1]), len(choice[1])))
    return sign, _short(text, shown)


def _short(text: str, shown: int | None) -> str:
    if shown is None or len(text) <= SHORT:
        return text
    try:
        return f"{float(text):.4g}"
    except ValueError:  # a date
        return text


@lru_cache(maxsize=1 << 14)
def quoted(name: str) -> str:
    """A column's name, in backticks where it is not a plain word."""
    plain = name.replace("_", "a").isalnum() and not name[0].isdigit() and name not in WORDS
    return name if plain else "`" + name.replace("`", "``") + "`"


@lru_cache(maxsize=1 << 14)
def level_word(level: str) -> str:
    """A level, in quotes where it would not be read as plain words."""
    words = level.split()
    plain = words and " ".join(words) == level and not any(mark in level for mark in "<>=!(){},`\"'")
    if plain and not {"and", "or"} & set(words):
        return level
    return '"' + level.replace('"', '""') + '"'


def level_text(level: Level) -> str:
    """A level as nominal columns name it: a whole number without its point."""
    return level if isinstance(level, str) else repr(float(level)).removesuffix(".0")


def _as_numbers(levels: tuple[Level, ...]) -> np.ndarray:
    found = [number_of(level) if isinstance(level, str) else level for level in levels]
    return np.array([number for number in found if number is not None], np.float64)


# The parser


def _bad(text: str, got: str, hint: str = "such as: age < 31 and state in {CA, NV}") -> MiscalError:
    return refusal("cannot be understood", where=f"the expression {text!r}", got=got, hint=hint)


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
                found = [replace(one, missing=True) for one in found]
            self.expect(")")
            return found
        if self.look(1)[1] in _MIRROR and self.is_number(self.look()):
            low, sign = self.take()[1], self.take()[1]
            column = self.column()
            made = self.compared(column, _MIRROR[sign], low)
            if self.look()[1] in _MIRROR:
                both = made.both(self.compared(column, self.take()[1], self.take()[1]))
                made = made if both is None else both
            return [made]
        return [self.about(self.column())]

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
        if sign in _MIRROR:
            return self.compared(name, sign, self.take()[1])
        if sign in {"=", "==", "!="}:
            return self.among(name, [self.value()], negated=sign == "!=")
        if sign == "is":
            negated = self.look()[1] == "not"
            if negated:
                self.take()
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
            return Condition(name, kind, high=number if sign == "<=" else _below(number))
        return Condition(name, kind, low=number if sign == ">" else _below(number))

    def among(self, name: str, words: list[str], *, negated: bool = False) -> Condition:
        kind = self.kind(name)
        levels: tuple[Level, ...] = tuple(words)
        if kind in NOMINAL:
            self.check(name, words)
        else:
            levels = self.numbers(name, words)
        if negated:
            return Condition(name, kind, excluded=levels, missing=True)
        return Condition(name, kind, levels=levels)

    def check(self, name: str, words: list[str]) -> None:
        known = getattr(self.columns[name], "levels", None)
        if self.strict and known is not None:
            unknown = set(words) - {str(level) for level in known}
            if unknown:
                raise self.bad(f"{name!r} has no level {min(unknown)!r}")

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


# SQL


@dataclass(frozen=True)
class _Sql:
    """A condition as a clause of SQL that is true, or not true, for every row."""

    condition: Condition
    dialect: str

    @property
    def name(self) -> str:
        return '"' + self.condition.column.replace('"', '""') + '"'

    def clause(self) -> str:
        if self.dialect not in ("duckdb", "sqlite", "postgres"):
            raise refusal("must be 'duckdb', 'sqlite' or 'postgres'", where="'dialect'", got=f"it is {self.dialect!r}")
        one = self.condition
        if one.levels == ():
            return f"({self.absent()})" if one.missing else "FALSE"
        known = self.known()
        return f"({known} OR {self.absent()})" if one.missing else f"({known})"

    def known(self) -> str:
        """What holds for values that are not missing, and for no missing ones."""
        one = self.condition
        parts = []
        if one.low is not None:
            sign, text = _end(one.low, ("<", "<="), one.kind, None)
            parts.append(f"{self.name} {_MIRROR[sign]} {self.number(text)}")
        if one.high is not None or one.kind == "numeric":  # NaN is above all numbers there
            sign, text = _end(LARGEST if one.high is None else one.high, ("<=", "<"), one.kind, None)
            parts.append(f"{self.name} {sign} {self.number(text)}")
        for levels, words in ((one.levels, "IN"), (one.excluded, "NOT IN")):
            if levels:
                parts.append(f"{self.name} {words} ({', '.join(map(self.level, levels))})")
        return " AND ".join([f"{self.name} IS NOT NULL", *parts])

    def absent(self) -> str:
        if self.condition.kind != "numeric" or self.dialect == "sqlite":
            return f"{self.name} IS NULL"
        kind = "DOUBLE" if self.dialect == "duckdb" else "DOUBLE PRECISION"
        return f"{self.name} IS NULL OR {self.name} = CAST('NaN' AS {kind})"

    def level(self, level: Level) -> str:
        if not isinstance(level, str):
            return self.number(number_text(level, self.condition.kind))
        if self.condition.kind == "boolean":
            return level.upper()
        return "'" + level.replace("'", "''") + "'"

    def number(self, text: str) -> str:
        if self.condition.kind == "date":
            moment = _moment(number_of(text) or 0.0) or text
            return f"'{moment.replace('T', ' ')}'" if self.dialect == "sqlite" else f"TIMESTAMP '{moment}'"
        return text if "e" in text else f"{text}e0"  # with an exponent it is a double and not a decimal

"""Which rows belong: a condition on one column, and a conjunction of such.

Its words are read back by `cells.parse`, every value of every level included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from miscal.codes.data import ColumnKind
from miscal.data.arrays import Array, Plain
from miscal.data.calendar import number_of
from miscal.data.column_types import column_type
from miscal.data.columns import Column

FULL = "full population"
SHOWN_LEVELS = 6
WORDS = {"in", "is", "and", "or", "not"}
MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
LARGEST = float(np.finfo(np.float64).max)
Level = str | float


@dataclass(frozen=True)
class Condition:
    r"""Which rows belong by one column: a range of numbers, some levels, all but some levels, or known values.

    Parameters
    ----------
    column : name
    kind : ColumnKind; dates are numbers of days since 1970-01-01
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
    kind: ColumnKind = ColumnKind.NUMERIC
    low: float | None = None
    high: float | None = None
    levels: tuple[Level, ...] | None = None
    excluded: tuple[Level, ...] | None = None
    missing: bool = False

    def __post_init__(self) -> None:
        one, *others = self.levels or ("",)
        if not (others or isinstance(one, str)):  # one number is a range, and said as one
            ends = {"low": just_below(one), "high": one + 0.0, "levels": None}
            self.__dict__.update(ends)

    def rows(self, columns: Mapping[str, Column]) -> Array:
        """Truth value at each row."""
        column = getattr(columns, "find", columns.__getitem__)(self.column)
        if column.nominal:
            return self.slots([*map(str, column.levels), None])[column.values]
        return self.numbers(column.values)

    def slots(self, names: Iterable[str | None]) -> Array:
        """Which of some levels of a nominal column belong; None is that of missing values."""
        only = self.levels is not None
        some = (self.levels if only else self.excluded) or ()
        said = {level if isinstance(level, str) else number_text(level) for level in some}
        return np.array([self.missing if name is None else (name in said) == only for name in names], bool)

    def numbers(self, values: Array) -> Array:
        """Truth value at each of some numbers, NaN where missing."""
        with np.errstate(invalid="ignore"):
            rows = ~np.isnan(values)
            if self.low is not None:
                rows &= values > self.low
            if self.high is not None:
                rows &= values <= self.high
            for some, wanted in ((self.levels, True), (self.excluded, False)):
                if some is not None:
                    numbers = [number for level in some if (number := number_of(str(level))) is not None]
                    rows &= np.isin(values, numbers) == wanted
        return np.asarray(rows | np.isnan(values) if self.missing else rows)

    # Words

    def words(self, shown: int | None = None) -> str:
        """The condition in words, read back by `parse`; with `shown` levels at most, and numbers of four digits."""
        name, low, high = quoted(self.column), self.low, self.high
        if self.levels == ():
            return f"{name} is missing"
        if self.excluded is not None:
            text = f"{name} {self._set('!=', 'not in', self.excluded, shown)}"
            return text if self.missing else f"{text} and {name} is not missing"
        if self.levels is None and low is high is None:
            return f"{name} is not missing"
        text = name
        if self.levels:
            text = f"{name} {self._set('=', 'in', self.levels, shown)}"
        elif low is not None and high == just_above(low):
            text = f"{name} = {_shown_text(high, self.kind, shown)}"
        else:
            if high is not None:
                sign, end = end_words(high, self.kind, shown, upper=True)
                text = f"{name} {sign} {end}"
            if low is not None:
                sign, end = end_words(low, self.kind, shown)
                text = f"{name} {MIRROR[sign]} {end}" if high is None else f"{end} {sign} {text}"
        return f"({text} or missing)" if self.missing else text

    def _set(self, sign: str, several: str, levels: tuple[Level, ...], shown: int | None) -> str:
        words = [level_word(one) if isinstance(one, str) else number_text(one, self.kind) for one in levels]
        if len(words) == 1:
            return f"{sign} {words[0]}"
        if shown is not None and len(words) > shown:
            words = [*words[: shown - 1], f"... {len(words) - shown + 1} more"]
        return f"{several} {{{', '.join(words)}}}"

    # Data

    def to_dict(self) -> Plain:
        """Plain JSON."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Condition:
        """The inverse of `to_dict`."""
        kinds: dict[str, Callable[[Any], object]] = {
            "kind": lambda kind: column_type(kind).column_kind,
            "low": float,
            "high": float,
            "levels": tuple,
            "excluded": tuple,
            "missing": bool,
        }
        given: Plain = {
            name: kind(content[name]) for name, kind in kinds.items() if content.get(name) is not None
        }
        return cls(str(content["column"]), **given)

    def both(self, other: Condition) -> Condition | None:
        """One condition on the same column that says what both say together; None where none does."""
        if self.column != other.column:
            return None
        missing = self.missing and other.missing
        if self.ranged and other.ranged:
            low = max((end for end in (self.low, other.low) if end is not None), default=None)
            high = min((end for end in (self.high, other.high) if end is not None), default=None)
            return replace(self, low=low, high=high, missing=missing)
        for one, two in ((self, other), (other, self)):
            if two.ranged and two.low is two.high is None and one.levels != ():  # "is not missing"
                return replace(one, missing=missing)
        return None

    @property
    def ranged(self) -> bool:
        """Whether it is a range of numbers, without ends all that are known."""
        return self.levels is None and self.excluded is None


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

    def rows(self, columns: Mapping[str, Column]) -> Array:
        """Truth value at each row."""
        found = [condition.rows(columns) for condition in self.conditions]
        if not found:
            return np.ones(max((len(column) for column in columns.values()), default=0), bool)
        return np.asarray(np.logical_and.reduce(found))

    def words(self, shown: int | None = None) -> str:
        """All of it, read back by `parse`."""
        return " and ".join(condition.words(shown) for condition in self.conditions) or FULL

    def to_dict(self) -> list[Plain]:
        """Plain JSON."""
        return [condition.to_dict() for condition in self.conditions]

    @classmethod
    def from_dict(cls, content: Iterable[Mapping[str, Any]]) -> Conjunction:
        """The inverse of `to_dict`."""
        return cls(tuple(Condition.from_dict(one) for one in content))


def _shown_text(value: float, kind: ColumnKind, shown: int | None) -> str:
    text = number_text(value, kind)
    return text if shown is None else column_type(kind).shortened(text)


def just_above(value: float) -> float:
    """The next number above."""
    return math.nextafter(value, math.inf) + 0.0


def just_below(value: float) -> float:
    """The next number below."""
    return math.nextafter(value, -math.inf) + 0.0


def number_text(value: float, kind: ColumnKind = ColumnKind.NUMERIC) -> str:
    """The shortest words from which `number_of` reads exactly this number."""
    return column_type(kind).edge_text(value)


@lru_cache(1 << 14)
def end_words(
    value: float, kind: ColumnKind, shown: int | None = None, *, upper: bool = False
) -> tuple[str, str]:
    """Sign and words of one end of a range: of the number itself, or of its neighbour above where that is shorter.

    Of a date, the one of the two that is a moment of the calendar.
    """
    signs = ("<=", "<") if upper else ("<", "<=")
    here, above = number_text(value, kind), just_above(value)
    if math.isinf(above):
        return signs[0], here
    choices = [(signs[0], here), (signs[1], number_text(above, kind))]
    sign, text = min(choices, key=lambda choice: column_type(kind).edge_cost(choice[1]))
    return sign, text if shown is None else column_type(kind).shortened(text)


@lru_cache(1 << 14)
def quoted(name: str) -> str:
    """A column's name, in backticks where it is not a plain word."""
    plain = name.replace("_", "a").isalnum() and not name[0].isdigit() and name not in WORDS
    return name if plain else "`" + name.replace("`", "``") + "`"


@lru_cache(1 << 14)
def level_word(level: str) -> str:
    """A level, in quotes where it would not be read as plain words."""
    words = level.split()
    plain = words and " ".join(words) == level and not any(mark in level for mark in "<>=!(){},`\"'")
    if plain and not {"and", "or"} & set(words):
        return level
    return '"' + level.replace('"', '""') + '"'

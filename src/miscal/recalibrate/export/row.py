"""Values of one row, a mapping of names to plain values, as the numbers and places that maps take.

Values of another type than fit had, and everything else that is not plain, raise `General`: the caller then takes the
general way, which converts, or refuses in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import Any

Row = Mapping[str, Any]
Number = Callable[[Row], float]
Code = Callable[[Row], int]


class General(Exception):
    """A row needs the general way; not an error."""


def number(name: str) -> Number:
    """The row's number, NaN where it is missing."""

    def read(row: Row) -> float:
        value = row[name]
        kind = type(value)
        if kind is float and not math.isinf(value):
            return float(value)
        if kind is int and abs(value) < 2**53:
            return float(value)
        if value is None:
            return math.nan
        raise General

    return read


def code(name: str, levels: Sequence[Any], missing: int, unseen: int) -> Code:
    """The place of the row's word or truth value among the levels."""
    kind = bool if any(isinstance(level, bool) for level in levels) else str
    if not all(type(level) is kind for level in levels if level is not None):
        raise General
    place = {level: i for i, level in enumerate(levels) if level is not None}

    def read(row: Row) -> int:
        value = row[name]
        if type(value) is kind:
            return place.get(value, unseen)
        if value is None:
            return missing
        raise General

    return read


def level(name: str, levels: Sequence[Any], missing: int | None = None, unseen: int = -1) -> Code:
    """The place of the row's word or number among the levels of a group; missing, if a level, comes last."""
    known = [level for level in levels if level is not None]
    if missing is None:
        missing = len(known) if None in levels else unseen
    absent = missing
    if known and isinstance(known[0], (str, bool)):
        return code(name, known, absent, unseen)
    if not all(type(level) in (int, float) for level in known):
        raise General
    place = {float(level): i for i, level in enumerate(known)}
    read_number = number(name)

    def read(row: Row) -> int:
        value = read_number(row)
        return absent if isnan(value) else place.get(value, unseen)

    return read


def held(read_number: Number, low: float, high: float, missing: float) -> Number:
    """A number held between two bounds, and what a missing one becomes."""

    def read(row: Row) -> float:
        value = read_number(row)
        return missing if isnan(value) else min(max(value, low), high)

    return read

"""One row through the shifts of `BinAndCycle`: its subpopulations by plain Python, the shifts by a kernel."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np

from miscal.pooling.expressions import Condition, conditions, number_of
from miscal.recalibrate.export.row import General, Row

Values = Callable[[Any], bool]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class _Words:
    """Words that `float` would read but that are columns wherever they occur: no range ends there."""

    def __contains__(self, word: object) -> bool:
        return str(word).lower() in ("inf", "infinity", "nan")


def one_row(made: Any) -> Callable[[float, Row], float]:
    """A function from a probability and a row to the event's probability."""
    from miscal.kernels.single import shifted

    visit_of, starts = made.visits()
    used = np.unique(visit_of)  # only subpopulations with a shift need a look
    defined = [_conditions(str(made.subpopulations_[k])) for k in used]
    distinct = {one: i for i, one in enumerate(dict.fromkeys(one for each in defined for one in each))}
    member_of = np.array([distinct[one] for each in defined for one in each], dtype=np.int64)
    member_starts = np.cumsum([0, *map(len, defined)])
    tests = [(one.column, _test(one)) for one in distinct]
    visit_of = np.searchsorted(used, visit_of)
    cell, shifts, cells = made.shift_bin_, made.shifts_, int(made.bins)

    def run(p: float, row: Row) -> float:
        holds = np.array([test(row[name]) for name, test in tests], dtype=np.bool_)
        return float(shifted(p, holds, member_starts, member_of, visit_of, starts, cell, shifts, cells))

    return run


def _conditions(text: str) -> list[Condition]:
    from miscal.recalibrate.by_columns.bin_and_cycle import EVERYONE

    return [] if text == EVERYONE else conditions(text, _Words())


def _test(one: Condition) -> Values:
    absent = one.or_missing or (one.sign == "missing") != one.negated
    if one.sign == "in":
        absent = one.or_missing or one.negated
        return _among(one, absent)
    if one.sign == "missing":
        present = one.negated
        return lambda value: absent if _missing(value) else present
    compare, bound = _COMPARE[one.sign], number_of(one.values[0])
    if bound is None:
        raise General

    def test(value: Any) -> bool:
        if _missing(value):
            return one.or_missing
        return compare(_number(value), bound)

    return test


def _among(one: Condition, absent: bool) -> Values:
    words, negated = frozenset(one.values), one.negated
    numbers = [number_of(word) for word in one.values]
    known = None if None in numbers else frozenset(numbers)

    def test(value: Any) -> bool:
        if _missing(value):
            return absent
        if type(value) is str or type(value) is bool:
            return (str(value) in words) != negated
        if known is None:
            raise General
        return (_number(value) in known) != negated

    return test


def _missing(value: Any) -> bool:
    return value is None or (type(value) is float and isnan(value))


def _number(value: Any) -> float:
    if type(value) is float or (type(value) is int and abs(value) < 2**53):
        return float(value)
    raise General

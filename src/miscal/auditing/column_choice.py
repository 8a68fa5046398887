"""Which columns an audit looks at, and which it sets aside and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miscal.data.columns import Column
from miscal.data.errors import check_named, refusal
from miscal.data.predictions import Predictions

IDENTIFIER_SHARE = 0.5  # a column with more distinct levels than this share of the rows names rows, not groups
MAX_LEVELS = 1_000_000  # of a field, unless asked otherwise
FEW = 50  # rows or levels below which nothing is taken for an identifier
_NAMED = re.compile(r"(^|[_\W])(id|ids|index|uuid|guid|key|row|rownum|number)($|[_\W\d])", re.IGNORECASE)


def left_out(where: str, rows: int | None, reason: str) -> dict[str, Any]:
    """A place or a column that is not judged, as the document lists it."""
    return {"where": where, "rows": rows, "reason": reason}


def asked_columns(
    by: Sequence[str] | str | None, ignore: Sequence[str] | str, time: str | None, **roles: Any
) -> tuple[list[str] | None, list[str]]:
    """The columns to look at and to leave out, as lists; one name alone counts as a list of it.

    Refuses a column that plays a part already, and one that is both asked for and left out.
    """
    wanted, unwanted = None if by is None else named(by), named(ignore)
    taken = {name: role for role, columns in reversed(roles.items()) for name in named(columns)}
    for word, names in (("by", wanted or []), ("ignore", unwanted), ("time", named(time))):
        for name in names:
            if name in taken:
                got = f"column '{name}' is '{taken[name]}' already"
                raise refusal("names one of the other columns", where=f"'{word}'", got=got)
    both = [name for name in wanted or () if name in unwanted]
    if both:
        raise refusal("leaves out what 'by' asks for", where="'ignore'", got=f"both name column '{both[0]}'")
    return wanted, unwanted


def named(columns: Any) -> list[str]:
    """Names of columns given as one, several, or by class."""
    if columns is None or isinstance(columns, str):
        return [] if columns is None else [columns]
    return [str(name) for name in (columns.values() if isinstance(columns, Mapping) else columns)]


def chosen_columns(
    predictions: Predictions,
    by: Sequence[str] | None,
    ignore: Sequence[str],
    max_levels: int,
    *,
    constants: bool = False,
) -> tuple[list[Column], list[dict[str, Any]]]:
    """The columns to look at, and those set aside with the reason; `constants` keeps fields of one level."""
    known = list(predictions.columns)
    check_named(by or (), known, "the data", known)
    chosen, aside = [], []
    for name in by or known:
        if name in ignore:
            continue
        column = predictions.columns[name]
        many = column.nominal and len(column.levels) > max_levels
        reason = f"it has more than {max_levels:,} levels" if many else None if by else reason_aside(column)
        if reason and not (constants and reason == "constant" and column.nominal):
            aside.append(left_out(name, predictions.rows, reason))
        else:
            chosen.append(column)
    return chosen, aside


def reason_aside(column: Column) -> str | None:
    """Why a column says nothing about groups: it is constant, or it names the rows.

    >>> from miscal.data.columns import column
    >>> reason_aside(column("year", [2013, 2013]))
    'constant'
    """
    if column.nominal:
        if len(column.levels) > max(FEW, IDENTIFIER_SHARE * len(column)):
            return f"an identifier: {len(column.levels):,} levels"
        return "constant" if len(column.levels) <= 1 and not column.missing.any() else None
    known = column.values[~np.isnan(column.values)]
    if known.size == 0:
        return "all values are missing"
    low, high = known.min(), known.max()
    if low == high and known.size == len(column):
        return "constant"
    return "an identifier: whole numbers that all differ" if _names_rows(column, known, low, high) else None


def _names_rows(column: Column, known: np.ndarray, low: float, high: float) -> bool:
    if not column.integer or known.size <= FEW or high - low + 1 < known.size:
        return False
    consecutive = high - low + 1 == known.size
    if not (consecutive or _NAMED.search(column.name)):
        return False
    return bool(np.unique(known).size == known.size)

"""How parameters are declared, and their checks, worded alike everywhere; and the columns that they ask for."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from miscal.data.checks import whole
from miscal.data.columns import Columns
from miscal.data.errors import nearest, refusal
from miscal.data.frames import named_columns
from miscal.pooling.bins import given_edges


def parameter(
    check: Callable[..., Any],
    *limits: Any,
    default: Any = dataclasses.MISSING,
    kw_only: bool = False,
    **more: Any,
) -> Any:
    """Declare a parameter of a recalibrator with its check, called with name, value and limits.

    None is let through where it is the default.
    """
    return dataclasses.field(default=default, kw_only=kw_only, metadata={"check": (check, limits, more)})


def check_all(owner: Any) -> None:
    """Refuse the first parameter whose check does."""
    for each in dataclasses.fields(owner):
        value = getattr(owner, each.name) if "check" in each.metadata else None
        if "check" in each.metadata and not (value is None and each.default is None):
            check, limits, more = each.metadata["check"]
            check(each.name, value, *limits, **more)


def such(name: str, value: Any, fine: Callable[[Any], bool], what: str, hint: str = "") -> None:
    """Refuse what `fine` says no to."""
    if not fine(value):
        raise refusal(what, where=f"'{name}'", got=f"got {value!r}", hint=hint)


def truth(name: str, value: Any) -> None:
    """Refuse what is not True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise refusal("must be True or False", where=f"'{name}'", got=f"got {value!r}")


def bins_or_edges(name: str, value: Any) -> None:
    """Refuse what is neither a number of bins nor their increasing edges, at least two of them."""
    if is_whole(value):
        whole(name, value, 1, 10**7)
    else:
        given_edges(value)


def is_whole(value: Any) -> bool:
    """Whether a parameter is a whole number (of bins), not a sequence (of edges)."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def columns_of(X: Any, rows: int | None, who: str) -> Columns:
    """See X as named columns, of so many rows; those of a plain array are named '0', '1', ..."""
    if X is None:
        raise refusal(
            f"is needed by {who}", where="'X'", got="got nothing (None)", hint="pass a frame, a dict or an array"
        )
    named: Any = X if isinstance(X, Columns) else named_columns(X, "'X'")
    made = Columns(named)
    for name in made if rows is not None else ():
        length = len(named[name])
        if length != rows:
            got = f"{length:,} against {rows:,}"
            raise refusal("must have as many rows as 'y_prob'", where=f"'X' column '{name}'", got=got)
    return made


def check_chosen(name: str, chosen: Any) -> None:
    """Refuse a `columns` parameter that is not a name, a position, or a list of these."""
    items = [chosen] if isinstance(chosen, (str, int, np.integer)) else chosen
    fine = isinstance(items, (list, tuple, np.ndarray)) and len(items) > 0
    if not fine or not all(isinstance(i, (str, int, np.integer)) and not isinstance(i, bool) for i in items):
        what = "must be None (all), or names or positions of columns"
        raise refusal(what, where=f"'{name}'", got=f"got {chosen!r}")


def chosen_names(columns: Columns, chosen: Any) -> list[str]:
    """Names of the columns that were asked for; positions count from 0."""
    known = list(columns)
    if not known:
        raise refusal("must have at least one column", where="'X'", got="it has none")
    if chosen is None:
        return known
    items: Sequence[Any] = [chosen] if isinstance(chosen, (str, int, np.integer)) else list(chosen)
    names = []
    for item in items:
        if isinstance(item, str):
            if item not in known:
                raise refusal("is not a column of 'X'", where=f"column '{item}'", hint=nearest(item, known))
            names.append(item)
        elif not -len(known) <= int(item) < len(known):
            raise refusal(f"must lie in 0..{len(known) - 1}", where="position in 'columns'", got=f"got {item}")
        else:
            names.append(known[int(item)])
    if len(set(names)) < len(names):
        raise refusal("must name each column once", where="'columns'", got=f"got {chosen!r}")
    return names

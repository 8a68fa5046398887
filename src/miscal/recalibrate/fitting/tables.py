"""The columns beside the probabilities, whatever they came in, and the one way in which they become numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data.columns import Column, Columns
from miscal.data.errors import nearest, refusal
from miscal.data.frames import named_columns

Array = npt.NDArray[Any]


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


@dataclass(frozen=True)
class Coding:
    """How one column becomes numbers: learned on the rows to fit on, applied to any others, plain enough for JSON.

    A number stays one, held within [low, high]; NaN is missing. A level of a category becomes its place in `levels`; a
    missing value becomes `low` and a level that is not there `high`. A column that changed its type since fit is
    refused: its values would all be unseen.
    """

    name: str
    nominal: bool
    levels: list[Any]  # of a category; None, where missing has a place of its own, holds it
    low: float = -np.inf
    high: float = np.inf

    def read(self, columns: Columns) -> Array:
        """The column as numbers, or as places (whole if `low` and `high` are)."""
        if not self.nominal:
            return np.asarray(np.clip(find(columns, self.name, "numeric").values, self.low, self.high))
        column, known = columns.find(self.name), _kinds_of(self.levels)
        column = (
            column.as_levels() if "numbers" in known and not column.nominal else find(columns, self.name, "nominal")
        )
        now = _kinds_of(column.levels)
        if known and now and known.isdisjoint(now):
            what, got = f"must hold {' and '.join(sorted(known))}, as it did in fit", f"now it holds {min(now)}"
            raise refusal(what, where=f"'X' column '{self.name}'", got=got)
        return codes_of(column, self.levels, self.high, self.low)


def _kinds_of(levels: Sequence[Any]) -> set[str]:
    kinds = {type(level) for level in levels if level is not None}
    words = {"truth values": (bool, np.bool_), "numbers": (int, float, np.number)}
    return {next((word for word, these in words.items() if issubclass(kind, these)), "text") for kind in kinds}


def levels_in(column: Column) -> list[Any]:
    """Levels that occur among the rows, in their order, as JSON can hold them."""
    column = column.as_levels()
    seen = [column.levels[code] for code in np.unique(column.values[column.values >= 0])]
    return [level.item() if isinstance(level, np.generic) else level for level in seen]


def mean_and_spread(values: Array, weight: Array) -> tuple[float, float]:
    """Mean and standard deviation of numbers of any size; (0, 1) without any, spread 1 where all are equal."""
    if not values.size:
        return 0.0, 1.0
    largest = float(np.abs(values).max()) or 1.0
    part = values / largest
    mean = float(np.average(part, weights=weight))
    spread = float(np.sqrt(np.average((part - mean) ** 2, weights=weight))) * largest
    return mean * largest, spread if 0.0 < spread < np.inf else 1.0


def find(columns: Columns, name: str, kind: str) -> Column:
    """Take a column that fit had, and refuse it if numbers became words or the other way round."""
    made = columns.find(name)
    if kind == "nominal" and not made.nominal and bool(made.missing.all()):  # nothing but missing values has no type
        return Column(name, "category", np.full(len(made), -1, dtype=np.int32))
    if made.nominal != (kind == "nominal"):
        got = f"now it is {made.kind}"
        was = "a category" if kind == "nominal" else "numeric"
        raise refusal(f"must be {was}, as it was in fit", where=f"'X' column '{name}'", got=got)
    return made


def codes_of(column: Column, levels: Sequence[Any], otherwise: float, missing: float | None = None) -> Array:
    """Places of a category's values among `levels`; `otherwise` for levels not among them, and for missing values.

    Missing values may have a place of their own.
    """
    place = {level: i for i, level in enumerate(levels) if level is not None}
    table = [place.get(level, otherwise) for level in column.levels] + [otherwise if missing is None else missing]
    return np.asarray(np.array(table)[column.values])  # the last entry serves code -1

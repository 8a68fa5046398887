"""How columns become numbers: learned on some rows, applied to any others, plain enough for JSON and formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from miscal.data.checks import Array, Floats
from miscal.data.columns import Column, Columns
from miscal.data.errors import refusal

UNSEEN = -1  # place of what is not among the levels, where no other is given


@dataclass(frozen=True)
class Encoding:
    """How one column becomes numbers.

    A number stays one, held within its ends; NaN is missing. A level of a category becomes its place in `levels`, in
    which None stands for missing; what is not there takes the place `unseen`. A column that changed its type since the
    encoding was learned is refused: its values would all be unseen.
    """

    name: str
    nominal: bool
    levels: list[Any]
    mean: float = 0.0  # what a missing number takes
    spread: float = 1.0
    standard: bool = True  # whether a number is scaled to (number - mean) / spread, or stays as it is
    missing: bool = False  # whether the rows learned from missed some
    ends: Any = (-np.inf, np.inf)
    unseen: float = UNSEEN

    @classmethod
    def learned(
        cls,
        column: Column,
        weight: Floats | None = None,
        *,
        nominal: bool = False,
        filled: bool = False,
        constant: float = 1.0,
        **given: Any,
    ) -> Self:
        """Look at a column of some rows: at the levels that occur, sorted and missing last, or at mean and spread.

        `nominal`: numbers are levels too; `filled`: the spread is that of all rows, missing numbers being at the mean;
        `constant`: the spread of numbers that are all equal. Other fields are as `given`.
        """
        absent = column.missing
        made = cls(column.name, nominal or column.nominal, [], missing=bool(absent.any()), **given)
        if made.nominal:
            # Levels that occur among the rows, in their order, as JSON can hold them, and None for missing.
            known = column.as_levels()
            seen = [known.levels[code] for code in np.unique(known.values) if code >= 0]
            plain = [level.item() if isinstance(level, np.generic) else level for level in seen]
            return replace(made, levels=[*plain, None] if made.missing else plain)
        values = np.clip(column.values, *made.ends)
        mean, spread = mean_and_spread(values[~absent], None if weight is None else weight[~absent], constant)
        if filled and made.missing:
            spread = mean_and_spread(np.where(absent, mean, values), weight, constant)[1]
        return replace(made, mean=mean, spread=spread if made.standard else 1.0)

    def read(self, columns: Columns) -> Array:
        """The column as numbers, NaN where missing; or as places, whole if `unseen` is."""
        column = columns.find(self.name)
        if not self.nominal:
            return np.asarray(np.clip(self._as_learned(column).values, *self.ends))
        known = _kinds_of(self.levels)
        column = column.as_levels() if "numbers" in known and not column.nominal else self._as_learned(column)
        now = _kinds_of(column.levels)
        if known and now and known.isdisjoint(now):
            what, got = f"must hold {' and '.join(sorted(known))}, as it did in fit", f"now it holds {min(now)}"
            raise refusal(what, where=f"'X' column '{self.name}'", got=got)
        place = {level: i for i, level in enumerate(self.levels)}
        table = [place.get(level, self.unseen) for level in (*column.levels, None)]
        return np.asarray(np.array(table)[column.values])  # the last entry serves code -1

    def _as_learned(self, column: Column) -> Column:
        """Refuse a column if numbers became words or the other way round."""
        if self.nominal and not column.nominal and bool(column.missing.all()):  # nothing but missing has no type
            return Column(self.name, "category", np.full(len(column), -1, dtype=np.int32))
        if column.nominal != self.nominal:
            was = "a category" if self.nominal else "numeric"
            got = f"now it is {column.kind}"
            raise refusal(f"must be {was}, as it was in fit", where=f"'X' column '{self.name}'", got=got)
        return column

    def scaled(self, values: Array) -> tuple[Floats, Array]:
        """Numbers that `read` gave, missing ones at the mean, in units of the spread; and which were missing."""
        absent = np.isnan(values)
        known = np.where(absent, self.mean, values)
        return (known - self.mean) / self.spread if self.standard else known, absent


def _kinds_of(levels: Sequence[Any]) -> set[str]:
    kinds = {type(level) for level in levels if level is not None}
    words = {"truth values": (bool, np.bool_), "numbers": (int, float, np.number)}
    return {next((word for word, these in words.items() if issubclass(kind, these)), "text") for kind in kinds}


def mean_and_spread(values: Floats, weight: Floats | None, constant: float = 1.0) -> tuple[float, float]:
    """Mean and standard deviation of numbers of any size, which is `constant` where all are equal or there are none."""
    if not values.size:
        return 0.0, constant
    size = float(np.abs(values).max()) or 1.0
    part = values / size
    mean = float(np.average(part, weights=weight))
    spread = float(np.sqrt(np.average((part - mean) ** 2, weights=weight))) * size
    moving = max(1e-14 * abs(mean * size), 1e-290) < spread < np.inf
    return mean * size, spread if moving else constant

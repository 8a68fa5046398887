"""Which column of a table plays which part, and one batch of it, validated."""

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from miscal.data import sources
from miscal.data.columns import Column, Columns
from miscal.data.errors import MiscalError, refusal
from miscal.pairs import Pair, pair
from miscal.pooling.condition import Conjunction

MASKS = 1 << 24  # bytes of a batch that keep where conditions hold


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table.

    place, first : the part that they come from, and the number of the first of them there
    row : the number of the first of them in the whole table
    """

    table: Any
    place: str
    first: int = 0
    row: int = 0


class Roles(sources.Roles):
    """Which columns are what, for passes over a table."""

    @property
    def added(self) -> list[str]:
        """Columns that sums are made of: all but clusters and ids."""
        return list(dict.fromkeys(name for role, name in self.named if role not in ("cluster", "id")))

    def open(self, chunk: Chunk, target: str | int = "auto") -> "Batch":
        """Validate a batch. A refusal names the place and the row in it."""
        beside = [name for name in chunk.table.column_names if name != self.outcome]
        try:
            found = replace(self, cluster=None, id=None).read(chunk.table, beside, part=chunk.place)
            return Batch(pair(found, target), found.columns, chunk, found.classes, found.ignored)
        except MiscalError as error:
            raise type(error)(located(str(error), chunk)) from error


def located(text: str, chunk: Chunk) -> str:
    """Add the place, and count the row that a message names from the start of the place."""
    text = re.sub(r"\brow (\d+) (?=has|is)", lambda found: f"row {int(found[1]) + chunk.first} ", text, count=1)
    return text if chunk.place in text else f"{chunk.place}: {text}"


@dataclass(frozen=True, eq=False)
class Batch:
    """Validated rows: what is compared, and the columns beside it.

    notes : what has been found out about the rows, for whoever asks again
    """

    pair: Pair
    columns: Columns
    chunk: Chunk
    classes: tuple[Any, ...]
    ignored: int = 0
    notes: dict[Any, np.ndarray] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.pair.rows

    def column(self, name: str) -> Column:
        """A column, converted once; infinite numbers are refused."""
        try:
            return self.columns[name]
        except MiscalError as error:
            raise type(error)(located(str(error), self.chunk)) from error

    def numbers(self, name: str) -> np.ndarray:
        """A numeric or date column as float64, NaN where missing."""
        made = self.column(name)
        if made.nominal:
            where, hint = f"column '{name}' of {self.chunk.place}", "name it in --ignore, or store it as text"
            raise refusal("must hold numbers below 2**53, which a double can tell apart", where=where, hint=hint)
        return made.values

    def inside(self, conjunction: Conjunction) -> np.ndarray:
        """Which rows satisfy all conditions; what many conjunctions share is found once, while there is room for it."""
        inside = np.ones(self.rows, bool)
        for one in conjunction.conditions:
            found = self.notes.get(one)
            if found is None:
                found = one.rows({one.column: self.column(one.column)})
                if len(self.notes) * self.rows < MASKS:
                    self.notes[one] = found
            inside &= found
        return inside

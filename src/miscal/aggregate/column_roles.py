"""Which column of a table plays which part, and one batch of it, validated."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np

from miscal.cells.condition import Condition, Conjunction
from miscal.data import sources
from miscal.data.arrays import Array, Plain, arrow_of, locked, numpy_of, settled, texts_of
from miscal.data.columns import Column, Columns
from miscal.data.errors import MiscalError, refusal
from miscal.data.libraries import pa, pc
from miscal.data.target import TargetData, pair

ROW = "__row_of_batch__"
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


class ColumnRoles(sources.ReadRoles):
    """Which columns are what, for passes over a table."""

    @classmethod
    def from_options(cls, where: str, options: Plain) -> "ColumnRoles":
        """As a function was told; what it has no name for is refused as an argument of that function."""
        unknown = options.keys() - signature(cls).parameters.keys()
        if unknown:
            raise TypeError(f"{where}() got an unexpected keyword argument '{min(unknown)}'")
        return cls(**options)

    @property
    def added(self) -> list[str]:
        """Columns that sums are made of: all but clusters and ids."""
        return list(dict.fromkeys(name for role, name in self.named if role not in ("cluster", "id")))

    def open(self, chunk: Chunk, target: str | int = "auto") -> "Batch":
        """Validate a batch. A refusal names the place and the row in it."""
        table = chunk.table
        if self.weight is not None or self.count is not None:  # rows are left out, or stand twice
            table = table.append_column(ROW, arrow_of(np.arange(table.num_rows)))
        beside = [name for name in table.column_names if name != self.outcome]
        try:
            found = replace(self, cluster=None, id=None).read(table, beside, part=chunk.place)
            return Batch(pair(found, target), found.columns, chunk, found.classes, found.ignored)
        except MiscalError as error:
            raise type(error)(located(str(error), chunk)) from error


def located(text: str, chunk: Chunk) -> str:
    """Add the place, and count the row that a message names from the start of the place."""
    text = re.sub(
        r"\brow (\d+) (?=has|is)", lambda found: f"row {int(found[1]) + chunk.first} ", text, count=1
    )
    return text if chunk.place in text else f"{chunk.place}: {text}"


@dataclass(frozen=True, eq=False)
class Batch:
    """Validated rows: what is compared, and the columns beside it.

    notes : what has been found out about the rows, for whoever asks again
    encoded : columns as levels, see `levels`
    """

    pair: TargetData
    columns: Columns
    chunk: Chunk
    classes: tuple[Any, ...]
    ignored: int = 0
    notes: dict[Any, Array] = field(default_factory=dict)
    encoded: dict[str, tuple[Array, Any, Array]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.pair.rows

    def column(self, name: str) -> Column:
        """A column, converted once; infinite numbers are refused."""
        try:
            return self.columns[name]
        except MiscalError as error:
            raise type(error)(located(str(error), self.chunk)) from error

    def numbers(self, name: str) -> Array:
        """A numeric or date column as float64, NaN where missing."""
        made = self.column(name)
        if made.nominal:
            where, hint = f"column '{name}' of {self.chunk.place}", "name it in --ignore, or store it as text"
            raise refusal("must hold numbers below 2**53, which a double can tell apart", where, hint=hint)
        return made.values

    def levels(self, name: str) -> tuple[Array, Any, Array]:
        """A column as codes (-1 where missing) into its levels, an Arrow array of text or of numbers in any order.

        The third are codes of the levels that occur, also in rows that are left out.
        """
        if name not in self.encoded:
            if self._is_text(name):
                self.encoded[name] = self._texts(name)
            else:
                made = self.column(name).as_levels()
                self.encoded[name] = made.values, array_of(made.levels), np.arange(len(made.levels))
        return self.encoded[name]

    def _is_text(self, name: str) -> bool:
        kind = self.chunk.table.schema.field(name).type
        held = kind.value_type if pa.types.is_dictionary(kind) else kind
        return bool(pa.types.is_string(held) or pa.types.is_large_string(held))

    def _texts(self, name: str) -> tuple[Array, Any, Array]:
        """The dictionary as it stands: to sort it in every batch takes longer than to read the rows."""
        vector = settled(self.chunk.table[name], f"column '{name}'")
        if not pa.types.is_dictionary(vector.type):
            vector = vector.dictionary_encode()
        every = locked(numpy_of(vector.indices.cast(pa.int32()), -1))
        names = vector.dictionary.cast(pa.string())
        if ROW not in self.columns:
            return every, names, every
        return locked(every[self.columns[ROW].values.astype(np.int64)]), names, every

    def _holds(self, one: Condition) -> Array:
        if not self._is_text(one.column):
            return one.rows({one.column: self.column(one.column)})
        codes, names, _ = self.levels(one.column)
        return one.slots([*names.to_pylist(), None])[codes]

    def inside(self, conjunction: Conjunction) -> Array:
        """Which rows satisfy all conditions; what many conjunctions share is found once, while there is room for it."""
        inside = np.ones(self.rows, bool)
        for one in conjunction.conditions:
            found = self.notes.get(one)
            if found is None:
                found = self._holds(one)
                if len(self.notes) * self.rows < MASKS:
                    self.notes[one] = found
            inside &= found
        return inside


def array_of(levels: Sequence[Any]) -> Any:
    """Levels as an Arrow array, without pandas: numbers as numbers, all others as text."""
    values = np.array(levels)
    if values.dtype.kind not in "iuf" or not values.size:
        return texts_of([*map(str, levels)])
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [None, pa.py_buffer(values)])


def places_of(names: Any, known: Any) -> Array:
    """The place of each name among those known, -2 where it is not there; -1 of a null, and once more at the end."""
    places = numpy_of(pc.index_in(names, value_set=known), -2)
    missing = numpy_of(names.is_null().cast(pa.int8()))
    return np.append(np.where(missing, -1, places), -1)

"""Which column of a table plays which part, and one batch of it, validated."""

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from miscal.data import sources
from miscal.data.columns import Column, column
from miscal.data.errors import MiscalError, refusal
from miscal.data.libraries import pa, pc
from miscal.data.vectors import arrow_of, locked, numpy_of, settled
from miscal.pairs import Pair, pair

ROW = "__row_of_batch__"


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
        table, columns = chunk.table, []
        if self.weight is not None or self.count is not None:
            table = table.append_column(ROW, arrow_of(np.arange(table.num_rows)))
            columns = [ROW]
        try:
            found = replace(self, cluster=None, id=None).read(table, columns, part=chunk.place)
            kept = found.columns[ROW].values.astype(np.int64) if columns else None
            return Batch(pair(found, target), chunk, kept, found.classes, found.ignored)
        except MiscalError as error:
            raise type(error)(located(str(error), chunk)) from error


def located(text: str, chunk: Chunk) -> str:
    """Add the place, and count the row that a message names from the start of the place."""
    text = re.sub(r"\brow (\d+) (?=has|is)", lambda found: f"row {int(found[1]) + chunk.first} ", text, count=1)
    return text if chunk.place in text else f"{chunk.place}: {text}"


@dataclass(frozen=True, eq=False)
class Batch:
    """Validated rows: what is compared, and the columns beside it as they stand in the table.

    kept : which rows of the table are left (weight 0 is out, aggregated rows stand twice); None: all
    notes, cells : what has been found out about the rows, and the cells that they lie in, for whoever asks again
    """

    pair: Pair
    chunk: Chunk
    kept: np.ndarray | None
    classes: tuple[Any, ...]
    ignored: int = 0
    notes: dict[Any, np.ndarray] = field(default_factory=dict)
    cells: dict[Any, np.ndarray] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.pair.rows

    def column(self, name: str) -> Column:
        """A column of all rows of the table; infinite numbers are refused."""
        try:
            return column(name, self.chunk.table[name])
        except MiscalError as error:
            raise type(error)(located(str(error), self.chunk)) from error

    def numbers(self, name: str) -> np.ndarray:
        """A numeric or date column as float64, NaN where missing; converted once."""
        if name not in self.notes:
            made = self.column(name)
            if made.nominal:
                where, hint = f"column '{name}' of {self.chunk.place}", "name it in --ignore, or store it as text"
                raise refusal("must hold numbers below 2**53, which a double can tell apart", where=where, hint=hint)
            self.notes[name] = self._kept(made.values)
        return self.notes[name]

    def levels(self, name: str) -> tuple[np.ndarray, Any, np.ndarray]:
        """A column as codes (-1 where missing) into its levels, an Arrow array of text or of numbers.

        The third are the codes of all rows of the table, those left out included: their levels are levels, too.
        """
        vector = settled(self.chunk.table[name], f"column '{name}'")
        if pa.types.is_boolean(vector.type):
            codes = numpy_of(vector.cast(pa.int32()), -1)
            return self._kept(codes), pa.array(["False", "True"]), codes
        if not pa.types.is_dictionary(vector.type):
            vector = vector.dictionary_encode()
        codes = numpy_of(vector.indices.cast(pa.int32()), -1)
        return self._kept(codes), _names(vector.dictionary, f"column '{name}' of {self.chunk.place}"), codes

    def _kept(self, values: np.ndarray) -> np.ndarray:
        return locked(values if self.kept is None else values[self.kept])


def _names(dictionary: Any, where: str) -> Any:
    """Levels as text, numbers as numbers; null for a null inside the dictionary."""
    kind = dictionary.type
    if pa.types.is_string(kind):
        return dictionary
    try:
        if pa.types.is_integer(kind):
            return dictionary.cast(pa.int64())
        if pa.types.is_floating(kind):
            return pc.if_else(pc.is_nan(dictionary), pa.scalar(None, pa.float64()), dictionary.cast(pa.float64()))
        if pa.types.is_large_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return dictionary.cast(pa.string())
        return pa.array([None if level is None else str(level) for level in dictionary.to_pylist()], pa.string())
    except (pa.ArrowException, UnicodeDecodeError, ValueError) as error:
        raise refusal("must hold text in UTF-8", where=where, got=str(error).splitlines()[0]) from error

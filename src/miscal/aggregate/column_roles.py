"""Which column of a table has which role, and one validated batch of its rows."""

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
from miscal.data.target import TargetData, select_target

ROW_NUMBER = "__row_of_batch__"  # a column that is added to a batch whose rows are left out or repeated
MASK_BYTES = 1 << 24  # of a batch, for keeping where conditions hold


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table.

    Attributes
    ----------
    table : pyarrow.Table
    location : str
        The part of the source that they come from, as messages name it.
    row_in_part, row_in_table : int
        The number of the first of them in that part, and in the whole table.
    """

    table: Any
    location: str
    row_in_part: int = 0
    row_in_table: int = 0


class ColumnRoles(sources.ReadRoles):
    """Which column has which role, for passes over a table."""

    @classmethod
    def from_options(cls, function: str, options: Plain) -> "ColumnRoles":
        """The roles that a public function was given; an unknown option is rejected in that function's name."""
        unknown = options.keys() - signature(cls).parameters.keys()
        if unknown:
            raise TypeError(f"{function}() got an unexpected keyword argument '{min(unknown)}'")
        return cls(**options)

    @property
    def summed_columns(self) -> list[str]:
        """Columns that sums are made of: all but clusters and ids."""
        return list(dict.fromkeys(name for role, name in self.named if role not in ("cluster", "id")))

    def open(self, chunk: Chunk, target: str | int = "auto") -> "Batch":
        """Validate a chunk. An error names the location and the row in it."""
        table = chunk.table
        if self.weight is not None or self.count is not None:  # rows may be left out or repeated
            table = table.append_column(ROW_NUMBER, arrow_of(np.arange(table.num_rows)))
        other_columns = [name for name in table.column_names if name != self.outcome]
        try:
            predictions = replace(self, cluster=None, id=None).read(table, other_columns, part=chunk.location)
            return Batch(
                target_data=select_target(predictions, target),
                columns=predictions.columns,
                chunk=chunk,
                classes=predictions.classes,
                ignored=predictions.ignored,
            )
        except MiscalError as error:
            raise error.with_text(with_location(error.template, chunk)) from error


def with_location(message: str, chunk: Chunk) -> str:
    """Add the location to a message, and count the row that it names from the start of the part."""
    message = re.sub(
        r"\brow (\d+) (?=has|is)",
        lambda match: f"row {int(match[1]) + chunk.row_in_part} ",
        message,
        count=1,
    )
    return message if chunk.location in message else f"{chunk.location}: {message}"


@dataclass(frozen=True, eq=False)
class Batch:
    """Validated rows: the target data and the other columns.

    Attributes
    ----------
    target_data : TargetData
    columns : Columns
        Columns beside the outcome, of the rows that are not left out.
    chunk : Chunk
        The rows as they were read.
    classes : tuple
        Labels of the outcome in these rows.
    ignored : int
        Rows left out because their weight or count is 0.
    cache : dict
        Results that several requests share: positions between edges, where a condition holds.
    level_codes : dict
        Columns as levels, see `levels`.
    """

    target_data: TargetData
    columns: Columns
    chunk: Chunk
    classes: tuple[Any, ...]
    ignored: int = 0
    cache: dict[Any, Array] = field(default_factory=dict)
    level_codes: dict[str, tuple[Array, Any, Array]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.target_data.rows

    def column(self, name: str) -> Column:
        """A column, converted once; infinite numbers are rejected."""
        try:
            return self.columns[name]
        except MiscalError as error:
            raise error.with_text(with_location(error.template, self.chunk)) from error

    def numbers(self, name: str) -> Array:
        """A numeric or date column as float64, NaN where missing."""
        column = self.column(name)
        if column.nominal:
            where = f"column '{name}' of {self.chunk.location}"
            hint = "name it in --ignore, or store it as text"
            raise refusal("must hold numbers below 2**53, which a double can tell apart", where, hint=hint)
        return column.values

    def levels(self, name: str) -> tuple[Array, Any, Array]:
        """A column as levels.

        Returns
        -------
        codes : ndarray of int32
            The level of each row, -1 where it is missing.
        names : pyarrow.Array
            The levels, text or numbers, in any order.
        occurring : ndarray
            Codes of the levels that occur, also in rows that are left out.
        """
        if name not in self.level_codes:
            if self._is_text(name):
                self.level_codes[name] = self._text_levels(name)
            else:
                column = self.column(name).as_levels()
                occurring = np.arange(len(column.levels))
                self.level_codes[name] = column.values, level_array(column.levels), occurring
        return self.level_codes[name]

    def _is_text(self, name: str) -> bool:
        kind = self.chunk.table.schema.field(name).type
        stored = kind.value_type if pa.types.is_dictionary(kind) else kind
        return bool(pa.types.is_string(stored) or pa.types.is_large_string(stored))

    def _text_levels(self, name: str) -> tuple[Array, Any, Array]:
        """The Arrow dictionary as it is: sorting it in every batch takes longer than reading the rows."""
        vector = settled(self.chunk.table[name], f"column '{name}'")
        if not pa.types.is_dictionary(vector.type):
            vector = vector.dictionary_encode()
        codes = locked(numpy_of(vector.indices.cast(pa.int32()), -1))
        names = vector.dictionary.cast(pa.string())
        if ROW_NUMBER not in self.columns:
            return codes, names, codes
        return locked(codes[self.columns[ROW_NUMBER].values.astype(np.int64)]), names, codes

    def _condition_mask(self, condition: Condition) -> Array:
        if not self._is_text(condition.column):
            return condition.rows({condition.column: self.column(condition.column)})
        codes, names, _ = self.levels(condition.column)
        return condition.slots([*names.to_pylist(), None])[codes]

    def satisfies(self, conjunction: Conjunction) -> Array:
        """Which rows satisfy all conditions; a condition that several conjunctions share is evaluated once."""
        mask = np.ones(self.rows, bool)
        for condition in conjunction.conditions:
            condition_mask = self.cache.get(condition)
            if condition_mask is None:
                condition_mask = self._condition_mask(condition)
                if len(self.cache) * self.rows < MASK_BYTES:
                    self.cache[condition] = condition_mask
            mask &= condition_mask
        return mask


def level_array(levels: Sequence[Any]) -> Any:
    """Levels as an Arrow array, without pandas: numbers as numbers, all others as text."""
    values = np.array(levels)
    if values.dtype.kind not in "iuf" or not values.size:
        return texts_of([*map(str, levels)])
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [None, pa.py_buffer(values)])


def positions_of(names: Any, known: Any) -> Array:
    """The position of each name among the known ones, then -1 for a missing value.

    A name that is not known has -2, a null among the names -1.
    """
    positions = numpy_of(pc.index_in(names, value_set=known), -2)
    is_null = numpy_of(names.is_null().cast(pa.int8()))
    return np.append(np.where(is_null, -1, positions), -1)

"""The door of a stream: one batch of a table, validated, as the pair that is compared and the columns beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from miscal.data.columns import column
from miscal.data.errors import MiscalError, refusal
from miscal.data.sources import read_part
from miscal.data.vectors import locked, numpy_of, settled
from miscal.engines.batches import Chunk
from miscal.pairs import Pair, pair

ROW = "__row_of_batch__"


@dataclass(frozen=True)
class Door:
    """Which columns are what; `open` validates a batch and gives its rows."""

    outcome: str
    probability: Any
    weight: str | None = None
    count: str | None = None
    positive: Any = None
    logit: bool = False
    clip: float = 0.0
    target: str | int = "auto"

    @property
    def probabilities(self) -> list[str]:
        """Columns of the probabilities, in the order given."""
        named = self.probability
        return list(named.values()) if isinstance(named, dict) else [named] if isinstance(named, str) else list(named)

    @property
    def columns(self) -> list[str]:
        """Columns that the pair needs."""
        beside = [name for name in (self.weight, self.count) if name]
        return list(dict.fromkeys([self.outcome, *self.probabilities, *beside]))

    def and_columns(self, names: Iterable[str]) -> list[str]:
        """Columns that the pair needs, then others, each once."""
        return list(dict.fromkeys([*self.columns, *names]))

    def open(self, chunk: Chunk) -> Batch | None:
        """Validate; None where no row has weight. A refusal names the place and the row in it."""
        try:
            return self._opened(chunk)
        except MiscalError as error:
            raise type(error)(_located(str(error), chunk)) from error

    def _opened(self, chunk: Chunk) -> Batch | None:
        table, columns = chunk.table, []
        if table.num_rows == 0:
            return None
        if self.weight is not None or self.count is not None:
            import pyarrow as pa

            table = table.append_column(ROW, pa.array(np.arange(table.num_rows)))
            columns = [ROW]
        found = read_part(
            table,
            outcome=self.outcome,
            probability=self.probability,
            weight=self.weight,
            count=self.count,
            positive=self.positive,
            logit=self.logit,
            clip=self.clip,
            columns=columns,
            where=chunk.place,
        )
        if found.rows == 0:
            return None
        kept = found.columns[ROW].values.astype(np.int64) if columns else None
        return Batch(_plain(pair(found, self.target)), chunk, kept, found.classes, found.ignored)


def _plain(compared: Pair) -> Pair:
    """The same pair with outcomes of one type: kernels are compiled once for each."""
    return replace(compared, observed=compared.observed.astype(np.uint8, copy=False), cluster=None)


def _located(text: str, chunk: Chunk) -> str:
    """Add the place, and count the row that a message names from the start of the place."""
    if chunk.first:
        text = re.sub(r"\brow (\d+) (?=has|is)", lambda found: f"row {int(found[1]) + chunk.first} ", text, count=1)
    return text if chunk.place in text else f"{chunk.place}: {text}"


@dataclass(frozen=True, eq=False)
class Batch:
    """Validated rows: what is compared, and the columns beside it as they stand in the table.

    kept : which rows of the table are left (weight 0 is out, aggregated rows stand twice); None: all
    """

    pair: Pair
    chunk: Chunk
    kept: np.ndarray | None
    classes: tuple[Any, ...]
    ignored: int = 0

    @property
    def rows(self) -> int:
        return self.pair.rows

    @cached_property
    def notes(self) -> dict[Any, Any]:
        """What jobs that share a pass have found out about the batch, for each other."""
        return {}

    @cached_property
    def _numbers(self) -> dict[str, np.ndarray]:
        return {}

    def numbers(self, name: str) -> np.ndarray:
        """A numeric or date column as float64, NaN where missing; converted once."""
        if name not in self._numbers:
            self._numbers[name] = self._as_numbers(name)
        return self._numbers[name]

    def _as_numbers(self, name: str) -> np.ndarray:
        try:
            made = column(name, self.chunk.table[name])
        except MiscalError as error:
            raise type(error)(_located(str(error), self.chunk)) from error
        if made.nominal:
            raise refusal(
                "must hold numbers that a double can tell apart",
                where=f"column '{name}' of {self.chunk.place}",
                got="it holds whole numbers beyond 2**53",
                hint="name it in --ignore, or store it as text",
            )
        return locked(made.values if self.kept is None else made.values[self.kept])

    def levels(self, name: str) -> tuple[np.ndarray, Any]:
        """A nominal column as codes (-1 where missing) into its names, an Arrow array of text."""
        import pyarrow as pa

        vector = settled(self.chunk.table[name], f"column '{name}'")
        if pa.types.is_boolean(vector.type):
            codes = vector.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
            return self._kept(codes), pa.array(["False", "True"])
        if not pa.types.is_dictionary(vector.type):
            vector = vector.dictionary_encode()
        indices = vector.indices
        if indices.null_count:
            indices = indices.fill_null(-1)
        codes = numpy_of(indices.cast(pa.int32()))
        return self._kept(codes), _names(vector.dictionary, f"column '{name}' of {self.chunk.place}")

    def _kept(self, codes: np.ndarray) -> np.ndarray:
        return locked(codes if self.kept is None else codes[self.kept])


def _names(dictionary: Any, where: str) -> Any:
    """Levels as text; null for a null inside the dictionary."""
    import pyarrow as pa

    if pa.types.is_string(dictionary.type):
        return dictionary
    try:
        if pa.types.is_large_string(dictionary.type) or pa.types.is_binary(dictionary.type):
            return dictionary.cast(pa.string())
        if pa.types.is_large_binary(dictionary.type):
            return dictionary.cast(pa.large_string()).cast(pa.string())
        return pa.array([None if level is None else str(level) for level in dictionary.to_pylist()], pa.string())
    except (pa.ArrowException, UnicodeDecodeError, ValueError) as error:
        raise refusal("must hold text in UTF-8", where=where, got=str(error).splitlines()[0]) from error

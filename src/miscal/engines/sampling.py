"""A uniform sample of a table's rows: those whose hash is smallest, the hash being that of seed, part and row number.

It depends neither on batches nor on threads, and samples of parts merge into that of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.engines.plan import Packed
from miscal.engines.rows import Batch, Door
from miscal.engines.seeds import row_hashes

HASH = "__hash__"


@dataclass(frozen=True, eq=False)
class SamplePass:
    """`most` rows of the table, all equally likely, with some of its columns."""

    door: Door
    names: tuple[str, ...]
    most: int
    seed: int = 0

    @property
    def columns(self) -> list[str]:
        return self.door.and_columns(self.names)

    def start(self) -> SampleState:
        return SampleState(self)


class SampleState:
    """The rows with the smallest hashes so far."""

    def __init__(self, job: SamplePass) -> None:
        self.job = job
        self.pieces: list[Any] = []
        self.rows = np.zeros(1, np.int64)
        self.limit = 2**64 - 1  # rows with a larger hash are out

    def add(self, batch: Batch) -> None:
        import pyarrow as pa

        hashes = row_hashes(batch, self.job.seed)
        self.rows += batch.rows
        chosen = np.flatnonzero(hashes <= np.uint64(self.limit))
        if batch.pair.count is not None and batch.kept is not None:  # an aggregated row stands twice, next to itself
            chosen = chosen[np.unique(batch.kept[chosen], return_index=True)[1]]
        if chosen.size:
            rows = chosen if batch.kept is None else batch.kept[chosen]
            table = plain_text(batch.chunk.table.select(self.job.columns).take(pa.array(rows)))
            self._take(table.append_column(HASH, pa.array(hashes[chosen])))

    def _take(self, table: Any) -> None:
        self.pieces.append(table)
        if sum(piece.num_rows for piece in self.pieces) > 2 * self.job.most:
            self._settle()

    def _settle(self) -> None:
        import pyarrow as pa

        if not self.pieces:
            return
        table = pa.concat_tables(self.pieces, promote_options="permissive").sort_by(HASH).slice(0, self.job.most)
        self.pieces = [table]
        if table.num_rows == self.job.most:
            self.limit = int(table[HASH][-1].as_py())

    def table(self) -> Any:
        """The sample, in the order of its hashes."""
        self._settle()
        return self.pieces[0].drop_columns([HASH]) if self.pieces else None

    def arrays(self) -> Packed:
        import pyarrow as pa

        self._settle()
        packed: Packed = {"rows": self.rows}
        if self.pieces:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self.pieces[0].schema) as writer:
                writer.write_table(self.pieces[0])
            packed["table"] = np.frombuffer(sink.getvalue(), np.uint8)
        return packed

    def merge(self, packed: Packed) -> None:
        import pyarrow as pa

        self.rows += packed["rows"]
        if "table" in packed:
            with pa.ipc.open_stream(pa.py_buffer(packed["table"].tobytes())) as reader:
                self._take(reader.read_all())


def plain_text(table: Any) -> Any:
    """Text as text: each batch has a dictionary of its own."""
    import pyarrow as pa

    for place, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(place, column.name, table[place].cast(column.type.value_type))
    return table

"""Sums per distinct score, and per combination of a few columns: what recalibrators are fitted from, exactly.

As long as there are not too many distinct combinations, a table of any length is no longer than they are. Where there
are too many, scores are taken by buckets and count as the mean of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.engines.buckets import KeyMap
from miscal.engines.plan import Packed
from miscal.engines.rows import Batch, Door

SCORE, BUCKET, OUTCOME, HALF = "__score__", "__bucket__", "__outcome__", "__half__"
WEIGHT, ROWS, PREDICTED = "__weight__", "__rows__", "__predicted__"
SUMS = (WEIGHT, ROWS, PREDICTED)
LEAST_PENDING = 1 << 20


@dataclass(frozen=True, eq=False)
class DistinctPass:
    """Weight and rows of each combination of score, outcome and columns.

    most : combinations beyond which it gives up (`over`)
    buckets : take scores by buckets;  halves : tell two halves of the rows apart, by a hash of their place
    """

    door: Door
    names: tuple[str, ...] = ()
    most: int = 1 << 22
    buckets: KeyMap | None = None
    halves: bool = False

    @property
    def columns(self) -> list[str]:
        return self.door.and_columns(self.names)

    def start(self) -> DistinctState:
        return DistinctState(self)


class DistinctState:
    """A table of combinations, and pieces not yet added to it."""

    def __init__(self, job: DistinctPass) -> None:
        self.job = job
        self.pieces: list[Any] = []
        self.pending = 0
        self.over = False

    def add(self, batch: Batch) -> None:
        if not self.over:
            self._take(_added(self._table(batch)))

    def _table(self, batch: Batch) -> Any:
        import pyarrow as pa

        pair, job = batch.pair, self.job
        first = np.ones(pair.rows) if pair.first is None else pair.first
        columns: dict[str, Any] = {OUTCOME: pair.observed}
        if job.buckets is None:
            columns[SCORE] = pair.predicted + 0.0  # -0.0 becomes 0.0
        else:
            columns[BUCKET] = job.buckets.codes(pair.predicted)
        for name in job.names:
            columns[name] = self._values(batch, name)
        if job.halves:
            columns[HALF] = halves_of(batch)
        columns[WEIGHT], columns[PREDICTED] = first, first * pair.predicted
        columns[ROWS] = np.ones(pair.rows, np.int64) if pair.count is None else pair.count
        return pa.table(columns)

    @staticmethod
    def _values(batch: Batch, name: str) -> Any:
        import pyarrow as pa

        column = batch.chunk.table.schema.field(name).type
        if any(test(column) for test in (pa.types.is_dictionary, pa.types.is_string, pa.types.is_boolean)):
            codes, names = batch.levels(name)
            return names.take(pa.array(codes, mask=codes < 0))
        values = batch.numbers(name) + 0.0
        return pa.array(values, mask=np.isnan(values))

    def _take(self, table: Any) -> None:
        self.pieces.append(table)
        self.pending += table.num_rows
        if self.pending > max(LEAST_PENDING, 2 * self.pieces[0].num_rows):
            self._settle()

    def _settle(self) -> None:
        import pyarrow as pa

        if len(self.pieces) > 1:
            self.pieces = [_added(pa.concat_tables(self.pieces))]
        self.pending = self.pieces[0].num_rows if self.pieces else 0
        if self.pending > self.job.most:
            self.over, self.pieces, self.pending = True, [], 0

    def table(self) -> Any:
        """All combinations, in the order of their columns; None if there are too many or none."""
        self._settle()
        if not self.pieces:
            return None
        keys = [name for name in self.pieces[0].column_names if name not in SUMS]
        return self.pieces[0].sort_by([(name, "ascending") for name in keys])

    def arrays(self) -> Packed:
        import pyarrow as pa

        self._settle()
        packed = {"over": np.array([self.over])}
        if self.pieces:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self.pieces[0].schema) as writer:
                writer.write_table(self.pieces[0])
            packed["table"] = np.frombuffer(sink.getvalue(), np.uint8)
        return packed

    def merge(self, packed: Packed) -> None:
        import pyarrow as pa

        if bool(packed["over"][0]):
            self.over, self.pieces, self.pending = True, [], 0
        elif "table" in packed and not self.over:
            with pa.ipc.open_stream(pa.py_buffer(packed["table"].tobytes())) as reader:
                self._take(reader.read_all())


def _added(table: Any) -> Any:
    """Sums of equal combinations."""
    keys = [name for name in table.column_names if name not in SUMS]
    found = table.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in SUMS])
    return found.rename_columns([name.removesuffix("_sum") for name in found.column_names]).select([*keys, *SUMS])


def halves_of(batch: Batch) -> np.ndarray:
    """0 or 1 for each row, from where it stands alone."""
    from zlib import crc32

    place = np.arange(batch.rows, dtype=np.uint64) + np.uint64(batch.chunk.first)
    with np.errstate(over="ignore"):
        mixed = (place + np.uint64(crc32(batch.chunk.place.encode()))) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray((mixed >> np.uint64(63)).astype(np.uint8))

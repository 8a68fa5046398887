"""The rows of a table as `Predictions`: all of them if they fit in memory, otherwise a random sample.

Whether a row is in the sample depends only on a hash of its number in the table and on the number of rows: not on its
batch, the name of its file, the threads, or the rows before it.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from miscal.aggregate.column_roles import Chunk, ColumnRoles
from miscal.aggregate.in_memory import tally
from miscal.aggregate.requests import SCORE, RangeCells
from miscal.aggregate.source import (
    MAX_TEXT_BYTES,
    Excluded,
    Packed,
    check_row_count,
    concat_tables,
    decode_dictionaries,
)
from miscal.aggregate.streaming import CellSumsState, with_units
from miscal.aggregate.summary import GRID
from miscal.aggregate.tally import Tally
from miscal.cells.partitions import OF_SCORE, BinPooling, Ranges
from miscal.codes.data import ColumnKind
from miscal.data.arrays import Array, arrow_of, frame_of, numpy_of
from miscal.data.checks import memory_bytes
from miscal.data.column_types import column_type, kind_of
from miscal.data.columns import EXACT, column
from miscal.data.errors import MiscalError, refusal
from miscal.data.libraries import pa, pc
from miscal.data.predictions import Predictions
from miscal.data.target import select_target
from miscal.kernels.simulate import hashed_below

ROW_NUMBER = "__number_of_row__"
# Any number but 0, with which the first row would always be in the sample.
HASH_SEED = np.uint64(0x6D697363616C)
SLACK = 1.25  # rows held, relative to the limit, above which those no longer in the sample are dropped
# The interpreter, the libraries, batches, and what an audit keeps of cells and levels.
WORKING_BYTES = 600 << 20
COPIES = 5  # memory of an audit, relative to the gathered rows
ROLE_BYTES = 120  # of a row's outcome, score and weight, and of what is computed from them
MIN_SAMPLE_ROWS = 50_000  # gathered under any memory limit: a few tens of megabytes
BYTES_BEFORE_LEVELS = 430 * 10**6
BYTES_PER_TESTED_LEVEL = 4_500
BYTES_PER_ADDED_LEVEL = 1_300
MANY_LEVELS = 10_000


def rows_that_fit(memory: Any, kinds: Mapping[str, str], texts: Mapping[str, float]) -> int:
    """The number of rows that an audit can hold within a memory limit.

    Parameters
    ----------
    memory : str or int
        The limit.
    kinds : mapping of str to str
        The kind of each column.
    texts : mapping of str to float
        Average bytes of a value, by text column.
    """
    limit = memory_bytes(memory)
    row_bytes = ROLE_BYTES + COPIES * sum(column_type(kind).bytes_per_value for kind in kinds.values())
    text_bytes = sum(size for name, size in texts.items() if name in kinds and size <= MAX_TEXT_BYTES)
    min_rows = min(MIN_SAMPLE_ROWS, int(limit // (16.0 * max(text_bytes, 1.0))))
    return max(int((limit - WORKING_BYTES) // (row_bytes + text_bytes)), min_rows)


def levels_that_fit(memory: Any, predictions: Predictions, level_bytes: int = BYTES_PER_TESTED_LEVEL) -> int:
    """The number of levels that a column may have within a memory limit, shared by columns with many levels."""
    n_large = sum(len(column.levels) > MANY_LEVELS for column in predictions.columns.values())
    available = memory_bytes(memory) - BYTES_BEFORE_LEVELS
    return max(int(available // (level_bytes * max(n_large, 1))), MANY_LEVELS)


def default_memory_limit() -> int:
    """Half of the machine's memory in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return 4 * 10**9


@dataclass(frozen=True, eq=False)
class GatheredRows:
    """All rows of a table, or a sample of them.

    Attributes
    ----------
    predictions : Predictions
    rows : int
        Rows of the table, before any is left out.
    ignored : int
        How many of them have weight 0 or count 0.
    complete : bool
        Whether the predictions are all rows.
    excluded : tuple of (str, str)
        Columns that could not be used, with the reason.
    scores : Tally or None
        All rows by a fine grid of the score, if requested or if the predictions are a sample.
    roles : ColumnRoles or None
        The roles and units with which a sample was drawn.
    """

    predictions: Predictions
    rows: int
    ignored: int
    complete: bool
    excluded: Excluded = ()
    scores: Tally | None = None
    roles: ColumnRoles | None = None


def gather(
    source: Any,
    roles: ColumnRoles,
    columns: Iterable[str] | None = None,
    *,
    limit: int | None = None,
    target: str | int = "auto",
    scores: bool = False,
) -> GatheredRows:
    """The rows of a table, validated as `miscal.read` does; at most about `limit` of them.

    Parameters
    ----------
    source : Source
        What `open_source` returned.
    roles : ColumnRoles
    columns : iterable of str, optional
        Columns to keep beside the predictions; by default all others that can be used.
    limit : int, optional
        Rows that may be gathered; by default all.
    target : str or int
        The target whose scores `scores` are, as in `miscal.data.target.select_target`.
    scores : bool
        Whether to add up all rows by a fine grid of the score even if they fit; for a sample this is always done.

    Returns
    -------
    GatheredRows

    Notes
    -----
    A sample has no clusters and no ids.
    """
    skipped = {*roles.names, *source.unusable}
    kept = [name for name in source.kinds if name not in skipped] if columns is None else [*columns]
    excluded = (*source.excluded, *source.unusable.items())
    columns_read = list(dict.fromkeys([*roles.names, *kept]))
    source.check_columns(columns_read)
    _check_text_lengths(source, columns_read)
    if limit is None or (source.rows is not None and source.rows <= limit):
        all_rows = _load_all(source, roles, kept, columns_read, excluded)
        if not scores:
            return all_rows
        target_data = select_target(all_rows.predictions, target)
        pooling = BinPooling(target_data.predicted, Ranges(GRID, name=OF_SCORE))
        return replace(all_rows, scores=tally(target_data, pooling))
    roles = with_units(source, roles)
    state = source.run(partial(SampleState, roles, tuple(kept), limit, source.rows, target))
    state.cell_sums.check_labels()
    check_row_count(source, state.rows)
    if not state.rows:
        raise refusal("must have at least one row", source.description, got="it is empty")
    complete = state.rows <= limit
    sample_roles = roles if complete else replace(roles, cluster=None, id=None)
    table = state.table()
    large = {name: column(name, table[name]).as_levels() for name in compress(kept, state.has_large_integers)}
    return GatheredRows(
        predictions=sample_roles.read({**frame_of(table, source.description), **large}, kept),
        rows=state.rows,
        ignored=int(state.cell_sums.totals[1]),
        complete=complete,
        excluded=excluded,
        scores=state.cell_sums.tallies(recalibrated=False)[state.score_grid],
        roles=roles,
    )


def _check_text_lengths(source: Any, names: Iterable[str]) -> None:
    for name in names:
        size = source.text_bytes.get(name, 0.0)
        if size > MAX_TEXT_BYTES:
            what = f"must hold texts of at most {MAX_TEXT_BYTES} bytes on average"
            where, got = f"column '{name}' of {source.description}", f"they have {size:,.0f}"
            raise refusal(what, where, got=got, hint="give numbers or shorter names for them")


def _load_all(
    source: Any, roles: ColumnRoles, kept: list[str], columns_read: list[str], excluded: Excluded
) -> GatheredRows:
    table = source.load(columns_read)
    several_parts = source.parts > 1
    try:
        predictions = roles.read(table, kept)
        if several_parts:
            for name in kept:
                predictions.columns[name]  # converted now, while an error can still name the part
    except MiscalError:
        if several_parts:  # validate part by part: that error names the part and the row in it
            source.run(partial(SampleState, roles, tuple(kept), 1, source.rows))
        raise
    rows = table.num_rows if source.rows is None else source.rows
    check_row_count(source, rows)
    return GatheredRows(predictions, rows, predictions.ignored, complete=True, excluded=excluded)


@dataclass(eq=False)
class SampleState:
    """A sample of about `limit` rows, each equally likely; every row of the table is validated.

    Attributes
    ----------
    roles : ColumnRoles
    kept : tuple of str
        Columns to keep beside the predictions.
    limit : int
    table_rows : int or None
        Rows of the table, if known. If not, rows are dropped from the sample as more are read.
    target : str or int
        The target by whose scores all rows are added up.
    """

    roles: ColumnRoles
    kept: tuple[str, ...]
    limit: int
    table_rows: int | None = None
    target: str | int = "auto"

    def __post_init__(self) -> None:
        self.columns = list(dict.fromkeys([*self.roles.names, *self.kept]))
        self.pieces: list[Any] = []
        # Columns of integers some of which float64 would merge: they become levels, also if the sample has none.
        self.has_large_integers = np.zeros(len(self.kept), bool)
        self.score_grid = RangeCells(SCORE, GRID)
        self.cell_sums = CellSumsState(self.roles, self.target, (self.score_grid,))

    @property
    def rows(self) -> int:
        """Rows read so far."""
        return int(self.cell_sums.totals[0])

    def add(self, chunk: Chunk) -> None:
        """Validate a chunk, add its scores, and keep the rows that are in the sample."""
        table = chunk.table
        batch = self.roles.open(chunk, self.target)
        for position, name in enumerate(self.kept):
            kind = table.schema.field(name).type
            if kind_of(kind) == ColumnKind.NUMERIC:
                batch.column(name)  # infinite numbers are rejected
            elif kind_of(kind) == ColumnKind.INTEGER and kind.bit_width == 64:
                ends = pc.min_max(table[name]).as_py().values()
                largest = max(map(abs, filter(None, ends)), default=0)
                self.has_large_integers[position] |= largest >= EXACT
        self.cell_sums.add_batch(batch)
        rows = self._in_sample(np.arange(chunk.row_in_table, chunk.row_in_table + table.num_rows))
        sampled = table.select(self.columns)
        if rows.size < table.num_rows:
            sampled = sampled.take(arrow_of(rows))
        numbers = arrow_of(rows + chunk.row_in_table)
        self._append(decode_dictionaries(sampled).append_column(ROW_NUMBER, numbers))

    def _in_sample(self, numbers: Array) -> Array:
        """The positions of the row numbers that are in the sample."""
        positions, rows = np.empty(numbers.size + 1, np.int64), self.table_rows or self.rows
        hash_limit = 2**64 - 1 if rows <= self.limit else self.limit * 2**64 // rows
        return positions[: hashed_below(numbers, HASH_SEED, hash_limit, positions)]

    def _append(self, table: Any) -> None:
        self.pieces.append(table)
        if self.table_rows is None and sum(piece.num_rows for piece in self.pieces) > SLACK * self.limit:
            self._drop_rows()

    def _drop_rows(self) -> None:
        """Drop the rows that are not in the sample, given the number of rows read so far."""
        self.pieces = [piece.take(arrow_of(self._in_sample(_row_numbers(piece)))) for piece in self.pieces]

    def table(self) -> Any:
        """The sample in the order of the table."""
        if self.rows > self.limit and self.table_rows is None:
            self._drop_rows()
        table = concat_tables(self.pieces)
        if np.any(np.diff(_row_numbers(table)) < 0):
            table = table.sort_by(ROW_NUMBER)
        return table.drop_columns([ROW_NUMBER])

    def arrays(self) -> Packed:
        """Everything, as arrays by name; the rows as an Arrow stream."""
        packed = self.cell_sums.arrays() | {"has_large_integers": self.has_large_integers}
        if self.pieces:
            table = concat_tables(self.pieces)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            packed["table"] = np.frombuffer(sink.getvalue(), np.uint8)
        return packed

    def merge(self, packed: Packed) -> None:
        """Add what another state packed."""
        self.cell_sums.merge(packed)
        self.has_large_integers |= packed["has_large_integers"]
        if "table" in packed:
            self._append(pa.ipc.open_stream(pa.py_buffer(packed["table"])).read_all())


def _row_numbers(table: Any) -> Array:
    """The numbers that the rows of a sample have in the table."""
    return numpy_of(table[ROW_NUMBER].combine_chunks())

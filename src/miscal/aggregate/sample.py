"""The rows of a table as `Predictions`: all of them where they fit, otherwise a sample of as many as may be.

A row is in the sample where a hash of its number in the table is small enough for the number of rows there are, and
for no other reason: not for its batch, its file's name, the threads, or the rows before it.
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
from miscal.aggregate.source import LONG, Aside, Packed, check_row_count, joined, plain_text
from miscal.aggregate.streaming import AddState, in_units
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
from miscal.data.target import pair
from miscal.kernels.simulate import hashed_below

SHORTER = "give numbers or shorter names for them"
NUMBER = "__number_of_row__"
START = np.uint64(0x6D697363616C)  # of the hashes: any number but 0, which would always take the first row
SLACK = 1.25  # a sample may have so many times its rows before those that are out are dropped
WORK = 600 << 20  # the interpreter, the libraries, batches, and what an audit keeps of cells and levels
COPIES = 5  # an audit needs about so many times what was gathered
ROLES = 120  # bytes of a row's outcome, score, weight and what is worked out from them
LEAST_ROWS = 50_000  # kept under any ceiling: a few tens of megabytes
# Bytes before there are levels, of each tested, of each added up.
LEVELS, LEVEL, ADDED = 430 * 10**6, 4_500, 1_300
MANY_LEVELS = 10_000


def rows_that_fit(memory: Any, kinds: Mapping[str, str], texts: Mapping[str, float]) -> int:
    """How many rows of columns of these kinds, and texts of these sizes, an audit can hold below a ceiling."""
    ceiling, row = (
        memory_bytes(memory),
        ROLES + COPIES * sum(column_type(kind).bytes_per_value for kind in kinds.values()),
    )
    text = sum(size for name, size in texts.items() if name in kinds and size <= LONG)
    least = min(LEAST_ROWS, int(ceiling // (16.0 * max(text, 1.0))))
    return max(int((ceiling - WORK) // (row + text)), least)


def levels_that_fit(memory: Any, predictions: Predictions, level: int = LEVEL) -> int:
    """How many levels a column may have below a ceiling of memory; columns of many share it."""
    many = sum(len(column.levels) > MANY_LEVELS for column in predictions.columns.values())
    room = memory_bytes(memory) - LEVELS
    return max(int(room // (level * max(many, 1))), MANY_LEVELS)


def half_of_memory() -> int:
    """Half of the machine's memory in bytes: the ceiling of what is loaded unless one is named."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):
        return 4 * 10**9


@dataclass(frozen=True, eq=False)
class GatheredRows:
    """Rows of a table.

    rows : how many the table has, before any is left out
    ignored : how many of them have weight 0 or count 0
    complete : whether the predictions are all of them
    aside : columns that could not be used, with the reason
    scores : all rows by a fine grid of the score, where it was asked for or not all rows are here
    roles : which columns are what, and in which units, where a sample was drawn
    """

    predictions: Predictions
    rows: int
    ignored: int
    complete: bool
    aside: Aside = ()
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
    source : what `open_source` gives
    columns : columns to keep beside the predictions; by default all others that can be used
    limit : rows that may be gathered; None: all
    target, scores : all rows by a fine grid of the score of this target, also where they fit; without, a sample's only

    A sample has no clusters and no ids.
    """
    left_out = {*roles.names, *source.unfit}
    kept = [name for name in source.kinds if name not in left_out] if columns is None else [*columns]
    aside = (*source.aside, *source.unfit.items())
    read = list(dict.fromkeys([*roles.names, *kept]))
    source.check(read)
    for name in read:
        if source.texts.get(name, 0.0) > LONG:
            where, got = f"column '{name}' of {source.words}", f"they have {source.texts[name]:,.0f}"
            raise refusal(f"must hold texts of at most {LONG} bytes on average", where, got=got, hint=SHORTER)
    if limit is None or (source.rows is not None and source.rows <= limit):
        found = _all(source, roles, kept, read, aside)
        if not scores:
            return found
        compared = pair(found.predictions, target)
        pooling = BinPooling(compared.predicted, Ranges(GRID, name=OF_SCORE))
        return replace(found, scores=tally(compared, pooling))
    roles = in_units(source, roles)
    state = source.run(partial(SampleState, roles, tuple(kept), limit, source.rows, target))
    state.added.check_labels()
    check_row_count(source, state.rows)
    if not state.rows:
        raise refusal("must have at least one row", source.words, got="it is empty")
    complete = state.rows <= limit
    chosen = roles if complete else replace(roles, cluster=None, id=None)
    table = state.table()
    wide = {name: column(name, table[name]).as_levels() for name in compress(kept, state.wide)}
    given = {**frame_of(table, source.words), **wide}
    made = chosen.read(given, kept)
    grid = state.added.tallies(recalibrated=False)[state.score_grid]
    return GatheredRows(made, state.rows, int(state.added.totals[1]), complete, aside, grid, roles)


def _all(source: Any, roles: ColumnRoles, kept: list[str], read: list[str], aside: Aside) -> GatheredRows:
    table = source.loaded(read)
    several = source.parts > 1
    try:
        made = roles.read(table, kept)
        if several:
            for name in kept:
                made.columns[name]  # converted now: what is wrong with it can still be found
    except MiscalError:
        if several:  # a batch that is refused by itself names the place
            source.run(partial(SampleState, roles, tuple(kept), 1, source.rows))
        raise
    rows = table.num_rows if source.rows is None else source.rows
    check_row_count(source, rows)
    return GatheredRows(made, rows, made.ignored, True, aside)


@dataclass(eq=False)
class SampleState:
    """About `limit` rows of a table, all equally likely, as far as the rows seen so far tell; every row is validated.

    total : how many rows the table has, where it is known
    """

    roles: ColumnRoles
    kept: tuple[str, ...]
    limit: int
    total: int | None = None
    target: str | int = "auto"

    def __post_init__(self) -> None:
        self.columns = list(dict.fromkeys([*self.roles.names, *self.kept]))
        self.pieces: list[Any] = []
        # Whole numbers some of which float64 would merge: levels, also where the sample has none of those.
        self.wide = np.zeros(len(self.kept), bool)
        self.score_grid = RangeCells(SCORE, GRID)
        self.added = AddState(self.roles, self.target, (self.score_grid,))

    @property
    def rows(self) -> int:
        return int(self.added.totals[0])

    def add(self, chunk: Chunk) -> None:
        table = chunk.table
        batch = self.roles.open(chunk, self.target)
        for place, name in enumerate(self.kept):
            kind = table.schema.field(name).type
            if kind_of(kind) == ColumnKind.NUMERIC:
                batch.column(name)  # infinite numbers are refused
            elif kind_of(kind) == ColumnKind.INTEGER and kind.bit_width == 64:
                ends = pc.min_max(table[name]).as_py().values()
                self.wide[place] |= max(map(abs, filter(None, ends)), default=0) >= EXACT
        self.added.add_batch(batch)
        rows = self._among(np.arange(chunk.row, chunk.row + table.num_rows))
        taken = table.select(self.columns)
        if rows.size < table.num_rows:
            taken = taken.take(arrow_of(rows))
        self._take(plain_text(taken).append_column(NUMBER, arrow_of(rows + chunk.row)))

    def _among(self, numbers: Array) -> Array:
        """Which rows of these numbers are in the sample, by a hash of the number."""
        found, rows = np.empty(numbers.size + 1, np.int64), self.total or self.rows
        limit = 2**64 - 1 if rows <= self.limit else self.limit * 2**64 // rows
        return found[: hashed_below(numbers, START, limit, found)]

    def _take(self, table: Any) -> None:
        self.pieces.append(table)
        if self.total is None and sum(piece.num_rows for piece in self.pieces) > SLACK * self.limit:
            self._settle()

    def _settle(self) -> None:
        """Drop the rows that are out."""
        self.pieces = [piece.take(arrow_of(self._among(_numbers(piece)))) for piece in self.pieces]

    def table(self) -> Any:
        """The sample in the order of the table."""
        if self.rows > self.limit and self.total is None:
            self._settle()
        table = joined(self.pieces)
        numbers = _numbers(table)
        if np.any(np.diff(numbers) < 0):
            table = table.sort_by(NUMBER)
        return table.drop_columns([NUMBER])

    def arrays(self) -> Packed:
        packed = self.added.arrays() | {"wide": self.wide}
        if self.pieces:
            table = joined(self.pieces)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            packed["table"] = np.frombuffer(sink.getvalue(), np.uint8)
        return packed

    def merge(self, packed: Packed) -> None:
        self.added.merge(packed)
        self.wide |= packed["wide"]
        if "table" in packed:
            self._take(pa.ipc.open_stream(pa.py_buffer(packed["table"])).read_all())


def _numbers(table: Any) -> Array:
    """The numbers that the rows of a sample have in the table."""
    return numpy_of(table[NUMBER].combine_chunks())

"""An open table: its columns, its rows in typed batches, and passes over them.

A pass needs one thing: a picklable call without arguments that returns an empty state. `State.add` adds a chunk of
rows, `arrays` packs the state and `merge` adds what another worker packed. The pass runs on threads of this process,
or, for a Spark DataFrame, on the executors. Nothing but packed states leaves a worker.
"""

import contextlib
import mmap
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Protocol

from miscal.aggregate.column_roles import Chunk
from miscal.codes.data import ColumnKind
from miscal.data.arrays import Array
from miscal.data.checks import memory_bytes
from miscal.data.column_types import kind_of
from miscal.data.errors import check_named, refusal
from miscal.data.files import TypesChanged
from miscal.data.libraries import pa, pc
from miscal.data.text_types import form_of, kind_of_form, parsed
from miscal.kernels.threads import one_of_many, thread_count

MEGABYTE = 1 << 20
BATCH_ROWS = 1 << 20
HEAD_ROWS = 20_000  # on which the types of text columns are inferred
TEXT_SAMPLE_ROWS = 1_000  # on which the average length of texts is measured
MAX_TEXT_BYTES = 500  # on average: longer texts are not categories
FIXED_BYTES = 400 * MEGABYTE  # the interpreter, the libraries, the sums
BYTES_PER_THREAD = 256 << 20
MIN_BATCH_BYTES = 40 * MEGABYTE
MIN_BATCH_ROWS = 1 << 14
MIN_ROWS_TO_RELEASE = 100_000  # the memory of fewer rows is not worth the time
PAGE_BYTES = mmap.PAGESIZE
Packed = dict[str, Array]
Excluded = tuple[tuple[str, str], ...]  # columns that cannot be used, with the reason
Progress = Callable[[str, int, int], None]


class State(Protocol):
    """What a pass knows of some of the rows; the package's docstring has the rules and an example."""

    @property
    def columns(self) -> list[str]:
        """Columns that the pass reads."""

    def add(self, chunk: Chunk) -> None:
        """Add a chunk of rows."""

    def arrays(self) -> Packed:
        """Everything, as arrays by name."""

    def merge(self, packed: Packed) -> None:
        """Add what another state packed."""


Start = Callable[[], State]


def check_row_count(source: Any, rows: int) -> None:
    """Reject a table that has another number of rows than in the pass before."""
    if source.previous_rows not in (None, rows):
        got = f"{source.previous_rows:,} rows, then {rows:,}"
        raise refusal(
            "has changed between two passes", source.description, got=got, hint="read a copy that stays"
        )
    source.previous_rows = rows


def open_source(data: Any, memory: Any = None, progress: Progress | None = None) -> Any:
    """Open a table.

    Parameters
    ----------
    data : path, frame, mapping or lazy frame
        A file, a folder or a pattern; a frame of any library; a polars LazyFrame, a DuckDB relation, a Dask frame, an
        Arrow dataset or a Spark DataFrame.
    memory : str or int, optional
        A memory limit such as "1GB". By default there is none.
    progress : callable, optional
        Called with the name of a pass, the number of parts that are done, and of all.

    Returns
    -------
    Source
    """
    memory_limit = None if memory is None else memory_bytes(memory)
    from miscal.aggregate.readers import source_of

    source = source_of(data)
    source.text_bytes = source.measure_texts() if source.has_unmeasured_texts else {}
    source.memory_limit, source.progress = memory_limit, progress
    source.plan_resources(memory_limit or sys.maxsize)
    return source


class Source:
    """A table as parts that can be read repeatedly, each of them as Arrow tables, batch by batch.

    Subclasses set `types` and `part_rows` and define `part_tables`.

    Attributes
    ----------
    description : str
        How messages name the table.
    types : mapping of str to pyarrow.DataType
        The type of each column as stored.
    part_rows : sequence of int or None
        Rows of each part; None if they are known only after reading.
    excluded : sequence of (str, str)
        Columns that cannot be used, with the reason.
    text_bytes : mapping of str to float
        Average length of the values of each text column.
    text_formats : mapping of str to str
        Format of each text column that stands for numbers or dates.
    has_unmeasured_texts : bool
        Whether `open_source` measures `text_bytes`: not if the rows are in memory, or never will be.
    memory_limit : int or None
        In bytes.
    passes : int
        Passes so far.
    previous_rows : int or None
        Rows of the table in the previous pass; the next must have as many.
    threads, batch_rows, reads_ahead : int, int, bool
        Set by `plan_resources`.
    """

    description = "the table"
    types: Mapping[str, Any]
    part_rows: Sequence[int | None] = (None,)
    excluded: Sequence[tuple[str, str]] = ()
    text_bytes: Mapping[str, float] = MappingProxyType({})
    text_formats: Mapping[str, str] = MappingProxyType({})
    has_unmeasured_texts = True
    memory_limit: int | None = None
    progress: Progress | None = None
    passes = 0
    previous_rows: int | None = None

    def plan_resources(self, memory_limit: int) -> None:
        """Choose the number of threads and of rows per batch, so that all threads stay below the memory limit."""
        allowed = min(thread_count(), max(1, memory_limit // BYTES_PER_THREAD))
        self.threads = min(allowed, max(self.parts, 1))
        self.reads_ahead = (
            allowed > 1
        )  # a table of one part is decoded on another thread, if there may be one
        row_bytes = 100 + 24 * len(self.kinds)  # decoded, as float64, as codes; and what memory pools keep
        rows = max(memory_limit - FIXED_BYTES, MIN_BATCH_BYTES) // (self.threads * row_bytes)
        self.batch_rows = min(max(rows, MIN_BATCH_ROWS), BATCH_ROWS)

    @property
    def names(self) -> list[str]:
        """The columns."""
        return list(self.types)

    @property
    def kinds(self) -> dict[str, ColumnKind]:
        """What each column is: numeric, integer, date, category, boolean, or "" for what cannot be used."""
        inferred = {name: kind_of_form(text_format) for name, text_format in self.text_formats.items()}
        return self._stored_kinds() | inferred

    def _stored_kinds(self) -> dict[str, ColumnKind]:
        return {name: kind_of(stored) for name, stored in self.types.items()}

    @property
    def unusable(self) -> dict[str, str]:
        """Columns that no audit can use, with the reason."""
        reasons = {name: "it holds no plain values" for name, kind in self.kinds.items() if not kind}
        for name, size in self.text_bytes.items():
            if size > MAX_TEXT_BYTES:
                reasons[name] = f"its texts have {size:,.0f} bytes on average"
        return reasons

    def measure_texts(self) -> dict[str, float]:
        """Average bytes of a value of each text column, on a few rows of the first or the last part if larger."""
        names = [name for name, kind in self.kinds.items() if kind == ColumnKind.CATEGORY]
        sizes = dict.fromkeys(names, 0.0)
        for part in {0, self.parts - 1} if names and self.parts else ():
            head = self._first_table(part, names)
            for name in names if head is not None else ():
                values = decode_dictionaries(head.select([name]).slice(0, TEXT_SAMPLE_ROWS))[name]
                if kind_of(values.type) == ColumnKind.CATEGORY:
                    lengths = pc.binary_length(values.cast(pa.large_binary()))
                    sizes[name] = max(sizes[name], pc.mean(lengths).as_py() or 0.0)
        return sizes

    def _first_table(self, part: int, names: Sequence[str]) -> Any:
        while True:
            with contextlib.suppress(TypesChanged):
                return next(self.part_tables(part, names, TEXT_SAMPLE_ROWS), None)

    @property
    def parts(self) -> int:
        """Number of parts that can be read by themselves."""
        return len(self.part_rows)

    @property
    def rows(self) -> int | None:
        """Number of rows, or None if it is known only after reading."""
        known = [rows for rows in self.part_rows if rows is not None]
        return sum(known) if len(known) == self.parts else None

    def part_name(self, part: int) -> str:  # noqa: ARG002
        """How messages name a part."""
        return self.description

    def check_columns(self, columns: Sequence[str]) -> None:
        """Reject parts that lack columns, or have them in other types, before anything is read."""
        check_named(columns, self.names, self.description)

    def part_tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:
        """Read some columns of a part, as Arrow tables of at most about `batch_rows` rows."""
        raise NotImplementedError

    def load_stored(self, columns: Sequence[str]) -> Any:
        """All rows of some columns, with text as stored."""
        parts = range(self.parts)
        return concat_tables([t for part in parts for t in self.part_tables(part, columns, BATCH_ROWS)])

    def load(self, columns: Sequence[str]) -> Any:
        """All rows of some columns, as a table that `miscal.read` takes."""
        return self._parse_texts(self.load_stored(columns))

    def _parse_texts(self, table: Any) -> Any:
        """The table with text that stands for numbers or dates parsed."""
        for name, text_format in self.text_formats.items():
            position = table.schema.get_field_index(name)
            if position >= 0:
                values = parsed(table[name], text_format, f"column '{name}'")
                table = table.set_column(position, name, values)
        return table

    def head(self, names: Sequence[str]) -> Any:
        """The first rows of some columns; None for a table without rows."""
        first = next(self.batches(names), None)
        return None if first is None else first.table.slice(0, HEAD_ROWS)

    def infer_text_types(self) -> dict[str, str]:
        """From now on parse text columns that stand for numbers or dates.

        Returns
        -------
        dict of str to str
            The format of each such column.
        """
        text = [
            name
            for name, kind in self.kinds.items()
            if kind == ColumnKind.CATEGORY and name not in self.unusable
        ]
        table: Any = self.head(text) if text else None
        formats = {}
        for name in text if table is not None else ():
            levels = pc.unique(decode_dictionaries(table.select([name]))[name]).to_pylist()
            formats[name] = form_of([level for level in levels if isinstance(level, str) and level.strip()])
        self.text_formats = {
            name: text_format for name, text_format in formats.items() if text_format is not None
        }
        return self.text_formats

    def batches(self, columns: Sequence[str], worker: int = 0, workers: int = 1) -> Iterator[Chunk]:
        """Some columns of all rows, in order.

        With several workers each reads some of the parts; which ones depends on the numbers of the parts alone.
        """
        row = 0
        for part in range(self.parts):
            if part % workers != worker:
                row += self.part_rows[part] or 0
                continue
            row += yield from self._chunks(part, columns, row)
            if worker == 0:
                self._release_above(7 / 8)
                if self.progress is not None:
                    self.progress(f"pass {self.passes}", part, self.parts)

    def _chunks(self, part: int, columns: Sequence[str], row: int) -> Generator[Chunk, None, int]:
        """The chunks of a part whose first row is row `row` of the table; returns how many rows it has."""
        rows_read, location, batch_rows = 0, self.part_name(part), self.batch_rows
        long = sum(
            size for name, size in self.text_bytes.items() if size > MAX_TEXT_BYTES and name in columns
        )
        if self.memory_limit is not None and long:
            rows_of_long_texts = self.memory_limit // int(16 * self.threads * long)
            batch_rows = min(batch_rows, max(rows_of_long_texts, 16))

        def chunk(table: Any) -> Chunk:
            nonlocal rows_read
            start = rows_read
            rows_read += table.num_rows
            return Chunk(self._parse_texts(table), location, start, row + start)

        # `map`, because a loop would hold each table until the next is decoded, which then needs other memory.
        chunks = map(chunk, self.part_tables(part, columns, batch_rows))
        yield from filter(lambda chunk: chunk.table.num_rows, chunks)
        return rows_read

    def run(self, start: Start) -> Any:
        """Run a pass.

        Parameters
        ----------
        start : callable
            Returns an empty state; picklable.

        Returns
        -------
        State
            The state of all rows.

        Notes
        -----
        The pass starts again if a CSV column turns out to have another type than its first rows suggested.
        """
        self.passes += 1
        try:
            while True:
                with contextlib.suppress(TypesChanged):
                    one_state = self.threads == 1 or self.rows is None
                    return self._run_here(start()) if one_state else self._run_on_threads(start)
        finally:
            self._release_above(4 / 8)  # what comes after a pass needs other memory

    def _run_here(self, state: State) -> State:
        """Fill one state; if another thread is allowed, it decodes the next batch meanwhile."""
        # The batches have no name here: the traceback of an error would hold them, and they every open file.
        return _fill(
            state,
            read_ahead(self.batches(state.columns)) if self.reads_ahead else self.batches(state.columns),
        )

    def _run_on_threads(self, start: Start) -> Any:
        """Fill a state on each thread and merge them; after an error or an interrupt all end at their next batch."""
        stop = threading.Event()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="miscal-stream") as pool:
            try:
                futures = [
                    pool.submit(self._run_worker, start(), worker, stop) for worker in range(self.threads)
                ]
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                stop.set()
        try:
            total, *others = (future.result() for future in futures)
        finally:
            del futures  # an error would hold them, and they the error, with every open file
        for other in others:
            total.merge(other.arrays())
        return total

    def _run_worker(self, state: State, worker: int, stop: threading.Event) -> State:
        """Fill the state of one worker with its parts."""
        with one_of_many():
            return _fill(
                state,
                takewhile(lambda _: not stop.is_set(), self.batches(state.columns, worker, self.threads)),
            )

    def _release_above(self, share: float) -> None:
        """Release unused memory if the process has more than this share of the limit: allocating anew costs time."""
        if self.memory_limit is not None and _resident_bytes() > share * self.memory_limit:
            release_memory()


def _fill(state: State, chunks: Iterator[Chunk]) -> State:
    try:
        for chunk in chunks:
            state.add(chunk)
            del chunk  # the next one is decoded into the same memory
    finally:
        del chunks  # the traceback of an error would keep the file open
    return state


def _resident_bytes() -> int:
    """Resident memory of this process; a huge number if the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  # called after every part
            return int(file.read().split()[1]) * PAGE_BYTES
    except OSError:
        return sys.maxsize


def release_memory(rows: int = MIN_ROWS_TO_RELEASE) -> None:
    """Return to the system memory that many rows needed for a moment; allocators would keep it."""
    if rows < MIN_ROWS_TO_RELEASE:
        return
    import ctypes

    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # only the GNU C library has it
        ctypes.CDLL(None).malloc_trim(0)


def read_ahead(iterator: Iterator[Any]) -> Iterator[Any]:
    """Advance an iterator on another thread, one item ahead."""
    with ThreadPoolExecutor(1, thread_name_prefix="miscal-reader") as pool:
        pending = pool.submit(next, iterator, None)
        while (item := pending.result()) is not None:
            pending = pool.submit(next, iterator, None)
            yield item
            del item


def concat_tables(tables: Sequence[Any]) -> Any:
    """Tables one after the other; integers and fractions become numbers, dictionaries become text."""
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables([decode_dictionaries(table) for table in tables], promote_options="permissive")


def decode_dictionaries(table: Any) -> Any:
    """The table with dictionary columns as plain text, since each batch has a dictionary of its own."""
    for position, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            values = table[position].cast(column.type.value_type)
            table = table.set_column(position, column.name, values)
    return table

"""A table, opened: its columns, its rows in typed batches, and passes over them.

A pass is told how to start: a plain, picklable call that gives an empty state. `add` puts a batch into it, `arrays`
packs it and `merge` adds what another worker packed. Threads of this process run it, or a cluster for its own frames;
nothing but packed states ever leaves a worker.
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
HEAD = 20_000  # rows that are looked at first
FEW_ROWS = 1_000  # whose texts tell how long those of a column are
LONG = 500  # bytes of a text on average: longer ones name no level
FIXED = 400 * MEGABYTE  # the interpreter, the libraries, the sums
MANY_ROWS = 100_000  # whose memory is worth giving back
PAGE = mmap.PAGESIZE
Packed = dict[str, Array]
Aside = tuple[tuple[str, str], ...]  # columns that could not be used, with the reason
Progress = Callable[[str, int, int], None]


class State(Protocol):
    """Sums of some batches."""

    @property
    def columns(self) -> list[str]:
        """Columns that it reads."""

    def add(self, chunk: Chunk) -> None:
        """Add a batch."""

    def arrays(self) -> Packed:
        """Everything, as arrays by name."""

    def merge(self, packed: Packed) -> None:
        """Add what another state packed."""


Start = Callable[[], State]


def check_row_count(source: Any, rows: int) -> None:
    """Refuse a table in which a second pass finds other rows than the first."""
    if source.seen not in (None, rows):
        got = f"{source.seen:,} rows, then {rows:,}"
        raise refusal("has changed between two passes", source.words, got=got, hint="read a copy that stays")
    source.seen = rows


def open_source(data: Any, memory: Any = None, progress: Progress | None = None) -> Any:
    """Open a table.

    Parameters
    ----------
    data : a path, a folder, a pattern; a frame of any library or a mapping; a lazy frame of polars, a DuckDB relation,
        a Dask frame, an Arrow dataset, a Spark DataFrame
    memory : a ceiling such as "1GB", or None for as much as it takes
    progress : called with the name of a pass, how much is done and of how much
    """
    ceiling = None if memory is None else memory_bytes(memory)
    from miscal.aggregate.readers import source_of

    source = source_of(data)
    source.texts = {} if source.held else source.sizes_of_texts()
    source.memory, source.progress = ceiling, progress
    source.plan_resources(ceiling or sys.maxsize)
    return source


class Source:
    """A table as parts that can be read again and again, each giving Arrow tables batch by batch.

    words : how messages name it
    types : name -> Arrow type
    sizes : rows of each part, None where only reading tells
    aside : columns that cannot be used, with the reason
    texts : bytes of a value of text on average, by column
    forms : text that stands for numbers or dates, by column
    held : whether its rows are in memory already, or will never be
    """

    words = "the table"
    types: Mapping[str, Any]
    sizes: Sequence[int | None] = (None,)
    aside: Sequence[tuple[str, str]] = ()
    texts: Mapping[str, float] = MappingProxyType({})
    forms: Mapping[str, str] = MappingProxyType({})
    held = False
    memory: int | None = None
    progress: Progress | None = None
    passes = 0
    seen: int | None = None  # rows that a pass found: the next must find as many

    def plan_resources(self, ceiling: int) -> None:
        """Share the processors out, and the memory below a ceiling."""
        allowed = min(thread_count(), max(1, ceiling // (256 << 20)))
        self.threads = min(allowed, max(self.parts, 1))
        self.ahead = allowed > 1  # a table of one part is decoded on a thread of its own, if there may be one
        row = 100 + 24 * len(self.kinds)  # decoded, as float64, as codes; and what pools keep
        # All threads together stay below the ceiling.
        rows = max(ceiling - FIXED, 40 * MEGABYTE) // (self.threads * row)
        self.batch_rows = min(max(rows, 1 << 14), BATCH_ROWS)

    @property
    def names(self) -> list[str]:
        """The columns."""
        return list(self.types)

    @property
    def kinds(self) -> dict[str, ColumnKind]:
        """What each column is: numeric, integer, date, category, boolean, or "" for what cannot be used."""
        meant = {name: kind_of_form(form) for name, form in self.forms.items()}
        return self._stored() | meant

    def _stored(self) -> dict[str, ColumnKind]:
        return {name: kind_of(kind) for name, kind in self.types.items()}

    @property
    def unfit(self) -> dict[str, str]:
        """Columns that no audit looks at, with the reason."""
        found = {name: "it holds no plain values" for name, kind in self.kinds.items() if not kind}
        long = {name: size for name, size in self.texts.items() if size > LONG}
        return found | {name: f"its texts have {size:,.0f} bytes on average" for name, size in long.items()}

    def sizes_of_texts(self) -> dict[str, float]:
        """Bytes of a value of text in a few rows of the first part and of the last, the larger of the two."""
        names = [name for name, kind in self.kinds.items() if kind == ColumnKind.CATEGORY]
        sizes = dict.fromkeys(names, 0.0)
        for part in {0, self.parts - 1} if names and self.parts else ():
            head = self._head(part, names)
            for name in names if head is not None else ():
                first = plain_text(head.select([name]).slice(0, FEW_ROWS))[name]
                if kind_of(first.type) == ColumnKind.CATEGORY:
                    lengths = pc.binary_length(first.cast(pa.large_binary()))
                    sizes[name] = max(sizes[name], pc.mean(lengths).as_py() or 0.0)
        return sizes

    def _head(self, part: int, names: Sequence[str]) -> Any:
        while True:
            with contextlib.suppress(TypesChanged):
                return next(self.tables(part, names, FEW_ROWS), None)

    @property
    def parts(self) -> int:
        """How many parts can be read by themselves."""
        return len(self.sizes)

    @property
    def rows(self) -> int | None:
        """How many rows there are, None where only reading tells."""
        sizes = [rows for rows in self.sizes if rows is not None]
        return sum(sizes) if len(sizes) == self.parts else None

    def place(self, part: int) -> str:  # noqa: ARG002
        """How messages name a part."""
        return self.words

    def check(self, columns: Sequence[str]) -> None:
        """Refuse parts that lack columns, or have them in other types, before anything is read."""
        check_named(columns, self.names, self.words)

    def tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:
        """Read some columns of a part."""
        raise NotImplementedError

    def whole(self, columns: Sequence[str]) -> Any:
        """All rows of some columns, as a table that `miscal.read` takes; its text is not yet what it stands for."""
        parts = range(self.parts)
        return joined([table for part in parts for table in self.tables(part, columns, BATCH_ROWS)])

    def loaded(self, columns: Sequence[str]) -> Any:
        """All rows of some columns, as a table that `miscal.read` takes."""
        return self._as_meant(self.whole(columns))

    def _as_meant(self, table: Any) -> Any:
        for name, form in self.forms.items():
            place = table.schema.get_field_index(name)
            if place >= 0:
                table = table.set_column(place, name, parsed(table[name], form, f"column '{name}'"))
        return table

    def head(self, names: Sequence[str]) -> Any:
        """The first rows of some columns; None of a table without rows."""
        first = next(self.batches(names), None)
        return None if first is None else first.table.slice(0, HEAD)

    def infer_text_types(self) -> dict[str, str]:
        """Read text that stands for numbers or dates as such from now on; the form of each such column."""
        text = [
            name
            for name, kind in self.kinds.items()
            if kind == ColumnKind.CATEGORY and name not in self.unfit
        ]
        table: Any = self.head(text) if text else None
        forms = {}
        for name in text if table is not None else ():
            levels = pc.unique(plain_text(table.select([name]))[name]).to_pylist()
            forms[name] = form_of([each for each in levels if isinstance(each, str) and each.strip()])
        self.forms = {name: form for name, form in forms.items() if form is not None}
        return self.forms

    def batches(self, columns: Sequence[str], worker: int = 0, workers: int = 1) -> Iterator[Chunk]:
        """Some columns of all rows, in order; of several workers each has some of the parts, by their number alone."""
        row = 0
        for part in range(self.parts):
            if part % workers != worker:
                row += self.sizes[part] or 0
                continue
            row += yield from self._read(part, columns, row)
            if worker == 0:
                self._release(7)
                if self.progress is not None:
                    self.progress(f"pass {self.passes}", part, self.parts)

    def _read(self, part: int, columns: Sequence[str], row: int) -> Generator[Chunk, None, int]:
        """The batches of a part whose first row has a number in the table; in the end, how many rows they have."""
        first, place, most = 0, self.place(part), self.batch_rows
        long = sum(size for name, size in self.texts.items() if size > LONG and name in columns)
        if self.memory is not None and long:
            few = self.memory // int(16 * self.threads * long)
            most = min(most, max(few, 16))

        def chunk(table: Any) -> Chunk:
            nonlocal first
            first += table.num_rows
            start = first - table.num_rows
            return Chunk(self._as_meant(table), place, start, row + start)

        # Mapped, for a loop would hold each table until the next is decoded, which then takes other memory.
        chunks = map(chunk, self.tables(part, columns, most))
        yield from filter(lambda one: one.table.num_rows, chunks)
        return first

    def run(self, start: Start) -> Any:
        """Add every batch; the state of all of them. From the start again where a CSV column changes its type."""
        self.passes += 1
        try:
            while True:
                with contextlib.suppress(TypesChanged):
                    alone = self.threads == 1 or self.rows is None
                    return self._alone(start()) if alone else self._together(start)
        finally:
            self._release(4)  # what comes after a pass needs other memory

    def _alone(self, state: State) -> State:
        """One state; where another thread is allowed, the next batch is decoded while this one is added."""
        # Not named here: an error would hold the batches, and they every open file.
        return _filled(
            state, ahead(self.batches(state.columns)) if self.ahead else self.batches(state.columns)
        )

    def _together(self, start: Start) -> Any:
        """The state of several workers; after an error or an interrupt they end at their next batch."""
        stop = threading.Event()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="miscal-stream") as pool:
            try:
                made = [pool.submit(self._some, start(), worker, stop) for worker in range(self.threads)]
                wait(made, return_when=FIRST_EXCEPTION)
            finally:
                stop.set()
        try:
            total, *others = (each.result() for each in made)
        finally:
            del made  # an error would hold them, and they it, with every open file
        for other in others:
            total.merge(other.arrays())
        return total

    def _some(self, state: State, worker: int, stop: threading.Event) -> State:
        """The parts of one worker."""
        with one_of_many():
            return _filled(
                state,
                takewhile(lambda _: not stop.is_set(), self.batches(state.columns, worker, self.threads)),
            )

    def _release(self, eighths: int) -> None:
        """Give back memory that a part needed where more than so much of the ceiling is held: anew it costs time."""
        if self.memory is not None and _resident() > eighths * self.memory // 8:
            give_back()


def _filled(state: State, chunks: Iterator[Chunk]) -> State:
    try:
        for chunk in chunks:
            state.add(chunk)
            del chunk  # the next one is decoded into the same memory
    finally:
        del chunks  # a refusal would keep the file open as long as it is known
    return state


def _resident() -> int:
    """Bytes of memory that this process has now; infinitely many where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  # asked after every part
            return int(file.read().split()[1]) * PAGE
    except OSError:
        return sys.maxsize


def give_back(rows: int = MANY_ROWS) -> None:
    """Return memory that many rows needed for a moment; pools and the arenas of threads would keep it."""
    if rows < MANY_ROWS:
        return
    import ctypes

    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # only the GNU library has it
        ctypes.CDLL(None).malloc_trim(0)


def ahead(reading: Iterator[Any]) -> Iterator[Any]:
    """Read on another thread, one batch ahead."""
    with ThreadPoolExecutor(1, thread_name_prefix="miscal-reader") as pool:
        waiting = pool.submit(next, reading, None)
        while (chunk := waiting.result()) is not None:
            waiting = pool.submit(next, reading, None)
            yield chunk
            del chunk


def joined(tables: Sequence[Any]) -> Any:
    """Tables one after the other; whole numbers here and fractions there are numbers, dictionaries are text."""
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables([plain_text(table) for table in tables], promote_options="permissive")


def plain_text(table: Any) -> Any:
    """Text as text: each batch has a dictionary of its own."""
    for place, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            values = table[place].cast(column.type.value_type)
            table = table.set_column(place, column.name, values)
    return table

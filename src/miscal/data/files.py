"""Tables in files: CSV, Parquet, Feather and Arrow, told apart by suffix or first bytes; the types of CSV columns."""

import io
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from miscal.codes.data import ColumnKind
from miscal.data.arrays import Plain
from miscal.data.column_types import kind_of
from miscal.data.errors import nearest, refusal, refusing, warn
from miscal.data.libraries import csv, pa, pc, pq
from miscal.data.outputs import check_file

SUFFIXES = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}
SUFFIXES |= dict.fromkeys((".feather", ".arrow", ".ipc"), "arrow")
FEW_ROWS = 1 << 12
PACKED = (".gz", ".bz2", ".zst", ".lz4")
MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"FEA1": "arrow", b"\xff\xff\xff\xff": "arrow"}


class TableFile:
    """A file with a table in it: its names and types now, its columns when asked for.

    types : name -> Arrow type; those of a CSV file are widened where a later value does not fit, and may be shared
        with other files
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.where = f"file '{self.path}'"
        self.form = _form(self.path, self.where)
        self.csv: CsvFile | None = None
        self.parts: list[int | None] = [None]  # rows of each part that can be read by itself
        with self.guarded():
            if self.form == "csv":
                self.csv = CsvFile(self.path)
                self.names, self.types = self.csv.names, dict(self.csv.types)
                return
            if self.form == "parquet":
                with pq.ParquetFile(self.path) as file:
                    schema, self._metadata = file.schema_arrow, file.metadata
                groups = range(self._metadata.num_row_groups)
                self.parts = [self._metadata.row_group(group).num_rows for group in groups]
            else:
                with _arrow_open(self.path) as reader:
                    schema = reader.schema
            self.names = schema.names
            self.types = {field.name: field.type for field in schema}

    def load(self, only: Sequence[str] | None = None) -> "pa.Table":
        """Read some columns, or all."""
        with self.guarded():
            if self.csv is not None:
                return self.csv.load(self.types, only)
            if self.form == "arrow":
                return _arrow_read(self.path, only)
            # ParquetFile and not read_table: the latter takes "year=2024" in a path for a column.
            with self._parquet() as file:
                return file.read(columns=only)

    def tables(self, part: int, columns: Sequence[str], batch_rows: int) -> "Iterator[pa.Table]":
        """Read some columns of a part, batch by batch."""
        with self.guarded(f", row group {part}" if self.form == "parquet" else ""):
            if self.csv is not None:
                yield from self.csv.blocks(self.types, columns)
                return
            if self.form == "arrow":
                table = _arrow_read(self.path, columns)
                yield from (table.slice(first, batch_rows) for first in range(0, table.num_rows, batch_rows))
                return
            # With a dictionary a whole row group is held, however few of its rows are asked for at a time.
            few = batch_rows <= FEW_ROWS
            text = [name for name in columns if kind_of(self.types[name]) == ColumnKind.CATEGORY and not few]
            asked: Plain = {"columns": list(columns), "use_threads": False}
            with self._parquet(metadata=self._metadata, read_dictionary=text, pre_buffer=False) as file:
                if (self.parts[part] or 0) <= batch_rows:  # with less memory than the general way
                    yield file.read_row_group(part, **asked)
                    return
                for batch in file.iter_batches(batch_rows, row_groups=[part], **asked):
                    yield pa.Table.from_batches([batch])

    def _parquet(self, **options: Any) -> Any:
        return pq.ParquetFile(self.path, page_checksum_verification=True, **options)

    def guarded(self, part: str = "") -> AbstractContextManager[None]:
        """Turn whatever a reader raises into one clear refusal that names the place."""
        what, hint = f"cannot be read as {self.form}", "the file may be damaged, cut off or of another format"
        return refusing(what, f"{self.where}{part}", hint=hint)


def _form(path: Path, where: str) -> str:
    """Tell the format of a file, and refuse what is no readable file."""
    check_file(path)
    if not path.exists():
        names = [item.name for item in islice(path.parent.glob("*"), 1000)]
        nothing = f"the folder '{path.parent}' is empty or does not exist"
        raise refusal("does not exist", where, hint=nearest(path.name, names) if names else nothing)
    if path.is_dir():
        raise refusal("must be a file", where, got="it is a directory", hint="name one file in it")
    with refusing("cannot be opened", where), path.open("rb") as stream:
        head = stream.read(8)
    if not head:
        raise refusal("must not be empty", where, got="it has 0 bytes")
    suffixes = ["", *map(str.lower, path.suffixes)]
    if suffixes[-1] in PACKED:
        suffixes.pop()
    known = SUFFIXES.get(suffixes[-1])
    sniffed = next((form for magic, form in MAGIC.items() if head.startswith(magic)), None)
    if known is not None and known != (sniffed or "csv"):
        got = f"its first bytes are those of {sniffed or 'something else'}"
        hint = "is it damaged, or its ending wrong?"
        raise refusal(f"cannot be read as {known}", where, got=got, hint=hint)
    if known is None and sniffed is None:
        hint = f"known endings: {', '.join(SUFFIXES)} (CSV also packed, such as .csv.gz)"
        raise refusal("is of an unknown format", where, hint=hint)
    return known or sniffed or ""


def _arrow_open(path: Path) -> Any:
    with path.open("rb") as stream:
        is_stream = stream.read(4) == b"\xff\xff\xff\xff"
    source = pa.OSFile(str(path))  # not a memory map: the file may be rewritten while its rows are in use
    return pa.ipc.open_stream(source) if is_stream else pa.ipc.open_file(source)


def _arrow_read(path: Path, only: Sequence[str] | None) -> "pa.Table":
    with _arrow_open(path) as reader:
        table = reader.read_all()
    table = table if only is None else table.select(only)
    # These bytes are used as they were on disk: a wrong offset would read foreign memory.
    table.validate(full=True)
    return table


# In columns of numbers or dates.
NULLS = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None"]
BLOCK = 1 << 23  # bytes: smaller files have their types from all of their rows
HEAD = 1 << 16
MANY_LINES = 200  # of one quoted field: no text of a table is so long
WHOLE = r"^[+-]?[0-9]+$"
ZEROS = r"^[+-]?0[0-9]+$"  # whole numbers that would not come back as they were from 64 bits
LOSING = r"^[+-]?(0[0-9]+|[0-9]{19,})$"  # from float64
WIDE = 1e18  # from which a number may be a whole one that lost its last digits


class TypesChanged(BaseException):  # not an error: what was begun starts again with wider types
    """A column of a CSV file turned out to hold other values than the rows before told."""


@lru_cache(maxsize=1)
def ladder() -> tuple[Any, ...]:
    """The types that a column may have, from the narrowest to bytes, which hold everything (and are no text)."""
    times = [pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("s", "ns")]
    last = (pa.float64(), pa.string(), pa.binary())
    return (pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), *times, *last)


def step_of(kind: Any) -> int:
    """The place of a type on the ladder; what is not on it is text."""
    steps = ladder()
    return steps.index(kind if kind in steps else pa.string())


def open_bytes(path: Path) -> Any:
    """Open the bytes, unpacked by the file's ending."""
    return pa.input_stream(str(path), compression="detect")


class CsvFile:
    """One CSV file."""

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, f"file '{path}'"
        with open_bytes(path) as stream:
            head = stream.read(HEAD)
        if b"\0" in head:
            got = "it holds zero bytes"
            raise refusal("must hold text in UTF-8", self.where, got=got, hint="UTF-16?")
        top = head.split(b"\n", 1)[0]
        delimiter = max(",\t;", key=lambda mark: top.count(mark.encode()))
        self.parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        with open_bytes(path) as stream, csv.open_csv(stream, *self._options(threads=False)) as reader:
            found, first = reader.schema, next(iter(reader), None)
        self.names: list[str] = found.names
        self.types: Plain = {field.name: ladder()[step_of(field.type)] for field in found}
        self.looked = False  # whether whole numbers were looked at as text
        fractions = [each for each in (first.columns if first else ()) if each.type == pa.float64()]
        if any((pc.max(pc.abs(values)).as_py() or 0.0) >= WIDE for values in fractions):
            self._keep_digits(self.types)

    def _options(
        self,
        types: Mapping[str, Any] | None = None,
        only: Sequence[str] | None = None,
        *,
        threads: bool = True,
        **more: Any,
    ) -> tuple[Any, ...]:
        """How the bytes are read; without threads, messages count the lines."""
        # Types of columns that are not there, or not asked for, are left alone.
        convert = csv.ConvertOptions(null_values=NULLS, include_columns=only, column_types=types, **more)
        return csv.ReadOptions(block_size=BLOCK, use_threads=threads), self.parse, convert

    def _keep_digits(self, types: Plain) -> bool:
        """Make text of columns of whole numbers some of which would lose a leading zero or their last digits."""
        self.looked = True
        numbers = [name for name in self.names if types[name] in (pa.int64(), pa.float64())]
        losing, whole = set(), set(numbers)
        options = self._options(dict.fromkeys(numbers, pa.string()), numbers, strings_can_be_null=True)
        with open_bytes(self.path) as stream, csv.open_csv(stream, *options) as reader:
            for batch in reader if numbers else ():
                for name in numbers:
                    values = pc.drop_null(batch[name])
                    form = ZEROS if types[name] == pa.int64() else LOSING
                    if pc.any(pc.match_substring_regex(values, form)).as_py():
                        losing.add(name)
                    if not pc.all(pc.match_substring_regex(values, WHOLE)).as_py():
                        whole.discard(name)
        types.update(dict.fromkeys(losing & whole, pa.string()))
        return bool(losing & whole)

    @contextmanager
    def _watched(self, types: Plain) -> Iterator[Any]:
        """The bytes, looked at while they are read; at the end what they hide is refused, said or read again."""
        with open_bytes(self.path) as stream:
            watch = Watch(stream, self)
            try:
                yield pa.PythonFile(watch, mode="r")
            except ValueError as error:
                if watch.problem is not None:
                    raise watch.problem from None
                # A column whose value did not fit, as the reader said, moves up the ladder.
                found = re.search(r"In CSV column #(\d+)", str(error))
                name = self.names[int(found[1])] if found else ""
                if found and types[name] != ladder()[-1]:
                    # As text it keeps its digits.
                    wide = re.search(r"invalid value '[+-]?\d{19,}'", str(error))
                    types[name] = pa.string() if wide else ladder()[step_of(types[name]) + 1]
                    raise TypesChanged(name) from error
                with open_bytes(self.path) as again:  # for a message that counts the lines
                    as_bytes = dict.fromkeys(self.names, pa.binary())
                    deque(csv.open_csv(again, *self._options(as_bytes, threads=False)), maxlen=0)
                raise
        watch.end()
        if watch.zeros and not self.looked and self._keep_digits(types):
            raise TypesChanged(self.path)

    def load(self, types: Plain, only: Sequence[str] | None = None) -> "pa.Table":
        """Read some columns, or all, with these types, which are widened where a value does not fit."""
        while True:
            with suppress(TypesChanged), self._watched(types) as stream:
                _, *options = self._options(types, only)
                return empty_text_is_missing(csv.read_csv(stream, csv.ReadOptions(), *options))

    def blocks(self, types: Plain, only: Sequence[str]) -> "Iterator[pa.Table]":
        """Read some columns with these types, block by block; `TypesChanged` where a value does not fit."""
        with self._watched(types) as stream, csv.open_csv(stream, *self._options(types, only)) as reader:
            for batch in reader:
                yield empty_text_is_missing(pa.Table.from_batches([batch]))


def joined_types(files: Sequence[CsvFile]) -> Plain:
    """The types of the columns over the first blocks of several files."""
    types: Plain = {}
    for file in files:
        for name, kind in file.types.items():
            types[name] = max(types.get(name, kind), kind, key=step_of)
    for file in files:
        differing = [name for name, kind in file.types.items() if kind != types[name]]
        while differing:  # until the first block fits
            with suppress(TypesChanged):
                next(file.blocks(types, differing), None)
                break
    return types


class Watch(io.IOBase):
    """Bytes of a CSV file, looked at as they pass."""

    def __init__(self, stream: Any, file: CsvFile) -> None:
        self.stream, self.where, self.columns = stream, file.where, len(file.names)
        self.delimiter = file.parse.delimiter.encode()
        marks = (self.delimiter, b"\n", b'"')  # one pattern for each: a plain start is found fast
        self.patterns = [re.compile(re.escape(mark) + rb"0[0-9]") for mark in marks]
        self.zeros = False
        self.open = b""  # the quoted field that the bytes so far end in
        self.problem: Exception | None = None
        self.last = b"\n"

    def read(self, size: int) -> bytes:
        """Some bytes more."""
        content: bytes = self.stream.read(size)
        if content:
            joint = self.last + content
            self.zeros = self.zeros or any(pattern.search(joint) for pattern in self.patterns)
            if self.open or b'"' in content:
                self._quotes(content)
            self.last = content[-2:]
        return content

    def readable(self) -> bool:
        """For the reader."""
        return True

    def _quotes(self, content: bytes) -> None:
        """Fields in quotes: those over several lines are looked at."""
        whole = self.open + content
        letters = np.frombuffer(whole, np.uint8)
        quotes = np.flatnonzero(letters == ord('"'))
        ends = np.flatnonzero(letters == ord("\n"))
        first, last = quotes[0::2], quotes[1::2]
        lines = np.searchsorted(ends, last) - np.searchsorted(ends, first[: last.size])
        for place in np.flatnonzero(lines > 1).tolist():
            self._field(whole[first[place] : last[place]])
        self.open = whole[first[-1] :] if first.size > last.size else b""
        if len(self.open) > BLOCK:  # no reader gets here
            self._field(self.open)
            self.open = b'"'

    def _field(self, field: bytes) -> None:
        lines = field.split(b"\n")[1:-1]
        like = sum(line.count(self.delimiter) == self.columns - 1 for line in lines)
        if len(lines) > MANY_LINES or (self.columns > 1 and lines and like == len(lines)):
            start = field[1:30].decode("utf-8", "replace")
            got = f"one that begins with {start!r} holds {len(lines):,} lines"
            got += " that look like rows" if like == len(lines) else ""
            what = "must not have rows within a quoted field"
            hint = 'a stray " makes a field of all that follows: double it or remove it'
            self.problem = refusal(what, self.where, got=got, hint=hint)

    def end(self) -> None:
        """Say what was seen."""
        if self.problem is not None:
            raise self.problem
        if self.open:
            hint = "it was cut off, or a quote is not closed"
            raise refusal("must be whole", self.where, got="it ends within a quoted field", hint=hint)
        if not self.last.endswith((b"\n", b"\r")):
            said = f"{self.where} ends without a line end: if it was cut off, so may be the last value of its last row"
            warn(said)


def empty_text_is_missing(table: "pa.Table") -> "pa.Table":
    """Take an empty cell of text for missing; 'NA' stays a word there (it is a country, too)."""
    for place, name in enumerate(table.column_names):
        values = table.column(place)
        if pa.types.is_string(values.type):
            empty = pc.equal(values, "")
            if pc.any(empty).as_py():
                table = table.set_column(place, name, pc.if_else(empty, pa.scalar(None, pa.string()), values))
    return table

"""Tables in files: CSV, Parquet, Feather and Arrow, told apart by suffix or by their first bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from miscal.data.errors import MiscalError, nearest, refusal

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".ipc": "arrow",
}
PACKED = (".gz", ".bz2", ".zst", ".lz4", ".br")
MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"FEA1": "arrow", b"\xff\xff\xff\xff": "arrow"}
NULLS = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None"]  # in columns of numbers or dates


class TableFile:
    """A file with a table in it: its names now, its columns when asked for."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.where = f"file '{self.path}'"
        self.form = _form(self.path, self.where)
        self.names: list[str] = self._guarded(lambda: _SCHEMAS[self.form](self.path))

    def load(self, only: Sequence[str] | None = None) -> pa.Table:
        """Read some columns, or all."""
        return self._guarded(lambda: _READERS[self.form](self.path, None if only is None else list(only)))

    def _guarded(self, work: Any) -> Any:
        try:
            return work()
        except MiscalError:
            raise
        except Exception as error:  # a damaged file may make its reader fail in any way
            lines = str(error).strip().splitlines() or [type(error).__name__]
            hint = "the file may be damaged, cut off or of another format"
            got = f"its reader says: {lines[0]}"
            raise refusal(f"cannot be read as {self.form}", where=self.where, got=got, hint=hint) from error


def _form(path: Path, where: str) -> str:
    """Tell the format of a file, and refuse what is no readable file."""
    try:
        if path.is_dir():
            raise refusal("must be a file", where=where, got="it is a directory", hint="name one file in it")
        with path.open("rb") as stream:
            head = stream.read(8)
    except FileNotFoundError as error:
        raise refusal("does not exist", where=where, hint=_neighbour(path)) from error
    except (OSError, ValueError) as error:
        raise refusal("cannot be opened", where=where, got=str(error)) from error
    if not head:
        raise refusal("must not be empty", where=where, got="it has 0 bytes")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    known = SUFFIXES.get(suffixes[-1]) if suffixes else None
    sniffed = next((form for magic, form in MAGIC.items() if head.startswith(magic)), None)
    if known == "csv" and sniffed is not None:
        raise refusal(
            "is not CSV", where=where, got=f"its content is {sniffed}", hint=f"rename it to end in .{sniffed}"
        )
    if known not in (None, "csv") and sniffed != known:
        hint = "the file may be damaged, or its ending may be wrong"
        raise refusal(
            f"cannot be read as {known}", where=where, got="its first bytes are not those of the format", hint=hint
        )
    if known is None and sniffed is None:
        hint = f"known endings: {', '.join(SUFFIXES)} (CSV also packed, such as .csv.gz)"
        raise refusal("is of an unknown format", where=where, hint=hint)
    return known or sniffed or ""


def _neighbour(path: Path) -> str:
    try:
        names = [item.name for item in path.parent.iterdir()][:1000]
        return nearest(path.name, names) if names else f"the folder '{path.parent}' is empty"
    except OSError:
        return f"the folder '{path.parent}' does not exist"


def _csv_open(path: Path) -> Any:
    """Open the bytes, unpacked by the file's ending."""
    import pyarrow as pa

    return pa.input_stream(str(path), compression="detect")


def _csv_settings(path: Path) -> Any:
    from pyarrow import csv

    with _csv_open(path) as stream:
        head = stream.read(1 << 16)
    if b"\0" in head:
        raise refusal("must hold text in UTF-8", where=f"file '{path}'", got="it holds zero bytes", hint="UTF-16?")
    first = head.split(b"\n", 1)[0]
    delimiter = max(",\t;", key=lambda mark: first.count(mark.encode()))
    return csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _csv_names(path: Path) -> list[str]:
    from pyarrow import csv

    parse = _csv_settings(path)
    try:
        with _csv_open(path) as stream, csv.open_csv(stream, parse_options=parse) as reader:
            return list(reader.schema.names)
    except ValueError:  # without threads its message counts the lines
        with _csv_open(path) as stream:
            serial = csv.ReadOptions(use_threads=False)
            return list(csv.read_csv(stream, parse_options=parse, read_options=serial).schema.names)


def _csv_read(path: Path, only: list[str] | None) -> pa.Table:
    """Read CSV; a column whose later rows do not fit the type of the first becomes float64, then text."""
    import pyarrow as pa
    from pyarrow import csv

    parse = _csv_settings(path)
    names = _csv_names(path)
    types: dict[str, Any] = {}
    while True:
        convert = csv.ConvertOptions(null_values=NULLS, include_columns=only, column_types=types)
        try:
            with _csv_open(path) as stream:
                return _empty_text_is_missing(csv.read_csv(stream, parse_options=parse, convert_options=convert))
        except pa.ArrowInvalid as error:
            place = re.search(r"In CSV column #(\d+)", str(error))
            name = names[int(place.group(1))] if place else None
            if name is None or types.get(name) == pa.string():
                with _csv_open(path) as stream:  # without threads its message counts the lines
                    return csv.read_csv(stream, csv.ReadOptions(use_threads=False), parse, convert)
            types[name] = pa.string() if name in types else pa.float64()


def _empty_text_is_missing(table: pa.Table) -> pa.Table:
    """Take an empty cell of text for missing; 'NA' stays a word there (it is a country, too)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, name in enumerate(table.column_names):
        values = table.column(place)
        if pa.types.is_string(values.type):
            empty = pc.equal(values, "")
            if pc.any(empty).as_py():
                table = table.set_column(place, name, pc.if_else(empty, pa.scalar(None, pa.string()), values))
    return table


def _parquet_names(path: Path) -> list[str]:
    import pyarrow.parquet as pq

    return list(pq.read_schema(path).names)


def _parquet_read(path: Path, only: list[str] | None) -> pa.Table:
    import pyarrow.parquet as pq

    # ParquetFile and not read_table: the latter takes "year=2024" in a path for a column.
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read(columns=only)


def _arrow_names(path: Path) -> list[str]:
    with _arrow_open(path) as reader:
        return list(reader.schema.names)


def _arrow_open(path: Path) -> Any:
    import pyarrow as pa

    with path.open("rb") as stream:
        is_stream = stream.read(4) == b"\xff\xff\xff\xff"
    source = pa.OSFile(str(path))  # not a memory map: the file may be rewritten while its rows are in use
    return pa.ipc.open_stream(source) if is_stream else pa.ipc.open_file(source)


def _arrow_read(path: Path, only: list[str] | None) -> pa.Table:
    with _arrow_open(path) as reader:
        table = reader.read_all()
    table = table if only is None else table.select(only)
    table.validate(full=True)  # these bytes are used as they were on disk: a wrong offset would read foreign memory
    return table


_SCHEMAS = {"csv": _csv_names, "parquet": _parquet_names, "arrow": _arrow_names}
_READERS = {"csv": _csv_read, "parquet": _parquet_read, "arrow": _arrow_read}

"""Tables in files: CSV, Parquet, Feather and Arrow, told apart by suffix or by their first bytes."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from miscal.data.csv_files import CsvFile, TypesChanged
from miscal.data.errors import nearest, refusal, refusing
from miscal.data.libraries import pa, pq
from miscal.data.outputs import check_file

FORMS = {"csv": (".csv", ".tsv"), "parquet": (".parquet", ".pq"), "arrow": (".feather", ".arrow", ".ipc")}
SUFFIXES = {suffix: form for form, suffixes in FORMS.items() for suffix in suffixes}
FEW_ROWS = 1 << 12
PACKED = (".gz", ".bz2", ".zst", ".lz4", ".br")
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
        self.types: dict[str, Any] = {}
        self.names: list[str] = []
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
            self.names, self.types = list(schema.names), {field.name: field.type for field in schema}

    def load(self, only: Sequence[str] | None = None) -> "pa.Table":
        """Read some columns, or all."""
        columns = None if only is None else list(only)
        with self.guarded():
            if self.csv is not None:
                return self.csv.load(self.types, columns)
            if self.form == "arrow":
                return _arrow_read(self.path, columns)
            # ParquetFile and not read_table: the latter takes "year=2024" in a path for a column.
            with self._parquet() as file:
                return file.read(columns=columns)

    def tables(self, part: int, columns: Sequence[str], batch_rows: int) -> "Iterator[pa.Table]":
        """Read some columns of a part, batch by batch."""
        with self.guarded(f", row group {part}" if self.form == "parquet" else ""):
            if self.csv is not None:
                yield from self.csv.blocks(self.types, columns)
            elif self.form == "arrow":
                table = _arrow_read(self.path, list(columns))
                yield from (table.slice(first, batch_rows) for first in range(0, table.num_rows, batch_rows))
            else:
                yield from self._row_group(part, list(columns), batch_rows)

    def _row_group(self, part: int, columns: list[str], batch_rows: int) -> "Iterator[pa.Table]":
        # With a dictionary a whole row group is held, however few of its rows are asked for at a time.
        few = batch_rows <= FEW_ROWS
        text = [name for name in columns if kind_of(self.types[name]) == "category" and not few]
        with self._parquet(metadata=self._metadata, read_dictionary=text, pre_buffer=False) as file:
            if (self.parts[part] or 0) <= batch_rows:
                yield file.read_row_group(part, columns=columns, use_threads=False)
                return
            for batch in file.iter_batches(batch_rows, row_groups=[part], columns=columns, use_threads=False):
                yield pa.Table.from_batches([batch])

    def _parquet(self, **options: Any) -> Any:
        return pq.ParquetFile(self.path, page_checksum_verification=True, **options)

    def guarded(self, part: str = "") -> AbstractContextManager[None]:
        """Turn whatever a reader raises into one clear refusal that names the place."""
        what, hint = f"cannot be read as {self.form}", "the file may be damaged, cut off or of another format"
        return refusing(what, where=f"{self.where}{part}", hint=hint, passing=TypesChanged)


def kind_of(arrow_type: Any) -> str:
    """What a column of this Arrow type is: numeric, integer, date, category, boolean, or "" for what cannot be used."""
    is_ = pa.types
    if is_.is_boolean(arrow_type):
        return "boolean"
    text = (is_.is_string, is_.is_large_string, is_.is_string_view, is_.is_binary, is_.is_large_binary)
    if is_.is_dictionary(arrow_type) or any(test(arrow_type) for test in text):
        return "category"
    if is_.is_integer(arrow_type):
        return "integer"
    numbers = (is_.is_floating, is_.is_decimal, is_.is_null, is_.is_time, is_.is_duration)
    if any(test(arrow_type) for test in numbers):
        return "numeric"
    return "date" if is_.is_temporal(arrow_type) else ""


def _form(path: Path, where: str) -> str:
    """Tell the format of a file, and refuse what is no readable file."""
    check_file(path)
    if not path.exists():
        raise refusal("does not exist", where=where, hint=_neighbour(path))
    if path.is_dir():
        raise refusal("must be a file", where=where, got="it is a directory", hint="name one file in it")
    with refusing("cannot be opened", where=where), path.open("rb") as stream:
        head = stream.read(8)
    if not head:
        raise refusal("must not be empty", where=where, got="it has 0 bytes")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    known = SUFFIXES.get(suffixes[-1]) if suffixes else None
    sniffed = next((form for magic, form in MAGIC.items() if head.startswith(magic)), None)
    if known is not None and known != (sniffed or "csv"):
        got, hint = f"its first bytes are those of {sniffed or 'something else'}", "is it damaged, or its ending wrong?"
        raise refusal(f"cannot be read as {known}", where=where, got=got, hint=hint)
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


def _arrow_open(path: Path) -> Any:
    with path.open("rb") as stream:
        is_stream = stream.read(4) == b"\xff\xff\xff\xff"
    source = pa.OSFile(str(path))  # not a memory map: the file may be rewritten while its rows are in use
    return pa.ipc.open_stream(source) if is_stream else pa.ipc.open_file(source)


def _arrow_read(path: Path, only: list[str] | None) -> "pa.Table":
    with _arrow_open(path) as reader:
        table = reader.read_all()
    table = table if only is None else table.select(only)
    table.validate(full=True)  # these bytes are used as they were on disk: a wrong offset would read foreign memory
    return table

"""Tables too large for memory, as batches that can be read again and again.

A source has parts that can be read independently (row groups of Parquet files, whole CSV files, partitions of a frame).
Every batch knows where it comes from, so that a refusal can name file, row group and row.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from miscal.data import csv_files, files
from miscal.data.csv_files import TypesChanged
from miscal.data.errors import MiscalError, nearest, refusal
from miscal.data.vectors import library_of

BATCH_ROWS = 1 << 20
ENDINGS = (*files.SUFFIXES, ".csv.gz", ".tsv.gz", ".csv.zst", ".csv.bz2")
HINT = "the file may be damaged, cut off or of another format"


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table, where they come from, and the number of the first of them there."""

    table: Any
    place: str
    first: int = 0


class Batches(Protocol):
    """A table as parts that can be read several times."""

    kinds: dict[str, str]
    rows: int | None
    words: str

    @property
    def parts(self) -> int:
        """How many parts can be read independently."""

    def read(self, part: int, columns: Sequence[str]) -> Iterator[Chunk]:
        """Read some columns of one part, batch by batch."""

    def sample(self, columns: Sequence[str]) -> Iterator[Chunk]:
        """A few batches from all over the table."""


def batches_of(source: Any, batch_rows: int = BATCH_ROWS) -> Batches:
    """The batches of a path (a file, a folder, a pattern), or of a lazy frame or relation."""
    if isinstance(source, (str, PathLike)):
        return _from_paths(fspath(source), batch_rows)
    from miscal.engines.lazy import lazy_batches

    made: Batches = lazy_batches(source, batch_rows)
    return made


def is_lazy(source: Any) -> bool:
    """Whether a table is one that engines read by batches: lazy frames, relations, datasets."""
    name = f"{library_of(source)}.{type(source).__name__}"
    known = ("polars.LazyFrame", "duckdb.DuckDBPyRelation", "_duckdb.DuckDBPyRelation", "pyarrow.FileSystemDataset")
    return name in known or library_of(source) == "dask"


def paths_of(source: str) -> list[Path]:
    """The files that a path, a folder or a pattern names, in order."""
    path = Path(source)
    if path.is_dir():
        found = sorted(
            item
            for item in path.rglob("*")
            if item.is_file() and item.name.lower().endswith(ENDINGS) and not _hidden(item, path)
        )
        if not found:
            raise refusal("must hold tables", where=f"folder '{source}'", got="it holds none", hint=", ".join(ENDINGS))
        return found
    if path.exists() or not any(mark in source for mark in "*?["):
        return [path]
    found = sorted(Path(item) for item in glob.iglob(source, recursive=True) if Path(item).is_file())  # noqa: PTH207
    if not found:
        raise refusal("matches no file", where=f"pattern '{source}'")
    return found


def _hidden(item: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in item.relative_to(folder).parts)


def _from_paths(source: str, batch_rows: int) -> Batches:
    paths = paths_of(source)
    forms = {}
    for path in paths:
        forms[path] = files.TableFile(path).form
    kinds = set(forms.values())
    if len(kinds) > 1:
        raise refusal(
            "must be of one format", where=f"the files of '{source}'", got=f"they are {', '.join(sorted(kinds))}"
        )
    form = kinds.pop()
    if form == "parquet":
        return ParquetBatches(paths, batch_rows, source)
    if form == "csv":
        return CsvBatches(paths, batch_rows, source)
    raise refusal("must be Parquet or CSV to be read in parts", where=f"'{source}'", got=f"it is {form}")


def kind_of(arrow_type: Any) -> str:
    """What a column of this Arrow type is: numeric, integer, date, category, boolean, or "" for what cannot be used."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_boolean(arrow_type):
        return "boolean"
    if is_.is_dictionary(arrow_type) or any(
        test(arrow_type)
        for test in (is_.is_string, is_.is_large_string, is_.is_string_view, is_.is_binary, is_.is_large_binary)
    ):
        return "category"
    if is_.is_integer(arrow_type):
        return "integer"
    if is_.is_floating(arrow_type) or is_.is_decimal(arrow_type) or is_.is_null(arrow_type) or is_.is_time(arrow_type):
        return "numeric"
    if is_.is_duration(arrow_type):
        return "numeric"
    return "date" if is_.is_temporal(arrow_type) else ""


def check_kinds(known: dict[str, str], found: dict[str, str], where: str, first: str, columns: Sequence[str]) -> None:
    """Refuse a file that lacks a column, or has it in another type, than the first file had."""
    for name in columns:
        if name not in found:
            raise refusal(f"lacks column '{name}', which '{first}' has", where=where, hint=nearest(name, found))
        if not _compatible(known[name], found[name]):
            raise refusal(
                f"must hold {known[name]} values, as in '{first}'",
                where=f"column '{name}' of {where}",
                got=f"it is {found[name]}",
            )


def _compatible(one: str, two: str) -> bool:
    numbers = {"integer", "numeric"}
    return one == two or {one, two} <= numbers


class ParquetBatches:
    """Row groups of Parquet files; large ones are cut into batches."""

    def __init__(self, paths: Sequence[Path], batch_rows: int, words: str) -> None:
        import pyarrow.parquet as pq

        self.paths, self.batch_rows, self.words = list(paths), batch_rows, words
        self._parts: list[tuple[int, int]] = []
        self.kinds: dict[str, str] = {}
        self._kinds: list[dict[str, str]] = []
        self._metadata: list[Any] = []
        self.rows: int | None = 0
        for number, path in enumerate(self.paths):
            with _guard(f"file '{path}'"), pq.ParquetFile(path) as file:
                found = {field.name: kind_of(field.type) for field in file.schema_arrow}
                groups, rows = file.metadata.num_row_groups, file.metadata.num_rows
                self._metadata.append(file.metadata)
            self._kinds.append(found)
            self.kinds = self.kinds or found
            for name, kind in found.items():  # whole numbers in one file, fractions in another: numbers
                if kind == "numeric" and self.kinds.get(name) == "integer":
                    self.kinds[name] = "numeric"
            self.rows += rows
            self._parts += [(number, group) for group in range(groups)]

    @property
    def parts(self) -> int:
        return len(self._parts)

    def check(self, columns: Sequence[str]) -> None:
        """Refuse files that differ in these columns before anything is read."""
        for path, found in zip(self.paths, self._kinds, strict=True):
            check_kinds(self.kinds, found, f"file '{path}'", str(self.paths[0]), columns)

    def read(self, part: int, columns: Sequence[str]) -> Iterator[Chunk]:
        yield from self._read(part, columns, self.batch_rows)

    def _read(self, part: int, columns: Sequence[str], batch_rows: int, most: int | None = None) -> Iterator[Chunk]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        number, group = self._parts[part]
        path = self.paths[number]
        place = f"file '{path}', row group {group}"
        text = [name for name in columns if self._kinds[number].get(name) == "category"]
        with (
            _guard(place),
            pq.ParquetFile(
                path,
                metadata=self._metadata[number],
                read_dictionary=text,
                page_checksum_verification=True,
                pre_buffer=False,
            ) as file,
        ):
            rows = file.metadata.row_group(group).num_rows
            if rows <= batch_rows:
                yield Chunk(file.read_row_group(group, columns=list(columns), use_threads=False), place)
                return
            first = 0
            for batch in file.iter_batches(batch_rows, row_groups=[group], columns=list(columns), use_threads=False):
                yield Chunk(pa.Table.from_batches([batch]), place, first)
                first += batch.num_rows
                if most is not None and first >= most:
                    return

    def sample(self, columns: Sequence[str]) -> Iterator[Chunk]:
        chosen = np.linspace(0, self.parts - 1, min(8, self.parts)).astype(int).tolist() if self.parts else []
        for part in dict.fromkeys(chosen):
            yield from self._read(int(part), columns, 1 << 15, most=1 << 15)


class CsvBatches:
    """CSV files, read from the top in batches; a column whose later rows do not fit gets a wider type."""

    def __init__(self, paths: Sequence[Path], batch_rows: int, words: str) -> None:
        self.paths, self.words = list(paths), words
        self.block = max(1 << 20, min(batch_rows * 64, 1 << 26))
        self.rows: int | None = None
        self.types: dict[str, Any] = {}
        self.kinds: dict[str, str] = {}
        self._names: list[list[str]] = []
        for path in self.paths:
            schema = self._schema(path)
            self._names.append(list(schema.names))
            for field in schema:
                if field.name not in self.types or _wider(self.types[field.name], field.type):
                    self.types[field.name] = field.type
        self._settle()

    def _settle(self) -> None:
        self.kinds = {name: kind_of(kind) for name, kind in self.types.items() if name in self._names[0]}

    @property
    def parts(self) -> int:
        return len(self.paths)

    def check(self, columns: Sequence[str]) -> None:
        """Refuse files that lack a column."""
        for path, names in zip(self.paths, self._names, strict=True):
            for name in columns:
                if name not in names:
                    raise refusal(f"lacks column '{name}'", where=f"file '{path}'", hint=nearest(name, names))

    def _schema(self, path: Path) -> Any:
        from pyarrow import csv

        with _guard(f"file '{path}'"), csv_files.open_bytes(path) as stream:
            convert = csv.ConvertOptions(null_values=csv_files.NULLS)
            options = csv.ReadOptions(block_size=self.block)
            parse = csv_files.settings(path)
            with csv.open_csv(stream, options, parse, convert) as reader:
                return reader.schema

    def read(self, part: int, columns: Sequence[str]) -> Iterator[Chunk]:
        import pyarrow as pa
        from pyarrow import csv

        path = self.paths[part]
        place = f"file '{path}'"
        convert = csv.ConvertOptions(
            null_values=csv_files.NULLS,
            include_columns=list(columns),
            column_types={name: self.types[name] for name in columns},
        )
        first = 0
        with _guard(place):
            parse = csv_files.settings(path)
            try:
                with (
                    csv_files.open_bytes(path) as stream,
                    csv.open_csv(stream, csv.ReadOptions(block_size=self.block), parse, convert) as reader,
                ):
                    for batch in reader:
                        table = csv_files.empty_text_is_missing(pa.Table.from_batches([batch]))
                        if table.num_rows:
                            yield Chunk(table, place, first)
                        first += table.num_rows
            except pa.ArrowInvalid as error:
                self._widen(part, error)
                raise

    def _widen(self, part: int, error: Exception) -> None:
        """Take a column whose values did not fit as float64, then as text; anything else is the reader's refusal."""
        import pyarrow as pa

        found = re.search(r"In CSV column #(\d+)", str(error))
        if found is None:
            return
        name = self._names[part][int(found.group(1))]
        old = self.types[name]
        if pa.types.is_string(old):
            return
        self.types[name] = pa.float64() if pa.types.is_integer(old) else pa.string()
        self._settle()
        raise TypesChanged(name) from error

    def sample(self, columns: Sequence[str]) -> Iterator[Chunk]:
        for part in range(min(self.parts, 8)):
            for chunk in self.read(part, columns):
                yield Chunk(chunk.table.slice(0, 1 << 16), chunk.place)
                break


def _wider(old: Any, new: Any) -> bool:
    import pyarrow as pa

    order = [pa.types.is_null, pa.types.is_integer, pa.types.is_floating, pa.types.is_string]
    places = [next((i for i, test in enumerate(order) if test(kind)), None) for kind in (old, new)]
    return None not in places and places[1] > places[0]  # type: ignore[operator]


class _guard:  # noqa: N801  # reads as a statement
    """Turns whatever a reader raises into one clear refusal that names the place."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, (MiscalError, TypesChanged)) or not isinstance(error, Exception):
            return
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise refusal("cannot be read", where=self.place, got=f"its reader says: {lines[0]}", hint=HINT) from error

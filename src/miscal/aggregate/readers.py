"""Every kind of table as a `Source`: files, lazy frames and tables in memory.

A new kind of table is a subclass of `Source`, or, if its library can already give Arrow batches, a function that makes
a `LazySource` and an entry in `_LAZY_SOURCES`.
"""

import glob
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from miscal.aggregate.source import Source, concat_tables
from miscal.codes.data import ColumnKind
from miscal.data.arrays import frame_of, library_of, names_of, unique
from miscal.data.column_types import joined_kind, kind_of
from miscal.data.columns import arrow_vector
from miscal.data.errors import NotPlain, check_named, refusal, refusing
from miscal.data.files import PACKED, SUFFIXES, TableFile, joined_types
from miscal.data.libraries import pa
from miscal.data.outputs import check_file

FILE_ENDINGS = (*SUFFIXES, *(text + packed for text in (".csv", ".tsv") for packed in PACKED))
ABSENT = "it is not in every file"
HIDDEN = re.compile(r"(^|/)[._]")  # a hidden file, or a file in a hidden folder


def source_of(data: Any) -> Source:
    """The source of a path (a file, a folder or a pattern), of a lazy frame or relation, or of a table in memory."""
    if isinstance(data, (str, PathLike)):
        return FileSource(fspath(data))
    library = library_of(data).lstrip("_")
    if library == "pyspark":
        from miscal.aggregate.spark import SparkSource

        return SparkSource(data)
    name = f"{library}.{type(data).__name__}"
    make_source = _LAZY_SOURCES.get(name) or (_dask if library == "dask" else FrameSource)
    return make_source(data)


def paths_of(source: str) -> list[Path]:
    """The files that a path, a folder or a pattern names, in order."""
    path = Path(source)
    check_file(path)
    if path.is_dir():
        matches = [
            item
            for item in path.rglob("*")
            if item.name.lower().endswith(FILE_ENDINGS)
            and not HIDDEN.search(item.relative_to(path).as_posix())
        ]
    elif path.exists() or not glob.has_magic(source):
        return [path]
    else:
        matches = list(map(Path, glob.iglob(source, recursive=True)))  # noqa: PTH207
    files = sorted(item for item in matches if item.is_file())
    if not files:
        hint = f"in folders, names end in {', '.join(FILE_ENDINGS)}"
        raise refusal("names no table", f"'{source}'", hint=hint)
    return files


class FileSource(Source):
    """Files of one format. A part is a row group of Parquet, or a whole file of CSV or Arrow."""

    def __init__(self, source: str) -> None:
        self.description = source
        self.files = [TableFile(path) for path in paths_of(source)]
        formats = {file.form for file in self.files}
        if len(formats) > 1:
            got = f"they are {', '.join(sorted(formats))}"
            raise refusal("must be of one format", f"the files of '{source}'", got=got)
        for file in self.files:
            unique(file.names, file.where)
        csv_files = [file.csv for file in self.files if file.csv is not None]
        if csv_files:
            common_types = joined_types(csv_files)
            for file in self.files:
                file.types = common_types
        self._parts = [(file, group) for file in self.files for group in range(len(file.parts))]
        self.part_rows = [rows for file in self.files for rows in file.parts]
        self.common = [name for name in self.names if all(name in file.names for file in self.files)]
        self.excluded = [(name, ABSENT) for name in self.names if name not in self.common]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for file in self.files for name in file.names))

    def _stored_kinds(self) -> dict[str, ColumnKind]:
        kinds = {name: [kind_of(file.types[name]) for file in self.files] for name in self.common}
        return {
            name: joined_kind(kinds_by_file)
            or kinds_by_file[0]  # `check_columns` rejects kinds that do not join
            for name, kinds_by_file in kinds.items()
        }

    def part_name(self, part: int) -> str:
        file, group = self._parts[part]
        return f"{file.where}, row group {group}" if file.form == "parquet" else file.where

    def check_columns(self, columns: Sequence[str]) -> None:
        first = self.files[0]
        for file in self.files:
            check_named(columns, file.names, file.where)
            for name in columns:
                expected, kind = kind_of(first.types[name]), kind_of(file.types[name])
                if expected and joined_kind([expected, kind]) is None:
                    where = f"column '{name}' of {file.where}"
                    what = f"must hold {expected} values, as in '{first.path}'"
                    raise refusal(what, where, got=f"it is {kind}")

    def part_tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:
        file, group = self._parts[part]
        return file.tables(group, columns, batch_rows)

    def load_stored(self, columns: Sequence[str]) -> Any:
        while True:  # again if the types of CSV columns change while they are read
            types_before = dict(self.files[0].types)
            tables = [file.load(columns) for file in self.files]
            if len(tables) == 1 or self.files[0].types == types_before:
                return concat_tables(tables)


class LazySource(Source):
    """Parts that are computed anew in every pass.

    Parameters
    ----------
    description : str
        How messages name the table.
    schema : pyarrow.Schema
    parts : sequence of callable
        Called with the columns and the number of rows per batch; returns Arrow tables or record batches.
    """

    def __init__(
        self, description: str, schema: Any, parts: Sequence[Callable[[list[str], int], Iterator[Any]]]
    ) -> None:
        unique(schema.names, description)
        self.description, self._parts = description, parts
        self.types = {field.name: field.type for field in schema}
        self.part_rows = [None] * len(self._parts)

    def part_name(self, part: int) -> str:
        return self.description if len(self._parts) == 1 else f"{self.description}, partition {part}"

    def part_tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:
        with refusing("cannot be computed", self.part_name(part)):
            for batch in self._parts[part](list(columns), batch_rows):
                yield batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])


class FrameSource(Source):
    """A table in memory, of any library: one part."""

    has_unmeasured_texts = False

    def __init__(self, table: Any) -> None:
        names_of(table, "'data'")  # an object that is not a table is rejected by that name
        self._table, frame = table, frame_of(table, self.description)
        self._vectors = {name: _vector(values, f"column '{name}'") for name, values in frame.items()}
        self.types = {name: vector.type for name, vector in self._vectors.items()}
        self.part_rows = [max(map(len, frame.values()), default=0)]

    def part_tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:  # noqa: ARG002
        table = pa.table({name: self._vectors[name] for name in columns})
        for first in range(0, table.num_rows, batch_rows):
            yield table.slice(first, batch_rows)

    def load_stored(self, columns: Sequence[str]) -> Any:
        return super().load_stored(columns) if self.text_formats else self._table


def _vector(values: Any, where: str) -> Any:
    """A column as an Arrow array, values of mixed types as text."""
    try:
        return arrow_vector(values, where)
    except NotPlain:  # lists, as such a column of a file would be read; it is excluded like that
        return pa.nulls(len(values), pa.list_(pa.null()))


def _polars(frame: Any) -> LazySource:
    def part(columns: list[str], batch_rows: int) -> Iterator[Any]:
        batches = frame.select(columns).collect_batches(chunk_size=batch_rows, maintain_order=True)
        return (batch.to_arrow() for batch in batches)

    empty = frame.head(0).collect()
    return LazySource("the polars frame", empty.to_arrow().schema, [part])


def _duckdb(relation: Any) -> LazySource:
    def part(columns: list[str], batch_rows: int) -> Iterator[Any]:
        quoted = (name.replace('"', '""') for name in columns)
        projection = relation.project(", ".join(f'"{name}"' for name in quoted))
        reader = getattr(projection, "to_arrow_reader", None) or projection.fetch_arrow_reader
        return iter(reader(batch_rows))

    empty = relation.limit(0)
    table = getattr(empty, "to_arrow_table", None) or empty.arrow
    return LazySource("the DuckDB relation", table().schema, [part])


def _dask(frame: Any) -> LazySource:
    def part(number: int, columns: list[str], _: int) -> Iterator[Any]:
        yield to_arrow(frame[columns].partitions[number].compute())

    to_arrow = partial(pa.Table.from_pandas, preserve_index=False)
    schema = to_arrow(frame.head(1000, npartitions=1)).schema
    parts = [partial(part, number) for number in range(frame.npartitions)]
    return LazySource("the Dask frame", schema, parts)


def _dataset(dataset: Any) -> LazySource:
    def part(columns: list[str], batch_rows: int) -> Iterator[Any]:
        return iter(dataset.to_batches(columns=columns, batch_size=batch_rows))

    return LazySource("the dataset", dataset.schema, [part])


_LAZY_SOURCES: dict[str, Callable[[Any], LazySource]] = {
    "polars.LazyFrame": _polars,
    "duckdb.DuckDBPyRelation": _duckdb,
    "pyarrow.FileSystemDataset": _dataset,
}

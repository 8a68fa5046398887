"""Every kind of table as parts that can be read again and again, each giving Arrow tables batch by batch."""

import glob
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from miscal.aggregate.source import Source, joined
from miscal.codes.data import ColumnKind
from miscal.data.arrays import frame_of, library_of, names_of, unique
from miscal.data.column_types import joined_kind, kind_of
from miscal.data.columns import arrow_vector
from miscal.data.errors import NotPlain, check_named, refusal, refusing
from miscal.data.files import PACKED, SUFFIXES, TableFile, joined_types
from miscal.data.libraries import pa
from miscal.data.outputs import check_file

ENDINGS = (*SUFFIXES, *(text + packed for text in (".csv", ".tsv") for packed in PACKED))
ABSENT = "it is not in every file"
HIDDEN = re.compile(r"(^|/)[._]")  # a file, or a folder that it is in


def source_of(data: Any) -> Source:
    """The source of a path (a file, a folder, a pattern), of a lazy frame or relation, or of a table in memory."""
    if isinstance(data, (str, PathLike)):
        return FileSource(fspath(data))
    library = library_of(data).lstrip("_")
    if library == "pyspark":
        from miscal.aggregate.spark import SparkSource

        return SparkSource(data)
    name = f"{library}.{type(data).__name__}"
    maker = _LAZY.get(name) or (_dask if library == "dask" else FrameSource)
    return maker(data)


def paths_of(source: str) -> list[Path]:
    """The files that a path, a folder or a pattern names, in order."""
    path = Path(source)
    check_file(path)
    if path.is_dir():
        every = [
            item
            for item in path.rglob("*")
            if item.name.lower().endswith(ENDINGS) and not HIDDEN.search(item.relative_to(path).as_posix())
        ]
    elif path.exists() or not glob.has_magic(source):
        return [path]
    else:
        every = list(map(Path, glob.iglob(source, recursive=True)))  # noqa: PTH207
    found = sorted(item for item in every if item.is_file())
    if not found:
        raise refusal("names no table", f"'{source}'", hint=f"in folders, names end in {', '.join(ENDINGS)}")
    return found


class FileSource(Source):
    """Files of one format: row groups of Parquet, whole files of CSV and Arrow."""

    def __init__(self, source: str) -> None:
        self.words = source
        self.files = [TableFile(path) for path in paths_of(source)]
        forms = {file.form for file in self.files}
        if len(forms) > 1:
            got = f"they are {', '.join(sorted(forms))}"
            raise refusal("must be of one format", f"the files of '{source}'", got=got)
        for file in self.files:
            unique(file.names, file.where)
        csv = [file.csv for file in self.files if file.csv is not None]
        if csv:
            shared = joined_types(csv)
            for file in self.files:
                file.types = shared
        self._parts = [(file, group) for file in self.files for group in range(len(file.parts))]
        self.sizes = [rows for file in self.files for rows in file.parts]
        self.common = [name for name in self.names if all(name in file.names for file in self.files)]
        self.aside = [(name, ABSENT) for name in self.names if name not in self.common]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for file in self.files for name in file.names))

    def _stored(self) -> dict[str, ColumnKind]:
        kinds = {name: [kind_of(file.types[name]) for file in self.files] for name in self.common}
        return {
            name: joined_kind(stored) or stored[0]  # `check` rejects those that cannot be joined
            for name, stored in kinds.items()
        }

    def place(self, part: int) -> str:
        file, group = self._parts[part]
        return f"{file.where}, row group {group}" if file.form == "parquet" else file.where

    def check(self, columns: Sequence[str]) -> None:
        first = self.files[0]
        for file in self.files:
            check_named(columns, file.names, file.where)
            for name in columns:
                known, found = kind_of(first.types[name]), kind_of(file.types[name])
                if known and joined_kind([known, found]) is None:
                    where = f"column '{name}' of {file.where}"
                    what = f"must hold {known} values, as in '{first.path}'"
                    raise refusal(what, where, got=f"it is {found}")

    def tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:
        file, group = self._parts[part]
        return file.tables(group, columns, batch_rows)

    def whole(self, columns: Sequence[str]) -> Any:
        while True:
            before = dict(self.files[0].types)
            made = [file.load(columns) for file in self.files]
            if len(made) == 1 or self.files[0].types == before:
                return joined(made)


class LazySource(Source):
    """Parts that are computed anew in every pass."""

    def __init__(
        self, words: str, schema: Any, parts: Sequence[Callable[[list[str], int], Iterator[Any]]]
    ) -> None:
        unique(schema.names, words)
        self.words, self._parts = words, parts
        self.types = {field.name: field.type for field in schema}
        self.sizes = [None] * len(self._parts)

    def place(self, part: int) -> str:
        return self.words if len(self._parts) == 1 else f"{self.words}, partition {part}"

    def tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:
        with refusing("cannot be computed", self.place(part)):
            for piece in self._parts[part](list(columns), batch_rows):
                yield piece if isinstance(piece, pa.Table) else pa.Table.from_batches([piece])


class FrameSource(Source):
    """A table in memory, of any library: one part."""

    held = True

    def __init__(self, table: Any) -> None:
        names_of(table, "'data'")  # what is no table is refused by that name
        self._table, frame = table, frame_of(table, self.words)
        self._vectors = {name: _vector(values, f"column '{name}'") for name, values in frame.items()}
        self.types = {name: vector.type for name, vector in self._vectors.items()}
        self.sizes = [max(map(len, frame.values()), default=0)]

    def tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:  # noqa: ARG002

        table = pa.table({name: self._vectors[name] for name in columns})
        for first in range(0, table.num_rows, batch_rows):
            yield table.slice(first, batch_rows)

    def whole(self, columns: Sequence[str]) -> Any:
        return super().whole(columns) if self.forms else self._table


def _vector(values: Any, where: str) -> Any:
    """A column as an Arrow array, values of mixed types as text; of lists for one that is set aside, as in files."""
    try:
        return arrow_vector(values, where)
    except NotPlain:
        return pa.nulls(len(values), pa.list_(pa.null()))


def _polars(frame: Any) -> LazySource:
    def part(columns: list[str], batch_rows: int) -> Iterator[Any]:
        pieces = frame.select(columns).collect_batches(chunk_size=batch_rows, maintain_order=True)
        return (piece.to_arrow() for piece in pieces)

    empty = frame.head(0).collect()
    return LazySource("the polars frame", empty.to_arrow().schema, [part])


def _duckdb(relation: Any) -> LazySource:
    def part(columns: list[str], batch_rows: int) -> Iterator[Any]:
        quoted = (name.replace('"', '""') for name in columns)
        chosen = relation.project(", ".join(f'"{name}"' for name in quoted))
        reader = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_arrow_reader
        return iter(reader(batch_rows))

    empty = relation.limit(0)
    table = getattr(empty, "to_arrow_table", None) or empty.arrow
    return LazySource("the DuckDB relation", table().schema, [part])


def _dask(frame: Any) -> LazySource:
    def part(place: int, columns: list[str], _: int) -> Iterator[Any]:
        yield arrow(frame[columns].partitions[place].compute())

    arrow = partial(pa.Table.from_pandas, preserve_index=False)
    schema = arrow(frame.head(1000, npartitions=1)).schema
    parts = [partial(part, place) for place in range(frame.npartitions)]
    return LazySource("the Dask frame", schema, parts)


def _dataset(dataset: Any) -> LazySource:
    def part(columns: list[str], batch_rows: int) -> Iterator[Any]:
        return iter(dataset.to_batches(columns=columns, batch_size=batch_rows))

    return LazySource("the dataset", dataset.schema, [part])


_LAZY: dict[str, Callable[[Any], LazySource]] = {
    "polars.LazyFrame": _polars,
    "duckdb.DuckDBPyRelation": _duckdb,
    "pyarrow.FileSystemDataset": _dataset,
}

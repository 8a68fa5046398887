"""Every kind of table as parts that can be read again and again, each giving Arrow tables batch by batch."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Protocol

from miscal.data.errors import MiscalError, MixedTypes, check_named, nearest, refusal, warn
from miscal.data.files import SUFFIXES, TableFile, joined_types, kind_of
from miscal.data.frames import frame_of, names_of, unique
from miscal.data.vectors import flat, library_of

ENDINGS = (*SUFFIXES, ".csv.gz", ".tsv.gz", ".csv.zst", ".csv.bz2")
BATCH_ROWS = 1 << 20
ABSENT = "it is not in every file"


class Reader(Protocol):
    """A table as parts.

    words : how messages name it
    kinds : name -> numeric, integer, date, category, boolean, or "" for what cannot be used
    sizes : rows of each part, None where only reading tells
    aside : columns that cannot be used, with the reason
    """

    words: str
    sizes: list[int | None]
    aside: list[tuple[str, str]]

    @property
    def kinds(self) -> dict[str, str]:
        """What each column is."""

    def place(self, part: int) -> str:
        """How messages name a part."""

    def check(self, columns: Sequence[str]) -> None:
        """Refuse parts that lack columns, or have them in other types."""

    def tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:
        """Read some columns of a part."""

    def whole(self, columns: Sequence[str]) -> Any:
        """All rows of some columns, as a table that `miscal.read` takes."""


def reader_of(data: Any) -> Reader:
    """The reader of a path (a file, a folder, a pattern), of a lazy frame or relation, or of a table in memory."""
    if isinstance(data, (str, PathLike)):
        return FileReader(fspath(data))
    library = library_of(data).lstrip("_")
    name = f"{library}.{type(data).__name__}"
    maker = _LAZY.get(name) or (_dask if library == "dask" else None)
    return FrameReader(data) if maker is None else maker(data)


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


class FileReader:
    """Files of one format: row groups of Parquet, whole files of CSV and Arrow."""

    def __init__(self, source: str) -> None:
        self.words = source
        self.files = [TableFile(path) for path in paths_of(source)]
        forms = {file.form for file in self.files}
        if len(forms) > 1:
            got = f"they are {', '.join(sorted(forms))}"
            raise refusal("must be of one format", where=f"the files of '{source}'", got=got)
        for file in self.files:
            unique(file.names, file.where)
        if self.files[0].csv is not None:
            shared = joined_types([file.csv for file in self.files if file.csv is not None])
            for file in self.files:
                file.types = shared
        self._parts = [(file, group) for file in self.files for group in range(len(file.parts))]
        self.sizes = [rows for file in self.files for rows in file.parts]
        self.aside = [(name, ABSENT) for name in self._names() if any(name not in file.names for file in self.files)]

    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for file in self.files for name in file.names))

    @property
    def kinds(self) -> dict[str, str]:
        absent = {name for name, _ in self.aside}
        found: dict[str, str] = {}
        for name in self._names():
            kinds = {kind_of(file.types[name]) for file in self.files if name in file.names}
            if name not in absent:
                found[name] = "numeric" if kinds == {"integer", "numeric"} else kind_of(self.files[0].types[name])
        return found

    def place(self, part: int) -> str:
        file, group = self._parts[part]
        return f"{file.where}, row group {group}" if file.form == "parquet" else file.where

    def check(self, columns: Sequence[str]) -> None:
        first = self.files[0]
        check_names(columns, self._names(), f"'{self.words}'")
        for file in self.files:
            for name in columns:
                if name not in file.names:
                    other = next(str(one.path) for one in self.files if name in one.names)
                    what = f"lacks column '{name}', which '{other}' has"
                    raise refusal(what, where=file.where, hint=nearest(name, file.names))
                known, found = (kind_of(one.types.get(name)) if name in one.names else "" for one in (first, file))
                if known and known != found and {known, found} != {"integer", "numeric"}:
                    where, what = f"column '{name}' of {file.where}", f"must hold {known} values, as in '{first.path}'"
                    raise refusal(what, where=where, got=f"it is {found}")

    def tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:
        file, group = self._parts[part]
        return file.tables(group, columns, batch_rows)

    def whole(self, columns: Sequence[str]) -> Any:
        while True:
            before = dict(self.files[0].types)
            made = [file.load(columns) for file in self.files]
            if len(made) == 1 or self.files[0].types == before:
                return joined(made)


class LazyReader:
    """Parts that are computed anew in every pass."""

    def __init__(self, words: str, schema: Any, parts: Sequence[Callable[[list[str], int], Iterator[Any]]]) -> None:
        self.words, self._parts = words, list(parts)
        self.kinds = {field.name: kind_of(field.type) for field in schema}
        unique(list(schema.names), words)
        self.sizes: list[int | None] = [None] * len(self._parts)
        self.aside: list[tuple[str, str]] = []

    def place(self, part: int) -> str:
        return self.words if len(self._parts) == 1 else f"{self.words}, partition {part}"

    def check(self, columns: Sequence[str]) -> None:
        check_names(columns, self.kinds, self.words)

    def tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:
        try:
            yield from self._parts[part](list(columns), batch_rows)
        except MiscalError:
            raise
        except Exception as error:  # foreign code: any library may fail in its own way while it computes
            lines = str(error).strip().splitlines() or [""]
            got = f"{type(error).__name__}: {lines[0]}"
            raise refusal("cannot be computed", where=self.place(part), got=got) from error

    def whole(self, columns: Sequence[str]) -> Any:
        return joined([each for part in range(len(self._parts)) for each in self.tables(part, columns, BATCH_ROWS)])


class FrameReader:
    """A table in memory, of any library: one part."""

    words = "the table"

    def __init__(self, table: Any) -> None:
        names = names_of(table, "'data'") if getattr(table, "dtype", None) is None else list(frame_of(table, "'data'"))
        unique(names, self.words)
        self._table = table
        self._frame: Mapping[str, Any] = frame_of(table, self.words)
        self._made: dict[str, Any] = {}
        rows = {name: len(self._frame[name]) for name in list(self._frame)[:1]}
        self.sizes: list[int | None] = [next(iter(rows.values()), 0)]
        self.aside: list[tuple[str, str]] = []

    @property
    def kinds(self) -> dict[str, str]:
        return {name: kind_of(self._vector(name).type) for name in self._frame}

    def _vector(self, name: str) -> Any:
        """A column as an Arrow array, converted once; values of mixed types are text, as in `miscal.data.columns`."""
        import pyarrow as pa

        if name not in self._made:
            try:
                vector = flat(self._frame[name], f"column '{name}'")
            except MixedTypes as mixture:
                warn(f"{str(mixture).splitlines()[0]} Every value is taken as text")
                vector = pa.array([None if value is None else str(value) for value in self._frame[name]])
            self._made[name] = vector if isinstance(vector, pa.Array) else pa.array(vector, from_pandas=True)
        return self._made[name]

    def place(self, part: int) -> str:  # noqa: ARG002
        return self.words

    def check(self, columns: Sequence[str]) -> None:
        check_names(columns, self._frame, self.words)

    def tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:  # noqa: ARG002
        import pyarrow as pa

        table = pa.table({name: self._vector(name) for name in columns})
        for first in range(0, table.num_rows, batch_rows):
            yield table.slice(first, batch_rows)

    def whole(self, columns: Sequence[str]) -> Any:  # noqa: ARG002
        return self._table


def check_names(columns: Sequence[str], known: Iterable[str], where: str) -> None:
    """Refuse the first name that is no column."""
    names = list(known)
    check_named(columns, names, where, names)


def joined(tables: Sequence[Any]) -> Any:
    """Tables one after the other; whole numbers here and fractions there are numbers, dictionaries are text."""
    import pyarrow as pa

    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables([plain_text(table) for table in tables], promote_options="permissive")


def plain_text(table: Any) -> Any:
    """Text as text: each batch has a dictionary of its own."""
    import pyarrow as pa

    for place, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(place, column.name, table[place].cast(column.type.value_type))
    return table


def _polars(frame: Any) -> LazyReader:
    def part(columns: list[str], batch_rows: int) -> Iterator[Any]:
        for piece in frame.select(columns).collect_batches(chunk_size=batch_rows, maintain_order=True):
            yield piece.to_arrow()

    return LazyReader("the polars frame", frame.head(0).collect().to_arrow().schema, [part])


def _duckdb(relation: Any) -> LazyReader:
    import pyarrow as pa

    def part(columns: list[str], batch_rows: int) -> Iterator[Any]:
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        chosen = relation.project(names)
        reader = getattr(chosen, "to_arrow_reader", None) or chosen.fetch_arrow_reader
        for batch in reader(batch_rows):
            yield pa.Table.from_batches([batch])

    empty = relation.limit(0)
    return LazyReader("the DuckDB relation", (getattr(empty, "to_arrow_table", None) or empty.arrow)().schema, [part])


def _dask(frame: Any) -> LazyReader:
    import pyarrow as pa

    def maker(place: int) -> Callable[[list[str], int], Iterator[Any]]:
        def part(columns: list[str], _: int) -> Iterator[Any]:
            yield pa.Table.from_pandas(frame[columns].partitions[place].compute(), preserve_index=False)

        return part

    schema = pa.Table.from_pandas(frame.head(1000, npartitions=1), preserve_index=False).schema
    return LazyReader("the Dask frame", schema, [maker(place) for place in range(frame.npartitions)])


def _dataset(dataset: Any) -> LazyReader:
    import pyarrow as pa

    def part(columns: list[str], batch_rows: int) -> Iterator[Any]:
        for batch in dataset.to_batches(columns=columns, batch_size=batch_rows):
            yield pa.Table.from_batches([batch])

    return LazyReader("the dataset", dataset.schema, [part])


_LAZY: dict[str, Callable[[Any], LazyReader]] = {
    "polars.LazyFrame": _polars,
    "duckdb.DuckDBPyRelation": _duckdb,
    "pyarrow.FileSystemDataset": _dataset,
}

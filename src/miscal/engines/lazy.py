"""Lazy frames and relations as batches: polars, DuckDB, Dask, and Arrow datasets, whichever the user brings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from miscal.data.errors import MiscalError, refusal
from miscal.data.vectors import library_of
from miscal.engines.batches import Batches, Chunk, kind_of

SAMPLE_ROWS = 1 << 17


class LazyBatches:
    """Parts that are computed anew in every pass; each gives Arrow tables."""

    rows: int | None = None

    def __init__(self, words: str, schema: Any, parts: Sequence[Callable[[list[str]], Iterator[Any]]]) -> None:
        self.words, self._parts = words, list(parts)
        self.kinds = {field.name: kind_of(field.type) for field in schema}

    @property
    def parts(self) -> int:
        return len(self._parts)

    def read(self, part: int, columns: Sequence[str]) -> Iterator[Chunk]:
        first = 0
        place = self.words if self.parts == 1 else f"{self.words}, partition {part}"
        try:
            for table in self._parts[part](list(columns)):
                if table.num_rows:
                    yield Chunk(table, place, first)
                first += table.num_rows
        except MiscalError:
            raise
        except Exception as error:  # foreign code: any library may fail in its own way while it computes
            lines = str(error).strip().splitlines() or [""]
            raise refusal("cannot be computed", where=place, got=f"{type(error).__name__}: {lines[0]}") from error

    def sample(self, columns: Sequence[str]) -> Iterator[Chunk]:
        for part in range(min(self.parts, 4)):
            rows = 0
            for chunk in self.read(part, columns):
                yield chunk
                rows += chunk.table.num_rows
                if rows >= SAMPLE_ROWS:
                    break


def lazy_batches(source: Any, batch_rows: int) -> Batches:
    """The batches of a lazy frame, a relation or a dataset."""
    library = library_of(source).lstrip("_")
    makers: dict[str, Callable[[Any, int], LazyBatches]] = {
        "polars": _polars,
        "duckdb": _duckdb,
        "dask": _dask,
        "pyarrow": _dataset,
    }
    if library not in makers:
        got = f"got {type(source).__name__} of {library}"
        raise refusal("must be a path, or a lazy frame of polars, DuckDB, Dask or Arrow", where="'data'", got=got)
    return makers[library](source, batch_rows)


def _polars(frame: Any, batch_rows: int) -> LazyBatches:
    def part(columns: list[str]) -> Iterator[Any]:
        for piece in frame.select(columns).collect_batches(chunk_size=batch_rows, maintain_order=True):
            yield piece.to_arrow()

    return LazyBatches("the polars frame", frame.head(0).collect().to_arrow().schema, [part])


def _duckdb(relation: Any, batch_rows: int) -> LazyBatches:
    import pyarrow as pa

    def part(columns: list[str]) -> Iterator[Any]:
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        chosen = relation.project(names)
        reader = getattr(chosen, "to_arrow_reader", chosen.fetch_arrow_reader)
        for batch in reader(batch_rows):
            yield pa.Table.from_batches([batch])

    empty = relation.limit(0)
    return LazyBatches("the DuckDB relation", getattr(empty, "to_arrow_table", empty.arrow)().schema, [part])


def _dask(frame: Any, batch_rows: int) -> LazyBatches:  # noqa: ARG001  # a partition is a batch
    import pyarrow as pa

    def maker(place: int) -> Callable[[list[str]], Iterator[Any]]:
        def part(columns: list[str]) -> Iterator[Any]:
            yield pa.Table.from_pandas(frame[columns].partitions[place].compute(), preserve_index=False)

        return part

    schema = pa.Table.from_pandas(frame.head(1000, npartitions=1), preserve_index=False).schema
    return LazyBatches("the Dask frame", schema, [maker(place) for place in range(frame.npartitions)])


def _dataset(dataset: Any, batch_rows: int) -> LazyBatches:
    import pyarrow as pa

    def part(columns: list[str]) -> Iterator[Any]:
        for batch in dataset.to_batches(columns=columns, batch_size=batch_rows):
            yield pa.Table.from_batches([batch])

    return LazyBatches("the dataset", dataset.schema, [part])

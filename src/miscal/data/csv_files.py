"""CSV files: how they are opened, and of which type each column is.

A column has the first type of LADDER that holds all of its values, in all files of a table: the order in which Arrow
itself tries types. The first block of each file gives a first answer; a later value that does not fit moves its column
up the ladder, and the reading starts again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from miscal.data.errors import refusal

if TYPE_CHECKING:
    import pyarrow as pa

NULLS = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None"]  # in columns of numbers or dates
BLOCK = 1 << 26  # bytes: smaller files have their types from all of their rows


class TypesChanged(Exception):  # not an error: what was begun starts again with wider types
    """A column of a CSV file turned out to hold other values than the rows before told."""


@lru_cache(maxsize=1)
def ladder() -> tuple[Any, ...]:
    """The types that a column may have, from the narrowest to bytes, which hold everything (and are no text)."""
    import pyarrow as pa

    times = [pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("s", "ns")]
    last = (pa.float64(), pa.string(), pa.binary())
    return (pa.null(), pa.int64(), pa.bool_(), pa.date32(), pa.time32("s"), *times, *last)


def step_of(kind: Any) -> int:
    """The place of a type on the ladder; what is not on it is text."""
    import pyarrow as pa

    steps = ladder()
    return steps.index(kind if kind in steps else pa.string())


def open_bytes(path: Path) -> Any:
    """Open the bytes, unpacked by the file's ending."""
    import pyarrow as pa

    return pa.input_stream(str(path), compression="detect")


def settings(path: Path) -> Any:
    """How the file is cut into cells."""
    from pyarrow import csv

    with open_bytes(path) as stream:
        head = stream.read(1 << 16)
    if b"\0" in head:
        raise refusal("must hold text in UTF-8", where=f"file '{path}'", got="it holds zero bytes", hint="UTF-16?")
    first = head.split(b"\n", 1)[0]
    delimiter = max(",\t;", key=lambda mark: first.count(mark.encode()))
    return csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


class CsvFile:
    """One CSV file."""

    def __init__(self, path: Path) -> None:
        from pyarrow import csv

        self.path = path
        self.parse = settings(path)
        try:
            with open_bytes(path) as stream, csv.open_csv(stream, *self._options()) as reader:
                found = reader.schema
        except ValueError:  # without threads its message counts the lines
            with open_bytes(path) as stream:
                found = csv.read_csv(stream, csv.ReadOptions(use_threads=False), self.parse).schema
        self.names: list[str] = list(found.names)
        self.types: dict[str, Any] = {field.name: ladder()[step_of(field.type)] for field in found}

    def _options(self, types: Mapping[str, Any] | None = None, only: Sequence[str] | None = None) -> tuple[Any, ...]:
        from pyarrow import csv

        chosen = None if types is None else {name: types[name] for name in (self.names if only is None else only)}
        convert = csv.ConvertOptions(null_values=NULLS, include_columns=only, column_types=chosen)
        return csv.ReadOptions(block_size=BLOCK), self.parse, convert

    def load(self, types: dict[str, Any], only: Sequence[str] | None = None) -> pa.Table:
        """Read some columns, or all, with these types, which are widened where a value does not fit."""
        from pyarrow import csv

        while True:
            _, parse, convert = self._options(types, only)
            try:
                with self._widening(types), open_bytes(self.path) as stream:
                    return empty_text_is_missing(csv.read_csv(stream, csv.ReadOptions(), parse, convert))
            except TypesChanged:
                continue
            except ValueError:  # without threads its message counts the lines
                with open_bytes(self.path) as stream:
                    return csv.read_csv(stream, csv.ReadOptions(use_threads=False), parse, convert)

    def blocks(self, types: dict[str, Any], only: Sequence[str]) -> Iterator[pa.Table]:
        """Read some columns with these types, block by block; `TypesChanged` where a value does not fit."""
        import pyarrow as pa
        from pyarrow import csv

        with (
            self._widening(types),
            open_bytes(self.path) as stream,
            csv.open_csv(stream, *self._options(types, only)) as reader,
        ):
            for batch in reader:
                yield empty_text_is_missing(pa.Table.from_batches([batch]))

    def _widening(self, types: dict[str, Any]) -> Widening:
        return Widening(self.names, types)


class Widening:
    """Moves a column whose value did not fit up the ladder, and says so by `TypesChanged`."""

    def __init__(self, names: list[str], types: dict[str, Any]) -> None:
        self.names, self.types = names, types

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, ValueError):
            return
        found = re.search(r"In CSV column #(\d+)", str(error))
        if found is None:
            return
        name = self.names[int(found.group(1))]
        step = step_of(self.types[name]) + 1
        if step < len(ladder()):
            self.types[name] = ladder()[step]
            raise TypesChanged(name) from error


def joined_types(files: Sequence[CsvFile]) -> dict[str, Any]:
    """The types of the columns over the first blocks of several files."""
    types: dict[str, Any] = {}
    for file in files:
        for name, kind in file.types.items():
            types[name] = max(types.get(name, kind), kind, key=step_of)
    for file in files:
        differing = [name for name, kind in file.types.items() if kind != types[name]]
        _fit(file, types, differing)
    return types


def _fit(file: CsvFile, types: dict[str, Any], names: list[str]) -> None:
    """Widen types until the first block of a file fits."""
    while names:
        try:
            next(file.blocks(types, names), None)
        except TypesChanged:
            continue
        return


def empty_text_is_missing(table: pa.Table) -> pa.Table:
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

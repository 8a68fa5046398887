"""A table some of whose text stands for numbers or dates, read as such."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from miscal.data.frames import frame_of
from miscal.data.texts import form_of, parsed
from miscal.engines.source import Source

HEAD = 20_000  # rows that are looked at first


def head_of(source: Source, names: Sequence[str]) -> Any:
    """The first rows of some columns; None of a table without rows."""
    first: Any = next(iter(source.batches(list(names))), None)
    return None if first is None else first.table.slice(0, HEAD)


def read_as_meant(source: Source) -> tuple[Source, dict[str, str]]:
    """The source with its text read as what it stands for, and the form of each such column."""
    import pyarrow.compute as pc

    text = [name for name, kind in source.kinds.items() if kind == "category" and name not in source.unfit]
    table: Any = head_of(source, text) if text else None
    forms: dict[str, str] = {}
    for name in text if table is not None else ():
        values = table[name]
        if not _is_text(values.type):
            continue
        levels = [each for each in pc.unique(values.cast("string")).to_pylist() if each is not None and each.strip()]
        form = form_of(levels)
        if form is not None:
            forms[name] = form
    return (Meant(source, forms) if forms else source), forms


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class Meant(Source):
    """Another source, some text of which is read as numbers or dates."""

    def __init__(self, inner: Source, forms: Mapping[str, str]) -> None:
        self.inner, self.forms = inner, forms
        self.words, self.sizes, self.aside, self.texts = inner.words, inner.sizes, inner.aside, inner.texts
        self.limited(inner.memory, inner.progress)

    @property
    def names(self) -> list[str]:
        return self.inner.names

    @property
    def kinds(self) -> dict[str, str]:
        own = {name: "date" if "%" in form else "numeric" for name, form in self.forms.items()}
        return {**self.inner.kinds, **own}

    def place(self, part: int) -> str:
        return self.inner.place(part)

    def check(self, columns: Sequence[str]) -> None:
        self.inner.check(columns)

    def tables(self, part: int, columns: Sequence[str], batch_rows: int) -> Iterator[Any]:
        for table in self.inner.tables(part, columns, batch_rows):
            yield self._parsed(table)

    def whole(self, columns: Sequence[str]) -> Any:
        import pyarrow as pa

        frame = frame_of(self.inner.whole(columns), self.words, list(columns))
        return self._parsed(pa.table({name: _arrow(frame[name]) for name in columns}))

    def _parsed(self, table: Any) -> Any:
        for place, name in enumerate(table.column_names):
            if name in self.forms:
                table = table.set_column(place, name, parsed(table[name], self.forms[name], f"column '{name}'"))
        return table


def _arrow(values: Any) -> Any:
    import pyarrow as pa

    from miscal.data.columns import flat_or_text

    made = flat_or_text(values, "the column")
    return made if isinstance(made, (pa.Array, pa.ChunkedArray)) else pa.array(made, from_pandas=True)

"""Recalibrators on tables beyond memory: fitted from carriers, applied batch by batch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from miscal.data.errors import MiscalError, check_named, refusal
from miscal.data.files import TypesChanged
from miscal.data.sources import _probabilities
from miscal.data.vectors import flat
from miscal.engines.roles import Chunk, located
from miscal.engines.source import Source, ahead, opened
from miscal.recalibrate.base import Recalibrator

DEFAULT = "1GB"


def load_model(path: str | Path) -> Recalibrator:
    """Read a recalibrator that was saved as JSON."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        got = str(getattr(error, "strerror", None) or error)
        raise refusal("cannot be read", where=f"'{path}'", got=got[:1].lower() + got[1:]) from error
    try:
        return model_from(text)
    except MiscalError as error:
        raise type(error)(f"'{path}': {error}") from error


def model_from(text: str) -> Recalibrator:
    """A recalibrator from its JSON, whichever class it is of."""
    made = Recalibrator.from_json(text)
    if not made.is_fitted():
        raise refusal("is not fitted", where=type(made).__name__, hint="fit it before it is saved")
    return made


def with_columns(model: Recalibrator, chunk: Chunk, names: Sequence[str], made: Sequence[str], *, logit: bool) -> Any:
    """A batch with the recalibrated probabilities as further columns."""
    import pyarrow as pa

    table = chunk.table
    try:
        vectors = {name: flat(table[name], f"column '{name}'") for name in names}
        probability = _probabilities(vectors, logit, 0.0)
        found = model.predict_proba(probability, table if model.uses_columns else None)
    except MiscalError as error:
        raise type(error)(located(str(error), chunk)) from error
    new = [found[:, 1]] if len(made) == 1 else [np.ascontiguousarray(found[:, k]) for k in range(found.shape[1])]
    for name, values in zip(made, new, strict=True):
        table = table.append_column(name, pa.array(values))
    return table


def apply_to(
    model: Recalibrator,
    source: Any,
    probability: Sequence[str],
    out: str | Path,
    *,
    logit: bool = False,
    column: str = "recalibrated",
    memory: Any = None,
) -> int:
    """Write a table with recalibrated probabilities beside its columns, batch by batch, whole or not at all.

    Returns
    -------
    int
        How many rows were written.
    """
    table = opened(source, memory or DEFAULT)
    known = list(table.kinds)
    check_named(probability, known, f"'{source}'", known)
    made = [column] if len(model.classes_) == 2 else [f"{column}_{label}" for label in model.classes_]
    for name in made:
        if name in known:
            raise refusal("must be a new name", where="'column'", got=f"the table has '{name}'", hint="--column NAME")
    table.check([*known, *(name for name, _ in table.aside)])
    while True:
        with contextlib.suppress(TypesChanged):  # of a CSV file: from the start again
            return _written(model, table, known, list(probability), made, Path(out), logit)


def _written(
    model: Recalibrator, source: Source, known: list[str], names: list[str], made: list[str], out: Path, logit: bool
) -> int:
    """Write under another name, then rename."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    rows = 0

    chunks = ahead(lambda: source.batches(known))
    tables = (with_columns(model, chunk, names, made, logit=logit) for chunk in chunks)
    try:
        first = next(tables, None)
        if first is None:
            raise refusal("must have at least one row", where=f"'{source.words}'", got="it is empty")
        schema = _plain_schema(first.schema)
        with _writer(temporary, out.suffix.lower(), schema) as writer:
            for table in chain([first], tables):
                writer.write_table(table.cast(schema))
                rows += table.num_rows
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(out)
    except OSError as error:
        got = str(error.strerror or error).splitlines()[0]
        raise refusal("cannot be written", where=f"'{out}'", got=got) from error
    finally:
        temporary.unlink(missing_ok=True)
    return rows


def _plain_schema(schema: Any) -> Any:
    """Text as text: batches have dictionaries of their own."""
    import pyarrow as pa

    fields = [
        pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
        for field in schema
    ]
    return pa.schema(fields)


def _writer(path: Path, suffix: str, schema: Any) -> Any:
    if suffix == ".csv":
        from pyarrow import csv

        return csv.CSVWriter(str(path), schema)
    import pyarrow.parquet as pq

    return pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True)

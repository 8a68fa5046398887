"""Carriers as files: arrays with a versioned header, written whole or not at all."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.data.writing import write_whole

# What a reader of archives raises where bytes were changed or cut off.
DAMAGE = (
    OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, MemoryError, NotImplementedError, OverflowError,
    SyntaxError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def save_arrays(
    path: str | Path, schema: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray | None]
) -> None:
    """Write arrays (None ones are left out) and a JSON header that names the schema."""
    text = json.dumps({"schema": schema, **header})
    buffer = io.BytesIO()
    kept = {name: array for name, array in arrays.items() if array is not None}
    np.savez_compressed(buffer, header=np.frombuffer(text.encode(), np.uint8), **kept)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def load_arrays(path: str | Path, schema: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `save_arrays` wrote, refusing another schema or a damaged file."""
    where = f"'{path}'"
    try:
        # Opened here, so that it is closed also when what it holds is no archive.
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
    except DAMAGE as error:
        got = (str(error).splitlines() or [type(error).__name__])[0]
        raise refusal("is not a file of this library, or is damaged", where=where, got=got) from error
    if not isinstance(header, dict):
        raise refusal("is not a file of this library, or is damaged", where=where, got="its header is no object")
    if header.get("schema") != schema:
        raise refusal(f"must have the schema '{schema}'", where=where, got=f"it has {header.get('schema')!r}")
    return header, arrays

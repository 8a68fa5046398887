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

from miscal.data.errors import MiscalError, refusal
from miscal.data.writing import write_whole

ARCHIVE = b"PK"  # the first bytes of every file written here
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


def load_arrays(
    path: str | Path, schema: str, *, what: str = "a file of this library", hint: str = ""
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `save_arrays` wrote, refusing another schema or a damaged file.

    what, hint : what the file should be, and how one is made, for the refusal
    """
    where, kind = f"'{path}'", f"is not {what}, or is damaged"
    try:
        # Opened here, so that it is closed also when what it holds is no archive.
        with Path(path).open("rb") as stream:
            if stream.read(2) != ARCHIVE:
                raise refusal(f"is not {what}", where=where, got=_looks(Path(path)), hint=hint)
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
    except MiscalError:
        raise
    except FileNotFoundError as error:
        raise refusal("does not exist", where=where, hint=hint) from error
    except DAMAGE as error:
        got = (str(error).splitlines() or [type(error).__name__])[0]
        raise refusal(kind, where=where, got=got, hint=hint) from error
    if not isinstance(header, dict):
        raise refusal(kind, where=where, got="its header is no object", hint=hint)
    if header.get("schema") != schema:
        got = f"it has {header.get('schema')!r}"
        raise refusal(f"must have the schema '{schema}' of {what}", where=where, got=got, hint=hint)
    return header, arrays


def _looks(path: Path) -> str:
    """What a file that is no archive seems to be, by its name."""
    kinds = {
        ".csv": "a table", ".parquet": "a table", ".feather": "a table", ".arrow": "a table", ".html": "a page",
        ".json": "JSON", "": "",
    }  # fmt: skip
    word = kinds.get(path.suffix.lower(), "")
    return f"it looks like {word}" if word else "its first bytes are those of something else"

"""Files of arrays: a JSON header and arrays without code, a fingerprint over all, sizes looked at before loading."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from miscal.data.errors import refusal, refusing
from miscal.data.outputs import check_file, write_whole

ARCHIVE = b"PK"  # the first bytes of every file of arrays
HEADER = "header"
LARGEST = 256 << 20  # bytes that a small file may unpack to
LOOKS = {".html": "a page", ".json": "JSON"} | dict.fromkeys((".csv", ".parquet", ".feather", ".arrow"), "a table")
PACKED = 40  # times that a large one may grow: sums of empty cells pack well


def save_arrays(
    path: str | Path,
    schema: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray | None],
    mode: int | None = None,
) -> None:
    """Write arrays (None ones are left out) and a JSON header that names the schema; `mode`: the file's permissions."""
    kept = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array is not None}
    content = {"schema": schema, **header}
    text = json.dumps({**content, "digest": _digest(content, kept)})
    buffer = io.BytesIO()
    np.savez_compressed(buffer, header=np.frombuffer(text.encode(), np.uint8), **kept)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue(), mode)


def _digest(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """A fingerprint of the header and of every array with its name, type and shape."""
    made = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        made.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}".encode())
        made.update(np.ascontiguousarray(arrays[name]).data)
    return made.hexdigest()


def load_arrays(
    path: str | Path, schema: str, *, what: str = "a file of this library", hint: str = ""
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `save_arrays` wrote, refusing another schema, what unpacks to too much, and a file that was changed.

    what, hint : what the file should be, and how one is made, for the refusal
    """
    check_file(path)
    where, place = f"'{path}'", Path(path)
    if not place.exists():
        raise refusal("does not exist", where=where, hint=hint)
    # Opened here, so that it is closed also when what it holds is no archive.
    with refusing(f"is not {what}, or is damaged", where=where, hint=hint), place.open("rb") as stream:
        if stream.read(2) != ARCHIVE:
            word = LOOKS.get(place.suffix.lower())
            got = f"it looks like {word}" if word else "its first bytes are those of something else"
            raise refusal(f"is not {what}", where=where, got=got, hint=hint)
        _check_sizes(stream, where, place.stat().st_size)
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as file:
            header = dict(json.loads(file[HEADER].tobytes()))
            arrays = {name: file[name] for name in file.files if name != HEADER}
        whole = header.pop("digest", None) == _digest(header, arrays)
    if header.get("schema") != schema:
        got = f"it has {header.get('schema')!r}"
        raise refusal(f"must have the schema '{schema}' of {what}", where=where, got=got, hint=hint)
    if not whole:
        raise refusal("is damaged", where=where, got="its content does not match its fingerprint", hint=hint)
    return header, arrays


def _check_sizes(stream: Any, where: str, size: int) -> None:
    """Refuse an archive that unpacks to far more than its size, or holds what is no array."""
    with zipfile.ZipFile(stream) as archive:
        entries = archive.infolist()
    names = [entry.filename for entry in entries]
    odd = next((name for name in names if not name.endswith(".npy") or names.count(name) > 1), None)
    if odd is not None:
        raise refusal("is damaged", where=where, got=f"it holds {odd!r:.80}, which is no array of its own")
    total = sum(entry.file_size for entry in entries)
    if total > max(LARGEST, PACKED * size):
        got = f"{size:,} bytes unpack to {total:,}"
        raise refusal("would take too much memory", where=where, got=got, hint="it is not a file of this library")

"""Files that are written: looked at before the work begins, and written whole or not at all; and arrays read back."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from miscal.data.errors import MiscalError, refusal

ARCHIVE = b"PK"  # the first bytes of every file of arrays


def prepared(outputs: Mapping[str, Path | None], **inputs: Any) -> None:
    """Make the folders of what will be written; refuse an input, a folder, a closed one, and a path given twice.

    `outputs` has the paths by their option, `inputs` the files that are read, by what they are.
    """
    read = {os.path.realpath(path): name for name, path in inputs.items() if isinstance(path, (str, os.PathLike))}
    seen: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        place = os.path.realpath(path)
        if place in read:
            got = f"'{path}' is the {read[place]}"
            raise refusal("would write over what is read", where=option, got=got, hint="give another name")
        if place in seen:
            raise refusal("needs a file of its own", where=option, got=f"{seen[place]} is '{path}' too")
        seen[place] = option
        if path.is_dir():
            raise refusal("cannot be written", where=f"'{path}'", got="it is a folder", hint="name a file in it")
        _made(path)


def _made(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = f"the folder '{path.parent}' cannot be made ({error.strerror or error})"
        raise refusal("cannot be written", where=f"'{path}'", got=got) from error
    if not os.access(path.parent, os.W_OK):
        raise refusal("cannot be written", where=f"'{path}'", got=f"the folder '{path.parent}' takes no files")


def write_whole(path: str | PathLike[str], content: bytes) -> None:
    """Write under another name and rename: no reader sees half a file, a killed process leaves the old or the new one.

    A file that is replaced keeps its permissions.
    """
    write_together({Path(path): content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files: all under other names first, renamed only when every one is on the disk."""
    waiting: list[tuple[str, Path]] = []
    target = Path()
    try:
        for target, content in contents.items():
            if target.is_dir():
                raise IsADirectoryError(21, "it is a folder")
            handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".part", dir=target.parent)
            waiting.append((temporary, target))
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(_mode(target))
        for temporary, target in waiting:
            Path(temporary).replace(target)
    except OSError as error:
        hint = "" if target.parent.is_dir() else f"the folder '{target.parent}' does not exist"
        raise refusal("cannot be written", where=f"'{target}'", got=str(error.strerror or error), hint=hint) from error
    finally:
        for temporary, _ in waiting:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()


def _mode(target: Path) -> int:
    """The permissions of the file replaced, else what an ordinary new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


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
                raise refusal(f"is not {what}", where=where, got=_looks(Path(path)), hint=hint)  # noqa: TRY301
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
    except MiscalError:
        raise
    except FileNotFoundError as error:
        raise refusal("does not exist", where=where, hint=hint) from error
    except Exception as error:  # bytes that were changed or cut off may make the reader fail in any way
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

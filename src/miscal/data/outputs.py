"""Files that are written: looked at before the work begins, and written whole or not at all; and arrays read back."""

from __future__ import annotations

import contextlib
import glob
import io
import json
import os
import platform
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from miscal.data.errors import MiscalError, refusal

ARCHIVE = b"PK"  # the first bytes of every file of arrays


def prepared(outputs: Mapping[str, Path | None], **inputs: Any) -> None:
    """Make the folders of what will be written; refuse an input, a folder, a closed one, and a path given twice.

    `outputs` has the paths by their option, `inputs` the files, folders or patterns that are read, by what they are.
    """
    read = {place: name for name, given in inputs.items() for place in _places(given)}
    seen: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        place = os.path.realpath(path)
        name = next((read[each] for each in (place, os.path.dirname(place)) if each in read), None)  # noqa: PTH120
        if name is not None or _same_file(path, read):
            got = f"'{path}' is {'in ' if place not in read and name else ''}the {name or 'file that is read'}"
            raise refusal("would write over what is read", where=option, got=got, hint="give another name")
        if place in seen:
            raise refusal("needs a file of its own", where=option, got=f"{seen[place]} is '{path}' too")
        if not _is_node(path):
            seen[place] = option
        if path.is_dir():
            raise refusal("cannot be written", where=f"'{path}'", got="it is a folder", hint="name a file in it")
        _made(path)


def _places(given: Any) -> list[str]:
    """The files that are read: one, those of a pattern, or a folder."""
    if not isinstance(given, (str, os.PathLike)):
        return []
    path = os.fspath(given)
    pattern = any(mark in path for mark in "*?[") and not os.path.exists(path)  # noqa: PTH110
    found = glob.glob(path, recursive=True) if pattern else [path]  # noqa: PTH207
    return [os.path.realpath(path) for path in found]


def _same_file(path: Path, read: Mapping[str, str]) -> bool:
    """Whether a path is another name (a hard link) of a file that is read."""
    if not path.is_file():
        return False
    return any(os.path.isfile(place) and os.path.samefile(path, place) for place in read)  # noqa: PTH113, PTH121


def _made(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        got = f"the folder '{path.parent}' cannot be made ({error.strerror or error})"
        raise refusal("cannot be written", where=f"'{path}'", got=got) from error
    if not _is_node(path) and not os.access(path.parent, os.W_OK):
        raise refusal("cannot be written", where=f"'{path}'", got=f"the folder '{path.parent}' takes no files")


def check_file(path: str | PathLike[str]) -> None:
    """Refuse to read a pipe or a device, which may have no end and can be read but once, and a name no system takes."""
    try:
        node = _is_node(Path(path)) and not Path(path).is_dir()
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero byte in it
        got = str(getattr(error, "strerror", None) or error)
        raise refusal("cannot be opened", where=f"'{os.fspath(path)!s:.80}'", got=got) from error
    if node:
        kind = "pipe" if Path(path).is_fifo() else "device or socket"
        hint = "write what it gives to a file, and read that"
        raise refusal("must be a file", where=f"'{path}'", got=f"it is a {kind}", hint=hint)


def write_whole(path: str | PathLike[str], content: bytes, mode: int | None = None) -> None:
    """Write under another name and rename: no reader sees half a file, a killed process leaves the old or the new one.

    A file that is replaced keeps its permissions, unless `mode` says which it is to have.
    """
    with writing([Path(path)], mode) as (temporary,):
        temporary.write_bytes(content)


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files: all under other names first, renamed only when every one is on the disk."""
    with writing(list(contents)) as places:
        for place, content in zip(places, contents.values(), strict=True):
            place.write_bytes(content)


@contextlib.contextmanager
def writing(targets: Sequence[Path], mode: int | None = None) -> Iterator[list[Path]]:
    """Files to write to, under other names; renamed to the targets when the block ends without an error.

    A link stays, and what it points to is replaced. A device, a pipe or a socket is written to, never replaced.
    Names are made new by the system, so that no link that waits under a guessed name is followed.
    """
    waiting: list[tuple[Path, Path]] = []
    target = Path()
    try:
        for target in targets:
            waiting += [_beside(Path(os.path.realpath(target)))]
        yield [temporary for temporary, _ in waiting]
        for temporary, target in waiting:
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.chmod(_mode(target) if mode is None else mode)
        for temporary, target in waiting:
            if _is_node(target):
                _pour(temporary, target)
            else:
                temporary.replace(target)
    except OSError as error:
        hint = "" if target.parent.is_dir() else f"the folder '{target.parent}' does not exist"
        got = str(error.strerror or error).splitlines()[0]
        raise refusal("cannot be written", where=f"'{target}'", got=got, hint=hint) from error
    finally:
        for temporary, _ in waiting:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _beside(place: Path) -> tuple[Path, Path]:
    """A new file in the folder of a target (of a node: where temporary files go); those of killed runs are removed."""
    if place.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    start = f".{os.fsencode(place.name)[:40].decode('ascii', 'replace').replace(chr(0xFFFD), '_')}."
    folder = None if _is_node(place) else place.parent
    if folder is not None:
        _sweep(folder, start)
    handle, temporary = tempfile.mkstemp(prefix=f"{start}{_host()}-{os.getpid()}.", suffix=".part", dir=folder)
    os.close(handle)
    return Path(temporary), place


def _is_node(place: Path) -> bool:
    """Whether there is something that is no file: a device, a pipe, a socket."""
    return place.exists() and not place.is_file()


def _pour(temporary: Path, node: Path) -> None:
    """Write into a device or pipe; a pipe that nobody reads is an error, not a wait without end."""
    handle = os.open(node, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "wb") as file, temporary.open("rb") as made:
        os.set_blocking(file.fileno(), True)
        shutil.copyfileobj(made, file)


def _host() -> str:
    """The machine, in a few characters: folders are shared, and numbers of processes are not."""
    return f"{zlib.crc32(platform.node().encode()):08x}"


def _sweep(folder: Path, start: str) -> None:
    """Remove temporary files of the same target that processes which are no more have left."""
    for left in folder.iterdir():
        name = left.name
        if not (name.startswith(f"{start}{_host()}-") and name.endswith(".part")):
            continue
        process = name[len(start) :].split("-")[1].split(".")[0]
        with contextlib.suppress(OSError, ValueError):
            if not _alive(int(process)):
                left.unlink()


def _alive(process: int) -> bool:
    if os.name == "nt":  # where a signal of 0 would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _mode(target: Path) -> int:
    """The permissions of the file replaced, else what an ordinary new file would get."""
    if target.exists() and not _is_node(target):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def save_arrays(
    path: str | Path,
    schema: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray | None],
    mode: int | None = None,
) -> None:
    """Write arrays (None ones are left out) and a JSON header that names the schema; `mode`: the file's permissions."""
    text = json.dumps({"schema": schema, **header})
    buffer = io.BytesIO()
    kept = {name: array for name, array in arrays.items() if array is not None}
    np.savez_compressed(buffer, header=np.frombuffer(text.encode(), np.uint8), **kept)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue(), mode)


def load_arrays(
    path: str | Path, schema: str, *, what: str = "a file of this library", hint: str = ""
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `save_arrays` wrote, refusing another schema or a damaged file.

    what, hint : what the file should be, and how one is made, for the refusal
    """
    check_file(path)
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

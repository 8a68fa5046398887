"""Files that are written, whole or not at all; and files of arrays, fingerprinted, looked at before they are loaded."""

import contextlib
import glob
import hashlib
import io
import json
import os
import platform
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from miscal.data.arrays import Array, Plain
from miscal.data.errors import refusal, refusing

FileName = str | PathLike[str]


def prepared(outputs: Mapping[str, Path | None], **inputs: Any) -> None:
    """Make the folders of what will be written; refuse an input, a folder, a closed one, and a path given twice.

    `outputs` has the paths by their option, `inputs` the files, folders or patterns that are read, by what they are.
    """
    read = [(name, place) for name, given in inputs.items() for place in _places(given)]
    seen: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        place = Path(os.path.realpath(path))
        what, where = "cannot be written", f"'{path}'"
        with refusing(what, where):  # a name too long
            node = _is_node(path)
        for name, given in read:
            target = place.parent if given.is_dir() else place
            if target.exists() and given.samefile(target):  # if by another name (a hard link)
                got = f"'{path}' is {'in ' if given.is_dir() else ''}the {name}"
                raise refusal("would write over what is read", option, got=got, hint="give another name")
        if place in seen:
            raise refusal("needs a file of its own", option, got=f"{seen[place]} is '{path}' too")
        if not node:
            seen[place] = option
        if path.is_dir():
            raise refusal(what, where, got="it is a folder", hint="name a file in it")
        with refusing(what, where, got=f"the folder '{path.parent}' cannot be made"):
            path.parent.mkdir(parents=True, exist_ok=True)
        if not node and not os.access(path.parent, os.W_OK):
            raise refusal(what, where, got=f"the folder '{path.parent}' takes no files")


def _places(given: Any) -> list[Path]:
    """The files that are read: one, those of a pattern, or a folder."""
    if not isinstance(given, (str, os.PathLike)):
        return []
    path = os.fspath(given)
    found = [path] if os.path.exists(path) else glob.glob(path, recursive=True)  # noqa: PTH110, PTH207
    return [Path(os.path.realpath(each)) for each in found]


def check_file(path: FileName) -> None:
    """Refuse to read a pipe or a device, which may have no end and can be read but once, and a name no system takes."""
    # A name too long, or with a zero byte.
    with refusing("cannot be opened", f"'{os.fspath(path)!s:.80}'"):
        node = _is_node(Path(path)) and not Path(path).is_dir()
    if node:
        kind = "pipe" if Path(path).is_fifo() else "device or socket"
        hint = "write what it gives to a file, and read that"
        raise refusal("must be a file", f"'{path}'", got=f"it is a {kind}", hint=hint)


def write_whole(path: FileName, content: bytes) -> None:
    """Write one file whole: no reader sees half of it, a killed process leaves the old or the new one."""
    write_together({Path(path): content})


def write_together(contents: Mapping[Path, bytes], mode: int | None = None) -> None:
    """Write several files: all under other names first, renamed only when every one is on the disk.

    A file that is replaced keeps its permissions, unless `mode` says which it is to have.
    """
    with writing(list(contents), mode) as places:
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
        raise refusal("cannot be written", f"'{target}'", got=got, hint=hint) from error
    finally:
        for temporary, _ in waiting:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _beside(place: Path) -> tuple[Path, Path]:
    """A new file in the folder of a target (of a node: where temporary files go); those of killed runs are removed."""
    if place.is_dir():
        raise IsADirectoryError(21, "it is a folder")
    name = os.fsencode(place.name)[:40].decode("ascii", "replace").replace(chr(0xFFFD), "_")
    # The machine, in a few characters: folders are shared, and numbers of processes are not.
    start = f".{name}.{zlib.crc32(platform.node().encode()):08x}-"
    folder = None if _is_node(place) else place.parent
    own = glob.escape(start)
    # On Windows the signal 0 would end a process.
    left = folder.glob(f"{own}*.part") if folder is not None and os.name != "nt" else ()
    for part in left:
        with contextlib.suppress(OSError, ValueError):
            try:
                os.kill(int(part.name[len(start) :].split(".")[0]), 0)
            except ProcessLookupError:  # the process that left it is no more
                part.unlink()
    handle, temporary = tempfile.mkstemp(prefix=f"{start}{os.getpid()}.", suffix=".part", dir=folder)
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


def _mode(target: Path) -> int:
    """The permissions of the file replaced, else what an ordinary new file would get."""
    if target.is_file():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


ARCHIVE = b"PK"  # the first bytes of every file of arrays
HEADER = "header"
LARGEST = 256 << 20  # bytes that a small file may unpack to
PACKED = 40  # times that a large one may grow: sums of empty cells pack well


def save_arrays(
    path: str | Path,
    schema: str,
    header: Mapping[str, Any],
    arrays: Mapping[str, Array | None],
    mode: int | None = None,
) -> None:
    """Write arrays (None ones are left out) and a JSON header that names the schema; `mode`: the file's permissions."""
    kept = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array is not None}
    content = {"schema": schema, **header}
    text = json.dumps({**content, "digest": _digest(content, kept)})
    buffer = io.BytesIO()
    np.savez_compressed(buffer, header=np.frombuffer(text.encode(), np.uint8), **kept)  # type: ignore[arg-type]
    write_together({Path(path): buffer.getvalue()}, mode)


def _digest(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """A fingerprint of the header and of every array with its name, type and shape."""
    made = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
    for name in sorted(arrays):
        made.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}".encode())
        made.update(arrays[name].data)
    return made.hexdigest()


def load_arrays(
    path: str | Path, schema: str, *, what: str = "a file of this library", hint: str = ""
) -> tuple[Plain, dict[str, Array]]:
    """Read what `save_arrays` wrote, refusing another schema, what unpacks to too much, and a file that was changed.

    what, hint : what the file should be, and how one is made, for the refusal
    """
    check_file(path)
    where, place = f"'{path}'", Path(path)
    if not place.exists():
        raise refusal("does not exist", where, hint=hint)
    # Opened here, so that it is closed also when what it holds is no archive.
    with refusing(f"is not {what}, or is damaged", where, hint=hint), place.open("rb") as stream:
        if stream.read(2) != ARCHIVE:
            got = "its first bytes are those of something else"
            raise refusal(f"is not {what}", where, got=got, hint=hint)
        _check_sizes(stream, where, place.stat().st_size)
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as file:
            header = dict(json.loads(file[HEADER].tobytes()))
            arrays = dict(file)
        del arrays[HEADER]
        whole = header.pop("digest", None) == _digest(header, arrays)
    if header.get("schema") != schema:
        got = f"it has {header.get('schema')!r}"
        raise refusal(f"must have the schema '{schema}' of {what}", where, got=got, hint=hint)
    if not whole:
        raise refusal("is damaged", where, got="its content does not match its fingerprint", hint=hint)
    return header, arrays


def _check_sizes(stream: Any, where: str, size: int) -> None:
    """Refuse an archive that unpacks to far more than its size, or holds what is no array."""
    with zipfile.ZipFile(stream) as archive:
        entries = archive.infolist()
    names = [entry.filename for entry in entries]
    odd = next((name for name in names if not name.endswith(".npy") or names.count(name) > 1), None)
    if odd is not None:
        raise refusal("is damaged", where, got=f"it holds {odd!r:.80}, which is no array of its own")
    total = sum(entry.file_size for entry in entries)
    if total > max(LARGEST, PACKED * size):
        got = f"{size:,} bytes unpack to {total:,}"
        hint = "it is not a file of this library"
        raise refusal("would take too much memory", where, got=got, hint=hint)

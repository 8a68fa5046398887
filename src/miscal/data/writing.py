"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from miscal.data.errors import refusal


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

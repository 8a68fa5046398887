"""Where a command writes: looked at before the work begins, so that no minute is lost and no input is written over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from miscal.data.errors import refusal

__all__ = ["prepared"]


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

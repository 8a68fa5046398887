"""JSON that every reader accepts, and files that are whole or absent."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.data.outputs import write_whole
from miscal.page.reading import checked


def plain(value: object) -> Any:
    """Turn a value into what JSON knows: NaN and infinities become None, arrays lists, dates text.

    Examples
    --------
    >>> plain({"a": np.array([1.0, np.nan]), 2: (np.int64(3), float("inf"))})
    {'a': [1.0, None], '2': [3, None]}
    """
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (int, str)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [plain(item) for item in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return plain(value.to_dict()) if hasattr(value, "to_dict") else str(value)


def dumps(document: object) -> str:
    """Write a document as JSON text.

    Lone surrogates, which no UTF-8 file can hold, are replaced.

    Examples
    --------
    >>> dumps({"p_value": float("nan")})
    '{"p_value": null}'
    """
    text = json.dumps(plain(document), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode("utf-8")


def write_json(document: object, path: str | PathLike[str]) -> None:
    """Write a document to a file, whole or not at all."""
    write_text(path, dumps(document) + "\n")


def read_json(path: str | PathLike[str]) -> Mapping[str, Any]:
    """Read an audit's dictionary back, or say what is wrong with the file."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise refusal("cannot be read", where=f"'{path}'", got=str(error.strerror or error)) from error
    except (ValueError, RecursionError) as error:  # also a number of more digits than Python reads
        hint = "the JSON of an audit is what `miscal audit TABLE --json FILE` or Audit.to_json(FILE) writes"
        raise refusal("is not JSON", where=f"'{path}'", got=str(error), hint=hint) from error
    return checked(document)


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write text, whole or not at all; line ends stay as they are on every system."""
    write_whole(path, text.encode("utf-8", "replace"))

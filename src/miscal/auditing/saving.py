"""An audit as a file: its dictionary and its tallies, without any row."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from miscal.carriers.tally import Tally
from miscal.data.errors import refusal
from miscal.data.outputs import load_arrays, save_arrays
from miscal.page.json import dumps, read_json
from miscal.page.reading import SCHEMA as SCHEMA_OF_JSON
from miscal.page.reading import checked

SCHEMA = "miscal.audit-file/1"
WHAT = "a saved audit"
HINT = (
    "a saved audit is the file that `miscal audit TABLE --save FILE` or Audit.save(FILE) writes, without the rows; the "
    "JSON of `miscal audit TABLE --json FILE` will do too, though it has no sums of cells"
)
PARTS = {"data": dict, "settings": dict, "score": dict, "findings": list, "clean": list, "too_small": list,
         "sections": dict}  # fmt: skip


def save(document: dict[str, Any], carriers: dict[str, Tally], path: str | PathLike[str]) -> None:
    """Write an audit, whole or not at all."""
    arrays: dict[str, np.ndarray | None] = {}
    described = []
    for number, (name, tally) in enumerate(carriers.items()):
        described.append({"name": name, **tally.described()})
        arrays |= tally.arrays(f"{number}-")
    text = dumps({"document": document, "carriers": described})
    save_arrays(Path(path), SCHEMA, {"text": text}, arrays)


def load(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, Tally]]:
    """Read what `save` wrote; or the JSON of an audit, which has no tallies."""
    document, carriers = (dict(read_json(path)), {}) if _is_json(Path(path)) else _load_saved(path)
    lacking = [part for part, kind in PARTS.items() if not isinstance(document.get(part), kind)]
    if lacking:
        raise refusal("is damaged", where=f"'{path}'", got=f"it has no '{lacking[0]}'")
    return document, carriers


def _is_json(path: Path) -> bool:
    """Whether a file is the JSON of an audit; of anything else the other reader says what it is not."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return content.lstrip()[:1] == b"{" and SCHEMA_OF_JSON.encode() in content


def _load_saved(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, Tally]]:
    header, arrays = load_arrays(Path(path), SCHEMA, what=WHAT, hint=HINT)
    try:
        content = json.loads(header["text"])
        document = dict(checked(content["document"]))
        entries = enumerate(content["carriers"])
        carriers = {entry["name"]: Tally.rebuilt(entry, arrays, f"{number}-") for number, entry in entries}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise refusal("is damaged", where=f"'{path}'", got=str(error)) from error
    return document, carriers

"""An audit as a file: its dictionary and its tallies, without any row."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from miscal.carriers.storage import load_arrays, save_arrays
from miscal.carriers.tally import Tally
from miscal.data.errors import refusal
from miscal.page.json import dumps
from miscal.page.reading import checked
from miscal.pooling.cells import cells_from

SCHEMA = "miscal.audit-file/1"
WHAT = "a saved audit"
HINT = "a saved audit is the file that `miscal audit TABLE --save FILE` or Audit.save(FILE) writes, without the rows"
ARRAYS = ("counts", "limbs", "sums", "impossible")


def save(document: dict[str, Any], carriers: dict[str, Tally], path: str | PathLike[str]) -> None:
    """Write an audit, whole or not at all."""
    arrays: dict[str, np.ndarray | None] = {}
    described = []
    for number, (name, tally) in enumerate(carriers.items()):
        described.append(
            {
                "name": name,
                "cells": tally.cells.describe(),
                "columns": list(tally.columns),
                "weighted": bool(tally.weighted),
            }
        )
        arrays |= {f"{number}-{part}": getattr(tally, part) for part in ARRAYS}
    text = dumps({"document": document, "carriers": described})
    save_arrays(Path(path), SCHEMA, {"text": text}, arrays)


def load(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, Tally]]:
    """Read what `save` wrote."""
    header, arrays = load_arrays(Path(path), SCHEMA, what=WHAT, hint=HINT)
    try:
        content = json.loads(header["text"])
        document = dict(checked(content["document"]))
        carriers = {}
        for number, entry in enumerate(content["carriers"]):
            parts = {part: arrays.get(f"{number}-{part}") for part in ARRAYS}
            carriers[entry["name"]] = Tally(
                cells=cells_from(entry["cells"]),
                counts=arrays[f"{number}-counts"],
                limbs=parts["limbs"],
                sums=parts["sums"],
                columns=tuple(entry["columns"]),
                impossible=parts["impossible"],
                weighted=bool(entry["weighted"]),
            )
    except (KeyError, TypeError, ValueError) as error:
        raise refusal("is damaged", where=f"'{path}'", got=str(error)) from error
    return document, carriers

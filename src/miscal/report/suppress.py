"""Small cells kept out of everything that is written: page, JSON and CSV are made of the same dictionary."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from miscal.data.errors import refusal

KEPT = {"label", "level", "low", "high"}


def suppressed(document: Mapping[str, Any], below: int) -> dict[str, Any]:
    """A copy of an audit's dictionary without the numbers of cells of fewer than `below` rows.

    A suppressed cell keeps its name and loses everything else. Where the rest of a table would give a suppressed cell
    away by subtraction (fewer than `below` rows are suppressed in all), the next smallest cells go too.
    Findings of fewer rows are left out; how many is said.
    """
    if not isinstance(below, (int, np.integer)) or isinstance(below, bool) or below < 1:
        raise refusal("must be a whole number of at least 1", where="'suppress_below'", got=f"it is {below!r}")
    made: dict[str, Any] = copy.deepcopy({key: value for key, value in document.items() if key != "sections"})
    made["sections"] = {
        kind: [_result(result, below) for result in results] for kind, results in document["sections"].items()
    }
    kept = [f for f in made["findings"] if f["rows"] >= below]
    gone = {f["where"] for f in made["findings"]} - {f["where"] for f in kept}
    for finding in kept:
        if finding.get("parent") in gone:
            finding["parent"] = None
    made["findings"] = kept
    small = made["too_small"]
    for entry in small:
        if 0 < entry.get("rows", below) < below:
            entry["rows"] = None
    if gone:
        small.append({"where": f"{len(gone)} findings", "rows": None, "reason": f"suppressed: fewer than {below} rows"})
    made["settings"] = {**made["settings"], "suppress_below": int(below)}
    return made


def _result(result: Mapping[str, Any], below: int) -> dict[str, Any]:
    made = copy.deepcopy(dict(result))
    table = made["table"]
    hidden = hidden_cells([_rows(rows) for rows in table.get("rows", [])], below)
    if hidden.any():
        for name, values in table.items():
            if name not in KEPT:
                table[name] = [None if hide else value for value, hide in zip(values, hidden, strict=True)]
        for name in ("worst", "differences", "curve"):
            made["extra"].pop(name, None)
    for name in ("histogram", "density"):
        bars = made["extra"].get(name)
        if bars:
            counts = np.asarray(bars["rows"], dtype=float)
            bars["rows"] = np.where((counts > 0) & (counts < below), 0.0, counts).tolist()
    return made


def _rows(value: Any) -> float:
    return math.nan if value is None else float(value)


def hidden_cells(rows: list[float], below: int) -> np.ndarray:
    """Which cells to hide: the small ones, and as many more as keep them from being found by subtraction.

    >>> hidden_cells([3, 40, 12, 100], 10).tolist()
    [True, False, True, False]
    """
    counts = np.asarray(rows, dtype=float)
    hidden = (counts > 0) & (counts < below)
    if not hidden.any():
        return hidden
    for cell in np.argsort(np.where(hidden | ~(counts > 0), np.inf, counts), kind="stable"):
        if counts[hidden].sum() >= below and hidden.sum() > 1:
            break
        if not hidden[cell] and counts[cell] > 0:
            hidden[cell] = True
    return hidden

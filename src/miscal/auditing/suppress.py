"""Small cells kept out of everything that is written: page, JSON and CSV are made of the same dictionary."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from miscal.auditing.column_choice import left_out
from miscal.data.errors import refusal
from miscal.page.words import KIND, finite, plural

GIVEN_AWAY = "gives the outcome away"  # a note that tells the outcome of small cells too
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
    many = _number(made["findings"])
    made["findings"] = _findings(made["findings"], below)
    left = many - _number(made["findings"])
    small = made["too_small"]
    for entry in small:
        if 0 < entry.get("rows", below) < below:
            entry["rows"] = None
    if left:
        small.append(left_out(plural(left, "finding"), None, f"suppressed: fewer than {below} rows"))
    if made.get("comparison"):
        made["comparison"] = _comparison(made["comparison"], made, below)
    made["notes"] = [note for note in made.get("notes", []) if GIVEN_AWAY not in note]
    made["settings"] = {**made["settings"], "suppress_below": int(below)}
    return made


def _number(findings: Sequence[Mapping[str, Any]]) -> int:
    return sum(1 + _number(finding.get("explained", ())) for finding in findings)


def _findings(findings: Sequence[Mapping[str, Any]], below: int, parent: str | None = None) -> list[dict[str, Any]]:
    """The findings of enough rows; what a smaller one explained stands alone, and so does a range of few scores."""
    made: list[dict[str, Any]] = []
    for finding in findings:
        kept = finding["rows"] >= below
        under = _findings(finding.get("explained", ()), below, finding["where"] if kept else parent)
        if not kept:
            made += under
            continue
        ranges = finding.get("score_ranges", ())
        ranges = ranges if all(one["rows"] >= below for one in ranges) else ()
        made.append({**finding, "parent": parent, "score_ranges": ranges, "explained": under})
    return made


def _comparison(compared: Mapping[str, Any], made: Mapping[str, Any], below: int) -> dict[str, Any]:
    """What changed, without cells that are small in either audit or hidden in their section, and without counts."""
    hidden = {
        f"{result.get('settings', {}).get('column') or 'score'} {label}"
        for results in made["sections"].values()
        for result in results
        for label, rows in zip(result["table"].get("label", []), result["table"].get("rows", []), strict=False)
        if rows is None
    }
    table = compared["table"]
    before = table.get("rows_before", [0] * len(table["where"]))  # not known: taken for small
    sizes = zip(table["where"], table["rows"], before, strict=True)
    keep = [where not in hidden and rows >= below and old >= below for where, rows, old in sizes]
    cells = {
        name: [value for value, shown in zip(values, keep, strict=True) if shown]
        for name, values in table.items()
        if name not in ("rows", "rows_before")
    }
    named = {*cells["where"], *(finding["where"] for finding in made["findings"])}
    places = {word: [w for w in compared[word] if w in named] for word in ("better", "worse", "new", "gone")}
    return {**compared, **places, "table": cells}


def _result(result: Mapping[str, Any], below: int) -> dict[str, Any]:
    made = copy.deepcopy(dict(result))
    table = made["table"]
    counts = [finite(rows) for rows in table.get("rows", [])]
    hidden = hidden_cells(counts, below)
    _coarsen(made, counts, below)
    if hidden.any():
        for name, values in table.items():
            if name not in KEPT:
                table[name] = _masked(values, hidden)
        if made.get("kind") == KIND:
            _hide_steps(table, hidden)
        for name in ("worst", "differences", "curve"):
            made["extra"].pop(name, None)
    for name in ("histogram", "density"):
        bars = made["extra"].get(name)
        if bars:
            bar_rows = np.asarray(bars["rows"], dtype=float)
            bars["rows"] = np.where((bar_rows > 0) & (bar_rows < below), 0.0, bar_rows).tolist()
    return made


def _hide_steps(table: dict[str, list[Any]], hidden: np.ndarray) -> None:
    """Hide what a period says of the one before it where that one is hidden."""
    after = np.append(False, hidden[:-1])
    for name, values in table.items():
        if name.startswith(("change", "size_")) or name in ("before", "verdict", "words"):
            table[name] = _masked(values, after)


def _masked(values: Sequence[Any], hidden: Iterable[Any]) -> list[Any]:
    return [None if hide else value for value, hide in zip(values, hidden, strict=True)]


def _coarsen(made: dict[str, Any], counts: list[float], below: int) -> None:
    """Thin running totals until every step holds at least `below` rows; the full resolution would show single rows.

    A step of a running total is a share of weight: where rows have weights nobody can say how many it holds, and the
    curve is left out.
    """
    extra, table = made["extra"], made["table"]
    curves = extra.pop("cumulative", None)
    weighted = [finite(weight) for weight in table.get("weight", counts)] != counts
    if isinstance(curves, Mapping) and not weighted:
        extra["cumulative"] = coarsened(curves, float(np.nansum(counts)), below)
    elif isinstance(curves, list) and not weighted:
        sizes = dict(zip(table.get("label", []), counts, strict=False))
        kept = [(curve, sizes.get(curve.get("label"), math.nan)) for curve in curves]
        extra["cumulative"] = [coarsened(curve, rows, below) for curve, rows in kept if rows >= below]
    if isinstance(extra.get("worst"), list):
        extra["worst"] = [item for item in extra["worst"] if not finite(item.get("rows")) < below]
    if isinstance(extra.get("too_small"), Mapping):
        extra.pop("too_small")
    if isinstance(extra.get("grid"), Mapping):
        extra["grid"] = _hidden_grid(extra["grid"], below)


def coarsened(curve: Mapping[str, Any], rows: float, below: int) -> dict[str, Any]:
    """A running total at steps of at least `below` rows, its end kept.

    >>> coarsened({"x": [0.0, 0.1, 0.5, 1.0], "y": [0.0, 0.3, 0.2, 0.1]}, 20, 10)
    {'x': [0.0, 0.5, 1.0], 'y': [0.0, 0.2, 0.1]}
    """
    share = [float(x) for x in curve["x"]]
    keep = [0]
    for place in range(1, len(share)):
        if (share[place] - share[keep[-1]]) * rows >= below - 1e-9:
            keep.append(place)
    last = len(share) - 1
    if keep[-1] != last:  # the last step would be too small: join it to the one before
        keep = [*(keep[:-1] if len(keep) > 1 else keep), last]
    return {
        name: [values[k] for k in keep] if isinstance(values, list) and len(values) == len(share) else values
        for name, values in curve.items()
    }


def _hidden_grid(grid: Mapping[str, Any], below: int) -> dict[str, Any]:
    """The map without the cells of few rows."""
    small = [[0 < finite(rows) < below for rows in line] for line in grid["rows"]]
    made = dict(grid)
    for name in ("gap", "deviations", "rows"):
        made[name] = [_masked(line, hidden) for line, hidden in zip(grid[name], small, strict=True)]
    return made


def hidden_cells(rows: list[float], below: int) -> np.ndarray:
    """Which cells to hide: the small ones, and as many more as keep them from being found by subtraction.

    >>> hidden_cells([3, 40, 12, 100], 10).tolist()
    [True, False, True, False]
    """
    counts = np.asarray(rows, dtype=float)
    hidden = (counts > 0) & (counts < below)
    if hidden.any():
        order = np.argsort(np.where(counts > 0, counts, np.inf), kind="stable")[: np.count_nonzero(counts > 0)]
        enough = int(np.searchsorted(np.cumsum(counts[order]), below)) + 1
        hidden[order[: max(enough, 2, np.count_nonzero(hidden))]] = True
    return hidden

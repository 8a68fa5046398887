"""Small cells kept out of everything that is written: page, JSON and CSV are made of the same dictionary."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from miscal.auditing.column_choice import left_out
from miscal.auditing.disclosure import EVERYTHING, Shown
from miscal.auditing.shown_places import OF_COLUMNS, Places
from miscal.data.errors import refusal
from miscal.page.words import KIND, finite, plural

GIVEN_AWAY = "gives the outcome away"  # a note that tells the outcome of small cells too
INFINITE = "The log loss is infinite"  # a note that counts rows, be they few
KEPT = {"label", "level", "low", "high"}
LOOKED_AT = {
    "schema",
    "version",
    "versions",
    "data",
    "settings",
    "score",
    "findings",
    "unlisted",
    "notes",
    "clean",
    "too_small",
    "left_out",
    "comparison",
}  # beside the sections; whatever else an audit tells (curves of findings) no rule here looks at: it is left out
FINER = ("histogram", "density", "differences", "too_small", "grid")  # the same rows, cut otherwise than in the table


def suppressed(document: Mapping[str, Any], below: int) -> dict[str, Any]:
    """A copy of an audit's dictionary without the numbers of cells of fewer than `below` rows.

    A suppressed cell keeps its name and loses everything else, and so does each cell from which, with the others that
    are shown (in findings, tables of columns and periods, subpopulations), a small one would follow by sums and
    differences. Findings come first: a table hides another cell rather than one that is a finding. What cuts the same
    rows otherwise (histograms, maps, running totals between the ranges) is left out.
    """
    if not isinstance(below, (int, np.integer)) or isinstance(below, bool) or below < 1:
        raise refusal("must be a whole number of at least 1", where="'suppress_below'", got=f"it is {below!r}")
    made: dict[str, Any] = copy.deepcopy({key: value for key, value in document.items() if key in LOOKED_AT})
    sections, places = document["sections"], Places(document)
    shown = Shown(int(below), places.levels, places.named)
    shown.show(EVERYTHING, places.rows)
    made["findings"] = _findings(made["findings"], shown, places)
    hidden = _hidden_tables(sections, shown, places)
    made["sections"] = {
        kind: [_result(result, hidden[kind, place]) for place, result in enumerate(results)]
        for kind, results in sections.items()
    }
    for entry in made["too_small"]:
        if entry.get("rows") != document["data"].get("rows"):
            entry["rows"] = None
    hidden_findings = _number(document["findings"]) - _number(made["findings"])
    if hidden_findings:
        left = plural(hidden_findings, "finding")
        reason = f"suppressed: fewer than {below} rows, or they would give such a place away"
        made["too_small"].append(left_out(left, None, reason))
    if made.get("comparison"):
        made["comparison"] = _comparison(made["comparison"], made, below)
    made["notes"] = [note for note in made.get("notes", []) if GIVEN_AWAY not in note and INFINITE not in note]
    made["score"].get("details", {}).get("log_loss", {}).pop("rows", None)
    made["settings"] = {**made["settings"], "suppress_below": int(below)}
    return made


def _number(findings: Sequence[Mapping[str, Any]]) -> int:
    return sum(1 + _number(finding.get("explained", ())) for finding in findings)


def _findings(
    findings: Sequence[Mapping[str, Any]], shown: Shown, places: Places, parent: str | None = None
) -> list[dict[str, Any]]:
    """The findings that may be shown, in their order; what a hidden one explained stands alone.

    The ranges of the score within a place are counts that no rule follows: they are left out.
    """
    made: list[dict[str, Any]] = []
    for each in findings:
        kept = shown.show(places.of_finding(each), int(each["rows"]))
        under = _findings(each.get("explained", ()), shown, places, each["where"] if kept else parent)
        if kept:
            made.append({**each, "parent": parent, "score_ranges": (), "explained": under})
        else:
            made += under
    return made


def _hidden_tables(sections: Mapping[str, Any], shown: Shown, places: Places) -> dict[tuple[str, int], Any]:
    """Which cells of each table to hide; the tables of columns first, largest cells first, then subpopulations."""
    order = sorted(sections, key=lambda kind: (kind not in OF_COLUMNS, kind == "subpopulation"))
    made = {}
    for kind in order:
        for place, result in enumerate(sections[kind]):
            counts = np.array([finite(rows) for rows in result["table"].get("rows", [])])
            hidden = np.zeros(counts.size, bool)
            if kind == "subpopulation" or kind in OF_COLUMNS:
                boxes = places.of_table(kind, result)
                first = np.arange(counts.size) if kind == "subpopulation" else np.argsort(-counts, kind="stable")
                for cell in first.tolist():
                    hidden[cell] = not shown.show(boxes[cell], int(counts[cell]))
            else:
                hidden = hidden_cells(counts.tolist(), shown.below)
            made[kind, place] = hidden
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


def _result(result: Mapping[str, Any], hidden: np.ndarray) -> dict[str, Any]:
    made = copy.deepcopy(dict(result))
    table, extra = made["table"], made["extra"]
    running = extra.pop("cumulative", None)
    for name in (*FINER, "certain"):
        extra.pop(name, None)
    if isinstance(extra.get("worst"), list):
        named = {label for label, hide in zip(table.get("label", []), hidden, strict=True) if not hide}
        extra["worst"] = [item for item in extra["worst"] if item.get("label") in named]
    if not hidden.any():
        if isinstance(running, Mapping):
            extra["cumulative"] = between_ranges(table, running)
        return made
    for name, values in table.items():
        if name not in KEPT:
            table[name] = _masked(values, hidden)
    if made.get("kind") == KIND:
        _hide_steps(table, hidden)
    for name in ("worst", "curve"):
        if not isinstance(extra.get(name), list):
            extra.pop(name, None)
    return made


def between_ranges(table: Mapping[str, Any], running: Mapping[str, Any]) -> dict[str, Any]:
    """The running total at the ends of the ranges of a table, which tells no more than the table does.

    >>> cells = {"weight": [10.0, 30.0], "events_off": [1.0, -3.0], "low": [0.0, 0.5], "high": [0.5, 1.0]}
    >>> made = between_ranges(cells, {"x": [0.0, 0.5, 1.0], "band": [0.0, 0.2, 0.4]})
    >>> made["x"], made["y"]
    ([0.0, 0.25, 1.0], [0.0, 0.025, -0.05])
    """
    weight, off = (np.asarray(table[name], dtype=float) for name in ("weight", "events_off"))
    x, y = (np.append(0.0, np.cumsum(each)) / weight.sum() for each in (weight, off))
    made = {"x": x.tolist(), "y": y.tolist(), "score": [table["low"][0], *table["high"]]}
    return made | {"band": np.interp(x, running["x"], running["band"]).tolist()}


def _hide_steps(table: dict[str, list[Any]], hidden: np.ndarray) -> None:
    """Hide what a period says of the one before it where that one is hidden."""
    after = np.append(False, hidden[:-1])
    for name, values in table.items():
        if name.startswith(("change", "size_")) or name in ("before", "verdict", "words"):
            table[name] = _masked(values, after)


def _masked(values: Sequence[Any], hidden: Iterable[Any]) -> list[Any]:
    return [None if hide else value for value, hide in zip(values, hidden, strict=True)]


def hidden_cells(rows: list[float], below: int) -> np.ndarray:
    """Which cells to hide of a table that nothing else tells of: the small ones, and enough beside them.

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

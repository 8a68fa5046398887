"""Small cells kept out of everything that is written: page, JSON and CSV are made of the same dictionary.

The places that it gives numbers of are boxes, whose sums and differences can be followed (`disclosure`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from miscal.auditing.column_choice import left_out
from miscal.auditing.disclosure import EVERY_VALUE, EVERYTHING, MISSING, Box, Shown, box_of, joined_ends
from miscal.auditing.findings import listed
from miscal.auditing.periods import level_days
from miscal.auditing.search.parts import MONTHS_OF
from miscal.data.errors import MiscalError, refusal
from miscal.page.json import Columns, floats
from miscal.page.words import KIND, finite, plural
from miscal.pooling.condition import LARGEST, Conjunction, just_below
from miscal.pooling.parsing import parse

GIVEN_AWAY = "gives the outcome away"  # a note that tells the outcome of small cells too
INFINITE = "The log loss is infinite"  # a note that counts rows, be they few
KEPT = {"label", "level", "low", "high"}
STEPS = ("change", "size_", "before", "verdict", "words")  # how columns begin that tell of two periods
# Beside the sections; whatever else an audit tells (curves of findings) no rule here looks at: it is left out.
ABOUT = ("schema", "version", "versions", "data", "settings", "score", "notes")
LOOKED_AT = (*ABOUT, "findings", "unlisted", "clean", "too_small", "left_out", "comparison")
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
    made["findings"] = _findings(made["findings"], shown, places)  # before any table
    # The tables of columns first, then subpopulations.
    order = sorted(sections, key=lambda kind: (kind not in OF_COLUMNS, kind == "subpopulation"))
    tables = {kind: [_result(one, _hidden(kind, one, shown, places)) for one in sections[kind]] for kind in order}
    made["sections"] = {kind: tables[kind] for kind in sections}
    for entry in made["too_small"]:
        if entry.get("rows") != document["data"].get("rows"):
            entry["rows"] = None
    hidden_findings = len(listed(document["findings"])) - len(listed(made["findings"]))
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
        made += [{**each, "parent": parent, "score_ranges": (), "explained": under}] if kept else under
    return made


def _hidden(kind: str, result: Mapping[str, Any], shown: Shown, places: Places) -> np.ndarray:
    """Which cells of a table to hide; of a column the largest are shown first."""
    counts = np.array([finite(rows) for rows in result["table"].get("rows", [])])
    if kind != "subpopulation" and kind not in OF_COLUMNS:
        return hidden_cells(counts.tolist(), shown.below)
    boxes, hidden = places.of_table(kind, result), np.zeros(counts.size, bool)
    first = np.arange(counts.size) if kind == "subpopulation" else np.argsort(-counts, kind="stable")
    for cell in first.tolist():
        hidden[cell] = not shown.show(boxes[cell], int(counts[cell]))
    return hidden


def _comparison(compared: Mapping[str, Any], made: Mapping[str, Any], below: int) -> dict[str, Any]:
    """What changed, without cells that are small in either audit or hidden in their section, and without counts."""
    hidden = {
        f"{result.get('settings', {}).get('column') or 'score'} {label}"
        for results in made["sections"].values()
        for result in results
        for label, rows in zip(result["table"].get("label", []), result["table"].get("rows", []), strict=False)
        if rows is None
    }
    table = Columns(compared["table"])
    small = ~(floats(table["rows"]) >= below) | ~(floats(table["rows_before"]) >= below)  # not known: taken for small
    keep = [k for k, where in enumerate(table["where"]) if where not in hidden and not small[k]]
    cells = {name: each for name, each in table.take(keep).items() if name not in ("rows", "rows_before")}
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
    if made.get("kind") == KIND:  # what a period says of the one before it, where that one is hidden
        steps = [name for name in table if name.startswith(STEPS)]
        table |= {name: _masked(table[name], np.append(False, hidden[:-1])) for name in steps}
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


OF_COLUMNS = ("field", "variable", KIND)
MISSING_LABEL = "(missing)"
Span = tuple[float, float, int]


class Places:
    """Boxes of findings, of the cells of tables and of subpopulations; ends without a row between them are one."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.sections = document["sections"]
        self.rows = int(finite(document["data"].get("rows")) or 0)
        fields, variables = (
            {str(result["settings"].get("column")): result for result in self.sections.get(kind, [])}
            for kind in ("field", "variable")
        )
        self.kinds = dict.fromkeys(fields, "category")
        self.kinds |= {name: str(each["extra"].get("column_kind", "numeric")) for name, each in variables.items()}
        self.levels = {name: frozenset().union(*(one[1] for one in _levels(each))) for name, each in fields.items()}
        self.joined: dict[str, dict[float, float]] = {}
        self.joined = {column: joined_ends(spans) for column, spans in self._spans(document).items()}
        self.named = {place for box, _ in self._told(document) if box is not None and len(box) > 1 for place in box}

    def _spans(self, document: Mapping[str, Any]) -> dict[str, list[Span]]:
        """The ranges of each column alone, with their rows."""
        made: dict[str, list[Span]] = {}
        for box, rows in self._told(document):
            if box is not None and len(box) == 1:
                column, piece = next(iter(box))
                if piece[0] == "span":
                    made.setdefault(column, [(-math.inf, math.inf, self.rows)]).append((*piece[1:], int(rows)))
        return made

    def _told(self, document: Mapping[str, Any]) -> Iterator[tuple[Box | None, Any]]:
        """Every place with its rows."""
        for finding in listed(document["findings"]):
            yield self.of_finding(finding), finding["rows"]
        for kind in (*OF_COLUMNS, "subpopulation"):
            for result in self.sections.get(kind, []):
                yield from zip(self.of_table(kind, result), result["table"]["rows"], strict=True)

    def of_finding(self, finding: Mapping[str, Any]) -> Box | None:
        """The box of a finding; one without conditions that is not of the whole table (of an old audit) has none."""
        conditions = finding.get("condition") or ()
        if not conditions and finding.get("kind") != "score":
            return None
        return self._joined(box_of(Conjunction.from_dict(conditions).conditions))

    def of_table(self, kind: str, result: Mapping[str, Any]) -> list[Box | None]:
        """The box of each row of a table."""
        if kind == "subpopulation":
            return [self._of_words(label) for label in result["table"].get("label", [])]
        column = str(result["settings"].get("column"))
        if kind == KIND and self.kinds.get(column, "date") != "date":  # text read as dates: nothing else tells of it so
            column = f"{column} as time"
        pieces = _levels(result) if kind == "field" else _ranges(result, kind)
        return [self._joined(frozenset({(column, piece)} if piece != EVERY_VALUE else ())) for piece in pieces]

    def _of_words(self, label: str) -> Box | None:
        try:
            return self._joined(box_of(parse(label, self.kinds).conditions))
        except MiscalError:
            return None

    def _joined(self, box: Box | None) -> Box | None:
        """The box with each end replaced by the one that stands for it; a range of every row is no condition."""
        if box is None or not self.joined:
            return box
        made = set()
        for column, piece in box:
            same = self.joined.get(column, {})
            now = ("span", *(same.get(end, end) for end in piece[1:])) if piece[0] == "span" else piece
            if now != EVERY_VALUE:
                made.add((column, now))
        return frozenset(made)


def _levels(result: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for label in result["table"].get("label", []):
        yield ("set", frozenset({MISSING if label == MISSING_LABEL else str(label)}))


def _ranges(result: Mapping[str, Any], kind: str) -> Iterator[tuple[Any, ...]]:
    """The ranges of a table; the first begins, and the last ends, where the column does."""
    table = result["table"]
    ends = _periods(table["label"], result) if kind == KIND else list(zip(table["low"], table["high"], strict=True))
    known = [place for place, (low, _) in enumerate(ends) if not math.isnan(finite(low))]
    for place, (low, high) in enumerate(ends):
        start = LARGEST if place not in known else -math.inf if place == known[0] else float(low)
        end = math.inf if place not in known else LARGEST if place == known[-1] else float(high)
        yield ("span", start, end)


def _periods(labels: Sequence[str], result: Mapping[str, Any]) -> list[tuple[float, float]]:
    """The days of each week, month, quarter or year, closed on the right as ranges are."""
    months = MONTHS_OF.get(str(result["settings"].get("every")), 0)
    made = []
    for day in level_days(tuple(label if label[:1].isdigit() else "" for label in labels), KIND).tolist():
        end = day + 7
        if months and not math.isnan(day):
            end = float(((np.datetime64(int(day), "D").astype("M8[M]") + months).astype("M8[D]")).astype(np.int64))
        made.append((just_below(day), just_below(end)))
    return made

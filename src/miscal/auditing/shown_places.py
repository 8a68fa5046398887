"""The places that an audit's dictionary gives numbers of, as boxes whose sums and differences can be followed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from miscal.auditing.disclosure import EVERY_VALUE, MISSING, Box, box_of, joined_ends
from miscal.data.errors import MiscalError
from miscal.page.words import KIND, finite
from miscal.pooling.condition import LARGEST, Conjunction, just_below
from miscal.pooling.parsing import parse

OF_COLUMNS = ("field", "variable", KIND)
MISSING_LABEL = "(missing)"
Span = tuple[float, float, int]


class Places:
    """Boxes of findings, of the cells of tables and of subpopulations; ends without a row between them are one."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.sections = document["sections"]
        self.rows = int(finite(document["data"].get("rows")) or 0)
        self.kinds = self._kinds()
        self.levels = {
            str(result["settings"].get("column")): frozenset().union(*(piece[1] for piece in _levels(result)))
            for result in self.sections.get("field", [])
        }
        self.joined: dict[str, dict[float, float]] = {}
        self.joined = {column: joined_ends(spans) for column, spans in self._spans(document).items()}
        self.named = {place for box, _ in self._told(document) if box is not None and len(box) > 1 for place in box}

    def _kinds(self) -> dict[str, str]:
        made = {str(result["settings"].get("column")): "category" for result in self.sections.get("field", [])}
        for result in self.sections.get("variable", []):
            made[str(result["settings"].get("column"))] = str(result["extra"].get("column_kind", "numeric"))
        return made

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
        for finding in _every(document["findings"]):
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
            return [self._joined(self._of_words(label)) for label in result["table"].get("label", [])]
        column = str(result["settings"].get("column"))
        if kind == KIND and self.kinds.get(column, "date") != "date":  # text read as dates: nothing else tells of it so
            column = f"{column} as time"
        pieces = _levels(result) if kind == "field" else _ranges(result, kind)
        return [self._joined(frozenset({(column, piece)} if piece != EVERY_VALUE else ())) for piece in pieces]

    def _of_words(self, label: str) -> Box | None:
        try:
            return box_of(parse(label, self.kinds).conditions)
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


def _every(findings: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Findings, each followed by those that it explains."""
    for finding in findings:
        yield finding
        yield from _every(finding.get("explained", ()))


def _levels(result: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for label in result["table"].get("label", []):
        yield ("set", frozenset({MISSING if label == MISSING_LABEL else str(label)}))


def _ranges(result: Mapping[str, Any], kind: str) -> Iterator[tuple[Any, ...]]:
    """The ranges of a table; the first begins, and the last ends, where the column does."""
    table = result["table"]
    ends = _periods(table["label"], result) if kind == KIND else list(zip(table["low"], table["high"], strict=True))
    known = [place for place, (low, _) in enumerate(ends) if not math.isnan(finite(low))]
    for place, (low, high) in enumerate(ends):
        if place not in known:
            yield ("span", LARGEST, math.inf)
        else:
            first, last = place == known[0], place == known[-1]
            yield ("span", -math.inf if first else float(low), LARGEST if last else float(high))


def _periods(labels: Sequence[str], result: Mapping[str, Any]) -> list[tuple[float, float]]:
    """The days of each week or month, closed on the right as ranges are."""
    monthly = result["settings"].get("every") == "month"
    made = []
    for label in labels:
        if not label[:1].isdigit():
            made.append((math.nan, math.nan))
            continue
        start = np.datetime64(label, "M") if monthly else np.datetime64(label, "D")
        low, high = (float((start + step).astype("M8[D]").astype(np.int64)) for step in (0, 1 if monthly else 7))
        made.append((just_below(low), just_below(high)))
    return made

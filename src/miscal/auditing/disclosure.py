"""Small cells kept out of everything that is written, and no sum or difference that gives one away."""

import copy
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise, product
from typing import Any

import numpy as np

from miscal.auditing.periods import level_days
from miscal.cells.condition import LARGEST, Condition, Conjunction, just_below
from miscal.cells.parse import parse
from miscal.cells.partitions import level_of
from miscal.codes.audit import DISCLOSING_NOTES, ExclusionReason, Reason
from miscal.codes.data import ColumnKind
from miscal.data.arrays import Array, Plain
from miscal.data.checks import whole
from miscal.data.column_types import column_type
from miscal.data.columns import Column
from miscal.data.errors import MiscalError
from miscal.report.codec import excluded_dict
from miscal.report.findings import flat_dicts
from miscal.report.model import Excluded
from miscal.report.values import JsonMapping, TableColumns, floats
from miscal.report.wording import plural

Segment = Mapping[str, Array]  # numbers of the values, of each column that it is about


class Blocks:
    """The values of one column in blocks whose numbers of rows follow from what is shown.

    Parameters
    ----------
    values : int
        Values of the column.
    rows : int
        Rows of the column.
    below : int
        Numbers of rows below which a cell is small.
    """

    def __init__(self, values: int, rows: int, below: int) -> None:
        self.below = below
        self.block = np.zeros(values, np.int64)  # of each value
        self.values, self.rows = [values], [rows]  # of each block

    def parts(self, values: Array) -> tuple[int, list[int]]:
        """The rows of the blocks that some values fill, and the blocks that they cut."""
        counts = Counter(self.block[values].tolist())
        filled = [block for block, count in counts.items() if count == self.values[block]]
        return sum(self.rows[block] for block in filled), [block for block in counts if block not in filled]

    def sizes(self, values: Array) -> list[int]:
        """The rows that some values may have, if no row lies between the ends of ranges that are nearly the same."""
        rows, cut = self.parts(values)
        return [rows + sum(choice) for choice in product(*((0, self.rows[block]) for block in cut))]

    def show(self, values: Array, rows: int) -> bool:
        """Whether the rows of some values may be shown; from now on they are."""
        known, cut = self.parts(values)
        if not cut:
            return True
        inside = rows - known
        outside = self.rows[cut[0]] - inside
        if len(cut) > 1 or any(part != 0 and part < self.below for part in (inside, outside)):
            return False
        moved = values[self.block[values] == cut[0]]
        self.block[moved] = len(self.rows)
        self.values[cut[0]] -= moved.size
        self.rows[cut[0]] = outside
        self.values.append(moved.size)
        self.rows.append(inside)
        return True


class ShownCounts:
    """The counts that are shown; those of single columns have to come first.

    >>> shown = ShownCounts(10, 103, {"state": Blocks(3, 103, 10)})
    >>> [shown.show({"state": np.array([level])}, rows) for level, rows in enumerate((60, 40, 3))]
    [True, False, False]
    """

    def __init__(self, below: int, rows: int, columns: Mapping[str, Blocks]) -> None:
        self.below, self.rows, self.columns = below, rows, columns
        self.intersections: list[dict[str, list[int]]] = []
        self.chains: list[set[str]] = []  # columns between which there is a chain of intersections
        self.cut_columns: set[str] = set()  # columns of which an intersection cuts a block

    def show(self, segment: Segment, rows: int) -> bool:
        """Whether a count may be shown beside those shown before; from now on it is one of them."""
        if rows < self.below:
            return False
        if len(segment) == 1:
            return all(self.columns[column].show(values, rows) for column, values in segment.items())
        intersection = {column: values.tolist() for column, values in segment.items()}
        if not segment or intersection in self.intersections:
            return True
        sizes = [self.columns[column].sizes(values) for column, values in segment.items()]
        remaining = [size - rows for column_sizes in sizes for size in column_sizes]
        if len(segment) == 2:
            remaining += [self.rows + rows - sum(choice) for choice in product(*sizes)]
        cut = {column for column, column_sizes in zip(segment, sizes, strict=True) if len(column_sizes) > 1}
        touched = [chain for chain in self.chains if not chain.isdisjoint(segment)]
        if any(len(chain.intersection(segment)) > 1 or chain & cut for chain in touched):
            return False
        if not self.cut_columns.isdisjoint(segment) or any(0 <= part < self.below for part in remaining):
            return False
        self.chains = [chain for chain in self.chains if chain not in touched]
        self.chains.append(set(segment).union(*touched))
        self.cut_columns |= cut
        self.intersections.append(intersection)
        return True


# A segment by its conditions, or by the values themselves; None where neither is known.
Definition = Sequence[Condition] | dict[str, Array] | None
NAME_COLUMNS = {"label", "level", "low", "high"}  # what a hidden cell keeps
STEP_PREFIXES = ("change", "size_", "before", "verdict", "words")  # of columns about two neighbouring periods
# No rule here looks at whatever else a document has (curves of findings): it is left out.
DESCRIPTIONS = ("schema", "version", "versions", "data", "settings", "score", "notes", "coded_notes")
ALLOWED_PARTS = (
    *DESCRIPTIONS,
    "findings",
    "unlisted",
    "clean",
    "too_small",
    "left_out",
    "sections",
    "comparison",
)
# Rows cut otherwise than in the table.
OTHER_CUTS = ("histogram", "density", "differences", "too_small", "grid", "certain", "cumulative")
SINGLE_CELLS = ("worst", "curve")  # what is about single cells


def suppressed(document: Plain, below: int) -> Plain:
    """A copy of an audit's dictionary without the numbers of cells of fewer than `below` rows.

    A suppressed cell keeps its name and loses everything else, and so does each cell from which, with the others that
    are shown (in findings, tables of columns and periods, subpopulations), a small one would follow by sums and
    differences. Findings come first: a table hides another cell rather than one that is a finding. What cuts the same
    rows otherwise (histograms, maps, cumulative differences) is left out.
    """
    below = whole("suppress_below", below, 1)
    shown = copy.deepcopy({part: value for part, value in document.items() if part in ALLOWED_PARTS})
    allowed = CountedSegments(shown).may_be_shown(below)
    shown["findings"] = _findings(shown["findings"], allowed)
    for kind, results in shown["sections"].items():
        for result in results:
            _hide(result, kind, allowed)
    for entry in shown["too_small"]:
        if entry["rows"] != shown["data"].get("rows"):
            entry["rows"] = None
    n_hidden = len(flat_dicts(document["findings"])) - len(flat_dicts(shown["findings"]))
    if n_hidden:
        reason = Reason(ExclusionReason.SUPPRESSED, {"below": below})
        shown["too_small"].append(excluded_dict(Excluded(plural(n_hidden, "finding"), None, reason)))
    if shown.get("comparison"):
        shown["comparison"] = _comparison(shown, below)
    discloses = [note["code"] in DISCLOSING_NOTES for note in shown.get("coded_notes", [])]
    for name in ("notes", "coded_notes"):
        notes = zip(shown.get(name, []), discloses, strict=False)
        shown[name] = [note for note, disclosing in notes if not disclosing]
    shown["score"].get("details", {}).get("log_loss", {}).pop("rows", None)
    shown["settings"]["suppress_below"] = below
    return shown


def _findings(findings: Sequence[Plain], allowed: set[Any], parent: str | None = None) -> list[Plain]:
    """The findings that may be shown, in their order; what a hidden one explained stands alone.

    The ranges of the score within a segment are counts that no rule follows: they are left out.
    """
    shown: list[Plain] = []
    for finding in findings:
        if id(finding) in allowed:
            explained = _findings(finding["explained"], allowed, finding["where"])
            shown.append({**finding, "parent": parent, "score_ranges": (), "explained": explained})
        else:
            shown += _findings(finding["explained"], allowed, parent)
    return shown


def _comparison(document: Plain, below: int) -> Plain:
    """What changed, without cells that are small in either audit or hidden in their section, and without counts."""
    compared, hidden = document["comparison"], set()
    for result in chain(*document["sections"].values()):
        cells, column = TableColumns(result["table"]), result["settings"].get("column") or "score"
        labels = zip(cells["label"], cells["rows"], strict=True)
        hidden |= {f"{column} {label}" for label, rows in labels if rows is None}
    table = TableColumns(compared["table"])
    # A number of rows that is not known is taken for small.
    large = np.minimum(floats(table["rows"]), floats(table["rows_before"])) >= below
    rows = [k for k, where in enumerate(table["where"]) if large[k] and where not in hidden]
    columns = {
        name: values for name, values in table.take(rows).items() if name not in ("rows", "rows_before")
    }
    named = {*columns["where"], *(finding["where"] for finding in document["findings"])}
    segments = {
        name: [where for where in compared[name] if where in named]
        for name in ("better", "worse", "new", "gone")
    }
    return {**compared, **segments, "table": columns}


def _hide(result: Plain, kind: str, allowed: set[Any]) -> None:
    """Take the numbers of hidden cells out of a result."""
    table, extra = result["table"], result["extra"]
    hidden = np.array([(id(result), cell) not in allowed for cell in range(len(table.get("rows", [])))], bool)
    for name in (*OTHER_CUTS, *(SINGLE_CELLS if hidden.any() else ())):
        extra.pop(name, None)
    for name, values in table.items():
        mask = hidden
        # What a period says of the one before it, where that one is hidden.
        if kind == "period" and name.startswith(STEP_PREFIXES):
            mask = hidden | np.append(False, hidden[:-1])
        if name not in NAME_COLUMNS:
            table[name] = [None if hide else value for value, hide in zip(values, mask, strict=True)]


class CountedSegments:
    """The segments of which a document has the number of rows, each as values of columns.

    The values of a column are its levels or, of numbers, one of every range between two ends that any segment names;
    the missing ones come last. The score, and whatever else cuts rows, are columns of their own, with names that no
    column of a table can have.
    """

    def __init__(self, document: Plain) -> None:
        sections, self.rows = document["sections"], int(document["data"]["rows"])
        columns = [*sections.get("field", []), *sections.get("variable", [])]
        self.kinds = {
            _column(result): result["extra"].get("column_kind", ColumnKind.CATEGORY) for result in columns
        }
        dated = {_column(result) for result in sections.get("period", [])}
        # Text and years that are read as dates are shown as periods alone.
        self.silent = {
            name for name in dated if not column_type(self.kinds.get(name, ColumnKind.DATE)).calendar
        }
        self.fields: dict[str, Column] = {}
        self.totals: dict[str, int] = {}
        self.counted: list[tuple[Any, int, Definition]] = []
        scores: dict[
            str, str
        ] = {}  # the column of the score of each scope; a file without scopes has one score
        for result in sections["score"]:
            scores.setdefault(result.get("target_scope", ""), f"\0{id(result)}")
        # Heads first.
        for finding in sorted(flat_dicts(document["findings"]), key=lambda item: item["parent"] is not None):
            self.counted.append((id(finding), int(finding["rows"]), _definition(finding, scores)))
        for kind in sorted(sections, key=lambda kind: (kind == "subpopulation", kind != "period")):
            for result in sections[kind]:
                self.counted += self._of_table(kind, result)

    def may_be_shown(self, below: int) -> set[Any]:
        """What may be shown: findings by their identity, cells by that of their table and their number."""
        values: dict[str, Column] = {**self._ranged_columns(), **self.fields}
        blocks = {
            name: Blocks(len(column), self.totals.get(name, self.rows), below)
            for name, column in values.items()
        }
        segments = []
        for key, rows, definition in self.counted:
            if definition is None:
                continue
            segment = (
                definition
                if isinstance(definition, dict)
                else {condition.column: np.flatnonzero(condition.rows(values)) for condition in definition}
            )
            once = len(segment) == len(definition)  # no two conditions of one column
            if once and not segment.keys() & self.silent and all(map(len, segment.values())):
                segments.append((key, rows, segment))
        segments.sort(key=lambda entry: len(entry[2]) > 1)  # single columns first
        shown = ShownCounts(below, self.rows, blocks)
        return {key for key, rows, segment in segments if shown.show(segment, rows)}

    def _ranged_columns(self) -> dict[str, Column]:
        """The columns of numbers, by one value of every range between two ends that any segment names."""
        ends: dict[str, list[Any]] = defaultdict(lambda: [LARGEST, None])
        for *_, definition in self.counted:
            for condition in definition if isinstance(definition, Sequence) else ():
                levels = condition.levels or condition.excluded or ()
                single = [value for value in levels if not isinstance(value, str)]
                ends[condition.column] += [condition.low, condition.high, *map(just_below, single), *single]
        return {
            name: Column(name, ColumnKind.NUMERIC, np.unique(np.array(column_ends, float)))
            for name, column_ends in ends.items()
        }

    def _of_table(self, kind: str, result: Plain) -> list[tuple[Any, int, Definition]]:
        """Each cell with its rows and conditions, the largest first; the ranges of a column have no end."""
        table, column = result["table"], _column(result)
        rows = np.nan_to_num(floats(table.get("rows", []))).astype(int)
        labels = [str(label) for label in table.get("label", range(rows.size))]
        known = [level for level in map(level_of, labels) if level is not None]
        if kind not in ("field", "variable", "period") or (kind == "period" and column in self.silent):
            column = f"\0{id(result)}"
            self.totals[column] = int(rows.sum())
        if kind == "subpopulation":
            definitions: list[Definition] = [self._of_words(label) for label in labels]
        elif kind == "field":
            self.fields[column] = Column(
                column, ColumnKind.CATEGORY, np.append(np.arange(len(known)), -1), tuple(known)
            )
            definitions = [{column: np.array([cell])} for cell in range(len(labels))]
        else:
            starts: Any = table.get("low", range(rows.size))
            if kind == "period":
                starts = [just_below(day) for day in level_days(known, "period").tolist()]
            ends = [None, *starts[1 : len(known)], None]
            definitions = [[Condition(column, low=low, high=high)] for low, high in pairwise(ends)]
        definitions += [[Condition(column, levels=(), missing=True)]] * (len(labels) - len(definitions))
        order = range(rows.size) if kind == "subpopulation" else np.argsort(-rows, kind="stable").tolist()
        return [((id(result), cell), int(rows[cell]), definitions[cell]) for cell in order]

    def _of_words(self, label: str) -> Definition:
        """The conditions of a subpopulation's expression; None where it is none."""
        try:
            return parse(label, self.kinds).conditions
        except MiscalError:
            return None


def _column(result: Plain) -> str:
    return str(result["settings"].get("column"))


def _definition(finding: JsonMapping, scores: Mapping[str, str]) -> Definition:
    """The conditions of a finding; those of the score are about the column of the score in its scope."""
    conditions = Conjunction.from_dict(finding["condition"]).conditions or None
    if finding["kind"] != "score":
        return conditions
    column = scores.get(finding["scope"])
    return None if column is None else [replace(condition, column=column) for condition in conditions or ()]

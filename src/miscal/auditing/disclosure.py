"""Small cells kept out of everything that is written, and no sum or difference that gives one away."""

import copy
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress, pairwise, product
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
from miscal.report.values import TableColumns, floats
from miscal.report.wording import plural

Place = Mapping[str, Array]  # numbers of the values, of each column that it speaks of


class Blocks:
    """The values of one column in blocks whose rows follow from what is shown."""

    def __init__(self, values: int, rows: int, below: int) -> None:
        self.below = below
        self.block = np.zeros(values, np.int64)  # of each value
        self.values, self.rows = [values], [rows]  # of each block

    def parts(self, values: Array) -> tuple[int, list[int]]:
        """The rows of the blocks that some values hold, and the blocks that they cut."""
        held = Counter(self.block[values].tolist())
        whole = [block for block, many in held.items() if many == self.values[block]]
        return sum(self.rows[block] for block in whole), [block for block in held if block not in whole]

    def sizes(self, values: Array) -> list[int]:
        """The rows that some values may have, if no row lies between the ends of ranges that are nearly the same."""
        rows, cut = self.parts(values)
        return [rows + sum(some) for some in product(*((0, self.rows[block]) for block in cut))]

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


class Shown:
    """The counts that are shown; those of single columns have to come first.

    >>> shown = Shown(10, 103, {"state": Blocks(3, 103, 10)})
    >>> [shown.show({"state": np.array([level])}, rows) for level, rows in enumerate((60, 40, 3))]
    [True, False, False]
    """

    def __init__(self, below: int, rows: int, columns: Mapping[str, Blocks]) -> None:
        self.below, self.rows, self.columns = below, rows, columns
        self.crossed: list[dict[str, list[int]]] = []
        self.joined: list[set[str]] = []  # columns between which there is a chain of crossed places
        self.once: set[str] = set()  # columns of which a crossed place cuts a block

    def show(self, place: Place, rows: int) -> bool:
        """Whether a count may be shown beside those shown before; from now on it is one of them."""
        if rows < self.below:
            return False
        if len(place) == 1:
            return all(self.columns[column].show(values, rows) for column, values in place.items())
        told = {column: values.tolist() for column, values in place.items()}
        if not place or told in self.crossed:
            return True
        sizes = [self.columns[column].sizes(values) for column, values in place.items()]
        left = [size - rows for some in sizes for size in some]
        if len(place) == 2:
            left += [self.rows + rows - sum(some) for some in product(*sizes)]
        cut = {column for column, some in zip(place, sizes, strict=True) if len(some) > 1}
        beside = [columns for columns in self.joined if not columns.isdisjoint(place)]
        if any(len(columns.intersection(place)) > 1 or columns & cut for columns in beside):
            return False
        if not self.once.isdisjoint(place) or any(0 <= part < self.below for part in left):
            return False
        self.joined = [columns for columns in self.joined if columns not in beside]
        self.joined.append(set(place).union(*beside))
        self.once |= cut
        self.crossed.append(told)
        return True


# A place by its conditions, or by the values themselves.
Told = Sequence[Condition] | dict[str, Array] | None
KEPT = {"label", "level", "low", "high"}
STEPS = ("change", "size_", "before", "verdict", "words")  # how columns begin that tell of two periods
# Beside the sections; whatever else an audit tells (curves of findings) no rule here looks at: it is left out.
ABOUT = ("schema", "version", "versions", "data", "settings", "score", "notes", "coded_notes")
LOOKED_AT = (*ABOUT, "findings", "unlisted", "clean", "too_small", "left_out", "sections", "comparison")
# Rows cut otherwise than in the table.
FINER = ("histogram", "density", "differences", "too_small", "grid", "certain", "cumulative")
PICKED = ("worst", "curve")  # what tells of single cells


def suppressed(document: Plain, below: int) -> Plain:
    """A copy of an audit's dictionary without the numbers of cells of fewer than `below` rows.

    A suppressed cell keeps its name and loses everything else, and so does each cell from which, with the others that
    are shown (in findings, tables of columns and periods, subpopulations), a small one would follow by sums and
    differences. Findings come first: a table hides another cell rather than one that is a finding. What cuts the same
    rows otherwise (histograms, maps, running totals) is left out.
    """
    below = whole("suppress_below", below, 1)
    made = copy.deepcopy({key: value for key, value in document.items() if key in LOOKED_AT})
    kept = Places(made).kept(below)
    made["findings"] = _findings(made["findings"], kept)
    for kind, results in made["sections"].items():
        for result in results:
            _hide(result, kind, kept)
    for entry in made["too_small"]:
        if entry["rows"] != made["data"].get("rows"):
            entry["rows"] = None
    hidden = len(flat_dicts(document["findings"])) - len(flat_dicts(made["findings"]))
    if hidden:
        reason = Reason(ExclusionReason.SUPPRESSED, {"below": below})
        made["too_small"].append(excluded_dict(Excluded(plural(hidden, "finding"), None, reason)))
    if made.get("comparison"):
        made["comparison"] = _comparison(made, below)
    keep = [note["code"] not in DISCLOSING_NOTES for note in made.get("coded_notes", [])]
    for name in ("notes", "coded_notes"):
        made[name] = list(compress(made.get(name, []), keep))
    made["score"].get("details", {}).get("log_loss", {}).pop("rows", None)
    made["settings"]["suppress_below"] = below
    return made


def _findings(findings: Sequence[Plain], kept: set[Any], parent: str | None = None) -> list[Plain]:
    """The findings that may be shown, in their order; what a hidden one explained stands alone.

    The ranges of the score within a place are counts that no rule follows: they are left out.
    """
    made: list[Plain] = []
    for each in findings:
        shown = id(each) in kept
        under = _findings(each["explained"], kept, each["where"] if shown else parent)
        alone = {**each, "parent": parent, "score_ranges": (), "explained": under}
        made += [alone] if shown else under
    return made


def _comparison(made: Plain, below: int) -> Plain:
    """What changed, without cells that are small in either audit or hidden in their section, and without counts."""
    compared, hidden = made["comparison"], set()
    for result in chain(*made["sections"].values()):
        cells, column = TableColumns(result["table"]), result["settings"].get("column") or "score"
        labels = zip(cells["label"], cells["rows"], strict=True)
        hidden |= {f"{column} {label}" for label, rows in labels if rows is None}
    table = TableColumns(compared["table"])
    # Not known: taken for small.
    large = np.minimum(floats(table["rows"]), floats(table["rows_before"])) >= below
    keep = [k for k, where in enumerate(table["where"]) if large[k] and where not in hidden]
    shown = {name: each for name, each in table.take(keep).items() if name not in ("rows", "rows_before")}
    named = {*shown["where"], *(finding["where"] for finding in made["findings"])}
    places = {word: [w for w in compared[word] if w in named] for word in ("better", "worse", "new", "gone")}
    return {**compared, **places, "table": shown}


def _hide(result: Plain, kind: str, kept: set[Any]) -> None:
    """Take the numbers of hidden cells out of a result."""
    table, extra = result["table"], result["extra"]
    hidden = np.array([(id(result), cell) not in kept for cell in range(len(table.get("rows", [])))], bool)
    for name in (*FINER, *(PICKED if hidden.any() else ())):
        extra.pop(name, None)
    for name, values in table.items():
        mask = hidden
        # What a period says of the one before it, where that one is hidden.
        if kind == "period" and name.startswith(STEPS):
            mask = hidden | np.append(False, hidden[:-1])
        if name not in KEPT:
            table[name] = [None if hide else value for value, hide in zip(values, mask, strict=True)]


class Places:
    """The places that a dictionary tells the rows of, each as values of columns.

    The values of a column are its levels or, of numbers, one of every range between two ends that any place names; the
    missing ones come last. The score, and whatever else cuts rows, are columns of their own, called as none can be.
    """

    def __init__(self, document: Plain) -> None:
        sections, self.rows = document["sections"], int(document["data"]["rows"])
        looked_at = [*sections.get("field", []), *sections.get("variable", [])]
        self.kinds = {_column(one): one["extra"].get("column_kind", ColumnKind.CATEGORY) for one in looked_at}
        dated = {_column(one) for one in sections.get("period", [])}
        # Text and years that are read as dates are shown as periods alone.
        self.silent = {
            name for name in dated if not column_type(self.kinds.get(name, ColumnKind.DATE)).calendar
        }
        self.fields: dict[str, Column] = {}
        self.totals: dict[str, int] = {}
        self.told: list[tuple[Any, int, Told]] = []
        scores = {one["name"].partition(", class ")[2]: f"\0{id(one)}" for one in sections["score"]}
        # Heads first.
        for one in sorted(flat_dicts(document["findings"]), key=lambda one: one["parent"] is not None):
            made: Any = Conjunction.from_dict(one["condition"]).conditions or None
            if one["kind"] == "score":  # of the whole table, or of one class
                column = scores.get(one["scope"].removeprefix("class "))
                made = None if column is None else [replace(each, column=column) for each in made or ()]
            self.told.append((id(one), int(one["rows"]), made))
        for kind in sorted(sections, key=lambda kind: (kind == "subpopulation", kind != "period")):
            for result in sections[kind]:
                self.told += self._of_table(kind, result)

    def kept(self, below: int) -> set[Any]:
        """What may be shown: findings by their identity, cells by that of their table and their number."""
        ranged = [one for *_, told in self.told if isinstance(told, Sequence) for one in told]
        ends: dict[str, list[Any]] = defaultdict(lambda: [LARGEST, None])
        for one in ranged:
            single = [value for value in one.levels or one.excluded or () if not isinstance(value, str)]
            ends[one.column] += [one.low, one.high, *map(just_below, single), *single]
        values = {
            name: Column(name, ColumnKind.NUMERIC, np.unique(np.array(some, float)))
            for name, some in ends.items()
        }
        values |= self.fields
        blocks = {
            name: Blocks(len(each), self.totals.get(name, self.rows), below) for name, each in values.items()
        }
        shown = Shown(below, self.rows, blocks)
        places = []
        for key, rows, told in self.told:
            if told is None:
                continue
            place = (
                told
                if isinstance(told, dict)
                else {one.column: np.flatnonzero(one.rows(values)) for one in told}
            )
            once = len(place) == len(told)  # no two conditions of one column
            if once and not place.keys() & self.silent and all(map(len, place.values())):
                places.append((key, rows, place))
        places.sort(key=lambda told: len(told[2]) > 1)  # single columns first
        return {key for key, rows, place in places if shown.show(place, rows)}

    def _of_table(self, kind: str, result: Plain) -> list[tuple[Any, int, Told]]:
        """Each cell with its rows and conditions, the largest first; the ranges of a column have no end."""
        table, column = result["table"], _column(result)
        rows = np.nan_to_num(floats(table.get("rows", []))).astype(int)
        labels = [str(label) for label in table.get("label", range(rows.size))]
        known = [level for level in map(level_of, labels) if level is not None]
        if kind not in ("field", "variable", "period") or (kind == "period" and column in self.silent):
            column = f"\0{id(result)}"
            self.totals[column] = int(rows.sum())
        if kind == "subpopulation":
            made: list[Told] = [self._of_words(label) for label in labels]
        elif kind == "field":
            self.fields[column] = Column(
                column, ColumnKind.CATEGORY, np.append(np.arange(len(known)), -1), tuple(known)
            )
            made = [{column: np.array([cell])} for cell in range(len(labels))]
        else:
            starts: Any = table.get("low", range(rows.size))
            if kind == "period":
                starts = [just_below(day) for day in level_days(known, "period").tolist()]
            ends = [None, *starts[1 : len(known)], None]
            made = [[Condition(column, low=low, high=high)] for low, high in pairwise(ends)]
        made += [[Condition(column, levels=(), missing=True)]] * (len(labels) - len(made))
        first = range(rows.size) if kind == "subpopulation" else np.argsort(-rows, kind="stable").tolist()
        return [((id(result), cell), int(rows[cell]), made[cell]) for cell in first]

    def _of_words(self, label: str) -> Told:
        try:
            return parse(label, self.kinds).conditions
        except MiscalError:
            return None


def _column(result: Plain) -> str:
    return str(result["settings"].get("column"))

"""Two audits compared: two models on the same rows (paired), or two periods.

Both audits keep sums of the cells of score and columns (`SavedCells`). The cells that both have are compared one by
one; ranges that were cut at other edges are first joined to those between edges that both have.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from miscal.aggregate.tally import Tally
from miscal.auditing.same_finding import in_earlier_audit
from miscal.cells.partitions import Ranges
from miscal.codes.audit import ChangeVerdict
from miscal.data.arrays import Plain
from miscal.data.errors import refusal, visible
from miscal.report import wording
from miscal.report.codec import comparison_from
from miscal.report.model import AuditReport
from miscal.report.values import Floats, JsonMapping, floats
from miscal.report.wording import span
from miscal.results import CellResult, Table
from miscal.stats.cell_sums import ignore_warnings
from miscal.stats.comparison import equal_gaps_p, paired_p
from miscal.stats.multiplicity import holm

WHOLE_TABLE = "the whole table"
#: Numbers by score that are shown before and after.
SCORE_NUMBERS = ("expected", "kuiper", "smooth", "gap", "ratio", "slope", "brier", "log_loss", "auc")
MIN_SHARE, MIN_ROWS = 0.1, 30  # of a range that is joined from narrower ones
MAX_SHOWN = 8  # segments of each kind in the text
SUM_NAMES = ("rows", "weight", "predicted", "observed", "variance", "residual2")


@dataclass(frozen=True, eq=False)
class SavedCells:
    """The sums of the cells of a column, as an audit keeps them for a comparison.

    Attributes
    ----------
    label : sequence of str
        The name of each cell.
    edges : ndarray
        Of ranges; empty for categories.
    rows, weight, predicted, observed : ndarray, shape (cells,)
        Rows, weight, and weighted sums of predictions and outcomes, in the units of the data.
    variance, residual2 : ndarray, shape (cells,)
        Variance of the observed sum under the predictions, and sum of squared residuals.
    fine : SavedCells or None
        The same of narrower ranges, some of whose edges any other audit has.
    """

    label: Sequence[str]
    edges: Floats
    rows: Floats
    weight: Floats
    predicted: Floats
    observed: Floats
    variance: Floats
    residual2: Floats
    fine: "SavedCells | None" = None

    @classmethod
    def from_dict(cls, values: JsonMapping) -> "SavedCells":
        """Read back what `to_dict` gave, after JSON; KeyError, TypeError or ValueError where it is damaged."""
        label = list(values["label"])
        sums: Plain = {name: floats(values[name]) for name in SUM_NAMES}
        if {len(label), *map(len, sums.values())} != {len(label)}:
            raise ValueError("the sums of its cells differ in number")
        fine = cls.from_dict(values["fine"]) if values.get("fine") else None
        return cls(label, floats(values.get("edges", [])), **sums, fine=fine)

    def to_dict(self) -> Plain:
        """Plain values for JSON."""
        values = {name: getattr(self, name) for name in ("edges", "label", *SUM_NAMES)}
        return values if self.fine is None else {**values, "fine": self.fine.to_dict()}

    def with_wider_noise(self, factor: Any) -> "SavedCells":
        """The same with larger sums of variance and squared residuals: a factor for all, or one per cell."""
        return replace(self, variance=self.variance * factor, residual2=self.residual2 * factor)

    def joined(self, cell: Any, label: Sequence[str], edges: Any = ()) -> "SavedCells":
        """Cells added up to fewer.

        Parameters
        ----------
        cell : int or array of int
            The number of the new cell of each.
        label : sequence of str
            The names of the new cells.
        edges : array-like
            The edges of the new cells.
        """
        new_cell = np.broadcast_to(cell, len(self.label))
        sums: Plain = {name: np.bincount(new_cell, getattr(self, name), len(label)) for name in SUM_NAMES}
        return SavedCells(label, np.asarray(edges), **sums)

    def cut_at(self, inner: Floats) -> "SavedCells":
        """Ranges joined to those between some of their own edges; missing values stay apart."""
        ends = [math.nan, *inner.tolist(), math.nan]
        missing = self.label[self.edges.size - 1 :]
        known = np.searchsorted(inner, self.edges[1:-1], side="right")
        cell = [0, *known, *[inner.size + 1] * len(missing)]
        labels = [span(low, high) for low, high in pairwise(ends)]
        return self.joined(cell, [*labels, *missing], inner)

    def same_edges(self, other: "SavedCells") -> bool:
        """Whether both have the same ranges."""
        return np.array_equal(self.edges, other.edges, equal_nan=True)


@dataclass(frozen=True, eq=False)
class MatchedCells:
    """The cells that two audits have in common.

    Attributes
    ----------
    column, label : list of str
        Of each cell; the column is empty for the whole table.
    before, after : SavedCells
        The sums of these cells in each audit, in the same order.
    """

    column: list[str]
    label: list[str]
    before: SavedCells
    after: SavedCells

    @property
    def where(self) -> np.ndarray:
        """Each cell in words."""
        named = zip(self.column, self.label, strict=True)
        return np.array([f"{column} {label}".strip() for column, label in named], object)

    def both(self, name: str) -> Floats:
        """One of the sums of both audits, shape (2, cells)."""
        return np.stack([getattr(self.before, name), getattr(self.after, name)])


@dataclass(frozen=True, eq=False)
class Comparison:
    """What changed from one audit to a later one; `Audit.compare` gives it.

    Attributes
    ----------
    paired : bool
        Whether both audits are of the same rows with the same outcomes.
    level : float
        Of significance, that of the later audit.
    table : Table
        One row per cell that both have: where, gap_before, gap_after, change (of |gap|), p_value, p_adjusted, verdict.
    new, gone : list of str
        Findings of one audit only, by their segment.
    score : dict of str to pair of float
        Each number by score, before and after.
    cells : bool
        Whether both keep sums of cells; the JSON of an audit does not, and `table` is then empty.
    response : str
        "real" or "count" where the outcome is not an event.
    left_out : list of str
        Columns that both tested, no range or level of which has enough rows of known variance in both.
    better, worse : list of str
        Segments whose error became significantly smaller or larger.
    """

    paired: bool
    level: float
    table: Table
    new: list[str]
    gone: list[str]
    score: dict[str, tuple[float, float]]
    cells: bool
    response: str
    left_out: list[str]
    better: list[str]
    worse: list[str]

    def to_dict(self) -> Plain:
        """Plain values for JSON."""
        score = {name: list(pair) for name, pair in self.score.items()}
        values = vars(self) | {"table": self.table.to_dict(), "score": score}
        return {name: value for name, value in values.items() if name != "response" or value}

    def _repr_html_(self) -> str:
        comparison = comparison_from(self.to_dict())
        from miscal.report.html.page import comparison_html

        return comparison_html(AuditReport(data={"response": self.response}, comparison=comparison))

    def __repr__(self) -> str:
        with wording.showing(self.response):
            lines = [self._headline(), *self._overall_lines(), *self._segment_lines()]
        lines += [f"  new: {where}" for where in self.new[:MAX_SHOWN]]
        lines += [f"  gone: {where}" for where in self.gone[:MAX_SHOWN]]
        if self.left_out:
            lines.append(visible(wording.not_compared(self.left_out)))
        return "\n".join(lines)

    def _headline(self) -> str:
        """On which rows, and how many segments changed."""
        rows = f"Compared on {'the same' if self.paired else 'different'} rows"
        if not self.cells:
            return f"{rows}, by findings alone: one of the audits is JSON, which has no sums of cells."
        better = wording.plural(len(self.better), "segment")
        return f"{rows}: {better} significantly better, {len(self.worse)} worse."

    def _overall_lines(self) -> list[str]:
        """The error along the score and the gap of all rows, before and after."""
        lines = []
        if "expected" in self.score:
            before, after = map(wording.percent, self.score["expected"])
            lines.append(f"  overall: expected calibration error {before} before, {after} after")
        overall = self.table.take(self.table["where"] == WHOLE_TABLE)
        for gaps, p in zip(_gap_texts(overall), overall["p_value"], strict=True):
            significant = "a significant change" if p <= self.level else "no significant change"
            lines.append(f"  overall: {gaps}; {significant} ({wording.p_value(p)})")
        return lines

    def _segment_lines(self) -> list[str]:
        """The segments that changed, the most certain first."""
        lines = []
        for verdict in (ChangeVerdict.WORSE, ChangeVerdict.BETTER):
            chosen = (
                self.table.take(self.table["verdict"] == verdict).sort("p_adjusted").take(slice(MAX_SHOWN))
            )
            for where, gaps in zip(chosen["where"], _gap_texts(chosen), strict=True):
                lines.append(f"  {verdict}: {visible(where)}: {gaps}")
        return lines


def _gap_texts(table: Table) -> list[str]:
    """The gap before and after of each row of a comparison's table, in words."""
    ends = zip(table["gap_before"], table["gap_after"], strict=True)
    return [f"gap {wording.points(before)} before, {wording.points(after)} after" for before, after in ends]


def compare(before: Any, after: Any) -> Comparison:
    """Compare two audits over the cells that both have.

    Parameters
    ----------
    before, after : Audit
    """
    earlier, later = before.report, after.report
    _check_comparable(earlier, later)
    # Audits of tables that were not held in memory have no fingerprint of their rows.
    paired = (earlier.data.get("rows_fingerprint") or "") == later.data.get("rows_fingerprint")
    matched = match_cells(before.carriers, after.carriers)
    table = _change_table(matched, paired=paired, level=later.level)
    has_cells = bool(before.carriers and after.carriers)
    not_compared = {*_tested_columns(later)}.difference(matched.column) if has_cells else ()
    measures = {name: (earlier.measure(name).value, later.measure(name).value) for name in SCORE_NUMBERS}
    return Comparison(
        paired=paired,
        level=later.level,
        table=table,
        new=_only_in_first(later, earlier),
        gone=_only_in_first(earlier, later),
        score={name: pair for name, pair in measures.items() if not any(map(math.isnan, pair))},
        cells=has_cells,
        response=later.response,
        left_out=[name for name in dict.fromkeys(_tested_columns(earlier)) if name in not_compared],
        better=table["where"][table["verdict"] == ChangeVerdict.BETTER].tolist(),
        worse=table["where"][table["verdict"] == ChangeVerdict.WORSE].tolist(),
    )


def _check_comparable(earlier: AuditReport, later: AuditReport) -> None:
    """Reject audits whose small cells were taken out, and audits of different kinds of outcomes."""
    for report, which in ((earlier, "the earlier audit"), (later, "the later audit")):
        if below := report.settings.get("suppress_below"):
            hint = f"small cells (below {below}) were taken out of it: save and compare first, suppress then"
            raise refusal("keeps no tallies to compare", which, hint=hint)
    if earlier.response != later.response:
        got = f"their responses are {earlier.response or 'binary'} and {later.response or 'binary'}"
        raise refusal("must predict the same kind of outcome", "the two audits", got=got)


def _change_table(matched: MatchedCells, *, paired: bool, level: float) -> Table:
    """Gaps of each cell before and after, and whether the size of the gap changed."""
    weight, predicted, observed = matched.both("weight"), matched.both("predicted"), matched.both("observed")
    gap = (predicted - observed) / weight
    if paired:
        p_value = paired_p(predicted, observed[0], matched.both("variance"))
    else:
        p_value = equal_gaps_p(gap, matched.both("residual2"), weight)
    change, adjusted = np.diff(np.abs(gap), axis=0)[0], holm(p_value)
    direction = np.where(change < 0, ChangeVerdict.BETTER, ChangeVerdict.WORSE)
    verdict = np.where(adjusted <= level, direction, ChangeVerdict.SAME)
    rows = matched.both("rows").astype(np.int64)
    return Table(
        {
            "where": matched.where,
            "rows_before": rows[0],
            "rows": rows[1],
            "gap_before": gap[0],
            "gap_after": gap[1],
            "p_value": p_value,
            "change": change,
            "p_adjusted": adjusted,
            "verdict": verdict.astype(object),
        }
    )


def _tested_columns(report: AuditReport) -> list[str]:
    """The columns that an audit tested."""
    return [str(view.settings.get("column")) for view in (*report.columns, *report.of("period"))]


def _only_in_first(report: AuditReport, other: AuditReport) -> list[str]:
    """The segments of the findings that the other audit does not have."""
    return [
        finding.where
        for finding in report.real
        if not in_earlier_audit(finding, other.real, report.rows, other.rows)
    ]


def cells_of(result: CellResult, fine: Tally | None = None, *, clustered: bool) -> SavedCells | None:
    """The sums of a result's cells, for a comparison; None where their variance is not known.

    With clusters, variances and squared residuals are as much larger as rows of one cluster are correlated, which the
    standard errors of the table say: sqrt(ΣD²)/Σw, D a cluster's residual. Rows alone would promise too much.

    Parameters
    ----------
    result : CellResult
    fine : Tally, optional
        Sums of narrow ranges of the same column, some of whose edges any other audit has (`shared_edges`).
    clustered : bool
        Whether rows are clustered.
    """
    cells, factor = _sums(result.tally, result), np.ones(1)
    if clustered:
        if "error" not in result.table:
            return None
        with ignore_warnings():
            ratio = (result.table["error"] * cells.weight) ** 2 / cells.residual2
        factor = np.maximum(np.nan_to_num(ratio, posinf=1.0), 1.0)
    cells = cells.with_wider_noise(factor)
    if fine is None:
        return cells
    # Rows of a cluster lie in several narrow ranges: those joined are taken for as correlated as the widest.
    return replace(cells, fine=_sums(fine, result).with_wider_noise(factor.max()))


def _sums(tally: Tally, result: CellResult) -> SavedCells:
    """Edges, labels and sums of cells, in the units of the data."""
    cells: Any = tally.cells
    edges = cells.edges if isinstance(cells, Ranges) else np.empty(0)
    sums = {name: getattr(tally, name) for name in SUM_NAMES}
    if (
        result.unit_scale is not None
    ):  # not events: residuals give the variance, and audits differ in their units
        scale, low = result.unit_scale, result.unit_low or 0.0
        for name in ("predicted", "observed"):
            sums[name] = sums[name] * scale + low * sums["weight"]
        sums["variance"] = sums["residual2"] = sums["residual2"] * scale**2
        edges = edges * scale + low if result.kind == "score" else edges
    return SavedCells(cells.labels(), floats(edges), **sums)


def match_cells(before: Mapping[str, SavedCells], after: Mapping[str, SavedCells]) -> MatchedCells:
    """The cells that both audits have with rows in them: of the whole table, of the score, and of each column."""
    pairs: list[tuple[str, SavedCells, SavedCells]] = []
    if "score" in before and "score" in after:
        whole_before, whole_after = (cells["score"].joined(0, [WHOLE_TABLE]) for cells in (before, after))
        pairs.append(("", whole_before, whole_after))
    for name, cells in before.items():
        if name in after:
            column = name.partition(":")[2] or "score"
            pairs.append((column, *_common_ranges(cells, after[name])))
    columns: list[str] = []
    labels: list[str] = []
    taken_before, taken_after = [], []
    for column, earlier, later in pairs:
        if not earlier.same_edges(later):
            continue
        later_cell = {later.label[cell]: cell for cell in np.flatnonzero(later.weight > 0).tolist()}
        cells_before = [
            cell for cell in np.flatnonzero(earlier.weight > 0).tolist() if earlier.label[cell] in later_cell
        ]
        common = [earlier.label[cell] for cell in cells_before]
        columns += [column] * len(common)
        labels += common
        taken_before.append((earlier, cells_before))
        taken_after.append((later, [later_cell[label] for label in common]))
    return MatchedCells(
        columns, labels, _concatenated(labels, taken_before), _concatenated(labels, taken_after)
    )


def _concatenated(labels: list[str], taken: Sequence[tuple[SavedCells, list[int]]]) -> SavedCells:
    """Some cells of several columns, one after the other."""
    sums: Plain = {
        name: np.concatenate([np.empty(0), *(getattr(cells, name)[index] for cells, index in taken)])
        for name in SUM_NAMES
    }
    return SavedCells(labels, np.empty(0), **sums)


def _common_ranges(before: SavedCells, after: SavedCells) -> tuple[SavedCells, SavedCells]:
    """The same ranges of both: neighbours that only one of them cuts apart are joined, and such as have few rows."""
    if before.same_edges(after) or not (before.edges.size and after.edges.size):
        return before, after
    before, after = before.fine or before, after.fine or after
    inner = np.intersect1d(before.edges[1:-1], after.edges[1:-1])
    rows = np.array([cells.cut_at(inner).rows[: inner.size + 1] for cells in (before, after)])
    inner = inner[_useful_borders(rows)]
    return (before.cut_at(inner), after.cut_at(inner)) if inner.size else (before, after)


def _useful_borders(rows: Floats) -> list[int]:
    """Which borders between neighbouring cells leave ranges with enough rows of both, about a tenth of all rows.

    >>> _useful_borders(np.array([[5, 40, 3, 60, 80], [40, 40, 40, 40, 40]]))
    [1, 3]
    """
    share = np.mean(rows / np.maximum(rows.sum(axis=1, keepdims=True), 1.0), axis=0)
    borders, start = [], 0
    for end in range(1, share.size):
        parts = np.add.reduceat(rows, [start, end], axis=1)
        if parts.min() >= MIN_ROWS and share[start:end].sum() >= MIN_SHARE:
            borders.append(end - 1)
            start = end
    return borders

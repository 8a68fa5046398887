"""Two audits side by side: two models on the same rows (paired), or two periods."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from miscal.aggregate.tally import Tally
from miscal.auditing.same_finding import in_earlier_audit
from miscal.cells.partitions import Ranges
from miscal.data.arrays import Plain
from miscal.data.errors import refusal, visible
from miscal.report import wording
from miscal.report.codec import Floats, JsonMapping, floats, parts
from miscal.report.model import AuditReport, read_document
from miscal.report.wording import span
from miscal.results import CellResult, Table
from miscal.stats.cell_sums import ignore_warnings
from miscal.stats.multiplicity import holm, paired_p
from miscal.stats.normal import normal_p

NOISE = ("variance", "residual2")
SUMS = ("rows", "weight", "predicted", "observed", *NOISE)
WHOLE = "the whole table"
SCORES = ("expected", "kuiper", "smooth", "gap", "ratio", "slope", "brier", "log_loss", "auc")
SHARE, LEAST_ROWS = 0.1, 30  # of a range that is joined from narrower ones
Cells = Plain  # edges, labels and sums, and under "fine" the same of narrower ranges


@dataclass(frozen=True, eq=False)
class Comparison:
    """What changed from one audit to another.

    Attributes
    ----------
    paired : whether both judge the same rows with the same outcomes
    cells : whether both keep sums of cells; the JSON of an audit does not, and `table` is then empty
    table : a row a cell that both have: where, gap_before, gap_after, change (of |gap|), p_value, p_adjusted, verdict
    better, worse : places where the error became smaller or larger beyond noise
    new, gone : findings of one audit only, by their place
    left_out : columns that both looked at, no range or level of which has enough rows of known noise in both
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
        plain = vars(self) | {"table": self.table.to_dict(), "score": score}
        return {word: each for word, each in plain.items() if word != "response" or each}

    def _repr_html_(self) -> str:
        return str(
            import_module("miscal.report.html.page").comparison_html(
                parts(self.response, comparison=self.to_dict())
            )
        )

    def __repr__(self) -> str:
        with wording.showing(self.response):
            found = f": {wording.plural(len(self.better), 'place')} better, {len(self.worse)} worse, beyond noise."
            if not self.cells:
                found = ", by findings alone: one of the audits is JSON, which has no sums of cells."
            lines = [f"Compared on {'the same' if self.paired else 'different'} rows{found}"]
            if "expected" in self.score:
                one, two = map(wording.percent, self.score["expected"])
                lines.append(f"  overall: off along the score by {one} before, {two} after")
            ends = zip(self.table["gap_before"], self.table["gap_after"], strict=True)
            gaps = [
                f"gap {wording.points(before)} before, {wording.points(after)} after"
                for before, after in ends
            ]
            table = Table({**self.table, "gaps": gaps})
            own = table.take(table["where"] == WHOLE)
            for change, p in zip(own["gaps"], own["p_value"], strict=True):
                beyond = (
                    f"{'changed' if p <= self.level else 'no change'} beyond noise ({wording.p_value(p)})"
                )
                lines.append(f"  overall: {change}; {beyond}")
            for verdict in ("worse", "better"):
                chosen = table.take(table["verdict"] == verdict).sort("p_adjusted").take(slice(8))
                places = zip(chosen["where"], chosen["gaps"], strict=True)
                lines += [f"  {verdict}: {visible(where)}: {change}" for where, change in places]
            lines += [f"  new: {where}" for where in self.new[:8]]
            lines += [f"  gone: {where}" for where in self.gone[:8]]
            if self.left_out:
                lines.append(visible(wording.not_compared(self.left_out)))
        return "\n".join(lines)


def compare(before: Any, after: Any) -> Comparison:
    """Compare two audits over the cells that both have."""
    one, two = read_document(before.document), read_document(after.document)
    for audit, which in ((one, "the earlier audit"), (two, "the later audit")):
        if below := audit.settings.get("suppress_below"):
            hint = f"small cells (below {below}) were taken out of it: save and compare first, suppress then"
            raise refusal("keeps no tallies to compare", which, hint=hint)
    if one.response != two.response:
        got = f"their responses are {one.response or 'binary'} and {two.response or 'binary'}"
        raise refusal("must predict the same kind of outcome", "the two audits", got=got)
    # Not of tables that were not held in memory.
    same = (one.data.get("rows_fingerprint") or "") == two.data.get("rows_fingerprint")
    told, (rows, weight, predicted, observed, variance, residual2) = _matched(before.carriers, after.carriers)
    gap = (predicted - observed) / weight
    if same:
        p_value = paired_p(predicted, observed[0], variance)
    else:  # the gap is the same on two sets of rows
        p_value = normal_p(np.diff(gap, axis=0)[0], np.sum(residual2 / weight**2, axis=0))
    change, adjusted = np.diff(np.abs(gap), axis=0)[0], holm(p_value)
    verdict = np.where(adjusted <= two.level, np.where(change < 0, "better", "worse"), "same")
    where = np.array([f"{column} {label}".strip() for column, label in told], object)
    counts = rows.astype(np.int64)
    values = {
        "where": where,
        "rows_before": counts[0],
        "rows": counts[1],
        "gap_before": gap[0],
        "gap_after": gap[1],
        "p_value": p_value,
        "change": change,
        "p_adjusted": adjusted,
        "verdict": verdict.astype(object),
    }
    summed = bool(before.carriers and after.carriers)
    asked = {*_asked(two)}.difference(dict(told)) if summed else ()
    left = [name for name in dict.fromkeys(_asked(one)) if name in asked]
    better, worse = (where[verdict == word].tolist() for word in ("better", "worse"))
    new, gone = _unlisted(two, one), _unlisted(one, two)
    measures = {name: (one.measure(name).value, two.measure(name).value) for name in SCORES}
    score = {name: pair for name, pair in measures.items() if not any(map(math.isnan, pair))}
    return Comparison(
        same, two.level, Table(values), new, gone, score, summed, two.response, left, better, worse
    )


def _asked(audit: AuditReport) -> list[str]:
    """The columns that an audit looked at."""
    return [str(entry.settings.get("column")) for entry in (*audit.columns, *audit.of("period"))]


def _unlisted(audit: AuditReport, other: AuditReport) -> list[str]:
    """The places of the findings that the other audit does not have."""
    return [
        finding.where
        for finding in audit.real
        if not in_earlier_audit(finding, other.real, audit.rows, other.rows)
    ]


def cells_of(result: CellResult, fine: Tally | None = None, *, clustered: bool) -> Cells | None:
    """The sums of a result's cells, for a comparison; None where their noise is not known.

    fine : sums of narrow ranges of the same column, some of whose edges any other audit has (`shared_edges`)

    With clusters the sums that are noise are as much larger as rows of one cluster err together, which the standard
    errors of the table tell: sqrt(ΣD²)/Σw, D a cluster's residual. Rows alone would promise too much.
    """
    own, spread = _sums(result.tally, result), np.ones(1)
    if clustered:
        if "error" not in result.table:
            return None
        with ignore_warnings():
            ratio = (result.table["error"] * own["weight"]) ** 2 / own["residual2"]
        spread = np.maximum(np.nan_to_num(ratio, posinf=1.0), 1.0)
    made = own | {name: own[name] * spread for name in NOISE}
    # Rows of a cluster lie in several narrow ranges: those joined err together as the widest do.
    if fine is not None:
        narrow = _sums(fine, result)
        made["fine"] = narrow | {name: narrow[name] * spread.max() for name in NOISE}
    return made


def _sums(tally: Tally, result: CellResult) -> Cells:
    """Edges, labels and sums of cells, in the units of the data."""
    cells: Any = tally.cells
    edges = cells.edges if isinstance(cells, Ranges) else np.empty(0)
    sums = {name: getattr(tally, name) for name in SUMS}
    # No events: the residuals tell the noise, and audits differ in their units.
    if result.unit_scale is not None:
        scale, low = result.unit_scale, result.unit_low or 0.0
        sums |= {name: sums[name] * scale + low * sums["weight"] for name in ("predicted", "observed")}
        sums |= dict.fromkeys(NOISE, sums["residual2"] * scale**2)
        edges = edges * scale + low if result.kind == "score" else edges
    return {"edges": floats(edges), "label": cells.labels(), **sums}


def read_cells(value: JsonMapping) -> Cells:
    """What `cells_of` gave, after JSON; KeyError, TypeError or ValueError where it is damaged."""
    made: Cells = {"edges": floats(value.get("edges", [])), "label": list(value["label"])}
    made |= {name: floats(value[name]) for name in SUMS}
    if len({len(made[name]) for name in ("label", *SUMS)}) > 1:
        raise ValueError("the sums of its cells differ in number")
    return made | ({"fine": read_cells(value["fine"])} if "fine" in value else {})


def _matched(before: Mapping[str, Cells], after: Mapping[str, Cells]) -> tuple[list[tuple[str, str]], Floats]:
    """The cells that both audits have, as column and label, and their sums, (sums, audits, cells)."""
    both = [(name, cells, after[name]) for name, cells in before.items() if name in after]
    matched = [("", _joined(old), _joined(now)) for name, old, now in both if name == "score"]  # all rows
    matched += [(name.partition(":")[2] or "score", *_alike(*pair)) for name, *pair in both]
    told, sums = [], [np.empty((len(SUMS), 2, 0))]
    for column, one, two in matched:
        if _same_edges(one, two):
            place = {two["label"][index]: index for index in np.flatnonzero(two["weight"] > 0)}
            filled = np.flatnonzero(one["weight"] > 0)
            own = [index for index in filled if one["label"][index] in place]
            named = [one["label"][index] for index in own]
            other = [place[label] for label in named]
            told += [(column, label) for label in named]
            sums.append(np.array([[one[name][own], two[name][other]] for name in SUMS]))
    return told, np.concatenate(sums, axis=2)


def _joined(cells: Cells, cell: Any = 0, label: Sequence[str] = (WHOLE,), edges: Any = ()) -> Cells:
    """Cells added up to fewer, whose number each of them is given; all as one if not."""
    place = np.broadcast_to(cell, len(cells["label"]))
    sums = {name: np.bincount(place, cells[name], len(label)) for name in SUMS}
    return {"edges": np.asarray(edges), "label": label, **sums}


def _same_edges(one: Cells, two: Cells) -> bool:
    return np.array_equal(one["edges"], two["edges"], equal_nan=True)


def _alike(one: Cells, two: Cells) -> tuple[Cells, Cells]:
    """The same ranges of both: neighbours that only one of them cuts apart are joined, and such as have few rows."""
    if _same_edges(one, two) or not (one["edges"].size and two["edges"].size):
        return one, two
    one, two = one.get("fine", one), two.get("fine", two)
    inner = np.intersect1d(one["edges"][1:-1], two["edges"][1:-1])
    rows = np.array([_cut(each, inner)["rows"][: inner.size + 1] for each in (one, two)])
    inner = inner[_useful(rows)]
    return (_cut(one, inner), _cut(two, inner)) if inner.size else (one, two)


def _useful(rows: Floats) -> list[int]:
    """Which borders between neighbouring cells leave ranges with enough rows of both, about a tenth of all rows.

    >>> _useful(np.array([[5, 40, 3, 60, 80], [40, 40, 40, 40, 40]]))
    [1, 3]
    """
    share = np.mean(rows / np.maximum(rows.sum(axis=1, keepdims=True), 1.0), axis=0)
    kept, start = [], 0
    for end in range(1, share.size):
        parts = np.add.reduceat(rows, [start, end], axis=1)
        if parts.min() >= LEAST_ROWS and share[start:end].sum() >= SHARE:
            kept.append(end - 1)
            start = end
    return kept


def _cut(cells: Cells, inner: Floats) -> Cells:
    """Ranges joined to those between some of their own edges; missing values stay apart."""
    ends = [math.nan, *inner.tolist(), math.nan]
    missing = cells["label"][cells["edges"].size - 1 :]
    known = np.searchsorted(inner, cells["edges"][1:-1], side="right")
    place = [0, *known, *[inner.size + 1] * len(missing)]
    labels = [span(low, high) for low, high in pairwise(ends)]
    return _joined(cells, place, [*labels, *missing], inner)

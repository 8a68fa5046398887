"""Two audits side by side: two models on the same rows (paired), or two periods."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from miscal.auditing.findings import known
from miscal.carriers.tally import Tally
from miscal.data.errors import refusal, visible
from miscal.data.libraries import special
from miscal.inference.adjust import holm
from miscal.page import words
from miscal.page.json import floats, parts
from miscal.page.records import read_document
from miscal.page.words import span
from miscal.pooling.cells import Ranges
from miscal.results import Result, Table

COLUMNS = ("where", "rows_before", "rows", "gap_before", "gap_after", "p_value")
NOISE = ("variance", "residual2")
SUMS = ("rows", "weight", "predicted", "observed", *NOISE)
WHOLE = "the whole table"
SCORES = ("expected", "kuiper", "smooth", "gap", "ratio", "slope", "brier", "log_loss", "auc")
SHARE, LEAST_ROWS = 0.1, 30  # of a range that is joined from narrower ones
Cells = dict[str, Any]  # edges, labels and sums, and under "fine" the same of narrower ranges


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

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        score = {name: list(pair) for name, pair in self.score.items()}
        plain = vars(self) | {"table": self.table.to_dict(), "score": score}
        return {word: each for word, each in plain.items() if word != "response" or each}

    def _repr_html_(self) -> str:
        return str(
            import_module("miscal.page.html").comparison_html(parts(self.response, comparison=self.to_dict()))
        )

    def __repr__(self) -> str:
        with words.showing(self.response):
            found = (
                f": {words.plural(len(self.better), 'place')} better, {len(self.worse)} worse, beyond noise."
            )
            if not self.cells:
                found = ", by findings alone: one of the audits is JSON, which has no sums of cells."
            lines = [f"Compared on {'the same' if self.paired else 'different'} rows{found}"]
            if "expected" in self.score:
                one, two = (words.percent(value) for value in self.score["expected"])
                lines.append(f"  overall: off along the score by {one} before, {two} after")
            own = self.table.take(self.table["where"] == WHOLE)
            for gap, after, p in zip(own["gap_before"], own["gap_after"], own["p_value"], strict=True):
                change = f"gap {words.points(gap)} before, {words.points(after)} after"
                beyond = f"{'changed' if p <= self.level else 'no change'} beyond noise ({words.p_value(p)})"
                lines.append(f"  overall: {change}; {beyond}")
            for verdict in ("worse", "better"):
                chosen = self.table.take(self.table["verdict"] == verdict).sort("p_adjusted").take(slice(8))
                lines += [
                    f"  {verdict}: {visible(where)}: gap {words.points(before)} before, {words.points(after)} after"
                    for where, before, after in zip(
                        *map(chosen.get, ("where", "gap_before", "gap_after")), strict=True
                    )
                ]
            lines += [f"  new: {visible(where)}" for where in self.new[:8]]
            lines += [f"  gone: {visible(where)}" for where in self.gone[:8]]
            lines += [visible(words.not_compared(self.left_out))] if self.left_out else []
        return "\n".join(lines)


def compare(before: Any, after: Any) -> Comparison:
    """Compare two audits over the cells that both have."""
    one, two = read_document(before.document), read_document(after.document)
    for audit, which in ((one, "the earlier audit"), (two, "the later audit")):
        if below := audit.settings.get("suppress_below"):
            hint = f"small cells (below {below}) were taken out of it: save and compare first, suppress then"
            raise refusal("keeps no tallies to compare", where=which, hint=hint)
    if one.response != two.response:
        got = f"their responses are {one.response or 'binary'} and {two.response or 'binary'}"
        raise refusal("must predict the same kind of outcome", where="the two audits", got=got)
    # Not of tables that were not held in memory.
    prints = [each.data.get("rows_fingerprint") for each in (one, two)]
    same = prints[0] is not None and prints[0] == prints[1]
    both = {
        name: (cells, after.carriers[name])
        for name, cells in before.carriers.items()
        if name in after.carriers
    }
    matched = [(name.partition(":")[2] or "score", *_alike(*pair)) for name, pair in both.items()]
    if "score" in both:
        old, now = map(_joined, both["score"])
        matched.insert(0, ("", old, now))  # all rows
    parts = [(column, _cells(column, *pair, paired=same)) for column, *pair in matched if _same_edges(*pair)]
    seen = {column for column, part in parts if part["where"].size}
    listed = [part for _, part in parts] or [dict.fromkeys(COLUMNS, np.empty(0))]
    rows = {name: np.concatenate([part[name] for part in listed]) for name in COLUMNS}
    change = np.abs(rows["gap_after"]) - np.abs(rows["gap_before"])
    adjusted = holm(rows["p_value"])
    verdict = np.where(adjusted <= two.level, np.where(change < 0, "better", "worse"), "same")
    table = Table({**rows, "change": change, "p_adjusted": adjusted, "verdict": verdict.astype(object)})
    summed = bool(before.carriers and after.carriers)
    asked = (
        [str(entry.settings["column"]) for entry in (*each.columns, *each.of("period"))]
        for each in (one, two)
    )
    earlier, later = map(dict.fromkeys, asked)
    left = [name for name in earlier if summed and name in later and name not in seen]
    places = (rows["where"][verdict == word].tolist() for word in ("better", "worse"))
    new = [finding.where for finding in two.real if not known(finding, one.real, (two.rows, one.rows))]
    gone = [finding.where for finding in one.real if not known(finding, two.real, (one.rows, two.rows))]
    pairs = {name: (one.measure(name), two.measure(name)) for name in SCORES}
    score = {name: (old.value, now.value) for name, (old, now) in pairs.items() if old.known and now.known}
    return Comparison(same, two.level, table, new, gone, score, summed, two.response, left, *places)


def cells_of(result: Result, fine: Tally | None = None, *, clustered: bool) -> Cells | None:
    """The sums of a result's cells, for a comparison; None where their noise is not known.

    fine : sums of narrow ranges of the same column, some of whose edges any other audit has (`shared_edges`)

    With clusters the sums that are noise are as much larger as rows of one cluster err together, which the standard
    errors of the table tell: sqrt(ΣD²)/Σw, D a cluster's residual. Rows alone would promise too much.
    """
    own, spread = _sums(result.extra["tally"], result), np.ones(1)
    if clustered:
        if "error" not in result.table:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (result.table["error"] * own["weight"]) ** 2 / own["residual2"]
        spread = np.maximum(np.where(np.isfinite(ratio), ratio, 1.0), 1.0)
    made = own | {name: own[name] * spread for name in NOISE}
    # Rows of a cluster lie in several narrow ranges: those joined err together as the widest do.
    if fine is not None:
        narrow = _sums(fine, result)
        made["fine"] = narrow | {name: narrow[name] * spread.max() for name in NOISE}
    return made


def _sums(tally: Tally, result: Result) -> Cells:
    """Edges, labels and sums of cells, in the units of the data."""
    cells: Any = tally.cells
    edges = cells.edges if isinstance(cells, Ranges) else np.empty(0)
    sums = {name: np.asarray(getattr(tally, name), dtype=np.float64) for name in SUMS}
    if "scale" in result.extra:  # no events: the residuals tell the noise, and audits differ in their units
        scale, low = result.extra["scale"], result.extra.get("low", 0.0)
        sums |= {name: sums[name] * scale + low * sums["weight"] for name in ("predicted", "observed")}
        sums |= dict.fromkeys(NOISE, sums["residual2"] * scale**2)
        edges = edges * scale + low if result.kind == "score" else edges
    return {"edges": floats(edges), "label": cells.labels(), **sums}


def read_cells(value: Mapping[str, Any]) -> Cells:
    """What `cells_of` gave, after JSON; KeyError, TypeError or ValueError where it is damaged."""
    made: Cells = {"edges": floats(value.get("edges", [])), "label": list(value["label"])}
    made |= {name: floats(value[name]) for name in SUMS}
    if len({len(made[name]) for name in ("label", *SUMS)}) > 1:
        raise ValueError("the sums of its cells differ in number")
    return made | ({"fine": read_cells(value["fine"])} if "fine" in value else {})


def _joined(cells: Cells, cell: Any = 0, label: Sequence[str] = (WHOLE,), edges: Any = ()) -> Cells:
    """Cells added up to fewer, whose number each of them is given; all as one if not."""
    place = np.broadcast_to(np.asarray(cell, np.int64), len(cells["label"]))
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
    inner = inner[_useful(*(_cut(each, inner)["rows"][: inner.size + 1] for each in (one, two)))]
    return (_cut(one, inner), _cut(two, inner)) if inner.size else (one, two)


def _useful(one: np.ndarray, two: np.ndarray) -> list[int]:
    """Which borders between neighbouring cells leave ranges with enough rows of both, about a tenth of all rows.

    >>> _useful(np.array([5, 40, 3, 60, 80]), np.array([40, 40, 40, 40, 40]))
    [1, 3]
    """
    share = 0.5 * (one / max(one.sum(), 1.0) + two / max(two.sum(), 1.0))
    kept, start = [], 0
    for end in range(1, one.size):
        inside = slice(start, end)
        enough = min(one[inside].sum(), two[inside].sum(), one[end:].sum(), two[end:].sum()) >= LEAST_ROWS
        if enough and share[inside].sum() >= SHARE:
            kept.append(end - 1)
            start = end
    return kept


def _cut(cells: Cells, inner: np.ndarray) -> Cells:
    """Ranges joined to those between some of their own edges; missing values stay apart."""
    ends = [math.nan, *inner.tolist(), math.nan]
    missing = cells["label"][cells["edges"].size - 1 :]
    place = np.append(0, np.searchsorted(inner, cells["edges"][1:-1], side="right"))
    place = np.append(place, inner.size + 1 + np.arange(len(missing)))
    return _joined(cells, place, [*(span(low, high) for low, high in pairwise(ends)), *missing], inner)


def _cells(column: str, one: Cells, two: Cells, *, paired: bool) -> dict[str, np.ndarray]:
    """The cells of one result that both audits have, matched by name."""
    place = {label: index for index, label in enumerate(two["label"]) if two["weight"][index] > 0}
    own = [index for index, label in enumerate(one["label"]) if label in place and one["weight"][index] > 0]
    named = [one["label"][index] for index in own]
    chosen = ((one, own), (two, [place[label] for label in named]))
    sums = [{name: each[name][some] for name in SUMS} for each, some in chosen]
    gaps = [(each["predicted"] - each["observed"]) / each["weight"] for each in sums]
    # The gap is the same on two sets of rows.
    unpaired = sum(each["residual2"] / each["weight"] ** 2 for each in sums)
    p_value = paired_p(*sums) if paired else _normal_p(gaps[0] - gaps[1], unpaired)
    where = np.array([f"{column} {label}".strip() for label in named], dtype=object)
    values = (where, *(part["rows"].astype(np.int64) for part in sums), *gaps, p_value)
    return dict(zip(COLUMNS, values, strict=True))


def paired_p(one: Cells, two: Cells) -> np.ndarray:
    """P-values that two models are equally far from the truth on the same rows.

    The model on the truth's side of the middle between both is nearer: the outcomes are tested against the middle.

    >>> base = {"weight": np.array([100.0]), "observed": np.array([30.0]), "variance": np.array([21.0])}
    >>> paired_p({**base, "predicted": np.array([30.0])}, {**base, "predicted": np.array([60.0])}).round(3)
    array([0.001])
    """
    off = one["observed"] - 0.5 * (one["predicted"] + two["predicted"])
    found = _normal_p(off, 0.5 * (one["variance"] + two["variance"]))
    return np.where(one["predicted"] == two["predicted"], 1.0, found)


def _normal_p(value: np.ndarray, variance: Any) -> np.ndarray:
    """Two-sided p-values of normal values; 1 where there is no noise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > 0, special.erfc(np.abs(value) / np.sqrt(2.0 * variance)), 1.0)

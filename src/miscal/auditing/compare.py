"""Two audits side by side: two models on the same rows (paired), or two periods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from miscal.auditing.findings import flat, known
from miscal.carriers.tally import Tally
from miscal.data.errors import refusal, visible
from miscal.data.libraries import special
from miscal.inference.adjust import holm
from miscal.page import words
from miscal.page.json import floats, parts
from miscal.page.words import finite, span
from miscal.pooling.cells import Ranges, fingerprint
from miscal.results import Result, Table

COLUMNS = ("where", "rows_before", "rows", "gap_before", "gap_after", "p_value")
SUMS = ("rows", "weight", "predicted", "observed", "variance", "residual2")
WHOLE = "the whole table"
SCORES = ("expected", "kuiper", "smooth", "gap", "ratio", "slope", "brier", "log_loss", "auc")
SHARE, LEAST_ROWS = 0.1, 30  # of a range that is joined from narrower ones
Sums = Mapping[str, np.ndarray]


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
        return str(import_module("miscal.page.html").comparison_html(parts(self.response, comparison=self.to_dict())))

    def __repr__(self) -> str:
        with words.showing(self.response):
            return self._said()

    def _said(self) -> str:
        how = "the same rows" if self.paired else "different rows"
        lines = [f"Compared on {how}: {len(self.better)} places better, {len(self.worse)} worse, beyond noise."]
        if not self.cells:
            lines = [f"Compared on {how}, by findings alone: one of the audits is JSON, which has no sums of cells."]
        lines += self._overall()
        for verdict in ("worse", "better"):
            chosen = self.table.take(self.table["verdict"] == verdict).sort("p_adjusted").take(slice(8))
            lines += [
                f"  {verdict}: {visible(where)}: gap {words.points(before)} before, {words.points(after)} after"
                for where, before, after in zip(*map(chosen.get, ("where", "gap_before", "gap_after")), strict=True)
            ]
        lines += [f"  new: {visible(where)}" for where in self.new[:8]]
        lines += [f"  gone: {visible(where)}" for where in self.gone[:8]]
        lines += [visible(words.not_compared(self.left_out))] if self.left_out else []
        return "\n".join(lines)

    def _overall(self) -> list[str]:
        """How the whole table changed: along the score, and on average."""
        made = []
        if "expected" in self.score:
            one, two = (words.percent(value) for value in self.score["expected"])
            made.append(f"  overall: off along the score by {one} before, {two} after")
        own = self.table.take(self.table["where"] == WHOLE)
        for gap, after, p in zip(own["gap_before"], own["gap_after"], own["p_value"], strict=True):
            change = f"gap {words.points(gap)} before, {words.points(after)} after"
            made.append(f"  overall: {change}; {'changed' if p <= self.level else 'no change'} beyond noise"
                        f" ({words.p_value(p)})")  # fmt: skip
        return made


def compare(before: Any, after: Any) -> Comparison:
    """Compare two audits over the cells that both have."""
    for audit, which in ((before, "the earlier audit"), (after, "the later audit")):
        below = audit.document["settings"].get("suppress_below")
        if below:
            hint = f"small cells (below {below}) were taken out of it: save and compare first, suppress then"
            raise refusal("keeps no tallies to compare", where=which, hint=hint)
    data = [audit.document["data"] for audit in (before, after)]
    prints = [each.get("rows_fingerprint") for each in data]  # not of tables that were not held in memory
    same = prints[0] is not None and prints[0] == prints[1]
    level = float(after.document["settings"].get("level", 0.05))
    both = [name for name in before.carriers if name in after.carriers]
    parts = [_cells(name, *_alike(before.carriers[name], after.carriers[name]), paired=same) for name in both]
    seen = {_column(name) for name, part in zip(both, parts, strict=True) if part and part["where"].size}
    if "score" in both:  # first of all, all rows
        parts.insert(0, _cells("score", *(_joined(a.carriers["score"]) for a in (before, after)), paired=same))
    parts = [part for part in parts if part] or [dict.fromkeys(COLUMNS, np.empty(0))]
    rows = {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
    change = np.abs(rows["gap_after"]) - np.abs(rows["gap_before"])
    adjusted = holm(rows["p_value"])
    verdict = np.where(adjusted <= level, np.where(change < 0, "better", "worse"), "same")
    table = Table({**rows, "change": change, "p_adjusted": adjusted, "verdict": verdict.astype(object)})
    summed = bool(before.carriers and after.carriers)
    kinds = [str(one.get("response", "")) for one in data]
    if kinds[0] != kinds[1]:
        got = " and ".join(kind or "binary" for kind in kinds)
        raise refusal("must predict the same kind of outcome", where="the two audits", got=f"their responses are {got}")
    left = [name for name in _columns(before) if summed and name in _columns(after) and name not in seen]
    places = ([str(where) for where in rows["where"][verdict == word]] for word in ("better", "worse"))
    found = *_findings(before, after), _scores(before, after)
    return Comparison(same, level, table, *found, summed, kinds[0], left, *places)


def _column(name: str) -> str:
    return name.partition(":")[2] or "score"


def _columns(audit: Any) -> list[str]:
    """The columns that an audit looked at, each once."""
    results = [one for kind in ("variable", "field", "period") for one in audit.document["sections"].get(kind, [])]
    return list(dict.fromkeys(str(one["settings"]["column"]) for one in results))


def cells_of(result: Result, fine: Tally | None = None, *, clustered: bool) -> dict[str, Any] | None:
    """The sums of a result's cells as plain lists, for a comparison; None where their noise is not known.

    fine : sums of narrow ranges of the same column, some of whose edges any other audit has (`shared_edges`)

    With clusters the sums that are noise are as much larger as rows of one cluster err together, which the standard
    errors of the table tell: sqrt(ΣD²)/Σw, D a cluster's residual. Rows alone would promise too much.
    """
    sums, spread = _sums(result.extra["tally"], result), np.ones(1)
    if clustered:
        error = result.table["error"] if "error" in result.table else np.empty(0)
        if error.size != sums["weight"].size:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (error * sums["weight"]) ** 2 / sums["residual2"]
        spread = np.maximum(np.where(np.isfinite(ratio), ratio, 1.0), 1.0)
    cells: Any = result.extra["tally"].cells
    if "scale" in result.extra and result.kind == "score":
        cells = replace(cells, edges=cells.edges * result.extra["scale"] + result.extra.get("low", 0.0))
    made = _listed(cells, sums, spread)
    if fine is not None:  # rows of a cluster lie in several narrow ranges: those joined err together as the widest do
        made["fine"] = _listed(fine.cells, _sums(fine, result), spread.max())
    return made


def _sums(tally: Tally, result: Result) -> dict[str, np.ndarray]:
    """The sums of cells in the units of the data."""
    scale, low = result.extra.get("scale", 1.0), result.extra.get("low", 0.0)
    sums = {name: np.asarray(getattr(tally, name), dtype=np.float64) for name in SUMS}
    if "scale" in result.extra:  # no events: the residuals tell the noise, and audits differ in their units
        sums |= {name: sums[name] * scale + low * sums["weight"] for name in ("predicted", "observed")}
        sums |= dict.fromkeys(("variance", "residual2"), sums["residual2"] * scale**2)
    return sums


def _listed(cells: Any, sums: Mapping[str, np.ndarray], spread: Any) -> dict[str, Any]:
    """Cells and their sums as plain lists; those that are noise as much larger as `spread`."""
    sums = {**sums, **{name: sums[name] * spread for name in ("variance", "residual2")}}
    rule = None if cells.describe()["kind"] == "levels" else fingerprint(cells)
    edges = cells.edges.tolist() if isinstance(cells, Ranges) else []
    return {"rule": rule, "edges": edges, "label": cells.labels()} | {name: sums[name].tolist() for name in SUMS}


def read_cells(value: Mapping[str, Any]) -> dict[str, Any]:
    """What `cells_of` gave, after JSON; KeyError, TypeError or ValueError where it is damaged."""
    lists = {name: list(value[name]) for name in ("label", *SUMS)}
    if len({len(each) for each in lists.values()}) > 1:
        raise ValueError("the sums of its cells differ in number")
    fine = {"fine": read_cells(value["fine"])} if "fine" in value else {}
    return {"rule": value["rule"], "edges": floats(value.get("edges", [])).tolist(), **lists, **fine}


def _joined(cells: Mapping[str, Any]) -> dict[str, Any]:
    """All cells as one."""
    return {"rule": None, "label": [WHOLE], **{name: [float(np.sum(floats(cells[name])))] for name in SUMS}}


def _alike(one: Mapping[str, Any], two: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The same ranges of both: neighbours that only one of them cuts apart are joined, and such as have few rows."""
    if one["rule"] == two["rule"] or not (one.get("edges") and two.get("edges")):
        return one, two
    one, two = one.get("fine", one), two.get("fine", two)
    inner = np.intersect1d(one["edges"][1:-1], two["edges"][1:-1])
    rows = [floats(_cut(each, inner)["rows"])[: inner.size + 1] for each in (one, two)]
    inner = inner[_useful(*rows)]
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


def _cut(cells: Mapping[str, Any], inner: np.ndarray) -> dict[str, Any]:
    """Ranges joined to those between some of their own edges; missing values stay apart."""
    known = len(cells["edges"]) - 1
    place = np.append(0, np.searchsorted(inner, np.asarray(cells["edges"][1:-1]), side="right"))
    ends = [None, *inner.tolist(), None]
    label = [span(finite(low), finite(high)) for low, high in pairwise(ends)] + list(cells["label"][known:])
    place = np.append(place, len(ends) - 1 + np.arange(len(cells["label"]) - known)).astype(np.int64)
    sums = {name: np.bincount(place, floats(cells[name]), len(label)).tolist() for name in SUMS}
    return {"rule": inner.tolist(), "label": label, **sums}


def _cells(name: str, one: Mapping[str, Any], two: Mapping[str, Any], *, paired: bool) -> dict[str, np.ndarray]:
    """The cells of one result that both audits have, matched by name; ranges only where their edges are the same."""
    if one["rule"] != two["rule"]:
        return {}
    column = _column(name)
    full, own_full = floats(two["weight"]) > 0, floats(one["weight"]) > 0
    place = {label: index for index, label in enumerate(two["label"]) if full[index]}
    own = [index for index, label in enumerate(one["label"]) if label in place and own_full[index]]
    named = [one["label"][index] for index in own]
    where = np.array([label if label == WHOLE else f"{column} {label}".strip() for label in named], dtype=object)
    sums = [
        {name: floats(each[name])[chosen] for name in SUMS}
        for each, chosen in ((one, own), (two, [place[label] for label in named]))
    ]
    gaps = [(each["predicted"] - each["observed"]) / each["weight"] for each in sums]
    unpaired = sum(each["residual2"] / each["weight"] ** 2 for each in sums)  # the gap is the same on two sets of rows
    p_value = paired_p(*sums) if paired else _normal_p(gaps[0] - gaps[1], unpaired)
    values = (where, *(part["rows"].astype(np.int64) for part in sums), *gaps, p_value)
    return dict(zip(COLUMNS, values, strict=True))


def paired_p(one: Sums, two: Sums) -> np.ndarray:
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


def _findings(before: Any, after: Any) -> tuple[list[str], list[str]]:
    old, new = ([one for one in flat(audit.findings) if one.real] for audit in (before, after))
    old_rows, new_rows = (finite(audit.document["data"].get("rows")) for audit in (before, after))
    added = [finding.where for finding in new if not known(finding, old, (new_rows, old_rows))]
    return added, [finding.where for finding in old if not known(finding, new, (old_rows, new_rows))]


def _scores(before: Any, after: Any) -> dict[str, tuple[float, float]]:
    one, two = before.document["score"], after.document["score"]
    return {n: (float(one[n]), float(two[n])) for n in SCORES if one.get(n) is not None and two.get(n) is not None}

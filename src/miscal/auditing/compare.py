"""Two audits side by side: two models on the same rows (paired), or two periods."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.auditing.findings import known
from miscal.carriers.tally import Tally
from miscal.data.errors import refusal
from miscal.inference.adjust import holm
from miscal.page import words
from miscal.page.reading import floats
from miscal.page.words import finite
from miscal.pooling.cells import fingerprint
from miscal.results import Table

COLUMNS = ("where", "rows_before", "rows", "gap_before", "gap_after", "p_value")
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
    """

    paired: bool
    level: float
    table: Table
    new: list[str]
    gone: list[str]
    score: dict[str, tuple[float, float]]
    cells: bool = True

    @property
    def better(self) -> list[str]:
        """Places whose error became smaller beyond noise."""
        return self._where("better")

    @property
    def worse(self) -> list[str]:
        """Places whose error became larger beyond noise."""
        return self._where("worse")

    def _where(self, verdict: str) -> list[str]:
        return [str(where) for where in self.table["where"][self.table["verdict"] == verdict]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "paired": self.paired, "cells": self.cells, "level": self.level, "table": self.table.to_dict(),
            "new": self.new, "gone": self.gone, "better": self.better, "worse": self.worse,
            "score": {name: list(pair) for name, pair in self.score.items()},
        }  # fmt: skip

    def __repr__(self) -> str:
        how = "the same rows" if self.paired else "different rows"
        lines = [f"Compared on {how}: {len(self.better)} places better, {len(self.worse)} worse, beyond noise."]
        if not self.cells:
            lines = [f"Compared on {how}, by findings alone: one of the audits is JSON, which has no sums of cells."]
        for verdict in ("worse", "better"):
            chosen = self.table.take(self.table["verdict"] == verdict).sort("p_adjusted")
            lines += [
                f"  {verdict}: {where}: gap {words.points(before)} before, {words.points(after)} after"
                for where, before, after in zip(
                    chosen["where"][:8], chosen["gap_before"], chosen["gap_after"], strict=False
                )
            ]
        lines += [f"  new: {where}" for where in self.new[:8]] + [f"  gone: {where}" for where in self.gone[:8]]
        return "\n".join(lines)


def compare(before: Any, after: Any) -> Comparison:
    """Compare two audits over the cells that both have."""
    for audit, which in ((before, "the earlier audit"), (after, "the later audit")):
        below = audit.document["settings"].get("suppress_below")
        if below:
            hint = f"small cells (below {below}) were taken out of it: save and compare first, suppress then"
            raise refusal("keeps no tallies to compare", where=which, hint=hint)
    data = [audit.document["data"] for audit in (before, after)]
    same = data[0].get("rows_fingerprint") is not None and data[0]["rows_fingerprint"] == data[1]["rows_fingerprint"]
    level = float(after.document["settings"].get("level", 0.05))
    parts = [_cells(before, after, name, paired=same) for name in before.carriers if name in after.carriers]
    parts = [part for part in parts if part] or [dict.fromkeys(COLUMNS, np.empty(0))]
    rows = {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
    change = np.abs(rows["gap_after"]) - np.abs(rows["gap_before"])
    adjusted = holm(rows["p_value"])
    verdict = np.where(adjusted <= level, np.where(change < 0, "better", "worse"), "same")
    table = Table({**rows, "change": change, "p_adjusted": adjusted, "verdict": verdict.astype(object)})
    summed = bool(before.carriers and after.carriers)
    return Comparison(same, level, table, *_findings(before, after), _scores(before, after), summed)


def _cells(before: Any, after: Any, name: str, *, paired: bool) -> dict[str, np.ndarray]:
    """The cells of one carrier that both audits have, matched by name; ranges only where their edges are the same."""
    one, two = before.carriers[name], after.carriers[name]
    spread = spread_of(before, name), spread_of(after, name)
    if any(found is None and clustered(audit) for found, audit in zip(spread, (before, after), strict=True)):
        return {}  # how much noise clusters add to these cells is not kept, and rows alone would promise too much
    if one.cells.describe()["kind"] != "levels" and fingerprint(one.cells) != fingerprint(two.cells):
        return {}
    column = name.partition(":")[2] or "score"
    place = {label: index for index, label in enumerate(two.cells.labels()) if two.weight[index] > 0}
    labels = one.cells.labels()
    own = [index for index, label in enumerate(labels) if label in place and one.weight[index] > 0]
    where = np.array([f"{column} {labels[index]}".strip() for index in own], dtype=object)
    sums = _sums(one, own, spread[0]), _sums(two, [place[labels[index]] for index in own], spread[1])
    p_value = paired_p(*sums) if paired else unpaired_p(*sums)
    values = (where, *(part["rows"].astype(np.int64) for part in sums), *map(_gap, sums), p_value)
    return dict(zip(COLUMNS, values, strict=True))


def _sums(tally: Tally, cells: list[int], spread: np.ndarray | None) -> Sums:
    """The sums of cells; those that are noise are as much larger as rows of one cluster err together."""
    names = ("rows", "weight", "predicted", "observed", "variance", "residual2")
    made = {name: np.asarray(getattr(tally, name), dtype=np.float64)[cells] for name in names}
    times = 1.0 if spread is None else spread[cells]
    return {**made, "variance": made["variance"] * times, "residual2": made["residual2"] * times}


def _gap(sums: Sums) -> np.ndarray:
    return np.asarray((sums["predicted"] - sums["observed"]) / sums["weight"])


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


def unpaired_p(one: Sums, two: Sums) -> np.ndarray:
    """P-values that the gap is the same on two sets of rows."""
    return _normal_p(_gap(one) - _gap(two), sum(each["residual2"] / each["weight"] ** 2 for each in (one, two)))


def _normal_p(value: np.ndarray, variance: Any) -> np.ndarray:
    """Two-sided p-values of normal values; 1 where there is no noise."""
    from scipy.special import erfc

    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > 0, erfc(np.abs(value) / np.sqrt(2.0 * variance)), 1.0)


def _findings(before: Any, after: Any) -> tuple[list[str], list[str]]:
    old, new = ([finding for finding in audit.findings if finding.real] for audit in (before, after))
    old_rows, new_rows = (finite(audit.document["data"].get("rows")) for audit in (before, after))
    added = [finding.where for finding in new if not known(finding, old, (new_rows, old_rows))]
    return added, [finding.where for finding in old if not known(finding, new, (old_rows, new_rows))]


def _scores(before: Any, after: Any) -> dict[str, tuple[float, float]]:
    names = ("expected", "kuiper", "smooth", "gap", "slope", "ratio", "brier", "log_loss", "auc")
    one, two = before.document["score"], after.document["score"]
    return {n: (float(one[n]), float(two[n])) for n in names if one.get(n) is not None and two.get(n) is not None}


def clustered(audit: Any) -> bool:
    """Whether rows of the audited table come in clusters; its tallies alone know of rows only."""
    document = audit.document
    methods = [str(entry.get("method")) for entry in document["sections"]["score"]]
    return document["data"].get("cluster") is not None or any("one sign a cluster" in method for method in methods)


def spread_of(audit: Any, name: str) -> np.ndarray | None:
    """Variance over clusters relative to that over rows, at least 1, for each cell of a carrier; None without clusters.

    The tables keep it: with clusters the standard error of a cell's gap is sqrt(ΣD²)/Σw, D a cluster's residual. The
    columns of a single class have no table; their rows are in the same cells, so the ratio is that of all classes.
    """
    result, tally = _result_of(audit.document, name), audit.carriers[name]
    if result is None:
        base = re.sub(r" \(class .*?\):", ":", name, count=1)
        result, tally = _result_of(audit.document, base), audit.carriers.get(base)
    if result is None or tally is None or "cluster" not in str(result.get("method")):
        return None
    error = floats(result["table"].get("error"))
    if error.size != tally.residual2.size:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (error * tally.weight) ** 2 / tally.residual2
    return np.maximum(np.where(np.isfinite(ratio), ratio, 1.0), 1.0)


def _result_of(document: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The result whose tally a carrier is."""
    kind, _, column = name.partition(":")
    if not column:
        title = name.replace("score (class ", "Calibration by score, class ").removesuffix(")")
        title = "Calibration by score" if name == "score" else title
        return next((r for r in document["sections"].get("score", []) if r["name"] == title), None)
    return next((r for r in document["sections"].get(kind, []) if r["settings"].get("column") == column), None)

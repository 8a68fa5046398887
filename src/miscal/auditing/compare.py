"""Two audits side by side: two models on the same rows (paired), or two periods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.auditing.clustered import clustered, spread_of
from miscal.auditing.finding_identity import known
from miscal.carriers.tally import Tally
from miscal.data.errors import refusal
from miscal.inference.adjust import holm
from miscal.page import words
from miscal.page.words import finite
from miscal.pooling.cells import fingerprint
from miscal.results import Table


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
        return [str(w) for w, v in zip(self.table["where"], self.table["verdict"], strict=True) if v == "better"]

    @property
    def worse(self) -> list[str]:
        """Places whose error became larger beyond noise."""
        return [str(w) for w, v in zip(self.table["where"], self.table["verdict"], strict=True) if v == "worse"]

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
    rows: dict[str, list[Any]] = {
        name: [] for name in ("where", "rows_before", "rows", "gap_before", "gap_after", "p_value")
    }
    for name, one in before.carriers.items():
        two = after.carriers.get(name)
        if two is None:
            continue
        spread = spread_of(before, name), spread_of(after, name)
        if any(found is None and clustered(audit) for found, audit in zip(spread, (before, after), strict=True)):
            continue  # how much noise clusters add to these cells is not kept, and rows alone would promise too much
        for where, cells in _matched(name, one, two):
            sums = _cell(one, cells[0], spread[0]), _cell(two, cells[1], spread[1])
            if min(sums[0]["weight"], sums[1]["weight"]) <= 0:
                continue
            rows["where"].append(where)
            rows["rows_before"].append(int(sums[0]["rows"]))
            rows["rows"].append(int(sums[1]["rows"]))
            rows["gap_before"].append(_gap(sums[0]))
            rows["gap_after"].append(_gap(sums[1]))
            rows["p_value"].append(paired_p(*sums) if same else unpaired_p(*sums))
    gaps = np.abs(np.array(rows["gap_after"])) - np.abs(np.array(rows["gap_before"]))
    adjusted = holm(np.array(rows["p_value"], dtype=float)) if rows["where"] else np.empty(0)
    verdict = np.where(adjusted <= level, np.where(gaps < 0, "better", "worse"), "same")
    table = Table({**rows, "change": gaps, "p_adjusted": adjusted, "verdict": verdict.astype(object)})
    summed = bool(before.carriers and after.carriers)
    return Comparison(same, level, table, *_findings(before, after), _scores(before, after), summed)


def _matched(name: str, one: Tally, two: Tally) -> list[tuple[str, tuple[int, int]]]:
    """Cells with the same name in both; ranges only where their edges are the same."""
    if one.cells.describe()["kind"] != "levels" and fingerprint(one.cells) != fingerprint(two.cells):
        return []
    column = name.split(":", 1)[1] if ":" in name else ""
    place = {label: index for index, label in enumerate(two.cells.labels())}
    return [
        (f"{column} {label}".strip() if column else f"score {label}", (index, place[label]))
        for index, label in enumerate(one.cells.labels())
        if label in place
    ]


def _cell(tally: Tally, cell: int, spread: np.ndarray | None) -> dict[str, float]:
    """The sums of a cell; those that are noise are as much larger as rows of one cluster err together."""
    names = ("rows", "weight", "predicted", "observed", "variance", "residual2")
    made = {name: float(getattr(tally, name)[cell]) for name in names}
    times = 1.0 if spread is None else float(spread[cell])
    return {**made, "variance": made["variance"] * times, "residual2": made["residual2"] * times}


def _gap(cell: Mapping[str, float]) -> float:
    return (cell["predicted"] - cell["observed"]) / cell["weight"]


def paired_p(one: Mapping[str, float], two: Mapping[str, float]) -> float:
    """P-value that two models are equally far from the truth on the same rows.

    The model on the truth's side of the middle between both is nearer: the outcomes are tested against the middle.

    >>> base = {"weight": 100.0, "observed": 30.0, "variance": 21.0}
    >>> round(paired_p({**base, "predicted": 30.0}, {**base, "predicted": 60.0}), 3)
    0.001
    """
    middle = 0.5 * (one["predicted"] + two["predicted"])
    noise = math.sqrt(0.5 * (one["variance"] + two["variance"]))
    if one["predicted"] == two["predicted"] or noise <= 0:
        return 1.0
    return math.erfc(abs(one["observed"] - middle) / noise / math.sqrt(2.0))


def unpaired_p(one: Mapping[str, float], two: Mapping[str, float]) -> float:
    """P-value that the gap is the same on two sets of rows."""
    noise = math.sqrt(one["residual2"] / one["weight"] ** 2 + two["residual2"] / two["weight"] ** 2)
    return math.erfc(abs(_gap(one) - _gap(two)) / noise / math.sqrt(2.0)) if noise > 0 else 1.0


def _findings(before: Any, after: Any) -> tuple[list[str], list[str]]:
    old, new = ([finding for finding in audit.findings if finding.real] for audit in (before, after))
    old_rows, new_rows = (finite(audit.document["data"].get("rows")) for audit in (before, after))
    added = [finding.where for finding in new if not known(finding, old, (new_rows, old_rows))]
    return added, [finding.where for finding in old if not known(finding, new, (old_rows, new_rows))]


def _scores(before: Any, after: Any) -> dict[str, tuple[float, float]]:
    names = ("expected", "kuiper", "smooth", "gap", "slope", "ratio", "brier", "log_loss", "auc")
    one, two = before.document["score"], after.document["score"]
    return {n: (float(one[n]), float(two[n])) for n in names if one.get(n) is not None and two.get(n) is not None}

"""Repairs: before and after for every place that was wrong, on unseen rows; and from a table to its repaired files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np

from miscal.auditing.audit import Audit, audit
from miscal.auditing.findings import Finding, flat, rows_of
from miscal.auditing.search.groups import Rows, cluster_spread, sums_of
from miscal.data.columns import Columns
from miscal.data.errors import refusal, visible
from miscal.data.predictions import Predictions
from miscal.inference.residual import choose_null
from miscal.page.words import LEFT_FIRST, became, points, showing
from miscal.pairs import pair
from miscal.recalibrate.base import Recalibrator, pairs
from miscal.recalibrate.judging import difference
from miscal.recalibrate.sample import Sample

HALVED = 0.5  # a place within noise is gone only if its gap is also at most half of what it was
CLEAR = 0.1  # share by which a gap must shrink or grow to be called smaller or larger
SCORES = ("expected", "kuiper", "smooth", "gap", "ratio", "slope", "brier", "log_loss", "auc")


@dataclass(frozen=True, eq=False)
class Repair:
    """Two audits of the same unseen rows, before and after a repair, place by place.

    Attributes
    ----------
    before, after : Audit
    places : list of {where, kind, verdict, before, after}; before and after are {rows, predicted, observed, gap,
        interval, p_value}, or None where an audit did not look there
    about : how it was repaired: name, reason, keeps_ranking, rows, score (each number before and after)
    predictions : the repaired predictions of the unseen rows
    """

    before: Audit
    after: Audit
    places: list[dict[str, Any]]
    about: dict[str, Any]
    predictions: Predictions

    def where(self, verdict: str) -> list[str]:
        """The places with one verdict: gone, smaller, remaining, larger or new."""
        return [place["where"] for place in self.places if place["verdict"] == verdict]

    @property
    def document(self) -> dict[str, Any]:
        """The audit after the repair, with what changed under `repair` and how under `repaired_by`."""
        return {**self.after.document, "repair": self.places, "repaired_by": self.about}

    @property
    def sentence(self) -> str:
        """What became of the places, in words."""
        return became([place["verdict"] for place in self.places])

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write the page, whole or not at all."""
        from miscal.page.html import write_html

        write_html(self.document, path)

    def to_json(self, path: str | PathLike[str]) -> None:
        """Write the JSON, whole or not at all."""
        from miscal.page.json import write_json

        write_json(self.document, path)

    def _repr_html_(self) -> str:
        return str(import_module("miscal.page.html").audit_html(self.document))

    def __repr__(self) -> str:
        return f"{self.about['name']}, on {self.about['rows']:,} rows that it has not seen. {self.told(20)}"

    def told(self, most: int) -> str:
        """The sentence and a line a place, at most so many: what a repair leaves or makes before what it mends."""
        places = sorted(self.places, key=lambda place: LEFT_FIRST.index(place["verdict"]))
        with showing(self.predictions.response):
            lines = [
                f"  {place['verdict']:<9} {visible(place['where'])}: {points(place['before']['gap'])} before, "
                f"{points(place['after']['gap'])} after"
                for place in places[:most]
            ]
        more = [f"  ... and {len(places) - most} more"] if len(places) > most else []
        return "\n".join([self.sentence, *lines, *more])


def repair(
    predictions: Predictions,
    recalibrator: Recalibrator,
    *,
    repaired: Any = None,
    by: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    target: str | int = "auto",
    level: float = 0.05,
    effort: str = "normal",
    random_state: int = 0,
    source: str | None = None,
    described: dict[str, Any] | None = None,
) -> Repair:
    """Audit rows before and after a repair and say what became of every finding.

    A place is *gone* when after the repair its gap is within noise (simultaneously over all places that the audit
    tested) and at most half of what it was; *smaller* or *larger* when its size changed by a tenth or more; otherwise
    *remaining*. Places that only the audit after the repair finds are *new*, unless their rows were off the same way
    and at least as far before. The whole table is judged by the walk over the score as well: it is gone only if the
    second audit does not find it.

    Parameters
    ----------
    predictions : rows that neither the model nor the recalibrator was fitted on, with their columns
    recalibrator : fitted; one from `choose` brings its name, its reason and its table of candidates
    repaired : probabilities after the repair, where they are known already (cross-fitting)
    by, ignore, target, level, effort, random_state : as in `miscal.audit`

    Examples
    --------
    >>> import numpy as np, miscal
    >>> from miscal.recalibrate import GroupWise, PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> p, group = rng.beta(2, 3, 8000), rng.choice(["a", "b"], 8000)
    >>> y = (rng.random(8000) < np.where(group == "a", 0.5 * p, p)).astype(int)
    >>> fit, test = np.arange(4000), np.arange(4000, 8000)
    >>> fitted = GroupWise(PlattScaling()).fit(p[fit], y[fit], {"group": group[fit]})
    >>> unseen = miscal.Predictions(y[test], p[test], columns={"group": group[test]})
    >>> "group a" in miscal.repair(unseen, fitted, effort="quick").where("gone")
    True
    """
    if not isinstance(predictions, Predictions):
        raise refusal("must be Predictions", where="'predictions'", got=f"got {type(predictions).__name__}")
    recalibrated = predictions.with_probability(applied(recalibrator, predictions) if repaired is None else repaired)
    options: Any = {
        "by": by, "ignore": ignore, "target": target, "level": level, "effort": effort, "random_state": random_state,
        "source": source,
    }  # fmt: skip
    before, after = audit(predictions, **options), audit(recalibrated, **options)
    for each in (before, after):
        each.document["data"].update(described or {})
    places = _places(before, after, predictions, recalibrated, target)
    return Repair(before, after, places, _about(recalibrator, before, after, predictions, recalibrated), recalibrated)


def applied(model: Recalibrator, rows: Predictions) -> np.ndarray:
    """The repaired probabilities of rows, or their repaired means."""
    columns = rows.columns if model.uses_columns else None
    return (model.predict if model.is_mean() else model.predict_proba)(rows.probability, columns)


def _places(
    before: Audit, after: Audit, predictions: Predictions, recalibrated: Predictions, target: str | int
) -> list[dict[str, Any]]:
    settings = before.document["settings"]
    tests, level = max(int(settings["tests"]), 1), float(settings["level"])
    classes = {f"class {name}": k for k, name in enumerate(predictions.classes)}

    @cache
    def compared(in_which: Predictions, scope: str) -> Rows:
        own = pair(in_which, classes[scope] if scope else target)
        return Rows(own, own, choose_null(own, "bernoulli"))

    def judge(finding: Finding, judged: Predictions, found_in: Predictions) -> dict[str, Any]:
        return _judged(compared(judged, finding.scope), np.flatnonzero(rows_of(finding, found_in)), tests, level)

    again = {finding.where: finding for finding in flat(after.findings)}
    found = []
    for finding in flat(before.findings):
        if finding.real:
            two = judge(finding, recalibrated, predictions)
            found.append(_matched(finding, again.get(finding.where), two))
    known = {place["where"] for place in found}
    for finding in flat(after.findings):
        if finding.real and finding.where not in known:
            one = judge(finding, predictions, recalibrated)
            found.append(_place(finding, _late_verdict(one, finding), one, _numbers(finding)))
    return found


def _matched(finding: Finding, again: Finding | None, two: dict[str, Any]) -> dict[str, Any]:
    one, whole = _numbers(finding), finding.whole
    still = bool(again is not None and again.real)
    if whole and again is not None:
        two["p_value"] = again.p_value
    within = two["interval"][0] <= 0.0 <= two["interval"][1]
    return _place(finding, _verdict(one["gap"], two["gap"], within, still, whole), one, two)


def _verdict(before: float, after: float, within: bool, still: bool, whole: bool) -> str:
    """One word for what became of a gap."""
    if whole:  # scores may be wrong along the way although the averages agree
        if not still:
            return "gone" if within else "smaller"
        return "smaller" if abs(after) <= (1.0 - CLEAR) * abs(before) else "remaining"
    if within and abs(after) <= HALVED * abs(before):
        return "gone"
    if abs(after) <= (1.0 - CLEAR) * abs(before):
        return "smaller"
    return "larger" if abs(after) >= (1.0 + CLEAR) * abs(before) else "remaining"


def _late_verdict(before: dict[str, Any], finding: Finding) -> str:
    """New, unless the same rows were off the same way and at least as far before, inside a place with other words."""
    if before["gap"] * finding.gap <= 0 or abs(finding.gap) > abs(before["gap"]):
        return "new"
    low, high = before["interval"]
    return "new" if low <= 0.0 <= high else _verdict(before["gap"], finding.gap, False, True, False)


def _place(finding: Finding, verdict: str, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {"where": finding.where, "kind": finding.kind, "verdict": verdict, "before": before, "after": after}


def _numbers(finding: Finding) -> dict[str, Any]:
    names = ("rows", "predicted", "observed", "gap", "p_value")
    return {**{name: getattr(finding, name) for name in names}, "interval": list(finding.interval)}


def _judged(rows: Rows, inside: np.ndarray, tests: int, level: float) -> dict[str, Any]:
    """Gap, interval and p-value of some rows of a set of predictions, as the audit would give them."""
    compared, units = rows.raw, rows.raw.units
    rows = replace(rows, spread=1.0 if compared.cluster is None else cluster_spread(compared.take(inside)))
    sums = sums_of(compared, inside)
    weight = float(sums.weight[0])
    p_value = rows.exact_p(compared, inside, float(rows.p_values(sums)[0]))
    return {
        "rows": int(sums.rows[0]),
        "predicted": units.back(float(sums.predicted[0]) / weight),
        "observed": units.back(float(sums.observed[0]) / weight),
        "gap": float(sums.off[0]) / weight * units.scale,
        "p_value": min(1.0, p_value * tests),
        "interval": [float(end[0]) * units.scale for end in rows.gap_intervals(sums, tests, level)],
    }


def _about(
    recalibrator: Recalibrator, before: Audit, after: Audit, predictions: Predictions, recalibrated: Predictions
) -> dict[str, Any]:
    table = getattr(recalibrator, "table", None)
    one, two = before.score, after.score
    change, error = _loss_change(predictions, recalibrated)
    loss = "log_loss" if predictions.response == "binary" else "deviance"
    return {
        "name": getattr(recalibrator, "name", type(recalibrator).__name__),
        "method": repr(recalibrator),
        "reason": getattr(recalibrator, "reason", None),
        "keeps_ranking": bool(recalibrator.keeps_ranking),
        "fitted_rows": int(recalibrator.n_rows_),
        "rows": predictions.rows,
        "score": {name: [one[name], two[name]] for name in SCORES if name in one and name in two},
        f"{loss}_change": {"value": change, "interval": [change - 1.96 * error, change + 1.96 * error]},
        "candidates": None if table is None else table.to_dict(),
    }


def _loss_change(predictions: Predictions, recalibrated: Predictions) -> tuple[float, float]:
    """Mean of log loss (of means: deviance) after minus before, paired over rows (clusters), and its standard error."""
    if predictions.response != "binary":
        losses = [Sample.of(each, Columns({})).losses(pairs(each.probability)) for each in (predictions, recalibrated)]
        return difference(losses[1], losses[0], predictions)
    losses = []
    for each in (predictions, recalibrated):
        own = each.probability if each.n_classes > 2 else np.stack([1.0 - each.probability, each.probability], axis=1)
        with np.errstate(divide="ignore"):
            losses.append(-np.log(own[np.arange(each.rows), each.outcome.astype(np.int64)]))
    return difference(losses[1], losses[0], predictions)

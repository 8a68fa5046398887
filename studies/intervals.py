"""Do intervals cover the truth far from calibration, and with clusters? Do those of cells agree with their p-values?

    python -m studies.intervals [--quick]

"rare": predictions near .02 where .30 happens; "slope": log-odds twice too extreme; "calibrated". Each metric's true
value is that of the probabilities the outcomes came from. An interval at 95% must cover in at least 927 of 1,000.
"clusters": 30 clusters of 50 rows, calibrated on average, correlation .2; "disagree" counts tables in which some cell's
interval excludes 0 though its adjusted p-value is above 5%, or the other way round.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

import miscal
from miscal.aggregate.in_memory import kuiper_statistic
from miscal.data.target import select_target
from miscal.metrics.score_errors import smooth_error
from studies import harness

SETS = 1000
METRICS = ("expected", "kuiper", "smooth", "variable", "field", "multicalibration", "ratio")


def draw(kind: str, seed: int) -> tuple[miscal.Predictions, np.ndarray]:
    """A table and the probabilities its outcomes came from."""
    rng = np.random.default_rng([seed, 62])
    rows = 1500
    p = rng.beta(2.0, 98.0, rows) if kind == "rare" else rng.beta(2.0, 3.0, rows)
    odds = np.log(p) - np.log1p(-p)
    shift = {"rare": 3.1, "slope": -0.5 * odds}.get(kind, 0.0)
    truth = 1.0 / (1.0 + np.exp(-(odds + shift)))
    columns: dict[str, Any] = {"age": rng.uniform(20, 80, rows), "region": rng.integers(0, 10, rows).astype(str)}
    cluster = None
    if kind == "clusters":
        from scipy.special import ndtri

        cluster = np.repeat(np.arange(30), rows // 30)
        y = np.sqrt(0.35) * rng.normal(size=30)[cluster] + np.sqrt(0.65) * rng.normal(size=rows) < ndtri(truth)
    else:
        y = rng.random(rows) < truth
    return miscal.Predictions(y.astype(int), p, columns=columns, cluster=cluster), truth


def one(kind: str, seed: int) -> dict[str, bool]:
    """Which intervals cover, and whether cells agree with their tests."""
    predictions, truth = draw(kind, seed)
    compared = replace(select_target(predictions, "auto"), observed=np.asarray(truth, dtype=np.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", miscal.MiscalWarning)
        score = miscal.by_score(predictions)
        variable, field = miscal.by_variable(predictions, "age", curve=False), miscal.by_field(predictions, "region")
        multi = miscal.by_subpopulation(predictions, subpopulations=20, simulations=99)
    extra, members = score.extra, predictions.columns
    bins = np.searchsorted(score.table["low"][1:], compared.predicted, side="left")
    made = {
        "expected": _covers(_by_cells(bins, compared), score.interval),
        "kuiper": _covers(kuiper_statistic(compared), extra["kuiper_noise"]["interval"]),
        "smooth": _covers(smooth_error(compared), extra["smooth_noise"]["interval"]),
        "variable": _covers(_by_edges(variable, members["age"].values, compared), variable.interval),
        "field": _covers(_by_levels(members["region"], compared), field.interval),
        "multicalibration": _covers(_multi(predictions, truth), multi.interval),
        "ratio": _covers(compared.predicted.sum() / truth.sum(), extra["ratio"]["interval"]),
    }
    for name, result in (("score cells", score), ("variable cells", variable), ("field cells", field)):
        table = result.table
        outside = (table["gap_low"] > 0) | (table["gap_high"] < 0)
        made[name + " disagree"] = bool((outside != (table["p_adjusted"] <= 0.05)).any())
        made[name + " exclude 0"] = bool(outside.any())
    return made


def _covers(value: float, interval: Any) -> bool:
    low, high = interval
    return bool(low - 1e-12 <= value <= high + 1e-12) if np.isfinite(low) else True


def _by_cells(codes: np.ndarray, compared: Any) -> float:
    return float(np.abs(np.bincount(codes, compared.predicted - compared.observed)).sum() / compared.rows)


def _by_edges(result: Any, values: np.ndarray, compared: Any) -> float:
    edges = result.extra["tally"].cells.edges
    return _by_cells(np.clip(np.searchsorted(edges, values, side="left") - 1, 0, edges.size - 2), compared)


def _by_levels(column: Any, compared: Any) -> float:
    return _by_cells(np.unique(np.asarray(column.values), return_inverse=True)[1], compared)


def _multi(predictions: miscal.Predictions, truth: np.ndarray) -> float:
    """M of the same subpopulations with outcomes replaced by their probabilities."""
    from miscal.aggregate.subpopulations import ordered
    from miscal.metrics.subpopulation_errors import SubpopulationRequest
    from miscal.stats.maxima import deviations

    rows = ordered(select_target(predictions, "auto"))
    names = list(predictions.columns)
    asked = SubpopulationRequest(predictions.columns, names, predictions.rows, None, None, 10, 5.0, 0)
    found = asked.search(rows, 20)
    unit, widths = deviations(found.stats), []
    residual = (truth - predictions.probability)[rows.order]
    for k in range(found.stats.shape[0]):
        inside = np.sort(found.members(k))
        walk = np.append(0.0, np.cumsum(residual[inside]))
        widths.append((walk.max() - walk.min()) / inside.size * unit[0] / unit[k])
    return float(max(widths))


def row(kind: str, sets: int) -> dict[str, Any]:
    """Counts of one kind of data."""
    found = [one(kind, seed) for seed in harness.progress(range(sets), kind)]
    made: dict[str, Any] = {"data": kind, "sets": sets}
    made |= {name: sum(each[name] for each in found) for name in found[0]}
    made["least"] = harness.least_hits(sets, 0.95)
    return made


def study(quick: bool = False, sets: int = SETS) -> tuple[dict[str, Any], str]:
    """All kinds of data."""
    sets = 1 if quick else sets
    rows = [row(kind, sets) for kind in ("calibrated", "rare", "slope", "clusters")]
    covering = {"data": "data", **{name: name for name in METRICS}, "least": "at least"}
    cells = {name: name for name in rows[0] if "cells" in name}
    text = "\n\n".join([
        f"# Intervals\n\nIntervals at 95% that cover the true value, in {sets} tables of each kind.",
        harness.markdown(rows, covering),
        "Tables in which some cell's interval and adjusted p-value disagree, or exclude 0.",
        harness.markdown(rows, {"data": "data", **cells}),
    ])  # fmt: skip
    return {"rows": rows}, text


if __name__ == "__main__":
    harness.main("intervals", study)

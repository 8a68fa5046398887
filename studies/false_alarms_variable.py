"""Does `by_variable` alarm at most as often as it says, and does `rank_variables` keep its level over many columns?

Calibrated data, several kinds of scores and of variables. The alarm is a p-value of at most 5%: of the walk along the
variable, and of the smallest Holm-adjusted p-value over twenty columns. Coverage: how often the simultaneous band of
the gap curve holds 0 along the whole grid.

    python -m studies.false_alarms_variable [--quick]
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import miscal
from miscal import datasets, metrics
from studies.harness import alarms, main, markdown, progress
from studies.simulated import clustered, weighted

SCORES: dict[str, dict[str, Any]] = {
    "plain": {"make": lambda n, seed: datasets.calibrated(n, random_state=seed)},
    "scores tied to .1": {"make": lambda n, seed: datasets.calibrated(n, step=0.1, random_state=seed)},
    "rate .01": {"make": lambda n, seed: datasets.calibrated(n, rate=0.01, random_state=seed)},
    "rate .001": {"make": lambda n, seed: datasets.calibrated(n, rate=0.001, random_state=seed)},
    "lognormal weights": {"make": lambda n, seed: weighted(n, random_state=seed)},
    "five rows a patient": {"make": lambda n, seed: clustered(n, random_state=seed)},
}
ROWS = 2000


def variables(rng: np.random.Generator, n: int, score: np.ndarray) -> dict[str, np.ndarray]:
    """Continuous, whole, tied, with missing values, and one that is nearly the score."""
    missing = rng.normal(size=n)
    missing[rng.random(n) < 0.2] = np.nan
    return {
        "normal": rng.normal(size=n),
        "age": rng.integers(18, 90, n),
        "mostly zero": np.where(rng.random(n) < 0.95, 0.0, rng.lognormal(size=n)),
        "some missing": missing,
        "like the score": score + 0.05 * rng.normal(size=n),
    }


def one(kind: str, seed: int) -> dict[str, float]:
    """P-values of every variable on one calibrated data set."""
    made = SCORES[kind]["make"](ROWS, seed)
    base = made.predictions()
    rng = np.random.default_rng([seed, 1])
    columns = variables(rng, base.rows, base.probability)
    p = miscal.Predictions(base.outcome, base.probability, weight=base.weight, cluster=base.cluster, columns=columns)
    return {name: miscal.by_variable(p, name, curve=False, random_state=seed).p_value for name in columns}


def ranking(seed: int) -> float:
    """The smallest adjusted p-value over twenty columns."""
    made = datasets.calibrated(ROWS, random_state=seed)
    rng = np.random.default_rng([seed, 2])
    frame = {f"v{k}": rng.normal(size=ROWS) if k % 2 else rng.integers(0, 50, ROWS) for k in range(20)}
    return float(metrics.rank_variables(made.y_true, made.y_prob, frame)["p_value"].min())


def covered(seed: int) -> float:
    """0 when the simultaneous band leaves out the true gap, 0, somewhere: a false alarm of the band."""
    made = datasets.calibrated(ROWS, random_state=seed)
    v = np.random.default_rng([seed, 3]).uniform(size=ROWS)
    curve = metrics.variable_calibration_curve(made.y_true, made.y_prob, v, band="simultaneous", grid=100)
    inside = (curve.gap_low <= 0) & (curve.gap_high >= 0)
    return 1.0 if bool(inside.all()) else 0.0


def run(trials: int) -> list[dict[str, Any]]:
    """One row for each kind of score and variable."""
    rows = []
    for kind in SCORES:
        found = [one(kind, seed) for seed in progress(range(trials), kind)]
        rows += [{"scores": kind, "variable": name, **alarms([each[name] for each in found])} for name in found[0]]
    rows.append({"scores": "plain", "variable": "20 columns ranked", **alarms([ranking(s) for s in range(trials)])})
    rows.append(
        {"scores": "plain", "variable": "simultaneous band", **alarms([covered(s) for s in range(min(trials, 300))])}
    )
    return rows


def study(quick: bool = False, sets: int = 1000) -> tuple[dict[str, Any], str]:
    """Every kind of score and variable."""
    trials = 2 if quick else sets
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", miscal.MiscalWarning)
        rows = run(trials)
    text = f"# False alarms along a variable\n\n{trials} calibrated data sets of {ROWS} rows each.\n\n" + markdown(rows)
    return {"trials": trials, "rows": ROWS, "cells": rows}, text


if __name__ == "__main__":
    main("false_alarms_variable", study)

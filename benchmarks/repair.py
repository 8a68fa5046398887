"""A repair from end to end, `miscal recalibrate FILE`: its CPU time beside one fit of LightGBM on the same rows.

    python benchmarks/repair.py [--quick]

The command reads a table, judges every candidate on unseen rows, fits the one that it takes on all rows, audits before
and after, and writes table, model and page. The peer only fits: defaults of LightGBM on all columns and the logit of
the score. Three of the columns carry an error of the score.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from pathlib import Path

import harness
import numpy as np
import pandas as pd

SIZES = {15_000: 12, 70_000: 18}  # rows, and columns beside outcome and score
QUICK = {400: 5}


def drawn(rows: int, columns: int) -> pd.DataFrame:
    """Two thirds of the columns are numbers, the others categories of 5 to 60 levels."""
    rng = np.random.default_rng(rows)
    numbers = {f"number_{k}": rng.normal(size=rows) for k in range(columns - columns // 3)}
    levels = np.linspace(5, 60, columns // 3).astype(int)
    fields = {f"field_{k}": rng.integers(0, size, rows).astype(str) for k, size in enumerate(levels)}
    logit = rng.normal(-1.0, 1.2, rows)
    off = 0.6 * (numbers["number_0"] > 1.0) - 0.5 * (fields["field_0"] == "1") + 0.4 * np.sin(numbers["number_1"])
    y = rng.random(rows) < 1 / (1 + np.exp(-logit - off))
    return pd.DataFrame({"y": y.astype(int), "p": 1 / (1 + np.exp(-logit)), **numbers, **fields})


def command(frame: pd.DataFrame) -> float:
    """CPU seconds of the whole command, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        frame.to_parquet(Path(name) / "table.parquet")
        words = ["-m", "miscal", "recalibrate", "table.parquet", "--outcome", "y", "--probability", "p"]
        return harness.process_seconds(sys.executable, words, name)


def plain(frame: pd.DataFrame) -> float:
    """CPU seconds of five lines of LightGBM."""
    import lightgbm

    words = frame.select_dtypes(exclude="number").columns
    X = frame.drop(columns=["y", "p"]).assign(logit=np.log(frame.p / (1 - frame.p)))
    X = X.assign(**{name: X[name].astype("category") for name in words})
    start = time.process_time()
    lightgbm.LGBMClassifier(verbose=-1, n_jobs=1).fit(X, frame.y)
    return time.process_time() - start


def rows(quick: bool = False) -> list[dict]:
    found = []
    for size, columns in (QUICK if quick else SIZES).items():
        frame = drawn(size, columns)
        ours, theirs = command(frame), plain(frame)
        found.append({
            "operation": f"repair, {columns} columns", "size": len(frame), "ours_cpu_s": ours,
            "peer": "LightGBM, one fit", "peer_cpu_s": theirs, "ratio": theirs / ours, "goal": math.nan,
            "note": "candidates judged on unseen rows, two audits and a page against one fit",
        })  # fmt: skip
    return found


if __name__ == "__main__":
    harness.main("repair", rows)

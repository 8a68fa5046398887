"""Run every recalibrator that has a formula where it ships to, and print what was run where and how far it is off.

    python scripts/run_table.py [--write]         # with --write the table is put in docs/how-to/run.md

One line a place: its version, how many fitted maps it ran (two classes; score alone and with columns), and the largest
difference from `predict_proba` over scores that maps find hard, missing values and unseen levels.
"""

from __future__ import annotations

import contextlib
import platform
import sqlite3
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from miscal import MiscalError, recalibrate  # noqa: E402
from tests import databases  # noqa: E402
from tests.laws.recalibrators import example  # noqa: E402

PAGE = ROOT / "docs" / "how-to" / "run.md"
HARD = [0.0, 1.0, 0.5, 5e-324, 1e-310, 1e-300, 1e-13, 1e-9, 1 - 1e-9, np.nextafter(1.0, 0.0)]


def fitted() -> list[Any]:
    """Recalibrators fitted to some rows, those that have a formula."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 2, 2000)
    X = {"age": rng.uniform(20, 80, 2000), "state": rng.choice(["a", "it's"], 2000)}
    y = (rng.random(2000) < np.where(X["state"] == "a", p**1.5, p)).astype(int)
    made = []
    for name in sorted(recalibrate.kinds()):
        model = example(getattr(recalibrate, name))
        if "binary" not in model.responses:
            continue
        model.fit(p, y, X)
        with contextlib.suppress(MiscalError):
            model.formula()
            made.append(model)
    return made


def asked() -> tuple[np.ndarray, dict[str, Any]]:
    rng = np.random.default_rng(1)
    p = np.concatenate([HARD, rng.beta(0.5, 0.5, 400)])
    age = np.where(rng.random(p.size) < 0.1, np.nan, rng.uniform(0, 100, p.size))
    return p, {"age": age, "state": rng.choice(np.array(["a", "it's", "new", None], object), p.size)}


def off_in_sql(models: list[Any], dialect: str, run: Any) -> tuple[int, float]:
    p, X = asked()
    off = []
    for model in models:
        try:
            text = model.to_sql("p", dialect=dialect)
        except MiscalError:  # a network
            continue
        off.append(np.abs(run({"p": p, **X}, [text])[:, 0] - model.predict_proba(p, X)[:, 1]).max())
    return len(off), float(np.max(off))


def off_in_onnx(models: list[Any], dtype: str) -> tuple[int, float]:
    """Against `predict_proba` of the scores as they were, before single precision rounds them."""
    import onnxruntime

    p, X = asked()
    words = np.array([each or "" for each in X["state"]], object)
    off = []
    for model in models:
        session = onnxruntime.InferenceSession(model.to_onnx(dtype=dtype), providers=["CPUExecutionProvider"])
        given = {"probability": p.astype(dtype), "age": X["age"], "state": words}
        found = session.run(None, {one.name: given[one.name] for one in session.get_inputs()})[0][:, 1]
        off.append(np.abs(found - model.predict_proba(p, X)[:, 1]).max())
    return len(off), float(np.max(off))


def lines() -> list[str]:
    models = fitted()
    found = [
        (f"DuckDB {version('duckdb')}", off_in_sql(models, "duckdb", databases.in_duckdb)),
        (f"SQLite {sqlite3.sqlite_version}", off_in_sql(models, "sqlite", databases.in_sqlite)),
    ]
    with contextlib.suppress(pytest.skip.Exception), databases.postgres() as run:
        told = subprocess.run(
            [databases.FOLDERS[0] / "postgres", "--version"], capture_output=True, text=True, check=True
        )
        found.append((f"PostgreSQL {told.stdout.split()[2]}", off_in_sql(models, "postgres", run)))
    with contextlib.suppress(pytest.skip.Exception), databases.spark() as run:
        found.append((f"Spark {version('pyspark')}", off_in_sql(models, "spark", run)))
    runtime = version("onnxruntime")
    found += [(f"onnxruntime {runtime}, {dtype}", off_in_onnx(models, dtype)) for dtype in ("float64", "float32")]
    head = ["| place | fitted maps run | largest difference |", "|---|---|---|"]
    body = [f"| {place} | {count} | {off:.1e} |" for place, (count, off) in found]
    unrun = "| BigQuery, Snowflake | 0 | written and read by a parser, not run |"
    return [
        *head,
        *body,
        unrun,
        "",
        f"Python {platform.python_version()}, numpy {version('numpy')}, {platform.machine()}.",
    ]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    text = "\n".join(lines())
    print(text)
    if "--write" in sys.argv:
        PAGE.write_text(text + "\n", encoding="utf-8")

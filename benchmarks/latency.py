"""One row at a time: microseconds of `apply_one`, and of reading a model from JSON.

Goals: 20 microseconds for maps of the score of two classes, 100 for other formulas of two classes; what has no formula
is a table of one row. There is no peer: others have no way for one row but such a table, which is timed beside it
(`predict_proba`).
"""

from __future__ import annotations

import time
import warnings
from importlib.util import find_spec
from typing import Any

import harness  # before numpy: one thread
import numpy as np
from sklearn.tree import DecisionTreeClassifier

from miscal import MiscalError, recalibrate
from miscal.recalibrate import Recalibrator

warnings.filterwarnings("ignore")
SCORE, OTHER, TABLE = 20.0, 100.0, float("inf")


def _models(rows: int) -> dict[str, tuple[Recalibrator, Any, dict[str, Any] | None]]:
    """Fitted recalibrators, each with the probability and the columns of one row."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 4, rows)
    X = {"age": rng.integers(20, 80, rows), "state": rng.choice([f"s{i}" for i in range(50)], rows)}
    y = (rng.random(rows) < np.where(X["age"] < 40, p**1.5, p)).astype(int)
    row = {"age": 33, "state": "s7"}
    names = ["Identity", "PlattScaling", "TemperatureScaling", "BetaCalibration", "HistogramBinning", "ScalingBinning"]
    names += ["IsotonicCalibration", "IsotonicLinePlotScaling", "VectorScaling", "DirichletCalibration"]
    names += ["StructuredScaling"]
    made: dict[str, tuple[Recalibrator, Any, dict[str, Any] | None]] = {}
    for each in [*(getattr(recalibrate, name)() for name in names), recalibrate.KernelCalibration(),
                 recalibrate.SamplingCorrection(rate=0.1)]:  # fmt: skip
        made[type(each).__name__] = (each.fit(p, y), 0.3, None)
    beside: list[Recalibrator] = [
        recalibrate.VariableTree(), recalibrate.AugmentedLogistic(), recalibrate.AugmentedBeta(degree=2),
        recalibrate.GroupWise(recalibrate.PlattScaling(), columns=["state"]),
        recalibrate.MulticalibrationBoost(), recalibrate.LocalRecalibration(),
    ]  # fmt: skip
    beside.append(recalibrate.Augmentation(DecisionTreeClassifier(max_depth=4, random_state=0)))
    beside.append(recalibrate.Chain([recalibrate.SamplingCorrection(rate=0.5), recalibrate.VariableTree()]))
    beside.append(recalibrate.Blend([recalibrate.BetaCalibration(), recalibrate.VariableTree()]))
    if find_spec("torch") is not None:
        beside.append(recalibrate.NeuralCalibration(epochs=2, progress=False))
    for each in beside:
        made[type(each).__name__] = (each.fit(p, y, X), 0.3, row)
    many = 20 * rows  # a bin then holds some ten thousand rows to compare with
    q = rng.beta(2, 4, many)
    Z = {"age": rng.integers(20, 80, many), "state": rng.choice([f"s{i}" for i in range(50)], many)}
    large = recalibrate.LocalRecalibration().fit(q, (rng.random(many) < q).astype(int), Z)
    made[f"LocalRecalibration, {many:,} rows"] = (large, 0.3, row)
    several = rng.dirichlet(np.ones(10), rows)
    label = np.array([rng.choice(10, p=q) for q in several[:2000]])
    for name in (
        "TemperatureScaling",
        "IsotonicCalibration",
        "VectorScaling",
        "DirichletCalibration",
        "StructuredScaling",
    ):
        each = getattr(recalibrate, name)().fit(several[:2000], label)
        made[f"{name}, 10 classes"] = (each, several[0].tolist(), None)
    beside = [
        recalibrate.VariableTree(), recalibrate.AugmentedLogistic(), recalibrate.MulticalibrationBoost(rounds=1),
        recalibrate.GroupWise(recalibrate.TemperatureScaling(), columns=["state"]), recalibrate.LocalRecalibration(),
    ]  # fmt: skip
    some = {name: values[:2000] for name, values in X.items()}
    for each in beside:
        made[f"{type(each).__name__}, 10 classes"] = (each.fit(several[:2000], label, some), several[0].tolist(), row)
    return made


def _goal(model: Recalibrator, row: dict[str, Any] | None) -> float:
    if model.n_classes_ > 2:
        return TABLE
    try:
        model.formula()
    except MiscalError:
        return TABLE
    return SCORE if row is None else OTHER


def microseconds(call: Any, seconds: float = 0.05, rounds: int = 5) -> float:
    """Least CPU microseconds a call over a few rounds of many calls."""
    call()
    start = time.process_time()
    call()
    many = max(1, int(seconds / max(time.process_time() - start, 1e-6)))
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(many):
            call()
        best = min(best, (time.process_time() - start) / many)
    return 1e6 * best


def rows(quick: bool = False) -> list[dict[str, Any]]:
    """One line a recalibrator."""
    found = []
    for name, (model, p, row) in _models(200 if quick else 5000).items():
        goal = _goal(model, row)
        rounds, seconds = (1, 0.0) if quick else (5, 0.05)
        own = microseconds(lambda m=model, p=p, row=row: m.apply_one(p, row), seconds, rounds)
        table = None if row is None else {key: [value] for key, value in row.items()}
        slow = microseconds(lambda m=model, p=p, table=table: m.predict_proba([p], table), seconds, rounds)
        text = "" if isinstance(model, recalibrate.Augmentation) else model.to_json()
        load = microseconds(lambda text=text: Recalibrator.from_json(text), seconds, rounds) if text else float("nan")
        found.append(
            {
                "operation": f"apply_one {name}", "size": 1, "ours_cpu_s": own * 1e-6, "peer": "table of one row",
                "peer_cpu_s": slow * 1e-6, "ratio": slow / own, "goal": f"{goal:.0f} us" if goal < TABLE else "",
                "note": f"{own:.1f} us, {'kept' if own <= goal else 'MISSED'}; from JSON {load:,.0f} us, "
                f"{len(text):,} bytes",
            }
        )  # fmt: skip
    return found


def table(found: list[dict[str, Any]]) -> str:
    """As markdown."""
    lines = [
        "| recalibrator | one row, us | goal | kept | table of one row, us | from JSON |",
        "|---|---|---|---|---|---|",
    ]
    for row in found:
        own, slow = 1e6 * row["ours_cpu_s"], 1e6 * row["peer_cpu_s"]
        kept = "" if not row["goal"] else ("yes" if "kept" in row["note"] else "NO")
        load = row["note"].split("from JSON ")[1].replace("nan us, 0 bytes", "no JSON")
        name = row["operation"].removeprefix("apply_one ")
        lines.append(f"| {name} | {own:.1f} | {row['goal']} | {kept} | {slow:.0f} | {load} |")
    return "\n".join(lines)


if __name__ == "__main__":
    harness.main("latency", rows, table)

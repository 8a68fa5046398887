"""Print which recalibrator ships in which way: `python scripts/shipping_table.py [--write]`.

With --write the table is put in docs/how-to/shipping.md.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from miscal import MiscalError, recalibrate
from miscal.recalibrate import Recalibrator, to_onnx, to_sql
from miscal.recalibrate.export.beside import beside_of
from miscal.recalibrate.export.beside_classes import several_of
from miscal.recalibrate.export.formula import formula

MODELS: dict[str, Callable[[], Recalibrator]] = {
    "Blend": lambda: recalibrate.Blend([recalibrate.PlattScaling(), recalibrate.VariableTree()]),
    "Chain": lambda: recalibrate.Chain([recalibrate.PlattScaling(), recalibrate.VariableTree()]),
    "GroupWise": lambda: recalibrate.GroupWise(recalibrate.PlattScaling(), columns=["state"]),
    "MulticalibrationBoost": lambda: recalibrate.MulticalibrationBoost(rounds=1),
    "NeuralCalibration": lambda: recalibrate.NeuralCalibration(hidden=(4,), epochs=2, progress=False),
    "SamplingCorrection": lambda: recalibrate.SamplingCorrection(rate=0.5),
}
NOT_RECALIBRATORS = {"Recalibrator", "RecalibratedClassifier"}
WAYS = ["JSON", "one row", "SQL", "ONNX", "fit in parts, on Spark", "apply in parts, on Spark"]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "shipping.md"


def names() -> list[str]:
    """Every recalibrator."""
    found = [name for name in recalibrate.__all__ if name not in NOT_RECALIBRATORS]
    return [name for name in found if isinstance(getattr(recalibrate, name), type)]


def fitted(name: str, classes: int) -> tuple[Recalibrator, np.ndarray, dict[str, Any]] | None:
    """A recalibrator fitted to a few rows; None where it is not for so many classes."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(classes), 400)
    y = (p.cumsum(axis=1) < rng.random((400, 1))).sum(axis=1)
    X = {"age": rng.uniform(20, 80, 400), "state": rng.choice(["a", "b"], 400)}
    given = p[:, 1] if classes == 2 else p
    try:
        return MODELS.get(name, getattr(recalibrate, name))().fit(given, y, X), given, X
    except MiscalError as error:
        if "two classes" not in str(error):
            raise
        return None


def works(call: Callable[[], Any]) -> bool:
    """Whether a way is open; only a refusal counts as closed."""
    try:
        return bool(call())
    except MiscalError:
        return False


def ways(name: str, classes: int) -> list[bool] | None:
    """Which of `WAYS` are open."""
    made = fitted(name, classes)
    if made is None:
        return None
    model, p, X = made
    columns: Any = "p" if classes == 2 else [f"p{k}" for k in range(classes)]

    def quick() -> bool:
        if classes > 2:
            return not model.uses_columns or several_of(model) is not None
        return beside_of(model) is not None if model.uses_columns else formula(model) is not None

    json = works(lambda: np.array_equal(Recalibrator.from_json(model.to_json()).predict_proba(p, X),
                                        model.predict_proba(p, X)))  # fmt: skip
    return [
        json, works(quick), works(lambda: to_sql(model, columns)), works(lambda: to_onnx(model)),
        classes == 2 and (not model.uses_columns or isinstance(model, recalibrate.GroupWise)), json,
    ]  # fmt: skip


def table() -> str:
    """As markdown."""
    lines = [f"| recalibrator | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|"]
    for name in names():
        two, more = ways(name, 2), ways(name, 3)
        assert two is not None
        cells = [("yes" if more is None or more[i] else "two classes") if open_ else "" for i, open_ in enumerate(two)]
        note = " (two classes)" if more is None else ""
        lines.append(f"| `{name}`{note} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    made = table()
    print(made)
    if "--write" in sys.argv:
        PAGE.write_text(made + "\n", encoding="utf-8")

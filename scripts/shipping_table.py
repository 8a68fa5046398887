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

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from miscal import MiscalError, recalibrate  # noqa: E402
from miscal.recalibrate import Recalibrator  # noqa: E402
from tests.laws.recalibrators import example  # noqa: E402

WAYS = ["JSON", "SQL", "ONNX", "fit in parts, on Spark", "apply in parts, on Spark"]
PAGE = ROOT / "docs" / "how-to" / "shipping.md"


def fitted(name: str, classes: int) -> tuple[Recalibrator, np.ndarray, dict[str, Any]] | None:
    """A recalibrator fitted to a few rows; None where it is not for so many classes."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(classes), 400)
    y = (p.cumsum(axis=1) < rng.random((400, 1))).sum(axis=1)
    X = {"floor": rng.integers(0, 3, 400), "state": rng.choice(["a", "b"], 400)}
    given = p[:, 1] if classes == 2 else p
    made = example(getattr(recalibrate, name))
    if (made.binary_only or "binary" not in made.responses) and classes > 2:
        return None
    if "binary" not in made.responses:
        return made.fit(given, y, X, response="count"), given, X
    return made.fit(given, y, X), given, X


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
    json = works(
        lambda: np.array_equal(Recalibrator.from_json(model.to_json()).map_checked(p, X), model.map_checked(p, X))
    )
    alone = not model.uses_columns or isinstance(model, recalibrate.GroupWise)
    in_parts = classes == 2 and alone and not model.predicts_means()
    return [json, works(lambda: model.to_sql(columns)), works(model.to_onnx), in_parts, json]


def table() -> str:
    """As markdown."""
    lines = [f"| recalibrator | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|"]
    for name in sorted(recalibrate.kinds()):
        two, more = ways(name, 2), ways(name, 3)
        assert two is not None
        cells = [("yes" if more is None or more[i] else "two classes") if open_ else "" for i, open_ in enumerate(two)]
        means = "binary" not in getattr(recalibrate, name).responses
        note = " (means)" if means else " (two classes)" if more is None else ""
        lines.append(f"| `{name}`{note} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    made = table()
    print(made)
    if "--write" in sys.argv:
        PAGE.write_text(made + "\n", encoding="utf-8")

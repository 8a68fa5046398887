"""Which numbers of an audit change with the order of the rows.

    python -m studies.row_order [--quick]

One table, unweighted, with whole-number and with other weights, audited in five orders; the largest difference of each
number to the first order. What is not in the table has the same bits in all of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import miscal

RESULTS = Path(__file__).parent / "results"
SCORE = ("expected", "kuiper", "smooth", "slope", "intercept", "auc", "brier", "log_loss", "predicted", "observed")


def table(rows: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, rows)
    made = {
        "y": (rng.random(rows) < np.clip(p + 0.01, 0, 1)).astype(int),
        "p": p,
        "g": rng.choice(list("abcdef"), rows),
    }
    made |= {"x": rng.normal(size=rows), "whole": rng.integers(1, 5, rows), "other": rng.uniform(0.5, 2, rows)}
    return pd.DataFrame(made)


def numbers(frame: pd.DataFrame, weight: str | None) -> dict[str, float]:
    ignore = [name for name in ("whole", "other") if name != weight]
    found = miscal.audit(frame, outcome="y", probability="p", weight=weight, ignore=ignore, effort="quick")
    made: dict[str, Any] = {name: found.score[name] for name in SCORE}
    for name in ("expected", "kuiper", "smooth"):
        details = found.score["details"][name]
        made |= {f"p-value of {name}": details["p_value"], f"noise floor of {name}": details["noise_floor"]}
    for kind in ("variable", "field"):
        result = found.document["sections"][kind][0]
        made |= {f"by {kind}": result["value"], f"p-value by {kind}": result["p_value"]}
    return made


def differences(orders: int = 5) -> dict[str, dict[str, float]]:
    made = {}
    for weight in (None, "whole", "other"):
        first = numbers(table(), weight)
        others = [numbers(table().sample(frac=1, random_state=seed), weight) for seed in range(1, orders)]
        worst = {name: max(abs(other[name] - value) for other in others) for name, value in first.items()}
        made[weight or "none"] = {name: float(size) for name, size in worst.items() if size > 0}
    return made


def main() -> None:
    quick = "--quick" in sys.argv
    record = differences(2 if quick else 5)
    names = list(dict.fromkeys(name for found in record.values() for name in found))
    head = "| largest difference between orders | no weights | whole-number weights | other weights |"
    lines = [head, "|---|---|---|---|"]
    for name in names:
        cells = [f"{found[name]:.1g}" if name in found else "same bits" for found in record.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    print("\n".join(lines))
    if not quick:
        (RESULTS / "row_order.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / "row_order.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()

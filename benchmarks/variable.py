"""The error along 20 columns, against the pandas `qcut` and `groupby` that a user would write."""

from __future__ import annotations

from typing import Any

import harness
import numpy as np


def rows(quick: bool = False) -> list[dict[str, Any]]:
    """VECE of 20 columns: integers, skewed and normal numbers."""
    import pandas as pd

    from miscal import metrics

    found = []
    for size in (10_000,) if quick else (100_000, 1_000_000):
        rng = np.random.default_rng(0)
        p = rng.beta(0.8, 1.6, size)
        y = (rng.random(size) < p).astype(np.int64)
        columns = {f"v{k}": _column(rng, k, size) for k in range(20)}
        frame = pd.DataFrame({**columns, "gap": p - y})

        def ours(y: Any = y, p: Any = p, columns: Any = columns) -> list[float]:
            return [metrics.variable_calibration_error(y, p, values) for values in columns.values()]

        def peer(frame: Any = frame, names: Any = tuple(columns)) -> list[float]:
            errors = []
            for name in names:
                cells = frame["gap"].groupby(pd.qcut(frame[name], 10, duplicates="drop"), observed=True).agg(["sum"])
                errors.append(float(cells["sum"].abs().sum() / len(frame)))
            return errors

        assert np.allclose(ours(), peer(), rtol=0, atol=1e-9)
        best = harness.timed({"miscal": ours, "pandas": peer}, repeats=1 if quick else 2)
        mine, theirs = best["miscal"]["cpu_s"], best["pandas"]["cpu_s"]
        found.append(
            {
                "operation": "variable error, 20 columns",
                "size": size,
                "ours_cpu_s": mine,
                "peer": "pandas qcut + groupby",
                "peer_cpu_s": theirs,
                "ratio": theirs / mine,
                "goal": 10 if size >= 1_000_000 else None,
                "note": "",
            }
        )
    return found


def _column(rng: np.random.Generator, k: int, size: int) -> np.ndarray:
    if k % 3 == 0:
        return rng.integers(18, 90, size)
    return rng.lognormal(size=size) if k % 3 == 1 else rng.normal(size=size)


if __name__ == "__main__":
    harness.main("variable", rows)

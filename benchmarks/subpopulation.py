"""A thousand subpopulations beside MCGrad: `python benchmarks/subpopulation.py [--quick]` in the peers' environment.

Ten covariates (four continuous, three of 80 values, two of two, one geometric) and weights. MCGrad measures 1,000
segments that are crosses of up to three columns, ours 1,000 paths' subpopulations: equally many, not the same ones.
Preparation (sorting, ranks) is part of both. At 10 million rows MCGrad runs out of memory on this machine.
"""

from __future__ import annotations

import harness
import numpy as np

COUNT, QUICK_ROWS = 1000, 5_000


def data(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Outcomes, scores, weights and covariates."""
    rng = np.random.default_rng(seed)
    score = rng.beta(0.8, 1.6, size)
    outcome = (rng.random(size) < score).astype(np.uint8)
    columns = {f"real{k}": rng.random(size) for k in range(4)}
    columns |= {f"whole{k}": rng.integers(0, 80, size).astype(np.float64) for k in range(3)}
    columns |= {f"two{k}": rng.integers(0, 2, size).astype(np.float64) for k in range(2)}
    columns["geometric"] = rng.geometric(0.1, size).astype(np.float64)
    return outcome, score, rng.random(size) + 0.5, columns


def mcgrad_call(outcome, score, weight, columns):
    import pandas as pd
    from mcgrad.metrics import MulticalibrationError

    frame = pd.DataFrame({"y": outcome.astype(np.float64), "score": score, "weight": weight, **columns})
    names = list(columns)
    return lambda: (
        MulticalibrationError(frame, "y", "score", "weight", numerical_segment_columns=names, max_n_segments=COUNT).mce
    )


def rows(quick: bool = False) -> list[dict]:
    from miscal import Predictions, by_subpopulation
    from miscal.metrics import multicalibration_error

    found = []
    if not quick:
        harness.need("package MCGrad")
    for size in (QUICK_ROWS,) if quick else (100_000, 1_000_000):
        y, p, w, columns = data(size)
        absent = harness.lacks("package MCGrad")
        found += harness.against(
            "multi-calibration, 1,000 subpopulations",
            size,
            lambda y=y, p=p, w=w, columns=columns: multicalibration_error(y, p, columns, sample_weight=w),
            {} if absent else {"MCGrad": mcgrad_call(y, p, w, columns)},
            goals={"MCGrad": 12.0},
            repeats=1 if quick else 3 if size > 100_000 else 5,
            budget=60.0,
            note="preparation included",
        )
    size = QUICK_ROWS if quick else 100_000
    y, p, _, columns = data(size)
    predictions = Predictions(y, p, columns=columns)
    found += harness.against(
        "200 simulations of the maximum",
        size,
        lambda: by_subpopulation(predictions, simulations=200),
        {},
        repeats=1 if quick else 2,
        note="1,001 subpopulations, everything included; goal 20 s",
    )
    if not quick:
        y, p, w, columns = data(10_000_000)
        found += harness.against(
            "multi-calibration, 1,000 subpopulations",
            10_000_000,
            lambda: multicalibration_error(y, p, columns, sample_weight=w),
            {},
            repeats=1,
            budget=1.0,
            note="MCGrad: out of memory; goal 30 s",
        )
    return found


if __name__ == "__main__":
    harness.main("subpopulation", rows)

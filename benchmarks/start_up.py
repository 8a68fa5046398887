"""What a user waits for before the first number: `python benchmarks/start_up.py [--quick]`.

Each line is a process of its own. "kernels cached" is every start but the first ever; "nothing cached" is that first
one, which compiles.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

DATA = (
    "import numpy as np; r = np.random.default_rng(0); p = r.random(1000); y = (r.random(1000) < p).astype(np.uint8); "
)
OURS = {
    "import": "import miscal",
    "first expected error, kernels cached": DATA
    + "from miscal import metrics; metrics.expected_calibration_error(y, p)",
    "first Kuiper, kernels cached": DATA + "from miscal import metrics; metrics.kuiper_calibration_error(y, p)",
    "first by_score, kernels cached": DATA + "import miscal; miscal.by_score(miscal.Predictions(y, p))",
}
THEIRS = {
    "import": {
        "numpy": "import numpy",
        "scikit-learn": "import sklearn.calibration",
        "relplot": "import relplot",
        "netcal": "import netcal.metrics",
        "MAPIE": "import mapie.metrics.calibration",
    },
    "first expected error, kernels cached": {
        "relplot": DATA + "import relplot.metrics; relplot.metrics.binnedECE(p, y, 15)",
        "scikit-learn": DATA + "import sklearn.calibration as c; c.calibration_curve(y, p, n_bins=15)",
        "netcal": DATA + "from netcal.metrics import ECE; ECE(15).measure(p, y)",
    },
    "first Kuiper, kernels cached": {
        "MAPIE": DATA + "from mapie.metrics.calibration import kuiper_statistic as k; k(y, p)",
    },
}
COLD = {
    "first expected error, nothing cached": OURS["first expected error, kernels cached"],
    "first by_score, nothing cached": OURS["first by_score, kernels cached"],
}


def cpu_seconds(code: str, cache: Path, repeats: int) -> float:
    """Least CPU seconds of a fresh process that runs the code."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "MISCAL_QUIET": "1"}
    measured = f"{code}\nimport time; print(time.process_time())"
    best = math.inf
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", measured], capture_output=True, text=True, check=True, env=environment
        )
        best = min(best, float(done.stdout))
    return best


def row(operation: str, ours: float, peer: str = "", theirs: float = math.nan, note: str = "") -> dict:
    return {
        "operation": operation, "size": 1000, "ours_cpu_s": ours, "peer": peer, "peer_cpu_s": theirs,
        "ratio": theirs / ours, "goal": math.nan, "note": note,
    }  # fmt: skip


def rows(quick: bool = False) -> list[dict]:
    repeats = 1 if quick else 3
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for operation, code in COLD.items():
            cache = Path(folder) / operation
            found.append(row(operation, cpu_seconds(code, cache, 1), note="compiles, once on a machine"))
        warm = Path(folder) / "first by_score, nothing cached"
        for code in OURS.values():
            cpu_seconds(code, warm, 1)
        for operation, code in OURS.items():
            ours = cpu_seconds(code, warm, repeats)
            peers = THEIRS.get(operation, {})
            found += [
                row(operation, ours, peer, cpu_seconds(theirs, warm, repeats)) for peer, theirs in peers.items()
            ] or [row(operation, ours)]
    return found


if __name__ == "__main__":
    harness.main("start_up", rows)

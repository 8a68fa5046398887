"""README's jobs by two builds in turns: `python benchmarks/before_after.py OLD NEW`, folders that hold a `miscal`.

    python benchmarks/before_after.py --quick

Each round starts a process of the one and a process of the other; a process does its job once to warm up and gives the
least CPU seconds of five. The interpreter must have what both builds need. A quick run does each job once on few rows,
with the installed build.
"""

from __future__ import annotations

import os
import subprocess
import sys

import field
import harness
import numpy as np
import score
import subpopulation

ROUNDS = 3
JOBS = {
    "expected error, 15 bins": 10**7,
    "SmoothECE": 10**7,
    "Kuiper": 10**7,
    "multi-calibration, 1,000 subpopulations": 10**6,
    "error by 500 levels": 10**6,
    "error by 100,000 levels": 10**7,
}


def call(job: str, size: int | None = None):
    """What is timed."""
    from miscal import metrics

    size = size or JOBS[job]
    if "levels" in job:
        z, p, y = field.made(size, 500 if "500" in job else 10**5)
        return lambda: metrics.field_calibration_error(y, p, z)
    if job.startswith("multi"):
        y, p, w, columns = subpopulation.data(size)
        return lambda: metrics.multicalibration_error(y, p, columns, sample_weight=w)
    y, p, _ = score.data(size)
    named = {"expected": "expected", "SmoothECE": "smooth", "Kuiper": "kuiper"}[job.split(maxsplit=1)[0]]
    function = getattr(metrics, f"{named}_calibration_error")
    return lambda: function(y, p)


def seconds(job: str, source: str) -> float:
    """The least CPU seconds of a process that runs the job with one build."""
    known = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, __file__, "--job", job], env=known, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def main(old: str, new: str) -> None:
    rows = []
    for job, size in JOBS.items():
        rounds = np.array([[seconds(job, source) for source in (new, old)] for _ in range(ROUNDS)])
        now, before = rounds.min(axis=0)
        rows.append({
            "operation": job, "size": size, "ours_cpu_s": now, "peer": "the build before", "peer_cpu_s": before,
            "ratio": before / now, "goal": 0.9,
        })  # fmt: skip
    harness.write("before_after", rows)
    print(harness.table(rows))


if __name__ == "__main__":
    if sys.argv[1:] == ["--quick"]:
        for name in JOBS:
            print(name, call(name, 20_000)())
    elif sys.argv[1] == "--job":
        print(harness.timed({"": call(sys.argv[2])}, repeats=5)[""]["cpu_s"])
    else:
        main(*sys.argv[1:])

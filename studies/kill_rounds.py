"""Kill long jobs with SIGKILL at random moments: the output is the old file, the new file or none, never a torn one.

    python studies/kill_rounds.py --rounds 200

Each round starts `miscal tally` or `miscal apply` on the same table, kills it after a random time, and checks that the
output is absent, or has exactly the bytes of an undisturbed run. After all rounds one more run must give those bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
COLUMNS = ["--outcome", "y", "--probability", "p"]


def table(path: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    p = rng.beta(1, 6, rows)
    made = {"y": (rng.random(rows) < p).astype(np.uint8), "p": p, "x": rng.normal(size=rows)}
    level = pa.array([f"s{i}" for i in range(500)]).take(pa.array(rng.integers(0, 500, rows)))
    pq.write_table(pa.table({**made, "f": level}), path, row_group_size=50_000)


def content(path: Path) -> str | None:
    """What a file holds, or None. A tally is compared by its sums: the archive around them has no other content."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--quick", action="store_true", help="six rounds; nothing is recorded")
    arguments = parser.parse_args()
    rounds = 6 if arguments.quick else arguments.rounds
    chance = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        record = run(Path(name), rounds, arguments.rows, chance)
    print(json.dumps(record, indent=1))
    if record["torn"] or not record["final_identical"]:
        raise SystemExit("a torn or different file")
    if not arguments.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "kill_rounds.json").write_text(json.dumps(record, indent=1) + "\n")


def run(folder: Path, rounds: int, rows: int, chance: random.Random) -> dict:
    from miscal.recalibrate import IsotonicCalibration

    source = folder / "t.parquet"
    table(source, rows)
    model = IsotonicCalibration().fit(
        np.linspace(0, 1, 1000), np.random.default_rng(1).random(1000) < np.linspace(0, 1, 1000)
    )
    (folder / "model.json").write_text(model.to_json())
    start = [sys.executable, "-m", "miscal.cli"]
    jobs = {
        "tally": ([*start, "tally", str(source), *COLUMNS, "--out", "OUT"], ".tally"),
        "apply": (
            [*start, "apply", str(folder / "model.json"), str(source), "--probability", "p", "--out", "OUT"],
            ".parquet",
        ),
    }
    whole, lasted = {}, {}
    for name, (command, ending) in jobs.items():
        out = folder / f"whole{ending}"
        for _ in range(2):  # the second run finds its kernels compiled
            begin = time.perf_counter()
            subprocess.run([str(out) if part == "OUT" else part for part in command], check=True, capture_output=True)
            lasted[name] = time.perf_counter() - begin
        whole[name] = content(out)
    counted = {"killed": 0, "finished": 0, "absent": 0, "whole": 0, "torn": 0, "left_over": 0}
    for place in range(rounds):
        name = ("tally", "apply")[place % 2]
        command, ending = jobs[name]
        out = folder / "rounds" / f"out{ending}"
        out.parent.mkdir(exist_ok=True)
        process = subprocess.Popen(
            [str(out) if part == "OUT" else part for part in command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Half of the kills fall into the last quarter, where files are written.
        share = chance.uniform(0.75, 1.1) if chance.random() < 0.5 else chance.uniform(0.0, 1.0)
        try:
            process.wait(share * lasted[name])
            counted["finished"] += 1
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            counted["killed"] += 1
        found = content(out)
        counted["absent" if found is None else "whole" if found == whole[name] else "torn"] += 1
        others = [item for item in out.parent.iterdir() if item.name != out.name]
        counted["left_over"] += bool(others)  # hidden temporary files of killed processes: never under the final name
        for item in out.parent.iterdir():
            item.unlink()
    final = {}
    for name, (command, ending) in jobs.items():
        out = folder / f"again{ending}"
        subprocess.run([str(out) if part == "OUT" else part for part in command], check=True, capture_output=True)
        final[name] = content(out) == whole[name]
    return {"rounds": rounds, **counted, "final_identical": all(final.values()), "seconds_a_job": lasted}


if __name__ == "__main__":
    main()

"""Kill long jobs with SIGKILL at random moments: the output is the old file, the new file or none, never a torn one.

    python -m studies.kill_rounds --rounds 200

The rounds can be done in pieces: `--most 50` ends after 50, and the next call goes on from what is recorded.

Each round starts `miscal summarize` or `miscal apply` on the same table, kills it after a random time, and checks that
the output is absent, or has exactly the bytes of an undisturbed run. A last run must give them.
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
COUNTED = ("killed", "finished", "absent", "whole", "torn", "left_over")


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
    parser.add_argument("--most", type=int, help="rounds of this call; the next one goes on")
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--quick", action="store_true", help="two rounds of a small table; nothing is recorded")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rows = 20_000
    before = {"rounds": 0} if arguments.quick else recorded(arguments.rows)
    left = 2 if arguments.quick else arguments.rounds - before["rounds"]
    rounds = min(left, arguments.most or left)
    if rounds <= 0:
        raise SystemExit(f"{before['rounds']} rounds are recorded already")
    with tempfile.TemporaryDirectory() as name:
        chance, warm = random.Random(before["rounds"]), not arguments.quick
        record = run(Path(name), rounds, arguments.rows, chance, before["rounds"], warm)
    for word in ("rounds", *COUNTED):
        record[word] += before.get(word, 0)
    record["final_identical"] &= before.get("final_identical", True)
    print(json.dumps(record, indent=1))
    if not arguments.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "kill_rounds.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / "kill_rounds.md").write_text(markdown(record))
    if record["torn"] or not record["final_identical"]:
        raise SystemExit("a torn or different file")


def recorded(rows: int) -> dict:
    """What earlier calls counted with a table of this size."""
    path = RESULTS / "kill_rounds.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    return found if found.get("rows") == rows else {"rounds": 0}


def markdown(record: dict) -> str:
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in record["seconds_a_job"].items())
    head = f"{record['rounds']} rounds of kill -9 at a random moment of `miscal summarize` and `miscal apply`, in turn"
    return "\n".join(
        [
            f"{head}, on a table of {record['rows']:,} rows (a job lasts: {seconds}).",
            "",
            "| what was counted | rounds |",
            "|---|---|",
            f"| killed | {record['killed']} |",
            f"| finished before the kill | {record['finished']} |",
            f"| no output file | {record['absent']} |",
            f"| output with the bytes of an undisturbed run | {record['whole']} |",
            f"| torn or different output | {record['torn']} |",
            f"| a hidden temporary file left beside it | {record['left_over']} |",
            "",
            f"Undisturbed runs afterwards gave the same bytes: {'yes' if record['final_identical'] else 'no'}.",
            "",
        ]
    )


def run(folder: Path, rounds: int, rows: int, chance: random.Random, first: int = 0, warm: bool = True) -> dict:
    from miscal.recalibrate import IsotonicCalibration

    source = folder / "t.parquet"
    table(source, rows)
    model = IsotonicCalibration().fit(
        np.linspace(0, 1, 1000), np.random.default_rng(1).random(1000) < np.linspace(0, 1, 1000)
    )
    (folder / "model.json").write_text(model.to_json())
    start = [sys.executable, "-m", "miscal"]
    jobs = {
        "summarize": ([*start, "summarize", str(source), *COLUMNS, "--out", "OUT"], ".tally"),
        "apply": (
            [*start, "apply", str(folder / "model.json"), str(source), "--probability", "p", "--out", "OUT"],
            ".parquet",
        ),
    }
    whole, lasted = {}, {}
    for name, (command, ending) in jobs.items():
        out = folder / f"whole{ending}"
        for _ in range(1 + warm):  # the second run finds its kernels compiled
            begin = time.perf_counter()
            subprocess.run([str(out) if part == "OUT" else part for part in command], check=True, capture_output=True)
            lasted[name] = time.perf_counter() - begin
        whole[name] = content(out)
    counted = dict.fromkeys(COUNTED, 0)
    for place in range(first, first + rounds):
        name = ("summarize", "apply")[place % 2]
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
    return {"rounds": rounds, "rows": rows, **counted, "final_identical": all(final.values()), "seconds_a_job": lasted}


if __name__ == "__main__":
    main()

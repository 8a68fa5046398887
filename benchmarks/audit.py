"""What an audit costs: `python benchmarks/audit.py [--quick]`.

A table of 1 million rows and 30 columns (16 numbers, 4 whole numbers, 9 fields of 2 to 1,000 levels, a date) is audited
from a Parquet file at normal effort in a process of its own: wall and CPU seconds, peak memory beyond what the process
held before it read the file, as a multiple of the table in memory, and the same by stage. Then the demo, from the
command to its page.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import harness

ROWS, QUICK_ROWS = 1_000_000, 5_000
LEVELS = (2, 3, 5, 8, 12, 20, 50, 200, 1000)
OURS = "miscal"


def write_table(path: Path, rows: int) -> int:
    """A table with an error in one level and a score that is too extreme; gives its bytes in memory."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    score = rng.beta(2.0, 5.0, rows)
    columns: dict[str, Any] = {f"number_{k}": rng.normal(size=rows) for k in range(16)}
    columns |= {f"whole_{k}": rng.integers(0, 10 * 4**k, rows).astype(np.int32) for k in range(4)}
    for many in LEVELS:
        codes = rng.integers(0, many, rows).astype(np.int16)
        names = pa.array([f"level {k}" for k in range(many)])
        columns[f"field_{many}"] = pa.DictionaryArray.from_arrays(pa.array(codes), names)
        if many == 20:
            wrong = codes == 3
    columns["day"] = pa.array(rng.integers(19_000, 19_365, rows).astype("datetime64[D]"))
    odds = np.log(score / (1.0 - score))
    truth = 1.0 / (1.0 + np.exp(-(0.9 * odds - 0.05 - 0.4 * wrong)))
    table = pa.table({"outcome": (rng.random(rows) < truth).astype(np.uint8), "probability": score, **columns})
    pq.write_table(table, path)
    return int(table.nbytes)


def measured(path: Path) -> dict[str, Any]:
    """Audit a file in this process; wall, CPU, peak and the same by stage."""
    import miscal

    with tempfile.TemporaryDirectory() as folder:  # libraries and kernels are loaded before anything is measured
        small = Path(folder) / "small.parquet"
        write_table(small, 2_000)
        miscal.audit(small, outcome="outcome", probability="probability").to_html(small.with_suffix(".html"))
    before = harness.memory("VmRSS")
    stages: list[dict[str, Any]] = []
    watch = _Watch(stages)
    watch.start()
    start, cpu = time.perf_counter(), time.process_time()

    def say(what: str, _done: int, _total: int) -> None:
        stages.append({"stage": what or "findings and page", "at": time.process_time(), "peak": 0.0})

    stages.append({"stage": "read", "at": time.process_time(), "peak": 0.0})
    found = miscal.audit(path, outcome="outcome", probability="probability", progress=say)
    found.to_html(path.with_suffix(".html"))
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    watch.done = True
    watch.join()
    return {
        "wall_s": wall,
        "cpu_s": used,
        "peak_mb": max(stage["peak"] for stage in stages) - before,
        "findings": sum(f.real and not f.parent for f in found.findings),
        "stages": _by_stage(stages, cpu + used, before),
    }


class _Watch(threading.Thread):
    """Looks at the resident memory every few milliseconds."""

    def __init__(self, stages: list[dict[str, Any]]) -> None:
        super().__init__(daemon=True)
        self.stages, self.done = stages, False

    def run(self) -> None:
        while not self.done:
            if self.stages:
                self.stages[-1]["peak"] = max(self.stages[-1]["peak"], harness.memory("VmRSS"))
            time.sleep(0.005)


def _by_stage(stages: list[dict[str, Any]], end: float, before: float) -> list[dict[str, Any]]:
    """CPU seconds and peak of each stage, columns by kind together."""
    kinds = {
        "number": "numbers",
        "whole": "whole numbers",
        "field": "fields",
        "day": "date",
        "pairs": "pairs of columns",
    }
    made: dict[str, dict[str, float]] = {}
    for stage, after in zip(stages, [*[s["at"] for s in stages[1:]], end], strict=True):
        word = stage["stage"].split("_")[0].split(" ")[0]
        entry = made.setdefault(kinds.get(word, stage["stage"]), {"cpu_s": 0.0, "peak_mb": 0.0})
        entry["cpu_s"] += after - stage["at"]
        entry["peak_mb"] = max(entry["peak_mb"], stage["peak"] - before)
    return [{"stage": name, **{key: round(value, 2) for key, value in entry.items()}} for name, entry in made.items()]


def demo_seconds(folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds of `miscal demo` as a command."""
    import resource

    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "miscal", "demo", "--out", str(folder)], check=True, stdout=subprocess.DEVNULL
    )
    wall, now = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime


def rows(quick: bool = False) -> list[dict[str, Any]]:
    """The lines of the table."""
    made: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        path, size = Path(folder) / "table.parquet", QUICK_ROWS if quick else ROWS
        table = write_table(path, size) / 2**20
        threads = {**os.environ, "MISCAL_THREADS": "2", "OMP_NUM_THREADS": "2"}
        done = subprocess.run(
            [sys.executable, __file__, "--measure", str(path)], check=True, capture_output=True, text=True, env=threads
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        ratio = answer["peak_mb"] / table
        note = f"wall {answer['wall_s']:.0f} s on two cores, peak {ratio:.2f} times the table of {table:.0f} MiB"
        made.append(_line("audit, 30 columns, normal effort", size, answer["cpu_s"], 120.0, note))
        made[-1] |= {"wall_s": answer["wall_s"], "peak_ratio": ratio, "stages": answer["stages"]}
        if quick:  # the demo takes all of the flights
            return made
        wall, cpu = demo_seconds(Path(folder) / "demo")
        made.append(_line("demo, from command to page", 166_668, cpu, 20.0, f"wall {wall:.1f} s"))
        made[-1]["wall_s"] = wall
    return made


def _line(operation: str, size: int, cpu: float, goal: float, note: str) -> dict[str, Any]:
    return {
        "operation": operation, "size": size, "ours_cpu_s": cpu, "peer": "", "peer_cpu_s": math.nan,
        "ratio": math.nan, "goal": f"wall below {goal:.0f} s", "note": note,
    }  # fmt: skip


def table(made: list[dict[str, Any]]) -> str:
    """The lines, and the stages of the large audit."""
    lines = [harness.table(made), "", "| stage of the audit | CPU s | peak MiB |", "|---|---:|---:|"]
    lines += [f"| {each['stage']} | {each['cpu_s']:.2f} | {each['peak_mb']:.0f} |" for each in made[0]["stages"]]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measured(Path(sys.argv[2]))))
    else:
        harness.main("audit", rows, table)

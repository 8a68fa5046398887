"""What every benchmark shares: CPU time of interleaved runs, peak memory, the machine, tables and JSON.

Times are the least process CPU time over repeats: on a busy machine wall time says little. Peer and ours take turns in
one process, so that both meet the same load; a call of milliseconds is made a few times in its turn, for the first
finds the caches as the other left them. Peak memory is what a call adds to the resident inputs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.metadata
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Before numpy is imported: libraries read these once. A benchmark therefore imports this module first.
for _name in ("MISCAL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ.setdefault(_name, "1")

sys.path.append(str(Path(__file__).parents[1]))  # a benchmark is run by its path

from studies.needs import lacks, need  # noqa: E402, F401

Shown = Callable[[list[dict[str, Any]]], str]
RESULTS = Path(__file__).parent / "results"
SHORT_S, AGAIN = 0.02, 5
PACKAGES = (
    "miscal", "numpy", "scipy", "scikit-learn", "relplot", "netcal", "mcgrad", "mapie", "torchmetrics",
    "betacal", "fairlearn", "probmetrics", "scikit-misc", "statsmodels", "polars", "duckdb", "torch",
)  # fmt: skip


def timed(
    calls: Mapping[str, Callable[[], Any]], *, repeats: int = 5, budget: float = 30.0
) -> dict[str, dict[str, float]]:
    """Run each call once to warm up, then in turns; give the least CPU seconds and the least peak in MiB of each.

    budget : seconds after which no further round is started (at least one round is run)
    """
    for call in calls.values():
        call()
    best = {name: {"cpu_s": math.inf, "peak_mb": math.inf} for name in calls}
    started = time.perf_counter()
    for _ in range(repeats):
        for name, call in calls.items():
            cpu, peak = _turn(call)
            best[name]["cpu_s"] = min(best[name]["cpu_s"], cpu)
            best[name]["peak_mb"] = min(best[name]["peak_mb"], peak)
        if time.perf_counter() - started > budget:
            break
    return best


def _turn(call: Callable[[], Any]) -> tuple[float, float]:
    runs = [_one(call)]
    while runs[0][0] < SHORT_S and len(runs) < AGAIN:
        runs.append(_one(call))
    cpu, peak = zip(*runs, strict=True)
    return min(cpu), min(peak)


def _one(call: Callable[[], Any]) -> tuple[float, float]:
    gc.collect()
    before = memory("VmRSS")
    _forget_peak()
    start = time.process_time()
    answer = call()
    cpu = time.process_time() - start
    peak = memory("VmHWM") - before
    del answer
    return cpu, max(peak, 0.0)


def process_seconds(
    python: Path | str, arguments: list[str], folder: Path | str, environment: Mapping[str, str] | None = None
) -> float:
    """CPU seconds of an interpreter in a process of its own, from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([python, *arguments], check=True, cwd=folder, env=environment, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def memory(field: str) -> float:
    """A line of /proc/self/status in MiB; NaN where there is none."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return math.nan
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), math.nan)


def _forget_peak() -> None:
    with contextlib.suppress(OSError):  # not Linux, or not allowed: the peak is then an upper bound
        Path("/proc/self/clear_refs").write_text("5")


def against(
    operation: str,
    size: int,
    ours: Callable[[], Any],
    peers: Mapping[str, Callable[[], Any]],
    *,
    goals: Mapping[str, float] | None = None,
    repeats: int = 5,
    budget: float = 30.0,
    note: str = "",
) -> list[dict[str, Any]]:
    """Time ours and its peers in turns: one row a peer (or one row without a peer)."""
    best = timed({"": ours, **peers}, repeats=repeats, budget=budget)
    mine = best[""]
    rows = []
    for name in peers or {"": None}:
        theirs = best[name] if name else {"cpu_s": math.nan, "peak_mb": math.nan}
        rows.append(
            {
                "operation": operation,
                "size": size,
                "ours_cpu_s": mine["cpu_s"],
                "peer": name,
                "peer_cpu_s": theirs["cpu_s"],
                "ratio": theirs["cpu_s"] / mine["cpu_s"],
                "goal": (goals or {}).get(name, math.nan),
                "ours_peak_mb": mine["peak_mb"],
                "peer_peak_mb": theirs["peak_mb"],
                "note": note,
            }
        )
    return rows


def growth(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Exponent of the time in the rows, from the smallest to the largest size of each operation."""
    found = []
    for operation in dict.fromkeys(row["operation"] for row in rows):
        sizes = {
            row["size"]: row["ours_cpu_s"]
            for row in rows
            if row["operation"] == operation and isinstance(row["size"], int) and row["ours_cpu_s"]
        }
        low, high = min(sizes, default=0), max(sizes, default=0)
        if high >= 10 * low > 0:
            exponent = math.log(sizes[high] / sizes[low]) / math.log(high / low)
            found.append({"operation": operation, "from": low, "to": high, "exponent": exponent})
    return found


def machine() -> dict[str, Any]:
    """What the numbers depend on: processor, load, versions."""
    model = ""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        model = platform.processor()
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
        "threads": os.environ["MISCAL_THREADS"],
        "versions": versions,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a markdown table."""
    lines = [
        "| operation | rows | ours, CPU s | peer | its CPU s | ratio | goal | peak MiB ours / peer | note |",
        "|---|---:|---:|---|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        peaks = f"{_number(row.get('ours_peak_mb'), '.0f')} / {_number(row.get('peer_peak_mb'), '.0f')}"
        cells = [
            row["operation"], _size(row["size"]), _number(row["ours_cpu_s"], ".4g"), row["peer"] or "-",
            _number(row["peer_cpu_s"], ".4g"), _number(row["ratio"], ".1f"), _goal(row), peaks, row.get("note") or "",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _size(size: Any) -> str:
    return f"{size:,}" if isinstance(size, int) else str(size)


def _number(value: Any, form: str) -> str:
    return "-" if value is None or (isinstance(value, float) and math.isnan(value)) else format(value, form)


def _goal(row: Mapping[str, Any]) -> str:
    goal = row.get("goal")
    if goal in (None, "") or (isinstance(goal, float) and math.isnan(goal)):
        return ""
    if not isinstance(goal, (int, float)):
        return str(goal)
    if row["ratio"] is None:
        return f"{goal:g}"
    return f"{goal:g} {'met' if row['ratio'] >= goal else 'MISSED'}"


def write(name: str, rows: list[dict[str, Any]], shown: Shown | None = None, **more: Any) -> Path:
    """Write rows and machine to results/<name>.json (NaN becomes null) and the table to results/<name>.md.

    shown : makes the table of a benchmark that has one of its own
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    about, exponents = machine(), growth(rows)
    content = {"machine": about, **more, "growth": exponents, "rows": rows}
    path.write_text(json.dumps(_plain(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    parts = [
        f"{about['processor']}, {about['cores']} cores, one thread; load average {about['load'][0]:g}.",
        (shown or table)(rows),
    ]
    if exponents:
        listed = ", ".join(f"{line['operation']} {line['exponent']:.2f}" for line in exponents)
        parts.append(f"Exponent of time in rows, smallest to largest size: {listed}.")
    path.with_suffix(".md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return None if not math.isfinite(value) else float(f"{value:.6g}")
    return value


def main(name: str, rows: Callable[..., list[dict[str, Any]]], shown: Shown | None = None) -> None:
    """Run one benchmark as a script: `--quick` for small sizes, which writes nothing."""
    quick = "--quick" in sys.argv
    found = rows(quick=quick)
    print(f"load {machine()['load']}\n\n{(shown or table)(found)}\n")
    for line in growth(found):
        print(f"{line['operation']}: time grows as rows^{line['exponent']:.2f} from {line['from']:,} to {line['to']:,}")
    if not quick:
        print(f"\n{write(name, found, shown)}")

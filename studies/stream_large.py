"""A table that does not fit: generate it, audit it as a stream, and compare with merely decoding it.

    python -m studies.stream_large --rows 100000000 --folder BIG --memory 1GB

Writes studies/results/stream_large.json and .md. The table has a 64-bit score, an outcome, a field of 100,000 levels
and four numeric columns, with a planted error in one stretch of one of them. The audit is that of every column by
itself (effort "quick"); the columns that each of its passes reads are decoded by pyarrow alone, row group by row group
on as many threads. Both run three times, in turn, and the least is kept. A small table is audited first, so that
nothing is compiled while clocks run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import miscal
from studies.harness import temporary_folder

RESULTS = Path(__file__).parent / "results"
QUICK_ROWS, QUICK_MEMORY = 1 << 18, "400MB"
GROUP = 1 << 20
LEVELS = 100_000
LEAST_NS = 0.05  # stages below are left out of the table


def generate(path: Path, rows: int) -> None:
    """Write the table, a row group at a time; a small one has a hundredth of the levels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    levels = LEVELS if rows > QUICK_ROWS else LEVELS // 100
    names = pa.array([f"advertiser {i:05d}" for i in range(levels)])
    writer = None
    temporary = path.with_suffix(".part")
    for start in range(0, rows, GROUP):
        rng = np.random.default_rng([7, start])
        size = min(GROUP, rows - start)
        p = rng.beta(1.2, 12.0, size)
        age = rng.normal(45.0, 14.0, size)
        truth = np.where((age > 60.0) & (age < 65.0), np.minimum(1.25 * p, 1.0), p)
        codes = (levels * rng.random(size) ** 1.5).astype(np.int32)
        table = pa.table(
            {
                "y": (rng.random(size) < truth).astype(np.uint8),
                "p": p,
                "advertiser": pa.DictionaryArray.from_arrays(pa.array(codes), names),
                "age": age,
                "income": rng.lognormal(10.0, 1.0, size),
                "distance": np.where(rng.random(size) < 0.3, 0.0, rng.exponential(20.0, size)),
                "hour": rng.integers(0, 24, size).astype(np.float64),
            }
        )
        writer = writer or pq.ParquetWriter(temporary, table.schema, compression="zstd", compression_level=1)
        writer.write_table(table, row_group_size=GROUP)
    writer.close()
    temporary.rename(path)


def measured(code: str, threads: int, folder: Path) -> dict:
    """Run code in a process of its own: what it prints as JSON, its seconds, its peak memory."""
    head = "import json, resource, sys, time; start = time.perf_counter()\n"
    tail = (
        "\nusage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print('\\n' + json.dumps({**found, 'wall_s': time.perf_counter() - start, "
        "'cpu_s': usage.ru_utime + usage.ru_stime, 'system_s': usage.ru_stime, "
        "'peak_mb': usage.ru_maxrss * 1024 / 1e6}))"
    )
    command = [sys.executable, "-c", head + code + tail]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(folder) | {"MISCAL_THREADS": str(threads)}
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def environment(folder: Path) -> dict[str, str]:
    """This one, with a place for compiled modules: an installed library has its own compiled."""
    if "--quick" in sys.argv:
        return dict(os.environ)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}


DECODE = """
from concurrent.futures import ThreadPoolExecutor
import pyarrow.parquet as pq
def decode(columns, threads):
    def some(worker):
        file = pq.ParquetFile({path!r}, pre_buffer=False, read_dictionary=['advertiser'])
        groups = range(worker, file.num_row_groups, threads)
        return sum(file.read_row_group(g, columns=columns, use_threads=False).num_rows for g in groups)
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(some, range(threads)))
found = {{'passes': []}}
for columns in {passes!r}:
    begin, begin_wall = time.process_time(), time.perf_counter()
    rows = decode(columns, {threads})
    found['passes'].append({{'columns': columns, 'rows': rows, 'cpu_s': time.process_time() - begin,
                             'wall_s': time.perf_counter() - begin_wall}})
"""

AUDIT = """
import miscal
from miscal.aggregate.source import Source
passes, run = [], Source.run
def watched(self, start):
    passes.append(list(start().columns))
    return run(self, start)
Source.run = watched
found_audit = miscal.audit({path!r}, outcome='y', probability='p', memory={memory!r}, effort='quick')
found = {{
    'passes': passes,
    'kuiper': found_audit.score['kuiper'],
    'expected': found_audit.score['expected'],
    'first_finding': next((f.where for f in found_audit.findings), None),
    'findings': [f.where for f in found_audit.findings if f.real][:5],
    'levels': len(found_audit.document['sections']['field'][0]['table']['label']),
}}
"""


def decoded(path: Path, passes: list[list[str]], threads: int, folder: Path) -> dict:
    """Seconds of decoding what each pass reads, summed over the passes."""
    found = measured(DECODE.format(path=str(path), passes=passes, threads=threads), threads, folder)
    return found | {name: sum(each[name] for each in found["passes"]) for name in ("cpu_s", "wall_s")}


def least(runs: list[dict]) -> dict:
    """The run that took least processor time, with the least time elapsed and the highest peak of all."""
    best = min(runs, key=lambda run: run["cpu_s"])
    return best | {"wall_s": min(run["wall_s"] for run in runs), "peak_mb": max(run["peak_mb"] for run in runs)}


def staged(path: Path, memory: str, folder: Path) -> dict:
    """The table of stages, from `stream_stages.py`."""
    script = Path(__file__).with_name("stream_stages.py")
    command = [sys.executable, str(script), str(path), "--memory", memory]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(folder))
    return json.loads(done.stdout.strip().splitlines()[-1])


def study(path: Path, arguments: argparse.Namespace, folder: Path) -> dict:
    """Audit, decode what the audit's passes read, and tell the stages apart."""
    memory, counts = arguments.memory, [int(count) for count in arguments.counts.split(",")]
    source = Path(miscal.__file__).parent
    if not arguments.quick:  # so that no audit that is timed compiles anything
        subprocess.run([sys.executable, "-m", "compileall", "-q", source], check=True, env=environment(folder))
        small = folder / "small.parquet"
        generate(small, 1 << 20)
        measured(AUDIT.format(path=str(small), memory=memory), 2, folder)
    runs = {}
    for number in counts:
        audits, decodes = [], []
        for _ in range(1 if arguments.quick else 3):  # one after the other: what else the machine does falls on both
            audits.append(measured(AUDIT.format(path=str(path), memory=memory), number, folder))
            decodes.append(decoded(path, audits[0]["passes"], number, folder))
        audit, decode = least(audits), least(decodes)
        ratios = {f"ratio_{clock}": audit[f"{clock}_s"] / decode[f"{clock}_s"] for clock in ("cpu", "wall")}
        runs[f"threads_{number}"] = {"audit": audit, "decode": decode, **ratios}
    return runs | ({} if arguments.no_stages else {"stages": staged(path, memory, folder)})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--name", default="stream_large", help="of the files that the results are written to")
    parser.add_argument("--counts", default="1,2", help="numbers of threads, such as 1,2")
    parser.add_argument("--no-stages", action="store_true", help="leave the table of stages out: one audit less")
    parser.add_argument("--quick", action="store_true", help="few rows, one run each; nothing is recorded")
    parser.add_argument("--table", action="store_true", help="write the table of what is recorded again")
    parser.add_argument("--keep", action="store_true", help="leave the table where it was written")
    arguments = parser.parse_args()
    if arguments.table:
        record = json.loads((RESULTS / f"{arguments.name}.json").read_text())
        (RESULTS / f"{arguments.name}.md").write_text(markdown(record))
        return
    if arguments.quick:
        arguments.rows, arguments.counts, arguments.memory = QUICK_ROWS, "1", QUICK_MEMORY
    rows = arguments.rows
    folder = temporary_folder() if arguments.quick else arguments.folder
    path = folder / f"stream_{rows}.parquet"
    begin = time.perf_counter()
    if not path.exists():
        generate(path, rows)
    generated = time.perf_counter() - begin
    try:
        with tempfile.TemporaryDirectory() as name:
            found = study(path, arguments, Path(name))
        size = path.stat().st_size
    finally:
        if not arguments.keep:
            path.unlink(missing_ok=True)
    record = {
        "rows": rows,
        "file_mb": size / 1e6,
        "bytes_a_row": size / rows,
        "memory": arguments.memory,
        "generate_s": generated,
        **found,
        "load": os.getloadavg()[0],
        "processors": os.cpu_count(),
    }
    print(json.dumps(record, indent=1))
    if not arguments.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{arguments.name}.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / f"{arguments.name}.md").write_text(markdown(record))


def markdown(record: dict) -> str:
    runs = [record[name] for name in sorted(name for name in record if name.startswith("threads_"))]
    first = runs[0]["audit"]
    passes = " + ".join(str(len(columns)) for columns in first["passes"])
    head = (
        f"{record['rows']:,} rows ({first['levels']:,} levels, four numeric columns), {record['file_mb']:,.0f} MB, "
        f"{record['bytes_a_row']:.1f} bytes a row; {len(first['passes'])} passes over {passes} columns; "
        f"{record['processors']} processors with a load of {record['load']:.0f}. First finding: "
        f"{first['first_finding']}."
    )
    lines = [
        head,
        "",
        "| | " + " | ".join(f"{count} thread{'s' * (count != '1')}" for count in _counts(record)) + " |",
        "|---|" + "---|" * len(runs),
    ]
    rows: list[tuple[str, Callable[[dict], str]]] = [
        ("audit: processor time", lambda run: f"{run['audit']['cpu_s']:.1f} s"),
        ("of that in the system", lambda run: f"{run['audit']['system_s']:.1f} s"),
        ("a row", lambda run: f"{1e9 * run['audit']['cpu_s'] / record['rows']:.0f} ns"),
        ("audit: elapsed", lambda run: f"{run['audit']['wall_s']:.1f} s"),
        (f"audit: peak memory (ceiling {record['memory']})", lambda run: f"{run['audit']['peak_mb']:.0f} MB"),
        ("decoding what the passes read: processor time", lambda run: f"{run['decode']['cpu_s']:.1f} s"),
        ("decoding: elapsed", lambda run: f"{run['decode']['wall_s']:.1f} s"),
        ("**audit over decoding, processor time**", lambda run: f"**{run['ratio_cpu']:.2f}**"),
        ("audit over decoding, elapsed", lambda run: f"{run['ratio_wall']:.2f}"),
    ]
    lines += [f"| {words} | " + " | ".join(map(cell, runs)) + " |" for words, cell in rows]
    lines += ["", plan(record)]
    if "stages" not in record:
        return "\n".join(lines) + "\n"
    lines += ["", "Stages of the audit on one thread (processor time):", "", "| pass | stage | s | ns a row |"]
    lines += ["|---|---|---|---|"]
    for stage in record["stages"]["stages"]:
        if stage["ns_a_row"] >= LEAST_NS:
            lines.append(
                f"| {stage['pass'] or ''} | {stage['stage']} | {stage['cpu_s']:.2f} | {stage['ns_a_row']:.1f} |"
            )
    return "\n".join(lines) + "\n"


def plan(record: dict) -> str:
    """Ten billion rows on paper, at the cost of a row in the passes; what does not grow with the rows is told apart."""
    run = record[f"threads_{_counts(record)[-1]}"]
    a_row, rest = run["audit"]["cpu_s"] / record["rows"], ""
    if "stages" in record:
        spent = [(stage["pass"], stage["cpu_s"]) for stage in record["stages"]["stages"]]
        a_row = sum(seconds for part, seconds in spent if part) / record["rows"]
        rest = f" {sum(seconds for part, seconds in spent if not part):.1f} s do not grow with the rows."
    seconds, table = 1e10 * a_row, 1e10 * record["bytes_a_row"] / 1e9
    read = len(run["audit"]["passes"]) * table / (seconds / 16)
    return (
        f"A row costs {1e9 * a_row:.0f} ns in all passes together.{rest} Ten billion rows at that cost: "
        f"{seconds / 3600:.1f} processor hours and {table:,.0f} GB of Parquet; on 16 processors "
        f"{seconds / 16 / 60:.1f} minutes, if reading keeps up with {read:.1f} GB a second."
    )


def _counts(record: dict) -> list[str]:
    return sorted(name.removeprefix("threads_") for name in record if name.startswith("threads_"))


if __name__ == "__main__":
    main()

"""Peak memory of streamed audits in processes of their own, imports included.

    python -m studies.stream_memory --folder BIG --memory 1GB

Writes studies/results/stream_memory.json and .md: tables of four and ten million rows, as `stream_large.py` generates
them, audited with effort "quick" (columns) and "normal" (pairs of columns and subpopulations too).
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from studies.stream_large import AUDIT, QUICK_MEMORY, QUICK_ROWS, RESULTS, generate, measured

ROWS = (4_000_000, 10_000_000)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, help="where tables are kept between runs; a temporary one by default")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--quick", action="store_true", help="few rows; nothing is recorded")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.memory = QUICK_MEMORY
    with tempfile.TemporaryDirectory() as name:
        runs = study(arguments.folder or Path(name), Path(name), arguments)
    record = {"memory": arguments.memory, "runs": runs}
    print(markdown(record))
    if not arguments.quick:
        (RESULTS / "stream_memory.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / "stream_memory.md").write_text(markdown(record))


def study(folder: Path, compiled: Path, arguments: argparse.Namespace) -> list[dict]:
    """Every audit once; the first, of a small table, compiles what there is to compile."""
    small = compiled / "small.parquet"
    generate(small, QUICK_ROWS if arguments.quick else 1 << 20)
    runs = []
    for effort in ("quick", "normal"):
        code = AUDIT.replace("effort='quick'", f"effort='{effort}'")
        if not arguments.quick:
            measured(code.format(path=str(small), memory=arguments.memory), 2, compiled)
        for rows in (QUICK_ROWS,) if arguments.quick else ROWS:
            path = folder / f"stream_{rows}.parquet"
            if not path.exists():
                generate(path, rows)
            for threads in (1, 2):
                found = measured(code.format(path=str(path), memory=arguments.memory), threads, compiled)
                told = {name: found[name] for name in ("peak_mb", "cpu_s")}
                runs.append({"rows": rows, "effort": effort, "threads": threads, **told})
    return runs


def markdown(record: dict) -> str:
    lines = [
        f"Peak memory of the whole process, a million bytes each; the ceiling was {record['memory']}.",
        "",
        "| rows | effort | 1 thread | 2 threads |",
        "|---|---|---|---|",
    ]
    peaks = {(run["rows"], run["effort"], run["threads"]): run["peak_mb"] for run in record["runs"]}
    for rows, effort in dict.fromkeys((rows, effort) for rows, effort, _ in peaks):
        cells = " | ".join(f"{peaks[rows, effort, threads]:.0f} MB" for threads in (1, 2))
        lines.append(f"| {rows:,} | {effort} | {cells} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

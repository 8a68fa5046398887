"""A table that does not fit: generate it, audit it as a stream, and compare with merely decoding it.

    python studies/stream_large.py --rows 100000000 --folder BIG --memory 1GB

Writes studies/results/stream_large.json and .md. The table has a 64-bit score, an outcome, a field of 100,000 levels
and four numeric columns, with a planted error in one stretch of one of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
GROUP = 1 << 20
LEVELS = 100_000
COLUMNS = ["y", "p", "advertiser", "age", "income", "distance", "hour"]


def generate(path: Path, rows: int) -> None:
    """Write the table, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = pa.array([f"advertiser {i:05d}" for i in range(LEVELS)])
    writer = None
    temporary = path.with_suffix(".part")
    for start in range(0, rows, GROUP):
        rng = np.random.default_rng([7, start])
        size = min(GROUP, rows - start)
        p = rng.beta(1.2, 12.0, size)
        age = rng.normal(45.0, 14.0, size)
        truth = np.where((age > 60.0) & (age < 65.0), np.minimum(1.25 * p, 1.0), p)
        codes = (LEVELS * rng.random(size) ** 1.5).astype(np.int32)
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


def measured(code: str) -> dict:
    """Run code in a process of its own: what it prints as JSON, its seconds, its peak memory."""
    head = "import json, resource, sys, time; start = time.perf_counter()\n"
    tail = (
        "\nusage = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print('\\n' + json.dumps({**found, 'wall_s': time.perf_counter() - start, "
        "'cpu_s': usage.ru_utime + usage.ru_stime, 'peak_mb': usage.ru_maxrss / 1024}))"
    )
    done = subprocess.run([sys.executable, "-c", head + code + tail], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


DECODE = """
import pyarrow.parquet as pq
def decode(columns):
    file = pq.ParquetFile({path!r}, pre_buffer=False, read_dictionary=['advertiser'])
    begin = time.process_time()
    rows = sum(file.read_row_group(g, columns=columns, use_threads=True).num_rows for g in range(file.num_row_groups))
    return rows, time.process_time() - begin
rows, seconds = decode({columns!r})
found = {{'rows': rows, 'decode_cpu_s': seconds}}
"""

AUDIT = """
import miscal
found_audit = miscal.audit({path!r}, outcome='y', probability='p', memory={memory!r})
found = {{
    'passes': found_audit.document['settings']['stream']['passes'],
    'kuiper': found_audit.score['kuiper'],
    'expected': found_audit.score['expected'],
    'first_finding': found_audit.findings[0].where,
    'findings': [f.where for f in found_audit.findings if f.real][:5],
    'levels': len(found_audit.document['sections']['field'][0]['table']['label']),
}}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--quick", action="store_true", help="two million rows; nothing is recorded")
    parser.add_argument("--keep", action="store_true", help="leave the table where it was written")
    arguments = parser.parse_args()
    rows = 2_000_000 if arguments.quick else arguments.rows
    path = arguments.folder / f"stream_{rows}.parquet"
    begin = time.perf_counter()
    if not path.exists():
        generate(path, rows)
    generated = time.perf_counter() - begin
    try:
        decode = measured(DECODE.format(path=str(path), columns=COLUMNS))
        audit = measured(AUDIT.format(path=str(path), memory=arguments.memory))
        size = path.stat().st_size
    finally:
        if not arguments.keep:
            path.unlink(missing_ok=True)
    record = {
        "rows": rows,
        "file_mb": size / 1e6,
        "memory": arguments.memory,
        "generate_s": generated,
        "decode": decode,
        "audit": audit,
        "ratio_cpu": audit["cpu_s"] / (audit["passes"] * decode["decode_cpu_s"]),
        "nanoseconds_a_row": 1e9 * audit["cpu_s"] / rows,
        "bytes_a_row": size / rows,
        "load": os.getloadavg()[0],
        "processors": os.cpu_count(),
    }
    print(json.dumps(record, indent=1))
    if not arguments.quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "stream_large.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / "stream_large.md").write_text(markdown(record))


def markdown(record: dict) -> str:
    decode, audit = record["decode"], record["audit"]
    lines = [
        "| what | value |",
        "|---|---|",
        f"| rows | {record['rows']:,} ({audit['levels']:,} levels, four numeric columns) |",
        f"| file | {record['file_mb']:,.0f} MB, {record['bytes_a_row']:.1f} bytes a row |",
        f"| decoding all columns once (pyarrow) | {decode['decode_cpu_s']:.1f} s of processor time |",
        f"| audit: passes | {audit['passes']} |",
        f"| audit: processor time | {audit['cpu_s']:.1f} s ({record['nanoseconds_a_row']:.0f} ns a row) |",
        f"| audit: elapsed | {audit['wall_s']:.1f} s (load {record['load']:.0f}, {record['processors']} processors) |",
        f"| audit: peak memory | {audit['peak_mb']:.0f} MB (ceiling {record['memory']}) |",
        f"| processor time over (passes x decoding) | {record['ratio_cpu']:.2f} |",
        f"| first finding | {audit['first_finding']} |",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

"""Flip single bits of Parquet files: how many are refused, how many change nothing, how many are read wrongly.

    python -m studies.damaged_parquet [--quick] [--flips 450] [--footers 1500]

Files with and without page checksums (`write_page_checksum`), each in several codecs. What is read is compared with
what was written, value by value. The footers' statistics are asked for in processes of their own: pyarrow ends some.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from miscal.data.errors import MiscalError
from miscal.data.files import TableFile

RESULTS = Path(__file__).parent / "results"
CODECS = ("none", "snappy", "zstd")


def table(rows: int = 2000) -> pa.Table:
    rng = np.random.default_rng(0)
    p = rng.random(rows)
    level = pa.array([f"s{i}" for i in range(30)]).take(pa.array(rng.integers(0, 30, rows)))
    return pa.table({"y": (rng.random(rows) < p).astype(np.int64), "p": p, "x": rng.normal(size=rows), "g": level})


def flipped(content: bytes, chance: random.Random) -> bytes:
    made = bytearray(content)
    made[chance.randrange(4, len(made) - 4)] ^= 1 << chance.randrange(8)
    return bytes(made)


def count(flips: int, checksum: bool, folder: Path) -> dict[str, int]:
    whole, counted = table(), {"refused": 0, "nothing changed": 0, "read wrongly": 0}
    for place, codec in enumerate(CODECS):
        path = folder / "t.parquet"
        pq.write_table(whole, path, compression=codec, write_page_checksum=checksum, row_group_size=500)
        content, chance = path.read_bytes(), random.Random(place)
        for _ in range(flips // len(CODECS)):
            path.write_bytes(flipped(content, chance))
            try:
                found = TableFile(path).load()
                same = found.equals(whole)
            except MiscalError:
                counted["refused"] += 1
            else:
                counted["nothing changed" if same else "read wrongly"] += 1
    return counted


def ended(flips: int, folder: Path) -> int:
    """Of single bits flipped in a footer, how many end the process that asks for the least and greatest values."""
    path, killed, chance = folder / "t.parquet", 0, random.Random(2)
    pa.set_cpu_count(1)  # of many threads none would live on in the other process
    pq.write_table(table(), path, row_group_size=500)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for _ in range(flips):
        made = bytearray(content)
        made[chance.randrange(footer, len(made) - 8)] ^= 1 << chance.randrange(8)
        path.write_bytes(made)
        if (process := os.fork()) == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            with contextlib.suppress(Exception), pq.ParquetFile(path) as file:
                groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
                found = [group.column(j).statistics for group in groups for j in range(group.num_columns)]
                [(one.min, one.max) for one in found if one is not None and one.has_min_max]
            os._exit(0)
        killed += os.WIFSIGNALED(os.waitpid(process, 0)[1])
    return killed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--flips", type=int, default=450)
    parser.add_argument("--footers", type=int, default=1500)
    parser.add_argument("--quick", action="store_true", help="a tenth of the flips; nothing is written")
    options = parser.parse_args()
    flips, footers = (number // 10 if options.quick else number for number in (options.flips, options.footers))
    with tempfile.TemporaryDirectory() as name:
        record: dict = {
            word: count(flips, checksum, Path(name)) for word, checksum in (("without", False), ("with", True))
        }
        record |= {"flips": flips, "footers": footers, "processes_ended": ended(footers, Path(name))}
    lines = [f"| page checksums | single-bit flips | {' | '.join(record['with'])} |", "|---|---|---|---|---|"]
    for word in ("without", "with"):
        lines += [f"| {word} | {flips} | {' | '.join(str(n) for n in record[word].values())} |"]
    lines += [
        "",
        f"Of {footers:,} single bits flipped in a footer, {record['processes_ended']} end the process in which",
    ]
    lines[-1] += " pyarrow is asked for the least and greatest values that stand there."
    print("\n".join(lines))
    if not options.quick:
        (RESULTS / "damaged_parquet.json").write_text(json.dumps(record, indent=1) + "\n")
        (RESULTS / "damaged_parquet.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()

"""Where the processor time of a streamed audit goes: a table of passes and stages.

    python -m studies.stream_stages FILE --memory 1GB
    python -m studies.stream_stages --quick

The audit runs in this process, on one thread, with a clock around each stage (the processor time of the thread that
works). `studies/stream_large.py` runs it and records what it prints. What is left of a pass after its stages is the
interpreter between them.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

METHODS = (
    ("miscal.aggregate.column_roles", "ColumnRoles", "open", "validation"),
    ("miscal.aggregate.column_roles", "Batch", "numbers", "columns as numbers"),
    ("miscal.aggregate.column_roles", "Batch", "column", "columns as levels"),
    ("miscal.cells.ranges", "EdgeIndex", "codes", "ranges of values"),
    ("miscal.aggregate.requests", "RangeCoder", "put", "cells read off ranges"),
    ("miscal.aggregate.requests", "LevelCoder", "put", "cells of levels"),
    ("miscal.aggregate.exact_sums", "ExactCellSums", "add", "what a row gives, into all tallies"),
    ("miscal.aggregate.sample", "SampleState", "_append", "rows of the sample"),
)


class Clock:
    """Processor seconds by pass and stage; stages inside stages are told apart."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[int, str], float] = defaultdict(float)
        self.part = 0
        self.inner = [0.0]

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*arguments: Any, **options: Any) -> Any:
            begin = time.thread_time()
            self.inner.append(0.0)
            try:
                return function(*arguments, **options)
            finally:
                spent = time.thread_time() - begin
                self.seconds[self.part, stage] += spent - self.inner.pop()
                self.inner[-1] += spent

        return wrapped


def watch(clock: Clock) -> None:
    """Put clocks around the stages."""
    from importlib import import_module

    for place, owner, name, stage in METHODS:
        made = getattr(import_module(place), owner)
        setattr(made, name, clock.timed(stage, getattr(made, name)))
    source, files = import_module("miscal.aggregate.source"), import_module("miscal.data.files")
    source.read_ahead = iter  # decode on the thread that is timed
    read, run = files.TableFile.tables, source.Source.run

    def decoded(self: Any, *arguments: Any) -> Iterator[Any]:
        tables = read(self, *arguments)
        step = clock.timed("decoding (pyarrow)", functools.partial(next, tables, None))
        while (table := step()) is not None:
            yield table

    passes: list[list[str]] = []

    def passing(self: Any, start: Any) -> Any:
        passes.append(list(start().columns))
        clock.part = len(passes)
        try:
            return clock.timed("between the stages", run)(self, start)
        finally:
            clock.part = 0

    files.TableFile.tables, source.Source.run = decoded, passing
    clock.passes = passes  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", help="a Parquet file with the columns y and p")
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--effort", default="quick", help="quick: no pairs of columns and no subpopulations")
    parser.add_argument("--quick", action="store_true", help="few generated rows in place of a file")
    arguments = parser.parse_args()
    if arguments.quick:
        from studies.stream_large import QUICK_MEMORY, QUICK_ROWS, generate

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.parquet"
            generate(path, QUICK_ROWS)
            stages_of(str(path), QUICK_MEMORY, arguments.effort)
    elif arguments.file:
        stages_of(arguments.file, arguments.memory, arguments.effort)
    else:
        parser.error("name a FILE, or ask for --quick")


def stages_of(file: str, memory: str, effort: str) -> None:
    """Audit a file and print the table of stages, at last as JSON."""
    os.environ["MISCAL_THREADS"] = "1"
    begin = time.process_time()
    import miscal

    clock = Clock()
    watch(clock)
    audit = clock.timed("everything else", miscal.audit)
    audit(file, outcome="y", probability="p", memory=memory, effort=effort)
    total = time.process_time() - begin
    import pyarrow.parquet as pq

    rows = pq.ParquetFile(file).metadata.num_rows
    clock.seconds[0, "imports"] = total - sum(clock.seconds.values())
    stages = [
        {"pass": part, "stage": stage, "cpu_s": spent, "ns_a_row": 1e9 * spent / rows}
        for (part, stage), spent in sorted(clock.seconds.items(), key=lambda item: (item[0][0] or 99, -item[1]))
    ]
    for entry in stages:
        print(f"{entry['pass'] or '-':>4}  {entry['stage']:<40} {entry['cpu_s']:8.3f} s {entry['ns_a_row']:7.1f} ns")
    print(json.dumps({"rows": rows, "cpu_s": total, "passes": clock.passes, "stages": stages}))  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()

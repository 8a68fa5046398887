"""How far the engines differ from memory: the largest relative difference over all carriers of one difficult table.

    python studies/engines_equality.py [--quick | --no-spark]

Writes studies/results/engines_equality.md. The table is that of tests/aggregate: ties, missing values, rare levels and
every kind of weight. An engine that is not installed is listed with the reason why it was not run. `--no-spark` leaves
Spark out (it takes minutes), and then nothing is written; `--quick` also takes fewer rows.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
RESULTS = Path(__file__).parent / "results"
ROWS, QUICK_ROWS = 24_000, 10_000
WEIGHTS = (None, "whole_weight", "real_weight")
HEAD = """Largest relative difference to memory over all carriers of a table with ties, missing values, rare levels and
weights (`tests/aggregate/tables.py`, {rows:,} rows): 5,000 ranges of the score, three variables (3 to 3,000 ranges) and
two fields. 0 means the same bits. Written by `studies/engines_equality.py`.

| engine | unweighted | whole-number weights | other weights |
|---|---|---|---|
"""


def streamed(made: Any, folder: Path, group: int, batch: int, threads: int) -> Any:
    from miscal.aggregate.source import open_source
    from tests.aggregate import tables

    source = open_source(tables.write(made, folder / f"t{group}.parquet", group))
    source.batch_rows, source.threads = batch, threads
    return source


def lazy(library: str, path: Path) -> Any:
    """The table as a lazy frame of a library; an ImportError where it is not installed."""
    from miscal.aggregate.source import open_source

    makers: dict[str, Callable[[Any], Any]] = {
        "polars": lambda module: module.scan_parquet(path),
        "duckdb": lambda module: module.connect().read_parquet(str(path)),
        "dask.dataframe": lambda module: module.read_parquet(path, split_row_groups=True),
        "pyarrow.dataset": lambda module: module.dataset(path),
    }
    source = open_source(makers[library](import_module(library)))
    source.batch_rows, source.threads = 5_000, 2
    return source


def spark_session() -> Any:
    """A cluster of two executors on this machine."""
    if shutil.which("java") is None:
        raise ImportError("no Java on this machine")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("miscal-equality")
    for name, value in {
        "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def engines(made: Any, folder: Path, *, spark: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names of engines, and what makes a runner of each."""
    for words, sizes in (
        ("stream, one thread, one row group", (1 << 20, 1 << 20, 1)),
        ("stream, two threads, row groups of 4,096", (4_096, 1 << 20, 2)),
        ("stream, three threads, row groups of 9,000 in batches of 1,000", (9_000, 1_000, 3)),
    ):
        yield words, lambda sizes=sizes: streamed(made, folder, *sizes)
    path = folder / "t4096.parquet"
    for words, library in (
        ("polars LazyFrame", "polars"),
        ("DuckDB relation", "duckdb"),
        ("Arrow dataset", "pyarrow.dataset"),
        ("Dask frame", "dask.dataframe"),
    ):
        yield words, lambda library=library: lazy(library, path)
    if spark:

        def cluster() -> Any:
            from miscal.aggregate.spark import SparkSource

            return SparkSource(spark_session().read.parquet(str(path)).repartition(6))

        yield "Spark, two executors, 6 partitions", cluster


def compared(made: Any, runner: Callable[[], Any]) -> list[str]:
    """The largest difference by kind of weight, or why there is none."""
    from tests.aggregate import tables

    cells = []
    for weight in WEIGHTS:
        try:
            engine = runner()
        except ImportError as error:
            return [f"not run: {error}", "", ""]
        off = max(tables.differences(made, engine, weight))
        cells.append(f"{off:.1g}" if off else "0")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-spark", action="store_true", help="leave Spark out; nothing is written")
    parser.add_argument("--quick", action="store_true", help="fewer rows and no Spark; nothing is written")
    arguments = parser.parse_args()
    spark = not (arguments.no_spark or arguments.quick)
    rows = QUICK_ROWS if arguments.quick else ROWS
    from tests.aggregate import tables

    made = tables.table(rows)
    text = HEAD.format(rows=rows)
    print(text, end="")
    with tempfile.TemporaryDirectory() as name:
        for words, runner in engines(made, Path(name), spark=spark):
            line = f"| {words} | " + " | ".join(compared(made, runner)) + " |\n"
            print(line, end="", flush=True)
            text += line
    if spark:
        (RESULTS / "engines_equality.md").write_text(text)


if __name__ == "__main__":
    main()

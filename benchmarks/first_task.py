"""What a worker pays the first time: `python benchmarks/first_task.py [--quick]`, where Spark and Dask are installed.

One Python worker of Spark and one of Dask, both new, take the same task twice: a result by score of 100,000 rows. Both
report the CPU seconds that they spent on it, imports included. Nothing is compiled there: what the first task costs
more is imports. A quick run leaves Spark out.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import harness

ROWS = 100_000


def task(_: int) -> tuple[int, float, bool]:
    """Process, CPU seconds, and whether a compiler is loaded."""
    import os
    import sys
    import time

    start = time.process_time()
    import numpy as np

    import miscal

    p, chance = np.random.default_rng(0).random((2, ROWS))
    assert miscal.by_score(miscal.Predictions(chance < p, p)).p_value > 0.0
    return os.getpid(), time.process_time() - start, "numba" in sys.modules


def on_spark(times: int) -> list[tuple[int, float, bool]]:
    """Tasks of one worker, one after the other."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    found = [session.sparkContext.parallelize([place], 1).map(task).collect()[0] for place in range(times)]
    session.stop()
    return found


def on_dask(times: int) -> list[tuple[int, float, bool]]:
    """Tasks of one worker, one after the other."""
    import dask

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, dask.config.set(pool=pool):
        return [dask.delayed(task)(place).compute(scheduler="processes") for place in range(times)]


def main() -> None:
    quick, rows, runs = "--quick" in sys.argv, [], {"Dask": on_dask}
    if not quick:
        harness.need("Java")
        runs = {"Spark": on_spark, **runs}
    for name, run in runs.items():
        found = run(2 if quick else 3)
        assert len({process for process, _, _ in found}) == 1, "the worker was not used again"
        first, second = found[0][1], min(seconds for _, seconds, _ in found[1:])
        compiler = "a compiler was loaded" if any(loaded for _, _, loaded in found) else "no compiler was loaded"
        rows.append({
            "operation": f"first task of a new worker, {name}", "size": ROWS, "ours_cpu_s": first,
            "peer": "a later task", "peer_cpu_s": second, "ratio": second / first, "note": compiler,
        })  # fmt: skip
    print(harness.table(rows))
    if not quick:
        harness.write("first_task", rows)


if __name__ == "__main__":
    main()

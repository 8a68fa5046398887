"""Field-level calibration against numpy, polars, DuckDB, pandas and fairlearn; ILPS and Neural Calibration by rate.

Run as a script to print the table. CPU seconds of the process, the best of a few interleaved repeats; nothing here is
an assertion. `MISCAL_THREADS=1` and one polars/DuckDB thread make the comparison core for core; the CPU time of all
threads is counted in any case.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("MISCAL_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np

from miscal.metrics import field_calibration_error


def cpu_seconds(functions, repeats):
    """Best CPU seconds of each function, called in turn."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.process_time()
            function()
            best[name] = min(best[name], time.process_time() - start)
    return best


def made(rows, levels, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(rows) ** 2
    y = (rng.random(rows) < p).astype(np.uint8)
    return rng.integers(0, levels, rows, dtype=np.int32), p, y


def peers_of_codes(z, p, y, levels):
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    rows = z.size
    frame, table = pl.DataFrame({"z": z, "p": p, "y": y}), pa.table({"z": z, "p": p, "y": y})
    framed = pd.DataFrame({"z": z, "p": p, "y": y})
    link = duckdb.connect(config={"threads": 1})
    link.register("t", table)

    def three():
        off = np.bincount(z, weights=y - p, minlength=levels)
        np.bincount(z, weights=y, minlength=levels)
        np.bincount(z, minlength=levels)
        return np.abs(off).sum() / rows

    wide = z.astype(np.int64)
    gap = (pl.col("y").cast(pl.Float64) - pl.col("p")).sum().alias("d")
    return {
        "np.bincount, three sums": three,
        "np.bincount, one sum, int64 codes": lambda: np.abs(np.bincount(wide, y - p, levels)).sum() / rows,
        "polars group_by": lambda: frame.lazy().group_by("z").agg(gap).select(pl.col("d").abs().sum() / rows).collect(),
        "DuckDB group by": lambda: link.sql(
            "select sum(abs(d)) from (select sum(y - p) d from t group by z)"
        ).fetchall(),
        "pandas groupby": lambda: (framed.y - framed.p).groupby(framed.z, sort=False).sum().abs().sum() / rows,
    }


def code_rows(quick):
    size, levels = (10**6, 10**5) if quick else (10**7, 10**5)
    z, p, y = made(size, levels)
    functions = {"ours": lambda: field_calibration_error(y, p, z), **peers_of_codes(z, p, y, levels)}
    times = cpu_seconds(functions, 2 if quick else 4)
    goals = {"np.bincount, three sums": 3.0, "np.bincount, one sum, int64 codes": None}
    return [
        row(
            "Field-ECE, integer codes",
            f"{size:.0e} x {levels:.0e} levels",
            times["ours"],
            peer,
            times[peer],
            goals.get(peer, 5.0),
        )
        for peer in functions
        if peer != "ours"
    ]


def row(operation, size, ours, peer, theirs, goal, note=""):
    ratio = None if theirs is None else theirs / ours
    return {
        "operation": operation,
        "size": size,
        "ours_cpu_s": ours,
        "peer": peer,
        "peer_cpu_s": theirs,
        "ratio": ratio,
        "goal": goal,
        "note": note,
    }


def string_rows(quick):
    """From text in Parquet to the error, end to end."""
    import duckdb
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    size, levels = (5 * 10**5, 10**4) if quick else (5 * 10**6, 10**4)
    z, p, y = made(size, levels)
    names = pa.array([f"advertiser {k:06d}" for k in range(levels)])
    link = duckdb.connect(config={"threads": 1})
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.parquet")
        pq.write_table(pa.table({"z": names.take(pa.array(z)), "p": p, "y": y}), path, row_group_size=1 << 20)

        def ours():
            read = pq.read_table(path, use_threads=False, read_dictionary=["z"])
            return field_calibration_error(read["y"], read["p"], read["z"])

        gap = (pl.col("y").cast(pl.Float64) - pl.col("p")).sum().alias("d")
        functions = {
            "ours": ours,
            "polars scan, streaming": lambda: (
                pl.scan_parquet(path)
                .group_by("z")
                .agg(gap)
                .select(pl.col("d").abs().sum() / size)
                .collect(engine="streaming")
            ),
            "DuckDB read_parquet": lambda: link.sql(
                f"select sum(abs(d)) from (select sum(y - p) d from read_parquet('{path}') group by z)"
            ).fetchall(),
        }
        times = cpu_seconds(functions, 2 if quick else 3)
    return [
        row("Field-ECE, text in Parquet", f"{size:.0e} x {levels:.0e} levels", times["ours"], peer, times[peer], 1.0)
        for peer in functions
        if peer != "ours"
    ]


def fairlearn_rows(quick):
    size, levels = (10**5, 500) if quick else (10**6, 500)
    z, p, y = made(size, levels)
    try:
        from fairlearn.metrics import MetricFrame
    except ImportError:
        return [
            row(
                "Field-ECE, fairlearn",
                f"{size:.0e} x {levels}",
                None,
                "fairlearn MetricFrame",
                None,
                100.0,
                "not installed",
            )
        ]

    def theirs():
        frame = MetricFrame(metrics={"d": lambda a, b: (a - b).sum()}, y_true=y, y_pred=p, sensitive_features=z)
        return frame.by_group["d"].abs().sum() / size

    times = cpu_seconds({"ours": lambda: field_calibration_error(y, p, z), "theirs": theirs}, 2)
    return [
        row(
            "Field-ECE", f"{size:.0e} x {levels} levels", times["ours"], "fairlearn MetricFrame", times["theirs"], 100.0
        )
    ]


def fit_rows(quick):
    """Line-plot scaling beside scikit-learn's isotonic regression, and a whole result of 1e5 levels."""
    from sklearn.isotonic import IsotonicRegression

    import miscal
    from miscal.recalibrate import IsotonicLinePlotScaling

    size = 10**5 if quick else 10**6
    z, p, y = made(size, size // 10)
    IsotonicLinePlotScaling().fit(p[:1000], y[:1000])
    functions = {
        "ours": lambda: IsotonicLinePlotScaling().fit(p, y),
        "theirs": lambda: IsotonicRegression().fit(p, y),
    }
    times = cpu_seconds(functions, 2)
    data = miscal.Predictions(y, p, columns={"z": z})
    whole = cpu_seconds({"ours": lambda: miscal.by_field(data, "z")}, 1)
    note = "goal: within 2 s; the peer fits another map"
    return [
        row("ILPS fit", f"{size:.0e}", times["ours"], "scikit-learn isotonic", times["theirs"], None, note),
        row("by_field, every test", f"{size:.0e} x {size // 10:.0e} levels", whole["ours"], "", None, None, "no peer"),
    ]


def rows(quick: bool = False) -> list[dict]:
    z, p, y = made(1000, 10)
    field_calibration_error(y, p, z)  # compile
    return [*code_rows(quick), *string_rows(quick), *fairlearn_rows(quick), *fit_rows(quick)]


def shown(table):
    def text(value):
        return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

    names = list(table[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return "\n".join(lines + ["| " + " | ".join(text(entry[name]) for name in names) + " |" for entry in table])


if __name__ == "__main__":
    print(shown(rows(quick="--quick" in sys.argv)))

"""Field-level calibration against numpy, polars, DuckDB, pandas and fairlearn; memory of a stream; line-plot scaling.

Peers are given the one sum of y - p that Field-ECE needs, and in rows of their own the three sums that Field-ECE and
Field-RCE need together, which is what ours always makes. polars and DuckDB run on one thread, as ours does.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import harness
import numpy as np

from miscal.metrics import field_calibration_error

EPSILON = 0.01


def made(rows, levels, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.random(rows) ** 2
    y = (rng.random(rows) < p).astype(np.uint8)
    return rng.integers(0, levels, rows, dtype=np.int32), p, y


def one_thread():
    import duckdb

    return duckdb.connect(config={"threads": 1})


def one_sum(z, p, y, levels):
    """Peers that make the sum of y - p alone; numpy makes three."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    rows = z.size
    frame, table = pl.DataFrame({"z": z, "p": p, "y": y}), pa.table({"z": z, "p": p, "y": y})
    framed = pd.DataFrame({"z": z, "p": p, "y": y})
    link = one_thread()
    link.register("t", table)
    wide = z.astype(np.int64)
    gap = (pl.col("y").cast(pl.Float64) - pl.col("p")).sum().alias("d")
    return {
        "np.bincount, three sums": lambda: three_bincounts(z, p, y, levels),
        "np.bincount, one sum, int64 codes": lambda: np.abs(np.bincount(wide, y - p, levels)).sum() / rows,
        "polars group_by": lambda: frame.lazy().group_by("z").agg(gap).select(pl.col("d").abs().sum() / rows).collect(),
        "DuckDB group by": lambda: link.sql(
            "select sum(abs(d)) from (select sum(y - p) d from t group by z)"
        ).fetchall(),
        "pandas groupby": lambda: (framed.y - framed.p).groupby(framed.z, sort=False).sum().abs().sum() / rows,
    }


def three_bincounts(z, p, y, levels):
    off = np.abs(np.bincount(z, weights=y - p, minlength=levels))
    events, size = np.bincount(z, weights=y, minlength=levels), np.bincount(z, minlength=levels)
    relative = np.divide(size * off, events + EPSILON * size, out=np.zeros(levels), where=size > 0)
    return off.sum() / z.size, relative.sum() / z.size


def three_sums(z, p, y):
    """Peers that make rows, events and the sum of y - p, and both errors from them."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    rows = z.size
    frame, table = pl.DataFrame({"z": z, "p": p, "y": y}), pa.table({"z": z, "p": p, "y": y})
    framed = pd.DataFrame({"z": z, "p": p, "y": y})
    link = one_thread()
    link.register("t", table)
    off, events, size = pl.col("d").abs(), pl.col("events"), pl.col("size")

    def by_polars():
        sums = (
            (pl.col("y").cast(pl.Float64) - pl.col("p")).sum().alias("d"),
            pl.col("y").cast(pl.Int64).sum().alias("events"),
            pl.len().alias("size"),
        )
        relative = (size * off / (events + EPSILON * size)).sum() / rows
        return frame.lazy().group_by("z").agg(*sums).select(off.sum() / rows, relative.alias("relative")).collect()

    def by_duckdb():
        return link.sql(
            f"select sum(abs(d)), sum(n * abs(d) / (e + {EPSILON} * n)) "
            "from (select sum(y - p) d, sum(y) e, count(*) n from t group by z)"
        ).fetchall()

    def by_pandas():
        grouped = pd.DataFrame({"d": framed.y - framed.p, "y": framed.y}).groupby(framed.z, sort=False)
        sums, count = grouped.sum(), grouped.size()
        return sums.d.abs().sum() / rows, (count * sums.d.abs() / (sums.y + EPSILON * count)).sum() / rows

    return {"polars group_by": by_polars, "DuckDB group by": by_duckdb, "pandas groupby": by_pandas}


def code_rows(quick):
    size, levels = (10**5, 10**4) if quick else (10**7, 10**5)
    z, p, y = made(size, levels)
    peers = one_sum(z, p, y, levels)
    goals = dict.fromkeys(peers, 5.0) | {"np.bincount, three sums": 3.0, "np.bincount, one sum, int64 codes": np.nan}
    options = {"repeats": 1 if quick else 6, "note": f"{levels:,} levels"}

    def ours():
        return field_calibration_error(y, p, z)

    found = harness.against("Field-ECE from integer codes; peers: one sum", size, ours, peers, goals=goals, **options)
    peers = three_sums(z, p, y)
    return found + harness.against(
        "Field-ECE from integer codes; peers: the three sums of Field-ECE and Field-RCE",
        size,
        ours,
        peers,
        goals=dict.fromkeys(peers, 5.0),
        **options,
    )


def text_table(size, levels, path):
    """Write outcomes, probabilities and a field of text, a million rows a row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = pa.array([f"advertiser {k:06d}" for k in range(levels)])
    group = 1 << 20
    writer = None
    for start in range(0, size, group):
        z, p, y = made(min(group, size - start), levels, seed=start)
        part = pa.table({"z": names.take(pa.array(z)), "p": p, "y": y})
        writer = writer or pq.ParquetWriter(path, part.schema)
        writer.write_table(part, row_group_size=group)
    writer.close()


def string_rows(quick):
    """From text in Parquet to the error, end to end."""
    import polars as pl
    import pyarrow.parquet as pq

    size, levels = (10**5, 10**3) if quick else (5 * 10**6, 10**4)
    link = one_thread()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.parquet")
        text_table(size, levels, path)

        def ours():
            # Text in Parquet mostly is a dictionary already: its codes are read, and no text is made from them.
            read = pq.ParquetFile(path, read_dictionary=["z"], memory_map=True).read(use_threads=False)
            return field_calibration_error(read["y"], read["p"], read["z"])

        gap = (pl.col("y").cast(pl.Float64) - pl.col("p")).sum().alias("d")
        lazy = pl.scan_parquet(path).group_by("z").agg(gap).select(pl.col("d").abs().sum() / size)
        peers = {
            "polars scan, streaming": lambda: lazy.collect(engine="streaming"),
            "DuckDB read_parquet": lambda: link.sql(
                f"select sum(abs(d)) from (select sum(y - p) d from read_parquet('{path}') group by z)"
            ).fetchall(),
        }
        return harness.against(
            "Field-ECE, text in Parquet, end to end; peers: one sum",
            size,
            ours,
            peers,
            goals=dict.fromkeys(peers, 1.0),
            repeats=1 if quick else 8,
            note=f"{levels:,} levels",
        )


def stream_rows(quick):
    """A field of text that is streamed from Parquet: what is kept grows with the levels, not with the rows."""
    from miscal.aggregate.column_roles import ColumnRoles
    from miscal.auditing.summary_files import tally_of

    levels = 10**3 if quick else 10**5
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for size in (10**4, 10**5) if quick else (10**6, 10**7):
            path = str(Path(folder) / f"{size}.parquet")
            text_table(size, levels, path)

            def streamed(path=path):
                return tally_of(path, ColumnRoles(outcome="y", probability="p"), by=["z"], memory="600MB")

            note = f"{levels:,} levels, all that an audit of the field keeps; peak memory to compare over rows"
            found += harness.against("field streamed from Parquet", size, streamed, {}, repeats=1, note=note)
    return found


def fairlearn_rows(quick):
    size, levels = (10**4, 500) if quick else (10**6, 500)
    z, p, y = made(size, levels)
    note = f"{levels} levels"
    if harness.lacks("package fairlearn"):
        return harness.against(
            "Field-ECE", size, lambda: field_calibration_error(y, p, z), {}, note=f"{note}; fairlearn is not installed"
        )

    from fairlearn.metrics import MetricFrame

    def theirs():
        frame = MetricFrame(metrics={"d": lambda a, b: (a - b).sum()}, y_true=y, y_pred=p, sensitive_features=z)
        return frame.by_group["d"].abs().sum() / size

    return harness.against(
        "Field-ECE",
        size,
        lambda: field_calibration_error(y, p, z),
        {"fairlearn MetricFrame": theirs},
        goals={"fairlearn MetricFrame": 100.0},
        repeats=1 if quick else 6,
        note=note,
    )


def fit_rows(quick):
    """Line-plot scaling beside scikit-learn's isotonic regression, and a whole result of 1e5 levels."""
    from sklearn.isotonic import IsotonicRegression

    import miscal
    from miscal.recalibrate import IsotonicLinePlotScaling

    size = 10**4 if quick else 10**6
    z, p, y = made(size, size // 10)
    data = miscal.Predictions(y, p, columns={"z": z})
    return [
        *harness.against(
            "line-plot scaling, fit",
            size,
            lambda: IsotonicLinePlotScaling().fit(p, y),
            {"scikit-learn isotonic": lambda: IsotonicRegression().fit(p, y)},
            repeats=2,
            note="goal: within 2 s; the peer fits another map",
        ),
        *harness.against(
            "by_field, every test",
            size,
            lambda: miscal.by_field(data, "z"),
            {},
            repeats=1,
            note=f"{size // 10:,} levels; no peer",
        ),
    ]


def rows(quick: bool = False) -> list[dict]:
    return [
        *code_rows(quick),
        *string_rows(quick),
        *stream_rows(quick),
        *fairlearn_rows(quick),
        *fit_rows(quick),
    ]


if __name__ == "__main__":
    harness.main("field", rows)

"""Databases that the SQL of fitted maps is run in: each takes columns and expressions, and gives numbers back."""

from __future__ import annotations

import contextlib
import math
import os
import pwd
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Run = Callable[[dict[str, Any], Sequence[str]], np.ndarray]  # columns, expressions -> (rows, expressions), NaN for NULL
DATABASES = ["duckdb", "sqlite", "postgres"]
PLACE = "the row's number"
FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def plain(value: Any) -> Any:
    """A value as Python has it; NaN stays."""
    return value.item() if isinstance(value, np.generic) else value


def in_duckdb(columns: dict[str, Any], expressions: Sequence[str]) -> np.ndarray:
    import duckdb
    import pyarrow as pa

    connection = duckdb.connect()
    arrays = {name: pa.array(values, from_pandas=False) for name, values in columns.items()}
    connection.register("t", pa.table(arrays | {PLACE: np.arange(len(next(iter(columns.values()))))}))
    return numbers(connection.execute(f'SELECT {", ".join(expressions)} FROM t ORDER BY "{PLACE}"').fetchall())


def in_sqlite(columns: dict[str, Any], expressions: Sequence[str]) -> np.ndarray:
    connection = sqlite3.connect(":memory:")
    names = ", ".join(quoted(name) for name in [*columns, PLACE])
    connection.execute(f"CREATE TABLE t ({names})")
    rows = [[*map(plain, row), place] for place, row in enumerate(zip(*columns.values(), strict=True))]
    connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * (len(columns) + 1))})", rows)
    try:
        return numbers(connection.execute(f'SELECT {", ".join(expressions)} FROM t ORDER BY "{PLACE}"').fetchall())
    except sqlite3.OperationalError as error:
        if "no such function" not in str(error):
            raise
        pytest.skip(f"this SQLite has no mathematical functions: {error}")


@contextlib.contextmanager
def spark() -> Iterator[Run]:
    """A session of its own on one core; skipped with a line where there is no Java."""
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    from pyspark.sql import SparkSession

    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    session = SparkSession.builder.master("local[1]").config(map=quiet).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield lambda columns, expressions: in_spark(session, columns, expressions)
    finally:
        session.stop()


def in_spark(session: Any, columns: dict[str, Any], expressions: Sequence[str]) -> np.ndarray:
    kinds = {name: "string" if kind_of(values) == "text" else "double" for name, values in columns.items()}
    declared = ", ".join(f"`{name}` {kind}" for name, kind in [*kinds.items(), (PLACE, "long")])
    rows = [(*map(plain, row), place) for place, row in enumerate(zip(*columns.values(), strict=True))]
    session.createDataFrame(rows, declared).createOrReplaceTempView("t")
    return numbers(session.sql(f"SELECT {', '.join(expressions)} FROM t ORDER BY `{PLACE}`").collect())


@contextlib.contextmanager
def postgres() -> Iterator[Run]:
    """A server of its own, in a folder that goes with it; skipped with a line where there is none."""
    if not FOLDERS:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    user = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="miscal_postgres_", dir="/tmp"))
    if user:
        known = pwd.getpwnam("postgres")
        os.chown(folder, known.pw_uid, known.pw_gid)
    tool = {"cwd": folder, "check": True, "capture_output": True, "text": True, **user}
    data, options = folder / "data", f"-c listen_addresses='' -k {folder}"
    subprocess.run([FOLDERS[0] / "initdb", "-D", data, "-U", "miscal", "-A", "trust", "-E", "UTF8"], **tool)
    started = {**tool, "capture_output": False, "stdout": subprocess.DEVNULL}  # the server keeps what it inherits
    subprocess.run([FOLDERS[0] / "pg_ctl", "-D", data, "-w", "-o", options, "-l", folder / "log", "start"], **started)
    try:
        yield lambda columns, expressions: in_postgres(folder, columns, expressions)
    finally:
        subprocess.run([FOLDERS[0] / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **started)
        shutil.rmtree(folder, ignore_errors=True)


def in_postgres(folder: Path, columns: dict[str, Any], expressions: Sequence[str]) -> np.ndarray:
    kinds = [kind_of(values) for values in columns.values()]
    declared = [f"{quoted(name)} {kind}" for name, kind in zip(columns, kinds, strict=True)]
    rows = ["\t".join([*map(copied, row), str(i)]) for i, row in enumerate(zip(*columns.values(), strict=True))]
    script = [
        f'CREATE TEMP TABLE t ({", ".join(declared)}, "{PLACE}" int);',
        "COPY t FROM STDIN;", *rows, "\\.",
        f'COPY (SELECT {", ".join(expressions)} FROM t ORDER BY "{PLACE}") TO STDOUT;',
    ]  # fmt: skip
    psql = [FOLDERS[0] / "psql", "-h", folder, "-U", "miscal", "-d", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1"]
    done = subprocess.run(
        psql, input="\n".join(script) + "\n", capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr[:2000]
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return numbers([[None if cell == "\\N" else float(cell) for cell in line] for line in lines])


def kind_of(values: Any) -> str:
    """The type of a column in PostgreSQL."""
    some = next((plain(value) for value in values if value is not None), None)
    return {bool: "boolean", int: "bigint", float: "double precision"}.get(type(some), "text")


def copied(value: Any) -> str:
    """A value as COPY reads it."""
    value = plain(value)
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
    return "NaN" if isinstance(value, float) and math.isnan(value) else repr(value)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def numbers(rows: Sequence[Sequence[Any]]) -> np.ndarray:
    return np.array([[math.nan if cell is None else float(cell) for cell in row] for row in rows])

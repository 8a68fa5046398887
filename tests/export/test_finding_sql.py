"""A finding's WHERE clause picks exactly its rows, in DuckDB, SQLite and PostgreSQL."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import miscal
from miscal.report.findings import Finding
from miscal.report.model import AuditReport

DIALECTS = ("duckdb", "sqlite", "postgres")
SERVER = Path("/usr/lib/postgresql")
NAME = 'the "site" of O\'Hare'
LEVELS = ["O'Hare", "New  York", 'say "no"', "line\nbreak", "tab\tbed", "", "größe", " lead", "ten % \\ off"]


def table() -> pd.DataFrame:
    """Rows of every type, with missing values, awkward names and levels, and values at the edges of ranges."""
    rng = np.random.default_rng(7)
    rows = 4000
    level = rng.choice(np.array([*LEVELS, None], dtype=object), rows)
    amount = np.round(rng.normal(0.0, 1.0, rows), 1)
    amount[rng.random(rows) < 0.1] = np.nan
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90 * 24, rows), "h")
    when = when.where(rng.random(rows) > 0.05)
    flag = rng.choice(np.array([True, False, None], dtype=object), rows)
    p = rng.beta(2, 4, rows)
    wrong = 0.25 * (level == "O'Hare") + 0.3 * (level == "line\nbreak") - 0.2 * np.isnan(amount) + 0.2 * (amount > 0.9)
    wrong = wrong + 0.25 * (when < pd.Timestamp("2024-01-20 12:00")) - 0.2 * (flag == True)  # noqa: E712
    y = (rng.random(rows) < np.clip(p + wrong, 0.0, 1.0)).astype(int)
    return pd.DataFrame({"#": np.arange(rows), "y": y, "p": p, NAME: level, "amount": amount, "when": when, "b": flag})


def in_duckdb(frame: pd.DataFrame) -> Callable[[str], list[int]]:
    typed = frame.astype({"b": "boolean", NAME: "string"})  # noqa: F841  # found by the query
    made = duckdb.connect()
    made.execute("CREATE TABLE t AS SELECT * FROM typed")
    # pandas' NaN of a float arrives as NaN: a database has both
    made.execute('UPDATE t SET amount = NULL WHERE isnan(amount) AND "#" % 2 = 0')
    return lambda clause: [row for (row,) in made.execute(f'SELECT "#" FROM t WHERE {clause} ORDER BY 1').fetchall()]


def in_sqlite(frame: pd.DataFrame) -> Callable[[str], list[int]]:
    made = sqlite3.connect(":memory:")
    frame.to_sql("t", made, index=False)
    return lambda clause: [row for (row,) in made.execute(f'SELECT "#" FROM t WHERE {clause} ORDER BY 1').fetchall()]


@pytest.fixture(scope="module")
def psql() -> Iterator[Callable[[str], str]]:
    """A PostgreSQL of our own behind a socket; it refuses to run as root, so nobody runs it there."""
    folders = sorted(SERVER.glob("*/bin/initdb"))
    if not folders or shutil.which("psql") is None:
        pytest.skip("no PostgreSQL on this machine: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="miscal-postgres-", ignore_cleanup_errors=True) as made:
        bin_, home = folders[-1].parent, Path(made)
        as_nobody: dict[str, Any] = {}
        if os.geteuid() == 0:
            as_nobody = {"user": "nobody", "env": {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}}
            shutil.chown(home, "nobody")
        here: dict[str, Any] = {"cwd": home, "capture_output": True, "text": True, **as_nobody}
        data = ["-D", str(home / "data")]
        run([bin_ / "initdb", *data, "-U", "test", "--auth=trust", "-E", "UTF8", "--no-sync"], **here)
        options = f"-k {home} -c listen_addresses='' -c fsync=off"
        started = {**here, "capture_output": False, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        run([bin_ / "pg_ctl", *data, "-w", "-t", "120", "-l", "log", "-o", options, "start"], **started)
        words = ["psql", "-h", made, "-U", "test", "-d", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1"]
        yield lambda text: run(words, input=text, **here)
        run([bin_ / "pg_ctl", *data, "-m", "immediate", "stop"], **here)


def run(words: list[Any], **options: Any) -> str:
    """What a command says; a failure with what it and the server said."""
    done = subprocess.run(words, check=False, **options)
    log = Path(options["cwd"]) / "log"
    assert done.returncode == 0, f"{words[0]}: {done.stderr}\n{log.read_text()[-2000:] if log.exists() else ''}"
    return str(done.stdout or "")


def in_postgres(frame: pd.DataFrame, psql: Callable[[str], str]) -> Callable[[str], list[int]]:
    quoted = NAME.replace('"', '""')
    types = f'"#" int, y int, p float8, "{quoted}" text, amount float8, "when" timestamp, b boolean'
    psql(f"DROP TABLE IF EXISTS t; CREATE TABLE t ({types})")
    cells = frame.astype(object).where(frame.notna(), None).itertuples(index=False)
    quoted_cells = (["" if c is None else '"' + str(c).replace('"', '""') + '"' for c in row] for row in cells)
    text = "\n".join(map(",".join, quoted_cells))
    psql(f"COPY t FROM STDIN WITH (FORMAT csv);\n{text}\n\\.\n")
    psql("UPDATE t SET amount = 'NaN' WHERE amount IS NULL AND \"#\" % 2 = 0")
    return lambda clause: [int(row) for row in psql(f'SELECT "#" FROM t WHERE {clause} ORDER BY 1').split()]


def opened(dialect: str, frame: pd.DataFrame, request: pytest.FixtureRequest) -> Callable[[str], list[int]]:
    """A database that holds the frame, and answers which rows a clause picks."""
    if dialect == "postgres":
        return in_postgres(frame, request.getfixturevalue("psql"))
    return in_duckdb(frame) if dialect == "duckdb" else in_sqlite(frame)


@pytest.fixture(scope="module")
def audited() -> tuple[pd.DataFrame, miscal.Audit]:
    frame = table()
    return frame, miscal.audit(frame, outcome="y", probability="p", ignore=["#"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_clause_of_every_finding_picks_its_rows(
    dialect: str, audited: tuple[pd.DataFrame, miscal.Audit], request: pytest.FixtureRequest
) -> None:
    frame, audit = audited
    ask = opened(dialect, frame, request)
    columns = {name for finding in audit.findings for name in finding.columns}
    assert {NAME, "amount", "when"} <= columns
    for finding in audit.findings:
        rows = np.flatnonzero(audit.rows_of(finding, frame)).tolist()
        assert len(rows) == finding.rows, finding.where
        assert ask(finding.to_sql(dialect)) == rows, finding.to_sql(dialect)
        if dialect != "sqlite":
            assert finding.sql == finding.to_sql(dialect)


def levels() -> list[Finding]:
    made = [{"column": NAME, "kind": "category", "levels": [level]} for level in LEVELS]
    made += [{"column": NAME, "kind": "category", "excluded": LEVELS[:3], "missing": True}]
    made += [{"column": NAME, "kind": "category", "levels": [], "missing": True}]
    made += [{"column": "amount", "low": 0.3, "high": 0.9}, {"column": "amount", "high": 0.3, "missing": True}]
    made += [{"column": "amount", "levels": [0.1, 0.2]}, {"column": "amount", "levels": [], "missing": True}]
    made += [{"column": "when", "kind": "date", "high": 19731.0}, {"column": "when", "kind": "date", "low": 19731.5}]
    made += [{"column": "when", "kind": "date", "low": math.nextafter(19731.0, 0), "missing": True}]
    made += [{"column": "b", "kind": "boolean", "levels": ["True"]}]
    return [Finding.from_dict({"condition": [one], "columns": [one["column"]]}) for one in made]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_awkward_levels_and_edges(dialect: str, request: pytest.FixtureRequest) -> None:
    frame = table()
    ask = opened(dialect, frame, request)
    audit = miscal.Audit(AuditReport())
    for finding in levels():
        clause = finding.to_sql(dialect)
        assert clause.isprintable()
        assert ask(clause) == np.flatnonzero(audit.rows_of(finding, frame)).tolist(), clause


def test_json_has_the_clauses_and_the_whole_table_is_every_row(
    audited: tuple[pd.DataFrame, miscal.Audit], tmp_path: Path
) -> None:
    frame, audit = audited
    audit.to_json(tmp_path / "audit.json")
    written = json.loads((tmp_path / "audit.json").read_text())["findings"]
    assert [one["sql"] for one in written] == [finding.sql for finding in audit.findings]
    assert [one["sql_sqlite"] for one in written] == [finding.to_sql("sqlite") for finding in audit.findings]
    whole = Finding.from_dict({"kind": "score", "where": "the whole table"})
    assert whole.sql == "TRUE"
    assert audit.rows_of(whole, frame).all()
    assert Finding.from_dict({"where": "nowhere"}).sql == ""  # of an earlier version: nobody knows which rows


def test_the_curve_of_a_finding_is_that_of_its_rows(audited: tuple[pd.DataFrame, miscal.Audit]) -> None:
    frame, audit = audited
    curves = {curve["where"]: curve["table"] for curve in audit.document["along_score"]}
    finding = next(finding for finding in audit.findings if finding.real and finding.columns == (NAME,))
    own, table = frame[audit.rows_of(finding, frame)], curves[finding.where]
    assert sum(table["rows"]) == finding.rows
    for low, high, rows, predicted, observed in zip(*(table[key] for key in COUNTED), strict=True):
        inside = own[(own.p > low) & (own.p <= high) | (own.p == low) & (low == table["low"][0])]
        assert len(inside) == rows
        assert predicted == pytest.approx(inside.p.mean(), abs=1e-12)
        assert observed == pytest.approx(inside.y.mean(), abs=1e-12)
    assert "along_score" not in audit.suppressed(20).document


COUNTED = ("low", "high", "rows", "predicted", "observed")

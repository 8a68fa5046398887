"""Audits of streams and of carriers: the same document as in memory, and files that are whole or absent."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import miscal
from miscal.aggregate.summary import Summary
from miscal.cli import main
from miscal.data.errors import MiscalError
from miscal.recalibrate import HistogramBinning, IsotonicCalibration
from tests.aggregate import tables


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    """More rows than row-by-row simulation is used for, with an error in one stretch and one level."""
    rng = np.random.default_rng(0)
    rows = 210_000
    p = rng.beta(1, 6, rows)
    age = rng.integers(20, 80, rows)
    level = np.array([f"s{i}" for i in range(300)], object)[rng.integers(0, 300, rows)]
    truth = np.clip(p * np.where((age > 40) & (age < 50), 1.5, 1.0), 0, 1)
    y = (rng.random(rows) < np.where(level == "s7", truth * 0.4, truth)).astype(np.int8)
    day = rng.integers(15000, 15300, rows).astype("M8[D]")
    made = pa.table(
        {"y": y, "p": p, "age": age, "x": rng.normal(size=rows), "f": pa.array(level), "day": pa.array(day)}
    )
    path = tmp_path_factory.mktemp("planted") / "t.parquet"
    pq.write_table(made, path, row_group_size=40_000)
    return path


def run(*arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return found.exit_code, found.output


COLUMNS = ("--outcome", "y", "--probability", "p")


def test_tallies_of_days_add_up_to_the_month(planted, tmp_path):
    whole = pq.read_table(planted)
    names = []
    for day, rows in enumerate((70_000, 90_000, 50_000)):
        start = (0, 70_000, 160_000)[day]
        tables.write(whole.slice(start, rows), tmp_path / f"{day}.parquet", 20_000)
        like = ("--like", names[0]) if names else ()
        names.append(str(tmp_path / f"{day}.tally"))
        code, text = run("summarize", tmp_path / f"{day}.parquet", *COLUMNS, "--out", names[-1], *like)
        assert code == 0, text
    code, text = run("merge", *names, "--out", tmp_path / "month.tally")
    assert code == 0, text
    code, text = run("summarize", planted, *COLUMNS, "--out", tmp_path / "whole.tally", "--like", names[0])
    assert code == 0, text
    month, once = Summary.load(tmp_path / "month.tally"), Summary.load(tmp_path / "whole.tally")
    assert month.rule == once.rule
    assert month.score == once.score
    assert all(month.variables[name].tally == once.variables[name].tally for name in once.variables)
    assert month.fields["f"].tally == once.fields["f"].tally
    code, text = run("audit", tmp_path / "month.tally", "--out", tmp_path / "m.html", "--json", tmp_path / "m.json")
    assert code == 0, text
    document = json.loads((tmp_path / "m.json").read_text())
    assert document["data"]["rows"] == 210_000
    whole, added = (miscal.audit(tmp_path / f"{name}.tally").document for name in ("whole", "month"))
    for document in (whole, added):
        document["data"].pop("source")
        document["data"].pop("fingerprint")  # of sums that differ: each table has put its own score right
        document["settings"].pop("tables")
    assert json.dumps(whole, default=str) == json.dumps(added, default=str)


def test_tallies_that_do_not_belong_together_are_refused_in_one_line(planted, tmp_path):
    whole = pq.read_table(planted).slice(0, 5000)
    tables.write(whole, tmp_path / "a.parquet")
    tables.write(whole.slice(0, 2500), tmp_path / "b.parquet")
    for name in "ab":
        assert run("summarize", tmp_path / f"{name}.parquet", *COLUMNS, "--out", tmp_path / f"{name}.tally")[0] == 0
    code, text = run("merge", tmp_path / "a.tally", tmp_path / "b.tally", "--out", tmp_path / "c.tally")
    assert code == 2
    assert "do not belong together" in text
    assert "--like" in text
    assert len(text.strip().splitlines()) == 1
    assert not (tmp_path / "c.tally").exists()
    code, text = run("merge", tmp_path / "a.parquet", "--out", tmp_path / "c.tally")
    assert code == 2


def test_a_damaged_tally_is_refused(planted, tmp_path):
    tables.write(pq.read_table(planted).slice(0, 3000), tmp_path / "a.parquet")
    assert run("summarize", tmp_path / "a.parquet", *COLUMNS, "--out", tmp_path / "a.tally")[0] == 0
    content = (tmp_path / "a.tally").read_bytes()
    made = Summary.load(tmp_path / "a.tally")
    assert (made + made).rows == 6000
    for cut in (100, len(content) // 2, len(content) - 10):
        (tmp_path / "cut.tally").write_bytes(content[:cut])
        with pytest.raises(MiscalError):
            Summary.load(tmp_path / "cut.tally")
    refused = 0
    for place in range(50, len(content), len(content) // 40):
        changed = bytearray(content)
        changed[place] ^= 0x41
        (tmp_path / "changed.tally").write_bytes(bytes(changed))
        try:
            assert Summary.load(tmp_path / "changed.tally").fingerprint == made.fingerprint
        except MiscalError:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_recalibrator_is_applied_batch_by_batch(planted, tmp_path, ending):
    whole = pq.read_table(planted)
    path = tables.write(whole, tmp_path / "t.parquet", 30_000)
    model = IsotonicCalibration().fit(whole["p"], whole["y"])
    (tmp_path / "model.json").write_text(model.to_json())
    out = tmp_path / f"out.{ending}"
    code, text = run("apply", tmp_path / "model.json", path, "--probability", "p", "--out", out)
    assert code == 0, text
    made = pq.read_table(out) if ending == "parquet" else pa.csv.read_csv(out)
    assert made.column_names == [*whole.column_names, "recalibrated"]
    assert np.array_equal(made["recalibrated"].to_numpy(), model.predict_proba(whole["p"])[:, 1])
    assert made["f"].to_pylist()[:100] == whole["f"].to_pylist()[:100]


def test_a_full_disk_leaves_nothing(planted, tmp_path):
    """A limit on the size of files stands in for a full disk."""
    few = planted.with_name("few.parquet")
    pq.write_table(pq.read_table(planted).slice(0, 20_000), few)
    model = HistogramBinning().fit([0.1, 0.6, 0.7, 0.3], [0, 1, 1, 0])
    (tmp_path / "model.json").write_text(model.to_json())

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    arguments = ["apply", tmp_path / "model.json", few, "--probability", "p", "--out", tmp_path / "out.parquet"]
    audit = ["audit", few, *COLUMNS, "--memory", "500MB", "--effort", "quick", "--out", tmp_path / "out.html"]
    for command in (arguments, ["summarize", few, *COLUMNS, "--out", tmp_path / "out.tally"], audit):
        done = subprocess.run(
            [sys.executable, "-m", "miscal", *map(str, command)], preexec_fn=limited, capture_output=True, text=True
        )
        assert done.returncode == 2, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert "cannot be written" in done.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json"]


def _reads_below(process: int, folder: Path) -> bool:
    """Whether the process has a file of the folder open."""
    for entry in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            if folder in entry.readlink().parents:
                return True
    return False


def test_an_interrupt_leaves_nothing_and_says_so(planted, tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for place in range(200):  # as long as it takes this process to see that the other one reads
        os.link(planted, many / f"{place}.parquet")
    command = [sys.executable, "-m", "miscal", "summarize", str(many), *COLUMNS, "--out", str(tmp_path / "out.tally")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not _reads_below(process.pid, many):
        assert process.poll() is None, "the command ended before it read a file"
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert error.strip().splitlines()[-1] == "miscal: interrupted; nothing was written"
    assert [path.name for path in tmp_path.iterdir()] == ["many"]


def test_clusters_and_unknown_columns_are_refused_clearly(planted, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("miscal.auditing.audit.rows_that_fit", lambda *_: 5_000)
        code, text = run("audit", planted, *COLUMNS, "--cluster", "age", "--out", tmp_path / "r.html")
    assert code == 2
    assert "needs all rows of a cluster together" in text
    code, text = run("audit", planted, "--outcome", "z", "--probability", "p", "--memory", "1GB")
    assert code == 2
    assert "has no column 'z'" in text
    code, text = run("audit", tmp_path / "*.parquet", *COLUMNS)
    assert code == 2
    assert "names no table" in text


def test_an_interrupt_inside_executed_text_exits_alike(tmp_path):
    """Python marks itself as killed by SIGINT when one arrives inside exec(text); the command wipes the mark."""
    script = tmp_path / "script.py"
    script.write_text(
        "import click\nfrom miscal.cli import CommandGroup\n"
        "main = click.Group('main')\nmain.__class__ = CommandGroup\n"
        "@main.command()\ndef strike():\n    exec('raise KeyboardInterrupt')\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, str(script), "strike"], capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert done.stderr.strip() == "miscal: interrupted; nothing was written"

"""Files that are written: links and devices stay what they are, inputs are never written over, nothing is left over."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from miscal.cli import main
from miscal.data.errors import MiscalError
from miscal.data.outputs import prepared, write_together, write_whole
from miscal.recalibrate import IsotonicCalibration

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nodes and links of another kind")
ROLES = ["--outcome", "y", "--probability", "p"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    p = rng.random(300)
    path = tmp_path / "t.csv"
    pd.DataFrame({"y": (rng.random(300) < p).astype(int), "p": p}).to_csv(path, index=False)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.json"
    path.write_text(IsotonicCalibration().fit([0.1, 0.9, 0.2, 0.8], [0, 1, 1, 0]).to_json())
    return path


def refused(*words: object, saying: str) -> None:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 2, done.output
    assert saying in done.output
    assert "Traceback" not in done.output


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    for _ in range(100):  # until the reader has opened it
        try:
            write_whole(pipe, b"said")
            break
        except MiscalError:
            reader.join(0.05)
    reader.join(5)
    assert heard == [b"said"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_pipe_that_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MiscalError, match="cannot be written"):
        write_whole(tmp_path / "pipe", b"said")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_the_null_device_is_not_replaced(table: Path) -> None:
    done = CliRunner().invoke(main, ["audit", str(table), *ROLES, "--effort", "quick", "--out", "/dev/null"])
    assert done.exit_code == 0, done.output
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path) -> None:
    real, link = tmp_path / "deep" / "real", tmp_path / "link"
    real.parent.mkdir()
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_together({link: b"new"})
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    write_whole(tmp_path / "dangling", b"now")
    assert (tmp_path / "nothing").read_bytes() == b"now"


def test_no_input_is_written_over(table: Path, model: Path, tmp_path: Path) -> None:
    refused("apply", model, table, "--probability", "p", "--out", table, saying="would write over what is read")
    hard = tmp_path / "hard.csv"
    os.link(table, hard)
    refused("apply", model, table, "--probability", "p", "--out", hard, saying="would write over what is read")
    pattern = tmp_path / "*.csv"
    refused("apply", model, pattern, "--probability", "p", "--out", table, saying="would write over what is read")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.csv").write_bytes(table.read_bytes())
    inside = folder / "b.csv"
    refused("apply", model, folder, "--probability", "p", "--out", inside, saying="would write over what is read")
    one = tmp_path / "one.tally"
    assert CliRunner().invoke(main, ["summarize", str(table), *ROLES, "--out", str(one)]).exit_code == 0
    refused("merge", one, "--out", one, saying="would write over what is read")


def test_a_link_that_waits_under_a_temporary_name_is_not_followed(table: Path, model: Path, tmp_path: Path) -> None:
    """The name that earlier versions used, of this process."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out = tmp_path / "out.csv"
    (tmp_path / f".{out.name}.{os.getpid()}.tmp").symlink_to(victim)
    done = CliRunner().invoke(main, ["apply", str(model), str(table), "--probability", "p", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert victim.read_text() == "precious"


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    code = (
        "import os, sys, signal; from pathlib import Path; from miscal.data.outputs import writing\n"
        "with writing([Path(sys.argv[1])]) as (t,):\n"
        "    t.write_bytes(b'half'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(target)], check=False)
    assert killed.returncode == -signal.SIGKILL
    left = [path.name for path in tmp_path.iterdir()]
    assert len(left) == 1
    assert left[0].endswith(".part")
    other = tmp_path / left[0].replace(f"-{left[0].split('-')[1].split('.')[0]}.", f"-{os.getpid()}.")
    other.write_bytes(b"of a process that lives")
    write_whole(target, b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([other.name, "page.html"])


def test_a_file_whose_name_looks_like_a_pattern_is_itself_alone(table: Path, tmp_path: Path) -> None:
    read = tmp_path / "data[1].csv"
    read.write_bytes(table.read_bytes())
    prepared({"--out": tmp_path / "data1.csv"}, table=read)
    with pytest.raises(MiscalError, match="would write over"):
        prepared({"--out": read}, table=read)

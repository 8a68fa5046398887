"""What a command writes and how it ends, whatever becomes of its text: closed, full and ASCII streams, defects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import miscal.auditing.audit
from tests.commands import run

COMMAND = [sys.executable, "-m", "miscal"]
STATUS = "; exit ${PIPESTATUS[0]}"  # of the command, not of who reads it
ROLES = ["--outcome", "y", "--probability", "p"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with a place that is wrong: its verdict has several lines and characters beyond ASCII."""
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, 2000)
    g = rng.choice(["a", "b"], 2000)
    y = (rng.random(2000) < np.where(g == "a", p, p * p)).astype(int)
    path = tmp_path / "t.csv"
    path.write_text("y,p,g\n" + "\n".join(f"{a},{b!r},{c}" for a, b, c in zip(y, p.tolist(), g, strict=True)) + "\n")
    return path


def _shell(line: str, **more: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, **more}
    environment.pop("PYTHONUNBUFFERED", None)  # what a stream still holds at the end is what may go wrong
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, check=False)


def _audit(table: Path, redirect: str, *words: object, **more: str) -> subprocess.CompletedProcess:
    line = [*COMMAND, "audit", str(table), *ROLES, "--effort", "quick", "--out", str(table.parent / "r.html")]
    line += ["--json", str(table.parent / "r.json"), *map(str, words)]
    return _shell(f"{' '.join(line)} {redirect}", **more)


@pytest.mark.parametrize("redirect", [f"| head -1{STATUS}", "> /dev/full", ">&-"])
def test_no_stream_loses_a_file(table: Path, redirect: str) -> None:
    done = _audit(table, redirect)
    assert done.returncode == 0, done.stderr
    assert (table.parent / "r.html").stat().st_size > 10_000
    assert (table.parent / "r.json").stat().st_size > 1_000
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if "full" in redirect:
        assert "No space left" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_ascii_is_enough(table: Path) -> None:
    done = _audit(table, "", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "<= 0.001" in done.stdout
    assert "?" not in done.stdout


@pytest.mark.parametrize("redirect", ["> /dev/full", ">&-", f"| true{STATUS}"])
def test_a_gate_that_failed_says_so_by_its_status_alone(table: Path, redirect: str) -> None:
    line = [*COMMAND, "check", str(table), *ROLES, "--effort", "quick", "--max-findings"]
    assert _shell(f"{' '.join([*line, '0'])} {redirect}").returncode == 1
    if "full" in redirect:
        assert _shell(f"{' '.join([*line, '99'])} {redirect}").returncode == 0


@pytest.mark.parametrize("redirect", [f"| true{STATUS}", "> /dev/full"])
def test_help_that_nobody_reads_is_no_failed_gate(redirect: str) -> None:
    assert _shell(f"{' '.join(COMMAND)} --help {redirect}").returncode == 0


@pytest.mark.parametrize("command", ["audit", "check"])
def test_a_defect_is_one_line_and_status_3(table: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("float division\nby zero")

    monkeypatch.setattr(miscal.auditing.audit, "audit", broken)
    gates = ["--max-findings", "0"] if command == "check" else ["--out", str(table.parent / "r.html")]
    done = run(command, table, *ROLES, *gates)
    assert done.exit_code == 3
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("miscal: internal error: ZeroDivisionError: float division by zero (test_streams.py:")
    assert "report" in lines[0]


def test_a_traceback_can_be_asked_for(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(miscal.auditing.audit, "audit", lambda *_, **__: 1 / 0)
    monkeypatch.setenv("MISCAL_TRACEBACK", "1")
    assert "Traceback" in run("audit", table, *ROLES, "--out", table.parent / "r.html").stderr


# Another user, who may read everything (the interpreter may lie in root's home) and write nothing but what is theirs.
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", "-all,+dac_read_search",
          "--ambient-caps", "+dac_read_search"]  # fmt: skip


@pytest.mark.skipif(
    os.getuid() != 0 or subprocess.run([*NOBODY, "true"], capture_output=True, check=False).returncode != 0,
    reason="this test must be able to become another user",
)
def test_a_user_without_a_home_and_without_write_permission_is_served(table: Path, tmp_path: Path) -> None:
    if "_miscal_editable_loader" in sys.modules:
        pytest.skip("an editable installation writes to its build folder; tests/kernels/test_build.py tries a copy")
    folder = tmp_path / "theirs"
    folder.mkdir()
    table.rename(folder / "t.csv")
    for place in (folder, *folder.iterdir()):
        os.chown(place, 65534, 65534)
    clean = {key: value for key, value in os.environ.items() if key in ("PATH", "PYTHONPATH")}
    words = ["audit", "t.csv", *ROLES, "--effort", "quick"]
    done = subprocess.run(
        [*NOBODY, *COMMAND, *words], cwd=folder, env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert (folder / "report.html").exists()


def test_both_sides_of_a_game_have_no_gap_and_a_page(tmp_path: Path) -> None:
    """Each game's two rows cancel: over whole games every gap is exactly 0, and so is its noise."""
    rng = np.random.default_rng(0)
    p = np.repeat(0.5, 400)
    y = np.tile([0, 1], 200)
    columns = {"g": np.repeat(rng.choice(["a", "b"], 200), 2), "game": np.repeat(np.arange(200), 2)}
    with np.errstate(all="raise"):
        found = miscal.audit({"y": y, "p": p, **columns}, outcome="y", probability="p", cluster="game")
    found.to_html(tmp_path / "r.html")
    assert not [f.where for f in found.findings if f.real]


def test_text_and_page_say_the_same_numbers(table: Path) -> None:
    done = run("audit", table, *ROLES, "--effort", "quick", "--out", table.parent / "r.html")
    found = miscal.audit(table, outcome="y", probability="p", effort="quick")
    head = next(f for f in found.findings if f.real and not f.parent)
    assert head.difference in " ".join(done.stdout.split())
    assert head.difference.split(" (")[0] in head.sentence


def test_the_last_line_says_what_to_do_next(table: Path, tmp_path: Path) -> None:
    done = run("audit", table, *ROLES, "--effort", "quick", "--out", tmp_path / "r.html")
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"Next: miscal recalibrate {table} --outcome y --probability p")
    rng = np.random.default_rng(1)
    p = rng.random(500)
    clean = tmp_path / "clean.csv"
    np.savetxt(clean, np.stack([rng.random(500) < p, p], 1), delimiter=",", header="y,p", comments="")
    done = run("audit", clean, *ROLES, "--effort", "quick", "--out", tmp_path / "r.html")
    assert done.stdout.splitlines()[-1].startswith(f"Next: miscal check {clean} ")


def test_the_top_class_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(3, 0.3), 3000)
    y = np.array([rng.choice(3, p=0.6 * row + 0.4 / 3) for row in p])
    read = miscal.Predictions(y, p)
    text = miscal.audit(read, effort="quick").to_markdown()
    assert text.startswith("# The top class's confidence is too high: ")
    first = text.splitlines()[0]
    assert first.endswith("correct.")
    assert "mean confidence" in first


def test_p_values_at_the_end_of_their_scale_are_bounds() -> None:
    """Few distinct scores: Kuiper's p is simulated, and the adjusted one of the whole table is a multiple of 1/1000."""
    rng = np.random.default_rng(0)
    p = rng.choice([0.2, 0.4, 0.6], 3000)
    y = (rng.random(3000) < p + 0.2).astype(int)
    found = miscal.audit({"y": y, "p": p, "g": rng.choice(["a", "b"], 3000)}, outcome="y", probability="p")
    whole = next(f for f in found.findings if f.whole)
    assert not whole.bound  # the test of its form, whose p-values have no such end, is the smaller
    assert "adjusted p ≤ 0.001" in whole.judged
    kuiper = found.document["score"]["details"]["kuiper"]
    assert kuiper["p_value"] <= 0.001


def test_the_first_line_says_form_and_size(table: Path) -> None:
    """How many places and the rates of the worst; how far the scores are off along the way; the ends after them."""
    first = run("audit", table, *ROLES, "--effort", "quick", "--out", table.parent / "r.html").stdout.split("\n")[1]
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, 20_000)
    g = rng.choice(["a", "b", "c"], 20_000)
    y = rng.random(20_000) < p + 0.08 * (g == "a") - 0.04 * (g != "a")
    text = miscal.audit({"y": y, "p": p, "g": g}, outcome="y", probability="p", effort="quick").to_markdown()
    assert first.startswith("Miscalibrated in one segment, g b (41.4% predicted, 20.7% observed)"), first
    assert "; largest: g a (39.8% predicted, 48.0% observed)" in text.split("\n")[0], text.split("\n")[0]
    p = rng.beta(3, 3, 20_000)
    extreme = 1 / (1 + np.exp(-2 * np.log(p / (1 - p))))
    text = miscal.audit({"y": rng.random(20_000) < p, "p": extreme}, outcome="y", probability="p").to_markdown()
    assert text.startswith("# No significant gap overall, but the scores are too extreme (ECE 9.4"), text.split("\n")[0]

"""What a user's editor sees of names that load lazily, and what a user's terminal shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import miscal
from miscal import metrics, recalibrate
from miscal.data.errors import MiscalError
from scripts import stubs

ROOT = Path(__file__).parents[2]
USER = """
import miscal
from miscal import Audit, Finding
from miscal.recalibrate import PlattScaling

found: Audit = miscal.audit("table.parquet", outcome="y", probability="p")
first: Finding = found.findings[0]
error: float = miscal.metrics.expected_calibration_error([0, 1], [0.2, 0.7])
text: str = PlattScaling().fit([0.1, 0.9], [0, 1]).to_json()
miscal.recalibrate.choose([0.1, 0.9], [0, 1])
"""
WRONG = USER + "wrong: int = found.findings\nmiscal.adit\nmiscal.audit(3, level='high')\nPlattScaling().to_sql(3)\n"
MISTAKES = 4
MISTAKEN = set(range(USER.count("\n") + 1, WRONG.count("\n") + 1))  # one a line, and none in what is right


def user_file(folder: Path, text: str) -> Path:
    path = folder / "user.py"
    path.write_text(text, encoding="utf-8")
    return path


def checked(command: list[str], folder: Path, text: str) -> str:
    paths = {"MYPYPATH": str(ROOT / "src"), "PYTHONPATH": str(ROOT / "src")}
    path = user_file(folder, text)
    options = {"cwd": folder, "capture_output": True, "text": True, "check": False, "env": {**os.environ, **paths}}
    return subprocess.run([*command, str(path)], **options).stdout


def lines_named(said: str) -> set[int]:
    """The lines of the user's file that a checker calls wrong."""
    return {int(line) for line in re.findall(r"user\.py:(\d+)", said)}


def test_stubs_say_what_the_tables_say() -> None:
    assert not stubs.stale(), "run scripts/stubs.py --write"


@pytest.mark.slow
def test_mypy_sees_types(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "c")]
    command += ["--ignore-missing-imports", "--no-site-packages", "--follow-imports", "silent"]  # ours is what is asked
    said = checked(command, tmp_path, WRONG)
    assert f"Found {MISTAKES} errors in 1 file" in said, said
    assert lines_named(said) == MISTAKEN, said


@pytest.mark.slow
def test_pyright_sees_types(tmp_path: Path) -> None:
    own = Path(sys.prefix) / "pyright" / "node_modules" / ".bin" / "pyright"
    found = os.environ.get("PYRIGHT") or shutil.which("pyright") or (str(own) if own.exists() else None)
    if not found:
        pytest.skip("pyright is not installed: npm install pyright, or name it in PYRIGHT")
    said = checked([found, "--pythonpath", sys.executable], tmp_path, WRONG)
    assert f"{MISTAKES} errors" in said, said
    assert lines_named(said) == MISTAKEN, said


def test_not_fitted_is_scikit_learns_error_too() -> None:
    for error in (NotFittedError, MiscalError):
        with pytest.raises(error, match="call fit"):
            recalibrate.PlattScaling().predict_proba([0.2])
    with pytest.raises(NotFittedError):
        recalibrate.GroupWise(recalibrate.PlattScaling()).to_sql()


@pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")
def test_what_is_printed_is_at_most_thirty_lines(rng: np.random.Generator) -> None:
    p = rng.random(3000)
    y = (rng.random(3000) < p).astype(int)
    columns = {"f": rng.integers(0, 300, 3000).astype(str), "x": rng.random(3000)}
    rows = miscal.Predictions(y, p, columns=columns)
    made = [miscal.by_score(rows), miscal.by_field(rows, "f"), miscal.by_variable(rows, "x"), miscal.by_variation(rows)]
    made += [miscal.by_subpopulation(rows), miscal.by_class(rows), rows, miscal.audit(rows)]
    made += [metrics.variable_calibration_curve(y, p, columns["x"]), recalibrate.IsotonicCalibration().fit(p, y)]
    for one in made:
        assert 1 <= len(repr(one).splitlines()) <= 30, type(one)


def test_hints_can_be_followed() -> None:
    words, p = np.array(["no", "yes"] * 20), np.linspace(0.1, 0.9, 40)
    with pytest.raises(MiscalError, match=r"y == 'yes', or Predictions\(..., positive='yes'\)"):
        metrics.expected_calibration_error(words, p)
    assert metrics.expected_calibration_error(words == "yes", p) >= 0
    assert miscal.Predictions(words, p, positive="yes").rows == 40
    with pytest.raises(MiscalError, match="positive=LABEL"):
        miscal.read({"y": words, "p": p}, outcome="y", probability="p")
    assert miscal.read({"y": words, "p": p}, outcome="y", probability="p", positive="yes").rows == 40

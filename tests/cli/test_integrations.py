"""Where people already are: pytest, pre-commit, GitHub, Spark's interpreter, the release."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

import miscal
from miscal.aggregate.spark import _collect
from miscal.cli import main
from miscal.data.errors import MiscalError
from miscal.pytest_plugin import check_calibrated
from scripts.release_notes import notes

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    return {"late": (rng.random(2000) < p**2).astype(int), "score": p, "state": rng.choice(["NY", "CA"], 2000)}


def test_assert_calibrated(table: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    roles = {"outcome": "late", "probability": "score"}
    check_calibrated(table, **roles, max_expected=0.5)
    with pytest.raises(pytest.fail.Exception, match="the average error along the score is"):
        check_calibrated(table, **roles, max_expected=0.02)
    with pytest.raises(MiscalError, match="no gate"):
        check_calibrated(table, **roles)
    Path("miscal.toml").write_text("max-gap = 0.001\n", encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match="the gap over all rows"):
        check_calibrated(table, **roles)


@pytest.mark.slow
def test_the_fixture_in_a_users_tests(tmp_path: Path) -> None:
    tests = (
        "def test_it(assert_calibrated):\n"
        "    table = {'y': [0, 0, 0, 1] * 100, 'p': [0.5 + i / 1000 for i in range(400)]}\n"
        "    assert_calibrated(table, outcome='y', probability='p', max_gap=1.0)\n"
        "    assert_calibrated(table, outcome='y', probability='p', max_expected=0.1)\n"
    )
    (tmp_path / "test_model.py").write_text(tests, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:miscal", "-p", "miscal.pytest_plugin"]
    run = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, **run)
    assert done.returncode == 1
    assert "not calibrated" in done.stdout
    assert "1 failed" in done.stdout


def options_of(command: str) -> set[str]:
    text = CliRunner().invoke(main, [command, "--help"]).output
    return {word for word in text.replace(",", " ").split() if word.startswith("--")}


def test_the_action_and_the_hook_call_what_there_is() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    scripts = [step["run"] for step in action["runs"]["steps"]]
    called = {word for script in scripts for word in script.split() if word.startswith("--")}
    assert called - {"--quiet", "--body-file", "--edit-last", "--create-if-none"} <= options_of("check")
    assert all(step["shell"] == "bash" for step in action["runs"]["steps"])
    assert not any("${{" in script for script in scripts)  # inputs reach a script as variables, never as its text
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"].split() == ["miscal", "check"]


def test_the_action_keeps_the_status_of_the_check(table: dict[str, Any], tmp_path: Path) -> None:
    """The script of its second step, run as it stands with a command of that name."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "check")
    command = tmp_path / "miscal"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m miscal "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    rows = zip(table["late"], table["score"], strict=True)
    lines = ["late,score", *(f"{late},{score}" for late, score in rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    given = {"FILE": "t.csv", "OUTCOME": "late", "PROBABILITY": "score", "GATES": "--max-expected 0.02"}
    given |= {"GITHUB_STEP_SUMMARY": "summary", "GITHUB_OUTPUT": "output", "PYTHONPATH": str(ROOT / "src")}
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    run = {"cwd": tmp_path, "env": {**os.environ, **given, "PATH": path}, "check": True, "capture_output": True}
    subprocess.run(["bash", "-e", "-c", step["run"]], **run)
    assert (tmp_path / "output").read_text(encoding="utf-8") == "status=1\n"
    assert "at most 2.00% allowed" in (tmp_path / "summary").read_text(encoding="utf-8")


def test_workers_with_another_python_are_refused_in_words() -> None:
    class Workers:
        def __init__(self, text: str) -> None:
            self.text = text

        def collect(self) -> list[Any]:
            raise RuntimeError(self.text)

    for text in ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "No module named 'miscal'"):
        with pytest.raises(MiscalError, match="set PYSPARK_PYTHON"):
            _collect(Workers(text))
    with pytest.raises(RuntimeError, match="executor lost"):
        _collect(Workers("executor lost"))


def test_the_notes_of_a_release() -> None:
    changes = (
        "# Changes\n\n## 0.3.0 (not released)\n\n- new\n\n## 0.2.0 (2026-11-20)\n\n- one\n- two\n\n## 0.1.0\n\n- old\n"
    )
    assert notes("0.2.0", changes) == "- one\n- two"
    for version, why in {"0.3.0": "not released", "0.4.0": "no heading"}.items():
        with pytest.raises(SystemExit, match=why):
            notes(version, changes)


def test_the_version_stands_in_one_place() -> None:
    import miscal

    found = subprocess.check_output([sys.executable, str(ROOT / "scripts" / "version.py")], text=True)
    assert found.strip() == miscal.__version__
    for path in ("pyproject.toml", "meson.build"):
        assert f"'{miscal.__version__}'" not in (ROOT / path).read_text(encoding="utf-8").replace('"', "'")


def test_the_conda_recipe_has_the_version_and_the_dependencies() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert recipe["context"]["version"] == miscal.__version__
    wanted = {f"python{project['requires-python']}", *project["dependencies"]}
    assert {needed.replace(" ", "") for needed in recipe["requirements"]["run"]} == wanted


def test_the_page_of_commands_has_every_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import conf; print(conf.command_page())"],
        cwd=ROOT / "docs", capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    for name in main.list_commands(None):
        assert f"Usage: miscal {name}" in done.stdout


@pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")
def test_a_pattern_names_the_probabilities_of_many_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(12), 600)
    y = (p.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1).clip(0, 11)
    pq.write_table(pa.table({"y": y} | {f"p_{k}": p[:, k] for k in range(12)}), "t.parquet")  # p_2 before p_10
    gate = ["check", "t.parquet", "--outcome", "y", "--max-expected", "1.0", "--json"]
    pattern = CliRunner().invoke(main, [*gate, "a.json", "--probability", "p_*"])
    assert pattern.exit_code == 0, pattern.output
    named = [word for k in range(12) for word in ("--probability", f"p_{k}")]
    assert CliRunner().invoke(main, [*gate, "b.json", *named]).exit_code == 0
    first, second = (Path(name).read_text(encoding="utf-8") for name in ("a.json", "b.json"))
    assert first == second
    wrong = CliRunner().invoke(main, [*gate, "c.json", "--probability", "q_*"])
    assert wrong.exit_code == 2
    assert "no column like 'q_*'" in wrong.output


@pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")
@pytest.mark.parametrize(("pattern", "named"), [("p_*", [f"p_{k}" for k in range(11)]), ("sc*", ["score"])])
def test_command_and_library_read_a_pattern_alike(pattern: str, named: list[str], tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(11), 300)
    y = (p.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1).clip(0, 10)
    table = {f"p_{k}": p[:, k] for k in (10, 2, 0, 1, *range(3, 10))} | {"score": p[:, 0]}  # in no order
    path, written = tmp_path / "t.parquet", tmp_path / "a.json"
    pq.write_table(pa.table({"y": y if len(named) > 1 else (y > 5).astype(int), **table}), path)
    page = ["--out", str(tmp_path / "r.html"), "--json", str(written), "--effort", "quick"]
    told = CliRunner().invoke(main, ["audit", str(path), "--outcome", "y", "--probability", pattern, *page])
    assert told.exit_code == 0, told.output
    assert json.loads(written.read_text(encoding="utf-8"))["data"]["probability_columns"] == named
    found = miscal.audit(path, outcome="y", probability=pattern, effort="quick")
    assert found.document["data"]["probability_columns"] == named

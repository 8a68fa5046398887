"""`import miscal` is quick because it leaves the heavy libraries alone."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys

HEAVY = {"lightgbm", "matplotlib", "pandas", "polars", "pyspark", "torch"}


def _all_modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def _modules_after(statement: str) -> set[str]:
    return {module.split(".")[0] for module in _all_modules_after(statement)}


def test_importing_the_package_imports_no_heavy_library():
    loaded = _modules_after("import miscal")
    assert "miscal" in loaded
    assert not loaded & HEAVY


def test_a_gate_and_an_audit_import_what_they_use(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("y,p,g\n" + "0,0.25,a\n1,0.75,b\n1,0.5,a\n" * 100)
    call = "from miscal.cli import main; main({}, standalone_mode=False)"
    roles = [str(table), "--outcome", "y", "--probability", "p"]
    gate = _all_modules_after(call.format(["check", *roles, "--max-expected", "0.9"]))
    assert not gate & {
        "scipy.optimize",
        "scipy.fft",
        "scipy.sparse",
        "sklearn",
        "narwhals",
        "rich",
        "miscal.report.html.page",
    }
    audit = _all_modules_after(call.format(["audit", *roles, "--out", str(tmp_path / "page.html")]))
    assert not audit & {"scipy.optimize", "scipy.fft", "sklearn"}


def test_the_check_sees_a_heavy_library():
    assert "pandas" in _modules_after("import pandas") & HEAVY


def test_reading_in_parts_leaves_the_environment_of_the_process_alone(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("y,p\n" + "0,0.25\n1,0.75\n" * 100)
    call = f"miscal.audit({str(table)!r}, outcome='y', probability='p', effort='quick', memory='600MB')"
    code = f"import os; before = dict(os.environ); import miscal; {call}; assert dict(os.environ) == before"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_package_is_a_command_too():
    done = subprocess.run([sys.executable, "-m", "miscal", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("miscal, version ")


def test_every_public_name_is_there_and_none_is_missing_from_the_list():
    for package in ("miscal", "miscal.datasets", "miscal.metrics", "miscal.plots", "miscal.recalibrate"):
        module = importlib.import_module(package)
        assert list(module.__all__) == sorted(module.__all__)
        for name in module.__all__:
            assert getattr(module, name) is not None
        assert set(dir(module)) >= set(module.__all__)

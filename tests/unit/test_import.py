"""`import miscal` is quick because it leaves the heavy libraries alone."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {"lightgbm", "matplotlib", "pandas", "polars", "pyspark", "torch"}


def _modules_after(statement: str) -> set[str]:
    code = f"{statement}; import json, sys; print(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_the_package_imports_no_heavy_library():
    loaded = _modules_after("import miscal")
    assert "miscal" in loaded
    assert not loaded & HEAVY


def test_the_check_sees_a_heavy_library():
    assert "pandas" in _modules_after("import pandas") & HEAVY

"""Cached kernels never outlive the code that they call."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import miscal
from miscal.kernels.jit import forget_if_changed


def test_a_changed_file_forgets_every_cached_kernel(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    cached = tmp_path / "__pycache__"
    assert not forget_if_changed(tmp_path)
    kernel = cached / "a.kernel-1.py311.nbi"
    kernel.write_text("compiled")
    assert not forget_if_changed(tmp_path)
    assert kernel.exists()
    os.utime(tmp_path / "a.py", ns=(1, 1))
    assert forget_if_changed(tmp_path)
    assert not kernel.exists()
    assert not forget_if_changed(tmp_path)


def test_a_full_disk_does_not_stop_a_kernel(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk; the cache is elsewhere, so everything is compiled."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    code = "from miscal.metrics import kuiper_calibration_error as k; print(k([0, 1], [0.25, 0.75]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "MISCAL_QUIET": "1"},
        preexec_fn=limited,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == 0.125
    assert not list(tmp_path.rglob("*.nbc"))


def test_every_kernel_loads_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A read-only container: the package, the home and the caches all refuse to be written to."""
    package = tmp_path / "miscal"
    shutil.copytree(Path(miscal.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    names = sorted(file.stem for file in (package / "kernels").glob("*.py") if file.stem != "__init__")
    if find_spec("triton") is None:
        names.remove("pairs_device")
    for place in (tmp_path, *tmp_path.rglob("*")):
        place.chmod(0o555 if place.is_dir() else 0o444)

    def bound_by_modes() -> None:
        """An administrator may write anywhere but without this right, CAP_DAC_OVERRIDE, which PR_CAPBSET_DROP drops."""
        if os.getuid() == 0 and ctypes.CDLL(None).prctl(24, 1, 0, 0, 0):
            raise PermissionError("the right cannot be dropped")

    known = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG"))}
    known |= {"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "MISCAL_QUIET": "1"}
    code = f"""
import importlib, os, sys
import numpy as np
import miscal
assert miscal.__file__.startswith({str(tmp_path)!r}) and not os.access({str(package)!r}, os.W_OK)
for name in {names!r}:
    importlib.import_module(f"miscal.kernels.{{name}}")
from miscal.kernels.arithmetic import decay
weight = np.empty(1)
decay(np.zeros(1), 1.0, weight)
assert weight[0] == 1.0
"""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=known, cwd="/", preexec_fn=bound_by_modes, capture_output=True, text=True
        )
    except (PermissionError, subprocess.SubprocessError) as error:
        pytest.skip(f"no process without the right to write anywhere can be started here: {error}")
    finally:
        for place in (tmp_path, *tmp_path.rglob("*")):
            place.chmod(0o755 if place.is_dir() else 0o644)
    assert done.returncode == 0, done.stderr

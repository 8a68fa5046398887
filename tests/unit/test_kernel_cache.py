"""Cached kernels never outlive the code that they call."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

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

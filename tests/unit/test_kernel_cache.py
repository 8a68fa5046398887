"""Cached kernels never outlive the code that they call."""

from __future__ import annotations

import os
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

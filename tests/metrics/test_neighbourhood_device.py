"""Pairs on an accelerator against the processor's: triton's kernel in its interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

CHECK = """
import numpy as np
from miscal.kernels import neighbours, pairs_device

def compare(n, q, d, columns, scales, square, own, seed, offset=0.0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d)) * 3 + offset
    cells = rng.integers(0, 4, n)
    cells[cells == 2] = 1  # a cell without sources
    values = np.abs(rng.normal(size=(n, columns))) + 0.1
    queries = None if q is None else (rng.normal(size=(q, d)) * 3 + offset, rng.integers(0, 4, q))
    problem, _ = neighbours.arranged(points, cells, values, queries, own)
    scales = np.asarray(scales, float)
    ours = pairs_device.device_sums(problem, scales, square, device="cpu")
    theirs = neighbours.all_pairs(problem, scales, square, "cpu")
    found = theirs[0, :, 0] > 0
    assert (found == (ours[0, :, 0] > 0)).all()
    ratio = ours[:, found] / ours[:, found, :1], theirs[:, found] / theirs[:, found, :1]
    assert np.abs(ratio[0] - ratio[1]).max() < 1e-5, np.abs(ratio[0] - ratio[1]).max()
    if problem.counts_itself:  # sums are relative to the nearest source: the query itself
        assert np.abs(ours / theirs - 1).max() < 1e-4, np.abs(ours / theirs - 1).max()

compare(90, None, 5, 2, [0.3], False, True, 0)
compare(90, None, 5, 2, [0.3], False, False, 1)
compare(90, 40, 4, 3, [0.3, 1.5], False, True, 2)
compare(90, 40, 4, 2, [0.05], True, True, 3)
compare(70, None, 3, 2, [0.2], True, True, 4)
compare(70, 30, 3, 2, [0.5], False, True, 5, offset=1e6)
compare(70, 30, 3, 2, [20.0], False, True, 6)  # all weights underflow unless relative
compare(1, 3, 2, 2, [1.0], False, True, 7)
print("agreed")
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed: the kernel cannot be interpreted")
def test_the_kernel_agrees_with_the_processor_in_the_interpreter() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "agreed" in done.stdout


def test_without_a_gpu_nothing_is_sent_to_one() -> None:
    from miscal import MiscalError
    from miscal.kernels.neighbours import device_available
    from miscal.metrics import local_calibration_error

    if device_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(MiscalError, match="GPU"):
        local_calibration_error([0, 1], [0.2, 0.7], np.zeros((2, 5)), device="cuda")

"""A process that compiles kernels says so once; one that finds them in the cache is silent."""

from __future__ import annotations

import os
import subprocess
import sys

import numba
import pytest

from miscal.kernels import jit

CALL = """
import numpy as np
from miscal.kernels.laplacian import laplacian_energy
from miscal.kernels.sums import on_grid
laplacian_energy(np.array([0.1, 0.2]), np.array([0.5, -0.5]), 0.2)
on_grid(np.array([0.5]), np.array([1], np.uint8), np.empty(0), np.zeros((5, 2)))
"""


def errors_of_a_run(folder, **environment):
    known = {name: value for name, value in os.environ.items() if name != "MISCAL_QUIET"}
    known |= {"NUMBA_CACHE_DIR": str(folder), **environment}
    done = subprocess.run([sys.executable, "-c", CALL], capture_output=True, text=True, check=True, env=known)
    return done.stderr


@pytest.mark.slow
def test_the_first_run_says_that_it_compiles_and_the_next_is_silent(tmp_path):
    first = errors_of_a_run(tmp_path / "cache")
    assert first == jit.NOTICE + "\n"  # once, though two kernels were compiled
    assert errors_of_a_run(tmp_path / "cache") == ""


@pytest.mark.slow
def test_the_notice_can_be_silenced(tmp_path):
    assert errors_of_a_run(tmp_path, MISCAL_QUIET="1") == ""


def test_other_peoples_kernels_are_none_of_our_business(capsys):
    listener = jit._Notice()
    theirs = type("Event", (), {"data": {"dispatcher": numba.njit(lambda value: value)}})
    listener.on_start(theirs)
    assert capsys.readouterr().err == ""


def test_a_machine_without_a_place_for_a_cache_still_compiles(monkeypatch):
    real = numba.njit

    def refusing(*arguments, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*arguments, **options)

    monkeypatch.setattr(numba, "njit", refusing)
    assert jit.kernel(lambda value: value + 1)(1) == 2

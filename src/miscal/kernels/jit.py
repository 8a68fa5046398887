"""How kernels are compiled: once, cached on disk, without the interpreter's lock.

`parallel=True` is never used: beside a busy process its OpenMP layer costs 40 ms a call. Kernels release the
interpreter's lock and run on a small thread pool instead (`kernels.threads`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with strict IEEE arithmetic: the result does not depend on how the compiler groups sums."""
    return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a small helper into its callers."""
    return numba.njit(cache=True, nogil=True, inline="always")(function)  # type: ignore[no-any-return]

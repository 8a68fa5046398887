"""How kernels are compiled: once, cached on disk, without the interpreter's lock.

`parallel=True` is never used: beside a busy process its OpenMP layer costs 40 ms a call. Kernels release the
interpreter's lock and run on a small thread pool instead (`kernels.threads`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile with strict IEEE arithmetic: the result does not depend on how the compiler groups sums."""
    return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]


def inlined(function: Function) -> Function:
    """Compile a small helper into its callers."""
    return numba.njit(cache=True, nogil=True, inline="always")(function)  # type: ignore[no-any-return]

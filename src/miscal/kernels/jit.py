"""How kernels are compiled: once, cached on disk, without the interpreter's lock.

`parallel=True` is never used: beside a busy process its OpenMP layer costs 40 ms a call. Kernels release the
interpreter's lock and run on a small thread pool instead (`kernels.threads`). A process that has to compile says so
once on the standard error, unless MISCAL_QUIET is set.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event

PACKAGE = __name__.partition(".")[0]
NOTICE = f"{PACKAGE}: compiling kernels for their first use; later runs start at once"


class _Notice(event.Listener):  # type: ignore[misc]
    """Speaks at the first kernel that is compiled rather than read from the cache."""

    said = False

    def on_start(self, started: Any) -> None:
        module = started.data["dispatcher"].py_func.__module__ or ""  # none for a function made by exec
        if self.said or module.partition(".")[0] != PACKAGE:
            return
        self.said = True
        if os.environ.get("MISCAL_QUIET", "") in ("", "0"):
            sys.stderr.write(f"{NOTICE}\n")
            sys.stderr.flush()

    def on_end(self, ended: Any) -> None:
        """Nothing is said at the end."""


event.register("numba:compile", _Notice())


def forget_if_changed(folder: Path) -> bool:
    """Delete cached kernels when any file of the folder is newer than when they were compiled.

    A cached kernel is rebuilt only when its own file changes, not when a kernel that it calls changes: without this an
    upgraded library could run yesterday's arithmetic. Returns whether anything was forgotten.
    """
    cached = folder / "__pycache__"
    stamp = cached / "kernels.stamp"
    state = ";".join(f"{file.name}:{file.stat().st_mtime_ns}" for file in sorted(folder.glob("*.py")))
    try:
        if stamp.exists() and stamp.read_text() == state:
            return False
        found = [file for kind in ("*.nbi", "*.nbc") for file in cached.glob(kind)]
        for file in found:
            file.unlink(missing_ok=True)
        cached.mkdir(exist_ok=True)
        stamp.write_text(state)
    except OSError:  # a read-only installation cannot go stale by being edited
        return False
    return bool(found)





def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with strict IEEE arithmetic: the result does not depend on how the compiler groups sums."""
    return _compiled(function)


def regrouped(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `fused`, with sums and minima regrouped: only for short blocks, whose sums stay as exact.

    Without that they do not become vector code. The grouping is fixed when the function is compiled, so a machine gives
    the same bits in every run. No value may be missing.
    """
    return _compiled(function, fastmath={"reassoc", "contract", "nsz", "nnan"})


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a small helper into its callers."""
    return _compiled(function, inline="always")


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `kernel`, with products and sums fused, which is quicker and, if anything, more exact.

    Nothing that reorders sums is allowed: it would fold away the addition that rounds in `arithmetic.exponential`.
    """
    return _compiled(function, fastmath={"contract", "nsz"})


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    options |= {"nogil": True, "error_model": "numpy"}  # a check for x / 0 would keep a loop from becoming vector code
    try:
        made = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder in which a cache may be kept: every process compiles for itself
        return numba.njit(**options)(function)  # type: ignore[no-any-return]
    _forgive(made._cache)  # noqa: SLF001
    return made  # type: ignore[no-any-return]


def _forgive(cache: Any) -> None:
    """A kernel that cannot be kept, on a full disk for example, is compiled again by the next process."""
    save = cache.save_overload

    def saved(*arguments: Any) -> None:
        with contextlib.suppress(OSError):
            save(*arguments)

    cache.save_overload = saved

"""Give memory back that was needed for a moment, before the next large step asks for its own."""

from __future__ import annotations

import contextlib
import sys

MANY_ROWS = 100_000


def give_back(rows: int) -> None:
    """Return freed memory to the system; both Arrow and the C library would keep it for later. Cheap, and optional."""
    if rows < MANY_ROWS:
        return
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)

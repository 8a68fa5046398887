"""Run a kernel over blocks of rows on a few threads.

The blocks depend on the number of rows alone and results come back in the order of the blocks, so the answer has the
same bits for any number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import TypeVar

Answer = TypeVar("Answer")

BLOCK = 1 << 18  # rows; small enough to share out evenly, large enough to hide the cost of a task


def thread_count() -> int:
    """How many threads kernels use: MISCAL_THREADS, or the processors this process may run on."""
    asked = os.environ.get("MISCAL_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@lru_cache(maxsize=8)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    # The process number is part of the key because a forked child does not inherit its parent's threads.
    return ThreadPoolExecutor(threads, thread_name_prefix="miscal")


_here = threading.local()


@contextmanager
def one_of_many() -> Iterator[None]:
    """Within it this thread works through its blocks alone: others beside it keep the processors busy already."""
    before = getattr(_here, "alone", False)
    _here.alone = True
    try:
        yield
    finally:
        _here.alone = before


def over_blocks(rows: int, work: Callable[[int, int], Answer], block: int = BLOCK) -> list[Answer]:
    """Call `work(start, stop)` for every block of rows and return the answers in order."""
    cuts = [(start, min(start + block, rows)) for start in range(0, rows, block)]
    threads = thread_count()
    if len(cuts) <= 1 or threads == 1 or getattr(_here, "alone", False):
        return [work(start, stop) for start, stop in cuts]
    return list(_pool(threads, os.getpid()).map(lambda cut: work(*cut), cuts))

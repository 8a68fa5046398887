"""Who reads a table that is not loaded: a cluster for its own frames, this process for everything else."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeVar

from miscal.data.csv_files import TypesChanged
from miscal.data.sizes import memory_bytes
from miscal.data.vectors import library_of
from miscal.engines.batches import batches_of, is_lazy
from miscal.engines.stream import Stream, batch_rows
from miscal.kernels.threads import thread_count

Made = TypeVar("Made")
DEFAULT = "1GB"
CODES = 14  # columns that codes of crossed ones amount to
RESERVED = 4  # a quarter of the ceiling is kept for what subpopulations need beside batches
SHARE = 6  # a sixth of the ceiling is for sums of subpopulations, all threads together


def in_parts(source: Any, memory: Any = None) -> bool:
    """Whether a table is one of several files, a cluster's frame, or was given a ceiling."""
    if library_of(source) == "pyspark":
        return True
    if isinstance(source, (str, PathLike)):
        path = Path(fspath(source))
        several = path.is_dir() or (not path.exists() and any(mark in str(path) for mark in "*?["))
        return several or memory is not None
    return memory is not None and is_lazy(source)


def runner_for(
    source: Any, memory: Any = None, progress: Callable[[str, int, int], None] | None = None, *, crossed: bool = True
) -> Any:
    """The runner of a table; `crossed` leaves room for the sums of subpopulations and for codes of crossed columns."""
    if library_of(source) == "pyspark":
        from miscal.engines.spark import Cluster

        return Cluster(source)
    ceiling = memory_bytes(memory or DEFAULT)
    width = len(batches_of(source).kinds) + (CODES if crossed else 0)
    threads = min(thread_count(), max(1, ceiling // (256 << 20)))
    left = ceiling - (ceiling // RESERVED if crossed else 0)
    stream = Stream(batches_of(source, batch_rows(left, width, threads)), threads, memory=ceiling)
    if progress is not None:
        stream.progress = lambda done, total: progress(f"pass {stream.passes}", done, total)
    return stream


def restarted(runner: Any, work: Callable[[], Made]) -> Made:
    """Do something with a table, from the start again when a CSV column turns out to hold other values."""
    while True:
        try:
            return work()
        except TypesChanged:
            runner.passes = 0


def sums_bytes(runner: Any, memory: Any = None) -> int:
    """Bytes that each worker may use for the sums of subpopulations; states of a cluster travel, so they are small."""
    threads = getattr(runner, "threads", None)
    if threads is None:
        return 24 << 20
    return int(memory_bytes(memory or DEFAULT) // (SHARE * threads))

"""Run a pass over batches in this process, on a few threads, each with sums of its own."""

from __future__ import annotations

import contextlib
import mmap
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

from miscal.data.sizes import LEAST
from miscal.engines.batches import Batches, Chunk
from miscal.engines.plan import Job, State
from miscal.kernels.threads import one_of_many, thread_count

MEGABYTE = 1 << 20
FIXED = 400 * MEGABYTE  # the interpreter, the libraries, the sums
PAGE = mmap.PAGESIZE


def batch_rows(memory: int, columns: int, threads: int) -> int:
    """Rows of a batch such that all threads together stay below a ceiling."""
    row = 100 + 24 * columns  # decoded, as float64, as codes; and what pools keep
    rows = max(memory - FIXED, 40 * MEGABYTE) // (threads * row)
    return int(min(max(rows, 1 << 14), 1 << 20))


class Stream:
    """Runs passes over batches."""

    def __init__(
        self,
        batches: Batches,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        memory: int | None = None,
    ) -> None:
        self.batches = batches
        allowed = threads or thread_count()
        self.threads = max(1, min(allowed, max(batches.parts, 1)))
        self.ahead = allowed > 1  # a table of one part is decoded on a thread of its own, if there may be one
        self.progress = progress
        self.passes = 0
        self.keep = 7 * (memory or LEAST) // 8  # bytes that may be held without giving any back

    @property
    def kinds(self) -> dict[str, str]:
        return self.batches.kinds

    @property
    def rows(self) -> int | None:
        return self.batches.rows

    @property
    def words(self) -> str:
        return self.batches.words

    def check(self, columns: list[str]) -> None:
        """Refuse parts that differ before anything is read."""
        check = getattr(self.batches, "check", None)
        if check is not None:
            check(columns)

    def sample(self, columns: list[str]) -> Iterator[Chunk]:
        """A few batches from all over the table."""
        return self.batches.sample(columns)

    def run(self, job: Job) -> Any:
        """Add every batch; the state of all of them."""
        self.passes += 1
        try:
            return self._alone(job) if self.threads == 1 else self._together(job)
        finally:
            self._release(4 * self.keep // 7)  # what comes after a pass needs other memory

    def _together(self, job: Job) -> Any:
        stop = threading.Event()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="miscal-stream") as pool:
            futures = [pool.submit(self._some, job, worker, stop) for worker in range(self.threads)]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            except BaseException:  # an interrupt: let the workers end at their next batch
                stop.set()
                raise
            if any(future.exception() for future in done):
                stop.set()
        failed = [error for future in futures if (error := future.exception()) is not None]
        if failed:
            raise failed[0]
        total, *others = [future.result() for future in futures]
        for other in others:
            total.merge(other.arrays())
        return total

    def _some(self, job: Job, worker: int, stop: threading.Event) -> State:
        """The parts of one worker: which ones depends on the number of workers alone."""
        with one_of_many():
            return self._worked(job, worker, stop)

    def _worked(self, job: Job, worker: int, stop: threading.Event) -> State:
        state = job.start()
        for part in range(worker, self.batches.parts, self.threads):
            for chunk in self.batches.read(part, job.columns):
                if stop.is_set():
                    return state
                batch = job.door.open(chunk)
                if batch is not None:
                    state.add(batch)
                del chunk, batch  # the next one is decoded into the same memory
            self._release(self.keep)
            if worker == 0 and self.progress is not None:
                self.progress(part, self.batches.parts)
        return state

    def _alone(self, job: Job) -> State:
        """One state; where another thread is allowed, the next batch is decoded while this one is added."""
        state = job.start()
        for chunk in _ahead(lambda: self._chunks(job)) if self.ahead else self._chunks(job):
            batch = job.door.open(chunk)
            if batch is not None:
                state.add(batch)
            del chunk, batch  # the next one is decoded into the same memory
        return state

    def _chunks(self, job: Job) -> Iterator[Chunk]:
        for part in range(self.batches.parts):
            yield from self.batches.read(part, job.columns)
            self._release(self.keep)
            if self.progress is not None:
                self.progress(part, self.batches.parts)

    def _release(self, keep: int) -> None:
        """Give memory that a part needed back to the system where much is held: asking for it anew costs time."""
        if _resident() > keep:
            _trim()


def _resident() -> int:
    """Bytes of memory that this process has now; infinitely many where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  # asked after every part
            return int(file.read().split()[1]) * PAGE
    except OSError:
        return sys.maxsize


def _trim() -> None:
    """Pools and the arenas of threads keep memory otherwise."""
    import ctypes

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with contextlib.suppress(OSError, AttributeError):  # only the GNU library has it
        ctypes.CDLL(None).malloc_trim(0)


def _ahead(chunks: Callable[[], Iterator[Chunk]]) -> Iterator[Chunk]:
    """Read on another thread, one batch ahead."""
    waiting: queue.Queue[Any] = queue.Queue(maxsize=1)
    stop = threading.Event()

    def put(item: Any) -> bool:
        while not stop.is_set():
            try:
                waiting.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def fill() -> None:
        try:
            for chunk in chunks():
                if not put(chunk):
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001  # handed to the thread that waits for it
            put(error)

    reader = threading.Thread(target=fill, daemon=True, name="miscal-reader")
    reader.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        reader.join()

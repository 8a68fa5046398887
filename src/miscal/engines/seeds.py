"""Random numbers of rows, from where they stand alone: the same for any batches and threads."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from miscal.engines.rows import Batch


def _start(batch: Batch, seed: int) -> np.uint64:
    return np.uint64((crc32(batch.chunk.place.encode()) << 32) ^ (int(seed) & 0xFFFFFFFF))


def row_hashes(batch: Batch, seed: int) -> np.ndarray:
    """A random 64-bit number for each row of a batch, from the seed and where the row stands (splitmix64)."""
    rows = np.arange(batch.rows) if batch.kept is None else batch.kept
    start = _start(batch, seed)
    with np.errstate(over="ignore"):
        z = (rows + batch.chunk.first).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def sampled_rows(batch: Batch, step: int, seed: int = 0) -> np.ndarray:
    """Rows of a batch that are in a sample of one row in `step`, each drawn by itself."""
    if step <= 1:
        return np.arange(batch.rows if step else 0)
    limit = np.uint64(2**64 // step)
    if batch.kept is not None:
        return np.flatnonzero(row_hashes(batch, seed) < limit)
    from miscal.kernels.simulate import rows_below

    found = np.empty(batch.rows, np.int64)
    return found[: rows_below(batch.rows, batch.chunk.first, _start(batch, seed), limit, found)].copy()

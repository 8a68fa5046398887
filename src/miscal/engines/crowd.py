"""Subpopulations of a stream: what a pass adds for all of them at once, and the rows that a further pass pulls.

The first pass adds residuals by subpopulation and bucket of the score. At the borders of buckets each walk is known
exactly, inside a bucket it rises and falls no further than the bucket's sums allow. The second pass pulls, of the
subpopulations that matter, the rows of the buckets that can hold an extreme.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miscal.data.vectors import locked
from miscal.engines.buckets import KeyMap
from miscal.engines.members import Members
from miscal.engines.plan import Packed, _Lists
from miscal.engines.rows import Batch, Door
from miscal.kernels.subpopulation_stream import BUCKET_WIDTH, REAL_WIDTH, TOTAL_WIDTH

NOTHING = np.empty(0)
CURVE = 256  # points of a subpopulation's running total


@dataclass(frozen=True, eq=False)
class CrowdPass:
    """Sums of every subpopulation by bucket of the score."""

    door: Door
    members: Members
    score: KeyMap

    @property
    def columns(self) -> list[str]:
        return self.door.and_columns(one.name for one in self.members.rules.columns)

    @property
    def shift(self) -> int:
        """From a bucket to a point of the curve."""
        return max(0, (self.score.count - 1).bit_length() - (CURVE - 1).bit_length())

    def start(self) -> CrowdState:
        return CrowdState(self)


class CrowdState:
    """Sums by cell: see `kernels.subpopulation_stream`."""

    def __init__(self, job: CrowdPass) -> None:
        self.job = job
        cells, buckets = job.members.cells, job.score.count
        self.sums = np.zeros((cells, buckets, BUCKET_WIDTH), np.int64)
        self.totals = np.zeros((cells, TOTAL_WIDTH), np.int64)
        self.real = np.zeros((cells, REAL_WIDTH))
        self.sums_real = np.zeros((0, buckets, 2))
        self.curve = np.zeros((cells, ((buckets - 1) >> job.shift) + 1, 2))
        self.top = np.zeros(cells)
        self.spans = np.empty((buckets, 2))
        self.spans[:, 0], self.spans[:, 1] = np.inf, -np.inf
        self.seen = np.zeros(sum(one.named for one in job.members.rules.columns), bool)
        self.rows = np.zeros(1, np.int64)
        # Smallest and largest weight of non-events and events, as in the first pass of a scan.
        self.weights = np.array([[np.inf, -np.inf, 0.0]] * 2)

    def add(self, batch: Batch) -> None:
        from miscal.kernels.subpopulation_stream import bucket_spans

        members = self.job.members
        codes = self.job.score.codes(batch.pair.predicted)
        bucket_spans(codes, batch.pair.predicted, self.spans)
        self.rows += batch.rows
        self._weights(batch)
        if members.by_atoms:
            self._atoms(batch, codes)
        else:
            self._lists(batch, codes)

    def _weights(self, batch: Batch) -> None:
        pair = batch.pair
        if pair.weight is None:
            return
        for outcome in (0, 1):
            inside = pair.weight[pair.observed == outcome]
            if inside.size:
                low, high, rows = self.weights[outcome]
                self.weights[outcome] = min(low, inside.min()), max(high, inside.max()), rows + inside.size

    def _rows(self, batch: Batch, order: np.ndarray | None) -> tuple[tuple[np.ndarray, ...], bool]:
        """Predicted, observed, first and second weight in an order, and whether weights are whole."""
        pair = batch.pair
        whole = pair.whole
        first = NOTHING if pair.first is None else pair.first
        second = NOTHING if pair.second is None else pair.second
        made = [np.asarray(v, np.float64) for v in (pair.predicted, first, second)]
        predicted, first, second = (v if order is None or not v.size else v[order] for v in made)
        observed = pair.observed if order is None else pair.observed[order]
        if not whole and not self.sums_real.size:
            self.sums_real = np.zeros((*self.sums.shape[:2], 2))
        return tuple(map(locked, (predicted, observed, first, second))), whole

    def _atoms(self, batch: Batch, codes: np.ndarray) -> None:
        from miscal.kernels.subpopulation_stream import add_cells, add_cells_real, heaviest

        cells, seen = self.job.members.atoms(batch)
        self.seen |= seen
        arrays, whole = self._rows(batch, None)
        seed = np.uint64(0)  # which atoms are filled tells sets of rows apart
        given = (cells, self.job.shift, locked(codes), *arrays, seed, self.sums, self.totals, self.curve)
        if whole:
            add_cells(*given, self.real)
        else:
            add_cells_real(*given, self.real, self.sums_real)
        if batch.pair.weight is None:
            self.top[:] = 1.0
        else:
            heaviest(cells, batch.pair.weight, self.top)

    def _lists(self, batch: Batch, codes: np.ndarray) -> None:
        from miscal.kernels.subpopulation_stream import add_list, add_list_real, bucket_order

        slots, seen = self.job.members.slots(batch)
        self.seen |= seen
        order = np.empty(codes.size, np.int32)
        bucket_order(codes, self.job.score.count, order)
        arrays, whole = self._rows(batch, order)
        given = (self.job.shift, locked(codes[order]), *arrays, _seed(batch), self.sums, self.totals, self.curve)
        weight = None if batch.pair.weight is None else batch.pair.weight[order]
        for k, rows in self.job.members.lists([own[order] for own in slots], codes.size):
            if whole:
                add_list(rows, k, *given, self.real)
            else:
                add_list_real(rows, k, *given, self.real, self.sums_real)
            if rows.size:
                self.top[k] = max(self.top[k], 1.0 if weight is None else float(weight[rows].max()))

    def arrays(self) -> Packed:
        names = ("sums", "totals", "real", "sums_real", "curve", "top", "spans", "seen", "rows", "weights")
        return {name: getattr(self, name) for name in names}

    def merge(self, packed: Packed) -> None:
        for name in ("sums", "totals", "real", "curve", "rows"):
            getattr(self, name)[...] += packed[name]
        if packed["sums_real"].size:
            self.sums_real = packed["sums_real"] + (self.sums_real if self.sums_real.size else 0.0)
        np.maximum(self.top, packed["top"], out=self.top)
        self.seen |= packed["seen"]
        for array, other in ((self.spans, packed["spans"]), (self.weights, packed["weights"])):
            np.minimum(array[:, 0], other[:, 0], out=array[:, 0])
            np.maximum(array[:, 1], other[:, 1], out=array[:, 1])
        self.weights[:, 2] += packed["weights"][:, 2]

    @property
    def outcome_weights(self) -> bool:
        """Whether weights are constant within each outcome and differ between them."""
        low, high, rows = self.weights.T
        if not low.min() < high.max() or rows.min() < 2 or np.any(high - low > 1e-9 * low):
            return False
        return bool(low.max() > low.min() * (1.0 + 1e-9))

    def unseen(self) -> tuple[str, str] | None:
        """A level that an expression names and no row has, with its column."""
        start = 0
        for one in self.job.members.rules.columns:
            for place, level in enumerate(one.levels):
                if not self.seen[start + place]:
                    return one.name, level
            start += one.named
        return None


def _seed(batch: Batch) -> np.uint64:
    """Tells the rows of a batch from those of all others, so that equal sets of rows are known as such."""
    from zlib import crc32

    return np.uint64((crc32(batch.chunk.place.encode()) << 32) ^ (batch.chunk.first * 0x9E3779B1 & 0xFFFFFFFF))


@dataclass(frozen=True, eq=False)
class PullPass:
    """The rows of some cells in some buckets. wanted : (cells, buckets), a bit each, packed along the buckets."""

    door: Door
    members: Members
    score: KeyMap
    wanted: np.ndarray

    @property
    def columns(self) -> list[str]:
        return self.door.and_columns(one.name for one in self.members.rules.columns)

    def start(self) -> PullState:
        return PullState(self)


class PullState:
    """Rows pulled: cell, bucket, score, outcome, and weight."""

    def __init__(self, job: PullPass) -> None:
        self.job = job
        self.wanted = np.unpackbits(job.wanted, axis=1, count=job.score.count).astype(bool)
        self.lists = _Lists()
        self.rows = np.zeros(1, np.int64)

    def add(self, batch: Batch) -> None:
        members = self.job.members
        self.rows += batch.rows
        codes = self.job.score.codes(batch.pair.predicted)
        if members.by_atoms:
            cells, _ = members.atoms(batch)
            rows = np.flatnonzero(self.wanted[cells, codes])
            self._take(batch, rows, cells[rows], codes)
            return
        for k, found in members.lists(members.slots(batch)[0], codes.size):
            rows = found[self.wanted[k][codes[found]]]
            self._take(batch, rows, np.full(rows.size, k, np.int32), codes)

    def _take(self, batch: Batch, rows: np.ndarray, cells: np.ndarray, codes: np.ndarray) -> None:
        if rows.size:
            pair = batch.pair
            first = None if pair.first is None else pair.first[rows]
            taken = {"score": pair.predicted[rows], "observed": pair.observed[rows], "first": first}
            self.lists.add(cell=cells, bucket=codes[rows], **taken)

    def arrays(self) -> Packed:
        return {"rows": self.rows} | {f"pulled:{name}": values for name, values in self.lists.arrays().items()}

    def merge(self, packed: Packed) -> None:
        self.rows += packed["rows"]
        self.lists.merge({n.removeprefix("pulled:"): v for n, v in packed.items() if n != "rows"})

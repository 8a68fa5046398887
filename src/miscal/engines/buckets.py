"""What the first pass keeps of a key: sums over tens of thousands of buckets of its values, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.vectors import locked
from miscal.engines.rows import Batch
from miscal.kernels.buckets import BucketMap
from miscal.pairs import Pair

DISTINCT = 200
HALF = 26
HALF_MASK = (1 << HALF) - 1
BLOCK = 1 << 14  # rows whose buckets are found at a time
NOTHING = np.empty(0)
NO_COUNT = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class KeyMap:
    """From values to buckets, in order: by a map fitted to a sample, or by explicit borders. NaN has a last bucket."""

    count: int
    low: float = 0.0
    high: float = 1.0
    arguments: tuple[Any, ...] = ()
    borders: np.ndarray | None = None

    @classmethod
    def fitted(cls, sample: np.ndarray, buckets: int) -> KeyMap:
        """A map with about equally many rows of the sample in each bucket."""
        known = sample[~np.isnan(sample)]
        if known.size == 0:
            known = np.array([0.0, 1.0])
        low, high = float(known.min()), float(known.max())
        base, scale, starts, widths = BucketMap(np.ascontiguousarray(known), low, high, buckets).arguments
        # One more stretch: that of NaN, which has a bucket of its own behind all others.
        return cls(buckets, low, high, (base, scale, np.append(starts, buckets), np.append(widths, [0.0, 0.0])))

    @classmethod
    def between(cls, borders: np.ndarray) -> KeyMap:
        """Buckets that end at the borders, right-closed, and one beyond the last."""
        return cls(borders.size + 1, borders=borders)

    def codes(self, values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """The bucket of each value as int32."""
        from miscal.kernels.stream import border_codes, bucket_codes

        codes = np.empty(values.size, np.int32) if out is None else out[: values.size]
        if self.borders is not None:
            border_codes(values, self.borders, np.int32(self.count), codes)
        else:
            bucket_codes(values, self.low, self.high, *self.arguments, codes)
        return codes


class KeySums:
    """What the first pass keeps of one key: per bucket rows, weight, falls and rises, and the span of the values."""

    def __init__(self, buckets: int) -> None:
        self.sums = np.zeros((buckets + 1, 6), np.int64)
        self.real = np.zeros((0, 3))
        self.events = np.zeros(buckets + 1, np.int64)  # of rows of weight 1
        self.spans = np.empty((buckets + 1, 2))
        self.spans[:, 0], self.spans[:, 1] = np.inf, -np.inf
        self.distinct = NOTHING  # up to DISTINCT of them; that many means that many or more
        self.plain = np.zeros((0, 3), np.uint64)  # rows of weight 1, not yet in the sums

    def add(self, values: np.ndarray, made: KeyMap, batch: Batch) -> None:
        """Add a batch."""
        pair = batch.pair
        if not pair.plain:
            self._add_weighted(values, made.codes(values), pair)
        else:
            self._add_plain(values, made, pair)
        if self.distinct.size < DISTINCT:
            self._find_distinct(values)

    def _add_plain(self, values: np.ndarray, made: KeyMap, pair: Pair) -> None:
        from miscal.kernels.stream import add_plain_steps, bucket_steps

        if not self.plain.size:
            self.plain = np.zeros((len(self.sums), 3), np.uint64)
        sums = (self.plain, self.sums, self.events, self.spans)
        if made.borders is None:
            arguments = (made.low, made.high, *made.arguments, np.empty(BLOCK, np.int32))
            bucket_steps(values, pair.predicted, pair.observed, *arguments, *sums)
        else:
            add_plain_steps(made.codes(values), values, pair.predicted, pair.observed, *sums)

    def _add_weighted(self, values: np.ndarray, codes: np.ndarray, pair: Pair) -> None:
        from miscal.kernels.stream import add_steps, add_steps_real

        first = NOTHING if pair.first is None else locked(pair.first)
        count = NO_COUNT if pair.count is None else pair.count
        if pair.whole:
            add_steps(codes, values, pair.predicted, pair.observed, locked(first), locked(count), self.sums, self.spans)
            return
        if not self.real.size:
            self.real = np.zeros((len(self.sums), 3))
        first = locked(first if first.size else np.ones(pair.rows))
        arguments = (codes, values, pair.predicted, pair.observed, first, locked(count))
        add_steps_real(*arguments, self.sums, self.real, self.spans)

    def _find_distinct(self, values: np.ndarray) -> None:
        """Read the distinct values off buckets that have one each; look at the rows only where some have more."""
        from miscal.kernels.stream import distinct_values

        spans = self.spans[self.spans[:, 0] <= self.spans[:, 1]]
        if len(spans) >= DISTINCT or bool(np.all(spans[:, 0] == spans[:, 1])):
            self.distinct = np.unique(spans[:, 0])[:DISTINCT]
            return
        found = np.empty(DISTINCT)
        number = distinct_values(values, DISTINCT, found)
        self.distinct = np.unique(np.append(self.distinct, found[:number]))[:DISTINCT]

    def settle(self) -> None:
        """Move rows of weight 1 into the sums."""
        from miscal.kernels.stream import empty_steps

        if self.plain.size:
            empty_steps(self.plain, self.sums, self.events)

    def means(self, shift: int) -> np.ndarray:
        """Rows of weight 1, events and limbs of 32 bits of Σp of cells of 2**shift buckets: (cells, 4) int64."""
        self.settle()
        starts = np.arange(0, len(self.sums), 1 << shift)
        events = np.add.reduceat(self.events, starts)
        sums = np.add.reduceat(self.sums, starts, axis=0)
        high, low = (events << HALF) + sums[:, 2] - sums[:, 4], sums[:, 3] - sums[:, 5]  # Σp = events - rises + falls
        high, low = normal(high, low)
        return np.stack([sums[:, 0], events, high >> 6, ((high & 63) << HALF) + low], axis=1)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything, by name."""
        self.settle()
        return {name: getattr(self, name) for name in ("sums", "real", "events", "spans", "distinct")}

    def merge(self, other: dict[str, np.ndarray]) -> None:
        """Add the sums of another part."""
        self.settle()
        self.sums += other["sums"]
        self.events += other["events"]
        if other["real"].size:
            self.real = other["real"] + (self.real if self.real.size else 0.0)
        np.minimum(self.spans[:, 0], other["spans"][:, 0], out=self.spans[:, 0])
        np.maximum(self.spans[:, 1], other["spans"][:, 1], out=self.spans[:, 1])
        self.distinct = np.unique(np.append(self.distinct, other["distinct"]))[:DISTINCT]


def normal(high: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Carry the low limbs of 26 bits over."""
    return high + (low >> HALF), low & HALF_MASK

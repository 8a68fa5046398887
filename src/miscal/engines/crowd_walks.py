"""The walks of a stream's subpopulations: bounds from the borders of buckets, exact where their rows were pulled."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from miscal.engines.buckets import HALF, HALF_MASK, normal
from miscal.engines.crowd import CrowdState
from miscal.engines.members import Members
from miscal.kernels.subpopulation_stream import HIGH, LOW, RISE, ROWS

UNIT = 4503599627370496.0
COARSE = 2.0**-20


@dataclass(eq=False)
class Track:
    """The walk of one subpopulation over the buckets it fills.

    bucket, rows : its filled buckets and their rows;  end : the walk after each;  rise : how far it can rise inside
    spans : smallest and largest score of every bucket, of all rows
    """

    bucket: np.ndarray
    rows: np.ndarray
    end: np.ndarray
    rise: np.ndarray
    spans: np.ndarray
    highest: float = 0.0
    lowest: float = 0.0
    highest_at: float = math.nan
    lowest_at: float = math.nan
    most: float = 0.0  # the range is at most this
    exact: bool = True

    def __post_init__(self) -> None:
        if not self.end.size:
            return
        high, low = int(np.argmax(self.end)), int(np.argmin(self.end))
        if self.end[high] > 0:
            self.highest, self.highest_at = float(self.end[high]), float(self.spans[self.bucket[high], 1])
        if self.end[low] < 0:
            self.lowest, self.lowest_at = float(self.end[low]), float(self.spans[self.bucket[low], 1])
        up, down = self._reach()
        self.most = max(self.highest, float(up.max())) - min(self.lowest, float(down.min()))
        self.exact = not self.suspects.size

    @property
    def start(self) -> np.ndarray:
        """The walk before each bucket."""
        return np.append(0.0, self.end)[: self.end.size]

    @property
    def several(self) -> np.ndarray:
        """Whether a bucket has several scores, those of all rows counted."""
        spans = self.spans[self.bucket]
        return np.asarray(spans[:, 0] != spans[:, 1])

    def _reach(self) -> tuple[np.ndarray, np.ndarray]:
        """How high and how low the walk can be inside each bucket; its end where there is nothing inside."""
        start = self.start
        inside = self.several & (self.rows > 1)
        fall = np.maximum(self.rise - (self.end - start), 0.0)
        return np.where(inside, start + self.rise, self.end), np.where(inside, start - fall, self.end)

    @property
    def range(self) -> float:
        return self.highest - self.lowest

    @property
    def slack(self) -> float:
        return 1e-12 * max(1.0, abs(self.highest), abs(self.lowest))

    @property
    def suspects(self) -> np.ndarray:
        """Places of the buckets inside which the walk can pass its extremes at the borders."""
        if not self.end.size:
            return np.empty(0, np.int64)
        inside = self.several & (self.rows > 1)
        up, down = self._reach()
        passing = (up > self.highest - self.slack) | (down < self.lowest + self.slack)
        return np.flatnonzero(inside & passing)

    @property
    def needed(self) -> np.ndarray:
        """Places of the buckets whose rows are pulled: the suspects, and those that end at an extreme."""
        ends = np.flatnonzero((self.end == self.highest) | (self.end == self.lowest))
        return np.union1d(self.suspects, ends[self.several[ends]])

    def settle(
        self, bucket: np.ndarray, score: np.ndarray, observed: np.ndarray, first: np.ndarray | None,
        limbs: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Take in the rows of the buckets needed: the walk is now exact.

        limbs : the walk before each bucket as two limbs, where it is exact
        """
        self.exact, self.most = True, self.range
        if score.size == 0:
            return
        order = np.lexsort((score, bucket))
        bucket, score, observed = bucket[order], score[order], observed[order].astype(np.int64)
        weight = np.ones(score.size) if first is None else first[order]
        place = np.searchsorted(self.bucket, bucket)
        ends = np.flatnonzero(np.append((score[1:] != score[:-1]) | (bucket[1:] != bucket[:-1]), True))
        opens = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
        segment = np.cumsum(np.append(0, (bucket[1:] != bucket[:-1]).astype(np.int64)))
        if limbs is None:
            steps = (observed - score) * weight
            walk = _within(steps, opens, segment)[ends] + self.start[place[ends]]
        else:
            step = (observed << 52) - np.floor(score * UNIT + 0.5).astype(np.int64)
            times = weight.astype(np.int64)
            high, low = (
                _within(part * times, opens, segment)[ends] + limbs[place[ends], i]
                for i, part in enumerate((step >> HALF, step & HALF_MASK))
            )
            walk = _float(*normal(high, low))
        self._extend(walk, score[ends])
        self.most = self.range

    def _extend(self, walk: np.ndarray, score: np.ndarray) -> None:
        best, worst, slack = int(np.argmax(walk)), int(np.argmin(walk)), self.slack
        if walk[best] > max(self.highest - slack, 0.0):
            self.highest, self.highest_at = max(self.highest, float(walk[best])), float(score[best])
        if walk[worst] < min(self.lowest + slack, 0.0):
            self.lowest, self.lowest_at = min(self.lowest, float(walk[worst])), float(score[worst])


def _added(sums: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """The sum over some cells, without a copy of them."""
    total = np.zeros(sums.shape[1:], sums.dtype)
    for cell in cells.tolist():
        total += sums[cell]
    return total


def _within(steps: np.ndarray, opens: np.ndarray, segment: np.ndarray) -> np.ndarray:
    """Running sums that start anew at each segment."""
    total = np.cumsum(steps)
    before = np.append(0, total)[opens]
    return np.asarray(total - before[segment])


def _float(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    return np.asarray(high * 2.0**-26 + low * 2.0**-52)


@dataclass(eq=False)
class Crowd:
    """All subpopulations after the first pass: their totals, and their walks as far as they are known."""

    members: Members
    state: CrowdState
    tracks: dict[int, Track] = field(default_factory=dict)

    def track(self, k: int) -> Track:
        """The walk of a subpopulation."""
        if k not in self.tracks:
            self.tracks[k] = self._track(k)
        return self.tracks[k]

    def _sums(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The filled buckets of a subpopulation and their sums."""
        cells = np.flatnonzero(self.members.union(k))
        sums = self.state.sums[cells[0]] if cells.size == 1 else _added(self.state.sums, cells)
        filled = np.flatnonzero(sums[:, ROWS])
        return filled, sums[filled]

    def _track(self, k: int) -> Track:
        state = self.state
        filled, sums = self._sums(k)
        high, low = normal(sums[:, HIGH], sums[:, LOW])
        rise = sums[:, RISE] * COARSE
        if state.sums_real.size:
            real = _added(state.sums_real, np.flatnonzero(self.members.union(k)))[filled]
            end, rise = np.cumsum(_float(high, low) + real[:, 0]), rise + real[:, 1]
        else:
            end = _float(*normal(np.cumsum(high), np.cumsum(low)))
        return Track(filled.astype(np.int32), sums[:, ROWS], end, rise, state.spans)

    def limbs(self, k: int) -> np.ndarray | None:
        """The walk before each filled bucket as two limbs; None where weights are not whole."""
        if self.state.sums_real.size:
            return None
        _, sums = self._sums(k)
        high, low = normal(sums[:, HIGH], sums[:, LOW])
        high, low = normal(np.cumsum(high), np.cumsum(low))
        return np.stack([np.append(0, high), np.append(0, low)], axis=1)[: len(sums)]

    def stats(self, k: int) -> tuple[float, ...]:
        """Rows, weight, weight2, predicted, variance, squared residuals and the largest weight."""
        cells = self.members.union(k)
        whole = self.state.totals[cells].sum(axis=0)
        real = self.state.real[cells].sum(axis=0)
        limbs = [float(_float(*normal(whole[i : i + 1], whole[i + 1 : i + 2]))[0]) for i in (3, 5, 7)]
        first = (float(whole[1] + real[0]), float(whole[2] + real[1]), limbs[0] + real[2])
        top = float(self.state.top[cells].max(initial=0.0))
        return float(whole[0]), *first, limbs[1] + real[3], limbs[2] + real[4], top

    def mark(self, k: int) -> int:
        """A number that equal sets of rows share."""
        union = self.members.union(k)
        if self.members.by_atoms:
            return int.from_bytes(np.packbits(union & (self.state.totals[:, 0] > 0)).tobytes(), "big")
        return int(self.state.totals[union, 9].sum()) & (2**64 - 1)

    def curve(self, k: int) -> dict[str, list[float]]:
        """The running total of predicted - observed at some borders, with its band, as `cumulative_curve` gives it."""
        track, state = self.track(k), self.state
        cells = self.members.union(k)
        size = state.curve[cells].sum(axis=0)
        total = float(size[:, 0].sum())
        if not total > 0:
            return {"x": [0.0], "y": [0.0], "score": [0.0], "band": [0.0]}
        point = track.bucket >> state.job.shift
        last = np.flatnonzero(np.append(point[1:] != point[:-1], True))
        points = point[last]
        share, noise = np.cumsum(size[:, 0])[points], np.cumsum(size[:, 1])[points]
        return {
            "x": [0.0, *(share / total).tolist()],
            "y": [0.0, *(-track.end[last] / total).tolist()],
            "score": [float(state.spans[track.bucket[0], 0]), *state.spans[track.bucket[last], 1].tolist()],
            "band": [0.0, *(1.96 * np.sqrt(noise) / total).tolist()],
        }

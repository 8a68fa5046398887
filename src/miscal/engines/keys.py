"""Order statistics and walks of a stream, exact, by bounded refinement.

The first pass adds rows into tens of thousands of buckets of a key, ordered by value. It tells in which buckets the
edges of equal-support bins lie and inside which ones a walk could pass its extremes at the borders. The second pass
pulls the rows of those few buckets and adds all others into segments, each of which lies in one bin whole. Where too
many rows would be pulled, the buckets that hold them are cut again and the first pass is repeated for that key.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.engines.buckets import KeyMap, KeySums, normal
from miscal.pooling.bins import interpolated, quantile_ranks


@dataclass(frozen=True, eq=False)
class Profile:
    """One key after the first pass: its filled buckets in order.

    bucket : numbers of the filled buckets;  rows, weight : how much is in each;  spans : smallest and largest value
    start : the walk at the border before each;  fall, rise : how far it can move inside;  limbs : the same, exact
    """

    bucket: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    spans: np.ndarray
    start: np.ndarray
    end: np.ndarray
    fall: np.ndarray
    rise: np.ndarray
    limbs: np.ndarray | None  # (filled, 2) int64: high and low limb of the walk at the border before each bucket
    distinct: np.ndarray
    missing: int
    buckets: int
    exact: bool

    @classmethod
    def of(cls, sums: KeySums) -> Profile:
        """Read the profile off the sums."""
        sums.settle()
        last = len(sums.sums) - 1
        filled = np.flatnonzero(sums.sums[:last, 0] > 0)
        whole = sums.sums[filled]
        limbs: np.ndarray | None = None
        fall, rise = (_value(whole[:, i], whole[:, i + 1]) for i in (2, 4))
        if sums.real.size:
            real = sums.real[filled]
            weight, fall, rise = whole[:, 1] + real[:, 0], fall + real[:, 1], rise + real[:, 2]
            end = np.cumsum(rise - fall)
            start = np.append(0.0, end[:-1]) if filled.size else end
        else:
            weight = whole[:, 1].astype(np.float64)
            high, low = normal(whole[:, 4] - whole[:, 2], whole[:, 5] - whole[:, 3])
            high, low = normal(np.cumsum(high), np.cumsum(low))
            end = high * 2.0**-26 + low * 2.0**-52
            limbs = np.stack([np.append(0, high)[:-1], np.append(0, low)[:-1]], axis=1)[: filled.size]
            start = np.append(0.0, end[:-1]) if filled.size else end
        return cls(
            filled, whole[:, 0], weight, sums.spans[filled], start, end, fall, rise, limbs, sums.distinct,
            int(sums.sums[last, 0]), last, not sums.real.size,
        )  # fmt: skip

    @property
    def total(self) -> int:
        """Rows that are not missing."""
        return int(self.rows.sum())

    @property
    def low(self) -> float:
        return float(self.spans[0, 0]) if self.rows.size else math.nan

    @property
    def high(self) -> float:
        return float(self.spans[-1, 1]) if self.rows.size else math.nan

    @property
    def single(self) -> np.ndarray:
        """Buckets with one distinct value: they have no inside."""
        return np.asarray(self.spans[:, 0] == self.spans[:, 1])

    def holders(self, shares: np.ndarray, *, weighted: bool) -> np.ndarray:
        """Filled buckets (places in this profile) that hold the quantiles of these shares."""
        if weighted:
            reached = np.cumsum(self.weight)
            found = np.searchsorted(reached, shares * reached[-1], side="left")
        else:
            found = np.searchsorted(np.cumsum(self.rows), quantile_ranks(shares, self.total), side="right")
        return np.asarray(np.minimum(found, self.rows.size - 1))

    def at_edges(self, edges: np.ndarray) -> np.ndarray:
        """Filled buckets that reach over one of the edges, or are the first beyond one."""
        inner = edges[1:-1]
        low, high = np.searchsorted(inner, self.spans[:, 0]), np.searchsorted(inner, self.spans[:, 1])
        return np.flatnonzero((low != high) | (low != np.append(low[:1], high[:-1])))

    def suspects(self) -> np.ndarray:
        """Filled buckets inside which the walk may pass its extremes at the borders."""
        if not self.rows.size:
            return np.empty(0, np.int64)
        highest, lowest = max(0.0, float(self.end.max())), min(0.0, float(self.end.min()))
        slack = 1e-12 * max(1.0, abs(highest), abs(lowest))
        wanted = (self.start + self.rise > highest - slack) | (self.start - self.fall < lowest + slack)
        wanted &= (self.rise > 0) & (self.fall > 0) & ~self.single
        return np.flatnonzero(wanted)


def _value(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    high, low = normal(high, low)
    return np.asarray(high * 2.0**-26 + low * 2.0**-52)


@dataclass(frozen=True, eq=False)
class Quantiles:
    """Edges with about equally much between them."""

    bins: int
    weighted: bool = False

    @property
    def shares(self) -> np.ndarray:
        return np.arange(self.bins + 1, dtype=np.float64) / self.bins

    def wanted(self, profile: Profile) -> np.ndarray:
        """Filled buckets whose rows are needed."""
        return np.unique(profile.holders(self.shares, weighted=self.weighted))

    def edges(self, profile: Profile, pulled: Pulled) -> np.ndarray:
        """The edges, as `pooling.bins.quantile_edges` gives them."""
        holders = profile.holders(self.shares, weighted=self.weighted)
        if self.weighted:
            reached = np.cumsum(profile.weight)
            found = pulled.at_weights(profile, holders, self.shares * reached[-1], reached)
            edges = np.unique(found)
        else:
            ranks = quantile_ranks(self.shares, profile.total)
            edges = np.unique(interpolated(pulled.at_ranks(profile, holders, ranks), self.shares, profile.total))
        edges = edges + 0.0  # -0.0 becomes 0.0
        return edges if edges.size > 1 else np.repeat(edges, 2)


@dataclass(frozen=True, eq=False)
class Given:
    """Edges that are known."""

    given: np.ndarray

    def wanted(self, profile: Profile) -> np.ndarray:
        """Filled buckets whose rows are needed."""
        return profile.at_edges(self.given)

    def edges(self, profile: Profile, pulled: Pulled) -> np.ndarray:  # noqa: ARG002  # as the others ask
        """The edges."""
        return self.given


@dataclass(frozen=True, eq=False)
class VariableRanges:
    """Edges of a variable as `pooling.columns.value_edges` has them: few values one by one, a common lowest apart."""

    bins: int
    weighted: bool = False

    def wanted(self, profile: Profile) -> np.ndarray:
        """Filled buckets whose rows are needed."""
        if self._few(profile):
            return profile.at_edges(self._each(profile))
        return Quantiles(self.bins, self.weighted).wanted(profile)

    def edges(self, profile: Profile, pulled: Pulled) -> np.ndarray:
        """The edges."""
        if self._few(profile):
            return self._each(profile)
        edges = Quantiles(self.bins, self.weighted).edges(profile, pulled)
        if edges.size <= self.bins and pulled.rows_of(profile, 0, profile.low) >= profile.total / self.bins:
            edges = np.concatenate([[np.nextafter(profile.low, -np.inf)], edges])
        return edges

    def _few(self, profile: Profile) -> bool:
        return profile.distinct.size <= self.bins

    def _each(self, profile: Profile) -> np.ndarray:
        return each_value(profile.distinct)


def each_value(distinct: np.ndarray) -> np.ndarray:
    """Edges that give each of a few values a range of its own."""
    distinct = distinct + 0.0
    if distinct.size == 1:
        return np.append(distinct[0], distinct)
    return np.concatenate([[np.nextafter(distinct[0], -np.inf)], distinct])


class Pulled:
    """The rows of some buckets: which filled bucket each is in, its value, what it adds, in order of value."""

    def __init__(self, places: np.ndarray, values: np.ndarray, rows: dict[str, np.ndarray]) -> None:
        order = np.lexsort((values, places))
        self.places, self.values = places[order], values[order]
        self.columns = {name: column[order] for name, column in rows.items() if column.size}
        count = self.columns.get("count")
        self.times = np.ones(self.values.size, np.int64) if count is None else count
        weight = self.columns.get("weight")
        self.first = self.times.astype(np.float64) if weight is None else weight * self.times

    def _inside(self, place: int) -> slice:
        start, stop = np.searchsorted(self.places, [place, place + 1])
        return slice(int(start), int(stop))

    def rows_of(self, profile: Profile, place: int, value: float) -> int:
        """How many rows of a filled bucket have a value."""
        if profile.single[place]:
            return int(profile.rows[place]) if profile.spans[place, 0] == value else 0
        inside = self._inside(place)
        return int(self.times[inside][self.values[inside] == value].sum())

    def at_ranks(self, profile: Profile, holders: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """The values at ranks, each in its holder."""
        before = np.cumsum(profile.rows) - profile.rows
        return self._found(profile, holders, ranks - before[holders], self.times, "right")

    def at_weights(self, profile: Profile, holders: np.ndarray, targets: np.ndarray, reached: np.ndarray) -> np.ndarray:
        """The values at which the cumulated weight reaches the targets."""
        before = reached - profile.weight
        return self._found(profile, holders, targets - before[holders], self.first, "left")

    def _found(
        self, profile: Profile, holders: np.ndarray, wanted: np.ndarray, size: np.ndarray, side: Any
    ) -> np.ndarray:
        found = np.empty(holders.size)
        single = profile.single
        for i, place in enumerate(holders.tolist()):
            if single[place]:
                found[i] = profile.spans[place, 0]
                continue
            inside = self._inside(place)
            reached = np.searchsorted(np.cumsum(size[inside]), wanted[i], side=side)
            values = self.values[inside]
            found[i] = values[min(int(reached), values.size - 1)]
        return found


@dataclass(frozen=True, eq=False)
class Cuts:
    """How the second pass treats the buckets of a key: into which segment, or set aside to be pulled.

    table : (buckets + 1,) int32, the segment of each bucket; `segments` means pulled; the missing bucket has the last
    segment.  places : the filled buckets pulled;  of : (segments,) a filled bucket in each segment, -1 if none
    """

    table: np.ndarray
    segments: int
    places: np.ndarray
    of: np.ndarray

    @classmethod
    def at(cls, profile: Profile, held: np.ndarray, suspects: np.ndarray) -> Cuts:
        """Cut before and after each held bucket; pull those held or suspect that have an inside."""
        many = ~profile.single
        held = np.unique(held).astype(np.int64)
        places = np.unique(np.concatenate([held[many[held]], suspects])).astype(np.int64)
        cut = np.zeros(profile.rows.size + 1, bool)
        cut[held] = cut[held + 1] = True
        segment = np.cumsum(cut[:-1]) if profile.rows.size else np.zeros(0, np.int64)
        segments = int(segment[-1]) + 2 if segment.size else 1
        table = np.zeros(profile.buckets + 1, np.int32)
        table[profile.bucket] = segment
        table[profile.bucket[places]] = segments
        table[-1] = segments - 1
        of = np.full(segments, -1, np.int64)
        of[segment] = np.arange(profile.rows.size)
        return cls(table, segments, places, of)

    def segments_of(self, values: np.ndarray, made: KeyMap, codes: np.ndarray) -> np.ndarray:
        """Fill in the segment of each value; which rows are to be pulled."""
        from miscal.kernels.packed import bucket_segments, segments_of

        picked = np.empty(values.size, np.int32)
        if made.borders is None:
            arguments = (made.low, made.high, *made.arguments)
            found = bucket_segments(values, *arguments, self.table, self.segments, codes, picked)
        else:
            made.codes(values, codes)
            found = segments_of(codes, self.table, self.segments, picked)
        return picked[:found]

    def rows(self, profile: Profile) -> int:
        """How many rows will be pulled."""
        return int(profile.rows[self.places].sum())


def finer(profile: Profile, cuts: Cuts, budget: int, buckets: int) -> KeyMap:
    """Borders that keep all other buckets apart as wholes and cut the heavy ones among those pulled into many."""
    heavy = cuts.places[profile.rows[cuts.places] > budget // (4 * max(cuts.places.size, 1))]
    kept = np.setdiff1d(np.arange(profile.rows.size), heavy)
    pieces = max(16, buckets // max(heavy.size, 1))
    borders = [profile.spans[kept, 1]]
    for place in heavy.tolist():
        low, high = profile.spans[place]
        borders.append(_spaced(low, high, pieces))
    return KeyMap.between(np.unique(np.concatenate(borders)))


def _spaced(low: float, high: float, pieces: int) -> np.ndarray:
    """Numbers between two, half of them equally spaced, half of them spaced like the doubles themselves."""
    straight = np.linspace(low, high, pieces // 2)
    bits = np.array([low, high]).view(np.int64)
    if low >= 0.0 or high < 0.0:
        steps = np.linspace(0.0, 1.0, pieces // 2)
        ordinals = bits[0] + (steps * float(bits[1] - bits[0])).astype(np.int64)
        spaced = ordinals.view(np.float64)
        spaced = spaced[(spaced >= low) & (spaced <= high)]
        return np.concatenate([straight, spaced, [low, high]])
    return np.concatenate([straight, [low, 0.0, high]])

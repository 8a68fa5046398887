"""Walk the rows of arrays in memory: the partial sums of residuals over rows ordered by a key.

The residual of a row is w * (observed - predicted). Partial sums are taken only between distinct keys, so the order
of tied rows does not matter. The range, highest minus lowest, is Kuiper's statistic times the total weight. All is
exact, in two passes, without sorting all rows.
"""

import math
from dataclasses import dataclass

import numpy as np

from miscal.data.vectors import locked
from miscal.engines.memory import tally
from miscal.engines.sums import NO_WEIGHT
from miscal.kernels.order import add_exact, add_real, distinct_up_to, spread
from miscal.kernels.sorting import BucketMap, rows_in
from miscal.kernels.threads import over_blocks
from miscal.pairs import Pair
from miscal.pooling.cells import LevelPooling, Numbered

DISTINCT = 200  # what the inference's rule asks for; more need not be counted
LIMB = (1 << 26) - 1
BLOCK = 1 << 21  # rows a block: each block has its own buckets


@dataclass(frozen=True)
class Walk:
    """Summary of a walk.

    Attributes
    ----------
    total, highest, lowest : partial sum at the end, its highest and lowest value (the start, 0, included)
    weight : Σw;  variance : Σw²p(1-p);  rows : how many
    expected : Σ of w * predicted and Σ of w * (1 - predicted): events expected on both sides
    distinct : number of distinct keys, counted up to a limit
    highest_at, lowest_at : the last key before the walk stands there; NaN at the start
    first : smallest key
    """

    total: float
    highest: float
    lowest: float
    weight: float
    variance: float
    rows: int
    expected: tuple[float, float]
    distinct: int
    highest_at: float = math.nan
    lowest_at: float = math.nan
    first: float = math.nan

    @property
    def range(self) -> float:
        """Highest minus lowest, divided by the weight: Kuiper's calibration error."""
        return (self.highest - self.lowest) / self.weight

    @property
    def deviation(self) -> float:
        """Standard deviation of the walk's end under calibration, divided by the weight."""
        return math.sqrt(self.variance) / self.weight


def walk(pair: Pair, key: np.ndarray | None = None, *, locate: bool = False) -> Walk:
    """Total, highest and lowest partial sum of the residuals ordered by `key` (the prediction unless given).

    locate : also find the keys at which the walk stands highest and lowest (one more pass)
    """
    walker = _Walker(pair, key)
    extremes = walker.extremes()
    if locate:
        walker.locate(extremes)
    return walker.summary(extremes)


def walk_range(pair: Pair, key: np.ndarray | None = None) -> float:
    """Highest minus lowest partial sum over the total weight, and nothing else."""
    highest, _, lowest, _ = _Walker(pair, key).extremes()
    weight = float(pair.rows if pair.first is None else pair.first.sum())
    return float((highest - lowest) / weight)


class _Walker:
    """One walk: the bucket map, the sums per bucket, and what is read off them."""

    def __init__(self, pair: Pair, key: np.ndarray | None) -> None:
        self.pair, self.key = pair, locked(pair.predicted if key is None else key)
        self.weight = NO_WEIGHT if pair.first is None else pair.first
        self.exact = pair.whole and pair.binary
        self.map = BucketMap(self.key, 4096 if pair.rows < 200_000 else 16384 if pair.rows < 3_000_000 else 32768)
        self.codes = locked(self.map.codes(self.key))
        limbs = self._pass_one().T.reshape(2, -1, self.map.count)  # falls and rises, of two limbs where exact
        self.falls, self.rises = _value(limbs[0]), _value(limbs[1])
        self.partial = np.zeros((limbs.shape[1], self.map.count + 1), limbs.dtype)  # at the borders
        np.cumsum(limbs[1] - limbs[0], axis=1, out=self.partial[:, 1:])
        self.borders = _value(self.partial)

    def _pass_one(self) -> np.ndarray:
        kernel, width, kind = (add_exact, 4, np.int64) if self.exact else (add_real, 2, np.float64)

        def work(start: int, stop: int) -> np.ndarray:
            result = np.zeros((self.map.count, width), kind)
            kernel(self.codes[start:stop], *self._rows(slice(start, stop)), result)
            return result

        first, *others = over_blocks(self.key.size, work, BLOCK)
        return sum(others, first)

    def _rows(self, rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        weight = self.weight[rows] if self.weight.size else self.weight
        return self.pair.predicted[rows], self.pair.observed[rows], weight

    def extremes(self) -> np.ndarray:
        """Highest, its key, lowest, its key; keys only where they lie inside a bucket."""
        extremes = np.array([self.borders.max(), math.nan, self.borders.min(), math.nan])
        # Buckets inside which the walk may pass the extremes seen at the borders.
        slack = 1e-12 * max(1.0, abs(extremes[0]), abs(extremes[2]))
        start = self.borders[:-1]
        wanted = (start + self.rises > extremes[0] - slack) | (start - self.falls < extremes[2] + slack)
        # A bucket that only rises or only falls has its extremes at its borders.
        wanted &= (self.rises > 0) & (self.falls > 0)
        if wanted.any():
            self._look_inside(wanted, extremes)
        return extremes

    def _look_inside(self, wanted: np.ndarray, extremes: np.ndarray) -> None:
        """Walk through the rows of the wanted buckets, sorted by key, from the border of each."""
        sample = self.key[:: max(1, self.key.size // 4096)]
        if np.unique(sample).size < 0.9 * sample.size:  # it looks tied
            lows, highs = self._spread(wanted)
            wanted[lows >= highs] = False
        rows = rows_in(self.codes, wanted)
        if rows.size == 0:
            return
        rows = rows[np.argsort(self.key[rows], kind="stable")]
        key, codes, steps = self.key[rows], self.codes[rows], self._steps(rows)
        starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        total = np.cumsum(steps, axis=1)
        before = self.partial[:, codes[starts]] - (total - steps)[:, starts]
        values = _value(total + np.repeat(before, np.diff(np.append(starts, rows.size)), axis=1))
        ends = np.flatnonzero(np.append(key[1:] != key[:-1], True))  # within a block of ties there is no order
        highest, lowest = ends[np.argmax(values[ends])], ends[np.argmin(values[ends])]
        if values[highest] > extremes[0]:
            extremes[:2] = values[highest], key[highest]
        if values[lowest] < extremes[2]:
            extremes[2:] = values[lowest], key[lowest]

    def _steps(self, rows: np.ndarray) -> np.ndarray:
        """Weight times residual of some rows: (2, rows) limbs of 26 bits where exact, else (1, rows)."""
        predicted, observed, weight = self._rows(rows)
        if not self.exact:
            return np.asarray(((observed - predicted) * (weight if weight.size else 1.0))[None])
        grid = observed.astype(np.int64) * (1 << 52) - (predicted * 2.0**52 + 0.5).astype(np.int64)
        return np.stack([grid >> 26, grid & LIMB]) * (weight.astype(np.int64) if weight.size else 1)

    def _spread(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        def work(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
            lows, highs = np.full(self.map.count, np.inf), np.full(self.map.count, -np.inf)
            spread(self.codes[start:stop], self.key[start:stop], wanted, lows, highs)
            return lows, highs

        parts = over_blocks(self.key.size, work, BLOCK)
        return np.min([low for low, _ in parts], axis=0), np.max([high for _, high in parts], axis=0)

    def locate(self, extremes: np.ndarray) -> None:
        """Keys of extremes that lie on a border: the last key at or before it."""
        for place in (0, 2):
            if extremes[place] == 0.0 or not math.isnan(extremes[place + 1]):
                continue
            border = int(np.flatnonzero(self.borders == extremes[place])[0])
            wanted = np.zeros(self.map.count, bool)
            wanted[np.flatnonzero(self.rises[:border] + self.falls[:border])[-1]] = True
            extremes[place + 1] = self._spread(wanted)[1].max()

    def summary(self, extremes: np.ndarray) -> Walk:
        sums = tally(self.pair, LevelPooling(np.zeros(self.pair.rows, np.int32), Numbered(1)))
        weight, events = float(sums.weight[0]), float(sums.predicted[0])
        return Walk(
            total=float(self.borders[-1]),
            highest=float(extremes[0]),
            lowest=float(extremes[2]),
            weight=weight,
            variance=float(sums.variance[0]),
            rows=self.pair.rows,
            expected=(events, weight - events),
            distinct=int(distinct_up_to(self.key, DISTINCT)),
            highest_at=float(extremes[1]),
            lowest_at=float(extremes[3]),
            first=self.map.low,
        )


def _value(limbs: np.ndarray) -> np.ndarray:
    """Numbers of their limbs (2, n) int64 of 26 bits, which need not be carried; real ones (1, n) as they are."""
    if len(limbs) == 1:
        return np.asarray(limbs[0])
    high, low = limbs[0] + (limbs[1] >> 26), limbs[1] & LIMB
    return np.asarray(high * 2.0**-26 + low * 2.0**-52)

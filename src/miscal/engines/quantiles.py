"""Equal-support edges and the tally over them in one pass: bin once, finely, then coarsen.

Rows are added into thousands of narrow strips of the value. The edges lie in a few of them; only the rows of those are
looked at again, all other strips fall into one bin whole.
"""

from __future__ import annotations

import numpy as np

from miscal.carriers.tally import Tally
from miscal.engines.memory import coded_sums, mean_tally_of
from miscal.kernels.order import strips
from miscal.kernels.sorting import rows_in
from miscal.pairs import Pair
from miscal.pooling.bins import bin_index, interpolated, quantile_ranks
from miscal.pooling.cells import Ranges

LEAST_ROWS = 1 << 16  # below, sorting everything is as quick
STRIPS = 1 << 12
SAMPLE = 4096


def quantile_tally(pair: Pair, values: np.ndarray, bins: int, *, whole: bool = False) -> Tally:
    """Weight, predicted and observed per equal-support bin of `values`; every row counts once, outcomes are 0 or 1.

    whole : the values are whole numbers; where their range is small each has a strip of its own, and no row is looked
        at twice
    """
    low, scale, own = _layout(values, whole=whole)
    codes = np.empty(values.size, np.int16)

    def strip_codes(start: int, stop: int) -> np.ndarray:
        strips(values[start:stop], low, scale, STRIPS - 1.0, codes[start:stop])
        return codes[start:stop]

    sums = coded_sums(pair, strip_codes, STRIPS)
    shares = np.arange(bins + 1) / bins
    ranks = quantile_ranks(shares, values.size)
    holders = np.searchsorted(np.cumsum(sums[:, 0]), ranks, side="right")
    wanted = np.zeros(STRIPS, bool)
    rows = np.empty(0, np.int64)
    if own:
        found = low + holders
    else:
        wanted[holders] = True
        rows = rows_in(codes, wanted)
        kept = np.sort(values[rows])
        skipped = np.cumsum(np.where(wanted, 0, sums[:, 0]))[holders]
        found = kept[ranks - skipped]
    edges = np.unique(interpolated(found, shares, values.size))
    edges = edges if edges.size > 1 else np.repeat(edges, 2)
    again = bin_index(values[rows], edges)
    total = coded_sums(pair.take(rows), lambda start, stop: again[start:stop], edges.size - 1)
    others = np.flatnonzero(~wanted & (sums[:, 0] > 0))
    # The last row at or below an edge lies in a strip that was wanted, so any other strip lies between two edges.
    place = low + others if own else low + (others + 0.5) / scale
    np.add.at(total, bin_index(place.astype(np.float64), edges), sums[others])
    return mean_tally_of(total, Ranges(edges))


def _layout(values: np.ndarray, *, whole: bool) -> tuple[float, float, bool]:
    """Where the strips start, how many there are a unit, and whether each whole number has its own."""
    if whole:
        low, high = float(values.min()), float(values.max())
        if high - low < STRIPS:
            return low, 1.0, True
    sample = np.sort(values[:: max(1, values.size // SAMPLE)])
    edge = sample.size // 256  # a few far outliers must not make all strips wide
    low, high = float(sample[edge]), float(sample[-1 - edge])
    if not high > low:
        low, high = float(values.min()), float(values.max())
    return low, (STRIPS - 1) / (high - low) if high > low else 1.0, False

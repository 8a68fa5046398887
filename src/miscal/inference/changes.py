"""Did the gap change from one cell to the next? Differences of gaps of neighbouring cells, such as months."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from miscal.inference.adjust import holm
from miscal.inference.cells import Null
from miscal.inference.residual import Blocks, cluster_blocks
from miscal.inference.sums import EFFECTIVE_EVENTS, CellRows, Floats, Sums, effective_events

PLAIN_EVENTS = 5.0  # on the rarer side of two cells of equal weights; below it nobody could tell
LEAST_CLUSTERS = 5  # of a cell, from which Student's t over their sums is trusted


@dataclass(frozen=True)
class Changes:
    """From each cell's predecessor to the cell; NaN for the first one and where either is too small.

    change : gap less the gap before;  low, high : intervals that hold for all changes at once
    p_value, p_adjusted : that the gap is the same (Holm over all changes)
    size_p_adjusted : that the gap is of the same size, whichever its sign
    """

    change: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_adjusted: Floats
    size_p_adjusted: Floats

    def scaled(self, by: float) -> Changes:
        """The same with gaps in other units."""
        return replace(self, change=self.change * by, low=self.low * by, high=self.high * by)


def changes(
    sums: Sums,
    *,
    weighted: bool,
    null: Null = "bernoulli",
    rows: CellRows | None = None,
    outcome_weights: bool = False,
    response: str = "binary",
    level: float = 0.05,
    wider: Floats | None = None,
    freedom: float | None = None,
) -> Changes:
    """Compare the gap of every cell with that of the one before.

    The gaps of two sets of rows, ``g = Σw(p - y)/Σw``, have the variance ``ΣD²/(Σw)²`` each, D a row's residual or a
    cluster's sum of them; a cluster in both takes ``2ΣD₁D₂/(Σw₁Σw₂)`` off that of their difference. ΣD² is not taken to
    be below Σw²p(1-p) (of other responses: the variance of their `Spread`), which few events would show too small by
    luck. Neither model need be calibrated: the hypothesis is only that both gaps are the same. The statistic is
    Student's t on one less degree of freedom than the smaller cell has rows or clusters.

    The gap has the same *size* if it is the same or only its sign is another: both must be refuted, so the p-value is
    the larger one of ``g₂ - g₁`` and ``g₂ + g₁``.

    wider, freedom : by how much each cell's variance is larger than that, and the degrees of freedom of knowing it: the
    noise of days (`day_noise`)

    Too small to compare: fewer than 25 effective events in either cell (where rows are independent and of equal
    weight: 5, expected or happened, in the two together), or 5 clusters.

    Examples
    --------
    >>> from miscal.inference.sums import EFFECTIVE_EVENTS, Sums
    >>> n, p, y = np.full(3, 1000.0), np.full(3, 200.0), np.array([200.0, 210.0, 300.0])
    >>> found = changes(Sums(n, n, n, p, y, 0.8 * p, y * 0.6 + 40), weighted=False)
    >>> found.change.round(3).tolist(), found.p_adjusted.round(3).tolist()
    ([nan, -0.01, -0.09], [nan, 0.58, 0.0])
    """
    from scipy.special import stdtr, stdtrit

    number, noise, shared = np.asarray(sums.rows, np.float64), sums.residual2, np.zeros(sums.rows.size)
    if rows is not None and null == "residual":
        blocks = cluster_blocks(rows)
        number, noise, shared = np.diff(blocks.offsets).astype(np.float64), blocks.squares(), _shared(blocks)
    if not outcome_weights:
        noise = np.maximum(noise, sums.variance)
    if wider is not None:
        noise = noise * wider
    uneven = weighted or null == "residual"
    large = _large(sums, rows, uneven=uneven, outcome_weights=outcome_weights, response=response)
    many = number >= (LEAST_CLUSTERS if rows is not None and rows.cluster is not None else 2)
    large &= many[1:] & many[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = (sums.predicted - sums.observed) / sums.weight
        own = noise / sums.weight**2
        both = shared[1:] / (sums.weight[1:] * sums.weight[:-1])
        error = np.sqrt(np.maximum(own[1:] + own[:-1] - 2.0 * both, 0.0))
        mirrored = np.sqrt(np.maximum(own[1:] + own[:-1] + 2.0 * both, 0.0))
        least = np.minimum(number[1:], number[:-1]) - 1.0
        least = least if freedom is None else np.minimum(least, freedom)
        possible = large & (error > 0) & (mirrored > 0)
        change = np.where(possible, gap[1:] - gap[:-1], np.nan)
        p_value = 2.0 * stdtr(least, -np.abs(change) / error)
        turned = 2.0 * stdtr(least, -np.abs(np.where(possible, gap[1:] + gap[:-1], np.nan)) / mirrored)
        tests = max(int(possible.sum()), 1)
        reach = stdtrit(np.maximum(least, 1.0), 1.0 - 0.5 * level / tests) * error
    size = holm(np.maximum(p_value, turned))
    columns = (change, change - reach, change + reach, p_value, holm(p_value), size)
    return Changes(*(np.concatenate([[np.nan], column]) for column in columns))


def _shared(blocks: Blocks) -> Floats:
    """ΣD₁D₂ over the clusters that a cell has in common with the one before."""
    cells = blocks.cells()
    order = np.lexsort((cells, blocks.cluster))
    cell, cluster, residual = cells[order], blocks.cluster[order], blocks.residual[order]
    again = (cluster[1:] == cluster[:-1]) & (cell[1:] == cell[:-1] + 1)
    made = np.bincount(cell[1:][again], (residual[1:] * residual[:-1])[again], blocks.offsets.size - 1)
    return np.asarray(made, dtype=np.float64)


def _large(
    sums: Sums, rows: CellRows | None, *, uneven: bool, outcome_weights: bool, response: str
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Steps whose two cells have enough events, expected or happened, for their residuals to tell the noise."""
    filled = np.asarray(sums.weight > 0)
    both = filled[1:] & filled[:-1]
    if response != "binary":
        return both
    expected = effective_events(sums)
    if not uneven and not outcome_weights:
        # Together: a quiet month before a bad one has few events, and its noise is known from the predictions.
        happened = np.minimum(sums.observed, sums.weight - sums.observed)
        events = np.maximum(expected[1:] + expected[:-1], happened[1:] + happened[:-1])
        return np.asarray(both & (events >= PLAIN_EVENTS))
    if outcome_weights and rows is not None:
        expected = rows.rarer_events()
    enough = expected >= EFFECTIVE_EVENTS
    return np.asarray(both & enough[1:] & enough[:-1])

"""Changes of the gap from one period to the next, and the variance that days have.

Sums of neighbouring days are correlated, and vary more than those of independent rows.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from miscal.codes.inference import Method, Null
from miscal.data.arrays import Plain
from miscal.stats.cell_sums import (
    EFFECTIVE_EVENTS,
    Bools,
    CellSums,
    CellTestSettings,
    Floats,
    Integers,
    effective_events,
    ignore_warnings,
)
from miscal.stats.intervals import agree_with_tests
from miscal.stats.multiplicity import holm, student_test
from miscal.stats.normal import NORMAL_95
from miscal.stats.sign_flip import ClusterBlocks, cluster_blocks, residual_squares

MIN_EVENTS = 5.0  # on the rarer side of two cells of equal weights; below it no change could be detected
MIN_CLUSTERS = 5  # of a cell, from which Student's t over their sums is trusted
MIN_DAYS = 20  # more than one per period, from which the variance of days is estimated
CHANCE_Z = 2.33  # one-sided level of 1%: correlated days that are not recognised make false positives
MIN_BLOCK_DAYS = 28  # days whose own mean is taken off where it is asked how long an error lasts
MAX_LAG = 6  # days apart that are compared
DECAYS = np.linspace(0.0, 0.95, 39)  # of the covariance from one day to the next
MAX_ITERATIONS = 30


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

    def scaled(self, by: float) -> "Changes":
        """The same with gaps in other units."""
        return replace(self, change=self.change * by, low=self.low * by, high=self.high * by)


def changes(
    sums: CellSums,
    settings: CellTestSettings,
    level: float = 0.05,
    wider: Floats | None = None,
    freedom: float | None = None,
) -> Changes:
    """Compare the gap of every cell with that of the one before.

    The gaps of two sets of rows, ``g = Σw(p - y)/Σw``, have the variance ``ΣD²/(Σw)²`` each, D a row's residual or a
    cluster's sum of them; a cluster in both takes ``2ΣD₁D₂/(Σw₁Σw₂)`` off that of their difference. ΣD² is not taken to
    be below Σw²p(1-p) (of other responses: below their `ResidualVariance`), which few events would show too small by
    chance. Neither model need be calibrated: the hypothesis is only that both gaps are the same. The statistic is
    Student's t on one less degree of freedom than the smaller cell has rows or clusters.

    The gap has the same *size* if it is the same or only its sign is another: both must be refuted, so the p-value is
    the larger one of ``g₂ - g₁`` and ``g₂ + g₁``.

    wider, freedom : by how much each cell's variance is larger than that, and the degrees of freedom of knowing it: the
    noise of days (`day_noise`)

    Too small to compare: fewer than 25 effective events in either cell (where rows are independent and of equal
    weight: 5, expected or observed, in the two together), or 5 clusters.

    Examples
    --------
    >>> from miscal.stats.cell_sums import CellTestSettings, CellSums
    >>> n, p, y = np.full(3, 1000.0), np.full(3, 200.0), np.array([200.0, 210.0, 300.0])
    >>> result = changes(CellSums(n, n, n, p, y, 0.8 * p, y * 0.6 + 40), CellTestSettings())
    >>> result.change.round(3).tolist(), result.p_adjusted.round(3).tolist()
    ([nan, -0.01, -0.09], [nan, 0.58, 0.0])
    """
    rows = settings.rows if settings.null == Null.RESIDUAL else None
    noise, number = residual_squares(sums, rows)
    shared = np.zeros(sums.rows.size) if rows is None else _shared_products(cluster_blocks(rows))
    if not settings.outcome_weights:
        noise = np.maximum(noise, sums.variance)
    if wider is not None:
        noise = noise * wider
    smaller_number, weights = _smaller_of_neighbours(number), sums.weight[1:] * sums.weight[:-1]
    with ignore_warnings():
        gap, variance = sums.off / sums.weight, noise / sums.weight**2
        shared_part = 2.0 * shared[1:] / weights
        independent = variance[1:] + variance[:-1]
        error, mirrored = np.sqrt(np.maximum([independent - shared_part, independent + shared_part], 0.0))
    possible = _enough_events(sums, settings) & (
        smaller_number >= (MIN_CLUSTERS if settings.clustered else 2)
    )
    possible &= (error > 0) & (mirrored > 0)
    change = np.where(possible, gap[1:] - gap[:-1], np.nan)
    gap_sum = np.where(possible, gap[1:] + gap[:-1], np.nan)
    degrees = np.minimum(smaller_number - 1.0, math.inf if freedom is None else freedom)
    p_value, adjusted, reach = student_test(change, error, degrees, level)
    size = holm(np.maximum(p_value, student_test(gap_sum, mirrored, degrees, level)[0]))
    columns = [change, change - reach, change + reach, p_value, adjusted, size]
    return Changes(*np.pad(columns, ((0, 0), (1, 0)), constant_values=np.nan))


def _smaller_of_neighbours(of_cells: Floats) -> Floats:
    """The smaller number of each cell and the one before."""
    return np.minimum(of_cells[1:], of_cells[:-1])


def _shared_products(blocks: ClusterBlocks) -> Floats:
    """ΣD₁D₂ over the clusters that a cell has in common with the one before."""
    cells = blocks.cells()
    order = np.lexsort((cells, blocks.cluster))
    cell, cluster, residual = cells[order], blocks.cluster[order], blocks.residual[order]
    again = (cluster[1:] == cluster[:-1]) & (cell[1:] == cell[:-1] + 1)
    product = np.where(again, residual[1:] * residual[:-1], 0.0)
    return np.asarray(np.bincount(cell[1:], product, blocks.offsets.size - 1), np.float64)


def _enough_events(sums: CellSums, settings: CellTestSettings) -> Bools:
    """Steps whose two cells have enough events, expected or observed, to know the variance of their gaps."""
    both = _smaller_of_neighbours(sums.weight) > 0
    if not settings.binary:
        return both
    expected = effective_events(sums)
    if not settings.weighted and settings.null != Null.RESIDUAL and not settings.outcome_weights:
        # Together: a month of few events before one of many has a variance that is known from the predictions.
        observed = np.minimum(sums.observed, sums.weight - sums.observed)
        events = np.maximum(expected[1:] + expected[:-1], observed[1:] + observed[:-1])
        return np.asarray(both & (events >= MIN_EVENTS))
    if settings.outcome_weights and settings.rows is not None:
        expected = settings.rows.rarer_events()
    return both & (_smaller_of_neighbours(expected) >= EFFECTIVE_EVENTS)


# ---- the noise of days -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class DayNoise:
    """Variance of a period's sum relative to that of independent rows, and the effective number of days behind it.

    first : variance of a day's sum relative to independent rows;  second : covariance of neighbouring days
    decay : of the covariance from one day to the next
    """

    first: float
    second: float
    decay: float
    freedom: float = math.inf

    def times(self, days: Floats) -> Floats:
        """The variance of a sum of so many days, relative to that of their rows if these were independent."""
        return np.array([max(1.0, self.of_sum(length)) for length in days])

    def of_sum(self, days: float) -> float:
        """γ₀ + 2Σ(1 - l/n)γ₁ρ^(l-1): the variance of a sum of n days, a day of independent rows being 1."""
        lag = np.arange(1, max(round(days), 1))
        shares = (1.0 - lag / max(days, 1.0)) * self.second * self.decay ** (lag - 1.0)
        return self.first + 2.0 * float(shares.sum())


def day_noise(days: CellSums, period: Integers) -> DayNoise | None:
    """How days vary around the mean of their periods; None where it is no more than independent rows would.

    Each day's ``u = (Σw(y - p) - its share of the period's)/sqrt(Σw²p(1-p))`` has the variance γ₀, 1 for independent
    rows, and the covariance γ₁, γ₁ρ, γ₁ρ², ... with the days after it. What is left of a model's error that is the same
    all through a period does not count as noise. Once days are known to vary together, how far is read off at least
    four weeks at a time: a week's own mean would take most of what lasts for days with it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> n, p = np.full(120, 400.0), np.full(120, 80.0)
    >>> off = np.convolve(rng.normal(size=140), 0.7 ** np.arange(20), "same")[:120]
    >>> days = CellSums(
    ...     n, n, n, p, p + 20 * off + 8 * rng.normal(size=120), np.full(120, 64.0), np.full(120, 64.0)
    ... )
    >>> bool(day_noise(days, np.arange(120) // 30).times(np.array([30.0]))[0] > 10)
    True
    """
    used = np.flatnonzero(days.variance > 0.0)
    code = np.unique(period[used], return_inverse=True)[1]
    periods = int(code.max(initial=-1)) + 1
    degrees = used.size - periods
    if degrees < MIN_DAYS:
        return None
    days = days.take(used)
    length = used.size / periods
    unit = _units(days, code)
    sums, pairs = _lagged(unit, code, np.zeros_like(code), 1)
    same, next_day = (sums / pairs)[0]
    # Of independent days the period's mean takes 1/n of the variance off all of these.
    chance, day_variance = CHANCE_Z * math.sqrt(1.0 / degrees), same * used.size / degrees
    if (
        day_variance - 1.0 < math.sqrt(2.0) * chance
        and next_day + day_variance / length < day_variance * chance
    ):
        return None
    return _lasting_noise(days, code // max(math.ceil(MIN_BLOCK_DAYS / length), 1), length)


def _units(days: CellSums, code: Integers) -> Floats:
    """What is off of each day around the mean of its group, a day of independent rows varying by 1."""
    whole = days.map(lambda values: np.asarray(np.bincount(code, values), np.float64))
    gap = whole.off / whole.weight
    # Rows whose rate is not the predicted one have another variance, in all days of the group alike.
    inflation = np.maximum((whole.residual2 - gap**2 * whole.weight2) / whole.variance, 1.0)
    return (gap[code] * days.weight - days.off) / np.sqrt(days.variance * inflation[code])


def _lagged(unit: Floats, group: Integers, part: Integers, max_lag: int) -> tuple[Floats, Floats]:
    """Sums and numbers of products of days 0, ..., `max_lag` apart within a group, one row per part of the days."""
    parts = int(part[-1]) + 1
    sums, pairs = np.zeros((2, parts, max_lag + 1))
    for lag in range(max_lag + 1):
        inside = np.flatnonzero(group[lag:] == group[: group.size - lag])
        sums[:, lag] = np.bincount(part[inside], unit[inside + lag] * unit[inside], parts)
        pairs[:, lag] = np.bincount(part[inside], minlength=parts)
    return sums, pairs


def _lasting_noise(days: CellSums, block: Integers, length: float) -> DayNoise:
    """Variance and covariances of days, and how well they are known, by leaving out a part of the days at a time."""
    unit = _units(days, block)
    parts, blocks = max(4, min(20, unit.size // MIN_BLOCK_DAYS)), int(block[-1]) + 1
    sums, pairs = _lagged(unit, block, np.arange(unit.size) * parts // unit.size, MAX_LAG)
    days_per_block = unit.size / blocks
    all_sums, all_pairs = sums.sum(0), pairs.sum(0)
    noise = _fit_day_noise(all_sums, all_pairs, days_per_block)
    left_out = zip(all_sums - sums, all_pairs - pairs, strict=True)
    spread = np.log([max(1.0, _fit_day_noise(*others, days_per_block).of_sum(length)) for others in left_out])
    log_variance = (parts - 1) * spread.var()  # of the logarithm
    independent = (unit.size - blocks) * noise.first / max(noise.of_sum(length), noise.first)
    return replace(noise, freedom=max(min(independent, 2.0 / max(log_variance, 1e-9)), 2.0))


def _fit_day_noise(sums: Floats, pairs: Floats, length: float) -> DayNoise:
    """γ₀, γ₁ and ρ from sums of products of days 0, 1, 2, ... apart, by least squares over the days apart.

    Taking off the mean of so many days lowers all of them by the variance of that mean, which is added again (by
    iteration, since it is made of them).
    """
    lags, weight = sums / np.maximum(pairs, 1.0), pairs[1:]
    powers = DECAYS[:, None] ** np.arange(weight.size)
    scale = np.maximum((powers**2 * weight).sum(1), 1e-9)
    noise = DayNoise(0.0, 0.0, 0.0)
    for _ in range(MAX_ITERATIONS):
        mean = noise.of_sum(length) / length
        agrees = (powers * (weight * (lags[1:] + mean))).sum(1)
        best = np.argmax(np.maximum(agrees, 0.0) ** 2 / scale)
        second = max(float(agrees[best] / scale[best]), 0.0)
        noise = DayNoise(float(lags[0] + mean), second, float(DECAYS[best]))
    return noise


def tests_by_days(sums: CellSums, wider: Floats, freedom: float, level: float) -> Plain:
    """P-values, intervals and bands of periods whose noise is that of their days; the last cell may have no date."""
    times = np.append(wider, np.ones(sums.rows.size - wider.size))
    with ignore_warnings():
        gap = sums.off / sums.weight
        error = np.sqrt(times * sums.variance) / sums.weight
    p_value, adjusted, reach = student_test(gap, error, freedom, level)
    low, high = agree_with_tests(gap - reach, gap + reach, gap, adjusted, level)
    band = NORMAL_95 * error
    return {
        "gap_low": low,
        "gap_high": high,
        "error": error,
        "p_value": p_value,
        "p_adjusted": adjusted,
        "band_low": np.clip(sums.mean - band, 0.0, 1.0),
        "band_high": np.clip(sums.mean + band, 0.0, 1.0),
        "method": [Method.DAYS] * gap.size,
    }

"""The noise that days have: sums of neighbouring days vary together, and more than those of independent rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.inference.adjust import holm
from miscal.inference.intervals import agreeing
from miscal.inference.sums import Floats, Integers, Sums

LEAST_DAYS = 20  # beyond one a period, from which days tell their noise
BEYOND = 3.1  # standard deviations of chance: once in a thousand
STEPS = 50


@dataclass(frozen=True)
class DayNoise:
    """Variance of a period's sum relative to that of independent rows, and how many days, in effect, tell it.

    first : variance of a day's sum relative to independent rows;  second : covariance of neighbouring days
    decay : of the covariance from one day to the next
    """

    first: float
    second: float
    decay: float
    freedom: float

    def times(self, days: Floats) -> Floats:
        """The variance of a sum of so many days, relative to that of their rows if these were independent."""
        return np.array([max(1.0, _long(self.first, self.second, self.decay, float(each))) for each in days])


def day_noise(days: Sums, period: Integers) -> DayNoise | None:
    """How days vary within their periods; None where it is no more than independent rows would.

    Each day's ``u = (Σw(y - p) - its share of the period's)/sqrt(Σw²p(1-p))`` has the variance γ₀, 1 for independent
    rows, and the covariance γ₁, γ₁ρ, γ₁ρ², ... with the days after it. Taking off the period's own mean lowers all of
    them by the variance of that mean, which is added again (by iteration, since it is made of them). What is left of a
    model's error that is the same all through a period does not count as noise.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> n, p = np.full(120, 400.0), np.full(120, 80.0)
    >>> off = np.convolve(rng.normal(size=140), 0.7 ** np.arange(20), "same")[:120]
    >>> days = Sums(n, n, n, p, p + 20 * off + 8 * rng.normal(size=120), np.full(120, 64.0), np.full(120, 64.0))
    >>> bool(day_noise(days, np.arange(120) // 30).times(np.array([30.0]))[0] > 10)
    True
    """
    kept = np.flatnonzero(days.variance > 0.0)
    code = np.unique(period[kept], return_inverse=True)[1]
    size = np.bincount(code)
    many = float(kept.size - size.size)
    if many < LEAST_DAYS:
        return None
    weight, residual = days.weight[kept], -days.off[kept]
    whole = {name: np.bincount(code, values[kept]) for name, values in vars(days).items()}
    gap = (whole["observed"] - whole["predicted"]) / whole["weight"]
    # Rows whose rate is not the predicted one have another variance, in all days of the period alike.
    own = np.maximum((whole["residual2"] - gap**2 * whole["weight2"]) / whole["variance"], 1.0)
    spread = np.sqrt(days.variance[kept] * own[code])
    unit = (residual - gap[code] * weight) / spread
    lags = [_lagged(unit, code, lag) for lag in (0, 1, 2, 3)]
    length = kept.size / size.size
    # Of independent days the period's mean takes 1/n of the variance off all of these.
    chance, plain = math.sqrt(1.0 / many), lags[0] * kept.size / many
    if plain - 1.0 < BEYOND * math.sqrt(2.0) * chance and lags[1] + plain / length < BEYOND * plain * chance:
        return None
    first, second, decay, mean = 1.0, 0.0, 0.0, 0.0
    for _ in range(STEPS):
        level = [lag + mean for lag in lags]
        first, second = level[0], max(level[1], 0.0)
        decay = min(max((level[2] + level[3]) / max(level[1] + level[2], 1e-9), 0.0), 0.95) if second > 0.0 else 0.0
        mean = _long(first, second, decay, length) / length
    # Days that vary together tell less: as many as independent ones of the same long-run variance would.
    effective = many * first / max(_long(first, second, decay, length), first)
    return DayNoise(first, second, decay, max(effective, 4.0))


def judged_by_days(sums: Sums, wider: Floats, freedom: float, level: float) -> dict[str, Any]:
    """P-values, intervals and bands of periods whose noise is that of their days; the last cell may have no date."""
    from scipy.special import stdtr, stdtrit

    times = np.append(wider, np.ones(sums.rows.size - wider.size))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, gap = sums.predicted / sums.weight, sums.off / sums.weight
        error = np.sqrt(times * sums.variance) / sums.weight
        p_value = 2.0 * stdtr(freedom, -np.abs(gap) / error)
    adjusted = holm(p_value)
    reach = float(stdtrit(freedom, 1.0 - 0.5 * level / max(int(np.count_nonzero(~np.isnan(p_value))), 1))) * error
    low, high = agreeing(gap - reach, gap + reach, gap, adjusted, level)
    band = 1.96 * error
    return {
        "gap_low": low, "gap_high": high, "error": error, "p_value": p_value, "p_adjusted": adjusted,
        "band_low": np.clip(mean - band, 0.0, 1.0), "band_high": np.clip(mean + band, 0.0, 1.0),
        "method": ["noise of days"] * gap.size,
    }  # fmt: skip


def _lagged(unit: Floats, code: Integers, lag: int) -> float:
    """Mean product of days so many apart, within a period."""
    if lag == 0:
        return float(np.mean(unit * unit))
    same = code[lag:] == code[:-lag]
    return float(np.mean((unit[lag:] * unit[:-lag])[same])) if same.any() else 0.0


def _long(first: float, second: float, decay: float, days: float) -> float:
    """γ₀ + 2Σ(1 - l/n)γ₁ρ^(l-1): the variance of a sum of n days, a day of independent rows being 1."""
    lag = np.arange(1, max(round(days), 1))
    return first + 2.0 * float(np.sum((1.0 - lag / max(days, 1.0)) * second * decay ** (lag - 1.0)))

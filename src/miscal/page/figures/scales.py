"""From data to pixels and back to readable ticks: linear, logarithmic and logit scales."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Kind = Literal["linear", "log", "logit"]
_SMALLEST = 1e-9
_HALF_LOGIT_TICKS = [m * 10.0**e for e in range(-8, -1) for m in (1, 2, 5)] + [0.1, 0.2, 0.3]


@dataclass(frozen=True)
class Scale:
    """A monotone map from [low, high] of the data to [start, end] in pixels; what lies outside is moved to the end.

    Examples
    --------
    >>> Scale(0.0, 10.0, 100.0, 200.0)([0, 5, 20])
    array([100., 150., 200.])
    """

    low: float
    high: float
    start: float
    end: float
    kind: Kind = "linear"

    def __call__(self, values: ArrayLike) -> Floats:
        """The values' pixels."""
        data = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        low, high = self._warp(np.array([self.low, self.high]))
        share = (self._warp(data) - low) / (high - low) if high > low else np.full(data.shape, 0.5)
        return np.asarray(self.start + share * (self.end - self.start), dtype=np.float64)

    def at(self, value: float) -> float:
        """One value's pixel."""
        return float(self(np.array([value]))[0])

    def _warp(self, data: Floats) -> Floats:
        if self.kind == "linear":
            return data
        if self.kind == "log":
            return np.log(np.maximum(data, _SMALLEST))
        inside = np.clip(data, _SMALLEST, 1 - _SMALLEST)
        return np.asarray(np.log(inside) - np.log1p(-inside), dtype=np.float64)

    def ticks(self, spacing: float = 64.0) -> list[float]:
        """Round values inside the domain, at least `spacing` pixels from one another.

        Examples
        --------
        >>> Scale(0.0, 1.0, 0.0, 300.0).ticks()
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        room = abs(self.end - self.start)
        if self.kind == "linear":
            return _linear_ticks(self.low, self.high, max(2, int(room / spacing)))
        if self.kind == "log":
            return self._spaced(_log_ticks(self.low, self.high), spacing, _roundness)
        wanted = [t for t in _logit_ticks() if self.low <= t <= self.high]
        return self._spaced(wanted, spacing, _logit_roundness)

    def _spaced(self, wanted: list[float], spacing: float, rank: Callable[[float], int]) -> list[float]:
        """Keep the roundest ticks first, then whatever fits between them."""
        kept: list[float] = []
        for tick in sorted(wanted, key=lambda t: (rank(t), t)):
            if all(abs(self.at(tick) - self.at(other)) >= spacing for other in kept):
                kept.append(tick)
        return sorted(kept)


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    lowest, highest = math.floor(math.log10(max(low, _SMALLEST))), math.ceil(math.log10(max(high, _SMALLEST)))
    every = [m * 10.0**e for e in range(lowest, highest + 1) for m in (1, 2, 5)]
    return [t for t in every if low <= t <= high]


def _logit_ticks() -> list[float]:
    return _HALF_LOGIT_TICKS + [0.5] + [1 - t for t in reversed(_HALF_LOGIT_TICKS)]


def _roundness(tick: float) -> int:
    """0 for a power of ten, 1 for the others."""
    return 0 if abs(math.log10(tick) - round(math.log10(tick))) < 1e-9 else 1


def _logit_roundness(tick: float) -> int:
    near = min(tick, 1 - tick)
    return 0 if near == 0.5 else _roundness(near) if near < 0.3 else 2


def nice(low: float, high: float) -> tuple[float, float]:
    """Widen a range to round ends, so that the axis ends on a tick.

    Examples
    --------
    >>> nice(0.03, 0.47)
    (0.0, 0.5)
    """
    if not high > low:
        pad = abs(low) * 0.5 or 0.5
        low, high = low - pad, high + pad
    ticks = _linear_ticks(low, high, 5)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    return round(math.floor(low / step + 1e-9) * step, 12), round(math.ceil(high / step - 1e-9) * step, 12)


def known(*arrays: ArrayLike) -> Floats:
    """All numbers of some arrays that are finite."""
    every = np.concatenate([np.atleast_1d(np.asarray(array, dtype=np.float64)) for array in arrays])
    return np.asarray(every[np.isfinite(every)])


def rate_ends(*arrays: ArrayLike) -> tuple[float, float]:
    """Round ends of an axis of rates: from 0 unless all are far from it.

    Examples
    --------
    >>> rate_ends([0.1, 0.4]), rate_ends([0.31, 0.4])
    ((0.0, 0.4), (0.3, 0.4))
    """
    drawn = known(*arrays)
    if not len(drawn):
        return 0.0, 1.0
    least, most = float(drawn.min()), float(drawn.max())
    return nice(0.0 if least < most / 2 else least, most)

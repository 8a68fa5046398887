"""The walk of a stream: exact from the borders of buckets and the few rows inside which it may pass them."""

from __future__ import annotations

import math

import numpy as np

from miscal.carriers.tally import Tally
from miscal.carriers.walk import Walk
from miscal.engines.buckets import HALF, HALF_MASK
from miscal.engines.keys import Profile, Pulled

UNIT = 4503599627370496.0


def stream_walk(profile: Profile, pulled: Pulled, suspects: np.ndarray, totals: Tally) -> Walk:
    """Total, highest and lowest partial sum, with the keys at which they lie.

    totals : its first cell is the sum of all rows with a key, for the weight, the variance and the events expected
    """
    highest = _border(profile, profile.end, 1.0)
    lowest = _border(profile, profile.end, -1.0)
    for place in suspects.tolist():
        keys, sums = _inside(profile, pulled, place)
        best, worst = int(np.argmax(sums)), int(np.argmin(sums))
        if sums[best] > highest[0]:
            highest = float(sums[best]), float(keys[best])
        if sums[worst] < lowest[0]:
            lowest = float(sums[worst]), float(keys[worst])
    weight, predicted = float(totals.weight[0]), float(totals.predicted[0])
    return Walk(
        total=float(profile.end[-1]),
        highest=highest[0],
        lowest=lowest[0],
        weight=weight,
        variance=float(totals.variance[0]),
        rows=int(totals.counts[0]),
        expected=(predicted, weight - predicted),
        distinct=int(profile.distinct.size),
        highest_at=highest[1],
        lowest_at=lowest[1],
        first=profile.low,
        last=profile.high,
    )


def _border(profile: Profile, ends: np.ndarray, sign: float) -> tuple[float, float]:
    """The extreme among the borders and the start, and the last key before it."""
    place = int(np.argmax(sign * ends))
    if not sign * ends[place] > 0.0:
        return 0.0, math.nan
    return float(ends[place]), float(profile.spans[place, 1])


def _inside(profile: Profile, pulled: Pulled, place: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct keys of a bucket and the walk after each."""
    inside = pulled._inside(place)  # noqa: SLF001
    keys = pulled.values[inside]
    ends = np.flatnonzero(np.append(keys[1:] != keys[:-1], True))
    predicted, observed = pulled.columns["predicted"][inside], pulled.columns["observed"][inside].astype(np.int64)
    first = pulled.first[inside]
    if profile.limbs is None:
        steps = np.cumsum((observed - predicted) * first)
        return keys[ends], profile.start[place] + steps[ends]
    step = (observed << 52) - np.floor(predicted * UNIT + 0.5).astype(np.int64)
    times = first.astype(np.int64)
    high = np.cumsum((step >> HALF) * times)[ends] + profile.limbs[place, 0]
    low = np.cumsum((step & HALF_MASK) * times)[ends] + profile.limbs[place, 1]
    high, low = high + (low >> HALF), low & HALF_MASK
    return keys[ends], high * 2.0**-26 + low * 2.0**-52

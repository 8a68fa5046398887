"""Is a place wrong along the score although it may be right on average? Its walk with both ends at 0.

The residuals of a place are summed in cells of the score. Over the noise that has passed, the running total less its
own average drift is a Brownian bridge when the model is calibrated up to one shift of the logit: independent of the
place's average, which has a test of its own. Two readings of it: its moment, which sees what tilts (too extreme, too
timid), and its range (Kuiper's statistic), which sees anything.
"""

from dataclasses import dataclass

import numpy as np

from miscal.data.libraries import special
from miscal.inference.sums import Floats

LEAST_EVENTS = 25.0  # expected of the rarer side: below, sums are not normal in their tails
TERMS = 12
BOTH_SIDES = 1.64  # standard errors that each of two ranges must be off to be said to disagree, if the average is off
OTHER = 0.5  # of the larger turn of a walk: from there on the smaller turn makes it uneven


@dataclass(frozen=True, eq=False)
class Shape:
    """How places err along the score, an array over places each.

    p_value : of both readings together;  moment : positive where predictions are too extreme, in standard deviations
    """

    p_value: Floats
    moment: Floats


def kuiper_bridge_p(x: Floats) -> Floats:
    """The probability that the range of a Brownian bridge is at least `x`.

    >>> kuiper_bridge_p(np.array([1.747, 0.0])).round(3).tolist()
    [0.05, 1.0]
    """
    squared = np.minimum(np.asarray(x, dtype=np.float64), 1e3) ** 2  # beyond it the probability is 0 all the same
    k2 = np.arange(TERMS, 0.0, -1.0) ** 2 * squared[..., np.newaxis]
    total = np.sum(2.0 * (4.0 * k2 - 1.0) * np.exp(-2.0 * k2), axis=-1)
    return np.asarray(np.where(squared < 0.16, 1.0, np.clip(total, 0.0, 1.0)))


def shape_test(off: Floats, variance: Floats) -> Shape:
    """Test places by Σw(p - y) and its variance in cells of the score, (..., cells).

    Examples
    --------
    >>> found = shape_test(np.array([-30.0, -30.0, 30.0, 30.0]), np.full(4, 50.0))
    >>> bool(found.p_value < 1e-6), bool(found.moment > 0)
    (True, True)
    """
    total = variance.sum(axis=-1)
    noise = np.where(total > 0.0, total, 1.0)
    share, walk = variance / noise[..., np.newaxis], bridge(off, variance)
    lever = np.cumsum(variance, axis=-1) / noise[..., np.newaxis] - 0.5 * share - 0.5
    spread = np.sum(variance * lever * lever, axis=-1)
    known = (total > 0.0) & (spread > 0.01 * noise / 12.0)  # else all is in one cell of the score
    moment = np.where(known, np.sum(off * lever, axis=-1) / np.sqrt(np.where(known, spread, 1.0)), 0.0)
    # Seen at few points a walk's range is smaller: by about 1.17 over the root of their number.
    size = (walk.max(axis=-1, initial=0.0) - walk.min(axis=-1, initial=0.0)) / np.sqrt(noise)
    size += np.sqrt(np.sum(share * share, axis=-1))
    p_value = 2.0 * np.minimum(2.0 * special.ndtr(-np.abs(moment)), kuiper_bridge_p(size))
    return Shape(np.where(known, np.minimum(p_value, 1.0), np.nan), moment)


def normal_z(p_value: Floats) -> Floats:
    """The standard deviations of a normal that have these two-sided p-values.

    >>> normal_z(np.array([0.05, 1.0])).round(2).tolist()
    [1.96, -0.0]
    """
    return np.asarray(-special.ndtri(0.5 * np.clip(p_value, 1e-300, 1.0)))


def bridge(off: Floats, variance: Floats) -> Floats:
    """The running total of residuals less its average drift over the noise passed: 0 at its end."""
    total = variance.sum(axis=-1, keepdims=True)
    passed = np.cumsum(variance, axis=-1) / np.where(total > 0, total, 1.0)
    return np.asarray(np.cumsum(off, axis=-1) - off.sum(axis=-1, keepdims=True) * passed)


def form_of(off: Floats, variance: Floats, *, average: bool, shape: bool) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The form of one place's error, and the first and last cell of the score of the two ranges that disagree.

    average, shape : which of its two tests are beyond noise. Where both are, ranges disagree only if each is off.

    Examples
    --------
    >>> form_of(np.array([-30.0, -30.0, 30.0, 30.0]), np.full(4, 50.0), average=False, shape=True)
    ('too extreme', ((2, 3), (0, 1)))
    >>> form_of(np.array([-30.0, 30.0]), np.array([0.0, 50.0]), average=True, shape=True)
    ('too extreme', ((1, 1), (0, 0)))
    """
    total = float(off.sum())
    plain = "too high" if total >= 0 else "too low"
    if not shape or off.size < 2:
        return plain, ()
    walk = bridge(off, variance)[:-1]
    low, high = int(np.argmin(walk)), int(np.argmax(walk))
    turns = max(-float(walk[low]), 0.0), max(float(walk[high]), 0.0)
    last = off.size - 1
    if min(turns) >= OTHER * max(turns):
        return "uneven", _uneven(off, min(low, high), max(low, high))
    cut = low if turns[0] > turns[1] else high
    below, above = float(off[: cut + 1].sum()), float(off[cut + 1 :].sum())
    noise = np.sqrt([variance[: cut + 1].sum(), variance[cut + 1 :].sum()])  # 0 where all rows are certain
    apart = below * above < 0 and bool((np.abs([below, above]) >= BOTH_SIDES * noise).all())
    if not apart and average:
        return plain, ()
    return "too extreme" if turns[0] > turns[1] else "too timid", ((cut + 1, last), (0, cut))


def _uneven(off: Floats, first: int, last: int) -> tuple[tuple[int, int], ...]:
    """The middle range, and the outer one that is further off the other way."""
    middle = (first + 1, last)
    sign = np.sign(off[first + 1 : last + 1].sum())
    outer = [(0, first), (last + 1, off.size - 1)]
    return middle, min(outer, key=lambda ends: sign * float(off[ends[0] : ends[1] + 1].sum()))

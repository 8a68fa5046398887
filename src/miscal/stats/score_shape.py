"""The shape of a miscalibration along the score: its test, and its form in a word."""

from dataclasses import dataclass

import numpy as np

from miscal.data.libraries import special
from miscal.stats.cell_sums import Floats

SERIES_TERMS = 12
# Standard errors from which both of two ranges count as miscalibrated in opposite directions.
OPPOSITE_Z = 1.64
SECOND_TURN_SHARE = (
    0.5  # of the larger turn of the bridge: from there on the smaller turn makes the form uneven
)


@dataclass(frozen=True, eq=False)
class ShapeTest:
    """Tests of the shape along the score, one value per segment.

    p_value : of both readings together;  moment : positive where predictions are too extreme, in standard deviations
    """

    p_value: Floats
    moment: Floats


def kuiper_bridge_p(x: Floats) -> Floats:
    """The probability that the range of a Brownian bridge is at least `x`.

    >>> kuiper_bridge_p(np.array([1.747, 0.0])).round(3).tolist()
    [0.05, 1.0]
    """
    # Beyond it the probability is 0 all the same.
    squared = np.minimum(x, 1e3) ** 2
    k2 = np.arange(SERIES_TERMS, 0.0, -1.0) ** 2 * squared[..., None]
    total = np.sum(2.0 * (4.0 * k2 - 1.0) * np.exp(-2.0 * k2), axis=-1)
    return np.where(squared < 0.16, 1.0, np.clip(total, 0.0, 1.0))


def shape_test(off: Floats, variance: Floats) -> ShapeTest:
    """Test places by Σw(p - y) and its variance in cells of the score, (..., cells).

    Examples
    --------
    >>> result = shape_test(np.array([-30.0, -30.0, 30.0, 30.0]), np.full(4, 50.0))
    >>> bool(result.p_value < 1e-6), bool(result.moment > 0)
    (True, True)
    """
    total = variance.sum(axis=-1)
    noise = np.where(total > 0.0, total, 1.0)
    share, curve = variance / noise[..., None], cumulative_bridge(off, variance)
    lever = np.cumsum(variance, axis=-1) / noise[..., None] - 0.5 * share - 0.5
    spread = np.sum(variance * lever * lever, axis=-1)
    testable = (total > 0.0) & (spread > 0.01 * noise / 12.0)  # else all is in one cell of the score
    deviation = np.sqrt(np.where(testable, spread, 1.0))
    moment = np.where(testable, np.sum(off * lever, axis=-1) / deviation, 0.0)
    # At few points the range is smaller: by about 1.17 over the root of their number.
    reach = curve.max(axis=-1, initial=0.0) - curve.min(axis=-1, initial=0.0)
    size = reach / np.sqrt(noise) + np.sqrt(np.sum(share * share, axis=-1))
    p_value = 2.0 * np.minimum(2.0 * special.ndtr(-np.abs(moment)), kuiper_bridge_p(size))
    return ShapeTest(np.where(testable, np.minimum(p_value, 1.0), np.nan), moment)


def cumulative_bridge(off: Floats, variance: Floats) -> Floats:
    """The running total of residuals less its average drift over the noise passed: 0 at its end."""
    total = variance.sum(axis=-1, keepdims=True)
    passed = np.cumsum(variance, axis=-1) / np.where(total > 0, total, 1.0)
    return np.asarray(np.cumsum(off, axis=-1) - off.sum(axis=-1, keepdims=True) * passed)


def miscalibration_form(
    off: Floats, variance: Floats, *, average: bool, shape: bool
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The form of one place's error, and the first and last cell of the score of the two ranges that disagree.

    average, shape : which of its two tests are significant. Where both are, ranges disagree only if each is off; where
    the shape alone is, both may be off in the same direction, one of them more.

    Examples
    --------
    >>> miscalibration_form(np.array([-30.0, -30.0, 30.0, 30.0]), np.full(4, 50.0), average=False, shape=True)
    ('too extreme', ((2, 3), (0, 1)))
    >>> miscalibration_form(np.array([-30.0, 30.0]), np.array([0.0, 50.0]), average=True, shape=True)
    ('too extreme', ((1, 1), (0, 0)))
    """
    plain = "too high" if off.sum() >= 0 else "too low"
    if not shape or off.size < 2:
        return plain, ()
    curve = cumulative_bridge(off, variance)[:-1]
    low, high = int(np.argmin(curve)), int(np.argmax(curve))
    down, up = max(-curve[low], 0.0), max(curve[high], 0.0)
    if min(down, up) >= SECOND_TURN_SHARE * max(down, up):
        return "uneven", _uneven_ranges(off, min(low, high), max(low, high))
    form, last = ("too extreme", low) if down > up else ("too moderate", high)
    halves = np.split(np.stack([off, variance]), [last + 1], axis=1)
    # The noise is 0 where all rows are certain.
    sides, noise = np.transpose([half.sum(axis=1) for half in halves])
    apart = sides.prod() < 0 and (np.abs(sides) >= OPPOSITE_Z * np.sqrt(noise)).all()
    if average and not apart:
        return plain, ()
    # Both ranges are off in the same direction, one of them more: the form is uneven, not too extreme.
    form = "uneven" if sides.prod() > 0 else form
    return form, ((last + 1, off.size - 1), (0, last))


def _uneven_ranges(off: Floats, first: int, last: int) -> tuple[tuple[int, int], ...]:
    """The middle range, and the outer one that is further off the other way."""
    below, middle, above = (0, first), (first + 1, last), (last + 1, off.size - 1)
    low, inside, high = (part.sum() for part in np.split(off, [first + 1, last + 1]))
    sign = np.sign(inside)
    return middle, below if sign * low <= sign * high else above

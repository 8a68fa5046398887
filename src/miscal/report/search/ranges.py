"""The stretch of a variable that errs: every stretch of consecutive ranges is looked at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from miscal.inference.sums import Floats

WHOLE = 0.75  # a place with more of the noise than this is the whole table, or its complement says it better


class Stretch(NamedTuple):
    """Consecutive cells first..last and how many standard errors they are off."""

    first: int
    last: int
    z: float


def stretches(cells: int) -> int:
    """How many stretches there are among so many cells."""
    return cells * (cells + 1) // 2


def best_stretch(off: Floats, variance: Floats, total: float, *, beyond: bool) -> Stretch | None:
    """The stretch furthest off in standard errors.

    beyond : the score was put right on the same rows, which takes the share that a stretch has of the noise off its
        variance; stretches that are nearly everything are passed over
    """
    if off.size == 0 or total <= 0:
        return None
    sums, noise = np.append(0.0, np.cumsum(off)), np.append(0.0, np.cumsum(variance))
    moved, spread = sums[None, :] - sums[:, None], noise[None, :] - noise[:, None]
    inside = np.triu(np.ones_like(moved, dtype=bool), 1) & (spread > 0)
    if beyond:
        share = spread / total
        inside &= share < WHOLE
        spread = spread * (1.0 - np.minimum(share, WHOLE))
    if not inside.any():
        return None
    z = np.where(inside, np.abs(moved) / np.sqrt(np.where(inside, spread, 1.0)), -1.0)
    first, end = np.unravel_index(int(np.argmax(z)), z.shape)
    return Stretch(int(first), int(end) - 1, float(z[first, end]))

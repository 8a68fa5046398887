"""The stretch of a variable, or the box of two, that errs: every run of consecutive ranges is looked at."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from miscal.inference.sums import Floats

WHOLE = 0.6  # a place with more of the noise than this is the whole table, or its complement says it better


class Best(NamedTuple):
    """The box of cells that is furthest off, in standard errors, and among how many boxes it was picked."""

    box: tuple[tuple[int, int], ...]
    z: float
    searched: int


def stretches(cells: int) -> int:
    """How many stretches there are among so many cells."""
    return cells * (cells + 1) // 2


@lru_cache(maxsize=64)
def _ends(cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and last cell of every stretch, and which cells it holds."""
    first, last = np.triu_indices(cells)
    place = np.arange(cells)
    inside = ((place >= first[:, None]) & (place <= last[:, None])).astype(np.float64)
    return first, last, inside


def best_boxes(
    off: Floats, variance: Floats, ordered: tuple[bool, ...], known: tuple[int, ...], total: float, *, beyond: bool
) -> list[Best]:
    """The boxes furthest off: the best stretch along ordered axes, for every cell along the others.

    off, variance : (cells of one part,) or (cells of one part, cells of another)
    known : cells of each ordered axis that may be joined; those after them hold missing values
    beyond : the score was put right on the same rows, which takes the share that a box has of the noise off its
        variance; boxes that are nearly everything are passed over
    """
    axes = [_ends(k) if o else _single(size) for o, k, size in zip(ordered, known, off.shape, strict=True)]
    if any(axis[0].size == 0 for axis in axes) or total <= 0:
        return []
    moved, spread = _boxed(off, axes, known, ordered), _boxed(variance, axes, known, ordered)
    possible = spread > 0
    if len(axes) == 2:  # all of one axis is a place of the other column alone
        for place, (axis, o) in enumerate(zip(axes, ordered, strict=True)):
            if o:
                possible &= np.expand_dims(axis[2].min(axis=1) < 1.0, 1 - place)
    if beyond:
        possible &= spread < WHOLE * total
        spread = spread * (1.0 - np.minimum(spread / total, WHOLE))
    z = np.where(possible, np.abs(moved) / np.sqrt(np.where(possible, spread, 1.0)), -1.0)
    return _picked(z, axes, ordered)


def _single(cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    place = np.arange(cells)
    return place, place, np.eye(cells)


def _boxed(values: Floats, axes: list[Any], known: tuple[int, ...], ordered: tuple[bool, ...]) -> Floats:
    cut = values[tuple(slice(0, k) if o else slice(None) for k, o in zip(known, ordered, strict=True))]
    made = axes[0][2] @ cut
    return np.asarray(made if len(axes) == 1 else made @ axes[1][2].T)


def _picked(z: Floats, axes: list[Any], ordered: tuple[bool, ...]) -> list[Best]:
    """The best box over the ordered axes for each cell of the others."""
    searched = int(np.prod([axis[0].size for axis, o in zip(axes, ordered, strict=True) if o]))
    places: list[tuple[Any, ...]]
    if all(ordered):
        places = [np.unravel_index(int(np.argmax(z)), z.shape)]
    elif ordered[0]:
        places = [(int(i), j) for j, i in enumerate(np.argmax(z, axis=0))]
    else:
        places = [(i, int(j)) for i, j in enumerate(np.argmax(z, axis=1))]
    made = []
    for place in places:
        if z[place] > 0:
            box = tuple((int(axis[0][i]), int(axis[1][i])) for axis, i in zip(axes, place, strict=True))
            made.append(Best(box, float(z[place]), searched))
    return made

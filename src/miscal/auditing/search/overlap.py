"""Which rows places share."""

from __future__ import annotations

import math

import numpy as np

from miscal.auditing.search.groups import Group, Rows, crossed_codes
from miscal.auditing.search.places import Place


def overlap_of(rows: Rows, place: Place) -> Overlap | Expected:
    """What other places share with one: counted on the rows, or told from sums where a file keeps no rows."""
    return Expected(place) if math.isnan(rows.scale) else Overlap(rows, place.rows)


class Expected:
    """Weights that places share as far as sums tell: exact in one column, between columns as if they were unrelated."""

    cells_of_score = 1

    def __init__(self, place: Place) -> None:
        self.place = place

    def cells(self, group: Group) -> np.ndarray:
        """Shared weight of every cell of a group, (cells, 1)."""
        own, weight = self.place, group.raw.weight
        if own.group is group:
            inside = np.zeros(group.shape)
            inside[tuple(slice(first, last + 1) for first, last in own.box)] = 1.0
            return np.asarray((weight * inside.ravel())[:, None])
        return np.asarray((weight * float(own.raw.weight[0]) / max(float(weight.sum()), 1e-300))[:, None])

    def weight(self, place: Place) -> np.ndarray:
        """Shared weight of a place, (1,)."""
        if isinstance(place.group, Group):
            return np.asarray(place.group.inside(self.cells(place.group)[:, 0], place.box).sum().reshape(1))
        return np.asarray(self.place.raw.weight)  # all rows


class Overlap:
    """Weights of the rows that places share with some rows, in cells of the score.

    One count of a group serves all its cells; it is kept until another group is asked for; weights of places stay.
    """

    def __init__(self, rows: Rows, members: np.ndarray) -> None:
        self.rows, self.members = rows, members.astype(np.intp)  # gathering by another type takes twice as long
        self.own = None if rows.weight is None else rows.weight[members]
        grid = rows.grid
        self.cells_of_score = 1 if grid is None else grid.cells
        self.scores = np.zeros(members.size, np.int64) if grid is None else grid.codes[members].astype(np.int64)
        self.last: tuple[int, np.ndarray] | None = None
        self.known: dict[int, tuple[Place, np.ndarray]] = {}  # the place is held, so that its number stays its own
        self.inside: np.ndarray | None = None

    def cells(self, group: Group) -> np.ndarray:
        """Shared weight of every cell of a group and of the score."""
        if self.last is None or self.last[0] != id(group):
            codes = crossed_codes(group.parts, self.members) * self.cells_of_score + self.scores
            room = (group.count + group.some) * self.cells_of_score
            counted = np.bincount(codes, self.own, room)
            self.last = id(group), counted.reshape(-1, self.cells_of_score)[: group.count]
        return self.last[1]

    def weight(self, place: Place) -> np.ndarray:
        """Shared weight of a place, in cells of the score."""
        if id(place) not in self.known:
            self.known[id(place)] = place, self._weight(place)
        return self.known[id(place)][1]

    def _weight(self, place: Place) -> np.ndarray:
        if isinstance(place.group, Group):
            cells = self.cells(place.group)
            cut = tuple(slice(first, last + 1) for first, last in place.box)
            shaped = cells.reshape(*place.group.shape, self.cells_of_score)[cut]
            return np.asarray(shaped.sum(axis=tuple(range(len(cut)))))
        if self.inside is None:
            self.inside = np.zeros(self.rows.raw.rows, bool)
            self.inside[self.members] = True
        shared = place.rows[self.inside[place.rows]]
        scores = np.zeros(shared.size, np.int64) if self.rows.grid is None else self.rows.grid.codes[shared]
        return np.bincount(scores, None if self.rows.weight is None else self.rows.weight[shared], self.cells_of_score)


def certain_share(rows: Rows, place: Place, shared: float) -> float:
    """How much of the weight that a place seems to share is certain: all of it, unless few rows of a sample show it.

    The lower end of Agresti and Coull's interval (two standard errors), relative to the share itself.
    """
    if not rows.sample or math.isnan(rows.scale) or shared <= 0.0:
        return 1.0
    share, seen = min(shared / float(place.raw.weight[0]), 1.0), float(place.raw.rows[0]) / rows.scale
    middle = (share * seen + 2.0) / (seen + 4.0)
    low = middle - 2.0 * math.sqrt(middle * (1.0 - middle) / (seen + 4.0))
    return min(max(low / share, 0.0), 1.0)

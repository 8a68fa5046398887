"""Which places explain the others: take the one with most events off for certain, put it right, look again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from miscal.auditing.search.groups import Group, Rows, best_boxes, cluster_sums
from miscal.auditing.search.places import Multiplicity, Place, box_place, deviation_beyond
from miscal.inference.adjust import adjusted_z

NEARLY = 0.3  # bounds above this share of the best compete for explaining the same rows
SHARED = 0.5  # places that share this part of the smaller one's weight are about the same rows
MOST = 40  # places taken; what is left is listed under the one taken that it shares most rows with
MOST_KINDS = 15  # columns and combinations of columns that they may belong to
LEAST = 0.03  # a place whose bound is below this share of the first one's is not taken


@dataclass(eq=False)
class Taken:
    """A place that was taken, the lower bound of its events off, and the places that it explains."""

    place: Place
    bound: float
    explains: list[Place] = field(default_factory=list)


class Explainer:
    """The places still open, and what is left of their error after those taken were put right."""

    def __init__(
        self, rows: Rows, tests: Multiplicity, places: Sequence[Place], groups: Sequence[Group], *, beyond: bool = True
    ) -> None:
        self.rows, self.tests = rows, tests
        self.of = attrgetter("beyond" if beyond else "raw")  # as predicted no new stretches are looked for
        self.open = list(places)
        self.left = 0  # places still off when the list was stopped
        self.total = float(rows.variance(self.of(groups[0])).sum()) if groups else 1.0
        self.critical = adjusted_z(tests.total, tests.level)
        self.searched = [g for g in groups if g.ordered and beyond]
        self.off = {id(g): g.beyond.off for g in self.searched}
        self.noise = {id(g): rows.variance(g.beyond) for g in self.searched}
        self.fixed = {id(place): float(self.of(place).off[0]) for place in self.open}
        self.spread = {id(place): self._deviation(place) for place in self.open}

    def _deviation(self, place: Place) -> float:
        if self.rows.raw.cluster is not None:
            return max(math.sqrt(cluster_sums(self.of(self.rows), place.rows)[1]), 1e-150)
        return deviation_beyond(float(self.rows.variance(self.of(place))[0]), self.total)

    def run(self) -> list[Taken]:
        """Take places until none is significant any more."""
        taken: list[Taken] = []
        kinds: set[tuple[str, ...]] = set()
        while candidates := self._candidates():
            place, bound = self._choose(candidates)
            too_many = len(taken) >= MOST or (place.group.names not in kinds and len(kinds) >= MOST_KINDS)
            if too_many or (taken and bound < LEAST * taken[0].bound):
                self.left = len(candidates)
                break
            kinds.add(place.group.names)
            taken.append(Taken(place, bound, self.put_right(place)))
        self._share_out(taken)
        return taken

    def _share_out(self, taken: list[Taken]) -> None:
        """List what is left under the place taken that holds most of its rows."""
        if not (taken and self.open):
            return
        overlaps = [Overlap(self.rows, item.place.rows) for item in taken]
        shared = [[overlap.weight(p) for p in self.open] for overlap in overlaps]
        for place, home in zip(self.open, np.argmax(np.array(shared), axis=0), strict=True):
            taken[int(home)].explains.append(place)
        self.open = []

    def _candidates(self) -> list[Place]:
        found = [place for place in self.open if self._z(place) >= self._needed(place)]
        for group in self.searched:
            place = self._stretch(group)
            if place is not None and place.key not in {other.key for other in found}:
                found.append(place)
        return found

    def _z(self, place: Place) -> float:
        return abs(self.fixed[id(place)]) / self.spread[id(place)]

    def _needed(self, place: Place) -> float:
        """Standard errors from which a place is still off, allowing for the stretches searched."""
        return adjusted_z(self.tests.severity(place), self.tests.level)

    def _stretch(self, group: Group) -> Place | None:
        """The worst stretch of a variable in what is left, if it is beyond noise as predicted too."""
        off = self.off[id(group)]
        best = best_boxes(off, self.noise[id(group)], (group.ordered,), self.total, beyond=True)
        if not best:
            return None
        place = box_place(group, best[0].box, None, best[0].searched, self.rows, "columns")
        if best[0].z < self._needed(place):
            return None
        place.cost, place.specific = self.tests.cost(place), True
        place.adjusted = self.tests.bonferroni("columns", place.p_value)
        left = float(group.inside(off, best[0].box).sum())
        if left * place.off <= 0 or not place.adjusted <= self.tests.level:
            return None
        self.fixed[id(place)] = left
        self.spread[id(place)] = self._deviation(place)
        return place

    def _choose(self, candidates: list[Place]) -> tuple[Place, float]:
        """The largest bound, or the place among those about the same rows that describes it best.

        Among overlapping places with bounds that are not much smaller, the one with the largest z²/2 less the
        logarithm of how many such places there were: what the data say for it, less the freedom of having looked.
        """
        bounds = {id(p): self._bound(p) for p in candidates}
        top = max(candidates, key=lambda p: (bounds[id(p)], -p.cost))
        near = [p for p in candidates if bounds[id(p)] >= NEARLY * bounds[id(top)] or p.cost <= top.cost]
        overlap = Overlap(self.rows, top.rows)
        sign = math.copysign(1.0, self.fixed[id(top)])
        size = float(top.raw.weight[0])
        same = [
            p
            for p in near
            if sign * self.fixed[id(p)] > 0
            and (p is top or overlap.weight(p) >= SHARED * min(float(p.raw.weight[0]), size))
        ]
        chosen = max(same, key=lambda p: 0.5 * self._z(p) ** 2 - p.cost)
        return chosen, bounds[id(chosen)]

    def _bound(self, place: Place) -> float:
        """Events off for certain: the smaller of what is left beyond the score and of what was predicted."""
        left = abs(self.fixed[id(place)]) - self.critical * self.spread[id(place)]
        return min(left, abs(place.off) - self.critical * math.sqrt(float(self.rows.variance(place.raw)[0])))

    def put_right(self, place: Place) -> list[Place]:
        """Take the gap of a place out of its rows; the places that are not off any more are explained by it."""
        sums = self.of(place)
        gap = self.fixed.get(id(place), float(sums.off[0])) / float(sums.weight[0])
        overlap = Overlap(self.rows, place.rows)
        for group in self.searched:
            self.off[id(group)] = self.off[id(group)] - gap * overlap.cells(group)
        explained: list[Place] = []
        left: list[Place] = []
        for other in self.open:
            if other is place or other.key == place.key:
                continue
            was = self._z(other) >= self._needed(other)
            self.fixed[id(other)] -= gap * overlap.weight(other)
            (explained if was and self._z(other) < self._needed(other) else left).append(other)
        self.open = left
        return explained


class Overlap:
    """Weights of the rows that places share with some rows: one count a group serves all its cells."""

    def __init__(self, rows: Rows, members: np.ndarray) -> None:
        self.rows, self.members = rows, members
        self.own = None if rows.weight is None else rows.weight[members]
        self.counted: dict[int, np.ndarray] = {}
        self.inside: np.ndarray | None = None

    def cells(self, group: Group) -> np.ndarray:
        """Shared weight of every cell of a group."""
        if id(group) not in self.counted:
            self.counted[id(group)] = np.bincount(group.codes(self.members), self.own, group.count)
        return self.counted[id(group)]

    def weight(self, place: Place) -> float:
        """Shared weight of a place."""
        if isinstance(place.group, Group):
            return float(place.group.inside(self.cells(place.group), place.box).sum())
        if self.inside is None:
            self.inside = np.zeros(self.rows.raw.rows, bool)
            self.inside[self.members] = True
        shared = place.rows[self.inside[place.rows]]
        return float(shared.size if self.rows.weight is None else self.rows.weight[shared].sum())

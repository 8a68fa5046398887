"""Places that were tested, and which of them are beyond noise.

Tests fall into families (columns, pairs, subpopulations, neighbourhoods) that share the level equally, so that a wide
search does not blunt the narrow one; within a family Holm's rule. A stretch of a variable counts as one test: its
p-value is already multiplied by the number of stretches looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from miscal.auditing.search.groups import NAMES, Box, Group, Rows, reachable_p
from miscal.auditing.search.ranges import WHOLE, Best, best_boxes, stretches
from miscal.inference.adjust import holm
from miscal.inference.sums import Sums
from miscal.pooling.condition import Conjunction


@dataclass(eq=False)
class Place:
    """A set of rows that was tested: a box of cells of a group, or rows of its own.

    p_value : of its gap, corrected for what was looked at to find it, but not yet for the other tests
    adjusted : over the whole audit
    cost : logarithm of how many places of its kind there are to choose from
    searched : boxes among which it was picked
    """

    group: Group | None
    box: Box
    p_value: float
    cost: float
    family: str
    raw: Sums
    beyond: Sums
    searched: int = 1
    own_rows: np.ndarray | None = None
    kind: str = ""
    own_words: str = ""
    columns: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    adjusted: float = math.nan
    specific: bool = False
    condition: Conjunction | None = None  # of a place that is no box of cells

    @property
    def rows(self) -> np.ndarray:
        """Row numbers."""
        if self.own_rows is not None:
            return self.own_rows
        assert self.group is not None
        return self.group.members(self.box)

    @property
    def conjunction(self) -> Conjunction:
        """Which rows belong to it, as data."""
        if self.condition is not None:
            return self.condition
        return Conjunction() if self.group is None else self.group.conjunction(self.box)

    @property
    def words(self) -> str:
        return self.own_words or (self.group.words(self.box) if self.group else "")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that define it."""
        return self.columns or (tuple(part.name for part in self.group.parts) if self.group else ())

    @property
    def key(self) -> tuple[int, Box]:
        return id(self.group if self.group is not None else self), self.box


@dataclass(eq=False)
class Multiplicity:
    """All p-values of an audit, by family, and the places of those that have one, by their number in it."""

    level: float
    families: dict[str, list[float]] = field(default_factory=dict)
    places: dict[str, dict[int, Place]] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    searched: dict[str, tuple[int, list[Place]]] = field(default_factory=dict)
    run: dict[str, int] = field(default_factory=dict)  # tests with a p-value, by family

    def add_searched(self, family: str, size: int, places: list[Place]) -> None:
        """Add a family whose p-values are already those of its whole search."""
        self.searched[family] = (size, places)

    def add(self, family: str, p_value: float, place: Place | None = None) -> None:
        """Add one test."""
        self.add_all(family, [p_value], {} if place is None else {0: place})

    def add_all(self, family: str, p_values: list[float], places: Mapping[int, Place]) -> None:
        """Add tests, and the places of some of them by their number; nothing where there are none."""
        if not p_values:
            return
        held = self.families.setdefault(family, [])
        self.places.setdefault(family, {}).update((len(held) + i, place) for i, place in places.items())
        held.extend(p_values)
        self.run[family] = self.run.get(family, 0) + int(np.count_nonzero(~np.isnan(p_values)))

    def count_only(self, family: str, tests: int) -> None:
        """Count tests that were not run, because a first look left them out: they cost the same."""
        self.skipped[family] = self.skipped.get(family, 0) + tests

    def size(self, family: str) -> int:
        """Number of tests in a family."""
        if family in self.searched:
            return self.searched[family][0]
        return self.run.get(family, 0) + self.skipped.get(family, 0)

    @property
    def factor(self) -> int:
        """How many families share the level."""
        return max(len(self.names), 1)

    @property
    def names(self) -> list[str]:
        """The families."""
        return [*self.families, *self.searched]

    @property
    def total(self) -> int:
        """Number of tests, for intervals that hold all at once."""
        return max(sum(self.size(family) for family in self.names), 1)

    def adjust(self) -> None:
        """Adjust every p-value over the audit."""
        for family, p_values in self.families.items():
            raw = np.array(p_values + [1.0] * self.skipped.get(family, 0))
            adjusted = np.minimum(1.0, holm(raw) * self.factor)
            for i, place in self.places[family].items():
                place.adjusted = float(adjusted[i])
        for _, places in self.searched.values():
            for place in places:
                place.adjusted = min(1.0, place.p_value * self.factor)

    def adjust_others(self, places: Sequence[Place]) -> None:
        """Adjust places that are no test of their own, as if each were the first of its family."""
        for place in places:
            if math.isnan(place.adjusted):
                place.adjusted = self.bonferroni(place.family, place.p_value)

    def severity(self, place: Place) -> int:
        """Among how many tests, all families counted, a place was picked."""
        return max(self.size(place.family), 1) * self.factor * max(place.searched, 1)

    def bonferroni(self, family: str, p_value: float) -> float:
        """Adjust one more p-value of a family."""
        return min(1.0, p_value * max(self.size(family), 1) * self.factor)


def judged(groups: Sequence[Group], rows: Rows, level: float) -> None:
    """Leave out (as NaN) cells that could never have been significant among all that can (Tarone)."""
    for group in groups:
        group.reachable = reachable_p(group.raw, rows)
    every = np.sort(np.concatenate([group.reachable for group in groups] or [np.empty(0)]))
    if every.size == 0:
        return
    # The largest number of tests k such that k cells can reach level / k.
    possible = np.searchsorted(every, level / np.arange(1, every.size + 1), side="right")
    enough = np.flatnonzero(possible <= np.arange(1, every.size + 1))
    limit = level / (int(enough[0]) + 1 if enough.size else every.size)
    for group in groups:
        group.p_value = np.where(group.reachable <= limit, group.p_value, np.nan)


def box_place(group: Group, box: Box, p_value: float | None, searched: int, rows: Rows, family: str) -> Place:
    """The place of a box of cells; its p-value, found from its sums if not given, times the boxes searched."""
    raw, beyond = group.joined(box)
    p = float(np.nan_to_num(rows.p_values(raw)[0], nan=1.0)) if p_value is None else p_value
    place = Place(group, box, p, 0.0, family, raw, beyond, searched, kind=group.kind)
    if rows.raw.cluster is not None:
        place.p_value = rows.exact_p(rows.raw, place.rows, p)
    place.p_value = min(1.0, place.p_value * searched)
    return place


def add_cells(
    tests: Multiplicity, groups: Sequence[Group], rows: Rows, family: str, within: float = 0.05
) -> list[Place]:
    """Add the cells of groups without an order; only the suspect ones (p at most `within`) become places."""
    places: list[Place] = []
    for group in groups:
        cells = group.ordered + np.flatnonzero(~np.isnan(group.p_value[group.ordered :]))
        p_values: list[float] = group.p_value[cells].tolist()
        held: dict[int, Place] = {}
        for i in np.flatnonzero(group.p_value[cells] <= within).tolist():
            held[i] = box_place(group, group.box(int(cells[i])), p_values[i], 1, rows, family)
            p_values[i] = held[i].p_value
        places += held.values()
        tests.add_all(family, p_values, held)
    return places


def add_boxes(
    tests: Multiplicity, groups: Sequence[Group], rows: Rows, family: str, within: float = 0.001
) -> list[Place]:
    """Add the best stretches and boxes of groups that have an order, as predicted and beyond the score."""
    places: list[Place] = []
    for group in groups:
        shape, ordered = group.shape, tuple(part.edges is not None for part in group.parts)
        known = tuple(part.known for part in group.parts)
        for beyond, sums in ((False, group.raw), (True, group.beyond)):
            noise = rows.variance(sums)
            off = (sums.predicted - sums.observed).reshape(shape)
            best = best_boxes(off, noise.reshape(shape), ordered, known, float(noise.sum()), beyond=beyond)
            chances = _chances(group, best, rows)
            for item, p in zip(best, chances, strict=True):
                place = box_place(group, item.box, p, item.searched, rows, family) if p <= within else None
                # The best box is the test; the one that is best beyond the score is a place, judged as severely.
                if not beyond:
                    tests.add(family, min(1.0, p * item.searched) if place is None else place.p_value, place)
                places += [place] if place is not None else []
    return places


def _chances(group: Group, best: Sequence[Best], rows: Rows) -> list[float]:
    """P-values of several boxes of a group at once, from their sums."""
    if not best:
        return []
    sums = [group.joined(item.box)[0] for item in best]
    stacked = Sums(*(np.concatenate([getattr(one, name) for one in sums]) for name in NAMES))
    return [float(p) for p in np.nan_to_num(rows.p_values(stacked), nan=1.0)]


def add_walks(tests: Multiplicity, groups: Sequence[Group], rows: Rows, family: str) -> list[Place]:
    """Add the walk along each variable: its p-value belongs to the stretch in which it moves most."""
    places: list[Place] = []
    for group in groups:
        if group.walk is not None and not math.isnan(group.walk[0]):
            p, first, last = group.walk
            places.append(box_place(group, ((first, last),), None, stretches(group.ordered), rows, family))
            places[-1].p_value = p
            tests.add(family, p, places[-1])
    return places


def set_costs(places: Sequence[Place], tests: Multiplicity) -> None:
    """Cost of each place: the logarithm of how many there are in its family, and of the boxes searched."""
    for place in places:
        place.cost = math.log(max(tests.size(place.family), 1) * max(place.searched, 1))


def off_beyond(place: Place) -> float:
    """Σw(q - y) of a place."""
    return float((place.beyond.predicted - place.beyond.observed)[0])


def deviation_beyond(variance: float, total: float) -> float:
    """Standard deviation of a place's sum when the score was put right on the same rows.

    What the place shares with the rest is taken off; the true variance is at most this one (Cauchy and Schwarz).
    """
    return math.sqrt(max(variance * (1.0 - min(variance / max(total, 1e-300), 0.99)), 1e-300))


def mark_specific(places: Sequence[Place], rows: Rows, total: float, tests: Multiplicity) -> None:
    """Mark the places that are significant beyond the score too, judged as severely as they were as predicted.

    Only places beyond noise are asked, but all that were tested count: noise helped to put a place among them.
    """
    from scipy.special import ndtr

    for place in places:
        variance = float(rows.variance(place.beyond)[0])
        z = abs(off_beyond(place)) / deviation_beyond(variance, total)
        chance = 2.0 * float(ndtr(-z))
        if rows.raw.cluster is not None:
            chance = rows.exact_p(rows.beyond, place.rows, 0.0)
        elif float(np.minimum(place.beyond.predicted, place.beyond.weight - place.beyond.predicted)[0]) < 25:
            chance = float(np.nan_to_num(rows.p_values(place.beyond)[0], nan=1.0))
        same_way = off_beyond(place) * float((place.raw.predicted - place.raw.observed)[0]) > 0
        possible = same_way and variance <= WHOLE * total
        place.specific = bool(possible and chance * tests.severity(place) <= tests.level)

"""What was looked at, the places in it that were tested, and which of them are beyond noise.

Tests fall into families (columns, pairs, subpopulations, neighbourhoods) that share the level equally, so that a wide
search does not blunt the narrow one; within a family Holm's rule. A stretch of a variable counts as one test: its
p-value is already multiplied by the number of stretches looked at.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from miscal.auditing.search.groups import Best, Both, Box, Group, Rows, best_boxes, crossed_codes, stretches
from miscal.auditing.search.parts import Part
from miscal.data.columns import Column
from miscal.inference.adjust import holm
from miscal.inference.sums import Floats, Sums
from miscal.pooling.condition import Conjunction
from miscal.results import Result

Boxes = tuple[Sequence[Best], Sequence[float]]  # with their p-values
SUSPECT, SUSPECT_BOX = 0.05, 0.001  # only cells and boxes at most so likely become places


@dataclass(frozen=True, eq=False)
class Own:
    """Rows that are no box of cells: it answers what a group answers of a box.

    condition : which rows belong; None for all of them
    code : of its findings, where it is not that of its kind
    """

    kind: str
    rows: np.ndarray
    label: str
    names: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    condition: Conjunction | None = None
    code: str | None = None

    def members(self, _: Box) -> np.ndarray:
        return self.rows

    def words(self, _: Box) -> str:
        return self.label

    def levels(self, _: Box) -> tuple[str, ...]:
        return self.named

    def conjunction(self, _: Box) -> Conjunction:
        return self.condition or Conjunction()


@dataclass(eq=False)
class Place:
    """A set of rows that was tested: a box of cells of a group, or rows of its own.

    p_value : of its gap, corrected for what was looked at to find it, but not yet for the other tests
    searched : boxes among which it was picked
    adjusted : p-value over the whole audit
    bound : whether the p-value is the smallest that simulations can give
    along : its sums along the score, as predicted and beyond the score; None where those are not known
    average, shape : whether its average, and its walk along the score, are beyond noise
    start, left : its error in each cell of the score, and what is left of it once others were put right
    deciding : prediction and outcome of the one row without which it is within noise, where there is one
    deviation : the standard deviation of the sum of that;  noise : the variance of what is left, in each cell
    bent : its walk along the score, as standard deviations;  bent_off : events off for certain along it, as predicted
    certain, explains : events off for certain when it was taken for a finding, and the places that it explains
    """

    group: Group | Own
    box: Box
    p_value: float
    family: str
    raw: Sums
    beyond: Sums
    searched: int = 1
    adjusted: float = math.nan
    specific: bool = False
    along: Both | None = None
    average: bool = True
    shape: bool = False
    start: Floats = field(default_factory=lambda: np.zeros(1))
    left: Floats = field(default_factory=lambda: np.zeros(1))
    deviation: float = math.nan
    noise: Floats = field(default_factory=lambda: np.zeros(1))
    bound: bool = False
    bent: float = 0.0
    bent_off: float = math.nan
    deciding: tuple[float, float] | None = None
    certain: float = 0.0
    explains: "list[Place]" = field(default_factory=list)

    @property
    def plain_z(self) -> float:
        """What is left of its average error, in standard deviations."""
        return abs(float(self.left.sum())) / self.deviation

    @property
    def z(self) -> float:
        """What is left of its error, on average or along the score, in standard deviations."""
        return max(self.plain_z, self.bent)

    @property
    def rows(self) -> np.ndarray:
        """Row numbers."""
        return self.group.members(self.box)

    @property
    def size(self) -> float:
        """Weight of its rows."""
        return float(self.raw.weight[0])

    @property
    def conjunction(self) -> Conjunction:
        """Which rows belong to it, as data."""
        return self.group.conjunction(self.box)

    @property
    def off(self) -> float:
        """Σw(p - y)."""
        return float(self.raw.off[0])

    @property
    def key(self) -> tuple[int, Box]:
        return id(self.group), self.box


@dataclass(eq=False)
class Looked:
    """What was seen for one target.

    name : the class, where there are several targets;  columns : each with its result and group
    score, columns : without results where nothing was judged yet
    skipped : families and numbers of tests that a first look left out, which count all the same
    searched : families whose p-values are those of their whole search: how many places, and the worst of them
    whole, bent : all rows, by their walk and by their walk less its drift
    all : sums of the whole table, as predicted and beyond the score, where its rows are not all here
    left : places still off when the list of findings was stopped;  decided : places that one row decides
    scores, extremes : sums in the cells of the fine grid of scores, and what was tested at both ends of it
    column : the column that holds the very score, if one does
    left_out : what was not looked at, by its kind, the reason and how to ask for it
    """

    target: str | int
    name: str
    rows: Rows
    score: Any
    scores: Sums
    column: str | None = None
    whole: Place = field(init=False)
    bent: Place = field(init=False)
    columns: list[tuple[Column, Any, Group]] = field(default_factory=list)
    pairs: list[Group] = field(default_factory=list)
    skipped: list[tuple[str, int]] = field(default_factory=list)
    searched: dict[str, tuple[int, list[Place]]] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)
    further: list[Result] = field(default_factory=list)
    all: tuple[Sums, Sums] | None = None
    left: int = 0
    decided: list[Place] = field(default_factory=list)
    extremes: list[Place] = field(default_factory=list)
    left_out: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)

    def leave_out(self, what: str, where: str, reason: str, ask: str) -> None:
        """Note what is not looked at, why, and how to ask for it."""
        self.left_out.setdefault((what, reason, ask), []).append(where)

    @property
    def groups(self) -> list[Group]:
        return [group for _, _, group in self.columns]

    @property
    def total(self) -> float:
        """Variance of the sum of all residuals."""
        return float(self.rows.variance(self.groups[0].beyond).sum()) if self.columns else math.inf


@dataclass(eq=False)
class Family:
    """Tests that share a part of the level.

    size : how many, also those that were not run;  skipped : those not run, which cost the same
    p_values, places : of those run, and the places of some of them, by their number
    searched : places whose p-values are already those of the whole search
    """

    size: int = 0
    skipped: int = 0
    p_values: list[float] = field(default_factory=list)
    places: dict[int, Place] = field(default_factory=dict)
    searched: list[Place] | None = None

    def add(self, p_values: list[float], places: Mapping[int, Place]) -> None:
        """Add tests, and the places of some of them by their number."""
        self.places.update((len(self.p_values) + i, place) for i, place in places.items())
        self.p_values.extend(p_values)
        self.size += int(np.count_nonzero(~np.isnan(p_values)))

    def skip(self, tests: int) -> None:
        """Count tests that were not run, because a first look left them out."""
        self.size, self.skipped = self.size + tests, self.skipped + tests

    def adjust(self, factor: int) -> None:
        """Adjust the p-values of all places, among so many families."""
        adjusted = np.minimum(1.0, holm(np.array(self.p_values), self.skipped) * factor)
        for i, place in self.places.items():
            place.adjusted = float(adjusted[i])
        for place in self.searched or ():
            place.adjusted = min(1.0, place.p_value * factor)


@dataclass(eq=False)
class Multiplicity:
    """All p-values of an audit, by family."""

    level: float
    families: defaultdict[str, Family] = field(default_factory=lambda: defaultdict(Family))

    @property
    def factor(self) -> int:
        """How many families share the level."""
        return max(len(self.names), 1)

    @property
    def names(self) -> list[str]:
        """The families of which something was tested."""
        return [name for name, held in self.families.items() if held.p_values or held.searched is not None]

    @property
    def total(self) -> int:
        """Number of tests, for intervals that hold all at once."""
        return max(sum(self.families[name].size for name in self.names), 1)

    def adjust(self) -> None:
        """Adjust every p-value over the audit."""
        for name in self.names:
            self.families[name].adjust(self.factor)

    def severity(self, place: Place) -> int:
        """Among how many tests, all families counted, a place was picked."""
        return max(self.families[place.family].size, 1) * self.factor * max(place.searched, 1)

    def severity_beyond(self, place: Place) -> float:
        """As `severity`, of the walk of a place that is known to be beyond noise, once the score was put right.

        Of the stretches searched most are much the same rows, as many as their root are not.
        """
        return max(self.severity(place) / math.sqrt(max(place.searched, 1)), 1.0)

    def bonferroni(self, family: str, p_value: float) -> float:
        """Adjust one more p-value of a family."""
        return min(1.0, p_value * max(self.families[family].size, 1) * self.factor)

    def leave_out(self, groups: Sequence[Group], rows: Rows) -> None:
        """Leave out (as NaN) cells that could never have been significant among all that can (Tarone)."""
        reachable = [rows.reachable_p(group.raw) for group in groups]
        every = np.sort(np.concatenate([*reachable, np.empty(0)]))
        # The largest number of tests k such that k cells can reach self.level / k.
        number = np.arange(1, every.size + 1)
        enough = np.flatnonzero(np.searchsorted(every, self.level / number, side="right") <= number)
        limit = self.level / (int(enough[0]) + 1 if enough.size else max(every.size, 1))
        for group, least in zip(groups, reachable, strict=True):
            group.p_value = np.where(least <= limit, group.p_value, np.nan)


class Reading(NamedTuple):
    """One of the two tests of places, on average or along the score.

    cells : of a group that have no order, with their p-values
    boxes : the best of a group that has one, as predicted or beyond the score, with their p-values
    place : of a box and its p-value, which was picked among so many
    """

    cells: Callable[[Group, Rows], tuple[np.ndarray, Floats]]
    boxes: Callable[[Group, Rows, bool], Boxes]
    place: Callable[[Group, Box, float, int, Rows, str], Place]

    def add_boxes(self, held: Family, group: Group, rows: Rows, family: str) -> list[Place]:
        """Test the best stretches and boxes; those that are best beyond the score are places alone, judged alike."""
        places: list[Place] = []
        for beyond in (False, True) if any(group.runs) else ():
            for item, p in zip(*self.boxes(group, rows, beyond), strict=True):
                found = [self.place(group, item.box, p, item.searched, rows, family)] if p <= SUSPECT_BOX else []
                places += found
                if not beyond:
                    held.add([found[0].p_value if found else min(1.0, p * item.searched)], dict(enumerate(found)))
        return places

    def add_cells(self, held: Family, group: Group, rows: Rows, family: str) -> list[Place]:
        """Test cells that are joined to no others, among them missing values; the suspect ones become places."""
        if len(group.parts) > 1 and any(group.runs):
            return []
        cells, p_values = self.cells(group, rows)
        own = {
            i: self.place(group, group.box(int(cells[i])), float(p_values[i]), 1, rows, family)
            for i in np.flatnonzero(p_values <= SUSPECT).tolist()
        }
        held.add([own[i].p_value if i in own else p for i, p in enumerate(p_values.tolist())], own)
        return list(own.values())


def box_place(group: Group, box: Box, p_value: float | None, searched: int, rows: Rows, family: str) -> Place:
    """The place of a box of cells; its p-value, found from its sums if not given, times the boxes searched."""
    place = Place(group, box, math.nan, family, *group.joined(box), searched)
    place.p_value = min(1.0, plain_chance(place, rows, p_value) * searched)
    return place


def _cells(group: Group, _: Rows) -> tuple[np.ndarray, Floats]:
    cells = group.ordered + np.flatnonzero(~np.isnan(group.p_value[group.ordered :]))
    return cells, group.p_value[cells]


def _boxes(group: Group, rows: Rows, beyond: bool) -> Boxes:
    best = best_boxes(group, rows, beyond=beyond)
    sums = group.as_one([item.box for item in best]) if best else None
    return best, [] if sums is None else np.nan_to_num(rows.p_values(sums), nan=1.0).tolist()


AVERAGE = Reading(_cells, _boxes, box_place)


def add_walk(held: Family, group: Group, _: Rows, family: str) -> list[Place]:
    """Add the walk along a variable: its p-value belongs to the stretch in which it moves most."""
    p, first, last = group.walk or (math.nan, 0, 0)
    if math.isnan(p):
        return []
    box = ((first, last),)
    place = Place(group, box, p, family, *group.joined(box), stretches(group.ordered))
    held.add([p], {0: place})
    return [place]


def plain_chance(place: Place, rows: Rows, p_value: float | None = None) -> float:
    """The p-value of a place's average, over whole clusters where there are any; from its sums if not given."""
    p = float(np.nan_to_num(rows.p_values(place.raw)[0], nan=1.0)) if p_value is None else p_value
    return p if rows.raw.cluster is None else rows.exact_p(rows.raw, place.rows, p)


def effects(chosen: Place, wider: Place, share: float, *, beyond: bool) -> list[tuple[float, float]]:
    """The error of a place and of the rest of a wider one, each with its noise: the gap, or the tilt of a walk.

    share : of the place that lies in the wider one, and so does as much of its error
    """
    sizes = chosen.size, wider.size - share * chosen.size
    offs = float(chosen.left.sum()), float(wider.left.sum() - share * chosen.left.sum())
    noise = chosen.deviation, math.sqrt(max(wider.deviation**2 - share * chosen.deviation**2, 1e-300))
    if chosen.bent <= chosen.plain_z or chosen.along is None or wider.along is None:
        return [(off / size, error / size) for off, error, size in zip(offs, noise, sizes, strict=True)]
    own, every = chosen.along[beyond].variance, wider.along[beyond].variance
    lever = np.cumsum(every) / max(float(every.sum()), 1e-300) - 0.5
    made = []
    rest = wider.left - share * chosen.left, np.maximum(every - share * own, 0.0)
    for off, variance in ((chosen.left, own), rest):
        known = max(float(np.sum(variance * lever * lever)), 1e-300)
        made.append((float(np.sum(off * lever)) / known, 1.0 / math.sqrt(known)))
    return made


class Overlap:
    """Weights that places share with one, in cells of the score: counted on its rows.

    One count of a group serves all its cells; it is kept until another group is asked for, those of places stay: `know`
    asks for many places group by group. Where a file keeps no rows, as far as sums tell: exact in one column, between
    columns as if they were unrelated.
    """

    def __init__(self, rows: Rows, place: Place) -> None:
        self.rows, self.place = rows, place
        self.members = place.rows.astype(np.intp)  # gathering by another type takes twice as long
        self.cells_of_score = 1 if rows.grid is None else rows.grid.cells
        self.own, self.scores = self._weight(self.members), self._scores(self.members)
        self.codes: dict[Part, np.ndarray] = {}
        self.last: tuple[Group, np.ndarray] | None = None
        self.known: dict[Place, np.ndarray] = {}

    def know(self, places: Sequence[Place]) -> None:
        """Count what places share, each group of them once."""
        for place in sorted(places, key=lambda one: id(one.group)):
            self.weight(place)

    def cells(self, group: Group) -> np.ndarray:
        """Shared weight of every cell of a group and of the score."""
        if self.last is None or self.last[0] is not group:
            self.last = group, self._expected(group) if math.isnan(self.rows.scale) else self._counted(group)
        return self.last[1]

    def _counted(self, group: Group) -> np.ndarray:
        for part in group.parts:
            if part not in self.codes:
                self.codes[part] = part.codes[self.members]
        codes = crossed_codes(group.parts, [self.codes[part] for part in group.parts])
        codes *= self.cells_of_score
        codes += self.scores
        counted = np.bincount(codes, self.own, (group.count + 1) * self.cells_of_score)  # the last are in no cell of it
        return counted.reshape(-1, self.cells_of_score)[: group.count]

    def _expected(self, group: Group) -> np.ndarray:
        own, weight = self.place, group.raw.weight
        if own.group is group:
            inside = np.zeros(group.shape)
            inside[tuple(slice(first, last + 1) for first, last in own.box)] = 1.0
            return np.asarray((weight * inside.ravel())[:, None])
        return np.asarray((weight * own.size / max(float(weight.sum()), 1e-300))[:, None])

    def _weight(self, rows: np.ndarray) -> np.ndarray | None:
        return None if self.rows.weight is None else self.rows.weight[rows]

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        return np.zeros(rows.size, np.int64) if self.rows.grid is None else self.rows.grid.codes[rows].astype(np.int64)

    def weight(self, place: Place) -> np.ndarray:
        """Shared weight of a place, in cells of the score."""
        if place not in self.known:
            self.known[place] = self._of_place(place)
        return self.known[place]

    def _of_place(self, place: Place) -> np.ndarray:
        if isinstance(place.group, Group):
            return place.group.summed(self.cells(place.group), place.box)
        if math.isnan(self.rows.scale):
            return np.asarray(self.place.raw.weight)  # all rows
        shared = place.rows[self.inside[place.rows]]
        return np.bincount(self._scores(shared), self._weight(shared), self.cells_of_score)

    @cached_property
    def inside(self) -> np.ndarray:
        """Whether each row belongs to the place."""
        made = np.zeros(self.rows.raw.rows, bool)
        made[self.members] = True
        return made

    def certain(self, place: Place) -> np.ndarray:
        """As `weight`, as much of it as is certain: all, unless few rows of a sample show it.

        The lower end of Agresti and Coull's interval (two standard errors), relative to the share itself.
        """
        shared, rows = self.weight(place), self.rows
        if not rows.sample or math.isnan(rows.scale) or float(shared.sum()) <= 0.0:
            return shared
        share, seen = min(float(shared.sum()) / place.size, 1.0), float(place.raw.rows[0]) / rows.scale
        middle = (share * seen + 2.0) / (seen + 4.0)
        low = middle - 2.0 * math.sqrt(middle * (1.0 - middle) / (seen + 4.0))
        return shared * min(max(low / share, 0.0), 1.0)

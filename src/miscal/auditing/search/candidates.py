"""What was looked at, the places in it that were tested, and which of them are beyond noise.

Tests fall into families (columns, pairs, subpopulations, neighbourhoods) that share the level equally, so that a wide
search does not blunt the narrow one; within a family Holm's rule. A stretch of a variable counts as one test: its
p-value is already multiplied by the number of stretches looked at.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from miscal.auditing.search.cell_grids import (
    Box,
    Boxes,
    CellGrid,
    RawAndRecalibrated,
    SearchContext,
    best_boxes,
    crossed_codes,
)
from miscal.cells.condition import Conjunction
from miscal.data.arrays import Array
from miscal.results import Result
from miscal.stats.cell_sums import CellSums, Floats
from miscal.stats.multiplicity import holm

SUSPECT, SUSPECT_BOX = 0.05, 0.001  # only cells and boxes at most so likely become places


@dataclass(frozen=True, eq=False)
class RowMaskSegment:
    """Rows that are no box of cells: it answers what a group answers of a box.

    inside : whether each row belongs
    condition : which rows belong; None for all of them
    code : of its findings, where it is not that of its kind
    """

    kind: str
    inside: Array
    label: str
    names: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    condition: Conjunction | None = None
    code: str | None = None

    def members(self, _: Box) -> Array:
        return np.flatnonzero(self.inside)

    def words(self, _: Box) -> str:
        return self.label

    def levels(self, _: Box) -> tuple[str, ...]:
        return self.named

    def conjunction(self, _: Box) -> Conjunction:
        return self.condition or Conjunction()


@dataclass(eq=False)
class Candidate:
    """A set of rows that was tested: a box of cells of a group, or rows of its own.

    p_value : of its gap, corrected for what was looked at to find it, but not yet for the other tests
    searched : boxes among which it was picked
    adjusted : p-value over the whole audit
    bound : whether the p-value is the smallest that simulations can give
    along : its sums along the score, as predicted and beyond the score; None where those are not known
    average, shape : whether its average, and its walk along the score, are beyond noise
    start, left : its error in each cell of the score, and what is left of it once others were put right
    deciding : prediction and outcome of the one row without which it is within noise, where there is one
    needed : standard deviations from which it is off, and from which its walk is, once the score was put right
    deviation : the standard deviation of the sum of that;  noise : the variance of what is left, in each cell
    bent : its walk along the score, as standard deviations;  bent_off : events off for certain along it, as predicted
    certain, explains : events off for certain when it was taken for a finding, and the places that it explains
    """

    group: CellGrid | RowMaskSegment
    box: Box
    p_value: float
    family: str
    raw: CellSums
    beyond: CellSums
    searched: int = 1
    adjusted: float = math.nan
    specific: bool = False
    along: RawAndRecalibrated | None = None
    average: bool = True
    shape: bool = False
    start: Floats = field(init=False)
    left: Floats = field(init=False)
    needed: tuple[float, float] = field(init=False)
    deviation: float = math.nan
    noise: Floats = field(init=False)
    bound: bool = False
    bent: float = 0.0
    bent_off: float = math.nan
    deciding: tuple[float, ...] = ()
    certain: float = 0.0
    explains: "list[Candidate]" = field(default_factory=list)

    @property
    def plain_z(self) -> float:
        """What is left of its average error, in standard deviations."""
        return abs(float(self.left.sum())) / self.deviation

    @property
    def z(self) -> float:
        """What is left of its error, on average or along the score, in standard deviations."""
        return max(self.plain_z, self.bent)

    @property
    def rows(self) -> Array:
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


def box_place(group: CellGrid, box: Box, searched: int) -> Candidate:
    """The place of a box of cells, which is yet to be judged."""
    return Candidate(group, box, math.nan, group.family, *group.as_one([box]), searched)


@dataclass(eq=False)
class TargetSearch:
    """What was seen for one target.

    scope : the class in words, where there are several targets
    score, columns : without results where nothing was judged yet
    skipped : families and numbers of tests that a first look left out, which count all the same
    searched : families whose p-values are those of their whole search: how many places, and the worst of them
    tests : all p-values of the audit, once they are known
    whole, bent : all rows, by their walk and by their walk less its drift
    all : sums of the whole table, as predicted and beyond the score, where its rows are not all here
    left : places still off when the list of findings was stopped;  decided : places that one row decides
    scores, extremes : sums in the cells of the fine grid of scores, and what was tested at both ends of it
    column : the column that holds the very score, if one does
    left_out : what was not looked at, by its kind, the reason and how to ask for it
    """

    target: str | int
    scope: str
    rows: SearchContext
    score: Any
    scores: CellSums
    column: str | None = None
    tests: "Multiplicity" = field(init=False)
    whole: Candidate = field(init=False)
    bent: Candidate = field(init=False)
    columns: list[CellGrid] = field(default_factory=list)
    pairs: list[CellGrid] = field(default_factory=list)
    skipped: list[tuple[str, int]] = field(default_factory=list)
    searched: dict[str, tuple[int, list[Candidate]]] = field(default_factory=dict)
    places: list[Candidate] = field(default_factory=list)
    further: list[Result] = field(default_factory=list)
    all: tuple[CellSums, CellSums] | None = None
    left: int = 0
    decided: list[Candidate] = field(default_factory=list)
    extremes: list[Candidate] = field(default_factory=list)
    left_out: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)

    def leave_out(self, what: str, where: str, reason: str, ask: str) -> None:
        """Note what is not looked at, why, and how to ask for it."""
        self.left_out.setdefault((what, reason, ask), []).append(where)

    @property
    def total(self) -> float:
        """Variance of the sum of all residuals."""
        return float(self.rows.variance(self.columns[0].beyond).sum()) if self.columns else math.inf


@dataclass(eq=False)
class FamilyOfTests:
    """Tests that share a part of the level.

    size : how many, also those that were not run;  skipped : those not run, which cost the same
    places, others : the tests that became places, and the p-values of those that did not
    searched : whether the p-values of its places are already those of a whole search
    """

    size: int = 0
    skipped: int = 0
    places: list[Candidate] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    searched: bool = False

    def add(self, places: Sequence[Candidate], others: Sequence[float] = ()) -> None:
        """Add tests."""
        self.places += places
        self.others += others
        self.size += len(others) + sum(not math.isnan(place.p_value) for place in places)


@dataclass(eq=False)
class Multiplicity:
    """All p-values of an audit, by family."""

    level: float
    families: defaultdict[str, FamilyOfTests] = field(default_factory=lambda: defaultdict(FamilyOfTests))

    @property
    def factor(self) -> int:
        """How many families share the level."""
        return len(self.names)

    @property
    def names(self) -> list[str]:
        """The families of which something was tested."""
        return [name for name, held in self.families.items() if held.places or held.others or held.searched]

    @property
    def total(self) -> int:
        """Number of tests, for intervals that hold all at once."""
        return sum(self.families[name].size for name in self.names)

    def adjust(self) -> None:
        """Adjust every p-value over the audit."""
        for held in map(self.families.__getitem__, self.names):
            adjusted = np.array([place.p_value for place in held.places] + held.others)
            if not held.searched:
                adjusted = holm(adjusted, held.skipped)
            for place, p_value in zip(
                held.places, np.minimum(1.0, adjusted * self.factor).tolist(), strict=False
            ):
                place.adjusted = p_value

    def tried(self, place: Candidate) -> int:
        """How many tests, all families counted, a place is one of, however many boxes each chose from."""
        return max(self.families[place.family].size, 1) * self.factor

    def severity(self, place: Candidate) -> int:
        """Among how many tests, all families counted, a place was picked."""
        return self.tried(place) * place.searched

    def severity_beyond(self, place: Candidate) -> float:
        """As `severity`, of the walk of a place that is known to be beyond noise, once the score was put right.

        Of the stretches searched most are much the same rows, as many as their root are not.
        """
        return self.tried(place) * math.sqrt(place.searched)

    def bonferroni(self, place: Candidate) -> float:
        """Adjust the p-value of one more place of its family."""
        return min(1.0, place.p_value * self.tried(place))

    def leave_out(self, groups: Sequence[CellGrid]) -> None:
        """Leave out (as NaN) cells that could never have been significant among all that can (Tarone)."""
        reachable = [group.rows.reachable_p(group.raw) for group in groups]
        every = np.sort(np.concatenate([*reachable, np.empty(0)]))
        # The largest number of tests k such that k cells can reach self.level / k.
        number = np.arange(1, every.size + 1)
        enough = number[np.searchsorted(every, self.level / number, side="right") <= number]
        limit = self.level / (enough[0] if enough.size else 1)
        for group, least in zip(groups, reachable, strict=True):
            group.p_value = np.where(least <= limit, group.p_value, np.nan)


class SegmentTest(NamedTuple):
    """One of the two tests of places, on average or along the score.

    cells : of a group that have no order, with their p-values
    boxes : the best of a group that has one, as predicted or beyond the score, with their p-values
    chance : the p-value of a place, over whole clusters where there are any, from that over rows
    """

    cells: Callable[[CellGrid], tuple[Array, Floats]]
    boxes: Callable[[CellGrid, bool], Boxes]
    chance: Callable[[Candidate, SearchContext, float], float]

    def add_boxes(self, held: FamilyOfTests, group: CellGrid) -> list[Candidate]:
        """Test the best stretches and boxes; those that are best beyond the score are places alone, judged alike."""
        every: list[Candidate] = []
        for beyond in (False, True) if any(group.runs) else ():
            found = self.boxes(group, beyond)
            suspect = [(box, p) for box, p in found if p <= SUSPECT_BOX]
            places = self._places(suspect, group, group.searched)
            if not beyond:
                held.add(places, [p * group.searched for _, p in found if p > SUSPECT_BOX])
            every += places
        return every

    def add_cells(self, held: FamilyOfTests, group: CellGrid) -> list[Candidate]:
        """Test cells that are joined to no others, among them missing values; the suspect ones become places."""
        if len(group.parts) > 1 and any(group.runs):
            return []
        cells, p_values = self.cells(group)
        suspect = p_values <= SUSPECT
        boxes = map(group.box, cells[suspect].tolist())
        places = self._places(zip(boxes, p_values[suspect].tolist(), strict=True), group)
        held.add(places, p_values[~suspect].tolist())
        return places

    def _places(
        self, found: Iterable[tuple[Box, float]], group: CellGrid, searched: int = 1
    ) -> list[Candidate]:
        places = []
        for box, p_value in found:
            place = box_place(group, box, searched)
            place.p_value = self.chance(place, group.rows, p_value) * searched
            places.append(place)
        return places


def _cells(group: CellGrid) -> tuple[Array, Floats]:
    cells = group.ordered + np.flatnonzero(~np.isnan(group.p_value[group.ordered :]))
    return cells, group.p_value[cells]


def _boxes(group: CellGrid, beyond: bool) -> Boxes:
    boxes = [box for box, _ in best_boxes(group, beyond=beyond)]
    if not boxes:
        return []
    raw, _ = group.as_one(boxes)
    p_values = group.rows.p_values(raw)
    return list(zip(boxes, np.fmin(p_values, 1.0).tolist(), strict=True))


def _chance(place: Candidate, rows: SearchContext, p_value: float) -> float:
    return p_value if rows.raw.cluster is None else rows.exact_p(place.rows, p_value)


AVERAGE = SegmentTest(_cells, _boxes, _chance)


def mean_chance(sums: CellSums, rows: SearchContext) -> float:
    """The p-value of the average of one cell."""
    return float(np.fmin(rows.p_values(sums)[0], 1.0))


def plain_chance(place: Candidate, rows: SearchContext) -> float:
    """The p-value of a place's average, over whole clusters where there are any."""
    return _chance(place, rows, mean_chance(place.raw, rows))


def add_walk(held: FamilyOfTests, group: CellGrid) -> list[Candidate]:
    """Add the walk along a variable: its p-value belongs to the stretch in which it moves most."""
    if group.walk is None:
        return []
    p_value, first, last = group.walk
    place = box_place(group, ((first, last),), group.searched)
    place.p_value = p_value
    held.add([place])
    return [place]


def effects(chosen: Candidate, wider: Candidate, share: float, *, beyond: bool) -> tuple[Floats, Floats]:
    """The error of a place and of the rest of a wider one, and the noise of both: of the gap, or the tilt of a walk.

    share : of the place that lies in the wider one, and so does as much of its error
    """

    def split(own: Any, every: Any) -> Floats:
        return np.array([own, every - share * own])

    if chosen.bent <= chosen.plain_z or chosen.along is None or wider.along is None:
        sizes = split(chosen.size, wider.size)
        offs = split(chosen.left.sum(), wider.left.sum())
        noises = np.maximum(split(chosen.deviation**2, wider.deviation**2), 1e-300)
        return offs / sizes, np.sqrt(noises) / sizes
    own, every = chosen.along[beyond].variance, wider.along[beyond].variance
    lever = np.cumsum(every) / max(every.sum(), 1e-300) - 0.5
    offs = split(chosen.left, wider.left)
    noises = np.maximum(split(own, every), 0.0)
    known = np.maximum(np.sum(noises * lever * lever, axis=1), 1e-300)
    return np.sum(offs * lever, axis=1) / known, 1.0 / np.sqrt(known)


class Overlap:
    """Weights that places share with one, in cells of the score: counted on its rows.

    One count of a group serves all its cells; it is kept until another group is asked for, those of places stay: `know`
    asks for many places group by group. Where a file keeps no rows, as far as sums tell: exact in one column, between
    columns as if they were unrelated.
    """

    def __init__(self, rows: SearchContext, place: Candidate) -> None:
        self.rows, self.place = rows, place
        self.members = place.rows
        self.own, self.scores = rows.weight[self.members], rows.grid.codes[self.members].astype(np.int64)
        self.last: dict[CellGrid, Array] = {}
        self.known: dict[Candidate, Array] = {}

    def know(self, places: Sequence[Candidate]) -> None:
        """Count what places share, each group of them once."""
        for place in sorted(places, key=lambda one: id(one.group)):
            self.weight(place)

    def cells(self, group: CellGrid) -> Array:
        """Shared weight of every cell of a group and of the score."""
        if group in self.last:
            return self.last[group]
        own, weight = self.place, group.raw.weight
        if self.rows.here:
            codes = crossed_codes(group.parts, self.members)
            codes *= self.rows.grid.cells
            codes += self.scores
            cells = group.count + 1  # the last is of rows that are in no cell of it
            counted = np.bincount(codes, self.own, cells * self.rows.grid.cells)
            shared: Array = counted.reshape(cells, -1)[:-1]
        elif own.group is group:
            inside = np.zeros(group.shape)
            inside[group.cut(own.box)] = 1.0
            shared = (weight * inside.ravel())[:, None]
        else:
            shared = (weight * own.size / max(weight.sum(), 1e-300))[:, None]
        self.last = {group: shared}
        return shared

    def weight(self, place: Candidate) -> Array:
        """Shared weight of a place, in cells of the score."""
        if place in self.known:
            return self.known[place]
        shared: Array = self.place.raw.weight  # of all rows
        if isinstance(place.group, CellGrid):
            shared = place.group.summed(self.cells(place.group), place.box)
        elif self.rows.here:
            inside = place.group.inside[self.members]
            shared = np.bincount(self.scores[inside], self.own[inside], self.rows.grid.cells)
        self.known[place] = shared
        return shared

    def certain(self, place: Candidate) -> Array:
        """As `weight`, as much of it as is certain: all, unless few rows of a sample show it.

        The lower end of Agresti and Coull's interval (two standard errors), relative to the share itself.
        """
        shared, rows = self.weight(place), self.rows
        if not (rows.sample and rows.here) or shared.sum() <= 0.0:
            return shared
        share, seen = min(shared.sum() / place.size, 1.0), place.raw.rows[0] / rows.scale
        middle = (share * seen + 2.0) / (seen + 4.0)
        low = middle - 2.0 * math.sqrt(middle * (1.0 - middle) / (seen + 4.0))
        return np.asarray(shared * np.clip(low / share, 0.0, 1.0))

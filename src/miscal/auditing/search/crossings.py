"""Searches beyond single columns: pairs of them, conjunctions of up to three, and planes of two numbers.

Of pairs it says which are crossed, by which levels, and what is left out; the others have noise of their own.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice
from operator import attrgetter

import numpy as np

from miscal.aggregate.source import release_memory
from miscal.aggregate.subpopulations import ordered
from miscal.auditing.search.candidates import Candidate, RowMaskSegment, TargetSearch, box_place
from miscal.auditing.search.cell_grids import LARGE, CellGrid, best_boxes, family_of, group_of, sums_of
from miscal.auditing.search.coded_columns import CodedColumn, coarse_part, small
from miscal.auditing.search.collect import AuditOptions, suspicion
from miscal.cells.condition import FULL
from miscal.cells.subpopulations import Conjunctions
from miscal.codes.inference import Null
from miscal.data.columns import Column
from miscal.data.libraries import special
from miscal.data.predictions import Predictions
from miscal.metrics.neighbourhood import MapGrid, NeighbourhoodResult, by_neighbourhood
from miscal.metrics.subpopulation import SubpopulationResult, by_subpopulation, subpopulation_curve
from miscal.results import CumulativeCurve, Result
from miscal.stats.metric_null import at_resolution

SUSPECT = 0.25  # a column less surprising than this is not crossed with another that is not either
SAME = 0.6  # share of its information that a column may have in common with another
MOST_CELLS = 1 << 12  # combinations of one pair: as many as a pass over all rows keeps along the score too
CROSSED_LEVELS, FEWEST = 150, 64  # of a field that are crossed, and of one of two large ones
SUSPECT_LEVELS, SUSPECT_LEVEL = 1 / 3, 0.05  # share of them that goes to levels as suspect alone as this
PAIRS = {"quick": 0, "normal": 200, "deep": 2000}
NOT_ALONE = "neither column is suspect alone (p above 0.25)"
TOO_MANY = "an audit of this effort crosses no more, and the other pairs are more suspect"
MUCH_THE_SAME = "one column nearly tells the other, so that they make no places of their own"
NAME_THEM = "--by with both names: columns that are named are crossed"
JOIN_THEM = "audit a column that joins both: every level of a field is tested"
SMALL_LEVELS = "pairs take of a large field the levels that are suspect alone, and the largest"


@dataclass(frozen=True, eq=False)
class _Side:
    """A column that may be crossed: how it is cut, how suspect it is alone, and its levels, the ones to keep first."""

    part: CodedColumn
    suspicion: float
    group: CellGrid
    cut: dict[int, CodedColumn] = field(default_factory=dict)

    @cached_property
    def levels(self) -> np.ndarray:
        """Levels that are suspect alone, at most a third of those that are kept, and the others, largest first."""
        group, known = self.group, self.part.known
        chance = np.nan_to_num(group.p_value[:known], nan=1.0)
        most = int(SUSPECT_LEVELS * min(known, CROSSED_LEVELS))
        suspect = np.argsort(chance, kind="stable")[:most]
        suspect = suspect[chance[suspect] <= SUSPECT_LEVEL]
        largest = np.argsort(-group.raw.weight[:known], kind="stable")
        return np.concatenate([suspect, largest[~np.isin(largest, suspect)]])

    def kept(self, most: int) -> CodedColumn:
        """The column with at most so many cells."""
        part = self.part
        if part.count <= most:
            return part
        if most not in self.cut:
            chosen = np.sort(self.levels[: most - part.cells.missing])
            table = np.full(part.count, chosen.size + part.cells.missing)
            table[chosen] = np.arange(chosen.size)
            table[part.known :] = chosen.size  # missing values
            labels = tuple(part.cells.names[cell] for cell in chosen.tolist())
            codes = small(table[part.codes], chosen.size + 2)
            self.cut[most] = CodedColumn(part.column, codes, replace(part.cells, names=labels), some=True)
        return self.cut[most]


def look_at_pairs(looked: TargetSearch, wanted: AuditOptions) -> None:
    """Cross the columns of which one is suspect by itself; pairs left out are counted as if they were tested.

    Of a large field the levels that are suspect alone are crossed, and the largest; the others count as tested too.
    """
    sides = [
        _Side(coarse_part(group.parts[0], looked.rows.weight), suspicion(group), group)
        for group in looked.columns
    ]
    pairs = sorted(combinations(sides, 2), key=lambda two: sorted(side.suspicion for side in two))
    suspect = sum(min(one.suspicion, two.suspicion) <= SUSPECT for one, two in pairs)
    may = len(pairs) if wanted.by else suspect
    most = min(PAIRS[wanted.effort], may)
    for done, (one, two) in enumerate(pairs[:most]):
        if done % 10 == 0:
            wanted.say(f"pairs of columns, {done + 1} of {most}")
        _cross(looked, one, two)
    for place, (one, two) in enumerate(pairs[most:], most):
        looked.leave_out("pairs", _names(one, two), TOO_MANY if place < may else NOT_ALONE, NAME_THEM)
        large = any(side.part.count > room for side, room in _room(one, two))
        family = LARGE if large else family_of((one.part, two.part))
        looked.skipped.append((family, _tests(one.part, two.part)))
    for side in sides:
        if side.cut:
            every = side.part.known
            kept = [part.known for part in side.cut.values()]
            left = " to ".join(f"{many:,}" for many in sorted({every - max(kept), every - min(kept)}))
            looked.leave_out(
                "levels", f"{side.part.name} ({left} of {every:,} levels)", SMALL_LEVELS, JOIN_THEM
            )


def _cross(looked: TargetSearch, one: _Side, two: _Side) -> None:
    parts = [side.kept(most) for side, most in _room(one, two)]
    group = group_of(parts, "subpopulation", looked.rows)
    joint = group.raw.weight.reshape(group.shape) / max(group.raw.weight.sum(), 1e-300)
    first, second, both = (special.entr(shares).sum() for shares in (joint.sum(0), joint.sum(1), joint))
    # Much the same (a date and its month): no new places.
    if first + second - both > SAME * min(first, second):
        looked.leave_out("pairs", _names(one, two), MUCH_THE_SAME, JOIN_THEM)
        return
    looked.pairs.append(group)
    if any(part.some for part in parts):
        looked.skipped.append((family_of(parts), _tests(one.part, two.part) - _tests(*parts)))


def _names(one: _Side, two: _Side) -> str:
    return f"{one.part.name} and {two.part.name}"


def _room(one: _Side, two: _Side) -> list[tuple[_Side, int]]:
    """Two columns, each with how many cells it may have."""
    sizes = [min(side.part.count, CROSSED_LEVELS) for side in (one, two)]
    larger = sizes[1] > sizes[0]
    sizes[larger] = min(sizes[larger], max(MOST_CELLS // max(sizes[1 - larger], 1), FEWEST))
    sizes[1 - larger] = min(sizes[1 - larger], MOST_CELLS // max(sizes[larger], 1))
    return [(one, sizes[0]), (two, sizes[1])]


def _tests(one: CodedColumn, two: CodedColumn) -> int:
    """How many tests a pair makes: one for every combination of levels, a box in the plane of two variables is one."""
    return math.prod(part.count for part in (one, two) if part.edges is None)


DEPTH, HALVES = 3, 2
WIDEST = {"normal": 8, "deep": 12}  # columns that are combined, the most suspect ones
MANY_ROWS, NARROW = 300_000, 4  # beyond so many rows fewer columns: each partition holds a number a row
MOST_LEVELS = 20
DRAWS = {"normal": 999, "deep": 1999}
WORK = 3e9  # rows times draws times partitions; beyond it Bonferroni's inequality
LEAST_DRAWS = 199
PLACES = 60  # worst subpopulations that become places
DRAWN, LOOKED_AT = 3, 40  # worst subpopulations drawn, among so many
ALIKE = 0.5  # of the rows in either that are in both, from which two are drawn once
POINTS = 200
BANDWIDTH = 0.3  # in standard deviations, times the two dimensions
MOST_PAIRS = 15
GRID = 24
BOXES = 1000  # boxes in a plane that do not share most of their rows, roughly: what having searched it costs
MOST_MAPPED = 200_000
MANY_LEVELS = f"fields of more than {MOST_LEVELS} levels are combined in pairs alone"
GROUP_LEVELS = f"audit a column that joins its levels into at most {MOST_LEVELS}"
MORE_SUSPECT = "as many columns are combined as effort and rows allow, and others are more suspect alone"
FEWER = "--by with fewer columns"
MANY_PAIRS = f"{MOST_PAIRS} pairs of numbers are mapped, and the others are more suspect alone"
SAMPLE_ROWS = "audit a sample of the rows"
MANY_MAPPED = f"there are more than {MOST_MAPPED:,} rows"
SEVERAL = 3  # pairs for which 999 simulations can be significant; more pairs get more


def look_at_subpopulations(predictions: Predictions, looked: TargetSearch, wanted: AuditOptions) -> None:
    """Search conjunctions; where some columns had to be left out, those are counted as if they had been tested."""
    alone: dict[Column, float] = {}
    for group in looked.columns:
        if group.ordered or len(group.column.levels) <= MOST_LEVELS:
            alone[group.column] = suspicion(group)
        else:
            looked.leave_out("subpopulations", group.column.name, MANY_LEVELS, GROUP_LEVELS)
    if len(alone) < 2:
        return
    wanted.say("subpopulations")
    rows = predictions.rows
    widest = WIDEST[wanted.effort] if rows <= MANY_ROWS else NARROW
    ranked = sorted(alone, key=alone.__getitem__)
    chosen = ranked[:widest]
    for column in ranked[widest:]:
        looked.leave_out("subpopulations", column.name, MORE_SUSPECT, FEWER)
    names = [column.name for column in alone if column in chosen]
    partitions = sum(math.comb(len(names), depth) for depth in range(1, DEPTH + 1))
    draws = DRAWS[wanted.effort]
    if rows * draws * partitions > WORK:
        # More draws than are ever made, so that the inequality takes over; signs cannot be flipped but by simulation.
        flips = looked.rows.noise.null == Null.RESIDUAL
        draws = max(LEAST_DRAWS, int(WORK / (rows * partitions))) if flips else int(2e8 / rows) + 2
    release_memory(rows)
    result = by_subpopulation(
        predictions,
        names,
        subpopulations=Conjunctions(DEPTH, HALVES),
        simulations=draws,
        target=looked.target,
        random_state=wanted.random_state,
    )
    factor = _times_more(alone, chosen)
    release_memory(rows)
    looked.searched["subpopulations"] = (
        int(result.table.rows * factor),
        _places(predictions, looked, result, factor),
    )
    looked.further.append(replace(result, cumulative=_curves(predictions, looked, result)))


def _curves(
    predictions: Predictions, looked: TargetSearch, result: SubpopulationResult
) -> list[CumulativeCurve]:
    """Running totals of the whole table and of the worst subpopulations that are not much the same rows."""
    rows, units = ordered(looked.rows.raw), looked.rows.noise.units
    kept = [(FULL, np.ones(predictions.rows, bool))]
    named = zip(result.table["label"], result.definitions.every, strict=True)
    for name, one in islice(named, LOOKED_AT):
        if not one.conditions or len(kept) > DRAWN:
            continue
        own = one.rows(predictions.columns)
        if all(np.sum(own & other) < ALIKE * np.sum(own | other) for _, other in kept[1:]):
            kept.append((name, own))
    made = []
    for name, own in kept:
        curve = subpopulation_curve(rows, np.flatnonzero(own[rows.order]), units, POINTS)
        made.append(replace(curve, label=name))
    return made


def _times_more(fit: Iterable[Column], chosen: Iterable[Column]) -> float:
    """How many times more conjunctions there are over all columns than over those chosen."""
    every, some = (
        np.poly([-len(column.levels) if column.nominal else -HALVES for column in columns])
        for columns in (fit, chosen)
    )  # of up to three of the columns: elementary symmetric polynomials
    return max(1.0, float(every[1 : DEPTH + 1].sum() / max(some[1 : DEPTH + 1].sum(), 1.0)))


def _places(
    predictions: Predictions, looked: TargetSearch, result: SubpopulationResult, factor: float
) -> list[Candidate]:
    """The worst subpopulations of two columns or more, with their rows."""
    places: list[Candidate] = []
    table, definitions = result.table, result.definitions.every
    for definition, name, p in zip(definitions, table["label"], table["p_adjusted"], strict=True):
        if not p * factor <= 0.2 or len(places) >= PLACES:
            break
        if len(definition.columns) < 2:  # the whole table and single columns are tested elsewhere
            continue
        inside = definition.rows(predictions.columns)
        members = np.flatnonzero(inside)
        words = tuple(condition.words() for condition in definition.conditions)
        own = RowMaskSegment("subpopulation", inside, name, definition.columns, words, definition)
        raw, beyond = sums_of(looked.rows.raw, members), sums_of(looked.rows.beyond, members)
        places.append(Candidate(own, (), p * factor, "subpopulations", raw, beyond, bound=_end(result, p)))
    return places


def _end(result: Result, p_value: float) -> bool:
    """Whether a p-value is the smallest that the simulations of a result can give."""
    draws = result.settings.get("draws")
    return bool(draws and at_resolution(p_value, draws))


def look_at_neighbourhoods(predictions: Predictions, looked: TargetSearch, wanted: AuditOptions) -> None:
    """Test the plane of every pair of numbers, the most suspect ones first; pairs left out are counted."""
    alone = {group: suspicion(group) for group in looked.columns if group.numeric}
    pairs = sorted(combinations(alone, 2), key=lambda two: sorted(alone[one] for one in two))
    many = predictions.rows > MOST_MAPPED
    why = (MANY_MAPPED, SAMPLE_ROWS) if many else (MANY_PAIRS, FEWER)
    for one, two in pairs if many else pairs[MOST_PAIRS:]:
        looked.leave_out("neighbourhoods", " and ".join(one.names + two.names), *why)
    if not pairs or many:
        return
    draws = 999 * max(1, math.ceil(len(pairs) / SEVERAL))
    maps: list[Result] = []
    places: list[Candidate] = []
    for one, two in pairs[:MOST_PAIRS]:
        names = [*one.names, *two.names]
        wanted.say(f"neighbourhoods of {' and '.join(names)}")
        result = by_neighbourhood(
            predictions,
            names,
            bins=looked.rows.noise.units.back(np.array([0.0, 1.0])),
            bandwidth=BANDWIDTH,
            simulations=draws,
            target=looked.target,
            random_state=wanted.random_state,
        )
        if result.table.rows and not math.isnan(result.p_value):
            group = group_of(one.parts + two.parts, "neighbourhood", looked.rows)
            best = best_boxes(group, beyond=True)
            box = best[0][0] if best else tuple((0, known - 1) for known in group.runs)
            place = box_place(group, box, BOXES)
            place.p_value, place.bound = result.p_value * len(pairs), _end(result, result.p_value)
            maps.append(_mapped(predictions, result))
            places.append(place)
    looked.searched["neighbourhoods"] = len(pairs), places
    maps.sort(key=attrgetter("p_value"))
    looked.further += [result for result in maps[:3] if result.p_value <= wanted.level]


def _mapped(predictions: Predictions, result: NeighbourhoodResult) -> NeighbourhoodResult:
    """The result with its map as a grid: mean gap and standard errors of the rows in each cell of the plane."""
    values = np.stack([predictions.columns[name].values for name in result.settings["columns"]])
    local, known = result.local_map, ~np.isnan(values).any(axis=0)
    low, high = np.nanquantile(values, [0.01, 0.99], axis=1)
    if (low >= high).any():
        return result
    x, y = np.linspace(low, high, GRID + 1, axis=1)
    across, up = np.clip(values[:, known], low[:, None], high[:, None])
    gap, error = np.nan_to_num(local.gap[known]), local.error[known]

    with np.errstate(divide="ignore", invalid="ignore"):
        weights = None, gap, np.nan_to_num(gap / error)
        rows, *sums = (np.histogram2d(up, across, bins=[y, x], weights=each)[0] for each in weights)
        mean, size = sums / rows
    return replace(result, grid=MapGrid(*(values.tolist() for values in (x, y, mean, size, rows))))

"""Groups of cells with their sums, as predicted and beyond the score, and the boxes of cells that are furthest off."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from miscal.aggregate.in_memory import tally
from miscal.auditing.search.coded_columns import CodedColumn
from miscal.cells.condition import Conjunction
from miscal.cells.partitions import LevelPooling, Numbered
from miscal.cells.ranges import bin_index
from miscal.codes.inference import Null
from miscal.data.arrays import Array, Plain
from miscal.data.columns import Column
from miscal.data.target import TargetData
from miscal.kernels.order import add_stretches
from miscal.stats.binomial import cell_p_values
from miscal.stats.cell_sums import EFFECTIVE_EVENTS, CellSums, CellTestSettings, Floats
from miscal.stats.intervals import cell_gap_intervals
from miscal.stats.null_model import NullModel
from miscal.stats.sign_flip import ALL_ROWS, clustered_sum, clustered_sum_p, weighted_residuals

Box = tuple[tuple[int, int], ...]
Boxes = list[tuple[Box, float]]  # each with how far off it is, or with its p-value
CLUSTER_SCREEN = 0.2  # cells less suspect than this by rows need no exact sum over clusters
WHOLE = 0.6  # a place with more of the noise than this is the whole table, or its complement says it better
LARGE = "large fields"  # the family of pairs of which not all levels are crossed
CELLS = 32  # of the score, of about equal weight
MOST_ALONG = 1 << 15  # cells tested along the score; beyond, only those that have enough rows for it


class ScoreGrid(NamedTuple):
    """Cells of the score: their edges, and the cell of each row."""

    edges: Array
    codes: Array

    @property
    def cells(self) -> int:
        return self.edges.size - 1


def score_grid(compared: TargetData) -> ScoreGrid:
    """Cells of about equal weight; tied scores are never split."""
    share = np.linspace(0.0, 1.0, CELLS + 1)[1:-1]
    inner = np.quantile(compared.predicted, share)
    edges = np.union1d([0.0, 1.0], inner)
    return ScoreGrid(edges, bin_index(compared.predicted, edges).astype(np.int16))


NO_GRID = ScoreGrid(np.array([0.0, 1.0]), np.zeros(1, np.int16))  # where sums do not tell the score


@dataclass(frozen=True, eq=False)
class ScoreProfile:
    """Sums of places in cells of the score, arrays (..., cells of the score).

    noise : variance of Σw(y - p);  usual : its least, where outcomes are no events, else 0
    """

    rows: Floats
    weight: Floats
    predicted: Floats
    observed: Floats
    noise: Floats
    usual: Floats

    @property
    def variance(self) -> Floats:
        """Variance of Σw(y - p)."""
        return np.maximum(self.noise, self.usual)

    @property
    def off(self) -> Floats:
        """Σw(p - y)."""
        return self.predicted - self.observed

    def map(self, change: Any) -> "ScoreProfile":
        """The same change made to each of the sums."""
        return ScoreProfile(*map(change, vars(self).values()))


class RawAndRecalibrated(NamedTuple):
    """Sums along the score, as predicted and beyond the score."""

    raw: ScoreProfile
    beyond: ScoreProfile

    def map(self, change: Any) -> "RawAndRecalibrated":
        """The same change made to both."""
        return RawAndRecalibrated(self.raw.map(change), self.beyond.map(change))


@dataclass(frozen=True, eq=False)
class SearchContext:
    """What is compared, as predicted and beyond the score, and how its noise is judged.

    raw : the pair;  beyond : the same with the recalibrated score;  noise : which null
    spread : variance of sums over clusters relative to that over rows, at least 1
    scale : how many rows of the table each row stands for; 1 unless they are a sample, NaN where they are not here
    grid : cells of the score, along which every place is tested too
    lookup : finds the largest residuals of conjunctions among rows that are not all here
    """

    raw: TargetData
    beyond: TargetData
    noise: NullModel
    spread: float = 1.0
    scale: float = 1.0
    grid: ScoreGrid = NO_GRID
    lookup: Callable[[Sequence[Conjunction]], Array] | None = None

    def largest(self, places: Sequence[Any]) -> Array:
        """Weight, prediction and outcome of the row with the largest residual of each place, (places, 3)."""
        if self.lookup is not None:
            return self.lookup([place.conjunction for place in places])
        every, raw = (place.rows for place in places), self.raw
        at = [members[np.argmax(np.abs(weighted_residuals(raw, members)))] for members in every]
        return np.stack([raw.weights[0][at], raw.predicted[at], raw.observed[at]], axis=1)

    @property
    def sample(self) -> bool:
        """Whether these are not all rows of the table."""
        return self.scale != 1.0

    @property
    def here(self) -> bool:
        """Whether there are rows, and not sums alone."""
        return not math.isnan(self.scale)

    @cached_property
    def kish(self) -> float:
        """Rows of equal weight that would be as informative, for each row."""
        first, second = self.raw.weights
        return float(first.sum() ** 2 / max(second.sum() * first.size, 1e-300))

    @cached_property
    def weight(self) -> Array:
        """Weight of the table's rows that each row stands for."""
        return self.raw.weights[0] * self.scale

    def variance(self, sums: CellSums) -> Floats:
        """Variance of Σw(y - p) in each cell; of outcomes that are no events at least what is usual."""
        own = sums.residual2 if self.noise.null == Null.RESIDUAL else sums.variance
        if self.noise.residual_variance is not None:
            own = np.maximum(own, self.noise.residual_variance.of_cells(sums))
        return own * self.spread

    def deviation(self, sums: CellSums, total: float) -> float:
        """Standard deviation of the sum of one cell when the score was put right on rows of this total variance."""
        variance = self.variance(sums)[0]
        return math.sqrt(max(variance * noise_left(variance, total), 1e-300))

    def p_values(self, sums: CellSums) -> Floats:
        """P-values from sums alone; with clusters only a first look, see `exact_p`."""
        return cell_p_values(*self._judging(sums)).p_value

    def reachable_p(self, sums: CellSums) -> Floats:
        """The smallest p-value that each cell could have shown: with no event at all, or nothing but events.

        It depends on the predictions alone, so that cells which could never be significant may be left out before
        anything is counted (Tarone).
        """
        if self.raw.weight is not None or self.noise.null == Null.RESIDUAL:
            return np.zeros(sums.rows.size)
        ends = np.zeros_like(sums.rows), sums.weight
        none, every = (self.p_values(replace(sums, observed=end)) for end in ends)
        return np.fmin(np.fmin(none, every), 1.0)

    def exact_p(self, members: Array, p_value: float) -> float:
        """The p-value of some rows, over whole clusters where there are any; `p_value` otherwise."""
        if self.raw.cluster is None or not p_value < CLUSTER_SCREEN:
            return p_value
        return clustered_sum_p(self.raw, members)

    def gap_intervals(self, sums: CellSums, tests: int, level: float) -> tuple[Floats, Floats]:
        """Intervals of the gaps of cells, simultaneous over so many tests."""
        return cell_gap_intervals(*self._judging(sums), tests, level)

    def told(self, sums: CellSums) -> Plain:
        """Rows, weight, mean prediction, mean outcome and gap of one cell, in the units of the data."""
        units, weight = self.noise.units, float(sums.weight[0])
        every = sums.predicted, sums.observed, sums.off
        predicted, observed, off = (float(values[0]) / weight for values in every)
        return {
            "rows": int(sums.rows[0]),
            "weight": weight,
            "predicted": units.back(predicted),
            "observed": units.back(observed),
            "gap": off * units.scale,
        }

    def _judging(self, sums: CellSums) -> tuple[CellSums, CellTestSettings]:
        """Sums whose squared residuals are as large as clusters make them, with the noise that is usual; and how.

        From sums alone: of clusters it is not known how many there are in a cell.
        """
        made = self.noise.sums(sums)
        usual = 1.0 if self.noise.residual_variance is None else self.spread
        spread = replace(made, variance=made.variance * usual, residual2=made.residual2 * self.spread)
        how = self.noise.test_settings(weighted=self.raw.weight is not None)
        return spread, replace(how, model_variance=False)


def noise_left(variance: float, total: float) -> float:
    """The share of a place's variance that is left when the score was put right on the same rows.

    What the place shares with the rest is taken off; the true variance is at most this one (Cauchy and Schwarz).
    """
    return 1.0 - min(variance / max(total, 1e-300), 0.99)


def cluster_spread(pair: TargetData) -> float:
    """How much more sums over clusters vary than sums over rows; 1 without clusters."""
    if pair.cluster is None:
        return 1.0
    alone = float(np.sum(weighted_residuals(pair, ALL_ROWS) ** 2))
    return max(1.0, clustered_sum(pair)[1] / max(alone, 1e-300))


@dataclass(eq=False)
class CellGrid:
    """Cells of one column, or of several crossed (the last running fastest).

    rows : what is compared
    p_value : of each cell as predicted, NaN where it cannot be judged
    along : how its cells err along the score, as predicted and beyond the score, where that is kept
    seen : the cells that are tested along the score, where not all are
    suspect : the smallest p-value of any of its cells or stretches along the score, corrected for their number
    shapes : the tests along the score, once they were made
    result : of a column, what is shown of it; None where nothing was judged yet
    """

    parts: tuple[CodedColumn, ...]
    kind: str
    rows: SearchContext
    raw: CellSums
    beyond: CellSums
    p_value: Floats
    along: RawAndRecalibrated | None = None
    seen: Array | None = None
    suspect: float = 1.0
    shapes: Any = None
    result: Any = None

    @property
    def column(self) -> Column:
        """The column, of several the first."""
        return self.parts[0].column

    @property
    def numeric(self) -> bool:
        """Whether it is a column of numbers, some of which are known."""
        return self.ordered > 0 and self.column.type.spatial

    @property
    def ordered(self) -> int:
        return self.runs[0] if len(self.parts) == 1 else 0

    @cached_property
    def runs(self) -> list[int]:
        """Cells of each part that may be joined (those after them hold missing values), 0 for levels."""
        return [part.ordered for part in self.parts]

    @cached_property
    def walk(self) -> tuple[float, int, int] | None:
        """The p-value of the walk along a variable and the cells of the stretch in which it moves most."""
        edges = self.parts[0].edges
        if edges is None or not self.ordered:
            return None
        ends, p_value = self.result.kuiper_range, self.result.kuiper_p_value
        if ends is None or math.isnan(p_value):
            return None
        low, high = bin_index(np.array(ends, float), edges).tolist()
        start = low + 1 if low < high and ends[0] > edges[1] else low
        return p_value, start, high

    @cached_property
    def family(self) -> str:
        """The family in which it is tested."""
        return "neighbourhoods" if self.kind == "neighbourhood" else family_of(self.parts)

    @cached_property
    def searched(self) -> int:
        """How many boxes there are to choose from for each combination of levels."""
        return math.prod(len(part.stretches) for part in self.parts if part.ordered)

    @cached_property
    def count(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def shape(self) -> list[int]:
        return [part.count for part in self.parts]

    @cached_property
    def stacked(self) -> Floats:
        """All sums in one array, (as predicted and beyond the score, sums, *shape)."""
        every = [*vars(self.raw).values(), *vars(self.beyond).values()]
        return np.stack(every).reshape(2, -1, *self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(part.name for part in self.parts)

    def box(self, cell: int) -> Box:
        """One cell, as the first and last cell of each part."""
        return tuple((int(i), int(i)) for i in np.unravel_index(cell, self.shape))

    def members(self, box: Box) -> Array:
        """Row numbers of a box of cells."""
        ends = zip(self.parts, box, strict=True)
        inside = [(part.codes >= first) & (part.codes <= last) for part, (first, last) in ends]
        return np.flatnonzero(np.logical_and.reduce(inside))

    def cut(self, box: Box) -> tuple[slice, ...]:
        """Where a box lies among the cells, a slice a part."""
        return tuple(slice(first, last + 1) for first, last in box)

    def summed(self, values: Floats, box: Box) -> Floats:
        """The values of a box of cells, added up; further axes stay."""
        inside = values.reshape(*self.shape, *values.shape[1:])[self.cut(box)]
        return np.asarray(inside.sum(axis=tuple(range(len(box)))))

    def boxes(self, values: Floats) -> Floats:
        """The values of every box of cells: sums over the stretches of each part that has an order."""
        values = values.reshape(*self.shape, *values.shape[1:])
        for axis, size in enumerate(self.runs):
            if size:
                before, after = values.shape[:axis], values.shape[axis + 1 :]
                known = np.take(values, np.arange(size), axis)
                made = np.empty((*before, len(self.parts[axis].stretches), *after))
                flat = math.prod(before), -1, math.prod(after)
                add_stretches(known.reshape(flat), made.reshape(flat))
                values = made
        return values

    def words(self, box: Box) -> str:
        """The place in words."""
        return " and ".join(
            f"{name} {level}" for name, level in zip(self.names, self.levels(box), strict=True)
        )

    def conjunction(self, box: Box) -> Conjunction:
        """Which rows belong to a box of cells."""
        return Conjunction(tuple(part.condition(*ends) for part, ends in zip(self.parts, box, strict=True)))

    def levels(self, box: Box) -> tuple[str, ...]:
        """The levels, one a column."""
        return tuple(part.level(*ends) for part, ends in zip(self.parts, box, strict=True))

    def as_one(self, boxes: Sequence[Box]) -> tuple[CellSums, CellSums]:
        """The sums of boxes, those of each as one cell, as predicted and beyond the score."""
        axes = tuple(range(2, self.stacked.ndim))
        every = [self.stacked[:, :, *self.cut(box)].sum(axis=axes) for box in boxes]
        raw, beyond = np.stack(every, axis=2)
        return CellSums(*raw), CellSums(*beyond)


def family_of(parts: Sequence[CodedColumn]) -> str:
    """The family in which the cells of parts are tested: large fields have a share of the level of their own."""
    if len(parts) == 1:
        return "columns"
    if any(part.some for part in parts):
        return LARGE
    return "pairs" if any(part.edges is None for part in parts) else "regions"


def crossed_codes(parts: Sequence[CodedColumn], rows: Array | slice = ALL_ROWS) -> Array:
    """The cell of rows in all combinations of the cells of parts; the number of cells for those in none."""
    codes, total = np.zeros(1, np.int32), math.prod(part.count for part in parts)
    cells = [(part, part.codes[rows]) for part in parts]
    for part, each in cells:
        codes = codes * np.int32(part.count) + each
    for part, each in cells:
        if part.some:
            codes[each == part.count] = total
    return codes


def group_of(
    parts: Sequence[CodedColumn], kind: str, rows: SearchContext, p_value: Floats | None = None
) -> CellGrid:
    """Tally the cells of a column, or of columns crossed."""
    count = math.prod(part.count for part in parts)
    pooling = LevelPooling(crossed_codes(parts), Numbered(count + 1))
    raw, beyond = (
        CellSums.of(tally(pair, pooling)).map(lambda each: each[:count]) for pair in (rows.raw, rows.beyond)
    )
    seen = None if count <= MOST_ALONG else np.flatnonzero(raw.rows >= 2 * EFFECTIVE_EVENTS)
    p_value = rows.p_values(raw) if p_value is None else p_value
    return CellGrid(tuple(parts), kind, rows, raw, beyond, p_value, seen=seen)


def sums_of(pair: TargetData, rows: Array) -> CellSums:
    """The sums of some rows, as one cell."""
    return CellSums.of(tally(pair.take(rows), LevelPooling(np.zeros(rows.size, np.int16), Numbered(1))))


def best_boxes(group: CellGrid, left: Floats | None = None, total: float = 0.0, *, beyond: bool) -> Boxes:
    """The boxes of a group furthest off, in standard errors: the best along ordered axes, for every cell of the others.

    left, total : what is left of the error of each cell, and the variance of all rows; by default that of its sums
    beyond : the score was put right on the same rows, which takes the share that a box has of the noise off its
        variance; boxes that are nearly everything are passed over
    """
    sums = group.beyond if beyond else group.raw
    variance = group.rows.variance(sums)
    total = total or variance.sum()
    if total <= 0:
        return []
    moved, spread = group.boxes(sums.off if left is None else left), group.boxes(variance)
    possible = spread > 0
    if beyond:
        possible &= spread < WHOLE * total
        spread = spread * (1.0 - np.minimum(spread / total, WHOLE))
    z = np.abs(moved) / np.sqrt(np.where(possible, spread, np.inf))
    return furthest(z, group)


def furthest(z: Floats, group: CellGrid) -> Boxes:
    """The best box over the ordered axes for each cell of the others, by what is known of every box.

    A box leaves something out along every ordered axis: all of one is the whole table, or the other column alone.
    """
    runs = group.runs
    for axis, known in enumerate(runs):
        if known:
            np.moveaxis(z, axis, 0)[known - 1] = -1.0  # the stretch from the first cell to the last
    places: list[tuple[Any, ...]]
    if all(runs):
        places = [np.unravel_index(np.argmax(z), z.shape)]
    elif runs[0]:
        places = [(i, j) for j, i in enumerate(np.argmax(z, axis=0))]
    else:
        places = list(enumerate(np.argmax(z, axis=1)))
    found = []
    for at in places:
        if z[at] > 0:
            box = tuple(part.stretches[i] for part, i in zip(group.parts, at, strict=True))
            found.append((box, float(z[at])))
    return found

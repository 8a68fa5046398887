"""Places tested along the score as well as on average: the tests, what each place is by both, and by how many rows.

The tests read sums in cells of place and score. These add, so that they are the same in memory, in parts and on a
cluster.
Does one row decide a place? An amount of a million can put any place beyond noise that holds it.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

import numpy as np

from miscal.aggregate.in_memory import mean_tally, tally
from miscal.aggregate.tally import Tally
from miscal.auditing.search.candidates import (
    Candidate,
    FamilyOfTests,
    RowMaskSegment,
    SegmentTest,
    TargetSearch,
    mean_chance,
    plain_chance,
)
from miscal.auditing.search.cell_grids import (
    WHOLE,
    Boxes,
    CellGrid,
    RawAndRecalibrated,
    ScoreProfile,
    SearchContext,
    crossed_codes,
    furthest,
    noise_left,
)
from miscal.cells.partitions import LevelPooling, Numbered
from miscal.cells.ranges import bin_index
from miscal.codes.inference import Null
from miscal.stats.cell_sums import EFFECTIVE_EVENTS, CellSums, Floats
from miscal.stats.normal import one_sided_p
from miscal.stats.score_shape import ShapeTest, shape_test
from miscal.stats.sign_flip import clustered_sum_p


def along_of(rows: SearchContext, codes: Floats, places: int) -> RawAndRecalibrated:
    """Sums of all rows in cells of place and score, (places, cells of the score)."""
    grid = rows.grid
    crossed = codes.astype(np.int32) * np.int32(grid.cells) + grid.codes
    pooling = LevelPooling(crossed, Numbered(places * grid.cells))
    plain = rows.raw.plain and rows.raw.binary and rows.noise.null == Null.BERNOULLI
    sums = ((mean_tally if plain else tally)(pair, pooling) for pair in (rows.raw, rows.beyond))
    both = RawAndRecalibrated(*(along_of_tally(made, rows) for made in sums))
    return both.map(lambda values: values.reshape(places, -1))


def along_of_tally(made: Tally, rows: SearchContext) -> ScoreProfile:
    """The sums of a tally of cells of the score, or of places and such cells, one after the other."""
    weight, predicted = made.weight, made.predicted
    if "variance" in made.columns:
        noise = made.residual2 if rows.noise.null == Null.RESIDUAL else made.variance
    else:  # scores of one cell taken for their mean, which overstates their noise and never understates it
        noise = predicted * (1.0 - predicted / np.maximum(weight, 1e-300))
    spread = rows.noise.residual_variance
    usual = 0.0 * noise if spread is None else spread.of_cells(CellSums.of(made), narrow=True) * rows.spread
    least = np.maximum(noise, 0.0) * rows.spread
    return ScoreProfile(made.rows, weight, predicted, made.observed, least, usual)


def alongs(group: CellGrid) -> RawAndRecalibrated:
    """How the cells of a group err along the score, those of `seen` where it says so."""
    if group.along is not None:
        return group.along
    codes, count = crossed_codes(group.parts), group.count
    if group.seen is not None:
        count = group.seen.size
        table = np.full(group.count + 1, count)
        table[group.seen] = np.arange(count)
        codes = table[codes]
    return along_of(group.rows, codes, count + 1).map(lambda values: values[:count])


def tested(along: ScoreProfile, rows: SearchContext) -> ShapeTest:
    """The test of places, NaN where too few events are expected on either side."""
    found = shape_test(along.off, along.variance)
    count, weight, predicted = (values.sum(axis=-1) for values in (along.rows, along.weight, along.predicted))
    rate = predicted / np.maximum(weight, 1e-300) if rows.noise.binary else 0.5
    enough = count * rows.kish * np.minimum(rate, 1.0 - rate) >= EFFECTIVE_EVENTS
    return ShapeTest(np.where(enough, found.p_value, np.nan), found.moment)


def whole_along(looked: TargetSearch) -> RawAndRecalibrated:
    """The sums of all rows along the score, in the cells in which places have theirs."""
    rows, bins = looked.rows, looked.score.tally
    # Of a field with very many levels the largest alone are added along the score.
    for group in looked.columns:
        if group.along is not None and group.along.raw.rows.sum() == bins.rows.sum():
            return group.along.map(lambda values: values.sum(axis=0))
    if rows.sample:
        made = along_of_tally(bins, rows)
        return RawAndRecalibrated(made, made)
    return along_of(rows, np.zeros(rows.raw.rows, np.int32), 1).map(lambda values: values[0])


def shapes_of(group: CellGrid) -> tuple[FamilyOfTests, list[Candidate]]:
    """The tests of a group along the score, and their places; also notes how suspect it is."""
    known = group.along is not None or not group.rows.sample
    if group.shapes is None and known:
        held = FamilyOfTests()
        places = SHAPE.add_boxes(held, group)
        tested = [*held.others, *(place.p_value for place in held.places)]
        group.suspect = min(tested, default=1.0)
        group.shapes = held, places + SHAPE.add_cells(held, group)
    return group.shapes or (FamilyOfTests(), [])


def _cells(group: CellGrid) -> tuple[np.ndarray, Floats]:
    cells = np.arange(group.count) if group.seen is None else group.seen
    p_values = tested(alongs(group).raw, group.rows).p_value
    known = np.flatnonzero(~np.isnan(p_values) & (cells >= group.ordered))
    if known.size:
        group.suspect = min(group.suspect, p_values[known].min() * known.size)
    return cells[known], p_values[known]


def _boxes(group: CellGrid, beyond: bool) -> Boxes:
    both, rows = alongs(group), group.rows
    found = tested(both[beyond].map(group.boxes), rows).p_value
    size = -np.log(np.clip(np.nan_to_num(found, nan=1.0), 1e-300, 1.0))
    best = furthest(size, group)
    chances = [math.exp(-size) for _, size in best]
    # May be right as predicted, and off as predicted like all else: must stand out both ways.
    if beyond and best:
        own = both.raw.map(lambda values: np.stack([group.summed(values, box) for box, _ in best]))
        plain = np.fmin(tested(own, rows).p_value, 1.0)
        chances = np.maximum(chances, plain).tolist()
    return [(box, chance) for (box, _), chance in zip(best, chances, strict=True)]


def _of_place(place: Candidate, rows: SearchContext, p_value: float) -> float:
    if rows.raw.cluster is None:
        return p_value
    see_along([place], rows)
    return max(p_value, _shape(place, rows)[0])


SHAPE = SegmentTest(_cells, _boxes, _of_place)


def see_along(places: Sequence[Candidate], rows: SearchContext) -> None:
    """Give places their sums along the score, one look at the rows for all places of a group."""
    known = lru_cache(1)(alongs)
    for place in sorted(places, key=lambda one: id(one.group)):
        group = place.group
        if rows.sample and getattr(group, "along", None) is None:
            continue  # sums of all rows are not told from a sample of them
        if isinstance(group, RowMaskSegment):
            place.along = along_of(rows, group.inside, 2).map(itemgetter(1))
        elif group.seen is None:
            place.along = known(group).map(partial(group.summed, box=place.box))
        else:  # a level: one with too few rows is known by its average alone
            at = np.flatnonzero(group.seen == place.box[0][0])
            place.along = known(group).map(itemgetter(at[0])) if at.size else None


def mark_tests(looked: TargetSearch, place: Candidate) -> None:
    """Say which of its two tests a place beyond noise fails, and whether either also fails beyond the score.

    Each is judged as severely as the place was when it was found: all that was tested counts. What is significant by
    neither alone (the walk of a search sees both together) is what it is more of.
    """
    tests, rows, total = looked.tests, looked.rows, looked.total
    severity, plain = tests.severity(place), plain_chance(place, rows)
    bent, tilt = _shape(place, rows)
    place.average, place.shape = (chance * severity <= tests.level for chance in (plain, bent))
    if not (place.average or place.shape):
        place.average, place.shape = plain <= bent, bent < plain
    after = place.beyond
    variance = rows.variance(after)[0]
    if variance > WHOLE * total:
        return
    after_bent, after_tilt = _shape(place, rows, noise_left(variance, total), beyond=True)
    same = after.off[0] * place.off > 0
    # The average beyond the score.
    if rows.raw.cluster is not None:
        chance = clustered_sum_p(rows.beyond, place.rows)
    elif rows.noise.binary and np.minimum(after.predicted, after.weight - after.predicted)[0] < 25:
        chance = mean_chance(after, rows)
    else:
        chance = 2.0 * one_sided_p(abs(after.off[0]), rows.deviation(after, total) ** 2)
    by_average = place.average and same and chance * severity <= tests.level
    bent = after_bent * tests.severity_beyond(place)
    place.specific = bool(by_average or (place.shape and tilt * after_tilt > 0 and bent <= tests.level))


def _shape(
    place: Candidate, rows: SearchContext, left: float = 1.0, *, beyond: bool = False
) -> tuple[float, float]:
    """P-value and direction of a place's walk along the score; beyond the score a share of its noise is `left`."""
    if place.along is None:
        return 1.0, 0.0
    own = place.along[beyond]
    found = tested(replace(own, noise=own.noise * left, usual=own.usual * left), rows)
    p_value = float(np.fmin(found.p_value, 1.0))
    if rows.raw.cluster is not None and p_value < 1.0:
        # Its moment over whole clusters, with room for the second reading.
        noise = own.variance / max(own.variance.sum(), 1e-300)
        lever = np.cumsum(noise) - 0.5 * noise - 0.5
        pair, members = rows.beyond if beyond else rows.raw, place.rows
        p_value = max(p_value, 2.0 * clustered_sum_p(pair, members, lever[rows.grid.codes[members]]))
    return p_value, float(found.moment)


def mark_decided(places: Sequence[Candidate], looked: TargetSearch) -> None:
    """Note the row without which a place is within noise, where there is one; outcomes that are events have none.

    Among all that was tested; where that is too severe for the place as it is, as much less likely as it gets. A
    p-value at the end of its simulations' scale says nothing of that.
    """
    rows, tests = looked.rows, looked.tests
    if rows.noise.binary or not places:
        return
    for place, row in zip(places, rows.largest(places), strict=True):
        before, after = (_chance(place, rows, row, times) for times in (0.0, 1.0))
        severity: float = tests.severity(place)
        if before * severity > tests.level:
            severity = 0.0 if place.bound else place.adjusted / max(before, 1e-300)
        if after * severity > tests.level:
            place.deciding = float(row[1]), float(row[2])


def _chance(place: Candidate, rows: SearchContext, row: Floats, times: float) -> float:
    """The smaller of the p-values by which a place was judged, with a row taken out of it so many times."""
    found = []
    if place.average:
        found.append(rows.p_values(_less(place.raw, row, times))[0])
    if place.shape and place.along is not None and place.along.raw.off.size == rows.grid.cells:
        own = np.arange(rows.grid.cells) == bin_index(row[1:2], rows.grid.edges)
        found.append(tested(_less(place.along[0], row, times * own), rows).p_value)
    return float(np.fmin(min(found, default=1.0), 1.0))


def _less(sums: Any, row: Floats, times: Any) -> Any:
    """Sums without a row, of its weight, prediction and outcome."""
    weight, predicted, observed = row
    squared = (weight * (observed - predicted)) ** 2
    less = {"rows": 1.0, "weight": weight, "weight2": weight**2, "predicted": weight * predicted}
    less |= {"observed": weight * observed, "residual2": squared, "noise": squared}
    return type(sums)(*(values - times * less.get(name, 0.0) for name, values in vars(sums).items()))

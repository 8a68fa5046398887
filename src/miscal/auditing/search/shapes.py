"""Places tested along the score as well as on average: the tests, what each place is by both, and by how many rows.

Does one row decide a place? An amount of a million can put any place beyond noise that holds it.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from miscal.auditing.search.along import Along, along_of, alongs, testable, tested, tested_boxes
from miscal.auditing.search.groups import WHOLE, Best, Box, Group, Rows, furthest
from miscal.auditing.search.places import (
    Family,
    Multiplicity,
    Place,
    Reading,
    deviation_beyond,
    noise_left,
    plain_chance,
)
from miscal.data.libraries import special
from miscal.inference.sums import Floats, Sums
from miscal.pooling.bins import bin_index

LEAST = 1e-300


def shapes_of(group: Group, rows: Rows, family: str) -> tuple[Family, list[Place]]:
    """The tests of a group along the score, and their places; also notes how suspect it is."""
    held, places = group.shapes or (Family(), [])
    if group.shapes is not None or rows.grid is None or (rows.sample and group.along is None):
        return held, places
    places += SHAPE.add_boxes(held, group, rows, family)
    group.suspect = min(held.p_values, default=1.0)
    places += SHAPE.add_cells(held, group, rows, family)
    group.shapes = held, places
    return held, places


def _cells(group: Group, rows: Rows) -> tuple[np.ndarray, Floats]:
    some = testable(group)
    cells = np.arange(group.count) if some is None else some
    p_values = tested(alongs(group, rows, some).raw, rows).p_value
    known = np.flatnonzero(~np.isnan(p_values) & (cells >= group.ordered))
    if known.size:
        group.suspect = min(group.suspect, float(p_values[known].min() * known.size))
    return cells[known], p_values[known]


def _boxes(group: Group, rows: Rows, beyond: bool) -> tuple[Sequence[Best], Sequence[float]]:
    if 0 in group.shape:
        return [], []
    both = alongs(group, rows)
    found = tested_boxes(both[beyond], rows, group).p_value
    best = furthest(np.where(np.isnan(found), -1.0, -np.log(np.maximum(found, LEAST))), group)
    chances = [math.exp(-item.z) for item in best]
    if beyond and best:  # may be right as predicted, and off as predicted like all else: must stand out both ways
        own = both.raw.map(lambda values: np.stack([group.summed(values, item.box) for item in best]))
        chances = np.maximum(chances, np.nan_to_num(tested(own, rows).p_value, nan=1.0)).tolist()
    return best, chances


def shape_place(group: Group, box: Box, p_value: float, searched: int, rows: Rows, family: str) -> Place:
    """The place of a box of cells that was tested along the score."""
    place = Place(group, box, p_value, family, *group.joined(box), searched)
    if rows.raw.cluster is not None:
        own = alongs(group, rows).raw.map(lambda values: group.summed(values, box))
        place.p_value = max(p_value, rows.moment_p(rows.raw, place.rows, own))
    place.p_value = min(1.0, place.p_value * searched)
    return place


SHAPE = Reading(_cells, _boxes, shape_place)


def see_along(places: Sequence[Place], rows: Rows) -> None:
    """Give places their sums along the score, one look at the rows for all places of a group."""
    if rows.grid is None:
        return
    by_group: dict[int, list[Place]] = {}
    for place in places:
        by_group.setdefault(id(place.group), []).append(place)
    for own in by_group.values():
        group = own[0].group
        if rows.sample and not (isinstance(group, Group) and group.along is not None):
            continue  # sums of all rows are not told from a sample of them
        if isinstance(group, Group):
            _see_cells(group, own, rows)
            continue
        for place in own:
            inside = np.zeros(rows.raw.rows, np.int32)
            inside[place.rows] = 1
            place.along = along_of(rows, inside, 2).map(lambda values: values[1])


def _see_cells(group: Group, places: Sequence[Place], rows: Rows) -> None:
    cells = None
    if testable(group) is not None and all(first == last for place in places for first, last in place.box):
        cells = np.array([np.ravel_multi_index([first for first, _ in place.box], group.shape) for place in places])
    both = alongs(group, rows, cells)
    for i, place in enumerate(places):
        own = (lambda values, i=i: values[i]) if cells is not None else partial(group.summed, box=place.box)
        place.along = both.map(own)


def mark_tests(tests: Multiplicity, place: Place, rows: Rows, total: float) -> None:
    """Say which of its two tests a place beyond noise fails, and whether either also fails beyond the score.

    Each is judged as severely as the place was when it was found: all that was tested counts. What is significant by
    neither alone (the walk of a search sees both together) is what it is more of.
    """
    severity, plain = tests.severity(place), plain_chance(place, rows)
    bent, tilt = _shape(place, rows)
    place.average, place.shape = plain * severity <= tests.level, bent * severity <= tests.level
    if not (place.average or place.shape):
        place.average, place.shape = plain <= bent, bent < plain
    after = place.beyond
    if float(rows.variance(after)[0]) > WHOLE * total:
        return
    after_bent, after_tilt = _shape(place, rows, left=noise_left(float(rows.variance(after)[0]), total))
    same = float(after.off[0]) * place.off > 0
    place.specific = bool(
        (place.average and same and _plain_beyond(place, rows, total) * severity <= tests.level)
        or (place.shape and tilt * after_tilt > 0 and after_bent * tests.severity_beyond(place) <= tests.level)
    )


def mark_whole(tests: Multiplicity, place: Place, rows: Rows) -> None:
    """Say of all rows, whose own test is the walk along the score, whether their average and shape are off."""
    place.average = plain_chance(place, rows) <= tests.level
    # Right on average and yet beyond noise: it is off along the score, whatever its mean happens to be.
    place.shape = not place.average or bool(place.along and place.along[0].test.p_value <= tests.level)


def _shape(place: Place, rows: Rows, left: float | None = None) -> tuple[float, float]:
    """P-value and direction of a place's walk along the score; beyond the score if told how much noise is `left`."""
    if place.along is None:
        return 1.0, 0.0
    beyond = left is not None
    own, share = place.along[beyond], 1.0 if left is None else left
    found = tested(replace(own, noise=own.noise * share, usual=own.usual * share), rows)
    p_value = float(np.nan_to_num(found.p_value, nan=1.0))
    if rows.raw.cluster is not None and p_value < 1.0:
        pair = rows.beyond if beyond else rows.raw
        p_value = max(p_value, rows.moment_p(pair, place.rows, place.along[beyond]))
    return p_value, float(found.moment)


def _plain_beyond(place: Place, rows: Rows, total: float) -> float:
    """P-value of the average beyond the score."""
    after = place.beyond
    if rows.raw.cluster is not None:
        return rows.exact_p(rows.beyond, place.rows, 0.0)
    if rows.noise.binary and float(np.minimum(after.predicted, after.weight - after.predicted)[0]) < 25:
        return float(np.nan_to_num(rows.p_values(after)[0], nan=1.0))
    return 2.0 * float(
        special.ndtr(-abs(float(after.off[0])) / deviation_beyond(float(rows.variance(after)[0]), total))
    )


def mark_decided(places: Sequence[Place], rows: Rows, tests: Multiplicity) -> None:
    """Note the row without which a place is within noise, where there is one; outcomes that are events have none.

    Among all that was tested; where that is too severe for the place as it is, as much less likely as it gets. A
    p-value at the end of its simulations' scale says nothing of that.
    """
    if rows.noise.binary or not places:
        return
    for place, row in zip(places, rows.largest(places), strict=True):
        before, after = (_chance(place, rows, one) for one in (None, row))
        severity = float(tests.severity(place))
        if before * severity > tests.level:
            severity = 0.0 if place.bound else place.adjusted / max(before, 1e-300)
        if after * severity > tests.level:
            place.deciding = float(row[1]), float(row[2])


def _chance(place: Place, rows: Rows, row: np.ndarray | None) -> float:
    """The smaller of the p-values by which a place was judged, without a row (its weight, prediction, outcome)."""
    found = []
    if place.average:
        found.append(rows.p_values(place.raw if row is None else _without(place.raw, row))[0])
    if place.shape and place.along is not None and rows.grid is not None:
        along = place.along[0]
        if row is not None:
            weight, predicted, observed = row
            given = (1.0, weight, weight * predicted, weight * observed, (weight * (observed - predicted)) ** 2, 0.0)
            own = np.arange(rows.grid.cells) == bin_index(np.array([predicted]), rows.grid.edges)
            along = Along(*(values - own * less for values, less in zip(vars(along).values(), given, strict=True)))
        found.append(tested(along, rows).p_value)
    return float(np.nan_to_num(min(found, default=np.float64(1.0)), nan=1.0))


def _without(sums: Sums, row: np.ndarray) -> Sums:
    weight, predicted, observed = row
    residual = (weight * (observed - predicted)) ** 2
    given = (1.0, weight, weight**2, weight * predicted, weight * observed, 0.0, residual)
    return Sums(*(values - less for values, less in zip(vars(sums).values(), given, strict=True)))

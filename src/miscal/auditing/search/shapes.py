"""Places tested along the score as well as on average: the tests, and what each place is by both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from miscal.auditing.search.along import Along, along_of, alongs, clustered_p, of_box, testable, tested, tested_boxes
from miscal.auditing.search.groups import WHOLE, Box, Group, Rows, axes_of, partial_boxes, picked
from miscal.auditing.search.places import Multiplicity, Place, deviation_beyond, noise_left

SUSPECT, SUSPECT_BOX = 0.05, 0.001  # only cells and boxes at most so likely become places
LEAST = 1e-300


def add_shapes(tests: Multiplicity, groups: Sequence[Group], rows: Rows, family: str) -> list[Place]:
    """Add the second test of every cell, stretch and box: its walk along the score."""
    places: list[Place] = []
    for group in groups:
        if rows.grid is None or (rows.sample and group.along is None):
            continue
        if any(part.ordered for part in group.parts):
            places += _boxes(tests, group, rows, family)
        if len(group.parts) == 1 or not any(part.ordered for part in group.parts):
            places += _cells(tests, group, rows, family)
    return places


def _cells(tests: Multiplicity, group: Group, rows: Rows, family: str) -> list[Place]:
    """Test cells without an order, among them missing values; only suspect ones become places."""
    some = testable(group)
    cells = np.arange(group.count) if some is None else some
    p_values = tested(alongs(group, rows, some)[0], rows).p_value
    known = np.flatnonzero(~np.isnan(p_values) & (cells >= group.ordered))
    cells, p_values = cells[known], p_values[known]
    group.suspect = min(group.suspect, float(p_values.min() * p_values.size) if known.size else 1.0)
    listed: list[float] = p_values.tolist()
    held: dict[int, Place] = {}
    for i in np.flatnonzero(p_values <= SUSPECT).tolist():
        held[i] = shape_place(group, group.box(int(cells[i])), listed[i], 1, rows, family)
        listed[i] = held[i].p_value
    tests.families[family].add(listed, held)
    return list(held.values())


def _boxes(tests: Multiplicity, group: Group, rows: Rows, family: str) -> list[Place]:
    """Test the best stretches and boxes; those that are best beyond the score are places too, judged as severely."""
    ordered = [part.ordered for part in group.parts]
    axes = axes_of(ordered, group.shape)
    places: list[Place] = []
    if any(axis.first.size == 0 for axis in axes):
        return places
    possible = partial_boxes(axes, ordered)
    for beyond, along in enumerate(alongs(group, rows)):
        found = tested_boxes(along, rows, group.shape, [axis.inside for axis in axes]).p_value
        sizes = np.where(possible & ~np.isnan(found), -np.log(np.maximum(found, LEAST)), -1.0)
        for item in picked(sizes, axes, ordered):
            p = math.exp(-item.z)
            place = shape_place(group, item.box, p, item.searched, rows, family) if p <= SUSPECT_BOX else None
            if not beyond:
                chance = min(1.0, p * item.searched) if place is None else place.p_value
                group.suspect = min(group.suspect, chance)
                tests.add(family, chance, place)
            places += [place] if place is not None else []
    return places


def shape_place(group: Group, box: Box, p_value: float, searched: int, rows: Rows, family: str) -> Place:
    """The place of a box of cells that was tested along the score."""
    place = Place(group, box, p_value, family, *group.joined(box), searched)
    if rows.raw.cluster is not None:
        own = of_box(alongs(group, rows)[0], group, box)
        place.p_value = max(p_value, clustered_p(rows, rows.raw, place.rows, own))
    place.p_value = min(1.0, place.p_value * searched)
    return place


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
            members = place.rows
            place.along = _row_sums(rows, members, raw=True), _row_sums(rows, members, raw=False)


def _see_cells(group: Group, places: Sequence[Place], rows: Rows) -> None:
    simple = all(first == last for place in places for first, last in place.box)
    if not simple or testable(group) is None:
        raw, beyond = alongs(group, rows)
        for place in places:
            place.along = of_box(raw, group, place.box), of_box(beyond, group, place.box)
        return
    cells = np.array([np.ravel_multi_index([first for first, _ in place.box], group.shape) for place in places])
    raw, beyond = alongs(group, rows, cells)
    for i, place in enumerate(places):
        place.along = tuple(each.map(lambda values, i=i: values[i]) for each in (raw, beyond))  # type: ignore[assignment]


def _row_sums(rows: Rows, members: np.ndarray, *, raw: bool) -> Along:
    assert rows.grid is not None
    inside = np.zeros(rows.raw.rows, np.int32)
    inside[members] = 1
    found = along_of(rows.raw if raw else rows.beyond, rows, inside, 2)
    return found.map(lambda values: values[1])


def mark_tests(tests: Multiplicity, place: Place, rows: Rows, total: float) -> None:
    """Say which of its two tests a place beyond noise fails, and whether either also fails beyond the score.

    Each is judged as severely as the place was when it was found: all that was tested counts. What is significant by
    neither alone (the walk of a search sees both together) is what it is more of.
    """
    severity = tests.severity(place)
    plain = float(np.nan_to_num(rows.p_values(place.raw)[0], nan=1.0))
    plain = rows.exact_p(rows.raw, place.rows, plain) if rows.raw.cluster is not None else plain
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
    plain = float(np.nan_to_num(rows.p_values(place.raw)[0], nan=1.0))
    plain = rows.exact_p(rows.raw, place.rows, plain) if rows.raw.cluster is not None else plain
    place.average = plain <= tests.level
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
        p_value = max(p_value, clustered_p(rows, pair, place.rows, place.along[beyond]))
    return p_value, float(found.moment)


def _plain_beyond(place: Place, rows: Rows, total: float) -> float:
    """P-value of the average beyond the score."""
    from scipy.special import ndtr

    after = place.beyond
    if rows.raw.cluster is not None:
        return rows.exact_p(rows.beyond, place.rows, 0.0)
    if rows.noise.binary and float(np.minimum(after.predicted, after.weight - after.predicted)[0]) < 25:
        return float(np.nan_to_num(rows.p_values(after)[0], nan=1.0))
    return 2.0 * float(ndtr(-abs(float(after.off[0])) / deviation_beyond(float(rows.variance(after)[0]), total)))

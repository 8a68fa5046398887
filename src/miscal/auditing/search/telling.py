"""A place as a finding: its numbers, its interval, its size less the luck of having been picked, and its form."""

from __future__ import annotations

import math

from miscal.auditing.findings import CODES, Finding, ScoreRange
from miscal.auditing.search.along import along_of_tally
from miscal.auditing.search.groups import cluster_sums
from miscal.auditing.search.looking import Looked
from miscal.auditing.search.places import Multiplicity, Own, Place
from miscal.inference.adjust import adjusted_z, shrunken_gap
from miscal.inference.shape import form_of
from miscal.metrics.binned import MEANS


def finding(
    looked: Looked,
    tests: Multiplicity,
    place: Place,
    *,
    specific: bool,
    parent: str | None = None,
) -> Finding:
    """One place as a finding."""
    raw, rows, group = place.raw, looked.rows, place.group
    number = tests.severity(place)
    weight = float(raw.weight[0])
    gap = place.off / weight
    error, interval = _noise(looked, place, number, tests.level)
    units = rows.noise.units
    own_class = bool(looked.name) and group.kind != "score"
    real = bool(place.adjusted <= tests.level) and place.deciding is None
    form, ranges = form_and_ranges(place, looked)
    searched = group.kind == "neighbourhood" or (isinstance(group, Own) and group.condition is not None)
    return Finding(
        code=getattr(group, "code", None) or CODES[group.kind],
        kind=group.kind,
        where=f"{place.words} (class {looked.name})" if own_class else place.words,
        scope=f"class {looked.name}" if looked.name else "",
        columns=group.names,
        levels=group.levels(place.box),
        rows=int(raw.rows[0]),
        weight=weight,
        predicted=units.back(float(raw.predicted[0]) / weight),
        observed=units.back(float(raw.observed[0]) / weight),
        gap=gap * units.scale,
        interval=(interval[0] * units.scale, interval[1] * units.scale),
        events_off=gap * weight * units.scale,
        p_value=place.adjusted,
        bound=place.bound,
        real=real,
        specific=bool(specific and real),
        parent=parent,
        shrunken=(float(shrunken_gap([gap], [error], number, tests.level)[0]) if real else gap) * units.scale,
        form=form,
        score_ranges=ranges,
        condition=tuple(place.conjunction.to_dict()),
        definition=place.conjunction.words() if searched else None,
        response=rows.raw.target if rows.raw.target in MEANS else "",
        decided=() if place.deciding is None else tuple(units.back(value) for value in place.deciding),
    )


def _noise(looked: Looked, place: Place, number: int, level: float) -> tuple[float, tuple[float, float]]:
    """Standard error of a place's gap, and its interval, simultaneous over so many tests."""
    rows, weight = looked.rows, float(place.raw.weight[0])
    if rows.raw.cluster is None:
        error = math.sqrt(float(rows.variance(place.raw)[0])) / weight
        return error, rows.gap_interval(place.raw, number, level)
    error = math.sqrt(cluster_sums(rows.raw, place.rows)[1]) / weight
    gap, reach = place.off / weight, adjusted_z(number, level) * error
    return error, (gap - reach, gap + reach)


def form_and_ranges(place: Place, looked: Looked) -> tuple[str, tuple[ScoreRange, ...]]:
    """How a place errs, and the two ranges of the score that disagree if any do. Of all rows: by the score's bins."""
    grid, bins = looked.rows.grid, looked.score.extra["tally"]
    if place is looked.whole:
        own, edges = along_of_tally(bins, looked.rows, (bins.counts.size,)), bins.cells.edges
    elif place.along is not None and grid is not None:
        own, edges = place.along[0], grid.edges
    else:
        return "too high" if place.off >= 0 else "too low", ()
    form, ends = form_of(own.off, own.variance, average=place.average, shape=place.shape)
    made = []
    for first, last in ends:
        sums = own.between(first, last)
        weight = max(sums["weight"], 1e-300)
        units, ends_open = looked.rows.noise.units, (0.0, 1.0) if looked.rows.noise.binary else (-math.inf, math.inf)
        low = ends_open[0] if first == 0 else units.back(float(edges[first]))
        high = ends_open[1] if last == own.off.size - 1 else units.back(float(edges[last + 1]))
        rates = units.back(sums["predicted"] / weight), units.back(sums["observed"] / weight)
        off = (sums["predicted"] - sums["observed"]) * units.scale
        made.append(ScoreRange(low, high, int(sums["rows"]), *rates, off))
    return form, tuple(made)

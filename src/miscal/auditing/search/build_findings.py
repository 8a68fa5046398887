"""A place as a finding: its numbers, its interval, its size less the luck of having been picked, its form.

The rows of each finding along the score show a reader which of its scores are off.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from miscal.auditing.search.candidates import Candidate, Multiplicity, TargetSearch
from miscal.auditing.search.cell_grids import SearchContext
from miscal.auditing.search.score_profiles import along_of_tally
from miscal.cells.condition import Conjunction
from miscal.cells.partitions import OF_SCORE, BinPooling, Ranges
from miscal.cells.ranges import quantile_edges
from miscal.codes.inference import Null
from miscal.data.columns import Columns
from miscal.metrics.cell_evaluation import evaluate_cells
from miscal.metrics.score_errors import MEANS
from miscal.report.findings import CODES, Finding, ScoreRange, flat
from miscal.stats.cell_sums import CellSums, Floats
from miscal.stats.multiplicity import adjusted_z
from miscal.stats.null_model import choose_null
from miscal.stats.score_shape import miscalibration_form
from miscal.stats.shrinkage import selection_adjusted_gap
from miscal.stats.sign_flip import clustered_sum, weighted_residuals

TRIED = 65  # sums of a cell that are tested at once, to find the least that is beyond noise


def findings(looked: TargetSearch, places: Sequence[Candidate]) -> list[Finding]:
    """Places as findings."""
    tests = looked.tests
    gaps = np.array([place.off / place.size for place in places])
    real = [bool(place.adjusted <= tests.level and not place.deciding) for place in places]
    picked = list(compress(places, real))
    if picked:  # less the luck of having been picked
        numbers = np.array([tests.severity(place) for place in picked])
        gaps[real] = selection_adjusted_gap(gaps[real], *luck(looked.rows, picked, numbers, tests.level))
    every = zip(places, real, gaps.tolist(), strict=True)
    return [_finding(looked, *each) for each in every]


def _finding(looked: TargetSearch, place: Candidate, real: bool, shrunken: float) -> Finding:
    rows, group = looked.rows, place.group
    told, units = rows.told(place.raw), rows.noise.units
    own_class = f" ({looked.scope})" if looked.scope and group.kind != "score" else ""
    form, ranges = form_and_ranges(place, looked)
    searched = group.kind == "neighbourhood" or getattr(group, "condition", None) is not None
    return Finding(
        code=getattr(group, "code", None) or CODES[group.kind],
        kind=group.kind,
        where=group.words(place.box) + own_class,
        scope=looked.scope,
        columns=group.names,
        levels=group.levels(place.box),
        **told,
        interval=_interval(rows, looked.tests, place),
        events_off=place.off * units.scale,
        p_value=place.adjusted,
        bound=place.bound,
        real=real,
        specific=place.specific and real,
        shrunken=shrunken * units.scale,
        form=form,
        score_ranges=ranges,
        condition=tuple(place.conjunction.to_dict()),
        definition=place.conjunction.words() if searched else None,
        response=rows.raw.target if rows.raw.target in MEANS else "",
        decided=tuple(map(units.back, place.deciding)),
    )


def _interval(rows: SearchContext, tests: Multiplicity, place: Candidate) -> tuple[float, float]:
    """The interval of the gap of a place, simultaneous over the tests among which it was picked."""
    number = tests.severity(place)
    if rows.raw.cluster is None:
        low, high = (float(end[0]) for end in rows.gap_intervals(place.raw, number, tests.level))
    else:
        reach = adjusted_z(number, tests.level) * math.sqrt(clustered_sum(rows.raw, place.rows)[1])
        low, high = (place.off - reach) / place.size, (place.off + reach) / place.size
    return low * rows.noise.units.scale, high * rows.noise.units.scale


def luck(
    rows: SearchContext, places: Sequence[Candidate], numbers: Floats, level: float
) -> tuple[Floats, Floats]:
    """The standard error that a place's gap has as it happened, and the least gap with which it would be beyond noise.

    The noise is not the model's, which is off there: of rare events that were under-predicted it is far larger. Nor are
    clusters' sums squared, which hold the error itself.
    """
    reach = np.array([adjusted_z(number, level) for number in numbers.tolist()])
    pair = rows.raw
    if pair.cluster is not None:
        # |ΣD| >= reach·sqrt(ΣD²) solved for ΣD, D a cluster's sum; its noise is that of D around its share.
        made = []
        for place, each in zip(places, reach.tolist(), strict=True):
            members = place.rows
            cluster, residual = pair.cluster[members], weighted_residuals(pair, members)
            size = np.bincount(cluster, None if pair.first is None else pair.first[members])
            total = size.sum()
            own, share = np.bincount(cluster, residual)[size > 0], size[size > 0] / total
            apart = np.sum((own - own.sum() * share) ** 2)
            room = 1.0 - each**2 * np.sum(share**2)
            noise = max(apart * own.size / max(own.size - 1, 1), np.sum(residual**2))
            least = each * math.sqrt(apart / room) if room > 0 else math.inf
            made.append((math.sqrt(noise) / total, least / total))
        errors, smallest = np.array(made).T
        return errors, smallest
    raw = CellSums.joined([place.raw for place in places])
    noise = np.sqrt(rows.variance(raw)) / raw.weight
    if rows.noise.null == Null.RESIDUAL:
        return noise, reach * noise
    half = 0.5 * raw.weight2 / raw.weight  # an event, so that no rate is 0
    predicted, happened = (
        (events + half) / (raw.weight + 2.0 * half) for events in (raw.predicted, raw.observed)
    )
    wider = happened * (1.0 - happened) / (predicted * (1.0 - predicted))
    return noise * np.sqrt(wider), _least_gaps(rows, raw, level / numbers)


def _least_gaps(rows: SearchContext, raw: CellSums, chances: Floats) -> Floats:
    """The smallest gap of each cell, on the side on which it is off, whose p-value is as small, infinite if none."""
    start, end = raw.predicted, raw.observed
    every, none = np.arange(start.size), np.zeros(start.size, bool)
    repeated = raw.map(lambda values: np.repeat(values, TRIED))
    for _ in range(2):
        tried = np.linspace(start, end, TRIED, axis=1)
        p_values = rows.p_values(replace(repeated, observed=tried.ravel())).reshape(tried.shape)
        passing = p_values <= chances[:, np.newaxis]
        none |= ~passing.any(axis=1)
        first = np.argmax(passing, axis=1)
        start, end = tried[every, np.maximum(first - 1, 0)], tried[every, first]
    return np.where(none, np.inf, np.abs(end - raw.predicted) / raw.weight)


def form_and_ranges(place: Candidate, looked: TargetSearch) -> tuple[str, tuple[ScoreRange, ...]]:
    """How a place errs, and the two ranges of the score that disagree if any do. Of all rows: by the score's bins."""
    grid, bins = looked.rows.grid, looked.score.tally
    if place is looked.whole:
        own, edges = along_of_tally(bins, looked.rows), bins.cells.edges
    elif place.along is not None:
        own, edges = place.along[0], grid.edges
    else:
        return "too high" if place.off >= 0 else "too low", ()
    form, ends = miscalibration_form(own.off, own.variance, average=place.average, shape=place.shape)
    noise, made = looked.rows.noise, []
    units = noise.units
    least, most = (0.0, 1.0) if noise.binary else (-math.inf, math.inf)
    bounds = [least, *units.back(edges[1:-1]).tolist(), most]
    for first, last in ends:
        sums: Any = own.map(lambda values, cells=slice(first, last + 1): float(values[cells].sum()))
        weight = max(sums.weight, 1e-300)
        rates = units.back(sums.predicted / weight), units.back(sums.observed / weight)
        made.append(
            ScoreRange(bounds[first], bounds[last + 1], int(sums.rows), *rates, sums.off * units.scale)
        )
    return form, tuple(made)


MOST = 60  # findings, the first ones
BINS, LEAST = 10, 30  # bins at most, and rows that each of them has at least
KEPT = ("low", "high", "rows", "predicted", "observed", "gap", "gap_low", "gap_high", "p_adjusted")


def curves_of(looks: Sequence[TargetSearch], found: Iterable[Finding]) -> list[dict[str, Any]]:
    """For each finding beyond noise `where`, `table` (its rows by bins of the score), and `of`, the rows counted.

    Intervals and p-values hold for all bins of one curve at once. Where the rows are a sample, so are the curves; where
    there are none, as with a tally, there is no curve.
    """
    named = {looked.scope: looked for looked in looks}
    columns = Columns({group.column.name: group.column for group in looks[0].columns})
    made = []
    for finding in [one for one in flat(found) if one.real][:MOST]:
        looked, where = named[finding.scope], Conjunction.from_dict(finding.condition)
        if not where.columns or {*where.columns}.difference(columns):  # no column holds the score
            continue
        rows = np.flatnonzero(where.rows(columns))
        if not (rows.size and looked.rows.here):  # a tally has none
            continue
        own = looked.rows.raw.take(rows)
        bins = max(min(BINS, own.rows // LEAST), 1)
        null = looked.score.settings.get("null", "bernoulli")
        edges = quantile_edges(own.predicted, bins, own.weight, own.count)
        pooling = BinPooling(own.predicted, Ranges(edges, name=OF_SCORE))
        cells = evaluate_cells(own, pooling, choose_null(own, null), draws=99).cell_columns(band=False)
        table = {name: cells[name].tolist() for name in KEPT}
        made.append({"where": finding.where, "of": own.rows, "table": table})
    return made

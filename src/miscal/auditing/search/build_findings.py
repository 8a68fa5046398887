"""Significant segments as findings: their numbers, intervals, selection-adjusted gaps and forms, and their curves.

The rule: everything here only describes; what is significant and what explains what was decided before.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from miscal.auditing.search.explain import ExplainedSegment, Explanation, explain
from miscal.auditing.search.families import Multiplicity
from miscal.auditing.search.judge import JudgedTarget
from miscal.auditing.search.overlap import Overlap
from miscal.auditing.search.score_profiles import profile_of_tally
from miscal.auditing.search.search_context import SearchContext
from miscal.auditing.search.tested_segments import TestedSegment
from miscal.cells.condition import Conjunction
from miscal.cells.partitions import OF_SCORE, BinPooling, Ranges
from miscal.cells.ranges import quantile_edges
from miscal.codes.audit import FindingKind, Form
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
from miscal.stats.sign_flip import weighted_residuals

GRID_POINTS = 65  # sums of a cell that are tested at once, to find the smallest significant gap
SAME_ROWS_SHARE = 0.5  # of a segment: what holds so much of another is about the same rows
MAX_DECIDED = 3  # segments that one row decides, which are mentioned: most are the same row again
OrderedFindings = list[tuple[float, Finding]]


def findings_of(target: JudgedTarget) -> tuple[OrderedFindings, Explanation]:
    """Findings of one target that no other explains, each with those that it explains, and what orders them."""
    explanation = explain(target)
    ordered = [(entry.events_off_lower_bound, _head(target, entry)) for entry in explanation.listed]
    ordered = _with_tails(target, explanation, ordered)
    decided = [(-1.0, finding) for finding in findings(target, _decided(target, explanation))]
    return [*ordered, *decided], explanation


def _head(target: JudgedTarget, entry: ExplainedSegment) -> Finding:
    """A finding with the segments that it explains, each once, the most significant first."""
    explained = sorted(entry.explained, key=lambda segment: segment.adjusted_p)
    head, *others = findings(target, [entry.segment, *explained])
    by_name = {head.where: head}
    for other in others:
        by_name.setdefault(other.where, replace(other, parent=head.where))
    return replace(head, explained=tuple(by_name.values())[1:])


def _decided(target: JudgedTarget, explanation: Explanation) -> list[TestedSegment]:
    """Segments that one row decides and that no finding may explain: of other columns, and not most of the table."""
    listed_columns = {name for entry in explanation.listed for name in entry.segment.segment.names}
    max_weight = SAME_ROWS_SHARE * target.whole.weight
    unexplained = [
        segment
        for segment in target.decided_by_one_row
        if target.is_whole(segment)
        or (listed_columns.isdisjoint(segment.segment.names) and segment.weight <= max_weight)
    ]
    return sorted(unexplained, key=lambda segment: segment.adjusted_p)[:MAX_DECIDED]


def _with_tails(target: JudgedTarget, explanation: Explanation, ordered: OrderedFindings) -> OrderedFindings:
    """Add the tails of the score: exact ones by themselves, the others under what they are a part of.

    That is the whole table, or the segment that holds most of a tail, at least half of it.
    """
    ordered = list(ordered)
    tails = [tail for tail in target.tails if tail.adjusted_p <= target.multiplicity.level]
    for tail, untrimmed in zip(tails, findings(target, tails), strict=True):
        low, high = (
            untrimmed.interval
        )  # by clusters it may reach over 0, though the test by clusters does not
        interval = (max(low, 0.0), high) if untrimmed.gap > 0 else (low, min(high, 0.0))
        finding = replace(untrimmed, interval=interval)
        home = _home_of_tail(target, explanation, tail)
        if home is None:
            ordered.append((finding.at_least, finding))
        else:
            bound, head = ordered[home]
            child = replace(finding, parent=head.where)
            ordered[home] = bound, replace(head, explained=(*head.explained, child))
    return ordered


def _home_of_tail(target: JudgedTarget, explanation: Explanation, tail: TestedSegment) -> int | None:
    """The number of the listed segment under which a tail is shown."""
    listed = [entry.segment for entry in explanation.listed]
    if tail.n_searched == 1:
        return None
    for number, segment in enumerate(listed):
        if target.is_whole(segment):
            return number
    if not target.context.has_rows or not listed:  # which rows are shared cannot be told from sums
        return None
    shared = [Overlap(target.context, segment).weight(tail).sum() for segment in listed]
    return int(np.argmax(shared)) if max(shared) >= SAME_ROWS_SHARE * tail.weight else None


def findings(target: JudgedTarget, segments: Sequence[TestedSegment]) -> list[Finding]:
    """Segments as findings."""
    multiplicity = target.multiplicity
    gaps = np.array([segment.error / segment.weight for segment in segments])
    significant = [
        bool(segment.adjusted_p <= multiplicity.level and not segment.judgement.decisive_row)
        for segment in segments
    ]
    selected = list(compress(segments, significant))
    if selected:  # their gaps are larger than they would be without having been selected
        n_tests = np.array([multiplicity.n_tests_searched(segment) for segment in selected])
        bias = selection_bias(target.context, selected, n_tests, multiplicity.level)
        gaps[significant] = selection_adjusted_gap(gaps[significant], *bias)
    return [
        _finding(target, segment, real, shrunken)
        for segment, real, shrunken in zip(segments, significant, gaps.tolist(), strict=True)
    ]


def _finding(target: JudgedTarget, tested: TestedSegment, real: bool, shrunken: float) -> Finding:
    context, segment, judgement = target.context, tested.segment, tested.judgement
    units, scope = context.null_model.units, target.search.scope
    suffix = f" ({scope})" if scope and segment.kind != FindingKind.SCORE else ""
    form, score_ranges = form_and_ranges(tested, target)
    return Finding(
        code=segment.code or CODES[segment.kind],
        kind=segment.kind,
        where=segment.words + suffix,
        scope=scope,
        columns=segment.names,
        levels=segment.levels,
        **context.cell_summary(tested.raw),
        interval=_interval(context, target.multiplicity, tested),
        events_off=tested.error * units.scale,
        p_value=tested.adjusted_p,
        bound=judgement.p_resolution_reached,
        real=real,
        specific=judgement.specific and real,
        shrunken=shrunken * units.scale,
        form=form,
        score_ranges=score_ranges,
        condition=tuple(tested.conjunction.to_dict()),
        definition=tested.conjunction.words() if segment.needs_definition else None,
        response=context.raw.label if context.raw.label in MEANS else "",
        decided=tuple(map(units.back, judgement.decisive_row)),
    )


def _interval(
    context: SearchContext, multiplicity: Multiplicity, segment: TestedSegment
) -> tuple[float, float]:
    """The interval of the gap of a segment, simultaneous over the tests among which it was picked."""
    n_tests, level = multiplicity.n_tests_searched(segment), multiplicity.level
    if context.clustered:
        reach = adjusted_z(n_tests, level) * math.sqrt(context.cluster_variance(segment))
        low, high = (segment.error - reach) / segment.weight, (segment.error + reach) / segment.weight
    else:
        low, high = (float(ends[0]) for ends in context.gap_intervals(segment.raw, n_tests, level))
    scale = context.null_model.units.scale
    return low * scale, high * scale


def selection_bias(
    context: SearchContext, segments: Sequence[TestedSegment], n_tests: Floats, level: float
) -> tuple[Floats, Floats]:
    """The standard error of a segment's gap as it was observed, and the smallest gap that would be significant.

    The variance is not that of the model, which is wrong there: of rare events that were under-predicted it is far
    larger. Nor is it the squared sums of clusters, which hold the error itself.
    """
    critical_z = np.array([adjusted_z(number, level) for number in n_tests.tolist()])
    if context.clustered:
        pairs = [
            _cluster_selection_bias(context, segment, z)
            for segment, z in zip(segments, critical_z.tolist(), strict=True)
        ]
        errors, smallest = np.array(pairs).T
        return errors, smallest
    raw = CellSums.joined([segment.raw for segment in segments])
    error = np.sqrt(context.variance(raw)) / raw.weight
    if context.null_model.null == Null.RESIDUAL:
        return error, critical_z * error
    half = 0.5 * raw.weight2 / raw.weight  # an event, so that no rate is 0
    predicted, observed = (
        (events + half) / (raw.weight + 2.0 * half) for events in (raw.predicted, raw.observed)
    )
    ratio = observed * (1.0 - observed) / (predicted * (1.0 - predicted))
    return error * np.sqrt(ratio), _smallest_significant_gaps(context, raw, level / n_tests)


def _cluster_selection_bias(
    context: SearchContext, segment: TestedSegment, critical_z: float
) -> tuple[float, float]:
    """As `selection_bias`, of one segment with clusters.

    |ΣD| >= z·sqrt(ΣD²) solved for ΣD, D the sum of a cluster; its variance is that of D around its share.
    """
    target, members = context.raw, segment.members
    assert target.cluster is not None
    cluster, residual = target.cluster[members], weighted_residuals(target, members)
    size = np.bincount(cluster, None if target.mean_weight is None else target.mean_weight[members])
    total = size.sum()
    sums, share = np.bincount(cluster, residual)[size > 0], size[size > 0] / total
    squares = np.sum((sums - sums.sum() * share) ** 2)
    room = 1.0 - critical_z**2 * np.sum(share**2)
    variance = max(squares * sums.size / max(sums.size - 1, 1), np.sum(residual**2))
    smallest = critical_z * math.sqrt(squares / room) if room > 0 else math.inf
    return math.sqrt(variance) / total, smallest / total


def _smallest_significant_gaps(context: SearchContext, raw: CellSums, max_p_values: Floats) -> Floats:
    """The smallest gap of each cell, in its direction, whose p-value is as small; infinite if there is none."""
    start, end = raw.predicted, raw.observed
    cells, impossible = np.arange(start.size), np.zeros(start.size, bool)
    repeated = raw.map(lambda values: np.repeat(values, GRID_POINTS))
    for _ in range(2):
        observed = np.linspace(start, end, GRID_POINTS, axis=1)
        p_values = context.p_values(replace(repeated, observed=observed.ravel())).reshape(observed.shape)
        significant = p_values <= max_p_values[:, np.newaxis]
        impossible |= ~significant.any(axis=1)
        first = np.argmax(significant, axis=1)
        start, end = observed[cells, np.maximum(first - 1, 0)], observed[cells, first]
    return np.where(impossible, np.inf, np.abs(end - raw.predicted) / raw.weight)


def form_and_ranges(segment: TestedSegment, target: JudgedTarget) -> tuple[str, tuple[ScoreRange, ...]]:
    """The form of a segment, and the two ranges of the score that disagree if any do.

    That of all rows is found in the bins of the score that the report shows.
    """
    context, bins = target.context, target.score.tally
    if target.is_whole(segment):
        profile, edges = profile_of_tally(bins, context), bins.cells.edges
    elif segment.profile is not None:
        profile, edges = segment.profile.raw, context.score_grid.edges
    else:
        return Form.TOO_HIGH if segment.error >= 0 else Form.TOO_LOW, ()
    judgement, null_model = segment.judgement, context.null_model
    form, ends = miscalibration_form(
        profile.off, profile.variance, average=judgement.mean_significant, shape=judgement.shape_significant
    )
    units = null_model.units
    lowest, highest = (0.0, 1.0) if null_model.binary else (-math.inf, math.inf)
    bounds = [lowest, *units.back(edges[1:-1]).tolist(), highest]
    score_ranges = []
    for first, last in ends:
        sums: Any = profile.map(partial(_sum_of, slice(first, last + 1)))
        weight = max(sums.weight, 1e-300)
        rates = units.back(sums.predicted / weight), units.back(sums.observed / weight)
        gap = sums.off * units.scale
        score_ranges.append(ScoreRange(bounds[first], bounds[last + 1], int(sums.rows), *rates, gap))
    return form, tuple(score_ranges)


def _sum_of(cells: slice, values: Floats) -> float:
    return float(values[cells].sum())


MAX_CURVES = 60  # of the first findings
MAX_BINS, MIN_ROWS_PER_BIN = 10, 30
CURVE_COLUMNS = ("low", "high", "rows", "predicted", "observed", "gap", "gap_low", "gap_high", "p_adjusted")


def curves_of(targets: Sequence[JudgedTarget], heads: Iterable[Finding]) -> list[dict[str, Any]]:
    """For each significant finding `where`, `table` (its rows by bins of the score), and `of`, the rows counted.

    Intervals and p-values are simultaneous over all bins of one curve. Where the rows are a sample, so are the curves;
    where there are none, as with a summary file, there is no curve.
    """
    by_scope = {target.search.scope: target for target in targets}
    columns = Columns({grid.column.name: grid.column for grid in targets[0].columns})
    curves = []
    for finding in [finding for finding in flat(heads) if finding.real][:MAX_CURVES]:
        target, condition = by_scope[finding.scope], Conjunction.from_dict(finding.condition)
        if not condition.columns or {*condition.columns}.difference(columns):  # no column holds the score
            continue
        rows = np.flatnonzero(condition.rows(columns))
        if not (rows.size and target.context.has_rows):
            continue
        inside = target.context.raw.take(rows)
        bins = max(min(MAX_BINS, inside.rows // MIN_ROWS_PER_BIN), 1)
        null = target.score.settings.get("null", "bernoulli")
        edges = quantile_edges(inside.predicted, bins, inside.weight, inside.count)
        pooling = BinPooling(inside.predicted, Ranges(edges, name=OF_SCORE))
        null_model = choose_null(inside, null)
        cells = evaluate_cells(inside, pooling, null_model, draws=99).cell_columns(band=False)
        table = {name: cells[name].tolist() for name in CURVE_COLUMNS}
        curves.append({"where": finding.where, "of": inside.rows, "table": table})
    return curves

"""Test everything that was proposed, adjust over the whole audit, and say of each significant segment what it is.

The rule: `judge` takes the searches of all targets and returns new values, one `JudgedTarget` for each; what it took is
unchanged. It decides by p-values alone, never by words.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.auditing.search.candidates import Candidate, RowMaskSegment
from miscal.auditing.search.cell_grids import (
    MAX_VARIANCE_SHARE,
    CellGrid,
    GridId,
    sums_of_rows,
)
from miscal.auditing.search.evidence import RawAndRecalibrated
from miscal.auditing.search.families import Multiplicity, TestCollector, testable_p_values
from miscal.auditing.search.score_profiles import profile_of_tally, profiles_of_codes
from miscal.auditing.search.score_tails import tail_segments
from miscal.auditing.search.search_context import SearchContext, residual_variance_share
from miscal.auditing.search.segment_tests import (
    MEAN_TEST,
    attach_profiles,
    kuiper_range_test,
    mean_cells,
    profile_test,
    segment_shape_test,
)
from miscal.auditing.search.target_search import TargetSearch
from miscal.auditing.search.tested_segments import TestedSegment, segment_with_sums
from miscal.cells.ranges import bin_index
from miscal.codes.audit import Family, FindingKind
from miscal.metrics.score import ScoreResult
from miscal.stats.cell_sums import Floats
from miscal.stats.score_shape import shape_test

ALMOST_ALL = 0.98  # of the weight: a segment that holds so much is the whole table under another name


@dataclass(frozen=True, eq=False)
class JudgedTarget:
    """What the tests say of one target.

    Attributes
    ----------
    search : TargetSearch
        What was proposed.
    multiplicity : Multiplicity
        How many tests the audit made.
    whole : TestedSegment
        All rows.
    whole_significant : bool
        Whether they are significant by either test, and not because of one row.
    segments : tuple of TestedSegment
        The significant ones, each once.
    decided_by_one_row : tuple of TestedSegment
        Those that one row makes significant.
    tails : tuple of TestedSegment
        Both ends of the scores, whether significant or not.
    cell_p_values : mapping of grid id to ndarray
        P-values of the cells of categorical columns, NaN where no outcome could have made them significant.
    min_profile_p : mapping of grid id to float
        The smallest p-value of the shape tests of each column, corrected for their number.
    """

    search: TargetSearch
    multiplicity: Multiplicity
    whole: TestedSegment
    whole_significant: bool
    segments: tuple[TestedSegment, ...]
    decided_by_one_row: tuple[TestedSegment, ...]
    tails: tuple[TestedSegment, ...]
    cell_p_values: Mapping[GridId, Floats]
    min_profile_p: Mapping[GridId, float]

    @property
    def context(self) -> SearchContext:
        """What is compared."""
        return self.search.context

    @property
    def score(self) -> ScoreResult:
        """By score."""
        return self.search.shown_score

    @property
    def columns(self) -> tuple[CellGrid, ...]:
        """The columns."""
        return self.search.columns

    def p_values(self, grid: CellGrid) -> Floats:
        """P-values of the cells of a grid, NaN where they could not be tested."""
        return self.cell_p_values.get(grid.id, grid.p_value)

    def is_whole(self, segment: TestedSegment) -> bool:
        """Whether a segment is the one of all rows."""
        return segment.id == self.whole.id

    @property
    def total_variance(self) -> float:
        """Variance of the sum of all weighted residuals after global recalibration."""
        if not self.columns:
            return math.inf
        return float(self.context.variance(self.columns[0].recalibrated).sum())


@dataclass(eq=False)
class _TargetTests:
    """The tests of one target, until those of the whole audit are adjusted."""

    search: TargetSearch
    whole: TestedSegment
    whole_shape: TestedSegment
    tails: list[TestedSegment]
    candidates: list[TestedSegment]
    cell_p_values: dict[GridId, Floats]
    min_profile_p: dict[GridId, float]


def judge(searches: Sequence[TargetSearch], level: float) -> list[JudgedTarget]:
    """Test everything that was proposed; pairs and further searches are those of the first target."""
    collector = TestCollector(level)
    tests = [column_tests(search, collector) for search in searches]
    first, search = tests[0], searches[0]
    for family, number in search.skipped_tests:
        collector.skip(family, number)
    families: dict[Family, list[CellGrid]] = {}
    for grid in sorted(search.pairs, key=lambda grid: grid.has_order):  # categories first
        families.setdefault(grid.family, []).append(grid)
    for grids in families.values():
        _test_grids(first, collector, grids)
    for family, row_search in search.row_searches.items():
        collector.add_search(family, row_search.n_searched, row_search.segments)
        first.candidates += row_search.segments
    multiplicity, adjusted_p = collector.finish()
    return [_judged(of_target, multiplicity, adjusted_p) for of_target in tests]


def column_tests(search: TargetSearch, collector: TestCollector) -> _TargetTests:
    """Test the score and every column of one target."""
    context, kuiper = search.context, search.shown_score.kuiper
    # A simulated p-value cannot be small enough for a share of thousands of tests: it has a family of its own.
    family = Family.SCORE if kuiper.simulated else Family.COLUMNS
    profile = _whole_profile(search)
    rows = np.arange(context.raw.rows)
    sums = search.whole_sums or (sums_of_rows(context.raw, rows), sums_of_rows(context.recalibrated, rows))
    segment = RowMaskSegment(FindingKind.SCORE, np.ones(rows.size, bool), search.scope or "the whole table")
    whole = segment_with_sums(
        Candidate(segment, family),
        *sums,
        kuiper.p_value,
        p_resolution_reached=kuiper.simulated_bound,
        score_profile=profile,
    )
    shape_p_value = float(np.fmin(profile_test(profile.raw, context).p_value, 1.0))
    whole_shape = segment_with_sums(
        Candidate(segment, Family.COLUMNS), *sums, shape_p_value, score_profile=profile
    )
    tails = tail_segments(search)
    for one in (whole, whole_shape, *tails):
        collector.family(one.family).add([one])
    tests = _TargetTests(search, whole, whole_shape, tails, [], {}, {})
    _test_grids(tests, collector, search.columns)
    return tests


def _whole_profile(search: TargetSearch) -> RawAndRecalibrated:
    """The sums of all rows by the score, in the cells in which segments have theirs."""
    context, bins = search.context, search.shown_score.tally
    # Of a column with very many categories only the largest have profiles, which do not add up to all rows.
    for grid in search.columns:
        if grid.profiles is not None and grid.profiles.raw.rows.sum() == bins.rows.sum():
            return grid.profiles.map(lambda values: values.sum(axis=0))
    if context.is_sample:
        profile = profile_of_tally(bins, context)
        return RawAndRecalibrated(profile, profile)
    return profiles_of_codes(context, np.zeros(context.raw.rows, np.int32), 1).map(lambda values: values[0])


def _test_grids(tests: _TargetTests, collector: TestCollector, grids: Sequence[CellGrid]) -> None:
    """Test cells and blocks of grids of one family, for their mean and their shape."""
    tests.cell_p_values |= testable_p_values([grid for grid in grids if not grid.has_order], collector.level)
    mean_tests: tuple[Callable[[Any, CellGrid], list[TestedSegment]], ...] = (
        lambda family, grid: MEAN_TEST.test_cells(
            family, grid, *mean_cells(grid, tests.cell_p_values.get(grid.id, grid.p_value))
        ),
        MEAN_TEST.test_blocks,
        kuiper_range_test,
    )
    for mean_test in mean_tests:
        for grid in grids:
            tests.candidates += mean_test(collector.family(grid.family), grid)
    for grid in grids:
        shape = tests.search.shape_tests_of(grid)
        collector.family(grid.family).add(shape.tests.segments, shape.tests.other_p_values)
        tests.candidates += shape.candidates
        tests.min_profile_p[grid.id] = shape.min_p


def _judged(
    tests: _TargetTests, multiplicity: Multiplicity, adjusted_p: Mapping[TestedSegment, float]
) -> JudgedTarget:
    """What the adjusted p-values say of one target."""

    def adjusted(segment: TestedSegment) -> TestedSegment:
        # One without a test of its own is adjusted as if it were the first of its family.
        known = adjusted_p.get(segment)
        p_value = multiplicity.bonferroni(segment) if known is None or math.isnan(known) else known
        return segment.judged(adjusted_p=p_value)

    candidates = [adjusted(segment) for segment in tests.candidates]
    whole, whole_shape = (
        segment.judged(adjusted_p=adjusted_p[segment]) for segment in (tests.whole, tests.whole_shape)
    )
    tails = [tail.judged(adjusted_p=adjusted_p[tail]) for tail in tests.tails]
    draft = JudgedTarget(
        tests.search,
        multiplicity,
        whole,
        False,
        (),
        (),
        tuple(tails),
        tests.cell_p_values,
        tests.min_profile_p,
    )
    return _classified(draft, candidates, whole_shape)


def _classified(
    target: JudgedTarget, candidates: Sequence[TestedSegment], whole_shape: TestedSegment
) -> JudgedTarget:
    """The target with its significant segments, and those that one row makes significant."""
    context, multiplicity = target.context, target.multiplicity
    significant = attach_profiles(_significant(candidates, target), context)
    significant = [classify(segment, context, multiplicity, target.total_variance) for segment in significant]
    significant = with_decisive_rows(significant, context, multiplicity)
    decided = [segment for segment in significant if segment.judgement.decisive_row]
    whole = _judged_whole(target, whole_shape)
    whole_significant = whole.adjusted_p <= multiplicity.level
    if whole_significant:
        (whole,) = with_decisive_rows([whole], context, multiplicity)
    if whole.judgement.decisive_row:
        decided.append(whole)
        whole_significant = False
    return replace(
        target,
        whole=whole,
        whole_significant=whole_significant,
        segments=tuple(segment for segment in significant if not segment.judgement.decisive_row),
        decided_by_one_row=tuple(decided),
    )


def _significant(candidates: Sequence[TestedSegment], target: JudgedTarget) -> list[TestedSegment]:
    """The significant candidates, each set of rows once.

    What is nearly the whole table is left to the finding about the whole table. Of several names for the same rows
    (a category, and a pair of columns one of which is redundant with the other) the simplest is kept.
    """
    max_weight = ALMOST_ALL * target.whole.weight
    by_sums: dict[tuple[float, ...], TestedSegment] = {}
    for segment in candidates:
        if not segment.adjusted_p <= target.multiplicity.level or segment.weight >= max_weight:
            continue
        sums = segment.raw.rows[0], segment.raw.predicted[0], segment.raw.observed[0]
        other = by_sums.get(sums, segment)
        simplest = min(
            other, segment, key=lambda one: (len(one.segment.names), one.n_searched, one.adjusted_p)
        )
        by_sums[sums] = simplest.judged(adjusted_p=min(other.adjusted_p, segment.adjusted_p))
    return list(by_sums.values())


def classify(
    segment: TestedSegment, context: SearchContext, multiplicity: Multiplicity, total_variance: float
) -> TestedSegment:
    """Say which of its two tests a significant segment fails, and whether either also fails after recalibration.

    Each is corrected as the segment was when it was picked: all that was tested counts. What is significant by neither
    alone (a Kuiper test sees both together) is what it is more of.
    """
    level, n_tests = multiplicity.level, multiplicity.n_tests_searched(segment)
    mean_p, (shape_p, direction) = context.segment_p_value(segment), segment_shape_test(segment, context)
    mean_significant, shape_significant = (p_value * n_tests <= level for p_value in (mean_p, shape_p))
    if not (mean_significant or shape_significant):
        mean_significant, shape_significant = mean_p <= shape_p, shape_p < mean_p
    segment = segment.judged(mean_significant=mean_significant, shape_significant=shape_significant)
    recalibrated = segment.evidence.recalibrated
    variance = context.variance(recalibrated)[0]
    if variance > MAX_VARIANCE_SHARE * total_variance:
        return segment
    recalibrated_shape_p, recalibrated_direction = segment_shape_test(
        segment, context, residual_variance_share(variance, total_variance), recalibrated=True
    )
    same_direction = recalibrated.off[0] * segment.error > 0
    recalibrated_mean_p = context.recalibrated_p_value(segment, total_variance)
    by_mean = mean_significant and same_direction and recalibrated_mean_p * n_tests <= level
    corrected_shape_p = recalibrated_shape_p * multiplicity.n_effective_tests_searched(segment)
    by_shape = shape_significant and direction * recalibrated_direction > 0 and corrected_shape_p <= level
    return segment.judged(specific=bool(by_mean or by_shape))


def _judged_whole(target: JudgedTarget, whole_shape: TestedSegment) -> TestedSegment:
    """The segment of all rows, by the smaller of its two p-values, and which of its tests fail."""
    whole, level = target.whole, target.multiplicity.level
    if whole_shape.adjusted_p < whole.adjusted_p:
        whole = whole.judged(adjusted_p=whole_shape.adjusted_p, p_resolution_reached=False)
    if not whole.adjusted_p <= level:
        return whole
    mean_significant = target.context.segment_p_value(whole) <= level
    # Significant, yet not on average: it is its shape that is miscalibrated, whatever its mean happens to be.
    shape_significant = not mean_significant
    if mean_significant and whole.profile is not None:
        raw = whole.profile.raw
        shape_significant = bool(shape_test(raw.off, raw.variance).p_value <= level)
    return whole.judged(mean_significant=mean_significant, shape_significant=shape_significant)


# Segments that one row decides: an amount of a million can make any segment significant that holds it.


def with_decisive_rows(
    segments: Sequence[TestedSegment], context: SearchContext, multiplicity: Multiplicity
) -> list[TestedSegment]:
    """Note the row without which a segment is not significant, where there is one; events have none.

    Among all that was tested; where that is too severe for the segment as it is, as much less likely as it gets. A
    p-value at the resolution of its simulations says nothing of that.
    """
    if context.null_model.binary or not segments:
        return list(segments)
    judged = []
    for undecided, row in zip(segments, context.largest_residuals(segments), strict=True):
        before, after = (_p_value_without(undecided, context, row, times) for times in (0.0, 1.0))
        correction: float = multiplicity.n_tests_searched(undecided)
        if before * correction > multiplicity.level:
            at_resolution = undecided.judgement.p_resolution_reached
            correction = 0.0 if at_resolution else undecided.adjusted_p / max(before, 1e-300)
        if after * correction > multiplicity.level:
            judged.append(undecided.judged(decisive_row=(float(row[1]), float(row[2]))))
        else:
            judged.append(undecided)
    return judged


def _p_value_without(segment: TestedSegment, context: SearchContext, row: Floats, times: float) -> float:
    """The smaller of the p-values by which a segment was judged, with a row taken out of it so many times."""
    p_values, profile, grid = [], segment.profile, context.score_grid
    if segment.judgement.mean_significant:
        p_values.append(context.p_values(_subtract_row(segment.raw, row, times))[0])
    if segment.judgement.shape_significant and profile is not None and profile.raw.off.size == grid.n_cells:
        in_cell = np.arange(grid.n_cells) == bin_index(row[1:2], grid.edges)
        p_values.append(profile_test(_subtract_row(profile.raw, row, times * in_cell), context).p_value)
    return float(np.fmin(min(p_values, default=1.0), 1.0))


def _subtract_row(sums: Any, row: Floats, times: Any) -> Any:
    """Sums without a row, of its weight, prediction and outcome."""
    weight, predicted, observed = row
    squared = (weight * (observed - predicted)) ** 2
    of_row = {
        "rows": 1.0,
        "weight": weight,
        "weight2": weight**2,
        "predicted": weight * predicted,
        "observed": weight * observed,
        "residual2": squared,
        "noise": squared,
    }
    return type(sums)(*(values - times * of_row.get(name, 0.0) for name, values in vars(sums).items()))

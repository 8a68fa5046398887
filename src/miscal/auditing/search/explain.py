"""Which significant segments explain the others: the order in which a report lists them.

The rule: the input is a `JudgedTarget`, the output an `Explanation`; nothing that comes in is changed. What is left of
the errors while segments are corrected one after the other is private to this module (`_OpenSegment`). Another way of
selecting segments replaces `explain` and keeps both types.

The segment with the largest lower bound of events off is listed and corrected, then the others are tested again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from miscal.auditing.search.cell_grids import CellGrid, GridId, best_blocks
from miscal.auditing.search.judge import JudgedTarget, with_decisive_rows
from miscal.auditing.search.overlap import Overlap
from miscal.auditing.search.search_context import residual_variance_share
from miscal.auditing.search.segment_tests import attach_profiles
from miscal.auditing.search.tested_segments import TestedSegment, block_with_sums
from miscal.data.arrays import Array
from miscal.stats.cell_sums import Floats
from miscal.stats.multiplicity import adjusted_z
from miscal.stats.normal import normal_z
from miscal.stats.score_shape import miscalibration_form, shape_test

COMPETING_SHARE = 0.3  # bounds above this share of the largest compete for explaining the same rows
SAME_ROWS_SHARE = 0.5  # segments that share this part of the smaller one's weight are about the same rows
SIMPLER_SHARE = 0.5  # of a segment that a simpler one must hold
SIMPLER_MARGIN = 1.1  # times the bound of a simpler segment, from which a further column is worth it
MAX_LISTED = 40  # segments; the others are counted
MAX_COLUMN_SETS = 15  # columns and combinations of columns to which they may belong
MIN_BOUND_SHARE = 0.03  # a segment whose bound is below this share of the first one's is not listed


@dataclass(frozen=True, eq=False)
class ExplainedSegment:
    """A listed segment with those that it explains.

    Attributes
    ----------
    segment : TestedSegment
        The one that is listed.
    events_off_lower_bound : float
        Lower bound of its events off, when it was listed.
    explained : tuple of TestedSegment
        Those that are not significant any more once it is corrected.
    """

    segment: TestedSegment
    events_off_lower_bound: float
    explained: tuple[TestedSegment, ...]


@dataclass(frozen=True, eq=False)
class Explanation:
    """The significant segments of one target, in the order in which they are listed.

    Attributes
    ----------
    listed : tuple of ExplainedSegment
        Segments that no other explains.
    n_unlisted : int
        Segments that were still significant when the list ended.
    """

    listed: tuple[ExplainedSegment, ...]
    n_unlisted: int


def explain(target: JudgedTarget) -> Explanation:
    """Select the segments that no other explains.

    First those that are significant after global recalibration. When they are corrected, the whole table if it is still
    miscalibrated as predicted, and then what is left of the other segments, as predicted too.
    """
    specific = _Selection(target, [one for one in target.segments if one.judgement.specific])
    listed = specific.select()
    whole = [target.whole] if target.whole_significant else []
    known = {one.id for entry in listed for one in (entry.segment, *entry.explained)}
    others = [segment for segment in target.segments if segment.id not in known]
    general = _Selection(target, [*whole, *others], recalibrated=False)
    listed = [_with_general(entry, general, target) for entry in listed]
    for still_open in [one for one in general.open if target.is_whole(one.tested)]:
        entry = general.accept(still_open)
        if not target.context.has_rows:  # sums alone: what is not specific is explained by the whole table
            entry = _explaining(entry, [one.tested for one in general.open])
            general.open = []
        listed.append(entry)
    listed += general.select()
    return Explanation(tuple(listed), specific.n_unlisted + general.n_unlisted)


def _with_general(entry: ExplainedSegment, general: "_Selection", target: JudgedTarget) -> ExplainedSegment:
    """The entry of a specific segment with what it explains of the errors as predicted."""
    segment = entry.segment
    profile = segment.profile
    by_score = profile is not None and segment.judgement.shape_significant
    error = profile.raw.off if profile is not None and by_score else segment.raw.off
    explained = general.subtract_gap(segment, error)
    return _explaining(entry, [one for one in explained if not target.is_whole(one)])


def _explaining(entry: ExplainedSegment, further: Sequence[TestedSegment]) -> ExplainedSegment:
    return ExplainedSegment(entry.segment, entry.events_off_lower_bound, (*entry.explained, *further))


@dataclass(eq=False)
class _OpenSegment:
    """A segment that is not listed yet, and what is left of its error.

    Attributes
    ----------
    initial_error, remaining_error : ndarray
        Its error in each cell of the score, at first and once others were corrected; one number where profiles are not
        known.
    z_needed, shape_z_needed : float
        z from which its mean or its shape is significant, and from which its shape is after global recalibration.
    deviation : float
        Standard deviation of the sum of its error.
    variance : ndarray or None
        Variance of its error in each cell of the score.
    shape_z : float
        What is left of its shape, as a normal z.
    raw_shape_bound : float
        Lower bound of its events off by shape, as predicted; NaN until it is asked for.
    """

    tested: TestedSegment
    initial_error: Floats
    z_needed: float
    shape_z_needed: float
    deviation: float
    variance: Floats | None
    remaining_error: Floats
    shape_z: float = 0.0
    raw_shape_bound: float = math.nan

    @property
    def mean_z(self) -> float:
        """What is left of its mean error, in standard errors."""
        return abs(float(self.remaining_error.sum())) / self.deviation

    @property
    def z(self) -> float:
        """What is left of its error, of its mean or its shape."""
        return max(self.mean_z, self.shape_z)

    def leave(self, remaining_error: Array) -> None:
        """Note what is left of its error."""
        self.remaining_error, self.shape_z = remaining_error, 0.0
        has_shape = self.tested.judgement.shape_significant and remaining_error.size > 1
        if has_shape and self.variance is not None:
            self.shape_z = float(normal_z(shape_test(remaining_error, self.variance).p_value))


class _Selection:
    """The segments that are open, and what is left of the errors after those listed were corrected."""

    def __init__(
        self, target: JudgedTarget, segments: Sequence[TestedSegment], *, recalibrated: bool = True
    ) -> None:
        self.target, self.context, self.multiplicity = target, target.context, target.multiplicity
        self.recalibrated = recalibrated
        # The last overlap is kept: the segment that is chosen is corrected next.
        self.overlap = lru_cache(1)(partial(Overlap, self.context))
        self.total_variance = target.total_variance if recalibrated else math.inf
        self.critical_z = adjusted_z(self.multiplicity.n_tests, self.multiplicity.level)
        # What is left of the error of each cell, where further ranges are searched: only after recalibration.
        self.grids = {grid.id: grid for grid in target.columns if grid.n_ordered and recalibrated}
        self.cell_errors: dict[GridId, Floats] = {
            grid_id: grid.recalibrated.off for grid_id, grid in self.grids.items()
        }
        self.open = [self._opened(segment) for segment in segments]
        self.n_unlisted = 0

    def _opened(self, tested: TestedSegment) -> _OpenSegment:
        """A segment with all of its error, by the score where that is known."""
        profile = tested.profile and tested.profile.select(recalibrated=self.recalibrated)
        multiplicity, variance = self.multiplicity, None
        if profile:
            error = profile.off
            total = profile.variance.sum()
            variance = profile.variance * residual_variance_share(total, self.total_variance)
        else:
            error = tested.evidence.sums(recalibrated=self.recalibrated).off
        segment = _OpenSegment(
            tested,
            initial_error=error,
            z_needed=adjusted_z(multiplicity.n_tests_searched(tested), multiplicity.level),
            shape_z_needed=adjusted_z(multiplicity.n_effective_tests_searched(tested), multiplicity.level),
            deviation=self.context.segment_deviation(
                tested, self.total_variance, recalibrated=self.recalibrated
            ),
            variance=variance,
            remaining_error=error,
        )
        segment.leave(error)
        return segment

    def select(self) -> list[ExplainedSegment]:
        """List segments until none is significant any more."""
        listed: list[ExplainedSegment] = []
        while True:
            candidates = self._candidates()
            if not candidates:
                return listed
            chosen = self._choose(candidates)
            column_sets = {entry.segment.segment.names for entry in listed} | {chosen.tested.segment.names}
            full = len(listed) >= MAX_LISTED or len(column_sets) > MAX_COLUMN_SETS
            if full or (listed and self._bound(chosen) < MIN_BOUND_SHARE * listed[0].events_off_lower_bound):
                self.n_unlisted += len(candidates)
                return listed
            listed.append(self.accept(chosen))

    def accept(self, segment: _OpenSegment) -> ExplainedSegment:
        """List a segment and correct it, whatever the others are worth."""
        bound = max(self._bound(segment), 0.0)
        explained = self.subtract_gap(segment.tested, segment.remaining_error)
        return ExplainedSegment(segment.tested, bound, tuple(explained))

    def _candidates(self) -> list[_OpenSegment]:
        """Segments that are still significant, and the worst range of each numeric column in what is left."""
        candidates = [segment for segment in self.open if self._still_significant(segment)]
        for grid in self.grids.values():
            worst = self._worst_range(grid)
            if worst is not None and worst.tested.id not in {segment.tested.id for segment in candidates}:
                candidates.append(worst)
        return candidates

    def _still_significant(self, segment: _OpenSegment) -> bool:
        """Whether what is left of a segment is significant, given the ranges that were searched."""
        by_shape = self.recalibrated and segment.shape_z >= segment.shape_z_needed
        return segment.z >= segment.z_needed or by_shape

    def _worst_range(self, grid: CellGrid) -> _OpenSegment | None:
        """The worst range of a numeric column in what is left, if it is significant as predicted too."""
        context, multiplicity, cell_error = self.context, self.multiplicity, self.cell_errors[grid.id]
        best = best_blocks(grid, cell_error, self.total_variance, recalibrated=True)
        if not best:
            return None
        block, z = best[0]
        tested = block_with_sums(grid, block, grid.n_blocks, math.nan)
        tested = tested.judged(p_value=context.segment_p_value(tested) * grid.n_blocks, specific=True)
        tested = tested.judged(adjusted_p=multiplicity.bonferroni(tested))
        error = grid.sum_block(cell_error, block)
        too_small = z < adjusted_z(multiplicity.n_tests_searched(tested), multiplicity.level)
        if too_small or error * tested.error <= 0 or not tested.adjusted_p <= multiplicity.level:
            return None
        (tested,) = attach_profiles([tested], context)
        if context.find_largest is None:
            (tested,) = with_decisive_rows([tested], context, multiplicity)
        if tested.judgement.decisive_row:
            return None
        segment = self._opened(tested)
        segment.initial_error = segment.remaining_error = error.reshape(1)
        return segment

    def _choose(self, candidates: Sequence[_OpenSegment]) -> _OpenSegment:
        """The largest bound, or the segment among those of about the same rows that describes it best.

        Among overlapping segments with bounds that are not much smaller, the one with the largest z²/2 less the
        logarithm of how many such segments there were: what the data say for it, less the freedom of having searched.
        """
        bounds = {segment: self._bound(segment) for segment in candidates}
        cost = {
            segment: math.log(self.multiplicity.n_tests_searched(segment.tested)) for segment in candidates
        }
        top = max(candidates, key=lambda segment: (bounds[segment], -cost[segment]))
        competing = [
            segment
            for segment in candidates
            if (bounds[segment] >= COMPETING_SHARE * bounds[top] or cost[segment] <= cost[top])
            and (segment is top or same_direction(segment.tested, top.tested))
        ]
        overlap = self.overlap(top.tested)
        overlap.precompute([segment.tested for segment in competing])
        same_rows = [
            segment
            for segment in competing
            if segment is top
            or overlap.weight(segment.tested).sum()
            >= SAME_ROWS_SHARE * min(segment.tested.weight, top.tested.weight)
        ]
        chosen = max(same_rows, key=lambda segment: 0.5 * segment.z**2 - cost[segment])
        return self._simpler(chosen, bounds)

    def _simpler(self, chosen: _OpenSegment, bounds: dict[_OpenSegment, float]) -> _OpenSegment:
        """A segment of fewer of its columns that holds it, if the rest of that segment has the same gap, or one too.

        The same: they differ by no more than chance makes the best of as many parts as could have been chosen.
        """
        names, overlap = set(chosen.tested.segment.names), self.overlap(chosen.tested)
        n_parts = chosen.tested.n_searched * max(len(self.target.columns), 1)
        alike_z = adjusted_z(n_parts, self.multiplicity.level)
        for wider in sorted(bounds, key=lambda segment: len(segment.tested.segment.names)):
            is_simpler = set(wider.tested.segment.names) < names
            if not (is_simpler and same_direction(wider.tested, chosen.tested)):
                continue
            share = overlap.weight(wider.tested).sum() / chosen.tested.weight
            if share < SIMPLER_SHARE or wider.tested.weight <= share * chosen.tested.weight:
                continue
            (effect, rest), errors = effects(chosen, wider, share, recalibrated=self.recalibrated)
            difference_z = abs(effect - rest) / math.hypot(*errors)
            both = effect * rest > 0 and abs(rest) >= alike_z * errors[1]
            if difference_z <= alike_z or (both and SIMPLER_MARGIN * bounds[wider] >= bounds[chosen]):
                return wider
        return chosen

    def _bound(self, segment: _OpenSegment) -> float:
        """Lower bound of events off: the smaller of what is left after recalibration and of what was predicted."""
        tested = segment.tested
        raw_deviation = math.sqrt(self.context.variance(tested.raw)[0])
        remaining = abs(float(segment.remaining_error.sum())) - self.critical_z * segment.deviation
        by_mean = min(remaining, abs(tested.error) - self.critical_z * raw_deviation)
        if tested.profile is None or not segment.shape_z:
            return by_mean
        if math.isnan(segment.raw_shape_bound):
            raw = tested.profile.raw
            raw_z = float(normal_z(shape_test(raw.off, raw.variance).p_value))
            segment.raw_shape_bound = self._shape_bound(raw.off, raw.variance, raw_z)
        profile = tested.profile.select(recalibrated=self.recalibrated)
        remaining = self._shape_bound(segment.remaining_error, profile.variance, segment.shape_z)
        return max(by_mean, min(remaining, segment.raw_shape_bound))

    def _shape_bound(self, error: Array, variance: Array, shape_z: float) -> float:
        """Lower bound of events off in the ranges of the score that disagree, added."""
        _, ends = miscalibration_form(error, variance, average=False, shape=True)
        events = float(sum(abs(error[first : last + 1].sum()) for first, last in ends))
        return events * max(0.0, 1.0 - self.critical_z / max(shape_z, 1e-300))

    def subtract_gap(self, segment: TestedSegment, error: Array) -> list[TestedSegment]:
        """Take the gaps of a segment out of its rows; return the segments that it explains.

        Explained is what lies in it by at least half of its own rows, has an error of the same direction, and is not
        significant once this segment alone is corrected; what it takes several segments to explain is listed under
        none. Where a sample shows which rows segments share, only what so many of its rows make certain counts: what
        too few show is not explained.
        """
        overlap, weight = self.overlap(segment), segment.raw.weight
        if segment.profile is not None and error.size == self.context.score_grid.n_cells > 1:
            weight = segment.profile.raw.weight
        else:
            error = error.sum(keepdims=True)
        gap = error / np.where(weight > 0, weight, math.inf)
        for grid_id, grid in self.grids.items():
            change = (gap * overlap.cell_weights(grid)).sum(axis=1)
            self.cell_errors[grid_id] = self.cell_errors[grid_id] - change
        others = [other for other in self.open if other.tested.id != segment.id]
        overlap.precompute([other.tested for other in others])
        still_open: list[_OpenSegment] = []
        explained: list[TestedSegment] = []
        for other in others:
            shared = overlap.weight_lower_bound(other.tested)
            change = _in_cells_of(other, gap * shared)
            was_significant = self._still_significant(other)
            other.leave(other.remaining_error - change)
            if was_significant and self._still_significant(other):
                still_open.append(other)
            elif shared.sum() >= SAME_ROWS_SHARE * other.tested.weight and same_direction(
                other.tested, segment
            ):
                other.leave(other.initial_error - change)  # by this segment alone
                explained += [] if self._still_significant(other) else [other.tested]
        self.open = still_open
        return explained


def _in_cells_of(segment: _OpenSegment, change: Array) -> Array:
    """A change of the error of a segment, in the cells in which its error is known."""
    if segment.remaining_error.size == change.size:
        return change
    profile = segment.tested.profile
    weight = np.ones(1) if profile is None else profile.raw.weight
    return np.asarray(change.sum() * weight / weight.sum())


def same_direction(segment: TestedSegment, other: TestedSegment) -> bool:
    """Whether the gaps of two segments have one sign; a segment with a significant shape alone has none."""
    both = segment.judgement.mean_significant and other.judgement.mean_significant
    return not both or segment.error * other.error > 0


def effects(
    chosen: _OpenSegment, wider: _OpenSegment, share: float, *, recalibrated: bool
) -> tuple[Floats, Floats]:
    """The gap (or the tilt of the shape) of a segment and of the rest of a wider one, with their standard errors.

    Parameters
    ----------
    share : float
        The part of the segment that lies in the wider one, and so does as much of its error.
    """

    def split(of_chosen: Floats | float, of_wider: Floats | float) -> Floats:
        return np.array([of_chosen, of_wider - share * of_chosen])

    chosen_profile, wider_profile = chosen.tested.profile, wider.tested.profile
    if chosen.shape_z <= chosen.mean_z or chosen_profile is None or wider_profile is None:
        weights = split(chosen.tested.weight, wider.tested.weight)
        errors = split(chosen.remaining_error.sum(), wider.remaining_error.sum())
        variances = np.maximum(split(chosen.deviation**2, wider.deviation**2), 1e-300)
        return errors / weights, np.sqrt(variances) / weights
    chosen_variance = chosen_profile.select(recalibrated=recalibrated).variance
    wider_variance = wider_profile.select(recalibrated=recalibrated).variance
    lever = np.cumsum(wider_variance) / max(wider_variance.sum(), 1e-300) - 0.5
    errors = split(chosen.remaining_error, wider.remaining_error)
    variances = np.maximum(split(chosen_variance, wider_variance), 0.0)
    information = np.maximum(np.sum(variances * lever * lever, axis=1), 1e-300)
    return np.sum(errors * lever, axis=1) / information, 1.0 / np.sqrt(information)

"""The two tests of segments, of their mean and of their shape: which cells and blocks they pick, and their p-values.

Both pick candidates in the same way (`SegmentTest`): every cell of categories and of missing values, and the best block
of ordered cells. They differ in the p-value. The mean test reads sums of cells. The shape test reads cumulative
differences by the score, from sums in cells of segment and score; these add, so that they are the same in memory, in
parts and on a cluster.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from miscal.auditing.search.candidates import BlockSegment, RowMaskSegment
from miscal.auditing.search.cell_grids import (
    CellBlock,
    CellGrid,
    ScoredBlocks,
    best_blocks,
    furthest_blocks,
    grid_profiles,
)
from miscal.auditing.search.evidence import RawAndRecalibrated, ScoreProfile
from miscal.auditing.search.families import FamilyOfTests
from miscal.auditing.search.score_profiles import profiles_of_codes
from miscal.auditing.search.search_context import SearchContext
from miscal.auditing.search.tested_segments import TestedSegment, block_with_sums
from miscal.data.arrays import Array
from miscal.stats.cell_sums import EFFECTIVE_EVENTS, Floats
from miscal.stats.score_shape import ShapeTest, shape_test
from miscal.stats.sign_flip import clustered_sum_p

# Only cells and blocks with at most these p-values become candidates; the others are counted.
MAX_CELL_P, MAX_BLOCK_P = 0.05, 0.001


class SegmentTest(NamedTuple):
    """One of the two tests, of means or of shapes.

    Attributes
    ----------
    blocks : callable
        The best blocks of a grid that has an order, raw or recalibrated, with their p-values.
    segment_p_value : callable
        The p-value of a segment, over whole clusters where there are any, from that over rows.
    """

    blocks: Callable[[CellGrid, bool], ScoredBlocks]
    segment_p_value: Callable[[TestedSegment, SearchContext, float], float]

    def test_blocks(self, tests: FamilyOfTests, grid: CellGrid) -> list[TestedSegment]:
        """Test the best blocks; those that are best after recalibration are no tests, but are candidates too."""
        candidates: list[TestedSegment] = []
        for recalibrated in (False, True) if grid.has_order else ():
            blocks = self.blocks(grid, recalibrated)
            small = [(block, p_value) for block, p_value in blocks if p_value <= MAX_BLOCK_P]
            segments = self._test(small, grid, grid.n_blocks)
            if not recalibrated:
                tests.add(
                    segments, [p_value * grid.n_blocks for _, p_value in blocks if p_value > MAX_BLOCK_P]
                )
            candidates += segments
        return candidates

    def test_cells(
        self, tests: FamilyOfTests, grid: CellGrid, cells: Array, p_values: Floats
    ) -> list[TestedSegment]:
        """Add cells with their p-values as tests; those with small ones are candidates."""
        small = p_values <= MAX_CELL_P
        blocks = map(grid.block_of_cell, cells[small].tolist())
        segments = self._test(zip(blocks, p_values[small].tolist(), strict=True), grid)
        tests.add(segments, p_values[~small].tolist())
        return segments

    def _test(
        self, blocks: Iterable[tuple[CellBlock, float]], grid: CellGrid, n_searched: int = 1
    ) -> list[TestedSegment]:
        segments = []
        for block, p_value in blocks:
            segment = block_with_sums(grid, block, n_searched, p_value)
            of_segment = self.segment_p_value(segment, grid.context, p_value)
            segments.append(segment.judged(p_value=of_segment * n_searched))
        return segments


# The mean test.


def mean_cells(grid: CellGrid, cell_p_values: Floats) -> tuple[Array, Floats]:
    """The cells that are joined to no others, among them missing values, and can be tested; with their p-values."""
    if grid.is_crossed and grid.has_order:
        return np.empty(0, np.int64), np.empty(0)
    cells = grid.n_ordered + np.flatnonzero(~np.isnan(cell_p_values[grid.n_ordered :]))
    return cells, cell_p_values[cells]


def _mean_blocks(grid: CellGrid, recalibrated: bool) -> ScoredBlocks:
    blocks = [block for block, _ in best_blocks(grid, recalibrated=recalibrated)]
    if not blocks:
        return []
    raw, _ = grid.sum_blocks(blocks)
    p_values = grid.context.p_values(raw)
    return list(zip(blocks, np.fmin(p_values, 1.0).tolist(), strict=True))


def _mean_segment_p_value(segment: TestedSegment, context: SearchContext, p_value: float) -> float:
    return context.exact_p(segment.members, p_value) if context.clustered else p_value


MEAN_TEST = SegmentTest(_mean_blocks, _mean_segment_p_value)


def kuiper_range_test(tests: FamilyOfTests, grid: CellGrid) -> list[TestedSegment]:
    """Add the Kuiper test of a numeric column: its p-value belongs to the range in which differences accumulate."""
    if grid.kuiper_range is None:
        return []
    p_value, first, last = grid.kuiper_range
    segment = block_with_sums(grid, ((first, last),), grid.n_blocks, p_value)
    tests.add([segment])
    return [segment]


# The shape test.


def profile_test(profile: ScoreProfile, context: SearchContext) -> ShapeTest:
    """The shape test of segments, NaN where too few events are expected on either side."""
    shape = shape_test(profile.off, profile.variance)
    rows, weight, predicted = (
        values.sum(axis=-1) for values in (profile.rows, profile.weight, profile.predicted)
    )
    rate = predicted / np.maximum(weight, 1e-300) if context.null_model.binary else 0.5
    sufficient = rows * context.effective_share * np.minimum(rate, 1.0 - rate) >= EFFECTIVE_EVENTS
    return ShapeTest(np.where(sufficient, shape.p_value, np.nan), shape.moment)


def segment_shape_test(
    segment: TestedSegment, context: SearchContext, variance_share: float = 1.0, *, recalibrated: bool = False
) -> tuple[float, float]:
    """P-value and direction of a segment's cumulative differences by the score.

    Parameters
    ----------
    variance_share : float
        What is left of its variance once the score was recalibrated on the same rows.
    recalibrated : bool
        After global recalibration.
    """
    if segment.profile is None:
        return 1.0, 0.0
    profile = segment.profile.select(recalibrated=recalibrated)
    reduced = replace(profile, noise=profile.noise * variance_share, usual=profile.usual * variance_share)
    shape = profile_test(reduced, context)
    p_value = float(np.fmin(shape.p_value, 1.0))
    if context.clustered and p_value < 1.0:
        # The moment over whole clusters; doubled, as it is the second of two tests.
        share = profile.variance / max(profile.variance.sum(), 1e-300)
        lever = np.cumsum(share) - 0.5 * share - 0.5
        members = segment.members
        target = context.target_data(recalibrated=recalibrated)
        p_value = max(
            p_value, 2.0 * clustered_sum_p(target, members, lever[context.score_grid.codes[members]])
        )
    return p_value, float(shape.moment)


def shape_cells(grid: CellGrid) -> tuple[Array, Floats]:
    """As `mean_cells`, with the p-values of the shape test."""
    if grid.is_crossed and grid.has_order:
        return np.empty(0, np.int64), np.empty(0)
    cells = np.arange(grid.n_cells) if grid.profiled_cells is None else grid.profiled_cells
    p_values = profile_test(grid_profiles(grid).raw, grid.context).p_value
    testable = np.flatnonzero(~np.isnan(p_values) & (cells >= grid.n_ordered))
    return cells[testable], p_values[testable]


def _shape_blocks(grid: CellGrid, recalibrated: bool) -> ScoredBlocks:
    profiles, context = grid_profiles(grid), grid.context
    every_block = profiles.select(recalibrated=recalibrated).map(grid.sum_every_block)
    p_values = profile_test(every_block, context).p_value
    score = -np.log(np.clip(np.nan_to_num(p_values, nan=1.0), 1e-300, 1.0))
    best = furthest_blocks(score, grid)
    best_p_values = [math.exp(-score) for _, score in best]
    # A block may be calibrated as predicted and become miscalibrated by recalibration: it must be significant in both.
    if recalibrated and best:
        raw = profiles.raw.map(lambda values: np.stack([grid.sum_block(values, block) for block, _ in best]))
        best_p_values = np.maximum(best_p_values, np.fmin(profile_test(raw, context).p_value, 1.0)).tolist()
    return [(block, p_value) for (block, _), p_value in zip(best, best_p_values, strict=True)]


def _shape_segment_p_value(segment: TestedSegment, context: SearchContext, p_value: float) -> float:
    if not context.clustered:
        return p_value
    (profiled,) = attach_profiles([segment], context)
    return max(p_value, segment_shape_test(profiled, context)[0])


SHAPE_TEST = SegmentTest(_shape_blocks, _shape_segment_p_value)


@dataclass(frozen=True, eq=False)
class GridShapeTests:
    """The shape tests of one grid.

    Attributes
    ----------
    tests : FamilyOfTests
        What counts as tests.
    candidates : tuple of TestedSegment
        All candidates, also those that are no tests.
    min_p : float
        The smallest p-value of any cell or block, corrected for their number.
    """

    tests: FamilyOfTests
    candidates: tuple[TestedSegment, ...]
    min_p: float


NO_SHAPE_TESTS = GridShapeTests(FamilyOfTests(), (), 1.0)


def grid_shape_tests(grid: CellGrid) -> GridShapeTests:
    """Test the cells and blocks of a grid for their shape; no test where its sums by the score are not known."""
    if grid.profiles is None and grid.context.is_sample:
        return NO_SHAPE_TESTS
    tests = FamilyOfTests()
    block_candidates = SHAPE_TEST.test_blocks(tests, grid)
    min_p = min([*tests.other_p_values, *(segment.p_value for segment in tests.segments)], default=1.0)
    cells, p_values = shape_cells(grid)
    if cells.size:
        min_p = min(min_p, float(p_values.min() * cells.size))
    cell_candidates = SHAPE_TEST.test_cells(tests, grid, cells, p_values)
    return GridShapeTests(tests, (*block_candidates, *cell_candidates), min_p)


def attach_profiles(segments: Sequence[TestedSegment], context: SearchContext) -> list[TestedSegment]:
    """The segments with their sums by the score; the rows are read once for all segments of a grid."""
    profiles_of_grid = lru_cache(1)(grid_profiles)
    profiles: dict[TestedSegment, RawAndRecalibrated | None] = {}
    for tested in sorted(segments, key=lambda tested: tested.segment.source):
        segment = tested.segment
        if isinstance(segment, BlockSegment) and (segment.grid.profiles is not None or not context.is_sample):
            profiles[tested] = _block_profile(segment, profiles_of_grid(segment.grid))
        elif isinstance(segment, RowMaskSegment) and not context.is_sample:
            profiles[tested] = profiles_of_codes(context, segment.inside, 2).map(itemgetter(1))
        else:  # sums of all rows cannot be had from a sample of them
            profiles[tested] = tested.profile
    return [tested.with_profile(profiles[tested]) for tested in segments]


def _block_profile(segment: BlockSegment, profiles: RawAndRecalibrated) -> RawAndRecalibrated | None:
    """The profile of a block; None for a category with too few rows, which is known by its mean alone."""
    grid, block = segment.grid, segment.block
    if grid.profiled_cells is None:
        return profiles.map(partial(grid.sum_block, block=block))
    position = np.flatnonzero(grid.profiled_cells == block[0][0])
    return profiles.map(itemgetter(position[0])) if position.size else None

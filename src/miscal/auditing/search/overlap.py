"""How much weight segments share with one of them, by cells of the score."""

import math
from collections.abc import Sequence

import numpy as np

from miscal.auditing.search.candidates import BlockSegment, RowMaskSegment
from miscal.auditing.search.cell_grids import CellGrid, crossed_codes
from miscal.auditing.search.evidence import SegmentId
from miscal.auditing.search.search_context import SearchContext
from miscal.auditing.search.tested_segments import TestedSegment
from miscal.data.arrays import Array


class Overlap:
    """Weights that segments share with one of them, in cells of the score: counted on its rows.

    One count of a grid serves all its cells; it is kept until another grid is asked for, those of segments stay:
    `precompute` asks for many segments grid by grid. Where a file keeps no rows, as far as sums tell: exact in one
    column, between columns as if they were independent.

    Parameters
    ----------
    context : SearchContext
        Gives the rows.
    segment : TestedSegment
        The one with which others share rows.
    """

    def __init__(self, context: SearchContext, segment: TestedSegment) -> None:
        self.context, self.segment = context, segment
        self.members = segment.members
        self._row_weight = context.table_weight[self.members]
        self._score_cells = context.score_grid.codes[self.members].astype(np.int64)
        self._last_grid: tuple[CellGrid, Array] | None = None
        self._shared: dict[SegmentId, Array] = {}

    def precompute(self, segments: Sequence[TestedSegment]) -> None:
        """Count what segments share, each grid of them once."""
        for tested in sorted(segments, key=lambda tested: tested.segment.source):
            self.weight(tested)

    def cell_weights(self, grid: CellGrid) -> Array:
        """Shared weight of every cell of a grid and of the score."""
        if self._last_grid is not None and self._last_grid[0] is grid:
            return self._last_grid[1]
        shared = self._count(grid) if self.context.has_rows else self._estimate(grid)
        self._last_grid = grid, shared
        return shared

    def _count(self, grid: CellGrid) -> Array:
        n_scores = self.context.score_grid.n_cells
        codes = crossed_codes(grid.coded_columns, self.members)
        codes *= n_scores
        codes += self._score_cells
        n_cells = grid.n_cells + 1  # the last is of rows that are in no cell of it
        counted = np.bincount(codes, self._row_weight, n_cells * n_scores)
        shared: Array = counted.reshape(n_cells, -1)[:-1]
        return shared

    def _estimate(self, grid: CellGrid) -> Array:
        weight, segment = grid.raw.weight, self.segment.segment
        shared: Array
        if isinstance(segment, BlockSegment) and segment.grid is grid:
            inside = np.zeros(grid.shape)
            inside[grid.slices(segment.block)] = 1.0
            shared = (weight * inside.ravel())[:, None]
        else:
            shared = (weight * self.segment.weight / max(weight.sum(), 1e-300))[:, None]
        return shared

    def weight(self, tested: TestedSegment) -> Array:
        """Shared weight of a segment, in cells of the score."""
        if tested.id in self._shared:
            return self._shared[tested.id]
        segment = tested.segment
        shared: Array = self.segment.raw.weight  # of all rows
        if isinstance(segment, BlockSegment):
            shared = segment.grid.sum_block(self.cell_weights(segment.grid), segment.block)
        elif isinstance(segment, RowMaskSegment) and self.context.has_rows:
            inside = segment.inside[self.members]
            n_scores = self.context.score_grid.n_cells
            shared = np.bincount(self._score_cells[inside], self._row_weight[inside], n_scores)
        self._shared[tested.id] = shared
        return shared

    def weight_lower_bound(self, tested: TestedSegment) -> Array:
        """As `weight`, as much of it as is certain: all, unless few rows of a sample show it.

        The lower end of Agresti and Coull's interval (two standard errors), relative to the share itself.
        """
        shared, context = self.weight(tested), self.context
        if not (context.is_sample and context.has_rows) or shared.sum() <= 0.0:
            return shared
        share = min(shared.sum() / tested.weight, 1.0)
        n_sampled = tested.raw.rows[0] / context.sampling_ratio
        middle = (share * n_sampled + 2.0) / (n_sampled + 4.0)
        low = middle - 2.0 * math.sqrt(middle * (1.0 - middle) / (n_sampled + 4.0))
        return np.asarray(shared * np.clip(low / share, 0.0, 1.0))

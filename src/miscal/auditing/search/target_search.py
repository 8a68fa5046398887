"""What a search proposes for one target, with the evidence for it: the input of `judge`.

The rule: a `TargetSearch` is frozen. Each kind of search (columns, pairs, subpopulations, neighbourhoods) returns a new
one with what it adds; evidence from all rows of a large table makes a new one too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from miscal.auditing.search.cell_grids import CellGrid, GridId
from miscal.auditing.search.search_context import SearchContext
from miscal.auditing.search.segment_tests import NO_SHAPE_TESTS, GridShapeTests, grid_shape_tests
from miscal.auditing.search.tested_segments import TestedSegment
from miscal.codes.audit import Family, NotTestedKind, NotTestedReason, Remedy
from miscal.data.arrays import Plain
from miscal.metrics.score import ScoreResult
from miscal.results import Result
from miscal.stats.cell_sums import CellSums


@dataclass(frozen=True)
class LeftOut:
    """Something that was not tested.

    Attributes
    ----------
    what : NotTestedKind
        What kind of thing.
    where : str
        Which one.
    reason : NotTestedReason
        Why.
    remedy : Remedy
        How to have it tested.
    limit : int
        The limit that it exceeds, where there is one; else 0.
    """

    what: NotTestedKind
    where: str
    reason: NotTestedReason
    remedy: Remedy
    limit: int = 0


@dataclass(frozen=True, eq=False)
class RowSearch:
    """Segments of a search that corrects its own p-values.

    Attributes
    ----------
    n_searched : int
        How many segments were searched.
    segments : tuple of TestedSegment
        Those with the smallest p-values.
    """

    n_searched: int
    segments: tuple[TestedSegment, ...]


@dataclass(frozen=True, eq=False)
class TargetSearch:
    """What was proposed for one target.

    Attributes
    ----------
    target : str or int
        As it was given to `audit`.
    scope : str
        The class in words, where there are several targets; else empty.
    context : SearchContext
        What is compared.
    score : ScoreResult or None
        By score; None where nothing is tested yet.
    score_sums : CellSums
        Sums in the cells of a fine grid of scores, from which both tails are tested.
    score_column : str or None
        The column that holds the very score, if one does.
    columns, pairs : tuple of CellGrid
        Columns, and columns crossed.
    shape_tests : mapping of grid id to GridShapeTests
        Those that were made while searching.
    skipped_tests : tuple of (Family, int)
        Numbers of tests that a screening left out, which count all the same.
    row_searches : mapping of Family to RowSearch
        Searches of segments that are not cells.
    further_results : tuple of Result
        Results that are shown beside score and columns.
    whole_sums : tuple of CellSums, optional
        Sums of the whole table, raw and recalibrated, where its rows are not all in memory.
    not_tested : tuple of LeftOut
        What was left out.
    """

    target: str | int
    scope: str
    context: SearchContext
    score: ScoreResult | None
    score_sums: CellSums
    score_column: str | None = None
    columns: tuple[CellGrid, ...] = ()
    pairs: tuple[CellGrid, ...] = ()
    shape_tests: Mapping[GridId, GridShapeTests] = field(default_factory=dict)
    skipped_tests: tuple[tuple[Family, int], ...] = ()
    row_searches: Mapping[Family, RowSearch] = field(default_factory=dict)
    further_results: tuple[Result, ...] = ()
    whole_sums: tuple[CellSums, CellSums] | None = None
    not_tested: tuple[LeftOut, ...] = ()

    @property
    def shown_score(self) -> ScoreResult:
        """The result by score of a target that was tested."""
        if self.score is None:
            raise ValueError("the score of this target has no result")
        return self.score

    @property
    def grids(self) -> tuple[CellGrid, ...]:
        """Columns and pairs."""
        return *self.columns, *self.pairs

    def extended(
        self,
        *,
        pairs: Iterable[CellGrid] = (),
        skipped_tests: Iterable[tuple[Family, int]] = (),
        row_searches: Mapping[Family, RowSearch] | None = None,
        further_results: Iterable[Result] = (),
        not_tested: Iterable[LeftOut] = (),
    ) -> "TargetSearch":
        """The same with what a further search adds."""
        changes: Plain = {
            "pairs": (*self.pairs, *pairs),
            "skipped_tests": (*self.skipped_tests, *skipped_tests),
            "row_searches": {**self.row_searches, **(row_searches or {})},
            "further_results": (*self.further_results, *further_results),
            "not_tested": (*self.not_tested, *not_tested),
        }
        return replace(self, **changes)

    def shape_tests_of(self, grid: CellGrid) -> GridShapeTests:
        """The shape tests of a grid: those made while searching, or made now."""
        known = self.shape_tests.get(grid.id)
        return grid_shape_tests(grid) if known is None else known

    def min_profile_p(self, grid: CellGrid) -> float:
        """The smallest p-value of the shape tests of a grid that were made, corrected for their number."""
        return self.shape_tests.get(grid.id, NO_SHAPE_TESTS).min_p

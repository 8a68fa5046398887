"""A candidate with its evidence and its judgement: what is read once tests were made.

The rule: all of it is frozen. A later test returns a new `TestedSegment` by `judged`; nothing is filled in.
"""

from dataclasses import dataclass, replace
from typing import Any

from miscal.auditing.search.candidates import BlockSegment, Candidate, Segment
from miscal.auditing.search.cell_grids import CellBlock, CellGrid
from miscal.auditing.search.evidence import Evidence, RawAndRecalibrated, SegmentId
from miscal.cells.condition import Conjunction
from miscal.codes.audit import Family
from miscal.data.arrays import Array
from miscal.stats.cell_sums import CellSums


@dataclass(frozen=True, eq=False)
class Judgement:
    """What the tests say of one candidate.

    Attributes
    ----------
    candidate_id : tuple
        Of which candidate.
    p_value : float
        Corrected for the segments among which it was picked, but not yet for the other tests.
    p_resolution_reached : bool
        Whether the p-value is the smallest that simulations can give.
    adjusted_p : float
        P-value over the whole audit; NaN where the segment had no test of its own.
    mean_significant, shape_significant : bool
        Whether its mean, and the cumulative differences by its score, are significant.
    specific : bool
        Whether it is also significant after global recalibration.
    decisive_row : tuple of float
        Prediction and outcome of the one row without which it is not significant, where there is one; else empty.
    """

    candidate_id: SegmentId
    p_value: float
    p_resolution_reached: bool = False
    adjusted_p: float = float("nan")
    mean_significant: bool = True
    shape_significant: bool = False
    specific: bool = False
    decisive_row: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class TestedSegment:
    """A candidate, its evidence and its judgement."""

    __test__ = False  # no test class, whatever pytest makes of the name

    candidate: Candidate
    evidence: Evidence
    judgement: Judgement

    def judged(self, **changes: Any) -> "TestedSegment":
        """The same candidate and evidence with another judgement."""
        return replace(self, judgement=replace(self.judgement, **changes))

    def with_profile(self, score_profile: RawAndRecalibrated | None) -> "TestedSegment":
        """The same with its sums by the score."""
        return replace(self, evidence=replace(self.evidence, score_profile=score_profile))

    @property
    def id(self) -> SegmentId:
        """Of its segment."""
        return self.evidence.candidate_id

    @property
    def segment(self) -> Segment:
        """Which rows."""
        return self.candidate.segment

    @property
    def family(self) -> Family:
        """Of its test."""
        return self.candidate.family

    @property
    def n_searched(self) -> int:
        """The number of segments among which it was picked."""
        return self.candidate.n_searched

    @property
    def members(self) -> Array:
        """Row numbers."""
        return self.segment.members

    @property
    def conjunction(self) -> Conjunction:
        """Which rows belong to it, as data."""
        return self.segment.conjunction

    @property
    def raw(self) -> CellSums:
        """Its sums as predicted."""
        return self.evidence.raw

    @property
    def profile(self) -> RawAndRecalibrated | None:
        """Its sums by the score."""
        return self.evidence.score_profile

    @property
    def weight(self) -> float:
        """Weight of its rows."""
        return float(self.evidence.raw.weight[0])

    @property
    def error(self) -> float:
        """Σw(p - y) as predicted."""
        return float(self.evidence.raw.off[0])

    @property
    def p_value(self) -> float:
        """Before correction for the other tests."""
        return self.judgement.p_value

    @property
    def adjusted_p(self) -> float:
        """P-value over the whole audit."""
        return self.judgement.adjusted_p


def segment_with_sums(
    candidate: Candidate,
    raw: CellSums,
    recalibrated: CellSums,
    p_value: float,
    *,
    p_resolution_reached: bool = False,
    score_profile: RawAndRecalibrated | None = None,
) -> TestedSegment:
    """Put a candidate, its sums and its p-value together."""
    evidence = Evidence(candidate.id, raw, recalibrated, score_profile)
    return TestedSegment(candidate, evidence, Judgement(candidate.id, p_value, p_resolution_reached))


def block_with_sums(
    grid: CellGrid, block: CellBlock, n_searched: int, p_value: float, *, p_resolution_reached: bool = False
) -> TestedSegment:
    """A block of cells with its sums and its p-value."""
    candidate = Candidate(BlockSegment(grid, block), grid.family, n_searched)
    return segment_with_sums(
        candidate, *grid.sum_blocks([block]), p_value, p_resolution_reached=p_resolution_reached
    )

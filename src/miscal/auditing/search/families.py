"""Families of tests, and the p-values adjusted over all of them.

Tests fall into families (columns, pairs, subpopulations, neighbourhoods) that share the level equally, so that a wide
search does not weaken a narrow one; within a family Holm's rule holds. A range of a numeric column counts as one test:
its p-value is already multiplied by the number of ranges that were searched.

`TestCollector` takes all tests of an audit; `Multiplicity` is what remains to be known of them afterwards.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from miscal.auditing.search.cell_grids import CellGrid, GridId
from miscal.auditing.search.tested_segments import TestedSegment
from miscal.codes.audit import Family
from miscal.stats.cell_sums import Floats
from miscal.stats.multiplicity import holm


@dataclass(frozen=True)
class Multiplicity:
    """How many tests an audit made, by family.

    Attributes
    ----------
    level : float
        Chance of any false finding in the whole audit.
    sizes : mapping of Family to int
        Number of tests of each family, also of those that were not run.
    families : tuple of Family
        The families of which anything was tested: they share the level.
    """

    level: float
    sizes: Mapping[Family, int]
    families: tuple[Family, ...]

    @property
    def n_families(self) -> int:
        """How many families share the level."""
        return len(self.families)

    @property
    def n_tests(self) -> int:
        """Number of tests, for intervals that hold simultaneously."""
        return sum(self.sizes[family] for family in self.families)

    def n_family_tests(self, segment: TestedSegment) -> int:
        """The number by which Bonferroni's inequality multiplies the p-value of a segment."""
        return max(self.sizes.get(segment.family, 0), 1) * self.n_families

    def n_tests_searched(self, segment: TestedSegment) -> int:
        """Among how many tests, all families and searched ranges counted, a segment was picked."""
        return self.n_family_tests(segment) * segment.n_searched

    def n_effective_tests_searched(self, segment: TestedSegment) -> float:
        """As `n_tests_searched`, for the shape of a significant segment after global recalibration.

        The ranges that were searched overlap: we assume that the square root of their number are effectively
        independent.
        """
        return self.n_family_tests(segment) * math.sqrt(segment.n_searched)

    def bonferroni(self, segment: TestedSegment) -> float:
        """The adjusted p-value of one more segment of a family."""
        return min(1.0, segment.p_value * self.n_family_tests(segment))


@dataclass(eq=False)
class FamilyOfTests:
    """Tests of one family, as they are collected.

    Attributes
    ----------
    size : int
        How many tests, also those that were not run.
    n_skipped : int
        How many were not run: they count all the same.
    segments : list of TestedSegment
        Tests whose segments are kept.
    other_p_values : list of float
        P-values of the other tests.
    adjusted_by_search : bool
        Whether the p-values are already those of a whole search.
    """

    size: int = 0
    n_skipped: int = 0
    segments: list[TestedSegment] = field(default_factory=list)
    other_p_values: list[float] = field(default_factory=list)
    adjusted_by_search: bool = False

    @property
    def tested(self) -> bool:
        """Whether anything was tested."""
        return bool(self.segments or self.other_p_values or self.adjusted_by_search)

    def add(self, segments: Sequence[TestedSegment], other_p_values: Sequence[float] = ()) -> None:
        """Add tests."""
        self.segments += segments
        self.other_p_values += other_p_values
        self.size += len(other_p_values) + sum(not math.isnan(segment.p_value) for segment in segments)

    def adjusted(self, n_families: int) -> Iterable[tuple[TestedSegment, float]]:
        """The segments with their p-values over the audit."""
        p_values = np.array([segment.p_value for segment in self.segments] + self.other_p_values)
        if not self.adjusted_by_search:
            p_values = holm(p_values, self.n_skipped)
        return zip(self.segments, np.minimum(1.0, p_values * n_families).tolist(), strict=False)


class TestCollector:
    """All tests of an audit, by family, until they are adjusted together."""

    __test__ = False  # no test class, whatever pytest makes of the name

    def __init__(self, level: float) -> None:
        self.level = level
        self._families: dict[Family, FamilyOfTests] = {}

    def family(self, family: Family) -> FamilyOfTests:
        """The tests of a family."""
        return self._families.setdefault(family, FamilyOfTests())

    def skip(self, family: Family, number: int) -> None:
        """Count tests that were not run because a screening left them out."""
        tests = self.family(family)
        tests.size += number
        tests.n_skipped += number

    def add_search(self, family: Family, size: int, segments: Sequence[TestedSegment]) -> None:
        """Add segments whose p-values are already those of a whole search of so many."""
        self._families[family] = FamilyOfTests(size, segments=list(segments), adjusted_by_search=True)

    def finish(self) -> tuple[Multiplicity, dict[TestedSegment, float]]:
        """The numbers of tests, and the adjusted p-value of every segment."""
        families = tuple(family for family, tests in self._families.items() if tests.tested)
        sizes = {family: tests.size for family, tests in self._families.items()}
        adjusted = {
            segment: p_value
            for family in families
            for segment, p_value in self._families[family].adjusted(len(families))
        }
        return Multiplicity(self.level, sizes, families), adjusted


def testable_p_values(grids: Sequence[CellGrid], level: float) -> dict[GridId, Floats]:
    """P-values of cells, NaN for those that could never have been significant among all that could (Tarone)."""
    reachable = [grid.context.reachable_p(grid.raw) for grid in grids]
    in_order = np.sort(np.concatenate([*reachable, np.empty(0)]))
    # The largest number of tests k such that k cells can reach level / k.
    number = np.arange(1, in_order.size + 1)
    sufficient = number[np.searchsorted(in_order, level / number, side="right") <= number]
    limit = level / (sufficient[0] if sufficient.size else 1)
    return {
        grid.id: np.where(smallest <= limit, grid.p_value, np.nan)
        for grid, smallest in zip(grids, reachable, strict=True)
    }

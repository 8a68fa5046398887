"""What could be wrong: segments of a table, and the candidates that a search proposes.

The rule: a candidate says which rows, in which family and among how many it was picked. It knows nothing of what the
rows show: that is its `Evidence`, and what follows from it is its `Judgement`. All are frozen; each stage returns new
values.

A new kind of segment implements `Segment`.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from miscal.auditing.search.cell_grids import CellBlock, CellGrid
from miscal.auditing.search.evidence import SegmentId
from miscal.cells.condition import Conjunction
from miscal.codes.audit import Family, FindingKind
from miscal.data.arrays import Array


class Segment(Protocol):
    """Some rows of a table, with their names."""

    @property
    def id(self) -> SegmentId:
        """Equal for equal segments of one target."""

    @property
    def source(self) -> tuple[str, ...]:
        """What it was cut from: segments of one source are counted together."""

    @property
    def kind(self) -> FindingKind:
        """What its finding is called."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that define it."""

    @property
    def levels(self) -> tuple[str, ...]:
        """The category or range of each column, in words."""

    @property
    def words(self) -> str:
        """The segment in words."""

    @property
    def members(self) -> Array:
        """Its row numbers."""

    @property
    def conjunction(self) -> Conjunction:
        """Which rows belong to it, as data."""

    @property
    def code(self) -> str | None:
        """The code of its finding, where it is not that of its kind."""

    @property
    def needs_definition(self) -> bool:
        """Whether its words need a definition beside them."""


@dataclass(frozen=True, eq=False)
class BlockSegment:
    """A block of cells of a grid."""

    grid: CellGrid
    block: CellBlock
    code: None = None

    @property
    def id(self) -> SegmentId:
        """The grid and the block."""
        return *self.grid.id, self.block

    @property
    def source(self) -> tuple[str, ...]:
        """The grid."""
        return self.grid.id

    @property
    def kind(self) -> FindingKind:
        """That of the grid."""
        return self.grid.kind

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the grid."""
        return self.grid.names

    @property
    def levels(self) -> tuple[str, ...]:
        """The category or range of each column, in words."""
        return self.grid.levels(self.block)

    @property
    def words(self) -> str:
        """The block in words."""
        return self.grid.words(self.block)

    @property
    def members(self) -> Array:
        """Row numbers of the block."""
        return self.grid.members(self.block)

    @property
    def conjunction(self) -> Conjunction:
        """Which rows belong to the block."""
        return self.grid.conjunction(self.block)

    @property
    def needs_definition(self) -> bool:
        """Only for planes of two numbers, whose ranges are no categories that a report lists."""
        return self.kind == FindingKind.NEIGHBOURHOOD


@dataclass(frozen=True, eq=False)
class RowMaskSegment:
    """Rows that are not a block of cells.

    Attributes
    ----------
    kind : FindingKind
        What its finding is called.
    inside : ndarray of bool
        Whether each row belongs.
    words : str
        The segment in words, which no other segment of this kind has.
    names, levels : tuple of str
        The columns that define it, and the category or range of each.
    condition : Conjunction or None
        Which rows belong; None for all of them.
    code : str or None
        The code of its finding, where it is not that of its kind.
    """

    kind: FindingKind
    inside: Array
    words: str
    names: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    condition: Conjunction | None = None
    code: str | None = None

    @property
    def id(self) -> SegmentId:
        """The kind and the words."""
        return str(self.kind), self.words

    @property
    def source(self) -> tuple[str, ...]:
        """Itself: it shares nothing with others."""
        return str(self.kind), self.words

    @property
    def members(self) -> Array:
        """Row numbers."""
        return np.flatnonzero(self.inside)

    @property
    def conjunction(self) -> Conjunction:
        """Which rows belong to it."""
        return self.condition or Conjunction()

    @property
    def needs_definition(self) -> bool:
        """Whether it has a condition of its own."""
        return self.condition is not None


@dataclass(frozen=True, eq=False)
class Candidate:
    """A segment that is tested.

    Attributes
    ----------
    segment : Segment
        Which rows.
    family : Family
        The tests with which it shares a part of the level.
    n_searched : int
        The number of segments among which it was picked.
    """

    segment: Segment
    family: Family
    n_searched: int = 1

    @property
    def id(self) -> SegmentId:
        """That of its segment: evidence and judgements name it."""
        return self.segment.id

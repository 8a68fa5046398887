"""Tallies of crossed columns and of atoms of subpopulations in a stream, as predicted and beyond the score."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from miscal.engines.buckets import KeyMap
from miscal.engines.cells import CellSums
from miscal.engines.members import Members
from miscal.engines.plan import SKETCH_SHIFT, Packed, _under
from miscal.engines.rows import Batch, Door, locked
from miscal.pairs import Pair


@dataclass(frozen=True, eq=False)
class Crossed:
    """How a column is cut: by edges, or into some levels. Missing values have the last cell.

    Levels that are not among the names are in no cell: they are left out of every pair of this column.
    """

    name: str
    edges: np.ndarray | None = None
    names: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many cells, the one of missing values included."""
        return (len(self.names) if self.edges is None else self.edges.size - 1) + 1

    def codes(self, batch: Batch) -> np.ndarray:
        """The cell of each row; `count` for none."""
        from miscal.kernels.stream import border_codes

        if self.edges is not None:
            values = batch.numbers(self.name)
            codes = np.empty(values.size, np.int32)
            border_codes(values, np.ascontiguousarray(self.edges[1:-1]), np.int32(self.count - 1), codes)
            return codes
        import pyarrow as pa
        import pyarrow.compute as pc

        codes, levels = batch.levels(self.name)
        found = pc.index_in(levels, value_set=pa.array(self.names, pa.string()), skip_nulls=True)
        table = found.fill_null(self.count).to_numpy(zero_copy_only=False).astype(np.int32)
        if levels.null_count:
            table[np.asarray(levels.is_null())] = self.count - 1
        return np.asarray(np.append(table, np.int32(self.count - 1))[codes])


@dataclass(frozen=True, eq=False)
class CrossPass:
    """Tallies of pairs of columns, and of the atoms of subpopulations.

    score, mended : as in the second pass of a scan, for what is beyond the score
    """

    door: Door
    parts: tuple[Crossed, ...]
    pairs: tuple[tuple[int, int], ...]
    score: KeyMap
    mended: np.ndarray
    members: Members | None = None

    @property
    def columns(self) -> list[str]:
        more = [] if self.members is None else [one.name for one in self.members.rules.columns]
        return list(dict.fromkeys([*self.door.columns, *(part.name for part in self.parts), *more]))

    def cells(self) -> list[int]:
        """Number of cells of each pair, then of the atoms."""
        made = [self.parts[i].count * self.parts[j].count for i, j in self.pairs]
        return made + ([self.members.cells] if self.members is not None else [])

    def start(self) -> CrossState:
        return CrossState(self)


class CrossState:
    """Sums as predicted and beyond the score."""

    def __init__(self, job: CrossPass) -> None:
        self.job = job
        self.sums = [(CellSums(count), CellSums(count)) for count in job.cells()]

    def add(self, batch: Batch) -> None:
        job, pair = self.job, batch.pair
        codes = [part.codes(batch) for part in job.parts]
        beyond = self._beyond(pair)
        terms = [_terms(each) if each.plain else None for each in (pair, beyond)]
        for (i, j), sums in zip(job.pairs, self.sums, strict=False):
            self._add(sums, self._crossed(codes, i, j), (pair, beyond), terms)
        if job.members is not None:
            slots, _ = job.members.slots(batch)
            self._add(self.sums[-1], job.members.atoms_of(slots, batch.rows), (pair, beyond), terms)

    @staticmethod
    def _add(sums: tuple[CellSums, CellSums], codes: np.ndarray, pairs: tuple[Pair, Pair], terms: list) -> None:  # type: ignore[type-arg]
        for own, pair, given in zip(sums, pairs, terms, strict=True):
            own.add(codes, pair, given)

    def _crossed(self, codes: list[np.ndarray], i: int, j: int) -> np.ndarray:
        one, two = self.job.parts[i].count, self.job.parts[j].count
        made = codes[i] * np.int32(two) + codes[j]
        if self.job.parts[i].edges is None or self.job.parts[j].edges is None:
            made[(codes[i] >= one) | (codes[j] >= two)] = one * two
        return np.asarray(made)

    def _beyond(self, pair: Pair) -> Pair:
        if not self.job.mended.size:
            return pair
        mended = self.job.mended[self.job.score.codes(pair.predicted) >> SKETCH_SHIFT]
        return replace(pair, predicted=locked(mended))

    def arrays(self) -> Packed:
        return {
            f"{side}{place}:{name}": values
            for place, both in enumerate(self.sums)
            for side, own in zip(("raw", "beyond"), both, strict=True)
            for name, values in own.arrays().items()
        }

    def merge(self, packed: Packed) -> None:
        for place, both in enumerate(self.sums):
            for side, own in zip(("raw", "beyond"), both, strict=True):
                own.merge(_under(packed, f"{side}{place}:"))


def _terms(pair: Pair) -> np.ndarray:
    from miscal.kernels.stream import row_terms

    terms = np.empty((pair.rows, 4), np.int64)
    row_terms(pair.predicted, pair.observed, False, terms)  # the log loss is not asked for
    return terms

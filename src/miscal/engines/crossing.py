"""Tallies of crossed columns and of atoms of subpopulations in a stream, as predicted and beyond the score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miscal.engines.members import Members
from miscal.engines.rows import Batch


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
        from miscal.kernels.subpopulation_stream import range_codes

        if self.edges is not None:
            values = batch.numbers(self.name)
            codes = np.empty(values.size, np.int32)
            range_codes(values, np.ascontiguousarray(self.edges[1:-1]), self.count - 1, codes)
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
class Crossings:
    """Pairs of columns, and the atoms of subpopulations, as further tallies of a scan's second pass."""

    parts: tuple[Crossed, ...]
    pairs: tuple[tuple[int, int], ...]
    members: Members | None = None

    @property
    def columns(self) -> list[str]:
        more = [] if self.members is None else [one.name for one in self.members.rules.columns]
        used = sorted({place for pair in self.pairs for place in pair})
        return list(dict.fromkeys([*(self.parts[place].name for place in used), *more]))

    def cells(self) -> list[int]:
        """Number of cells of each pair, then of the atoms."""
        made = [self.parts[i].count * self.parts[j].count for i, j in self.pairs]
        return made + ([self.members.cells] if self.members is not None else [])

    def fill(self, batch: Batch, codes: np.ndarray) -> None:
        """Write the cell of each row."""
        own = {place: self.parts[place].codes(batch) for place in sorted({p for pair in self.pairs for p in pair})}
        for (i, j), out in zip(self.pairs, codes, strict=False):
            one, two = self.parts[i], self.parts[j]
            np.multiply(own[i], np.int32(two.count), out=out)
            np.add(out, own[j], out=out)
            if one.edges is None or two.edges is None:
                out[(own[i] >= one.count) | (own[j] >= two.count)] = one.count * two.count
        if self.members is not None:
            codes[-1] = self.members.atoms(batch)[0]

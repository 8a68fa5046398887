"""Sums per cell that grow batch by batch, and the levels of fields whose vocabulary grows with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from miscal.carriers.tally import ALL_COLUMNS, Tally
from miscal.data.errors import refusal
from miscal.data.vectors import arrow_of
from miscal.engines.memory import NO_COUNT, NO_WEIGHT
from miscal.engines.names import Names, text_of
from miscal.engines.rows import Batch
from miscal.pairs import Pair
from miscal.pooling.cells import Cells, Levels

Packed = dict[str, np.ndarray]


class CellSums:
    """Sums of a tally over cells 0..count-1; code `count` is a place for rows that are set aside."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.plain = np.zeros((count + 1, 11), np.int64)
        self.rows = np.zeros(0, np.int64)
        self.limbs = np.zeros((0, len(ALL_COLUMNS), 2), np.int64)
        self.sums = np.zeros((0, len(ALL_COLUMNS)))
        self.impossible = np.zeros(0, np.int64)

    def add(self, codes: np.ndarray, pair: Pair, terms: np.ndarray | None = None) -> None:
        """Add rows to the cells of their codes (int32)."""
        from miscal.kernels.stream import add_terms, carry_terms, row_terms
        from miscal.kernels.sums import full_exact, full_real

        if pair.plain:
            if terms is None:
                terms = np.empty((pair.rows, 4), np.int64)
                row_terms(pair.predicted, pair.observed, True, terms)
            add_terms(codes, terms, pair.observed, self.plain)
            carry_terms(self.plain)
            return
        whole = pair.whole
        self._weighted(whole)
        weight = pair.weight if pair.weight is not None else NO_WEIGHT if whole else np.ones(pair.rows)
        count = NO_COUNT if pair.count is None else pair.count
        kernel, result = (full_exact, self.limbs) if whole else (full_real, self.sums)
        kernel(codes, pair.predicted, pair.observed, weight, count, self.rows, result, self.impossible)

    def _weighted(self, whole: bool) -> None:
        size = self.count + 1
        if not self.rows.size:
            self.rows, self.impossible = np.zeros(size, np.int64), np.zeros(size, np.int64)
        if whole and not self.limbs.size:
            self.limbs = np.zeros((size, len(ALL_COLUMNS), 2), np.int64)
        if not whole and not self.sums.size:
            self.sums = np.zeros((size, len(ALL_COLUMNS)))

    def arrays(self) -> Packed:
        """All sums, by name; those of no rows are empty."""
        return {name: getattr(self, name) for name in ("plain", "rows", "limbs", "sums", "impossible")}

    def grow(self, count: int) -> None:
        """Make room for more cells; the place set aside moves to the new end."""
        groups = np.append(np.arange(self.count), count)
        self._spread(groups, count)

    def _spread(self, groups: np.ndarray, count: int) -> None:
        for name, values in self.arrays().items():
            if values.size:
                wider = np.zeros((count + 1, *values.shape[1:]), values.dtype)
                wider[groups] = values
                setattr(self, name, wider)
        self.count = count

    def merge(self, other: Packed, groups: np.ndarray | None = None) -> None:
        """Add the sums of another part; its cell i is cell groups[i] here."""
        for name, values in other.items():
            if not values.size:
                continue
            mine = getattr(self, name)
            if not mine.size:
                mine = np.zeros((self.count + 1, *values.shape[1:]), values.dtype)
                setattr(self, name, mine)
            if groups is None:
                mine += values
            else:
                mine[np.append(groups, self.count)] += values

    def tally(self, cells: Cells, *, weighted: bool) -> Tally:
        """The sums as a tally of the cells."""
        plain = self.plain[: self.count]
        limbs = np.zeros((self.count, len(ALL_COLUMNS), 2), np.int64)
        limbs[:, 0, 0] = limbs[:, 1, 0] = plain[:, 0] << 20
        limbs[:, 3, 0] = plain[:, 1] << 20
        limbs[:, 2] = plain[:, 3:5]
        limbs[:, 4] = plain[:, 5:7]
        limbs[:, 5] = limbs[:, 6] = plain[:, 7:9]
        limbs[:, 7] = plain[:, 9:11]
        counts, impossible = plain[:, 0].copy(), plain[:, 2].copy()
        if self.rows.size:
            counts += self.rows[: self.count]
            impossible += self.impossible[: self.count]
        if self.limbs.size:
            limbs += self.limbs[: self.count]
        limbs[..., 0] += limbs[..., 1] >> 32
        limbs[..., 1] &= 0xFFFFFFFF
        made = Tally(cells, counts, limbs, None, impossible=impossible, weighted=weighted)
        if not self.sums.size:
            return made
        real = np.stack([made.column(name) for name in ALL_COLUMNS], axis=1) + self.sums[: self.count]
        return Tally(cells, counts, None, real, impossible=impossible, weighted=weighted)


class FieldSums:
    """Sums per level of one field. Cell 0 holds missing values, level i cell i + 1, in order of appearance."""

    def __init__(self, name: str, most: int, *, boolean: bool = False, names: Sequence[str] = ()) -> None:
        self.name, self.most = name, most
        self.known = Names(["False", "True"] if boolean else names)
        self.sums = CellSums(max(64, 2 * len(self.known)))
        self._sequence = np.empty(0, np.int64)  # the cells in the order of their names, once they are sorted
        self._levels: tuple[str, ...] | None = None  # and the names themselves
        self._last: tuple[Any, np.ndarray] | None = None  # names of a batch, all of them known, and their cells

    @property
    def names(self) -> list[str]:
        """The levels in order of appearance."""
        return self.known.list

    def add(self, batch: Batch) -> None:
        """Add a batch."""
        self.sums.add(self.codes(batch, grow=True), batch.pair)

    def count(self, batch: Batch) -> None:
        """Count the rows of a batch, and nothing else: `sums` has no other column then."""
        from miscal.kernels.stream import count_cells

        codes, table = self._table(batch, grow=True)
        if batch.pair.count is None:
            counts = np.zeros(self.sums.count + 1, np.int64)
            count_cells(codes, table, counts)
            self.sums.plain[:, 0] += counts
            return
        counts = np.bincount(table[codes], weights=batch.pair.count, minlength=self.sums.count + 1)
        self.sums.plain[:, 0] += counts.astype(np.int64)

    def codes(self, batch: Batch, *, grow: bool, out: np.ndarray | None = None) -> np.ndarray:
        """Cells of the rows; a level never seen is added."""
        from miscal.kernels.stream import cells_of

        codes, table = self._table(batch, grow=grow)
        cells = np.empty(codes.size, np.int32) if out is None else out
        cells_of(codes, table, cells)
        return cells

    def _table(self, batch: Batch, *, grow: bool) -> tuple[np.ndarray, np.ndarray]:
        """Codes of the rows in the batch's own names, and the cell of each of those; its last entry serves code -1."""
        codes, names = batch.levels(self.name)
        if self._last is not None and names.equals(self._last[0]):  # as writers of categories repeat them
            return codes, self._last[1]
        cells = np.append(self._cells(names), np.int32(0))
        if cells[:-1].all():
            self._last = names, cells
        elif grow:
            used = np.zeros(cells.size, bool)
            used[codes] = True
            unknown = np.flatnonzero(used[:-1] & (cells[:-1] == 0))
            new = names.take(arrow_of(unknown))
            if new.null_count:  # a null in the dictionary is a missing value
                unknown, new = unknown[new.is_valid().to_numpy(zero_copy_only=False)], new.drop_null()
            cells[unknown] = self._keep(new, batch)
        return codes, cells

    def _cells(self, names: Any) -> np.ndarray:
        """The cell of each name, 0 where it is not known."""
        return self.known.find(names) + np.int32(1)

    def _keep(self, new: Any, batch: Batch) -> np.ndarray:
        """Add levels, and give their cells; a dictionary may name one twice."""
        different = new.unique()
        if len(self.known) + len(different) > self.most:
            raise too_many(self.name, self.most, batch.chunk.place)
        self.known.extend(different.to_pylist())
        self._make_room()
        return self._cells(new)

    def _make_room(self) -> None:
        if len(self.known) + 1 > self.sums.count:
            self.sums.grow(max(2 * self.sums.count, len(self.known) + 1))

    def merge(self, names: list[str], packed: Packed, place: str = "the parts") -> None:
        """Add the sums of another part, level by name."""
        given = text_of(names)
        new = [names[i] for i in np.flatnonzero(self.known.find(given) < 0).tolist()]
        if len(self.known) + len(new) > self.most:
            raise too_many(self.name, self.most, place)
        self.known.extend(new)
        self._make_room()
        cells = np.append(0, self._cells(given))
        cut = {name: np.concatenate([v[: cells.size], v[-1:]]) if v.size else v for name, v in packed.items()}
        self.sums.merge(cut, cells)

    def order(self) -> np.ndarray:
        """Cells in the order of the levels' names, then missing values if there are any: what `tally` keeps."""
        if self._sequence.size != len(self.known):
            self._sequence = np.array(sorted(range(len(self.names)), key=self.names.__getitem__), dtype=np.int64) + 1
        sequence = self._sequence
        return np.asarray(np.append(sequence, 0) if self._any_missing() else sequence)

    def _any_missing(self) -> bool:
        return bool(self.sums.plain[0, 0] or (self.sums.rows.size and self.sums.rows[0]))

    def cells(self) -> Levels:
        """The levels in the order of their names."""
        missing, order = self._any_missing(), self.order()
        chosen = (order[:-1] if missing else order) - 1
        if self._levels is None or len(self._levels) != chosen.size:
            names = self.names
            self._levels = tuple([names[place] for place in chosen.tolist()])
        return Levels(self._levels, missing=missing, name=self.name)

    def tally(self, *, weighted: bool, sums: CellSums | None = None) -> Tally:
        """The tally of the levels, or of other sums over the same cells."""
        sums = self.sums if sums is None else sums
        order, cells = self.order(), self.cells()
        chosen = CellSums(cells.count)
        for name, values in sums.arrays().items():
            if values.size:
                setattr(chosen, name, np.concatenate([values[order], values[-1:]]))
        return chosen.tally(cells, weighted=weighted)


def too_many(name: str, most: int, place: str) -> Any:
    """The refusal of a field with more levels than allowed."""
    return refusal(
        f"must have at most {most:,} levels",
        where=f"column '{name}'",
        got=f"{place} brings more",
        hint="an identifier? leave it out with ignore, or allow more with max_levels",
    )

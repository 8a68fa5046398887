"""Which rows of a batch belong to which subpopulations, without a truth value a row and subpopulation.

Where the columns that expressions speak of have few combinations of slots, each row has one cell (an atom) and a
subpopulation is a union of atoms. Else each subpopulation is a cell, and its rows are a list that is filtered from that
of the last one known to contain it: a path of splits costs as much as its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from miscal.engines.rows import Batch
from miscal.pooling.slots import Compiled, Slots

MOST_ATOMS = 4096


@dataclass(frozen=True, eq=False)
class Members:
    """Subpopulations of rows; number 0 is everyone.

    wanted : numbers of the subpopulations (0 is everyone) whose rows are listed; None: all of them
    """

    rules: Compiled
    most_atoms: int = MOST_ATOMS
    wanted: tuple[int, ...] | None = None
    many: bool = False  # atoms even where there are many more of them than of subpopulations

    @property
    def count(self) -> int:
        """Subpopulations, everyone included."""
        return len(self.rules.tables) + 1

    @cached_property
    def by_atoms(self) -> bool:
        """Whether the cells are atoms."""
        return self.rules.atoms <= (self.most_atoms if self.many else min(self.most_atoms, 4 * self.count + 64))

    @property
    def cells(self) -> int:
        """How many cells."""
        return int(self.rules.atoms) if self.by_atoms else self.count

    def union(self, k: int) -> np.ndarray:
        """Truth value of each cell: whether subpopulation k holds it."""
        if not self.by_atoms:
            return np.asarray(np.arange(self.count) == k)
        shape = tuple(one.count for one in self.rules.columns) or (1,)
        found = np.ones(shape, bool)
        for place, table in (self.rules.tables[k - 1] if k else {}).items():
            found &= table.reshape([-1 if axis == place else 1 for axis in range(len(shape))])
        return found.reshape(-1)

    @cached_property
    def parents(self) -> list[int]:
        """For each subpopulation the one whose list is filtered, -1 for everyone; lists still wanted form a stack."""
        stack = [0]
        found = [-1]
        for k in range(1, self.count):
            while stack[-1] and not self.rules.contains(stack[-1] - 1, k - 1):
                stack.pop()
            found.append(stack[-1])
            stack.append(k)
        return found

    @cached_property
    def steps(self) -> list[list[tuple[int, np.ndarray]]]:
        """For each subpopulation the columns and tables that its parent has not already asked for."""
        found: list[list[tuple[int, np.ndarray]]] = [[]]
        for k in range(1, self.count):
            above = self.rules.tables[self.parents[k] - 1] if self.parents[k] else {}
            own = self.rules.tables[k - 1].items()
            asked = [(j, t) for j, t in own if j not in above or not np.array_equal(above[j], t)]
            found.append([(j, np.ascontiguousarray(t, dtype=np.uint8)) for j, t in asked])
        return found

    @cached_property
    def needed(self) -> np.ndarray:
        """Subpopulations that are wanted, or stand above one that is."""
        found = np.zeros(self.count, bool)
        for wanted in range(self.count) if self.wanted is None else self.wanted:
            k = wanted
            while k >= 0 and not found[k]:
                found[k] = True
                k = self.parents[k]
        return found

    def slots(self, batch: Batch) -> tuple[list[np.ndarray], np.ndarray]:
        """The slot of each row in each column, int32; and which named levels occur, over all columns."""
        found, seen = [], []
        for one in self.rules.columns:
            seen.append(np.zeros(one.named, bool))
            found.append(column_slots(one, batch, seen[-1]))
        return found, np.concatenate(seen) if seen else np.zeros(0, bool)

    def atoms(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """The atom of each row, and which named levels occur; found once for a batch, whoever asks."""
        known = batch.notes.get(id(self))
        if known is None:
            slots, seen = self.slots(batch)
            known = batch.notes[id(self)] = (self.atoms_of(slots, batch.rows), seen)
        return known

    def atoms_of(self, slots: list[np.ndarray], rows: int) -> np.ndarray:
        """The atom of each row, from its slots."""
        codes = np.zeros(rows, np.int32)
        for one, own in zip(self.rules.columns, slots, strict=True):
            codes *= np.int32(one.count)
            codes += own
        return codes

    def lists(self, slots: list[np.ndarray], rows: int) -> Iterator[tuple[int, np.ndarray]]:
        """The rows of each wanted subpopulation; a list is good until the next one is asked for."""
        from miscal.kernels.subpopulation_stream import keep_rows

        wanted = set(range(self.count) if self.wanted is None else self.wanted)
        lists: dict[int, np.ndarray] = {0: np.arange(rows, dtype=np.int32)}
        stack = [0]
        if 0 in wanted:
            yield 0, lists[0]
        for k in range(1, self.count):
            if not self.needed[k]:
                continue
            parent = self.parents[k]
            while stack[-1] != parent:
                del lists[stack.pop()]
            found = lists[parent]
            for column, truth in self.steps[k]:
                kept = np.empty(found.size + 1, np.int32)
                found = kept[: keep_rows(slots[column], truth, found, kept)]
            lists[k] = found
            stack.append(k)
            if k in wanted:
                yield k, found


def column_slots(one: Slots, batch: Batch, seen: np.ndarray) -> np.ndarray:
    """The slots of a batch's rows in one column; which levels occur is noted in `seen`."""
    from miscal.kernels.subpopulation_stream import number_slots

    merged = np.arange(one.named, dtype=np.int32) if one.merged is None else one.merged
    if not one.nominal:
        values = batch.numbers(one.name)
        slots = np.empty(values.size, np.int32)
        number_slots(values, one.numbers, merged, slots)
        return slots
    import pyarrow as pa
    import pyarrow.compute as pc

    codes, names = batch.levels(one.name)
    found = pc.index_in(names, value_set=pa.array(one.levels, pa.string()), skip_nulls=True)
    table = found.fill_null(len(one.levels)).to_numpy(zero_copy_only=False).astype(np.int32)
    missing = np.int32(one.named - 1)
    if names.null_count:
        table[np.asarray(names.is_null())] = missing
    table = np.append(table, missing)  # the last entry serves code -1
    used = np.zeros(table.size, bool)
    used[codes] = True
    seen[table[used]] = True
    return np.asarray(merged[table][codes])

"""Which counts may be shown together, so that sums and differences of them give no small one away.

What is shown of one column follows from blocks of its values: every count is a sum of blocks, and each block holds no
row or at least as many as the limit. Counts of several columns tell nothing more about any of them, nor about where
they cross: whatever the blocks, a table exists in which the columns are independent. A place that crosses columns is
shown beside them where it, what it leaves of each of its parts and, of two columns, what lies in neither part hold
enough rows, and where no chain of other such places joins its columns already: then too a table exists in which they
are independent but for it, and all that follows is a sum of these parts. A count of rows that follows for certain has
to follow in every such table.
"""

from collections.abc import Mapping
from itertools import product

import numpy as np

Place = Mapping[str, np.ndarray]  # numbers of the values, of each column that it speaks of


class Blocks:
    """The values of one column in blocks whose rows follow from what is shown."""

    def __init__(self, values: int, rows: int, below: int) -> None:
        self.below = below
        self.block = np.zeros(values, np.int64)  # of each value
        self.values, self.rows = [values], [rows]  # of each block

    def parts(self, values: np.ndarray) -> tuple[int, list[int]]:
        """The rows of the blocks that some values hold, and the blocks that they cut."""
        found, many = np.unique(self.block[values], return_counts=True)
        whole = [block for block, held in zip(found.tolist(), many, strict=True) if held == self.values[block]]
        return sum(self.rows[block] for block in whole), [block for block in found.tolist() if block not in whole]

    def sizes(self, values: np.ndarray) -> list[int]:
        """The rows that some values may have, if no row lies between the ends of ranges that are nearly the same."""
        rows, cut = self.parts(values)
        return [rows + sum(some) for some in product(*((0, self.rows[block]) for block in cut))]

    def show(self, values: np.ndarray, rows: int) -> bool:
        """Whether the rows of some values may be shown; from now on they are."""
        known, cut = self.parts(values)
        if not cut:
            return True
        inside = rows - known
        outside = self.rows[cut[0]] - inside
        if len(cut) > 1 or any(part != 0 and part < self.below for part in (inside, outside)):
            return False
        moved = values[self.block[values] == cut[0]]
        self.block[moved] = len(self.rows)
        self.values[cut[0]] -= moved.size
        self.rows[cut[0]] = outside
        self.values.append(moved.size)
        self.rows.append(inside)
        return True


class Shown:
    """The counts that are shown; those of single columns have to come first.

    >>> shown = Shown(10, 103, {"state": Blocks(3, 103, 10)})
    >>> [shown.show({"state": np.array([level])}, rows) for level, rows in enumerate((60, 40, 3))]
    [True, False, False]
    """

    def __init__(self, below: int, rows: int, columns: Mapping[str, Blocks]) -> None:
        self.below, self.rows, self.columns = below, rows, columns
        self.crossed: list[Place] = []
        self.joined: list[set[str]] = []  # columns between which there is a chain of crossed places
        self.once: set[str] = set()  # columns of which a crossed place cuts a block

    def show(self, place: Place | None, rows: int) -> bool:
        """Whether a count may be shown beside those shown before; from now on it is one of them."""
        if place is None or rows < self.below:
            return False
        if len(place) == 1:
            return all(self.columns[column].show(values, rows) for column, values in place.items())
        return not place or any(_same(place, other) for other in self.crossed) or self._cross(place, rows)

    def _cross(self, place: Place, rows: int) -> bool:
        sizes = [self.columns[column].sizes(values) for column, values in place.items()]
        left = [size - rows for some in sizes for size in some]
        if len(place) == 2:
            left += [self.rows + rows - sum(some) for some in product(*sizes)]
        cut = {column for column, some in zip(place, sizes, strict=True) if len(some) > 1}
        beside = [columns for columns in self.joined if not columns.isdisjoint(place)]
        if any(len(columns.intersection(place)) > 1 for columns in beside) or any(
            0 <= part < self.below for part in left
        ):
            return False
        if not self.once.isdisjoint(place) or any(columns & cut for columns in beside):
            return False
        self.joined = [columns for columns in self.joined if columns not in beside]
        self.joined.append(set(place).union(*beside))
        self.once |= cut
        self.crossed.append(place)
        return True


def _same(one: Place, other: Place) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[column], other[column]) for column in one)

"""How rows find their cell, block by block, so that no array of codes as long as the data is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from miscal.pooling.bins import bin_index
from miscal.pooling.cells import Cells, Levels, Product, Ranges


class Pooling(Protocol):
    """Cells, and the cell of each row in a block."""

    @property
    def cells(self) -> Cells: ...

    def codes(self, start: int, stop: int) -> np.ndarray: ...


@dataclass(frozen=True)
class BinPooling:
    """Rows pooled by the range their value lies in; missing values (NaN) in the last cell."""

    values: np.ndarray
    ranges: Ranges
    width: tuple[float, float] | None = None  # (low, high) when the edges are equally wide: a quicker index

    @property
    def cells(self) -> Ranges:
        return self.ranges

    def codes(self, start: int, stop: int) -> np.ndarray:
        values = self.values[start:stop]
        codes = bin_index(values, self.ranges.edges)
        if self.ranges.missing:
            codes[np.isnan(values)] = self.ranges.count - 1
        return codes


@dataclass(frozen=True)
class LevelPooling:
    """Rows pooled by the level of a field, given as codes; -1 is missing and goes to the last cell."""

    level_codes: np.ndarray
    levels: Levels

    @property
    def cells(self) -> Levels:
        return self.levels

    def codes(self, start: int, stop: int) -> np.ndarray:
        codes = self.level_codes[start:stop]
        if self.levels.missing:
            return np.where(codes < 0, self.levels.count - 1, codes)
        return codes


@dataclass(frozen=True)
class ProductPooling:
    """Rows pooled by a combination of poolings, the last running fastest."""

    parts: tuple[Pooling, ...]

    @property
    def cells(self) -> Product:
        return Product(tuple(part.cells for part in self.parts))

    def codes(self, start: int, stop: int) -> np.ndarray:
        codes = self.parts[0].codes(start, stop).astype(np.int64)
        for part in self.parts[1:]:
            codes *= part.cells.count
            codes += part.codes(start, stop)
        return codes

"""TODO by_columns.design_matrix."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.cells.coding import Encoding
from miscal.data.arrays import Array, Floats
from miscal.data.columns import Columns
from miscal.recalibrate.parameters import chosen_columns
from miscal.recalibrate.training_sample import TrainingSample

DESIGN_BLOCK_NUMBERS = 1 << 18  # numbers in a block


@dataclass(frozen=True)
class DesignMatrix:
    """What each column contributes; all levels but the commonest have an indicator, missing among them."""

    encodings: list[Encoding]
    degree: int

    @classmethod
    def learned(cls, sample: TrainingSample, chosen: Any, degree: int, *, raw: bool) -> "DesignMatrix":
        """Look at the columns of the rows to fit on; unless `raw`, powers are those of standardised numbers."""
        made = []
        for column in chosen_columns(sample.columns, chosen):
            each = Encoding.learned(column, sample.weight, standard=not raw)
            known = len(each.levels) - each.missing
            if known > 0:
                mass = np.bincount(each.read(sample.columns), sample.weight)
                del each.levels[np.argmax(mass[:known])]  # the commonest
            made.append(each)
        return cls(made, degree)

    @property
    def widths(self) -> list[int]:
        """How many features each column gives."""
        return [len(each.levels) if each.nominal else self.degree + each.missing for each in self.encodings]

    @property
    def width(self) -> int:
        """How many features all columns give."""
        return sum(self.widths)

    @property
    def most(self) -> float:
        """What numbers are held at: their powers, the products of these and sums stay finite."""
        return float(10.0 ** (99.0 / self.degree))

    @property
    def block(self) -> int:
        """Rows in a block."""
        return max(256, min(8192, DESIGN_BLOCK_NUMBERS // (self.width + 3)))

    def ready(self, columns: Columns) -> list[Array]:
        """Each column as numbers (NaN missing) or as places among its levels (-1 commonest or unseen)."""
        return [each.read(columns) for each in self.encodings]

    def rows(self, ready: list[Array], start: int, stop: int) -> Floats:
        """Features of some rows, (width, rows)."""
        out = np.zeros((self.width, stop - start))
        for each, column, into in zip(self.encodings, ready, self.split(out), strict=True):
            part = column[start:stop]
            if each.nominal:
                marked = np.flatnonzero(part >= 0)
                into[part[marked], marked] = 1.0
                continue
            scaled, absent = each.scaled(part)
            np.clip(scaled, -self.most, self.most, out=into[0])
            for power in range(1, self.degree):
                np.multiply(into[power - 1], into[0], out=into[power])
            if each.missing:
                into[-1] = absent
        return out

    def split(self, features: Floats) -> list[Floats]:
        """The part of each column in what has an entry a feature."""
        return np.split(features, np.cumsum(self.widths)[:-1])

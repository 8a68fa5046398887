"""Columns as features of a regression: powers of numbers, indicators of levels and of missing values.

Features are made in blocks of rows, one feature per line of the block, used and forgotten.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.cells.coding import Encoding
from miscal.data.arrays import Array, Floats
from miscal.data.columns import Columns
from miscal.recalibrate.parameters import chosen_columns
from miscal.recalibrate.training_sample import TrainingSample

#: Numbers in a block of rows, and bounds on its rows.
DESIGN_BLOCK_NUMBERS = 1 << 18
MIN_DESIGN_BLOCK_ROWS, MAX_DESIGN_BLOCK_ROWS = 256, 8192
#: Products of powers of numbers stay below 10 to this power.
MAX_FEATURE_EXPONENT = 99.0


@dataclass(frozen=True)
class DesignMatrix:
    """What each column contributes to the features.

    All levels but the most frequent have an indicator, missing being a level.

    Attributes
    ----------
    encodings : list of Encoding
        One per column.
    degree : int
        Highest power of numbers.
    """

    encodings: list[Encoding]
    degree: int

    @classmethod
    def learned(cls, sample: TrainingSample, chosen: Any, degree: int, *, raw: bool) -> "DesignMatrix":
        """Learn the features from the rows to fit on.

        Parameters
        ----------
        sample : TrainingSample
            The rows.
        chosen : str, int, list of these, or None
            Which columns; None for all.
        degree : int
            Highest power of numbers.
        raw : bool
            Whether powers are those of the numbers themselves, not of standardised ones.

        Returns
        -------
        DesignMatrix
        """
        encodings = []
        for column in chosen_columns(sample.columns, chosen):
            encoding = Encoding.learned(column, sample.weight, standard=not raw)
            n_known = len(encoding.levels) - encoding.missing
            if n_known > 0:
                mass = np.bincount(encoding.read(sample.columns), sample.weight)
                del encoding.levels[np.argmax(mass[:n_known])]  # the most frequent is the reference
            encodings.append(encoding)
        return cls(encodings, degree)

    @property
    def widths(self) -> list[int]:
        """How many features each column gives."""
        return [
            len(encoding.levels) if encoding.nominal else self.degree + encoding.missing
            for encoding in self.encodings
        ]

    @property
    def width(self) -> int:
        """How many features all columns give."""
        return sum(self.widths)

    @property
    def max_number(self) -> float:
        """What numbers are clipped to: their powers, the products of these and sums stay finite."""
        return float(10.0 ** (MAX_FEATURE_EXPONENT / self.degree))

    @property
    def block_rows(self) -> int:
        """Rows per block."""
        rows = DESIGN_BLOCK_NUMBERS // (self.width + 3)
        return max(MIN_DESIGN_BLOCK_ROWS, min(MAX_DESIGN_BLOCK_ROWS, rows))

    def read(self, columns: Columns) -> list[Array]:
        """Each column as numbers (NaN missing) or as codes of its levels (-1 most frequent or unseen)."""
        return [encoding.read(columns) for encoding in self.encodings]

    def features(self, values: list[Array], start: int, stop: int) -> Floats:
        """Features of some rows.

        Parameters
        ----------
        values : list of array
            What `read` gave.
        start, stop : int
            The rows.

        Returns
        -------
        (width, rows) array
        """
        out = np.zeros((self.width, stop - start))
        for encoding, column, features in zip(self.encodings, values, self.split(out), strict=True):
            part = column[start:stop]
            if encoding.nominal:
                coded = np.flatnonzero(part >= 0)
                features[part[coded], coded] = 1.0
                continue
            scaled, missing = encoding.scaled(part)
            np.clip(scaled, -self.max_number, self.max_number, out=features[0])
            for power in range(1, self.degree):
                np.multiply(features[power - 1], features[0], out=features[power])
            if encoding.missing:
                features[-1] = missing
        return out

    def split(self, features: Floats) -> list[Floats]:
        """The part of each column in an array with one entry per feature."""
        return np.split(features, np.cumsum(self.widths)[:-1])

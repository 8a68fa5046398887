"""Columns as inputs of a network: codes of categories and scaled numbers."""

from collections.abc import Collection, Sequence

import numpy as np

from miscal.cells.coding import Encoding
from miscal.data.arrays import Array, Codes, Floats
from miscal.data.columns import Column, Columns
from miscal.recalibrate.parameters import MAX_COEFFICIENT

#: Rows of a table of embeddings: unseen levels, then missing values, then the levels.
UNSEEN_CODE, MISSING_CODE = 0, 1
#: Numbers are clipped to so many standard deviations.
MAX_STANDARDISED = 10.0


class NetworkInputs:
    """What is embedded and what is scaled.

    A level not seen in fit has the code `UNSEEN_CODE`, a missing value of a category `MISSING_CODE`. Numbers are
    centred, scaled and clipped to 10 standard deviations; a missing one is 0 beside a flag that says so.

    Parameters
    ----------
    encodings : list of Encoding
        One per column.

    Attributes
    ----------
    embedded, numeric : list of Encoding
        Categorical and numeric columns.
    sizes : list of int
        Rows of each table of embeddings.
    width : int
        Numbers per row: values, then flags of missing ones.
    """

    def __init__(self, encodings: list[Encoding]) -> None:
        self.encodings = encodings
        self.embedded = [encoding for encoding in encodings if encoding.nominal]
        self.numeric = [encoding for encoding in encodings if not encoding.nominal]
        self.sizes = [len(encoding.levels) + 1 for encoding in self.embedded]
        self.width = 2 * len(self.numeric)

    @classmethod
    def learned(cls, columns: Sequence[Column], nominal: Collection[Column] = ()) -> "NetworkInputs":
        """Learn categories and scales from some rows.

        Parameters
        ----------
        columns : sequence of Column
            Of the rows.
        nominal : collection of Column, optional
            Numeric ones to embed too.

        Returns
        -------
        NetworkInputs
        """
        encodings = []
        for column in columns:
            encoding = Encoding.learned(column, nominal=column in nominal, constant=MAX_COEFFICIENT)
            known = [level for level in encoding.levels if level is not None]
            encoding.levels[:] = None, *known  # missing comes first, whether or not there is any
            encodings.append(encoding)
        return cls(encodings)

    def read(self, columns: Columns, rows: int) -> tuple[Codes, Array]:
        """Codes and numbers of some rows.

        Parameters
        ----------
        columns : Columns
            Of the rows.
        rows : int
            How many.

        Returns
        -------
        codes : (rows, categories) array of int32
        numbers : (rows, width) array of float32
        """
        codes = [encoding.read(columns) + 1 for encoding in self.embedded]
        numbers = np.zeros((rows, self.width), np.float32)
        for j, encoding in enumerate(self.numeric):
            scaled, numbers[:, self.width // 2 + j] = encoding.scaled(encoding.read(columns))
            numbers[:, j] = np.clip(scaled, -MAX_STANDARDISED, MAX_STANDARDISED)
        return np.array(codes, dtype=np.int32).reshape(len(codes), rows).T.copy(), numbers


def score_knots(count: int, *, binary: bool) -> Floats:
    """Where the line plot of the score bends.

    Parameters
    ----------
    count : int
        How many knots.
    binary : bool
        Two classes: log-odds of the shares k/(count + 1). Several: their logarithms.

    Returns
    -------
    (count,) array
    """
    shares = np.arange(1, count + 1) / (count + 1.0)
    return np.log(shares / (1.0 - shares)) if binary else np.log(shares)

"""TODO by_columns.network_inputs."""

from collections.abc import Collection, Sequence

import numpy as np

from miscal.cells.coding import Encoding
from miscal.data.arrays import Array, Codes, Floats
from miscal.data.columns import Column, Columns
from miscal.recalibrate.parameters import MAX_COEFFICIENT

UNSEEN_CODE, MISSING_CODE = (
    0,
    1,
)  # places in a table of embeddings: unseen levels, missing values; then come the levels
MAX_STANDARDISED = 10.0  # standard deviations beyond which a number counts as just so far


class NetworkInputs:
    """What is embedded and what is scaled.

    A level not seen in fit has the place OTHER, a missing value of a category the place MISSING. Numbers are centred,
    scaled and held within 10 standard deviations; a missing one is 0 beside a flag that says so.
    """

    def __init__(self, encodings: list[Encoding]) -> None:
        self.encodings = encodings
        self.embedded = [each for each in encodings if each.nominal]
        self.numeric = [each for each in encodings if not each.nominal]
        self.sizes = [len(each.levels) + 1 for each in self.embedded]  # rows of each table of embeddings
        self.width = 2 * len(self.numeric)  # numbers of a row: values, then flags of missing ones

    @classmethod
    def learned(cls, columns: Sequence[Column], nominal: Collection[Column] = ()) -> "NetworkInputs":
        """Read categories and scales off the columns of some rows; numeric ones in `nominal` are embedded too."""
        encodings = []
        for column in columns:
            encoding = Encoding.learned(column, nominal=column in nominal, constant=MAX_COEFFICIENT)
            known = [level for level in encoding.levels if level is not None]
            encoding.levels[:] = None, *known  # missing comes first, whether or not there is any
            encodings.append(encoding)
        return cls(encodings)

    def read(self, columns: Columns, rows: int) -> tuple[Codes, Array]:
        """Codes (rows, categories) and numbers (rows, width)."""
        codes = [each.read(columns) + 1 for each in self.embedded]
        numbers = np.zeros((rows, self.width), np.float32)
        for j, each in enumerate(self.numeric):
            scaled, numbers[:, self.width // 2 + j] = each.scaled(each.read(columns))
            numbers[:, j] = np.clip(scaled, -MAX_STANDARDISED, MAX_STANDARDISED)
        return np.array(codes, dtype=np.int32).reshape(len(codes), rows).T.copy(), numbers


def score_knots(count: int, *, binary: bool) -> Floats:
    """Where the line of the score bends: at log-odds of the shares k/(count + 1), of several classes at logarithms."""
    shares = np.arange(1, count + 1) / (count + 1.0)
    return np.log(shares / (1.0 - shares)) if binary else np.log(shares)

"""What recalibrators that use columns share: how columns become numbers, kept as fitted attributes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from miscal.cells.coding import Encoding
from miscal.data.arrays import Array
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.parameters import state

#: Fitted attributes with one entry per column, and the attribute of its encoding that each holds.
ENCODING_STATE = {
    "names_": "name",
    "nominal_": "nominal",
    "levels_": "levels",
    "means_": "mean",
    "spreads_": "spread",
    "missing_": "missing",
    "ranges_": "ends",
}


class ColumnRecalibrator(Recalibrator):
    """Base class of recalibrators that keep how columns become numbers.

    A subclass declares those attributes of `ENCODING_STATE` that it needs.

    Attributes
    ----------
    names_ : (d,) array of str
        Names of the columns.
    levels_ : list of list
        Levels of each categorical column, in the order of their codes; None is missing.
    """

    uses_columns = True

    names_: Array = state("labels")
    levels_: list[list[Any]] = state("levels")

    def check_state(self) -> None:
        """Reject columns that differ in number."""
        if not self._column_encodings():
            raise ValueError("there are no columns")

    def _store_encodings(self, encodings: Sequence[Encoding]) -> None:
        """Keep encodings as fitted attributes."""
        for name in ENCODING_STATE.keys() & set(self.state_names()):
            values = [getattr(encoding, ENCODING_STATE[name]) for encoding in encodings]
            setattr(self, name, values if name == "levels_" else np.array(values))

    def _column_encodings(self, **common: Any) -> list[Encoding]:
        """How each column becomes numbers; `common` are attributes that all encodings share."""
        arrays = ENCODING_STATE.keys() & set(self.state_names()) - {"levels_"}
        columns = {ENCODING_STATE[name]: getattr(self, name).tolist() for name in arrays}
        columns["levels"] = self.levels_
        encodings = []
        for values in zip(*columns.values(), strict=True):
            attributes = {"nominal": True} | dict(zip(columns, values, strict=True)) | common
            encodings.append(Encoding(**attributes | {"name": str(attributes["name"])}))
        return encodings

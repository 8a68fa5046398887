"""TODO by_columns.base."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from miscal.cells.coding import Encoding
from miscal.data.arrays import Array
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.parameters import state

ENCODING_STATE = {  # fitted attributes, one entry a column, and what they are of its encoding
    "names_": "name",
    "nominal_": "nominal",
    "levels_": "levels",
    "means_": "mean",
    "spreads_": "spread",
    "missing_": "missing",
    "ranges_": "ends",
}


class ColumnRecalibrator(Recalibrator):
    """Base of recalibrators that remember how columns become numbers, as far as they declare it."""

    uses_columns = True

    names_: Array = state("labels")
    levels_: list[list[Any]] = state("levels")

    def check_state(self) -> None:
        """Refuse columns that differ in number."""
        if not self._column_encodings():
            raise ValueError("there are no columns")

    def _store_encodings(self, encodings: Sequence[Encoding]) -> None:
        for name in ENCODING_STATE.keys() & set(self.state_names()):
            found = [getattr(each, ENCODING_STATE[name]) for each in encodings]
            setattr(self, name, found if name == "levels_" else np.array(found))

    def _column_encodings(self, **more: Any) -> list[Encoding]:
        """How each column becomes numbers; `more` says what is alike for all."""
        kept = ENCODING_STATE.keys() & set(self.state_names()) - {"levels_"}
        columns = {ENCODING_STATE[name]: getattr(self, name).tolist() for name in kept} | {
            "levels": self.levels_
        }
        rows = zip(*columns.values(), strict=True)
        named = [{"nominal": True} | dict(zip(columns, row, strict=True)) | more for row in rows]
        return [Encoding(**each | {"name": str(each["name"])}) for each in named]

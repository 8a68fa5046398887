"""From what a metric was given to the pair it compares, checked once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from miscal.data.columns import Column, column
from miscal.data.errors import refusal
from miscal.data.predictions import Predictions, check_arrays
from miscal.pairs import Pair, pair


class Given:
    """Checked arrays of one metric call; rows of weight 0 are left out of everything alike."""

    def __init__(self, y_true: Any, y_prob: Any, sample_weight: Any = None) -> None:
        self.predictions: Predictions = check_arrays(y_true, y_prob, sample_weight)
        self.rows = self.predictions.rows + self.predictions.ignored  # those of weight 0 among them
        self.kept: np.ndarray | None = None  # the rows of positive weight, where not all are
        if self.predictions.ignored:
            self.kept = np.flatnonzero(np.asarray(sample_weight, dtype=np.float64) > 0)

    def pair(self, target: str | int, correct: Any = None) -> Pair:
        """The pair that the target asks for."""
        if correct is not None:
            correct = self.kept_rows(np.asarray(correct), "'correct'")
        return pair(self.predictions, target, correct)

    def numbers(self, values: Any, where: str) -> np.ndarray:
        """A finite number a row."""
        converted = column(where.strip("'"), values, where=where)
        if converted.nominal:
            raise refusal("must hold numbers", where=where, got=f"it holds {converted.kind} values")
        array = np.ascontiguousarray(self.kept_rows(converted.values, where), dtype=np.float64)
        if np.isnan(array).any():
            row = int(np.flatnonzero(np.isnan(array))[0])
            raise refusal("must not be missing", where=where, got=f"row {row} is missing")
        return array

    def column(self, each: Column) -> Column:
        """A column of the same rows."""
        values = self.kept_rows(each.values, f"column '{each.name}'")
        return each if self.kept is None else replace(each, values=values)

    def kept_rows(self, values: np.ndarray, where: str) -> np.ndarray:
        """Those of the rows given that have a weight."""
        if values.shape[:1] != (self.rows,):
            raise refusal(f"must have one value a row ({self.rows})", where=where, got=f"its shape is {values.shape}")
        return values if self.kept is None else values[self.kept]

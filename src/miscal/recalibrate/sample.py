"""Validated rows that recalibrators are fitted on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data import checks, responses
from miscal.data.columns import Columns
from miscal.data.predictions import Predictions
from miscal.data.vectors import locked
from miscal.recalibrate.certain import unit_of
from miscal.recalibrate.families import FAMILIES, Family

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
LEAST = 1e-12  # probabilities are held above it in the log loss
WARM_ROWS = 1 << 14  # a fit on so many rows starts the fit on all of them close to its end


@dataclass(frozen=True)
class Sample:
    """Validated rows to fit on; rows of weight 0 are gone."""

    probability: Floats  # (n,) = P(class 1), or (n, K)
    outcome: Array  # class indices
    weight: Floats | None
    columns: Columns
    n_classes: int
    response: str = "binary"  # of a mean "real" or "count": `outcome` is the mean itself, `weight` holds the exposure

    def __post_init__(self) -> None:
        kind = np.int64 if self.n_classes > 2 else np.uint8
        outcome = self.outcome.astype(kind if self.response == "binary" else np.float64, copy=False)
        weight = None if self.weight is None else locked(self.weight)
        self.__dict__.update(probability=locked(self.probability), outcome=locked(outcome), weight=weight)

    @classmethod
    def of(cls, rows: Predictions, columns: Columns) -> Sample:
        """Of validated predictions, with some of their columns."""
        return cls(rows.probability, rows.outcome, row_weight(rows), columns, rows.n_classes, rows.response)

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.outcome)

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.rows) if self.weight is None else float(self.weight.sum())

    @property
    def weight_or_empty(self) -> Floats:
        """Weights as kernels take them: empty means ones."""
        return np.empty(0) if self.weight is None else self.weight

    @property
    def weights(self) -> Floats:
        """One weight a row."""
        return np.ones(self.rows) if self.weight is None else self.weight

    @property
    def family(self) -> Family:
        """What kind of mean the outcome has."""
        return FAMILIES[self.response]

    @property
    def rate(self) -> float:
        """The weighted mean of the outcome: of two classes the share of events."""
        if self.response != "binary":
            return float(np.average(self.outcome, weights=self.weight))
        rate = float(self.class_weights()[1]) / self.total
        return min(max(rate, 1e-300), 1.0 - 2.0**-53)  # weights far apart may round it to an end

    def class_weights(self) -> Floats:
        """Weight of each class."""
        return np.bincount(self.outcome, weights=self.weight, minlength=self.n_classes).astype(np.float64)

    def losses(self, mapped: Floats) -> Floats:
        """What each row loses by (n, K) probabilities, or by means as recalibrators carry them."""
        if self.response != "binary":
            return self.family.losses(self.family.link(mapped[:, 1]), self.outcome)
        return np.asarray(-np.log(np.maximum(mapped[np.arange(self.rows), self.outcome], LEAST)))

    def take(self, rows: Array) -> Sample:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        columns = self.columns.take(rows)
        return replace(
            self, probability=self.probability[rows], outcome=self.outcome[rows], weight=weight, columns=columns
        )

    def thinned(self) -> Sample | None:
        """Every so many rows, enough to start a fit from; None where there are few rows or a class would be lost."""
        stride = self.rows // WARM_ROWS
        thin = self.take(np.arange(0, self.rows, stride)) if stride >= 4 else None
        return thin if thin is not None and (thin.class_weights() > 0).all() else None


def row_weight(rows: Predictions) -> Floats | None:
    """What each row counts for in a mean; of counts, sums of weight times outcome count events."""
    weight = rows.weight
    if rows.response == "count" and weight is not None:
        weight = weight / unit_of(float(weight.sum()), len(weight))
    stands = rows.count if rows.exposure is None else rows.exposure
    return weight if stands is None else np.asarray(stands * (1.0 if weight is None else weight))


def means_like(prediction: Any, response: str) -> Floats:
    """Predictions of new rows, checked as those of fit were."""
    found = responses.numbers(prediction, "'prediction'")
    if response == "count":
        checks.refuse_rows(found < 0.0, "must not be negative", "'prediction'", found)
    return found

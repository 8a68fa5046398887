"""Validated rows that recalibrators are fitted on, the kind of mean their outcome has, and what certainties become.

A change of the link times the residual has mean 0 in all three families where the prediction is right: that is what
every test of a gain stands on, whatever the variance of the outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from miscal.data.arrays import Array, Floats, locked
from miscal.data.columns import Columns
from miscal.data.predictions import Predictions
from miscal.export import formula as nodes
from miscal.recalibrate.outcome_families import FAMILIES, OutcomeFamily

FitResult: TypeAlias = tuple[Floats, bool]  # what a fit found, and whether its loss falls without end

MIN_PROBABILITY = 1e-12  # probabilities are held above it in the log loss
WARM_START_ROWS = 1 << 14  # a fit on so many rows starts the fit on all of them close to its end


@dataclass(frozen=True)
class TrainingSample:
    """Validated rows to fit on; rows of weight 0 are gone."""

    probability: Floats  # (n,) = P(class 1), or (n, K)
    outcome: Array  # class indices
    weight: Floats | None
    columns: Columns
    n_classes: int
    # Of a mean "real" or "count": `outcome` is the mean itself, `weight` holds the exposure.
    response: str = "binary"

    def __post_init__(self) -> None:
        kind = np.int64 if self.n_classes > 2 else np.uint8
        outcome = self.outcome.astype(kind if self.response == "binary" else np.float64, copy=False)
        weight = None if self.weight is None else locked(self.weight)
        self.__dict__.update(probability=locked(self.probability), outcome=locked(outcome), weight=weight)

    @classmethod
    def from_predictions(cls, rows: Predictions, columns: Columns) -> "TrainingSample":
        """Of validated predictions, with some of their columns."""
        probability = nodes.settled(rows.probability)
        return cls(probability, rows.outcome, row_weight(rows), columns, rows.n_classes, rows.response)

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.outcome)

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.rows if self.weight is None else self.weight.sum())

    @property
    def weights(self) -> Floats:
        """One weight a row."""
        return np.ones(self.rows) if self.weight is None else self.weight

    @property
    def family(self) -> OutcomeFamily:
        """What kind of mean the outcome has."""
        return FAMILIES[self.response]

    @property
    def rate(self) -> float:
        """The weighted mean of the outcome: of two classes the share of events."""
        if self.response != "binary":
            return float(np.average(self.outcome, weights=self.weight))
        rate = float(self.class_weights[1]) / self.total
        return min(max(rate, 1e-300), 1.0 - 2.0**-53)  # weights far apart may round it to an end

    @property
    def has_variation(self) -> bool:
        """Whether something can be learned from the outcome: of two or more classes, more than one occurs."""
        return self.response != "binary" or np.flatnonzero(self.class_weights).size > 1

    @cached_property
    def class_weights(self) -> Array:
        """Weight of each class."""
        return np.bincount(self.outcome, weights=self.weight, minlength=self.n_classes)

    def losses(self, mapped: Floats) -> Floats:
        """What each row loses by (n, K) probabilities, or by means as recalibrators carry them."""
        if self.response != "binary":
            return self.family.losses(self.family.link(mapped[:, 1]), self.outcome)
        return -np.log(np.maximum(mapped[np.arange(self.rows), self.outcome], MIN_PROBABILITY))

    def take(self, rows: Array) -> "TrainingSample":
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        probability, outcome = self.probability[rows], self.outcome[rows]
        columns = self.columns.take(rows)
        return replace(self, probability=probability, outcome=outcome, weight=weight, columns=columns)

    def numeric_names(self) -> list[str]:
        """Names of the numeric columns."""
        return [name for name, column in self.columns.items() if not column.nominal]

    def category_names(self, most: float = np.inf) -> list[str]:
        """Names of the categories of two levels or more, and of so many at most."""
        return [
            name
            for name, column in self.columns.items()
            if column.nominal and 2 <= len(column.levels) <= most
        ]

    def thinned(self) -> "TrainingSample | None":
        """Every so many rows, enough to start a fit from; None where there are few rows or a class would be lost."""
        stride = self.rows // WARM_START_ROWS
        if stride < 4:
            return None
        thin = self.take(np.arange(0, self.rows, stride))
        return thin if thin.class_weights.all() else None


def warm_started(
    sample: TrainingSample, fit: Callable[[TrainingSample, Floats], FitResult], start: Floats
) -> FitResult:
    """What `fit` finds from a start, and whether it has no end; of many rows from where a part of them ends."""
    thin = sample.thinned()
    if thin is not None:
        found, without_end = fit(thin, start)
        if not without_end:
            start = found
    return fit(sample, start)


def row_weight(rows: Predictions) -> Floats | None:
    """What each row counts for in a mean; of counts, sums of weight times outcome count events."""
    weight = rows.weight
    if rows.response == "count" and weight is not None:
        weight = weight / weight_of_one_row(weight.sum(), len(weight))
    stands = rows.count if rows.exposure is None else rows.exposure
    return weight if stands is None else np.asarray(stands * (1.0 if weight is None else weight))


# ------------------------------------------------------------------------------------------------------ certainties
def weight_of_one_row(total: float, rows: float) -> float:
    """The weight that counts as one row: 1, or the mean weight where that is less (weights that are shares)."""
    return min(1.0, total / rows) if rows else 1.0

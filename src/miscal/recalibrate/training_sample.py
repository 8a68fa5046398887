"""The validated rows that a recalibrator is fitted on, and fits that start from a thinned sample of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from miscal.codes.data import Response
from miscal.data.arrays import Array, Floats, locked
from miscal.data.columns import Columns
from miscal.data.predictions import Predictions
from miscal.export import formula as nodes
from miscal.recalibrate.outcome_families import FAMILIES, OutcomeFamily

#: The optimum that a fit found, and whether its loss falls towards infinity.
FitResult: TypeAlias = tuple[Floats, bool]

#: Probabilities are clipped to at least this in the log loss.
MIN_PROBABILITY = 1e-12
#: A fit on about so many rows starts the fit on all of them close to its optimum.
WARM_START_ROWS = 1 << 14
#: A sample that is thinned by less than this factor would not save time.
MIN_THINNING = 4


@dataclass(frozen=True)
class TrainingSample:
    """Validated rows to fit on, without rows of weight 0.

    Attributes
    ----------
    probability : (n,) or (n, K) array
        P(class 1), or one probability per class; of means the predicted mean.
    outcome : (n,) array
        Class indices; of means the mean itself.
    weight : (n,) array or None
        None where all rows count as one. Of means it includes the exposure.
    columns : Columns
        The columns that a recalibrator may use.
    n_classes : int
        How many classes; 2 for means.
    response : str
        What the outcome is.
    """

    probability: Floats
    outcome: Array
    weight: Floats | None
    columns: Columns
    n_classes: int
    response: str = Response.BINARY

    def __post_init__(self) -> None:
        class_type = np.int64 if self.n_classes > 2 else np.uint8
        outcome_type = class_type if self.response == Response.BINARY else np.float64
        object.__setattr__(self, "probability", locked(self.probability))
        object.__setattr__(self, "outcome", locked(self.outcome.astype(outcome_type, copy=False)))
        object.__setattr__(self, "weight", None if self.weight is None else locked(self.weight))

    @classmethod
    def from_predictions(cls, rows: Predictions, columns: Columns) -> "TrainingSample":
        """The rows of validated predictions, with some of their columns.

        Parameters
        ----------
        rows : Predictions
            What is fitted on.
        columns : Columns
            What the recalibrator may use.

        Returns
        -------
        TrainingSample
        """
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
        """One weight per row."""
        return np.ones(self.rows) if self.weight is None else self.weight

    @property
    def family(self) -> OutcomeFamily:
        """Link and loss of the outcome."""
        return FAMILIES[self.response]

    @property
    def rate(self) -> float:
        """The weighted mean of the outcome: of two classes the share of events, strictly between 0 and 1."""
        if self.response != Response.BINARY:
            return float(np.average(self.outcome, weights=self.weight))
        rate = float(self.class_weights[1]) / self.total
        return min(max(rate, 1e-300), 1.0 - 2.0**-53)  # very unequal weights may round it to 0 or 1

    @property
    def has_variation(self) -> bool:
        """Whether something can be learned from the outcome: of classes, more than one occurs."""
        return self.response != Response.BINARY or np.flatnonzero(self.class_weights).size > 1

    @cached_property
    def class_weights(self) -> Array:
        """Sum of the weights of each class."""
        return np.bincount(self.outcome, weights=self.weight, minlength=self.n_classes)

    def losses(self, mapped: Floats) -> Floats:
        """Loss of each row.

        Parameters
        ----------
        mapped : (n, K) array
            Probabilities, or means as recalibrators carry them, in column 1.

        Returns
        -------
        (n,) array
            Log loss, squared error or deviance.
        """
        if self.response != Response.BINARY:
            return self.family.losses(self.family.link(mapped[:, 1]), self.outcome)
        return -np.log(np.maximum(mapped[np.arange(self.rows), self.outcome], MIN_PROBABILITY))

    def take(self, rows: Array) -> "TrainingSample":
        """Some of the rows.

        Parameters
        ----------
        rows : array of int or bool
            Their positions, or a mask.

        Returns
        -------
        TrainingSample
        """
        return replace(
            self,
            probability=self.probability[rows],
            outcome=self.outcome[rows],
            weight=None if self.weight is None else self.weight[rows],
            columns=self.columns.take(rows),
        )

    def numeric_names(self) -> list[str]:
        """Names of the numeric columns."""
        return [name for name, column in self.columns.items() if not column.nominal]

    def category_names(self, max_levels: float = np.inf) -> list[str]:
        """Names of the categorical columns that have at least two levels and at most `max_levels`."""
        return [
            name
            for name, column in self.columns.items()
            if column.nominal and 2 <= len(column.levels) <= max_levels
        ]

    def thinned(self) -> "TrainingSample | None":
        """Evenly spaced rows to start a fit from; None where there are few rows or a class would be lost."""
        stride = self.rows // WARM_START_ROWS
        if stride < MIN_THINNING:
            return None
        sample = self.take(np.arange(0, self.rows, stride))
        return sample if sample.class_weights.all() else None


def warm_started(
    sample: TrainingSample, fit: Callable[[TrainingSample, Floats], FitResult], start: Floats
) -> FitResult:
    """Fit to all rows, starting from the optimum of a thinned sample where there are many.

    Parameters
    ----------
    sample : TrainingSample
        All rows.
    fit : callable
        Fits to rows from a starting point.
    start : array
        Where the first fit starts.

    Returns
    -------
    optimum : array
        Shaped as `start`.
    diverges : bool
        Whether the loss falls towards infinity.
    """
    thinned = sample.thinned()
    if thinned is not None:
        optimum, diverges = fit(thinned, start)
        if not diverges:
            start = optimum
    return fit(sample, start)


def row_weight(rows: Predictions) -> Floats | None:
    """What each row counts for in a mean; of counts, sums of weight times outcome count events.

    Parameters
    ----------
    rows : Predictions
        With weights, repetitions or exposure.

    Returns
    -------
    (n,) array or None
        None where all rows count as one.
    """
    weight = rows.weight
    if rows.response == Response.COUNT and weight is not None:
        weight = weight / weight_of_one_row(weight.sum(), len(weight))
    repetitions = rows.count if rows.exposure is None else rows.exposure
    if repetitions is None:
        return weight
    return np.asarray(repetitions * (1.0 if weight is None else weight))


def weight_of_one_row(total: float, rows: float) -> float:
    """The weight that counts as one row: 1, or the mean weight where that is less (weights that are shares).

    Parameters
    ----------
    total : float
        Sum of the weights.
    rows : float
        How many rows.

    Returns
    -------
    float
    """
    return min(1.0, total / rows) if rows else 1.0

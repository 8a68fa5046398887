"""Validated rows that recalibrators are fitted on, the kind of mean their outcome has, and what certainties become.

A change of the link times the residual has mean 0 in all three families where the prediction is right: that is what
every test of a gain stands on, whatever the variance of the outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from miscal.data.arrays import Array, Floats, locked, logit, sigmoid
from miscal.data.columns import Columns
from miscal.data.libraries import special
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData
from miscal.export import formula as nodes
from miscal.export.dialects import EXP_LIMIT
from miscal.metrics.losses import pooled_scores

Map: TypeAlias = Callable[[Floats], Floats]
Found: TypeAlias = tuple[Floats, bool]  # what a fit found, and whether its loss falls without end

LEAST = 1e-12  # probabilities are held above it in the log loss
WARM_ROWS = 1 << 14  # a fit on so many rows starts the fit on all of them close to its end
EDGE = 1e-7  # probabilities are held within [EDGE, 1 - EDGE] before the logit
LEAST_RATE = 1e-12  # that a count's prediction is held at before its logarithm
HALF = 0.5  # events
NEAR = 0.01  # scores beyond it are no certainties, whatever happened
FURTHEST = 0.05  # that a score is moved: what is wrong beyond it is the map's to mend
SURPRISE = 1e-4  # chance of as many events at scores that said there would be hardly any


@dataclass(frozen=True)
class OutcomeFamily:
    """One kind of outcome.

    link, mean : where changes add, and the way back
    losses : of each row, from the link of its prediction and its outcome
    bend : the second derivative of half the loss, from the prediction
    objective, loss : the names LightGBM and tables have for the loss
    before, after : the link of the probability as a node of a formula, and `mean` of a node
    """

    link: Map
    mean: Map
    losses: Callable[[Floats, Floats], Floats]
    bend: Map
    objective: str
    loss: str
    before: nodes.Node
    after: Callable[[nodes.Node], nodes.Node]

    def target(self, mean: Floats, outcome: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """What trees and orders of levels look at, with its weight: the difference to the prediction, or the ratio."""
        if self.objective != "poisson":
            return outcome - mean, weight
        held = np.maximum(mean, LEAST_RATE)
        return outcome / held, weight * held


def exp_held(link: Floats) -> Floats:
    """The exponential, held where it neither overflows nor underflows, as formulas hold it."""
    return np.exp(np.clip(link, -EXP_LIMIT, EXP_LIMIT))


FAMILIES = {
    "binary": OutcomeFamily(
        link=lambda mean: logit(mean, EDGE),
        mean=sigmoid,
        losses=lambda link, outcome: np.logaddexp(0.0, link) - outcome * link,
        bend=lambda mean: mean * (1.0 - mean),
        objective="binary",
        loss="log loss",
        before=nodes.logit(EDGE),
        after=nodes.Sigmoid,
    ),
    "real": OutcomeFamily(
        link=np.asarray,  # as it is
        mean=np.asarray,
        losses=lambda link, outcome: (outcome - link) ** 2,
        bend=np.ones_like,
        objective="regression",
        loss="squared error",
        before=nodes.PROBABILITY,
        after=lambda node: node,
    ),
    "count": OutcomeFamily(
        link=lambda mean: np.log(np.maximum(mean, LEAST_RATE)),
        mean=exp_held,
        losses=lambda link, y: 2.0 * (special.xlogy(y, y) - y * link - y + exp_held(link)),
        bend=np.asarray,
        objective="poisson",
        loss="deviance",
        before=nodes.log_above(LEAST_RATE),
        after=nodes.exp,
    ),
}


@dataclass(frozen=True)
class Sample:
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
    def of(cls, rows: Predictions, columns: Columns) -> "Sample":
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
    def varied(self) -> bool:
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
        return -np.log(np.maximum(mapped[np.arange(self.rows), self.outcome], LEAST))

    def take(self, rows: Array) -> "Sample":
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        probability, outcome = self.probability[rows], self.outcome[rows]
        columns = self.columns.take(rows)
        return replace(self, probability=probability, outcome=outcome, weight=weight, columns=columns)

    def numbers(self) -> list[str]:
        """Names of the numeric columns."""
        return [name for name, column in self.columns.items() if not column.nominal]

    def categories(self, most: float = np.inf) -> list[str]:
        """Names of the categories of two levels or more, and of so many at most."""
        return [
            name
            for name, column in self.columns.items()
            if column.nominal and 2 <= len(column.levels) <= most
        ]

    def thinned(self) -> "Sample | None":
        """Every so many rows, enough to start a fit from; None where there are few rows or a class would be lost."""
        stride = self.rows // WARM_ROWS
        if stride < 4:
            return None
        thin = self.take(np.arange(0, self.rows, stride))
        return thin if thin.class_weights.all() else None


def warmed(sample: Sample, fit: Callable[[Sample, Floats], Found], start: Floats) -> Found:
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
        weight = weight / unit_of(weight.sum(), len(weight))
    stands = rows.count if rows.exposure is None else rows.exposure
    return weight if stands is None else np.asarray(stands * (1.0 if weight is None else weight))


# ------------------------------------------------------------------------------------------------------ certainties
def unit_of(total: float, rows: float) -> float:
    """The weight that counts as one row: 1, or the mean weight where that is less (weights that are shares)."""
    return min(1.0, total / rows) if rows else 1.0


def inside(rate: Floats, mass: Floats, smooth: float) -> Floats:
    """Rates of cells of so many rows, held `smooth` of an event away from certainty: e / (n + 2 e) at least."""
    edge = smooth / (np.maximum(mass, 0.0) + 2.0 * smooth) if smooth else 0.0
    return np.clip(rate, edge, 1.0 - edge)


def limits(sample: Sample) -> Floats | None:
    """Within what scores of two classes are held: (low, high), or None where none is certain or refuted.

    Rows said exactly 0 (and 1, the other way round) are moved to the rate that they bear out, half an event added, but
    not past the next score; where more of the lowest scores happened than a Poisson of their sum allows (chance 1e-4)
    past it: to the least such rate among all the scores up to some point, 0.05 at most.
    """
    if sample.n_classes > 2 or sample.response != "binary":
        return None
    p, y, weight = sample.probability, sample.outcome, sample.weight
    mass = None if weight is None else weight / unit_of(sample.total, sample.rows)
    low, rest = _floor(TargetData(p, y, mass)), _floor(TargetData(1.0 - p, 1 - y, mass))
    return np.array([low, 1.0 - rest]) if low > 0.0 or rest > 0.0 else None


def _floor(rows: TargetData) -> float:
    near = rows.take(np.flatnonzero(rows.predicted <= NEAR))
    if near.predicted.min(initial=1.0) > 0.0 and not near.observed.any():
        return 0.0
    at, weight, here = pooled_scores(near)
    events, said = np.cumsum(here), np.cumsum(weight * at)
    refuted = (events >= 1.0) & (events > said + 3.0 * np.sqrt(said))  # nearer it happens more often
    refuted[refuted] = special.gammainc(events[refuted], said[refuted]) <= SURPRISE
    found = np.flatnonzero(refuted | (at == 0.0))
    if not found.size:
        return 0.0
    last = found[-1]
    at, weight, here = pooled_scores(
        rows.take(np.flatnonzero(rows.predicted <= FURTHEST))
    )  # the same ones first
    rates = (np.cumsum(here) + HALF) / (np.cumsum(weight) + 2.0 * HALF)
    low = rates[last:].min(initial=FURTHEST)
    if not refuted.any():
        low = at[last + 1 : last + 2].min(initial=low)
    return float(low)

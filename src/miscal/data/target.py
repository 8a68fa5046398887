"""What is compared: the predicted probability of an event, and whether the event happened.

Every pooled notion exists for several events: the positive class, one class against the rest, or "the predicted label
is right" with the confidence in that label.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from miscal.data.arrays import Array, Plain, locked
from miscal.data.errors import nearest, refusal
from miscal.data.predictions import Predictions
from miscal.data.responses import Units
from miscal.kernels.classes import top_label

ARRAYS = ("predicted", "observed", "weight", "count", "cluster")
WHOLE_LIMIT = 2.0**31  # products of weights and limbs stay below 2**63


@dataclass(frozen=True, eq=False)
class TargetData:
    """Predicted and observed values of the same rows, with their sampling weight and how often each row stands.

    Attributes
    ----------
    predicted : float64 (n,), in [0, 1]
    observed : uint8 or int64 (n,) of 0 and 1, or float64 (n,) in [0, 1]; both are in `units` where they are no events
    weight : float64 (n,) or None; sampling weights, scale-free
    count : int64 (n,) or None; repetitions (aggregated rows)
    cluster : int64 (n,) or None
    label : what the event is, as settings record it
    units : where predicted and observed values that are no probabilities lie in [0, 1]
    weight_is_exposure : whether the weight is exposure, in proportion to which the variance of a sum grows
    """

    predicted: Array
    observed: Array
    weight: Array | None = None
    count: Array | None = None
    cluster: Array | None = None
    label: str = "positive"
    units: Units = Units()  # noqa: RUF009  # frozen
    weight_is_exposure: bool = False

    def __post_init__(self) -> None:
        for name in ARRAYS:
            values = getattr(self, name)
            if values is not None and (values.flags.writeable or not values.flags.c_contiguous):
                self.__dict__[name] = locked(values)

    @cached_property
    def rows(self) -> int:
        return self.predicted.size

    @cached_property
    def binary(self) -> bool:
        """Whether the observed values are only 0 and 1, so that they can be counted."""
        return self.observed.dtype.kind in "ui"

    @cached_property
    def has_whole_weights(self) -> bool:
        """Whether all weights are whole numbers small enough for exact integer sums."""
        if self.weight is None:
            return self.count is None or bool(self.count.max(initial=0) < WHOLE_LIMIT)
        top = float(self.weight.max(initial=0.0)) ** 2
        if self.count is not None:
            top *= float(self.count.max(initial=0))
        return top < WHOLE_LIMIT and np.array_equal(self.weight, np.floor(self.weight))

    @cached_property
    def is_unweighted(self) -> bool:
        """Whether every row counts once."""
        return self.weight is None and self.count is None

    @cached_property
    def mean_weight(self) -> Array | None:
        """Weight of a row in means: w * count. None when every row counts once."""
        if self.is_unweighted:
            return None
        if self.weight is None:
            return locked(np.asarray(self.count, float))
        return self.weight if self.count is None else locked(self.weight * self.count)

    @cached_property
    def variance_weight(self) -> Array | None:
        """Weight of a row in variances: w**2 * count. None when every row counts once."""
        if self.weight is None or self.mean_weight is None:
            return self.mean_weight
        return locked(self.weight * self.mean_weight)

    @property
    def all_weights(self) -> tuple[Array, Array]:
        """`mean_weight` and `variance_weight`, ones where every row counts once."""
        if self.mean_weight is None or self.variance_weight is None:
            return (np.ones(self.rows),) * 2
        return self.mean_weight, self.variance_weight

    def weighted(self, values: Array) -> Array:
        """What each row gives to a sum: values times `mean_weight`."""
        return values if self.mean_weight is None else values * self.mean_weight

    @property
    def kernel_weight(self) -> Array:
        """`mean_weight`, empty where every row counts once: as kernels take it."""
        return np.empty(0) if self.mean_weight is None else self.mean_weight

    @property
    def sampling_weight(self) -> Array:
        """Sampling weight of each row, ones where there is none."""
        return np.ones(self.rows) if self.weight is None else self.weight

    def trials(self) -> Array:
        """How many trials each row stands for."""
        return np.ones(self.rows, np.int64) if self.count is None else self.count

    def take(self, rows: Array | slice) -> Self:
        """The pair of some rows (indices, a mask or a slice)."""
        kept: Plain = {name: values[rows] for name in ARRAYS if (values := getattr(self, name)) is not None}
        return replace(self, **kept)


def select_target(predictions: Predictions, target: str | int = "auto") -> TargetData:
    """The pair that a target asks for.

    Parameters
    ----------
    target : "auto" (positive for two classes, top for more), "positive", "top", or a class against the rest
    """
    probability, outcome = predictions.probability, predictions.outcome
    weight, exposure = predictions.weight, predictions.exposure
    if predictions.response != "binary":  # means, in units in which they lie in [0, 1]; exposure is a weight
        if target not in ("auto", "positive"):
            raise refusal("needs classes", "'target'", got=f"the response is {predictions.response!r}")
        units, about = predictions.units, (predictions.cluster, predictions.response)
        if exposure is not None:
            weight = exposure if weight is None else weight * exposure
        values = units.inside(probability), units.inside(outcome)
        return TargetData(*values, weight, None, *about, units, exposure is not None)
    named = _target(target, predictions)
    if named == "top" and probability.ndim == 1:
        label = probability > 0.5
        predicted = np.where(label, probability, 1.0 - probability)
        observed = (label == outcome).view(np.uint8)
    elif named == "top":
        predicted, observed = np.empty(len(outcome)), np.empty(len(outcome), np.uint8)
        top_label(probability, outcome, predicted, observed)
    elif probability.ndim == 2:
        predicted = np.ascontiguousarray(probability[:, int(named)])
        observed = (outcome == named).view(np.uint8)
    elif named in ("positive", 1):
        predicted, observed = probability, outcome
    else:
        predicted, observed = 1.0 - probability, (outcome == 0).view(np.uint8)
    return TargetData(predicted, observed, weight, predictions.count, predictions.cluster, label=str(named))


def require_events(p: Predictions, what: str) -> Predictions:
    """The predictions; refused where they are no probabilities, and events or classes are compared."""
    if p.response != "binary":
        raise refusal("needs events or classes", what, got=f"the response is {p.response!r}")
    return p


def outcome_data(p: Predictions) -> TargetData:
    """Weights, counts and clusters of the rows, with the outcomes themselves as what is compared."""
    return TargetData(p.outcome, p.outcome, p.weight, p.count, p.cluster)


def _target(target: str | int, predictions: Predictions) -> str | int:
    """Which event is asked for, as a word or as the number of a class."""
    several = predictions.probability.ndim == 2
    usual = "top" if several else "positive"
    words = dict.fromkeys(("auto", usual, "top"))
    if isinstance(target, str) and target in words:
        return usual if target == "auto" else target
    whole_number = isinstance(target, (int, np.integer)) and not isinstance(target, bool)
    if whole_number and 0 <= int(target) < predictions.n_classes:
        return int(target)
    names = [str(name) for name in predictions.classes]
    if str(target) in names and not whole_number:
        return names.index(str(target))
    what = f"must be 'auto', 'top', 'positive' of two classes, or a class: 0 to {len(names) - 1} or its name"
    hint = nearest(str(target), [*words, *names])
    raise refusal(what, "'target'", got=f"it is {target!r}", hint=hint)

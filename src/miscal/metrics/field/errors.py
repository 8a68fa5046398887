"""Errors read off the levels of a field (paper 003, equations 3 to 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.carriers.tally import Tally
from miscal.data.errors import refusal, warn
from miscal.engines.memory import mean_tally
from miscal.metrics.arrays import Given
from miscal.metrics.norms import Norm, aggregate, norm_power
from miscal.metrics.score.binned import Bins
from miscal.pairs import Pair
from miscal.pooling.bins import edges_for
from miscal.pooling.fields import CodePooling, Numbered, field_pooling


def field_calibration_error(
    y_true: Any,
    y_prob: Any,
    field: Any,
    *,
    bins: Bins | None = None,
    norm: Norm = "l1",
    target: str | int = "auto",
    sample_weight: Any = None,
) -> float:
    r"""Average gap between predicted probability and observed frequency over the levels of a field (Field-ECE).

    .. math:: \frac{1}{W}\sum_z \Big|\sum_{i \in z} w_i (y_i - p_i)\Big|

    Every level counts, however rare, and missing values are a level of their own. With many levels most of the value
    is noise: `miscal.by_field` says how much.

    Parameters
    ----------
    y_true : (n,) booleans, 0/1, or class numbers 0..K-1
    y_prob : (n,) probability of class 1, (n, 2), or (n, K) with rows that sum to 1
    field : (n,) values of any kind, or several fields to cross
        A list of scalars is one field, a list of arrays (or a frame) is crossed: combinations that occur are levels.
        Small whole numbers are used as they are, without being sorted or hashed.
    bins : number of equal-support ranges, or edges, into which numeric fields are cut; None: each number is a level
    norm : "l1", "l2" (root of the weighted mean square), "max", or any p >= 1
    target : "auto", "positive", "top" (confidence against correctness), or a class against the rest
    sample_weight : (n,) sampling weights; rows of weight 0 are ignored

    Examples
    --------
    >>> from miscal.metrics import field_calibration_error
    >>> round(field_calibration_error([0, 1, 1, 1], [0.1, 0.8, 0.9, 0.6], ["a", "a", "b", "b"]), 6)
    0.15
    >>> round(field_calibration_error([0, 1], [0.1, 0.8], [["a", "a"], [1, 2]]), 6)
    0.15
    """
    norm_power(norm)
    tally = _level_tally(y_true, y_prob, field, bins, target, sample_weight)
    return float(aggregate(tally.gap, tally.weight, norm))


def field_relative_calibration_error(
    y_true: Any,
    y_prob: Any,
    field: Any,
    *,
    epsilon: float = 0.01,
    zero: str = "epsilon",
    bins: Bins | None = None,
    norm: Norm = "l1",
    target: str | int = "auto",
    sample_weight: Any = None,
) -> float:
    r"""Average gap relative to the observed frequency, over the levels of a field (Field-RCE).

    .. math:: \frac{1}{W}\sum_z W_z\,\frac{|\sum_{i\in z} w_i(y_i-p_i)|}{\sum_{i\in z} w_i(y_i+\varepsilon)}

    The epsilon stands inside the sum, as in the paper: a level without events has :math:`\varepsilon W_z` beneath the
    line and can weigh heavily. With ``zero="drop"`` levels without events leave both sums, and epsilon is 0.

    Parameters
    ----------
    epsilon : above 0; used with ``zero="epsilon"`` alone
    zero : "epsilon" or "drop"
        What becomes of levels without events. NaN, with a warning, where "drop" leaves none.

    Notes
    -----
    The other parameters are those of `field_calibration_error`.

    Examples
    --------
    >>> from miscal.metrics import field_relative_calibration_error
    >>> y, p, z = [1, 0, 0, 0], [0.5, 0.25, 0.25, 0.25], ["a", "a", "b", "b"]
    >>> round(field_relative_calibration_error(y, p, z), 4)
    12.6225
    >>> field_relative_calibration_error(y, p, z, zero="drop")
    0.25
    """
    norm_power(norm)
    _check_zero(epsilon, zero)
    tally = _level_tally(y_true, y_prob, field, bins, target, sample_weight)
    return relative_error(tally, epsilon, zero, norm)


def relative_error(tally: Tally, epsilon: float, zero: str, norm: Norm) -> float:
    """Field-RCE of a tally of levels."""
    events, weight, off = tally.observed, tally.weight, np.abs(tally.events_off)
    counted = weight > 0 if zero == "epsilon" else events > 0
    if not counted.any():
        warn("no level of the field has an event, so that zero='drop' leaves nothing to average")
        return float("nan")
    below = events[counted] + (epsilon * weight[counted] if zero == "epsilon" else 0.0)
    return float(aggregate(off[counted] / below, weight[counted], norm))


def _check_zero(epsilon: float, zero: str) -> None:
    if zero not in ("epsilon", "drop"):
        raise refusal("must be 'epsilon' or 'drop'", where="'zero'", got=f"it is {zero!r}")
    fine = isinstance(epsilon, (int, float, np.number)) and not isinstance(epsilon, bool)
    if not fine or not (np.isfinite(epsilon) and epsilon > 0):
        hint = "zero='drop' leaves out the levels without events and needs no epsilon"
        raise refusal("must be a number above 0", where="'epsilon'", got=f"it is {epsilon!r}", hint=hint)


def _level_tally(
    y_true: Any, y_prob: Any, field: Any, bins: Bins | None, target: str | int, sample_weight: Any
) -> Tally:
    given = Given(y_true, y_prob, sample_weight)
    return mean_tally(given.pair(target), given_levels(given, field, bins))


def given_levels(given: Given, field: Any, bins: Bins | None = None) -> CodePooling:
    """Levels of the rows that were given a weight."""
    pooling = field_pooling(field, bins)
    codes = given.kept_rows(pooling.level_codes, "'field'")
    return CodePooling(codes, pooling.count, pooling.missing)


@dataclass(frozen=True)
class LeftClosed:
    """Rows pooled by left-closed bins of the prediction; the last bin holds its upper edge too."""

    values: np.ndarray
    edges: np.ndarray

    @property
    def cells(self) -> Numbered:
        return Numbered(self.edges.size - 1)

    def codes(self, start: int, stop: int) -> np.ndarray:
        return np.searchsorted(self.edges[1:-1], self.values[start:stop], side="right")


def probability_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    bins: Bins = 15,
    norm: Norm = "l1",
    target: str | int = "auto",
    sample_weight: Any = None,
) -> float:
    """Average gap over left-closed bins of the probability (the paper's Prob-ECE), with p = 1 in the last bin.

    `expected_calibration_error` has right-closed bins; the two differ only where a probability equals an edge. The
    paper's bins cover [0, 1) and lose p = 1, which is kept here.

    Examples
    --------
    >>> from miscal.metrics import probability_calibration_error
    >>> round(probability_calibration_error([0, 1, 1], [0.1, 0.5, 1.0], bins=2), 6)
    0.2
    """
    given = Given(y_true, y_prob, sample_weight)
    return probability_error(given.pair(target), bins, norm)


def probability_error(pair: Pair, bins: Bins, norm: Norm) -> float:
    """Prob-ECE of a pair."""
    norm_power(norm)
    edges = edges_for(pair.predicted, bins, "uniform", low=0.0, high=1.0)
    tally = mean_tally(pair, LeftClosed(pair.predicted, edges))
    return float(aggregate(tally.gap, tally.weight, norm))

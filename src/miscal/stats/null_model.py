"""Which null model a call uses, and how much residuals vary under it.

A null model says how outcomes of a calibrated model vary: as draws from the predictions, or as residuals whose signs
are random. `choose_null` picks it from the data; everything else in this folder takes it as given.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.aggregate.summary import PREDICTED, PRODUCT, SQUARE, TRIALS, WEIGHT, weight_sums
from miscal.aggregate.tally import Tally
from miscal.cells.partitions import OF_SCORE, Ranges
from miscal.codes.inference import Null, NullReason
from miscal.data.arrays import Array
from miscal.data.checks import one_of
from miscal.data.responses import Units
from miscal.data.target import TargetData
from miscal.stats.cell_sums import CellSums, CellTestSettings, Floats, run_starts

VARIANCE_BINS = 15  # of predictions, of as many rows each
MIN_ROWS_PER_BIN = 200  # rows of a bin
# Standard deviations: once in a thousand where weights and outcomes have nothing to do with each other.
OUTCOME_WEIGHTS_Z = 3.3
MIN_TRIALS = 30.0  # of neighbouring scores that are taken together


@dataclass(frozen=True, eq=False)
class ResidualVariance:
    """Variance of residuals by prediction, a unit of weight squared; of exposure, where the weight is exposure.

    The variance of outcomes that are not 0/1 does not follow from the prediction, so it is estimated from residuals.
    A cell of few rows without a large outcome has residuals that are too small: with skewed amounts and rare counts
    such cells would be significant too often. So the variance of a cell is never taken to be below that of residuals
    with such predictions in the whole table. (With their own residuals alone, some of ten levels is significant in a
    quarter of calibrated tables of lognormal amounts: `studies/any_mean.py`.)

    borders : between bins of the prediction;  values : of each bin
    mixture_factor : how much more a cell of all predictions varies than one of their mean
    """

    borders: Floats
    values: Floats
    exposed: bool
    mixture_factor: float = 1.0

    @classmethod
    def of(cls, target: TargetData) -> "ResidualVariance":
        """As the rows of a pair show it; rows of one cluster and one prediction are parts of one."""
        predicted, residual = target.predicted, target.observed - target.predicted
        first, second = target.all_weights
        squares = second * residual**2
        if target.cluster is not None:
            order = np.lexsort((predicted, target.cluster))
            cluster, predicted = target.cluster[order], predicted[order]
            starts = np.flatnonzero(run_starts(cluster, predicted))
            predicted = predicted[starts]
            first, residual_sums = (
                np.add.reduceat(values[order], starts) for values in (first, first * residual)
            )
            second, squares = first**2, residual_sums**2
        max_bins = min(max(predicted.size // MIN_ROWS_PER_BIN, 1), VARIANCE_BINS)
        borders = np.unique(np.quantile(predicted, np.linspace(0.0, 1.0, max_bins + 1)[1:-1]))
        bins = np.searchsorted(borders, predicted)
        squares = np.bincount(bins, squares, borders.size + 1)
        size = np.bincount(bins, first if target.weight_is_exposure else second, borders.size + 1)
        all_squares = squares.sum()
        overall = all_squares / max(size.sum(), 1e-300)
        values = np.where(size > 0.0, squares / np.where(size > 0.0, size, 1.0), overall)
        by_prediction = cls(borders, values, target.weight_is_exposure)
        mean = np.average(predicted, weights=first)
        same_prediction = by_prediction.of_sum(mean, first.sum(), second.sum())
        return replace(
            by_prediction, mixture_factor=max(1.0, float(all_squares / max(same_prediction, 1e-300)))
        )

    def of_sum(self, predicted: Floats, weight: Floats, weight2: Floats) -> Floats:
        """Variance of the sum of residuals of rows of a mean prediction and of weights that add up to so much."""
        return self.values[np.searchsorted(self.borders, predicted)] * (weight if self.exposed else weight2)

    def of_cells(self, sums: CellSums, *, narrow: bool = False) -> Floats:
        """Variance of the sum of residuals of each cell; `narrow` ones hold predictions that are much the same."""
        same_prediction = self.of_sum(sums.mean, sums.weight, sums.weight2)
        return same_prediction if narrow else same_prediction * self.mixture_factor


@dataclass(frozen=True)
class OutcomeSamplingVariance:
    """Variance of residuals where events or others were kept in part and weighted back.

    It stands in the place of a `ResidualVariance`.

    Where events weigh u and others v, a row of probability p is an event of the sample with the odds v·p / (u·(1 - p)),
    and w(y - p) has the variance u·v·p(1-p), whatever was observed in its cell. Residuals show less of it: nearly all
    of their squares are those of the few events with large weights, so that a cell with fewer of these seems to have
    hardly any variance. (With residuals alone 98 of 1,000 calibrated tables were significant by field, 117 by variable:
    `studies/sampled_by_outcome.py`.)

    scale : Σw²(y - p)² relative to Σp(1 - p), over all rows
    mixture_factor : Σp(1 - p) of all rows relative to that of as many rows of their mean
    """

    scale: float
    mixture_factor: float

    @classmethod
    def of(cls, sums: CellSums) -> "OutcomeSamplingVariance":
        """As narrow cells of the score show it, or rows."""
        mean = sums.mean
        binomial = float(np.sum(sums.rows * mean * (1.0 - mean)))
        overall = float(np.average(mean, weights=sums.rows))
        same_prediction = float(sums.rows.sum()) * overall * (1.0 - overall)
        scale = float(sums.residual2.sum()) / max(binomial, 1e-300)
        return cls(scale, min(binomial / max(same_prediction, 1e-300), 1.0))

    def of_sum(self, predicted: Floats, weight: Floats, weight2: Floats) -> Floats:
        """Variance of the sum of residuals of trials alike, of weights that add up to so much."""
        trials = weight**2 / np.where(weight2 > 0.0, weight2, 1.0)
        return self.scale * trials * predicted * (1.0 - predicted)

    def of_cells(self, sums: CellSums, *, narrow: bool = False) -> Floats:
        """Variance of the sum of residuals of each cell; `narrow` ones hold predictions that are much the same."""
        mean = sums.mean
        same_prediction = self.scale * sums.rows * mean * (1.0 - mean)
        return same_prediction if narrow else same_prediction * self.mixture_factor


def weights_depend_on_outcome(sums: Floats) -> bool:
    """Whether weights depend on the outcome, given the score, from the sums of `weight_sums`.

    They do after events or non-events were kept in part. ``T = Σ(w - m)(y - p)``, m the mean weight at that score,
    is then far from 0: beyond 3.3 of its own standard deviations, ``sqrt(Σ(w - m)²(y - p)²)``. Neighbouring scores are
    taken together until they hold 30 trials. Weights that are constant within each outcome and differ between the two
    (two trials of each at least) depend on it however few they are.
    """
    if _constant_within_outcomes(sums.sum(axis=0)):
        return True
    number = sums[:, :, TRIALS].sum(axis=1)
    used, trials = sums[number > 0], number[number > 0]
    if not trials.size:
        return False
    last = trials.sum() // MIN_TRIALS - 1
    group = np.minimum((np.cumsum(trials) - trials) // MIN_TRIALS, last)
    cells = np.add.reduceat(used, np.flatnonzero(run_starts(group)), axis=0)
    columns = cells.transpose(2, 1, 0)
    both, events = columns.sum(axis=1), columns[:, 1]
    mean, rate = both[WEIGHT] / both[TRIALS], both[PREDICTED] / both[TRIALS]
    off = events[WEIGHT] - mean * events[TRIALS] - (both[PRODUCT] - mean * both[PREDICTED])
    spread = columns[SQUARE] - 2.0 * mean * columns[WEIGHT] + mean**2 * columns[TRIALS]
    variance = np.sum([rate**2, (1.0 - rate) ** 2] * spread)
    deviation = math.sqrt(max(float(variance), 0.0))
    # Equal weights leave nothing but rounding.
    scale = math.sqrt(both[SQUARE].sum())
    return deviation > 1e-6 * scale and abs(float(off.sum())) > OUTCOME_WEIGHTS_Z * deviation


def _constant_within_outcomes(outcomes: Floats) -> bool:
    trials = outcomes[:, TRIALS]
    if trials.min() < 2.0:
        return False
    mean = outcomes[:, WEIGHT] / trials
    constant = np.all(outcomes[:, SQUARE] / trials - mean**2 <= 1e-9 * mean**2)
    return bool(constant and mean.max() > mean.min() * (1.0 + 1e-6))


@dataclass(frozen=True)
class NullModel:
    """Which null a call uses, and why; how residuals spread where outcomes are not binary, and their units."""

    null: Null
    reason: NullReason
    outcome_weights: bool = False
    residual_variance: ResidualVariance | OutcomeSamplingVariance | None = None
    binary: bool = True
    units: Units = Units()  # noqa: RUF009  # frozen

    @property
    def model_variance(self) -> bool:
        """Whether outcomes are 0/1 and the weights do not depend on them, so that p(1-p) is the noise of a row."""
        return self.binary and not self.outcome_weights

    def test_settings(self, **cells: Any) -> CellTestSettings:
        """The settings of a test under this null model; `cells` are the other settings by name."""
        null_settings = {
            name: getattr(self, name) for name in ("null", "outcome_weights", "binary", "model_variance")
        }
        return CellTestSettings(**null_settings, **cells)

    def sums(self, cells: Tally | CellSums) -> CellSums:
        """Sums as inference reads them, with the variance that their predictions let expect."""
        sums = CellSums.of(cells)
        if self.residual_variance is None:
            return sums
        narrow = isinstance(cells, Tally) and isinstance(cells.cells, Ranges) and cells.cells.name == OF_SCORE
        return replace(sums, variance=self.residual_variance.of_cells(sums, narrow=narrow))


NULL_FOR_OUTCOME_WEIGHTS = NullModel(Null.RESIDUAL, NullReason.OUTCOME_WEIGHTS, outcome_weights=True)
NULL_FROM_PREDICTIONS = NullModel(Null.BERNOULLI, NullReason.PREDICTIONS)


def choose_null(target: TargetData, null: str, classes: Array | None = None) -> NullModel:
    """The null asked for, or sign flips where clusters or outcome-dependent weights call for them.

    classes : (n, K) probabilities, where the outcomes of the pair are classes
    """
    one_of("null", null, tuple(map(str, Null)))
    if not target.binary:
        reason = NullReason.MEANS if target.cluster is None else NullReason.MEANS_IN_CLUSTERS
        variance = ResidualVariance.of(target)
        return NullModel(Null.RESIDUAL, reason, False, variance, binary=False, units=target.units)
    if has_outcome_weights(target, classes):
        return (
            NULL_FOR_OUTCOME_WEIGHTS if classes is not None else outcome_sampling_null(_rows_as_cells(target))
        )
    if target.cluster is not None:
        return NullModel(Null.RESIDUAL, NullReason.CLUSTERS)
    if null == Null.RESIDUAL:
        return NullModel(Null.RESIDUAL, NullReason.REQUESTED)
    return NULL_FROM_PREDICTIONS


def outcome_sampling_null(sums: CellSums) -> NullModel:
    """The noise where weights depend on the outcome, as narrow cells of the score show it, or rows."""
    variance = OutcomeSamplingVariance.of(sums)
    return replace(NULL_FOR_OUTCOME_WEIGHTS, reason=NullReason.OUTCOME_SAMPLING, residual_variance=variance)


def _rows_as_cells(target: TargetData) -> CellSums:
    """Every row as a cell."""
    first, second = target.all_weights
    residual2 = second * (target.observed - target.predicted) ** 2
    return CellSums(
        target.trials().astype(float),
        first,
        second,
        first * target.predicted,
        first * target.observed,
        residual2,
        residual2,
    )


def has_outcome_weights(target: TargetData, classes: Array | None) -> bool:
    """Whether the weights depend on the outcome given the score, or on any class given its probability."""
    if target.weight is None:
        return False
    events = [(target.observed, target.predicted)]
    if classes is not None:
        columns = enumerate(classes.T) if classes.ndim == 2 else [(1, classes)]
        events = [(target.observed == k, probability) for k, probability in columns]
    return any(weights_depend_on_outcome(weight_sums(target.weight, *outcome)) for outcome in events)

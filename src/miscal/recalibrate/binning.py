"""Maps that are constant within bins of the score: histogram binning and scaling-binning."""

from typing import Any

import numpy as np

from miscal.cells.ranges import bin_index, edges_for
from miscal.data.arrays import Array, Floats
from miscal.data.checks import number, one_of, truth, whole
from miscal.export import formula as nodes
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.certain_scores import HALF_EVENT, clip_rates
from miscal.recalibrate.logistic_curves import LogisticCurve
from miscal.recalibrate.parameters import bins_or_edges, parameter, state
from miscal.recalibrate.training_sample import TrainingSample, weight_of_one_row

#: The value of a bin without rows: it leaves probabilities as they are.
EMPTY_BIN = -1.0


class HistogramBinning(Recalibrator):
    """Histogram binning: replace each probability by the observed rate of its bin (Zadrozny and Elkan 2001).

    Bins are right-closed. A bin without rows leaves probabilities as they are. Several classes: each against the rest,
    rows divided by their sums. A rate of 0 or 1 among n rows becomes 0.5 / (n + 1) or 1 less that: half an event, so
    that what was not observed is not ruled out. With `smooth=0` the binary expected calibration error over the same
    bins is 0 on the rows it was fitted on. Does not keep the ranking.

    Parameters
    ----------
    bins : int or increasing array, default=15
        Number of bins, or their edges; the end bins include what lies outside of them.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width over [0, 1], or of equal support.
    smooth : float, default=0.5
        Events by which rates are kept away from 0 and 1, smooth / (n + 2 smooth); 0 for the observed rates.

    Attributes
    ----------
    edges_ : (bins + 1,) array
        Edges of the bins.
    values_ : (bins,) array
        The rate in each bin, -1 where it had no rows.
    per_class_ : list of HistogramBinning
        Of several classes: one fitted recalibrator per class.

    Examples
    --------
    >>> fitted = HistogramBinning(bins=2).fit([0.1, 0.3, 0.6, 0.8], [0, 1, 1, 1])
    >>> fitted.predict_proba([0.2, 0.7])[:, 1].round(3)
    array([0.5  , 0.833])
    """

    one_vs_rest = True
    moves_certain_scores = False

    bins: Any = parameter(bins_or_edges, default=15)
    strategy: str = parameter(one_of, ("uniform", "quantile"), default="uniform")
    smooth: float = parameter(number, 0.0, default=HALF_EVENT)
    edges_: Floats = state("float", "any")
    values_: Floats = state("float", "any", low=EMPTY_BIN, high=1.0)

    def check_state(self) -> None:
        """Reject edges that do not increase, and bins without a rate."""
        check_bins(self.edges_, self.values_)
        if ((self.values_ < 0) & (self.values_ != EMPTY_BIN)).any():
            raise ValueError("'values_' must hold probabilities, or -1 for an empty bin")

    def _fit(self, sample: TrainingSample) -> None:
        score = sample.probability
        self.edges_ = edges_for(score, self.bins, self.strategy, low=0.0, high=1.0, weight=sample.weight)
        total, events = binned_sums(score, self.edges_, sample.weights, sample.outcome)
        self.values_ = self.rates(events, total, sample.rows)

    def rates(self, events: Any, total: Any, rows: float) -> Floats:
        """The values of bins from their sums.

        Parameters
        ----------
        events : (bins,) array
            Weighted events.
        total : (bins,) array
            Sum of the weights.
        rows : float
            How many rows there are in all bins.

        Returns
        -------
        (bins,) array
            Rates, -1 where a bin has no rows.
        """
        has_rows = total > 0
        rate = events / np.where(has_rows, total, 1.0)
        clipped = clip_rates(rate, total / weight_of_one_row(total.sum(), rows), self.smooth)
        return np.where(has_rows, clipped, EMPTY_BIN)

    def _map(self, probability: Floats) -> Floats:
        value = self.values_[bin_index(probability, self.edges_)]
        return np.where(value == EMPTY_BIN, probability, value)

    def _formula(self) -> nodes.Formula:
        return nodes.steps(nodes.PROBABILITY, self.edges_, self.values_)

    def _summary(self) -> str:
        return f"{len(self.values_)} bins"


class ScalingBinning(LogisticCurve):
    """Scaling-binning: Platt scaling on the logit, then its mean in bins of equal support (Kumar, Liang and Ma 2019).

    The score is clipped to [1e-12, 1 - 1e-12] before the logit. The bins come from the scaled probabilities of the rows
    to fit on: cut halfway between neighbouring distinct values, right-closed, with about equal weight in each; ties are
    never split, so there may be fewer bins than `bins`. Several classes: each against the rest, rows divided by their
    sums. Does not keep the ranking strictly; that of binary probabilities is kept with ties when the slope is not
    negative.

    Parameters
    ----------
    bins : int, default=10
        Number of bins.
    renormalise : bool, default=True
        Whether rows of several classes are divided by their sums. Without it (as in paper 000) rows do not sum to 1.

    Attributes
    ----------
    coefficients_ : (1, 1) array
        Slope of the curve.
    intercepts_ : (1,) array
        Intercept of the curve.
    edges_ : (bins + 1,) array
        Edges of the bins of the scaled probability.
    values_ : (bins,) array
        Mean of the scaled probability in each bin.
    per_class_ : list of ScalingBinning
        Of several classes: one fitted recalibrator per class.

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> ScalingBinning(bins=2).fit(y_prob, y).predict_proba([0.3, 0.8])[:, 1].round(3)
    array([0.258, 0.742])
    """

    on = "logit"

    bins: int = parameter(whole, 1, 10**7, default=10)
    renormalise: bool = parameter(truth, default=True)
    edges_: Floats = state("float", "any")
    values_: Floats = state("float", "any", low=0.0, high=1.0)

    @property
    def normalises_classes(self) -> bool:  # type: ignore[override]
        """Whether rows of several classes are divided by their sums."""
        return self.renormalise

    def check_state(self) -> None:
        """Reject edges that do not increase, and bins without a value."""
        super().check_state()
        check_bins(self.edges_, self.values_)

    def _fit(self, sample: TrainingSample) -> None:
        super()._fit(sample)
        scaled, weights = super()._map(sample.probability)[:, 1], sample.weights
        # Edges halfway between distinct values, with about equal weight between them.
        distinct, place = np.unique(scaled, return_inverse=True)
        cumulative = np.cumsum(np.bincount(place, weights=weights))
        shares = np.arange(1, self.bins) / self.bins
        last_below = np.searchsorted(cumulative, cumulative[-1] * shares)
        last_below = last_below[last_below < len(distinct) - 1]
        inner_edges = distinct[last_below] + np.diff(distinct)[last_below] * 0.5
        self.edges_ = np.unique(np.r_[-1.0, inner_edges, 2.0])
        total, sums = binned_sums(scaled, self.edges_, weights, scaled)
        self.values_ = np.clip(sums / total, 0.0, 1.0)

    def _map(self, probability: Floats) -> Floats:
        scaled = super()._map(probability)[:, 1]
        return self.values_.take(bin_index(scaled, self.edges_))

    def _formula(self) -> nodes.Node:
        return nodes.steps(super()._formula(), self.edges_, self.values_)

    def _summary(self) -> str:
        return f"{len(self.values_)} bins"


def binned_sums(score: Floats, edges: Floats, weight: Floats, value: Array) -> tuple[Array, Array]:
    """Sums of the weights, and of weighted values, in each bin.

    Parameters
    ----------
    score : (n,) array
        What is binned.
    edges : (bins + 1,) array
        Of the bins.
    weight, value : (n,) array
        Of each row.

    Returns
    -------
    weight, weighted_value : (bins,) array
    """
    codes, bins = bin_index(score, edges), len(edges) - 1
    return np.bincount(codes, weight, bins), np.bincount(codes, weight * value, bins)


def check_bins(edges: Floats, values: Floats) -> None:
    """Reject a state whose edges and values do not belong together; two equal edges are one bin of equal scores."""
    widths = np.diff(edges)
    increasing = (widths > 0).all() or widths.tolist() == [0.0]
    if not (increasing and 0 < len(values) == widths.size):
        raise ValueError("edges must increase and there must be one value per bin")

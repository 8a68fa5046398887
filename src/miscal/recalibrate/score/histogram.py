"""Histogram binning, and scaling followed by binning."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from miscal.pooling.bins import bin_index, edges_for
from miscal.recalibrate.base import Floats, Recalibrator, Sample, pairs
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.fitting.logistic import Features, fit_curve
from miscal.recalibrate.fitting.parameters import bins_or_edges, one_of, parameter, truth, whole
from miscal.recalibrate.state import state

EMPTY_BIN = -1.0


class _Binned(Recalibrator):
    """Base of maps that are constant within bins."""

    against_rest: ClassVar[bool] = True

    edges_: Floats = state("float", "any")
    values_: Floats = state("float", "any", low=EMPTY_BIN, high=1.0)

    def check_state(self) -> None:
        """Refuse edges that do not increase, and bins without a value."""
        check_bins(self.edges_, self.values_)

    def _summary(self) -> str:
        return f"{len(self.values_)} bins"


class HistogramBinning(_Binned):
    """Replace each probability by the observed rate of its bin (Zadrozny and Elkan 2001).

    Bins are right-closed. A bin in which no row fell leaves probabilities as they are. Several classes: each against
    the rest, rows divided by their sums. On the rows it was fitted on the binary expected calibration error over
    the same bins is 0. Does not keep the ranking.

    Parameters
    ----------
    bins : int or increasing edges
        Edges: the end bins catch what lies outside.
    strategy : {"uniform", "quantile"}
        Bins of equal width over [0, 1], or of equal support.

    Attributes
    ----------
    edges_, values_ : arrays
        Edges of the bins and the rate in each, -1 where it was empty.
    each_ : of several classes, list of fitted recalibrators, one a class

    Examples
    --------
    >>> HistogramBinning(bins=2).fit([0.1, 0.3, 0.6, 0.8], [0, 1, 1, 1]).predict_proba([0.2, 0.7])[:, 1]
    array([0.5, 1. ])
    """

    bins: Any = parameter(bins_or_edges, default=15)
    strategy: str = parameter(one_of, ("uniform", "quantile"), default="uniform")

    def check_state(self) -> None:
        """Refuse edges that do not increase, and bins without a rate."""
        super().check_state()
        if ((self.values_ < 0) & (self.values_ != EMPTY_BIN)).any():
            raise ValueError("'values_' must hold probabilities, or -1 for an empty bin")

    def _fit(self, sample: Sample) -> None:
        score = sample.probability
        self.edges_ = edges_for(score, self.bins, self.strategy, low=0.0, high=1.0, weight=sample.weight)
        codes, weights = bin_index(score, self.edges_), sample.weights
        total = np.bincount(codes, weights=weights, minlength=len(self.edges_) - 1)
        events = np.bincount(codes, weights=weights * sample.outcome, minlength=len(self.edges_) - 1)
        self.values_ = np.divide(events, total, out=np.full(len(total), EMPTY_BIN), where=total > 0)

    def _map(self, probability: Floats) -> Floats:
        found = self.values_[bin_index(probability, self.edges_)]
        return pairs(np.where(found == EMPTY_BIN, probability, found))

    def _formula(self) -> nodes.Formula:
        return nodes.steps(nodes.Probability(), self.edges_, self.values_)


class ScalingBinning(_Binned):
    """Platt scaling on the logit, then its mean in bins of equal support (Kumar, Liang and Ma 2019).

    The logit is held at that of [1e-12, 1 - 1e-12]. The bins come from the scaled probabilities of the rows to fit on:
    cut halfway between neighbouring distinct values, right-closed, with about equal weight in each; ties are never
    split, so there may be fewer bins than asked. Several classes: each against the rest, rows divided by their sums.
    Does not keep the ranking strictly; that of binary probabilities is kept with ties when the slope is not negative.

    Parameters
    ----------
    bins : int
    renormalise : bool
        Whether rows of several classes are divided by their sums. Without it (as in paper 000) rows do not sum to 1.

    Attributes
    ----------
    coefficients_, intercepts_ : (1, 1) and (1,)
    edges_, values_ : arrays
    each_ : of several classes, list of fitted recalibrators, one a class

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> ScalingBinning(bins=2).fit(y_prob, y).predict_proba([0.3, 0.8])[:, 1].round(3)
    array([0.258, 0.742])
    """

    bins: int = parameter(whole, 1, 10**7, default=10)
    renormalise: bool = parameter(truth, default=True)
    values_: Floats = state("float", "any", low=0.0, high=1.0)
    coefficients_: Floats = state("float", 1, 1)
    intercepts_: Floats = state("float", 1)

    @property
    def divided(self) -> bool:  # type: ignore[override]
        """Whether rows of several classes are divided by their sums."""
        return bool(self.renormalise)

    def _fit(self, sample: Sample) -> None:
        weights = sample.weights
        coefficients, intercept = fit_curve(sample, Features("logit"), 0.0)
        self.coefficients_, self.intercepts_ = coefficients[None, :], np.array([intercept])
        scaled = self._scaled(sample.probability)
        self.edges_ = _halfway_edges(scaled, int(self.bins), weights)
        codes = bin_index(scaled, self.edges_)
        total = np.bincount(codes, weights=weights, minlength=len(self.edges_) - 1)
        sums = np.bincount(codes, weights=weights * scaled, minlength=len(self.edges_) - 1)
        self.values_ = np.clip(sums / total, 0.0, 1.0)

    def _scaled(self, score: Floats) -> Floats:
        found = Features("logit").map(score, self.coefficients_[0], float(self.intercepts_[0]))
        return np.ascontiguousarray(found[:, 1])

    def _map(self, probability: Floats) -> Floats:
        return pairs(self.values_[bin_index(self._scaled(probability), self.edges_)])

    def _formula(self) -> nodes.Formula:
        scaled = nodes.curve(Features("logit"), self.coefficients_[0].tolist(), float(self.intercepts_[0]))
        return nodes.steps(scaled, self.edges_, self.values_)

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and bool(self.coefficients_[0, 0] >= 0)


def _halfway_edges(values: Floats, bins: int, weight: Floats) -> Floats:
    """Edges halfway between distinct values, with about equal weight between them; the outer two are 0 and 1."""
    distinct, place = np.unique(values, return_inverse=True)
    mass = np.cumsum(np.bincount(place, weights=weight))
    reached = np.searchsorted(mass, mass[-1] * (np.arange(1, bins) / bins), side="left")
    reached = np.unique(reached[reached < len(distinct) - 1])
    inner = distinct[reached] + (distinct[reached + 1] - distinct[reached]) * 0.5
    return np.unique(np.concatenate([[-1.0], inner, [2.0]]))


def check_bins(edges: Floats, values: Floats) -> None:
    """Refuse a state whose edges and values do not belong together."""
    # Two equal edges are one bin: all scores were equal.
    increasing = bool((np.diff(edges) > 0).all()) or (len(edges) == 2 and edges[0] == edges[1])
    if len(edges) < 2 or len(values) != len(edges) - 1 or not increasing:
        raise ValueError("edges must increase and there must be one value a bin")

"""Histogram binning, and scaling followed by binning."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.pooling.bins import bin_index, edges_for
from miscal.recalibrate.base import Floats, pairs
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.fitting.logistic import Binary, Features, fit_curve
from miscal.recalibrate.fitting.parameters import bins_or_edges, one_of, parameter, truth, whole
from miscal.recalibrate.score.one_vs_rest import OneVsRest
from miscal.recalibrate.state import state

EMPTY_BIN = -1.0


class _Binned(OneVsRest):
    """Base of maps that are constant within bins."""

    edges_: list[Floats] = state("ragged")
    values_: list[Floats] = state("ragged", low=EMPTY_BIN, high=1.0)

    def check_state(self) -> None:
        """Refuse edges that do not increase, and bins without a value."""
        for edges, values, kept in zip(self.edges_, self.values_, self.kept_, strict=True):
            check_bins(edges, values, kept=bool(kept))

    def _summary(self) -> str:
        return f"{sum(len(values) for values in self.values_)} bins"


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
    edges_, values_ : lists of arrays, one a map
        Edges of the bins and the rate in each, -1 where it was empty.

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
        if any(((values < 0) & (values != EMPTY_BIN)).any() for values in self.values_):
            raise ValueError("'values_' must hold probabilities, or -1 for an empty bin")

    def _fit_one(self, rows: Binary) -> tuple[Any, ...]:
        weight = rows.weight if rows.weight.size else None
        edges = edges_for(rows.score, bins_or_edges("bins", self.bins), self.strategy, low=0.0, high=1.0, weight=weight)
        codes = bin_index(rows.score, edges)
        total = np.bincount(codes, weights=rows.weights, minlength=len(edges) - 1)
        events = np.bincount(codes, weights=rows.weights * rows.outcome, minlength=len(edges) - 1)
        return edges, np.divide(events, total, out=np.full(len(total), EMPTY_BIN), where=total > 0)

    def _map_one(self, score: Floats, which: int) -> Floats:
        found = self.values_[which][bin_index(score, self.edges_[which])]
        return pairs(np.where(found == EMPTY_BIN, score, found))

    def _formula_of(self, which: int) -> nodes.Steps:
        return nodes.steps(nodes.Probability(), self.edges_[which], self.values_[which])


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
    coefficients_, intercepts_ : (maps, 1) and (maps,)
    edges_, values_ : lists of arrays, one a map

    Examples
    --------
    >>> y_prob, y = [0.1, 0.2, 0.2, 0.4, 0.6, 0.7, 0.9, 0.95], [0, 0, 1, 0, 1, 0, 1, 1]
    >>> ScalingBinning(bins=2).fit(y_prob, y).predict_proba([0.3, 0.8])[:, 1].round(3)
    array([0.258, 0.742])
    """

    bins: int = parameter(whole, 1, 10**7, default=10)
    renormalise: bool = parameter(truth, default=True)
    values_: list[Floats] = state("ragged", low=0.0, high=1.0)
    coefficients_: Floats = state("float", "maps", 1)
    intercepts_: Floats = state("float", "maps")

    def _fit_one(self, rows: Binary) -> tuple[Any, ...]:
        coefficients, intercept = fit_curve(rows, Features("logit"), 0.0)
        scaled = np.ascontiguousarray(Features("logit").map(rows.score, coefficients, intercept)[:, 1])
        edges = _halfway_edges(scaled, int(self.bins), rows.weights)
        codes = bin_index(scaled, edges)
        total = np.bincount(codes, weights=rows.weights, minlength=len(edges) - 1)
        sums = np.bincount(codes, weights=rows.weights * scaled, minlength=len(edges) - 1)
        return edges, np.clip(sums / total, 0.0, 1.0), coefficients, intercept

    def _map_one(self, score: Floats, which: int) -> Floats:
        scaled = Features("logit").map(score, self.coefficients_[which], float(self.intercepts_[which]))[:, 1]
        return pairs(self.values_[which][bin_index(np.ascontiguousarray(scaled), self.edges_[which])])

    def _joined(self, values: Floats, probability: Floats) -> Floats:
        return super()._joined(values, probability) if self.renormalise else values

    def _formula_of(self, which: int) -> nodes.Steps:
        scaled = nodes.curve(Features("logit"), self.coefficients_[which].tolist(), float(self.intercepts_[which]))
        return nodes.steps(scaled, self.edges_[which], self.values_[which])

    def _formula(self) -> nodes.Formula:
        found = super()._formula()
        return nodes.Each(found.maps, bool(self.renormalise)) if isinstance(found, nodes.Each) else found

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and self.n_classes_ == 2 and bool(self.coefficients_[0, 0] >= 0)


def _halfway_edges(values: Floats, bins: int, weight: Floats) -> Floats:
    """Edges halfway between distinct values, with about equal weight between them; the outer two are 0 and 1."""
    distinct, place = np.unique(values, return_inverse=True)
    mass = np.cumsum(np.bincount(place, weights=weight))
    reached = np.searchsorted(mass, mass[-1] * (np.arange(1, bins) / bins), side="left")
    reached = np.unique(reached[reached < len(distinct) - 1])
    inner = distinct[reached] + (distinct[reached + 1] - distinct[reached]) * 0.5
    return np.unique(np.concatenate([[-1.0], inner, [2.0]]))


def check_bins(edges: Floats, values: Floats, *, kept: bool) -> None:
    """Refuse a state whose edges and values do not belong together."""
    if kept and len(edges) == 0 and len(values) == 0:
        return
    # Two equal edges are one bin: all scores were equal.
    increasing = bool((np.diff(edges) > 0).all()) or (len(edges) == 2 and edges[0] == edges[1])
    if len(edges) < 2 or len(values) != len(edges) - 1 or not increasing:
        raise ValueError("edges must increase and there must be one value a bin")

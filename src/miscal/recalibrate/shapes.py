"""Maps of free shape: bins, isotonic regression, and line plots on the log-odds scale (paper 003, section 4.1)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.cells.ranges import bin_index, edges_for, quantile_edges
from miscal.data.arrays import Array, Floats, Integers, logit
from miscal.data.checks import number, one_of, truth, whole
from miscal.data.libraries import linalg, optimize
from miscal.data.responses import RESPONSES
from miscal.data.target import TargetData
from miscal.export import formula as nodes
from miscal.kernels.threads import over_blocks
from miscal.metrics.losses import descended, pooled_scores
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.curves import Curve
from miscal.recalibrate.logistic import LOGIT_CLIP, State, between, mapped, residuals
from miscal.recalibrate.parameters import bins_or_edges, parameter, state
from miscal.recalibrate.sample import HALF, Found, Sample, inside, unit_of, warmed
from miscal.stats.isotonic import rising_rates

EMPTY_BIN = -1.0
RIDGE = 1e-6  # settles values at knots that no row determines and holds back infinite ones
BLOCK = 1 << 13  # rows that stay in the nearest cache
SETTLED = 1e-13  # of the loss: what one more step would gain


class HistogramBinning(Recalibrator):
    """Histogram binning: replace each probability by the observed rate of its bin (Zadrozny and Elkan 2001).

    Bins are right-closed. A bin in which no row fell leaves probabilities as they are. Several classes: each against
    the rest, rows divided by their sums. A rate of 0 or 1 among n rows becomes 0.5 / (n + 1) or 1 less that: half an
    event, so that what was not seen is not ruled out. Without (`smooth=0`) the binary expected calibration error over
    the same bins is 0 on the rows it was fitted on. Does not keep the ranking.

    Parameters
    ----------
    bins : int or increasing edges
        Edges: the end bins catch what lies outside.
    strategy : {"uniform", "quantile"}
        Bins of equal width over [0, 1], or of equal support.
    smooth : float
        Events by which rates are held away from 0 and 1, smooth / (n + 2 smooth); 0 for the bare rates.

    Attributes
    ----------
    edges_, values_ : arrays
        Edges of the bins and the rate in each, -1 where it was empty.
    each_ : of several classes, list of fitted recalibrators, one a class

    Examples
    --------
    >>> HistogramBinning(bins=2).fit([0.1, 0.3, 0.6, 0.8], [0, 1, 1, 1]).predict_proba([0.2, 0.7])[
    ...     :, 1
    ... ].round(3)
    array([0.5  , 0.833])
    """

    bins: Any = parameter(bins_or_edges, default=15)
    strategy: str = parameter(one_of, ("uniform", "quantile"), default="uniform")
    smooth: float = parameter(number, 0.0, default=HALF)
    edges_: Floats = state("float", "any")
    values_: Floats = state("float", "any", low=EMPTY_BIN, high=1.0)
    against_rest = True
    pulls_in = False

    def check_state(self) -> None:
        """Refuse edges that do not increase, and bins without a rate."""
        check_bins(self.edges_, self.values_)
        if ((self.values_ < 0) & (self.values_ != EMPTY_BIN)).any():
            raise ValueError("'values_' must hold probabilities, or -1 for an empty bin")

    def _fit(self, sample: Sample) -> None:
        score = sample.probability
        self.edges_ = edges_for(score, self.bins, self.strategy, low=0.0, high=1.0, weight=sample.weight)
        total, events = binned_sums(score, self.edges_, sample.weights, sample.outcome)
        self.values_ = self.rates(events, total, sample.rows)

    def rates(self, events: Any, total: Any, rows: float) -> Floats:
        """What bins with such sums of weights give; `rows` is how many there are in all."""
        some = total > 0
        rate = events / np.where(some, total, 1.0)
        held = inside(rate, total / unit_of(total.sum(), rows), self.smooth)
        return np.where(some, held, EMPTY_BIN)

    def _map(self, probability: Floats) -> Floats:
        found = self.values_[bin_index(probability, self.edges_)]
        return np.where(found == EMPTY_BIN, probability, found)

    def _formula(self) -> nodes.Formula:
        return nodes.steps(nodes.PROBABILITY, self.edges_, self.values_)

    def _summary(self) -> str:
        return f"{len(self.values_)} bins"


class ScalingBinning(Curve):
    """Scaling-binning: Platt scaling on the logit, then its mean in bins of equal support (Kumar, Liang and Ma 2019).

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
    edges_: Floats = state("float", "any")
    values_: Floats = state("float", "any", low=0.0, high=1.0)
    on = "logit"

    @property
    def divided(self) -> bool:  # type: ignore[override]
        """Whether rows of several classes are divided by their sums."""
        return self.renormalise

    def check_state(self) -> None:
        """Refuse edges that do not increase, and bins without a value."""
        super().check_state()
        check_bins(self.edges_, self.values_)

    def _fit(self, sample: Sample) -> None:
        super()._fit(sample)
        scaled, weights = super()._map(sample.probability)[:, 1], sample.weights
        # Edges halfway between distinct values, with about equal weight between them.
        distinct, place = np.unique(scaled, return_inverse=True)
        mass = np.cumsum(np.bincount(place, weights=weights))
        shares = np.arange(1, self.bins) / self.bins
        reached = np.searchsorted(mass, mass[-1] * shares)
        reached = reached[reached < len(distinct) - 1]
        inner = distinct[reached] + np.diff(distinct)[reached] * 0.5
        self.edges_ = np.unique(np.r_[-1.0, inner, 2.0])
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
    """Sums of the weights, and of weighted values, in each bin."""
    codes, bins = bin_index(score, edges), len(edges) - 1
    return np.bincount(codes, weight, bins), np.bincount(codes, weight * value, bins)


def check_bins(edges: Floats, values: Floats) -> None:
    """Refuse a state whose edges and values do not belong together."""
    # Two equal edges are one bin: all scores were equal.
    steps = np.diff(edges)
    increasing = (steps > 0).all() or steps.tolist() == [0.0]
    if not (increasing and 0 < len(values) == steps.size):
        raise ValueError("edges must increase and there must be one value a bin")


class _Rising(Recalibrator):
    """Base of maps through knots whose values never decrease."""

    against_rest = True
    candidate_for = 2, 2
    always_rises = True
    in_blends = False
    fewest = 1  # knots

    knots_: Floats = state("float", "any")
    values_: Floats = state("float", "any")

    def check_state(self) -> None:
        """Refuse knots that do not increase, and values that fall."""
        if not self.fewest <= len(self.knots_) == len(self.values_):
            raise ValueError("'knots_' and 'values_' differ in length or are too few")
        if (np.diff(self.knots_) <= 0).any() or (np.diff(self.values_) < 0).any():
            raise ValueError("'knots_' must increase and 'values_' must not decrease")


class IsotonicCalibration(_Rising):
    """Isotonic regression: fit the non-decreasing map of least squared error (Zadrozny and Elkan 2002).

    Equal scores are pooled, then adjacent violators. Between the blocks the map is linear, as scikit-learn's is; beyond
    the scores seen in fit it is constant. Several classes: each against the rest, rows divided by their sums. The
    lowest and the highest block, in which nothing or everything happened, are given half an event (0.5 / (n + 1) and 1
    less that) and pooled with their neighbours where they would pass them: what was not seen is not ruled out.
    Counts have half an event in a lowest block without any; real numbers are left as they are.

    Keeps the ranking of binary probabilities, with ties where the map is flat. Whole weights give the bits of
    repetition.

    Parameters
    ----------
    out_of_bounds : {"clip"}
        Scores beyond those seen in fit are held at the nearest of them.
    smooth : float
        Events by which rates are held away from 0 and 1; 0 for those of least squared error, as scikit-learn has them.

    Attributes
    ----------
    knots_, values_ : arrays
        Scores at the ends of the blocks, and the probability there.
    each_ : of several classes, list of fitted recalibrators, one a class

    Examples
    --------
    >>> IsotonicCalibration().fit([0.1, 0.2, 0.3, 0.8], [0, 1, 0, 1]).predict_proba([0.1, 0.25, 0.8])[:, 1]
    array([0.25, 0.5 , 0.75])
    """

    out_of_bounds: str = parameter(one_of, ("clip",), default="clip")
    smooth: float = parameter(number, 0.0, default=HALF)
    pulls_in = False
    responses = RESPONSES

    def check_state(self) -> None:
        """Refuse what does not rise, and probabilities that are none."""
        super().check_state()
        both = np.append(self.knots_, self.values_)
        if not (self.is_mean() or 0.0 <= both.min() <= both.max() <= 1.0):
            raise ValueError("'knots_' and 'values_' must lie in [0, 1]")

    def _fit(self, sample: Sample) -> None:
        scores, mass, events = pooled_scores(TargetData(sample.probability, sample.outcome, sample.weight))
        rates = rising_rates(events, mass)
        if self.smooth and sample.response != "real" and (rates[0] == 0.0 or rates[-1] == 1.0):
            rates = rising_rates(self._moved(rates, mass, sample) * mass, mass)
        # A block of one score has one knot, the others one at either end.
        change = rates[1:] != rates[:-1]
        ends = np.append(True, change) | np.append(change, True)
        self.knots_, self.values_ = scores[ends], rates[ends]

    def _moved(self, rates: Floats, mass: Floats, sample: Sample) -> Floats:
        """Rates with half an event in blocks where nothing or (of two classes) everything happened."""
        none, all_ = rates == 0.0, rates == 1.0
        if sample.response == "count":
            return np.where(none, self.smooth / (mass[none].sum() or 1.0), rates)
        unit = unit_of(sample.total, sample.rows)
        for block in (none, all_):
            held = inside(rates, mass[block].sum() / unit, self.smooth)
            rates = np.where(block, held, rates)
        return rates

    def _map(self, probability: Floats) -> Floats:
        return np.interp(probability, self.knots_, self.values_)

    def _formula(self) -> nodes.Formula:
        return nodes.line(nodes.PROBABILITY, self.knots_, self.values_)


class IsotonicLinePlotScaling(_Rising):
    """Fit a non-decreasing line plot from log-odds to log-odds (ILPS; Pan and others 2019).

    ``logit P = b_k + (b_(k+1) - b_k)(l - a_k)/(a_(k+1) - a_k)`` for ``l = logit p`` between the knots a_k and a_(k+1),
    with ``b_1 <= b_2 <= ...``, minimising the sum of log losses. The map is linear in b, so the fit is convex: it ends
    at the global optimum and is monotone whatever the data. (The paper adds a penalty instead, which guarantees
    neither.) Several classes: each against the rest, rows divided by their sums.

    Scores of exactly 0 and 1 are held within [1e-12, 1 - 1e-12]. Knots that no row determines, and runs with one
    outcome only, whose values would be infinite, are settled by a ridge towards slope 1 of at least 1e-6. Keeps the
    ranking of binary probabilities.

    Parameters
    ----------
    knots : int
        How many, at least 2; the paper has 100.
    placement : {"probability", "quantile"}
        Knots at the log-odds of k/(knots + 1), as in the paper; or where the scores are: at their quantiles, ties
        merged.
    outside : {"slope", "clamp"}
        Beyond the end knots: continue the end slopes, or keep the end values. The paper leaves it open, and on real
        data a large part of the scores lies there.
    l2 : float
        Adds l2/2 times the integral of (slope - 1)² over the knots' range to the sum of losses. With few rows the end
        pieces are steep (their rows may all have one outcome) and 0.01 steadies them; the paper has none.

    Attributes
    ----------
    knots_, values_ : arrays
        Log-odds before and after.
    each_ : of several classes, list of fitted recalibrators, one a class

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(5000)
    >>> y = rng.random(5000) < y_prob**2
    >>> made = IsotonicLinePlotScaling(knots=20).fit(y_prob, y)
    >>> made.predict_proba([0.25, 0.5, 0.75])[:, 1].round(1)
    array([0.1, 0.2, 0.6])
    """

    fewest = 2

    knots: int = parameter(whole, 2, 10_000, default=100)
    placement: str = parameter(one_of, ("probability", "quantile"), default="probability")
    outside: str = parameter(one_of, ("slope", "clamp"), default="slope")
    l2: float = parameter(number, 0.0, default=0.0)

    def _fit(self, sample: Sample) -> None:
        self.knots_ = self._placed(sample)
        steps, l2 = np.diff(self.knots_), max(self.l2, RIDGE) / sample.total

        def fit(rows: Sample, start: Floats) -> Found:
            place, part = self._between(rows.probability)
            return LineFit(rows, place, part, steps, l2 * rows.total).minimum(start), False

        as_it_is = np.append(self.knots_[0], steps)
        self.values_ = np.cumsum(warmed(sample, fit, as_it_is)[0])

    def _placed(self, rows: Sample) -> Floats:
        shares = np.arange(1, self.knots + 1) / (self.knots + 1.0)
        if self.placement == "probability":
            return np.log(shares / (1.0 - shares))
        held = np.clip(rows.probability, LOGIT_CLIP, 1.0 - LOGIT_CLIP)
        edges = quantile_edges(held, self.knots + 1, rows.weight)[1:-1]
        made = np.unique(logit(edges, LOGIT_CLIP))
        if made.size < 2:  # hardly any distinct scores: one line through their middle
            return np.median(logit(held, LOGIT_CLIP)) + np.array([-1.0, 1.0])
        return made

    def _between(self, probability: Floats) -> tuple[Integers, Floats]:
        """The knot below each score, and which part of the way to the next it has gone."""
        place, part = between(self.knots_, logit(probability, LOGIT_CLIP))
        return place, np.clip(part, 0.0, 1.0) if self.outside == "clamp" else part

    def _map(self, probability: Floats) -> Floats:
        return mapped(probability, self._log_odds)

    def _log_odds(self, probability: Floats) -> Floats:
        place, part = self._between(probability)
        below, above = self.values_[place], self.values_[place + 1]
        found = below + part * (above - below)
        return np.where(part <= 1.0, np.minimum(found, above), found)  # not past the next knot by rounding

    def _formula(self) -> nodes.Formula:
        line = nodes.line(nodes.logit(), self.knots_, self.values_, continued=self.outside == "slope")
        return nodes.Sigmoid(line)


@dataclass(eq=False)
class LineFit:
    """Values at knots of least log loss, by Newton's method on the first and the increments, which are not below 0.

    place, part : the knot below each row's score, and which part of the step to the next it has gone
    """

    rows: Sample
    place: Integers
    part: Floats
    steps: Floats
    l2: float

    def evaluate(self, theta: Floats) -> State:
        """Penalised loss, gradient and Hessian in the first value and the increments."""
        sums = np.tri(len(theta))  # values are sums of increments
        values, weight = sums @ theta, self.rows.weights

        def work(start: int, stop: int) -> list[Any]:
            part, share, place = self.part[start:stop], weight[start:stop], self.place[start:stop]
            rest = 1.0 - part
            x = rest * values[place] + part * values[place + 1]
            loss, residual, bend = residuals(x, self.rows.outcome[start:stop], share)
            below = [share * loss, residual * rest, bend * rest * rest, bend * rest * part]
            above = [residual * part, bend * part * part]
            found = [np.bincount(place, each, len(theta)) for each in below]
            return found + [np.bincount(place + 1, each, len(theta)) for each in above]

        loss, low, low_bend, side, high, high_bend = np.sum(over_blocks(self.rows.rows, work, BLOCK), axis=0)
        beside = np.diag(side[:-1], 1)
        whole = np.diag(low_bend + high_bend) + beside + beside.T
        off = theta[1:] - self.steps
        pull = self.l2 * off / self.steps
        penalised = loss.sum() + 0.5 * (pull @ off)
        gradient = sums.T @ (low + high) + np.append(0.0, pull)
        ridge = np.diag(np.append(0.0, self.l2 / self.steps))
        return penalised, gradient, sums.T @ whole @ sums + ridge

    def minimum(self, theta: Floats) -> Floats:
        """The optimum, from a point with increments that are not negative."""

        def step_at(at: Floats, state: State) -> Found:
            step = at - _best_quadratic(at, state[1], state[2])
            return step, float(state[1] @ step) <= SETTLED * max(state[0], 1.0)

        found = descended(self.evaluate, theta, step_at)
        return np.append(found[0], np.maximum(found[1:], 0.0))


def _best_quadratic(theta: Floats, gradient: Floats, hessian: Floats) -> Floats:
    """Minimise the quadratic model of the loss among increments that are not negative.

    With H = R'R it is a least-squares problem in R; its first row, which alone holds the free first value, is met
    exactly, and the rest is least squares with non-negative unknowns.
    """
    scale = 1.0 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    scaled = hessian * np.outer(scale, scale)
    unit = np.eye(len(theta))  # a proximal term: it slows the last digits and moves no optimum
    try:
        root = linalg.cholesky(scaled + 1e-15 * unit)
    except np.linalg.LinAlgError:
        root = linalg.cholesky(scaled + 1e-9 * unit)
    target = root @ (theta / scale) - linalg.solve_triangular(root, scale * gradient, trans="T")
    rest, _ = optimize.nnls(root[1:, 1:], target[1:], maxiter=50 * len(theta))
    first = (target[0] - root[0, 1:] @ rest) / root[0, 0]
    return np.asarray(scale * np.append(first, rest))

"""Monotone maps of free shape: isotonic regression, and line plots on the log-odds scale (paper 003, section 4.1)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.cells.ranges import quantile_edges
from miscal.codes.data import Response
from miscal.data.arrays import Floats, Integers, logit
from miscal.data.checks import number, one_of, whole
from miscal.data.libraries import linalg, optimize
from miscal.data.responses import RESPONSES
from miscal.data.target import TargetData
from miscal.export import formula as nodes
from miscal.kernels.threads import over_blocks
from miscal.metrics.losses import descended, pooled_scores
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.certain_scores import HALF_EVENT, clip_rates
from miscal.recalibrate.logistic_fit import (
    LOGIT_CLIP,
    locate_between_knots,
    loss_derivatives,
    probabilities_from_log_odds,
)
from miscal.recalibrate.newton import Derivatives
from miscal.recalibrate.parameters import parameter, state
from miscal.recalibrate.training_sample import FitResult, TrainingSample, warm_started, weight_of_one_row
from miscal.stats.isotonic import increasing_rates

#: Least penalty of a line plot: it determines values at knots that no row determines, and keeps others finite.
LINE_RIDGE = 1e-6
#: Rows per block of a sum over rows: they stay in the nearest cache.
LINE_BLOCK_ROWS = 1 << 13
#: Share of the loss that one more step would gain, at which a fit ends.
LOSS_TOLERANCE = 1e-13


class _MonotoneMap(Recalibrator):
    """Base class of maps through knots whose values never decrease."""

    one_vs_rest = True
    candidate_classes = 2, 2
    always_keeps_ranking = True
    blendable = False
    min_knots = 1

    knots_: Floats = state("float", "any")
    values_: Floats = state("float", "any")

    def check_state(self) -> None:
        """Reject knots that do not increase, and values that fall."""
        if not self.min_knots <= len(self.knots_) == len(self.values_):
            raise ValueError("'knots_' and 'values_' differ in length or are too few")
        if (np.diff(self.knots_) <= 0).any() or (np.diff(self.values_) < 0).any():
            raise ValueError("'knots_' must increase and 'values_' must not decrease")


class IsotonicCalibration(_MonotoneMap):
    """Isotonic regression: fit the non-decreasing map of least squared error (Zadrozny and Elkan 2002).

    Equal scores are pooled, then adjacent violators. Between the blocks the map is linear, as scikit-learn's is; beyond
    the scores of fit it is constant. Several classes: each against the rest, rows divided by their sums. The lowest
    and the highest block, without events or without non-events, are given half an event (0.5 / (n + 1) and 1 less that)
    and pooled with their neighbours where they would pass them: what was not observed is not ruled out. Counts have
    half an event in a lowest block without any; real numbers are left as they are.

    Keeps the ranking of binary probabilities, with ties where the map is flat. Whole weights give the bits of
    repetition.

    Parameters
    ----------
    out_of_bounds : {"clip"}, default="clip"
        Scores beyond those of fit are clipped to the nearest of them.
    smooth : float, default=0.5
        Events by which rates are kept away from 0 and 1; 0 for those of least squared error, as scikit-learn has them.

    Attributes
    ----------
    knots_ : (knots,) array
        Scores at the ends of the blocks.
    values_ : (knots,) array
        The probability there.
    per_class_ : list of IsotonicCalibration
        Of several classes: one fitted recalibrator per class.

    Examples
    --------
    >>> IsotonicCalibration().fit([0.1, 0.2, 0.3, 0.8], [0, 1, 0, 1]).predict_proba([0.1, 0.25, 0.8])[:, 1]
    array([0.25, 0.5 , 0.75])
    """

    moves_certain_scores = False
    responses = RESPONSES

    out_of_bounds: str = parameter(one_of, ("clip",), default="clip")
    smooth: float = parameter(number, 0.0, default=HALF_EVENT)

    def check_state(self) -> None:
        """Reject values that fall, and probabilities outside [0, 1]."""
        super().check_state()
        numbers = np.append(self.knots_, self.values_)
        if not (self.predicts_means() or 0.0 <= numbers.min() <= numbers.max() <= 1.0):
            raise ValueError("'knots_' and 'values_' must lie in [0, 1]")

    def _fit(self, sample: TrainingSample) -> None:
        target = TargetData(sample.probability, sample.outcome, sample.weight)
        scores, mass, events = pooled_scores(target)
        rates = increasing_rates(events, mass)
        certain = rates[0] == 0.0 or rates[-1] == 1.0
        if self.smooth and sample.response != Response.REAL and certain:
            rates = increasing_rates(self._with_half_events(rates, mass, sample) * mass, mass)
        # A block of one score has one knot, the others one at either end.
        changes = rates[1:] != rates[:-1]
        ends = np.append(True, changes) | np.append(changes, True)
        self.knots_, self.values_ = scores[ends], rates[ends]

    def _with_half_events(self, rates: Floats, mass: Floats, sample: TrainingSample) -> Floats:
        """Rates with half an event in blocks without events or (of two classes) without non-events."""
        without_events, only_events = rates == 0.0, rates == 1.0
        if sample.response == Response.COUNT:
            return np.where(without_events, self.smooth / (mass[without_events].sum() or 1.0), rates)
        unit = weight_of_one_row(sample.total, sample.rows)
        for block in (without_events, only_events):
            clipped = clip_rates(rates, mass[block].sum() / unit, self.smooth)
            rates = np.where(block, clipped, rates)
        return rates

    def _map(self, probability: Floats) -> Floats:
        return np.interp(probability, self.knots_, self.values_)

    def _formula(self) -> nodes.Formula:
        return nodes.line(nodes.PROBABILITY, self.knots_, self.values_)


class IsotonicLinePlotScaling(_MonotoneMap):
    """Fit a non-decreasing line plot from log-odds to log-odds (ILPS; Pan and others 2019).

    ``logit P = b_k + (b_(k+1) - b_k)(l - a_k)/(a_(k+1) - a_k)`` for ``l = logit p`` between the knots a_k and a_(k+1),
    with ``b_1 <= b_2 <= ...``, minimising the sum of log losses. The map is linear in b, so the fit is convex: it ends
    at the global optimum and is monotone whatever the data. (The paper adds a penalty instead, which guarantees
    neither.) Several classes: each against the rest, rows divided by their sums.

    Scores of exactly 0 and 1 are clipped to [1e-12, 1 - 1e-12]. Knots that no row determines, and runs with one
    outcome only, whose values would be infinite, are determined by a ridge towards slope 1 of at least 1e-6. Keeps the
    ranking of binary probabilities.

    Parameters
    ----------
    knots : int, default=100
        How many, at least 2; the paper has 100.
    placement : {"probability", "quantile"}, default="probability"
        Knots at the log-odds of k/(knots + 1), as in the paper; or at the quantiles of the scores, ties merged.
    outside : {"slope", "clamp"}, default="slope"
        Beyond the end knots: continue the end slopes, or keep the end values. The paper leaves it open, and on real
        data a large part of the scores lies there.
    l2 : float, default=0.0
        Adds l2/2 times the integral of (slope - 1)² over the knots' range to the sum of losses. With few rows the end
        pieces are steep (their rows may all have one outcome) and 0.01 steadies them; the paper has none.

    Attributes
    ----------
    knots_ : (knots,) array
        Log-odds before.
    values_ : (knots,) array
        Log-odds after.
    per_class_ : list of IsotonicLinePlotScaling
        Of several classes: one fitted recalibrator per class.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(5000)
    >>> y = rng.random(5000) < y_prob**2
    >>> fitted = IsotonicLinePlotScaling(knots=20).fit(y_prob, y)
    >>> fitted.predict_proba([0.25, 0.5, 0.75])[:, 1].round(1)
    array([0.1, 0.2, 0.6])
    """

    min_knots = 2

    knots: int = parameter(whole, 2, 10_000, default=100)
    placement: str = parameter(one_of, ("probability", "quantile"), default="probability")
    outside: str = parameter(one_of, ("slope", "clamp"), default="slope")
    l2: float = parameter(number, 0.0, default=0.0)

    def _fit(self, sample: TrainingSample) -> None:
        self.knots_ = self._placed_knots(sample)
        steps, l2 = np.diff(self.knots_), max(self.l2, LINE_RIDGE) / sample.total

        def fit(rows: TrainingSample, start: Floats) -> FitResult:
            place, part = self._between(rows.probability)
            return LinePlotFit(rows, place, part, steps, l2 * rows.total).minimum(start), False

        identity = np.append(self.knots_[0], steps)
        self.values_ = np.cumsum(warm_started(sample, fit, identity)[0])

    def _placed_knots(self, rows: TrainingSample) -> Floats:
        """Where the line bends, in log-odds."""
        shares = np.arange(1, self.knots + 1) / (self.knots + 1.0)
        if self.placement == "probability":
            return np.log(shares / (1.0 - shares))
        clipped = np.clip(rows.probability, LOGIT_CLIP, 1.0 - LOGIT_CLIP)
        quantiles = quantile_edges(clipped, self.knots + 1, rows.weight)[1:-1]
        knots = np.unique(logit(quantiles, LOGIT_CLIP))
        if knots.size < 2:  # hardly any distinct scores: one line through their middle
            return np.median(logit(clipped, LOGIT_CLIP)) + np.array([-1.0, 1.0])
        return knots

    def _between(self, probability: Floats) -> tuple[Integers, Floats]:
        """The knot below each score, and its distance from it as a part of the step to the next."""
        place, part = locate_between_knots(self.knots_, logit(probability, LOGIT_CLIP))
        return place, np.clip(part, 0.0, 1.0) if self.outside == "clamp" else part

    def _map(self, probability: Floats) -> Floats:
        return probabilities_from_log_odds(probability, self._log_odds)

    def _log_odds(self, probability: Floats) -> Floats:
        place, part = self._between(probability)
        below, above = self.values_[place], self.values_[place + 1]
        line = below + part * (above - below)
        return np.where(part <= 1.0, np.minimum(line, above), line)  # not past the next knot by rounding

    def _formula(self) -> nodes.Formula:
        line = nodes.line(nodes.logit(), self.knots_, self.values_, continued=self.outside == "slope")
        return nodes.Sigmoid(line)


@dataclass(eq=False)
class LinePlotFit:
    """The fit of a line plot: values at knots of least log loss, by Newton's method.

    The unknowns are the first value and the increments, which must not be negative.

    Attributes
    ----------
    rows : TrainingSample
        Two classes.
    place : (n,) array of int
        The knot below each row's score.
    part : (n,) array
        The score's distance from it as a part of the step to the next knot.
    steps : (knots - 1,) array
        Distances between the knots.
    l2 : float
        Penalty on (slope - 1)².
    """

    rows: TrainingSample
    place: Integers
    part: Floats
    steps: Floats
    l2: float

    def evaluate(self, theta: Floats) -> Derivatives:
        """Penalised loss, gradient and Hessian in the first value and the increments."""
        sums = np.tri(len(theta))  # values are sums of increments
        values, weight = sums @ theta, self.rows.weights

        def block_sums(start: int, stop: int) -> list[Any]:
            part, share, place = self.part[start:stop], weight[start:stop], self.place[start:stop]
            rest = 1.0 - part
            log_odds = rest * values[place] + part * values[place + 1]
            loss, residual, curvature = loss_derivatives(log_odds, self.rows.outcome[start:stop], share)
            at_knot_below = [
                share * loss,
                residual * rest,
                curvature * rest * rest,
                curvature * rest * part,
            ]
            at_knot_above = [residual * part, curvature * part * part]
            below = [np.bincount(place, terms, len(theta)) for terms in at_knot_below]
            return below + [np.bincount(place + 1, terms, len(theta)) for terms in at_knot_above]

        blocks = over_blocks(self.rows.rows, block_sums, LINE_BLOCK_ROWS)
        loss, gradient_below, curvature_below, mixed, gradient_above, curvature_above = np.sum(blocks, axis=0)
        off_diagonal = np.diag(mixed[:-1], 1)
        hessian = np.diag(curvature_below + curvature_above) + off_diagonal + off_diagonal.T
        deviation = theta[1:] - self.steps
        pull = self.l2 * deviation / self.steps
        penalised = loss.sum() + 0.5 * (pull @ deviation)
        gradient = sums.T @ (gradient_below + gradient_above) + np.append(0.0, pull)
        ridge = np.diag(np.append(0.0, self.l2 / self.steps))
        return penalised, gradient, sums.T @ hessian @ sums + ridge

    def minimum(self, theta: Floats) -> Floats:
        """The optimum, from a point with increments that are not negative."""

        def step_at(at: Floats, state: Derivatives) -> FitResult:
            step = at - _nonnegative_quadratic_minimum(at, state[1], state[2])
            return step, float(state[1] @ step) <= LOSS_TOLERANCE * max(state[0], 1.0)

        optimum = descended(self.evaluate, theta, step_at)
        return np.append(optimum[0], np.maximum(optimum[1:], 0.0))


def _nonnegative_quadratic_minimum(theta: Floats, gradient: Floats, hessian: Floats) -> Floats:
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

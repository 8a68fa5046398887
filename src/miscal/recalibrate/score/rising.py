"""Maps that never decrease: isotonic regression, and line plots on the log-odds scale (paper 003, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from miscal.data.errors import refusal
from miscal.data.vectors import locked
from miscal.kernels import logistic as kernels
from miscal.kernels.threads import over_blocks
from miscal.pooling.bins import quantile_edges
from miscal.recalibrate.base import Floats, Recalibrator, Sample, pairs
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.fitting.logistic import LOGIT_CLIP, State, descended
from miscal.recalibrate.fitting.parameters import number, one_of, parameter, whole
from miscal.recalibrate.state import state

RIDGE = 1e-6  # settles values at knots that no row determines and holds back infinite ones
SETTLED = 1e-13  # of the loss: what one more step would gain


class _Rising(Recalibrator):
    """Base of maps through knots whose values never decrease."""

    against_rest: ClassVar[bool] = True
    candidate_for_two: ClassVar[bool] = True
    in_blends: ClassVar[bool] = False
    fewest: ClassVar[int] = 1  # knots

    knots_: Floats = state("float", "any")
    values_: Floats = state("float", "any")

    def check_state(self) -> None:
        """Refuse knots that do not increase, and values that fall."""
        if len(self.knots_) != len(self.values_) or len(self.knots_) < self.fewest:
            raise ValueError("'knots_' and 'values_' differ in length or are too few")
        if (np.diff(self.knots_) <= 0).any() or (np.diff(self.values_) < 0).any():
            raise ValueError("'knots_' must increase and 'values_' must not decrease")

    def _keeps_ranking(self) -> bool:
        return True


class IsotonicCalibration(_Rising):
    """Fit the non-decreasing map of least squared error (Zadrozny and Elkan 2002).

    Equal scores are pooled, then adjacent violators. Between the blocks the map is linear, as scikit-learn's is; beyond
    the scores seen in fit it is constant. Several classes: each against the rest, rows divided by their sums.

    Keeps the ranking of binary probabilities, with ties where the map is flat. Whole weights give the bits of
    repetition.

    Parameters
    ----------
    out_of_bounds : {"clip", "raise"}
        What happens to scores beyond those seen in fit.

    Attributes
    ----------
    knots_, values_ : arrays
        Scores at the ends of the blocks, and the probability there.
    each_ : of several classes, list of fitted recalibrators, one a class

    Examples
    --------
    >>> IsotonicCalibration().fit([0.1, 0.2, 0.3, 0.8], [0, 1, 0, 1]).predict_proba([0.25, 0.55])[:, 1]
    array([0.5 , 0.75])
    """

    out_of_bounds: str = parameter(one_of, ("clip", "raise"), default="clip")
    knots_: Floats = state("float", "any", low=0.0, high=1.0)
    values_: Floats = state("float", "any", low=0.0, high=1.0)

    def _fit(self, sample: Sample) -> None:
        from miscal.kernels.order import rising_rates, sorted_order

        order = sorted_order(sample.probability)
        sorted_scores = sample.probability[order]
        starts = np.flatnonzero(np.append(True, sorted_scores[1:] != sorted_scores[:-1]))
        weight = sample.weights[order]
        rates = np.empty(len(starts))
        rising_rates(np.add.reduceat(weight * sample.outcome[order], starts), np.add.reduceat(weight, starts), rates)
        # A block of one score has one knot, the others one at either end.
        change = rates[1:] != rates[:-1]
        ends = np.append(True, change) | np.append(change, True)
        self.knots_, self.values_ = sorted_scores[starts][ends], rates[ends]

    def _map(self, probability: Floats) -> Floats:
        knots = self.knots_
        if self.out_of_bounds == "raise" and probability.size:
            low, high = float(probability.min()), float(probability.max())
            if low < knots[0] or high > knots[-1]:
                what = f"must lie in [{knots[0]:g}, {knots[-1]:g}], the scores seen in fit"
                got = f"got {low if low < knots[0] else high:g}"
                raise refusal(what, where="'y_prob'", got=got, hint="or use out_of_bounds='clip'")
        return pairs(np.interp(probability, knots, self.values_))

    def _formula(self) -> nodes.Formula:
        if self.out_of_bounds == "raise":
            hint = "use out_of_bounds='clip'"
            raise refusal("cannot refuse scores", where="a formula", got="out_of_bounds is 'raise'", hint=hint)
        return nodes.Line(nodes.Probability(), tuple(self.knots_.tolist()), tuple(self.values_.tolist()))

    def _summary(self) -> str:
        return f"{len(self.knots_)} knots"


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

    fewest: ClassVar[int] = 2

    knots: int = parameter(whole, 2, 10_000, default=100)
    placement: str = parameter(one_of, ("probability", "quantile"), default="probability")
    outside: str = parameter(one_of, ("slope", "clamp"), default="slope")
    l2: float = parameter(number, 0.0, default=0.0)

    def _fit(self, sample: Sample) -> None:
        self.knots_ = self._placed(sample)
        self.values_ = fit_line(sample, self.knots_, clamp=self.outside == "clamp", l2=max(float(self.l2), RIDGE))

    def _placed(self, rows: Sample) -> Floats:
        shares = np.arange(1, self.knots + 1) / (self.knots + 1.0)
        if self.placement == "probability":
            return np.asarray(np.log(shares / (1.0 - shares)))
        held = np.clip(rows.probability, LOGIT_CLIP, 1.0 - LOGIT_CLIP)
        edges = quantile_edges(held, self.knots + 1, rows.weight)[1:-1]
        made = np.unique(np.log(edges) - np.log1p(-edges))
        if made.size < 2:  # hardly any distinct scores: one line through their middle
            middle = float(np.median(np.log(held) - np.log1p(-held)))
            return np.array([middle - 1.0, middle + 1.0])
        return np.asarray(made)

    def _map(self, probability: Floats) -> Floats:
        line = Line.of(probability, self.knots_, clamp=self.outside == "clamp")
        out = np.empty((len(probability), 2))
        values = locked(self.values_)
        over_blocks(len(probability), lambda i, j: kernels.line_map(line.place[i:j], line.part[i:j], values, out[i:j]))
        return out

    def _formula(self) -> nodes.Formula:
        knots, values = tuple(self.knots_.tolist()), tuple(self.values_.tolist())
        return nodes.Sigmoid(nodes.Line(nodes.logit(), knots, values, continued=self.outside == "slope"))

    def _summary(self) -> str:
        steps = np.diff(self.values_)
        return f"{len(self.knots_)} knots, flat over {np.count_nonzero(steps == 0)} of {len(steps)} pieces"


@dataclass(frozen=True)
class Line:
    """Where each score lies between the knots: the knot below it and the part of the way to the next."""

    place: npt.NDArray[np.int32]
    part: Floats

    @classmethod
    def of(cls, score: Floats, knots: Floats, *, clamp: bool) -> Line:
        """Find the places of scores."""
        rows, fixed = locked(score), locked(knots)
        place, part = np.empty(len(score), np.int32), np.empty(len(score))
        over_blocks(
            len(score), lambda i, j: kernels.line_places(rows[i:j], LOGIT_CLIP, fixed, clamp, place[i:j], part[i:j])
        )
        return cls(place, part)


def fit_line(rows: Sample, knots: Floats, *, clamp: bool, l2: float = RIDGE) -> Floats:
    """Values at the knots that minimise the log loss among all that never decrease."""
    steps = np.diff(knots)
    start = np.append(knots[0], steps)  # the identity
    thin = rows.thinned()
    if thin is not None:
        start = LineFit(thin, knots, clamp=clamp, l2=l2 * thin.total / rows.total).minimum(start)
    return np.cumsum(LineFit(rows, knots, clamp=clamp, l2=l2).minimum(start))


class LineFit:
    """Newton's method on the first value and the increments, which may not fall below 0."""

    def __init__(self, rows: Sample, knots: Floats, *, clamp: bool, l2: float) -> None:
        self.rows, self.steps, self.l2 = rows, np.diff(knots), l2
        self.line = Line.of(rows.probability, knots, clamp=clamp)

    def evaluate(self, theta: Floats) -> State:
        """Penalised loss, gradient and Hessian in the first value and the increments."""
        values = locked(np.cumsum(theta))
        line, rows, weight = self.line, self.rows, self.rows.weight_or_empty

        def work(i: int, j: int) -> Floats:
            out = np.zeros((4, len(theta)))
            kernels.line_pass(line.place[i:j], line.part[i:j], rows.outcome[i:j], weight[i:j], values, out)
            return out

        loss, gradient, diagonal, side = np.sum(over_blocks(rows.rows, work), axis=0)
        whole = np.diag(diagonal) + np.diag(side[:-1], 1) + np.diag(side[:-1], -1)
        # b = cumsum(theta): sums from the end, of the gradient once and of the Hessian on both sides.
        whole = np.cumsum(np.cumsum(whole[::-1, ::-1], axis=0), axis=1)[::-1, ::-1]
        off = theta[1:] - self.steps
        pull = self.l2 * off / self.steps
        total = float(loss[0]) + 0.5 * float(pull @ off)
        ridge = np.diag(np.append(0.0, self.l2 / self.steps))
        return total, np.cumsum(gradient[::-1])[::-1] + np.append(0.0, pull), whole + ridge

    def minimum(self, theta: Floats) -> Floats:
        """The optimum, from a point with increments that are not negative."""

        def step_at(at: Floats, state: State) -> tuple[Floats, bool]:
            step = at - _best_quadratic(at, state[1], state[2])
            return step, float(state[1] @ step) <= SETTLED * max(state[0], 1.0)

        found = descended(self.evaluate, theta, step_at)
        return np.append(found[0], np.maximum(found[1:], 0.0))


def _best_quadratic(theta: Floats, gradient: Floats, hessian: Floats) -> Floats:
    """Minimise the quadratic model of the loss among increments that are not negative.

    With H = R'R it is a least-squares problem in R; its first row, which alone holds the free first value, is met
    exactly, and the rest is least squares with non-negative unknowns.
    """
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import nnls

    scale = 1.0 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    scaled = hessian * np.outer(scale, scale)
    for jitter in (1e-15, 1e-13, 1e-11, 1e-9):  # a proximal term: it slows the last digits and moves no optimum
        try:
            root = cholesky(scaled + jitter * np.eye(len(theta)), lower=False)
            break
        except np.linalg.LinAlgError:
            continue
    else:
        root = np.eye(len(theta))
    target = root @ (theta / scale) - solve_triangular(root, scale * gradient, trans="T")
    rest, _ = nnls(root[1:, 1:], target[1:], maxiter=50 * len(theta))
    first = (target[0] - root[0, 1:] @ rest) / root[0, 0]
    return np.asarray(scale * np.append(first, rest))

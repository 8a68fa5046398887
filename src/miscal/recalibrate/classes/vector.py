"""Vector scaling: a slope and a shift for each class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from miscal.data.errors import warn
from miscal.recalibrate.base import Floats, Recalibrator, Sample, pairs
from miscal.recalibrate.classes.softmax import BLOCK, Rows, logs_of, softmax, summed, thinned
from miscal.recalibrate.export.formula import Formula, softmax_of
from miscal.recalibrate.fitting.logistic import SEPARATED
from miscal.recalibrate.fitting.newton import Evaluate, minimise
from miscal.recalibrate.state import Field


class VectorScaling(Recalibrator):
    """Scale and shift the logarithm of each class's probability (Guo et al. 2017).

    P_k is proportional to exp(w_k ln p_k + b_k), minimising the sum of log losses; p is held at 1e-12 or more. The last
    class has b = 0, because only differences count. Does not keep the ranking. A class that does not occur among
    the rows to fit on, and classes that are separated perfectly, have no finite optimum: the fit stops where the
    loss is flat, with a warning.

    Attributes
    ----------
    slopes_, shifts_ : (K,)

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.dirichlet(np.ones(3), 2000)
    >>> y = (y_prob.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    >>> VectorScaling().fit(y_prob, y).slopes_.round(1)
    array([1. , 0.9, 1.1])
    """

    fields: ClassVar[dict[str, Field]] = {
        "slopes_": Field("float", ("classes",)),
        "shifts_": Field("float", ("classes",)),
    }

    slopes_: Floats
    shifts_: Floats

    def _fit(self, sample: Sample) -> None:
        rows = Rows(sample)
        centre, scale = _standard(rows)
        share = (sample.class_weights() + 0.5) / (sample.total + 0.5 * sample.n_classes)
        start = np.concatenate([np.zeros(rows.classes), np.log(share / share[-1])])
        free = np.append(np.ones(2 * rows.classes - 1, dtype=bool), False)
        free[: rows.classes] = scale > 0
        penalty = np.zeros(2 * rows.classes)
        thin = thinned(sample)
        if thin is not None and (thin.class_weights() > 0).all():
            warm = minimise(_evaluator(Rows(thin), centre, scale), start, penalty, thin.total, free)
            start = start if warm.separated else warm.theta
        best = minimise(_evaluator(rows, centre, scale), start, penalty, rows.total, free)
        if best.separated:
            warn(SEPARATED.replace(" Pass l2=1 to fit a finite optimum", " DirichletCalibration has a finite optimum"))
        slopes = best.theta[: rows.classes] * scale
        shifts = best.theta[rows.classes :] - slopes * centre
        self.slopes_, self.shifts_ = slopes, shifts - shifts[-1]

    def _map(self, probability: Floats) -> Floats:
        matrix = pairs(probability) if probability.ndim == 1 else probability
        out = np.empty(matrix.shape)
        for start in range(0, len(matrix), BLOCK):
            part = slice(start, start + BLOCK)
            out[part] = softmax(logs_of(matrix[part]) * self.slopes_ + self.shifts_)[0]
        return out

    def _formula(self) -> Formula:
        return softmax_of(np.diag(self.slopes_), self.shifts_)

    def _summary(self) -> str:
        return f"slopes {self.slopes_.min():.3g} to {self.slopes_.max():.3g}"


def _standard(rows: Rows) -> tuple[Floats, Floats]:
    """Mean of each ln p, and 1 / its standard deviation (0 where it is constant)."""

    def work(start: int, stop: int) -> tuple[Floats, Floats]:
        logs, _, weight = rows.block(start, stop)
        return weight @ logs, weight @ (logs * logs)

    first, second = summed(rows.size, work)
    centre = first / rows.total
    variance = second / rows.total - centre * centre
    moving = variance > 1e-12 * (1.0 + centre * centre)
    return centre, np.where(moving, 1.0 / np.sqrt(np.where(moving, variance, 1.0)), 0.0)


def _evaluator(rows: Rows, centre: Floats, scale: Floats) -> Evaluate:
    classes = rows.classes

    def evaluate(theta: Floats) -> tuple[float, Floats, Floats]:
        def work(start: int, stop: int) -> tuple[float, Floats, Floats]:
            logs, happened, weight = rows.block(start, stop)
            features = (logs - centre) * scale
            scores = features * theta[:classes] + theta[classes:]
            likely, log_sum = softmax(scores)
            loss = float(weight @ (log_sum - (scores * happened).sum(axis=1)))
            off = (likely - happened) * weight[:, None]
            gradient = np.concatenate([(off * features).sum(axis=0), off.sum(axis=0)])
            both = np.concatenate([likely * features, likely], axis=1)
            hessian = -both.T @ (both * weight[:, None])
            weighted = likely * weight[:, None]
            own = np.arange(classes)
            crossed = (weighted * features).sum(axis=0)
            hessian[own, own] += (weighted * features * features).sum(axis=0)
            hessian[own, own + classes] += crossed
            hessian[own + classes, own] += crossed
            hessian[own + classes, own + classes] += weighted.sum(axis=0)
            return loss, gradient, hessian

        loss, gradient, hessian = summed(rows.size, work)
        return float(loss), gradient, hessian

    return evaluate
